//! Data as JSON, walked along the schema: what a way leads to, and the values below it.

use serde_json::Value;
use yang5::schema::{SchemaNode, SchemaNodeKind};

use super::path::{Elem, Way, key_names};
use crate::restconf::path::{self, Step};

/// A node that a way leads to.
#[derive(Debug)]
pub struct Found<'a> {
    /// From the root.
    pub steps: Vec<Step>,
    /// In the schema; `None`: the whole.
    pub node: Option<SchemaNode<'static>>,
    /// What stands there; of a list, one entry.
    pub value: &'a Value,
}

/// A value as the text that a key has.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// All nodes that a way leads to; `value` is what stands at its place.
pub fn find<'a>(way: &Way, value: &'a Value) -> Vec<Found<'a>> {
    let mut search =
        Search { steps: way.place.steps.clone(), found: Vec::new(), has_seen: Default::default() };
    search.go(way.place.node.as_ref(), value, &way.rest);
    search.found
}

struct Search<'a> {
    steps: Vec<Step>,
    found: Vec<Found<'a>>,
    /// With `...` there may be two ways to a node.
    has_seen: std::collections::HashSet<*const Value>,
}

impl<'a> Search<'a> {
    fn go(&mut self, node: Option<&SchemaNode<'static>>, value: &'a Value, rest: &[Elem]) {
        let Some((first, after)) = rest.split_first() else {
            if self.has_seen.insert(std::ptr::from_ref(value)) {
                let (steps, node) = (self.steps.clone(), node.cloned());
                self.found.push(Found { steps, node, value });
            }
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

/// The node of a member of an object, as RFC 7951 names it.
pub fn below(parent: Option<&SchemaNode<'static>>, member: &str) -> Option<SchemaNode<'static>> {
    match (member.split_once(':'), parent) {
        (Some((module, name)), Some(parent)) => path::child(parent, module, name),
        (Some((module, name)), None) => path::top(module, name),
        (None, Some(parent)) => path::child(parent, parent.module().name(), member),
        (None, None) => None,
    }
}

/// What a member stands for: the entries of a list with keys, else itself.
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

/// Visits each value at or below a node with its data path: leaves, whole leaf-lists, whole lists without keys, and
/// containers that mean something by themselves.
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
