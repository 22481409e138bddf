//! Paths of gNMI: from names and keys, with wildcards, to schema nodes.

use std::collections::BTreeMap;

use stoa_api::gnmi::{Path, PathElem};
use stoa_yang::renamed_names;
use tonic::Status;
use yang5::schema::{SchemaNode, SchemaNodeKind};

use crate::restconf::keys;
use crate::restconf::path::{Resource, STEPS_LIMIT, Step, data_path, is_schema_only, named};
use crate::restconf::query::{Defaults, Field};

/// The origin of this router's modules, which is also the default.
pub const ORIGIN: &str = "rfc7951";

/// Maximum number of `*` and `...` in one path: each may multiply the search.
pub const WILDCARDS_LIMIT: usize = 4;

/// A parsed path: a resource, and a pattern below it.
#[derive(Clone, Debug)]
pub struct PathPattern {
    /// The part with names and all keys.
    pub resource: Resource,
    /// The rest: wildcards, and lists without all keys.
    pub rest: Vec<Elem>,
    /// The schema nodes that match; empty: the root.
    pub ends: Vec<SchemaNode<'static>>,
    /// What is read below the resource; `None`: what the rest selects.
    pub only: Option<Vec<Field>>,
    /// Which defaults are read.
    pub defaults: Defaults,
}

/// An element of the pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elem {
    /// A node by name; missing keys match any value.
    Named {
        /// The module, if given or unambiguous.
        module: Option<String>,
        /// The name.
        name: String,
        /// Names and values of keys.
        keys: Vec<(String, String)>,
    },
    /// `*`: any node.
    One,
    /// `...`: any number of levels.
    Deep,
}

fn wrong(words: impl Into<String>) -> Status {
    Status::invalid_argument(words)
}

impl PathPattern {
    /// Everything at and below a resource.
    pub fn below(resource: Resource) -> PathPattern {
        let (rest, ends, only, defaults) = Default::default();
        PathPattern { resource, rest, ends, only, defaults }
    }

    /// Parses a path below a prefix.
    ///
    /// # Errors
    /// When the schema has no match, a key is unknown, or the path has an unsupported form.
    pub fn read(prefix: Option<&Path>, path: Option<&Path>) -> Result<PathPattern, Status> {
        let origin = origin(prefix, path)?;
        let parts = [prefix, path].map(|part| part.map_or(&[][..], |part| &part.elem));
        let mut elems: Vec<&PathElem> = parts.into_iter().flatten().collect();
        if elems.len() > STEPS_LIMIT {
            return Err(wrong(format!("the path has more than {STEPS_LIMIT} elements")));
        }
        // A node includes all nodes below it.
        while elems.last().is_some_and(|elem| elem.name == "...") {
            elems.pop();
        }
        let mut pattern = PathPattern::below(Resource::root());
        let mut nodes: Vec<Option<SchemaNode<'static>>> = vec![None];
        for elem in elems {
            nodes = pattern.go(elem, nodes, &origin)?;
        }
        pattern.ends = nodes.into_iter().flatten().collect();
        if pattern.resource.data_path().len() > keys::PATH_BYTES {
            return Err(wrong(format!("the path has more than {} bytes", keys::PATH_BYTES)));
        }
        Ok(pattern)
    }

