//! Walks JSON data along the schema: finds the matches of a path, and the values below them.

use std::collections::HashSet;

use serde_json::Value;
use yang5::schema::{SchemaNode, SchemaNodeKind};

use super::path::{Elem, PathPattern, key_names};
use crate::restconf::path::{self, Step};

/// A node that matches a path.
#[derive(Debug)]
pub struct Found<'a> {
    /// The steps from the root.
    pub steps: Vec<Step>,
    /// The schema node; `None`: the root.
    pub node: Option<SchemaNode<'static>>,
    /// The value; for a list, one entry.
    pub value: &'a Value,
}

/// A value as the text of a key.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// All matches of a path; `value` is the value at its resource.
pub fn find<'a>(pattern: &PathPattern, value: &'a Value) -> Vec<Found<'a>> {
    let is_deep = pattern.rest.contains(&Elem::Deep);
    let mut search = Search {
        steps: pattern.resource.steps.clone(),
        found: Vec::new(),
        seen: is_deep.then(HashSet::new),
    };
    search.go(pattern.resource.node.as_ref(), value, &pattern.rest);
    search.found
}

struct Search<'a> {
    steps: Vec<Step>,
    found: Vec<Found<'a>>,
    /// Visited nodes, each with the rest of the pattern: with `...`, many branches lead to the same node, and each
    /// would be walked. `None`: the pattern has no `...`.
    seen: Option<HashSet<(*const Value, usize)>>,
}

impl<'a> Search<'a> {
    fn go(&mut self, node: Option<&SchemaNode<'static>>, value: &'a Value, rest: &[Elem]) {
        let here = (std::ptr::from_ref(value), rest.len());
        if self.seen.as_mut().is_some_and(|seen| !seen.insert(here)) {
            return;
        }
        let Some((first, after)) = rest.split_first() else {
            let (steps, node) = (self.steps.clone(), node.cloned());
            self.found.push(Found { steps, node, value });
            return;
        };
        if *first == Elem::Deep {
            self.go(node, value, after);
        }
        let Some(members) = value.as_object() else { return };
        for (member, value) in members {
            let Some(child) = below(node, member) else { continue };
            for (step, value) in entries(&child, value) {
                let is_meant = match first {
                    Elem::Deep | Elem::One => true,
                    Elem::Named { module, name, keys } => {
                        step.name == *name
                            && module.as_ref().is_none_or(|module| step.module == *module)
                            && keys.iter().all(|key| step.keys.contains(key))
                    }
                };
                if is_meant {
                    self.steps.push(step);
                    let next = if *first == Elem::Deep { rest } else { after };
                    self.go(Some(&child), value, next);
                    self.steps.pop();
                }
            }
        }
    }
}

/// The schema node of a member in RFC 7951 form.
pub fn below(parent: Option<&SchemaNode<'static>>, member: &str) -> Option<SchemaNode<'static>> {
    match (member.split_once(':'), parent) {
        (Some((module, name)), Some(parent)) => path::child(parent, module, name),
        (Some((module, name)), None) => path::top(module, name),
        (None, Some(parent)) => path::child(parent, parent.module().name(), member),
        (None, None) => None,
    }
}

/// The nodes of a member: the entries of a list with keys, else itself.
fn entries<'a>(node: &SchemaNode<'static>, value: &'a Value) -> Vec<(Step, &'a Value)> {
    let step =
        |keys| Step { module: node.module().name().to_owned(), name: node.name().to_owned(), keys };
    let names = key_names(node);
    match value {
        Value::Array(list) if node.kind() == SchemaNodeKind::List && !names.is_empty() => {
            let keys = |entry: &Value| {
                let key =
                    |name: &String| (name.clone(), entry.get(name).map(plain).unwrap_or_default());
                names.iter().map(key).collect()
            };
            list.iter().map(|entry| (step(keys(entry)), entry)).collect()
        }
        _ => vec![(step(Vec::new()), value)],
    }
}

/// Visits each value at or below a node with its data path: leaves, whole leaf-lists, whole keyless lists, and presence
/// containers.
pub fn values<F>(found: &Found<'_>, visit: &mut F)
where
    F: FnMut(&str, &SchemaNode<'static>, &Value),
{
    let mut path = match found.steps.is_empty() {
        true => String::new(),
        false => path::data_path(&found.steps),
    };
    let above = found.steps.last().map(|step| step.module.clone()).unwrap_or_default();
    look(found.node.as_ref(), &above, found.value, &mut path, visit);
}

fn look<F>(
    node: Option<&SchemaNode<'static>>,
    above: &str,
    value: &Value,
    path: &mut String,
    visit: &mut F,
) where
    F: FnMut(&str, &SchemaNode<'static>, &Value),
{
    let Some(members) = value.as_object() else {
        if let Some(node) = node {
            visit(path, node, value);
        }
        return;
    };
    if let Some(node) = node.filter(|_| members.is_empty())
        && node.kind() == SchemaNodeKind::Container
        && !node.is_np_container()
    {
        visit(path, node, value);
    }
    for (member, value) in members {
        let Some(child) = below(node, member) else { continue };
        for (step, value) in entries(&child, value) {
            let length = path.len();
            path::add(path, above, &step);
            look(Some(&child), &step.module, value, path, visit);
            path.truncate(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gnmi::tests::path;
    use serde_json::json;

    #[test]
    fn many_wildcards_are_walked_once() {
        let interface = |number: usize| json!({ "name": format!("if{number}"), "ietf-ip:ipv4": { "mtu": 1400 } });
        let list: Vec<_> = (0..1_000).map(interface).collect();
        let value = json!({ "interface": list });
        let count = |text: &str| {
            let pattern = PathPattern::read(None, Some(&path(text))).unwrap();
            (pattern.rest.len(), find(&pattern, &value).len())
        };
        // Walked separately, the branches to one leaf would be millions.
        assert_eq!(count(&format!("interfaces/{}mtu", ".../".repeat(60))), (2, 1_000));
        assert_eq!(count("interfaces/.../*/.../mtu"), (4, 1_000), "each is found once");
        // A pattern that `PathPattern::read` refuses also terminates.
        let mut pattern = PathPattern::read(None, Some(&path("interfaces/.../mtu"))).unwrap();
        let last = pattern.rest.pop().unwrap();
        pattern.rest = [vec![Elem::Deep; 60], vec![last]].concat();
        assert_eq!(find(&pattern, &value).len(), 1_000);
    }
}
