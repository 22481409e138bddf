//! A parsed OpenConfig path: which rows of the table it selects, and what of the IETF data they need.

use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::Value;
use stoa_api::gnmi::{Path, PathElem};
use tonic::Status;

use super::source::{Part, Source};
use super::table::{Row, rows};
use crate::gnmi::path::{Elem, PathPattern, WILDCARDS_LIMIT};
use crate::restconf::path::{STEPS_LIMIT, Step};
use crate::restconf::query::{Defaults, Field};

/// The origin of OpenConfig paths.
pub const ORIGIN: &str = "openconfig";

/// A leaf of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// The steps from the root, with keys.
    pub steps: Vec<Step>,
    /// Its value.
    pub value: Value,
    /// Whether it changes all the time.
    pub is_fast: bool,
}

impl Leaf {
    /// Its approximate size in bytes: of its steps with their modules and keys, and of its value.
    pub fn bytes(&self) -> usize {
        let key = |(name, value): &(String, String)| name.len() + value.len() + 6;
        let step = |step: &Step| {
            step.module.len() + step.name.len() + 4 + step.keys.iter().map(key).sum::<usize>()
        };
        let value = self.value.as_str().map_or(8, str::len);
        self.steps.iter().map(step).sum::<usize>() + value + 16
    }
}

/// A path, with the rows of the table at or below it.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The pattern.
    pub elems: Vec<Elem>,
    rows: Vec<&'static Row>,
    /// The data to read.
    pub reads: Vec<(Part, Arc<PathPattern>)>,
}

/// A path that is not in the table.
#[derive(Debug)]
pub struct Unmapped {
    /// The error.
    pub status: Status,
    /// Number of elements that the table has.
    pub matched: usize,
}

/// Whether a path names OpenConfig, by its origin or by the module of its first element.
pub fn is_named(prefix: Option<&Path>, path: Option<&Path>) -> bool {
    let parts = || [prefix, path].into_iter().flatten();
    let is_ours = |origin: &str| origin == ORIGIN || origin.starts_with("openconfig-");
    let first = parts().flat_map(|part| &part.elem).next();
    parts().any(|part| is_ours(&part.origin))
        || first.is_some_and(|elem| elem.name.starts_with("openconfig-"))
}

/// Whether a path has no origin.
pub fn has_no_origin(prefix: Option<&Path>, path: Option<&Path>) -> bool {
    [prefix, path].into_iter().flatten().all(|part| part.origin.is_empty())
}

impl Selection {
    /// Parses a path below a prefix.
    ///
    /// # Errors
    /// When the table has no such path.
    pub fn read(prefix: Option<&Path>, path: Option<&Path>) -> Result<Selection, Unmapped> {
        let parts = [prefix, path].map(|part| part.map_or(&[][..], |part| &part.elem));
        let given: Vec<&PathElem> = parts.into_iter().flatten().collect();
        let is_wild = |elem: &&PathElem| matches!(elem.name.as_str(), "*" | "...");
        if given.iter().any(|elem| is_wild(elem) && !elem.key.is_empty()) {
            let words = "* and ... cannot have keys: use the name of the list";
            return Err(Unmapped { status: Status::invalid_argument(words), matched: 0 });
        }
        let mut elems: Vec<Elem> = given.into_iter().map(elem).collect();
        while elems.last() == Some(&Elem::Deep) {
            elems.pop();
        }
        // Consecutive `...` are the same as one.
        elems.dedup_by(|one, other| *one == Elem::Deep && *other == Elem::Deep);
        let wildcards = elems.iter().filter(|elem| matches!(elem, Elem::One | Elem::Deep)).count();
        if elems.len() > STEPS_LIMIT || wildcards > WILDCARDS_LIMIT {
            let words = format!(
                "an OpenConfig path has at most {STEPS_LIMIT} elements and {WILDCARDS_LIMIT} wildcards (* and ...)"
            );
            return Err(Unmapped { status: Status::invalid_argument(words), matched: elems.len() });
        }
        let rows: Vec<&Row> =
            rows().iter().filter(|row| !ends(&elems, &row.steps, false).is_empty()).collect();
        if rows.is_empty() {
            return Err(unmapped(&elems));
        }
        let reads = reads(&elems, &rows);
        Ok(Selection { elems, rows, reads })
    }