    /// Follows one element from these schema nodes.
    fn go(
        &mut self,
        elem: &PathElem,
        from: Vec<Option<SchemaNode<'static>>>,
        origin: &str,
    ) -> Result<Vec<Option<SchemaNode<'static>>>, Status> {
        let PathElem { name, key } = elem;
        let texts = key.iter().flat_map(|(name, value)| [name, value]).chain([name]);
        if texts.into_iter().any(|text| text.contains('\0')) {
            return Err(wrong("the path contains a NUL character: remove it"));
        }
        if matches!(name.as_str(), "*" | "...") {
            if !key.is_empty() {
                return Err(wrong(format!("{name} cannot have keys: use the name of the list")));
            }
            let is_one = name == "*";
            // Consecutive `...` are the same as one.
            if !is_one && self.rest.last() == Some(&Elem::Deep) {
                return Ok(from);
            }
            self.rest.push(if is_one { Elem::One } else { Elem::Deep });
            let is_wild = |elem: &&Elem| matches!(elem, Elem::One | Elem::Deep);
            if self.rest.iter().filter(is_wild).count() > WILDCARDS_LIMIT {
                let words =
                    format!("the path has more than {WILDCARDS_LIMIT} wildcards (* and ...)");
                return Err(wrong(words));
            }
            return Ok(if is_one { children(&from, origin) } else { descendants(from, origin) });
        }
        let (module, name) = match name.split_once(':') {
            Some((module, name)) => (Some(module), name),
            None => (None, name.as_str()),
        };
        let found = self.named(&from, module, name, origin)?;
        let fits = |node: &SchemaNode<'static>| has_keys(node, key);
        if !found.iter().any(fits) {
            return Err(no_such_key(&found, key));
        }
        let found: Vec<_> = found.into_iter().filter(fits).collect();
        if let Some(odd) = key.values().find(|value| !keys::is_clear(value)) {
            return Err(wrong(format!("a key cannot contain both kinds of quotes: {odd}")));
        }
        let renamed = |node: &SchemaNode<'static>| {
            key.iter().find_map(|(name, value)| keys::renamed(node, name, value))
        };
        if let Some(words) = found.iter().find_map(renamed) {
            return Err(wrong(words));
        }
        if let ([node], true) = (found.as_slice(), self.rest.is_empty())
            && let Some(keys) = all_keys(node, key)
        {
            let module = node.module().name().to_owned();
            self.resource.steps.push(Step { module, name: name.to_owned(), keys });
            self.resource.node = Some(node.clone());
        } else {
            let clear = match found.as_slice() {
                [node] => Some(node.module().name().to_owned()),
                _ => module.map(str::to_owned),
            };
            let keys = key.iter().filter(|(_, value)| *value != "*");
            let keys = keys.map(|(name, value)| (name.clone(), value.clone())).collect();
            self.rest.push(Elem::Named { module: clear, name: name.to_owned(), keys });
        }
        Ok(found.into_iter().map(Some).collect())
    }

    /// The nodes of this name below others.
    fn named(
        &self,
        from: &[Option<SchemaNode<'static>>],
        module: Option<&str>,
        name: &str,
        origin: &str,
    ) -> Result<Vec<SchemaNode<'static>>, Status> {
        let mut found = Vec::new();
        for parent in from {
            let mut own = children(std::slice::from_ref(parent), origin);
            own.retain(|node| node.as_ref().is_some_and(|node| is(node, module, name)));
            let mut own: Vec<_> = own.into_iter().flatten().collect();
            // The module of the parent takes precedence over augmenting modules.
            let above = parent.as_ref().map(|parent| parent.module().name().to_owned());
            if let Some(at) =
                own.iter().position(|node| Some(node.module().name()) == above.as_deref())
            {
                own = vec![own.swap_remove(at)];
            }
            found.append(&mut own);
        }
        let shown = || module.map_or_else(|| name.to_owned(), |module| format!("{module}:{name}"));
        let above = self.resource.data_path();
        match found.len() {
            0 => {
                let parents = from.iter().flatten().map(|parent| parent.name());
                let renamed = renamed_names::step(parents, &shown());
                let fix = renamed.map(|fix| format!(". {fix}")).unwrap_or_default();
                Err(wrong(format!("there is no node {} below {above} in the schema{fix}", shown())))
            }
            1 => Ok(found),
            _ if self.rest.is_empty() => {
                let names = found.iter().map(|node| format!("{}:{name}", node.module().name()));
                let names = names.collect::<Vec<_>>().join(" or ");
                Err(wrong(format!("{name} below {above} is ambiguous: use {names}")))
            }
            _ => Ok(found),
        }
    }

    /// The path for a read of the forwarder's state: names alone, as far as they are known.
    pub fn facts_path(&self) -> String {
        let mut path = match self.resource.is_root() {
            true => String::new(),
            false => data_path(&self.resource.steps),
        };
        for elem in &self.rest {
            let Elem::Named { name, .. } = elem else { break };
            path.push('/');
            path.push_str(name);
        }
        if path.is_empty() { "/".to_owned() } else { path }
    }

    /// Whether it may match state, not only configuration.
    pub fn has_facts(&self) -> bool {
        let is_value = |node: &SchemaNode<'_>| {
            matches!(node.kind(), SchemaNodeKind::Leaf | SchemaNodeKind::LeafList)
        };
        self.ends.is_empty()
            || self.ends.iter().any(|node| !(node.is_config() && is_value(node)))
                && !stoa_controller::state::StateRequest::at(&self.facts_path()).is_empty()
    }

    /// The selection below the resource, if names can express it.
    pub fn fields(&self) -> Option<Vec<Field>> {
        if self.only.is_some() {
            return self.only.clone();
        }
        let mut below = Vec::new();
        for elem in self.rest.iter().rev() {
            let Elem::Named { module, name, .. } = elem else { return None };
            below = vec![Field { module: module.clone(), name: name.clone(), below }];
        }
        (!below.is_empty()).then_some(below)
    }

    /// Whether both match the same nodes.
    pub fn is_same(&self, other: &PathPattern) -> bool {
        self.resource.steps == other.resource.steps && self.rest == other.rest
    }

    /// Whether it matches exactly one node.
    pub fn is_one(&self) -> bool {
        self.rest.is_empty()
    }
}

