//! Defined sets: the values of each with those of the sets that it includes, joined into as few as possible.
//!
//! Prefixes and ranges of a set are apart from each other and in ascending order. So a prefix is within the set if and
//! only if one of its prefixes contains it, and a rule has no more entries than it needs.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use ipnet::IpNet;
use stoa_api::acl::{ENTRIES, VALUES};
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use super::paths::set_path;
use crate::config::model::{DefinedSet, DefinedSets, PortOrRange};

/// The sets of a kind by name.
type ByName<V> = HashMap<String, Rc<[V]>>;

/// All sets. One that is wrong is missing.
#[derive(Default)]
pub(super) struct Sets {
    /// Prefixes of IPv4 and of IPv6.
    prefixes: [ByName<IpNet>; 2],
    ports: ByName<v1::PortRange>,
    protocols: ByName<u32>,
}

impl Sets {
    /// Expands the sets of a configuration.
    pub(super) fn new(given: &DefinedSets, errors: &mut ValidationErrors) -> Self {
        let mut expanding = Expanding { left: Some(4 * VALUES), errors };
        let DefinedSets { ipv4_prefix_sets, ipv6_prefix_sets, port_sets, protocol_sets } = given;
        let net = |_: &str, prefix: &String, _: &mut ValidationErrors| {
            // libyang has checked it.
            prefix.parse::<IpNet>().ok().map(|net| net.trunc())
        };
        let number = |_: &str, number: &u32, _: &mut ValidationErrors| Some(*number);
        let prefixes = [("ipv4", ipv4_prefix_sets), ("ipv6", ipv6_prefix_sets)].map(|(of, it)| {
            let kind = format!("{of}-prefix-sets/prefix-set");
            expanding.all(&kind, &it.sets, net, |nets| IpNet::aggregate(&nets))
        });
        Self {
            prefixes,
            ports: expanding.all("port-sets/port-set", &port_sets.sets, range, joined),
            protocols: expanding.all(
                "protocol-sets/protocol-set",
                &protocol_sets.sets,
                number,
                sorted,
            ),
        }
    }

    /// The prefixes of a set of a family; `None`: it is wrong.
    pub(super) fn prefixes(&self, is_ip4: bool, name: &str) -> Option<&[IpNet]> {
        self.prefixes[usize::from(!is_ip4)].get(name).map(AsRef::as_ref)
    }

    /// The ranges of a set of ports; `None`: it is wrong.
    pub(super) fn ports(&self, name: &str) -> Option<&[v1::PortRange]> {
        self.ports.get(name).map(AsRef::as_ref)
    }

    /// The numbers of a set of protocols; `None`: it is wrong.
    pub(super) fn protocols(&self, name: &str) -> Option<&[u32]> {
        self.protocols.get(name).map(AsRef::as_ref)
    }
}

/// A range of ports as the configuration has it.
fn range(path: &str, given: &PortOrRange, errors: &mut ValidationErrors) -> Option<v1::PortRange> {
    let text = match given {
        PortOrRange::Port(port) => return Some(v1::PortRange { first: *port, last: *port }),
        PortOrRange::Range(text) => text,
    };
    let (first, last) = text.split_once('-')?;
    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    if first > last || last > u32::from(u16::MAX) {
        let cause = match first > last {
            true => format!("the first port of {text} is greater than the last one"),
            false => format!("{last} is no port: the greatest is 65535"),
        };
        errors.add(
            path,
            cause,
            "Write the lower port, a hyphen and the higher port, as 8000-8080.",
        );
        return None;
    }
    Some(v1::PortRange { first, last })
}

/// Finds a wrong range of ports in the data path of a value, as `.../port-set[name='a']/port[.='9000-8000']`: a pattern
/// of YANG cannot compare its ends.
pub(crate) fn check_path(path: &str, errors: &mut ValidationErrors) {
    let Some((set, value)) = path.rsplit_once("/port[.=") else { return };
    let value = value.trim_end_matches(']').trim_matches(['\'', '"']);
    if set.contains("/port-sets/") && value.contains('-') {
        range(path, &PortOrRange::Range(value.to_owned()), errors);
    }
}