    /// Passes the leaves of one part of the data that the path selects to `see`, one by one, as there may be many of
    /// them. It goes on as long as `see` continues.
    pub fn each_leaf(
        &self,
        part: Part,
        data: Option<&Value>,
        see: &mut dyn FnMut(Leaf) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some(data) = data else { return ControlFlow::Continue(()) };
        let rows: Vec<_> = self.rows.iter().filter(|row| row.source.part() == part).collect();
        for of_source in rows.chunk_by(|one, other| one.source == other.source) {
            for entry in of_source[0].source.entries(data) {
                for row in of_source {
                    let found =
                        row.ietf.split('/').try_fold(&*entry.value, |here, name| here.get(name));
                    let value = found.and_then(|value| row.form.convert(value, &entry.keys));
                    let Some(value) = value else { continue };
                    let steps = row.steps_of(&entry.keys);
                    if !ends(&self.elems, &steps, true).is_empty() {
                        see(Leaf { steps, value, is_fast: row.form.is_fast() })?;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// The leaves of one part of the data that the path selects. `left` bytes are left for them, by [`Leaf::bytes`].
    /// Returns them with what is then left; `None`: it is not enough.
    pub fn leaves(
        &self,
        part: Part,
        data: Option<&Value>,
        mut left: usize,
    ) -> Option<(Vec<Leaf>, usize)> {
        let mut leaves = Vec::new();
        let flow = self.each_leaf(part, data, &mut |leaf| {
            let Some(rest) = left.checked_sub(leaf.bytes()) else { return ControlFlow::Break(()) };
            left = rest;
            leaves.push(leaf);
            ControlFlow::Continue(())
        });
        flow.is_continue().then_some((leaves, left))
    }

    /// The nodes that the path matches on the way to a leaf, by their number of steps.
    pub fn ends(&self, steps: &[Step]) -> Vec<usize> {
        ends(&self.elems, steps, true)
    }

    /// Whether it matches exactly one node.
    pub fn is_one(&self) -> bool {
        let has_all_keys = |(elem, step): (&Elem, &Step)| match elem {
            Elem::Named { keys, .. } => keys.len() == step.keys.len(),
            Elem::One | Elem::Deep => false,
        };
        let first = self.rows.first();
        first.is_some_and(|row| self.elems.iter().zip(&row.steps).all(has_all_keys))
    }

    /// The path as text, for errors.
    pub fn text(&self) -> String {
        text(&self.elems)
    }

    /// The IETF path of the first row.
    pub fn ietf(&self) -> String {
        self.rows.first().map(|row| row.ietf_path()).unwrap_or_default()
    }
}

fn elem(elem: &PathElem) -> Elem {
    match elem.name.as_str() {
        "*" => Elem::One,
        "..." => Elem::Deep,
        name => {
            let (module, name) = match name.split_once(':') {
                Some((module, name)) => (Some(module.to_owned()), name),
                None => (None, name),
            };
            let given = elem.key.iter().filter(|(_, value)| *value != "*");
            // Identities may have their module.
            let plain = |key: &str, value: &str| match key {
                "identifier" => value.rsplit(':').next().unwrap_or(value).to_owned(),
                _ => value.to_owned(),
            };
            let keys = given.map(|(key, value)| (key.clone(), plain(key, value))).collect();
            Elem::Named { module, name: name.to_owned(), keys }
        }
    }
}

/// The lengths at which the pattern matches the beginning of these steps. `has_values`: keys have values, not only
/// names.
fn ends(elems: &[Elem], steps: &[Step], has_values: bool) -> Vec<usize> {
    let mut found = Vec::new();
    search(elems, steps, has_values, 0, &mut found);
    found.sort_unstable();
    found.dedup();
    found
}

fn search(elems: &[Elem], steps: &[Step], has_values: bool, at: usize, found: &mut Vec<usize>) {
    let Some((first, rest)) = elems.split_first() else {
        found.push(at);
        return;
    };
    if *first == Elem::Deep {
        (at..=steps.len()).for_each(|next| search(rest, steps, has_values, next, found));
        return;
    }
    if steps.get(at).is_some_and(|step| is_match(first, step, has_values)) {
        search(rest, steps, has_values, at + 1, found);
    }
}

fn is_match(elem: &Elem, step: &Step, has_values: bool) -> bool {
    let Elem::Named { module, name, keys } = elem else { return true };
    let has_key = |(name, value): &(String, String)| {
        step.keys.iter().any(|(key, own)| key == name && (!has_values || own == value))
    };
    step.name == *name
        && module.as_ref().is_none_or(|module| step.module == *module)
        && keys.iter().all(has_key)
}

fn text(elems: &[Elem]) -> String {
    let one = |elem: &Elem| match elem {
        Elem::One => "/*".to_owned(),
        Elem::Deep => "/...".to_owned(),
        Elem::Named { module, name, keys } => {
            let module = module.as_ref().map(|module| format!("{module}:")).unwrap_or_default();
            let keys = keys.iter().map(|(name, value)| format!("[{name}={value}]"));
            format!("/{module}{name}{}", keys.collect::<String>())
        }
    };
    elems.iter().map(one).collect()
}

/// The error for a path that no row has: it names the nearest one.
fn unmapped(elems: &[Elem]) -> Unmapped {
    let matched = |row: &Row| {
        (0..=elems.len()).rev().find(|count| !ends(&elems[..*count], &row.steps, false).is_empty())
    };
    let last = elems.iter().rev().find_map(|elem| match elem {
        Elem::Named { name, .. } => Some(name.as_str()),
        _ => None,
    });
    let alike = |row: &Row| {
        let own = row.steps.last().map_or("", |step| &step.name);
        let common = own.bytes().zip(last.unwrap_or_default().bytes());
        common.take_while(|(one, other)| one == other).count()
    };
    // The first of equals.
    let best = rows().iter().rev().max_by_key(|row| (matched(row), alike(row)));
    let Some(best) = best else {
        return Unmapped { status: Status::internal("the table is empty"), matched: 0 };
    };
    let words = format!(
        "the OpenConfig path {} is not mapped: the nearest one that is, is {} (IETF: {}); \
         all of them are in the guide, page gNMI with OpenConfig paths",
        text(elems),
        best.path(),
        best.ietf_path()
    );
    Unmapped { status: Status::invalid_argument(words), matched: matched(best).unwrap_or(0) }
}

/// What to read for these rows.
fn reads(elems: &[Elem], rows: &[&'static Row]) -> Vec<(Part, Arc<PathPattern>)> {
    let mut parts: Vec<Part> = rows.iter().map(|row| row.source.part()).collect();
    parts.sort_unstable();
    parts.dedup();
    let read = |part| match part {
        Part::Interfaces => interfaces(elems, rows),
        Part::Protocols => {
            let read = pattern("ietf-routing:routing/control-plane-protocols", None)?;
            // Not the static routes, of which there may be many.
            let names = ["type", "name", "stoa-vrf:vrf", "stoa-routing:route-source"];
            let below = names.map(|name| field(name, Vec::new())).into();
            let only = Some(vec![field("control-plane-protocol", below)]);
            // The address of the session has a default.
            Some(PathPattern { defaults: Defaults::ReportAll, only, ..read })
        }
        Part::Ribs => {
            let routes = pattern("ietf-routing:routing/ribs/rib/routes", None)?;
            Some(PathPattern { ends: routes.ends, ..pattern("ietf-routing:routing/ribs", None)? })
        }
    };
    parts.into_iter().filter_map(|part| Some((part, Arc::new(read(part)?)))).collect()
}

/// The pattern of an IETF path; the last element gets a key.
fn pattern(path: &str, key: Option<(&str, &str)>) -> Option<PathPattern> {
    let elem = |name: &str| PathElem { name: name.to_owned(), ..PathElem::default() };
    let mut elems: Vec<PathElem> = path.split('/').map(elem).collect();
    if let (Some(last), Some((name, value))) = (elems.last_mut(), key) {
        last.key.insert(name.to_owned(), value.to_owned());
    }
    PathPattern::read(None, Some(&Path { elem: elems, ..Path::default() })).ok()
}

/// The interfaces with what these rows need, without their neighbours, of which there may be many.
fn interfaces(elems: &[Elem], rows: &[&'static Row]) -> Option<PathPattern> {
    let of_part = rows.iter().filter(|row| row.source.part() == Part::Interfaces);
    let (mut names, mut is_ports_only) = (vec!["name", "type", "lower-layer-if"], true);
    names.push("stoa-interfaces:sub-interface");
    for row in of_part {
        is_ports_only &= row.source == Source::Interface;
        names.push(match row.source {
            Source::Address4 => "ietf-ip:ipv4",
            Source::Address6 => "ietf-ip:ipv6",
            _ => row.ietf.split('/').next().unwrap_or_default(),
        });
    }
    names.push("if-index");
    names.sort_unstable();
    names.dedup();
    let below = |name: &str| match name {
        "ietf-ip:ipv4" | "ietf-ip:ipv6" => vec![field("address", Vec::new())],
        _ => Vec::new(),
    };
    let fields: Vec<Field> = names.iter().map(|name| field(name, below(name))).collect();
    let state = pattern("ietf-interfaces:interfaces/interface/statistics", None)?;
    let name = elems.iter().find_map(|elem| match elem {
        Elem::Named { name, keys, .. } if name == "interface" => keys.first(),
        _ => None,
    });
    let whole = match name.filter(|_| is_ports_only) {
        Some((_, name)) => {
            let one = pattern("ietf-interfaces:interfaces/interface", Some(("name", name)))?;
            PathPattern { only: Some(fields), rest: state.rest[1..].to_vec(), ..one }
        }
        None => {
            let all = pattern("ietf-interfaces:interfaces", None)?;
            let fields = vec![field("interface", fields)];
            PathPattern { only: Some(fields), rest: state.rest, ..all }
        }
    };
    Some(PathPattern { ends: state.ends, ..whole })
}

fn field(name: &str, below: Vec<Field>) -> Field {
    let (module, name) = match name.split_once(':') {
        Some((module, name)) => (Some(module.to_owned()), name),
        None => (None, name),
    };
    Field { module, name: name.to_owned(), below }
}