/// The origin of a path: empty or the name of a module.
fn origin(prefix: Option<&Path>, path: Option<&Path>) -> Result<String, Status> {
    for part in [prefix, path].into_iter().flatten() {
        #[allow(deprecated)]
        if !part.element.is_empty() {
            return Err(wrong("the path field \"element\" is deprecated: use \"elem\""));
        }
    }
    if path.is_some_and(|path| !path.target.is_empty()) {
        return Err(wrong("a path has a target: put it into the prefix"));
    }
    let given = [prefix, path].map(|part| part.map_or("", |part| part.origin.as_str()));
    let origin = match given {
        [above, ""] => above,
        ["", below] => below,
        [above, below] if above == below => below,
        _ => return Err(wrong("prefix and path have different origins")),
    };
    if ["", ORIGIN].contains(&origin) {
        return Ok(String::new());
    }
    let is_known = !origin.contains('\0')
        && stoa_yang::schema().context().get_module_implemented(origin).is_some();
    match is_known {
        true => Ok(origin.to_owned()),
        false => Err(wrong(format!(
            "origin {origin:?} is not supported: leave it empty, or use {ORIGIN} or the name of a module"
        ))),
    }
}

fn is(node: &SchemaNode<'_>, module: Option<&str>, name: &str) -> bool {
    node.name() == name && module.is_none_or(|module| node.module().name() == module)
}

/// All data nodes directly below these.
fn children(
    from: &[Option<SchemaNode<'static>>],
    origin: &str,
) -> Vec<Option<SchemaNode<'static>>> {
    let is_of = |node: &SchemaNode<'_>| ["", node.module().name()].contains(&origin);
    let one = |parent: &Option<SchemaNode<'static>>| {
        let mut found = in_data(parent.as_ref());
        if parent.is_none() {
            found.retain(is_of);
        }
        found
    };
    from.iter().flat_map(one).map(Some).collect()
}

/// All data nodes directly below a node; `None`: at the top.
pub fn in_data(parent: Option<&SchemaNode<'static>>) -> Vec<SchemaNode<'static>> {
    let mut found = Vec::new();
    match parent {
        Some(parent) => collect(parent.children(), &mut found),
        None => {
            let modules = stoa_yang::schema().context().modules(false);
            for module in modules.filter(|module| module.is_implemented()) {
                collect(module.data(), &mut found);
            }
        }
    }
    found
}

fn collect(nodes: impl Iterator<Item = SchemaNode<'static>>, found: &mut Vec<SchemaNode<'static>>) {
    for node in nodes {
        match is_schema_only(&node) {
            true => collect(node.children(), found),
            false => found.push(node),
        }
    }
}

/// These nodes and all below them, each once.
fn descendants(
    from: Vec<Option<SchemaNode<'static>>>,
    origin: &str,
) -> Vec<Option<SchemaNode<'static>>> {
    let mut seen = std::collections::HashSet::new();
    let (mut found, mut level) = (Vec::new(), from);
    while !level.is_empty() {
        level.retain(|node| seen.insert(node.as_ref().map(|node| node.as_raw() as usize)));
        let below = children(&level, origin);
        found.append(&mut level);
        level = below;
    }
    found
}

/// Names of the keys of a list; of a leaf-list `.`.
pub fn key_names(node: &SchemaNode<'_>) -> Vec<String> {
    match node.kind() {
        SchemaNodeKind::List => node.list_keys().map(|key| key.name().to_owned()).collect(),
        SchemaNodeKind::LeafList => vec![".".to_owned()],
        _ => Vec::new(),
    }
}

fn has_keys(node: &SchemaNode<'_>, given: &BTreeMap<String, String>) -> bool {
    let names = key_names(node);
    given.keys().all(|name| names.contains(name))
}

fn no_such_key(found: &[SchemaNode<'_>], given: &BTreeMap<String, String>) -> Status {
    let Some(node) = found.first() else { return wrong("no such node") };
    let names = key_names(node);
    let odd = given.keys().find(|name| !names.contains(name)).cloned().unwrap_or_default();
    match names.is_empty() {
        true => wrong(format!("{} has no keys", node.name())),
        false => {
            wrong(format!("{} has no key {odd}: its keys are {}", node.name(), names.join(", ")))
        }
    }
}

/// The keys of one entry in schema order; `None`: the node is a list, and keys are missing.
fn all_keys(
    node: &SchemaNode<'_>,
    given: &BTreeMap<String, String>,
) -> Option<Vec<(String, String)>> {
    let names = key_names(node);
    // Entries of a keyless list cannot be addressed.
    if names.is_empty() && node.kind() == SchemaNodeKind::List {
        return None;
    }
    let value = |name: String| {
        let value = given.get(&name).filter(|value| *value != "*")?.clone();
        Some((name, value))
    };
    names.into_iter().map(value).collect()
}

/// The gNMI path of these steps, with the module where it changes.
pub fn to_gnmi(steps: &[Step]) -> Path {
    let elem = named(steps).map(|(name, step)| PathElem {
        name: name.into_owned(),
        key: step.keys.iter().cloned().collect(),
    });
    Path { elem: elem.collect(), ..Path::default() }
}