/// Ranges in ascending order, with a gap between any two of them.
fn joined(mut ranges: Vec<v1::PortRange>) -> Vec<v1::PortRange> {
    ranges.sort_by_key(|range| (range.first, range.last));
    let mut joined: Vec<v1::PortRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut().filter(|last| range.first <= last.last + 1) {
            Some(last) => last.last = last.last.max(range.last),
            None => joined.push(range),
        }
    }
    joined
}

fn sorted(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Sets that are expanded.
struct Expanding<'a> {
    /// How many values the sets may still have; `None`: they have had too many.
    left: Option<usize>,
    errors: &'a mut ValidationErrors,
}

impl Expanding<'_> {
    /// Expands the sets of a kind: those that include none first. What is left over then are circles, and what includes
    /// them.
    fn all<T, V: Clone>(
        &mut self,
        kind: &str,
        given: &[DefinedSet<T>],
        read: impl Fn(&str, &T, &mut ValidationErrors) -> Option<V>,
        join: impl Fn(Vec<V>) -> Vec<V>,
    ) -> ByName<V> {
        let by_name: HashMap<&str, &DefinedSet<T>> =
            given.iter().map(|set| (set.name.as_str(), set)).collect();
        let mut missing: HashMap<&str, usize> = HashMap::new();
        let mut including: HashMap<&str, Vec<&DefinedSet<T>>> = HashMap::new();
        for set in given {
            // libyang has checked that they exist.
            let included = set.include.iter().filter(|it| by_name.contains_key(it.as_str()));
            missing.insert(&set.name, included.clone().count());
            included.for_each(|it| including.entry(it).or_default().push(set));
        }
        let mut ready: Vec<&DefinedSet<T>> =
            given.iter().filter(|set| missing.get(set.name.as_str()) == Some(&0)).collect();
        let mut expanded = ByName::new();
        while let Some(set) = ready.pop() {
            missing.remove(set.name.as_str());
            let path = set_path(kind, &set.name);
            let own = set.values.iter();
            let mut values: Vec<V> = own.filter_map(|it| read(&path, it, self.errors)).collect();
            let included = set.include.iter().filter_map(|it| expanded.get(it));
            included.for_each(|it: &Rc<[V]>| values.extend_from_slice(it));
            if let Some(values) = self.checked(&path, join(values)) {
                expanded.insert(set.name.clone(), values.into());
            }
            for other in including.get(set.name.as_str()).into_iter().flatten() {
                let Some(count) = missing.get_mut(other.name.as_str()) else { continue };
                *count -= 1;
                if *count == 0 {
                    ready.push(other);
                }
            }
        }
        self.add_circles(kind, &by_name, &missing);
        expanded
    }

    /// The values of a set, if they are not too many.
    fn checked<V>(&mut self, path: &str, values: Vec<V>) -> Option<Vec<V>> {
        let count = values.len();
        if count > ENTRIES {
            let cause = format!("the set has {count} values, more than {ENTRIES}");
            self.errors.add(path, cause, "Use prefixes or ranges that cover several of them.");
            return None;
        }
        let before = self.left?;
        self.left = before.checked_sub(count);
        if self.left.is_none() {
            let cause = format!(
                "this set and others before it have more than {} values, with those of the sets that they include",
                4 * VALUES
            );
            self.errors.add(path, cause, "Include large sets in fewer others.");
        }
        self.left.map(|_| values)
    }

    /// Names each circle once, by its sets in their order.
    fn add_circles<T>(
        &mut self,
        kind: &str,
        by_name: &HashMap<&str, &DefinedSet<T>>,
        left: &HashMap<&str, usize>,
    ) {
        let mut names: Vec<&str> = left.keys().copied().collect();
        names.sort_unstable();
        let mut met: HashSet<&str> = HashSet::new();
        for from in names {
            // Each of them includes another one of them: a walk ends where it or a former one has been.
            let (mut way, mut at) = (Vec::new(), from);
            while met.insert(at) {
                way.push(at);
                let mut included = by_name.get(at).into_iter().flat_map(|set| &set.include);
                let Some(next) = included.find(|it| left.contains_key(it.as_str())) else { break };
                at = next;
            }
            let Some(begin) = way.iter().position(|name| *name == at) else { continue };
            let circle = [&way[begin..], &[at]].concat().join(" -> ");
            self.errors.add(
                format!("{}/include", set_path(kind, at)),
                format!("sets include each other in a circle: {circle}"),
                "Remove one of these includes.",
            );
        }
    }
}

#[cfg(test)]
mod tests;
