//! The updates of a Get: each node that the path matches, with the leaves below it as one value.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use stoa_api::gnmi::Update;
use stoa_api::gnmi::get_request::DataType;

use super::selection::{Leaf, Selection};
use crate::gnmi::path::to_gnmi;
use crate::gnmi::value::ValueEncoding;
use crate::restconf::path::Step;

/// Leaves below a node: their paths from there, and their values.
type Below<'a> = Vec<(&'a [Step], &'a Value)>;

/// The updates of these leaves, in their order; `kind` limits them to configuration or state.
pub fn updates(
    selection: &Selection,
    leaves: &[Leaf],
    kind: DataType,
    coding: ValueEncoding,
) -> Vec<Update> {
    let unwanted = match kind {
        DataType::All => "",
        DataType::Config => "state",
        DataType::State | DataType::Operational => "config",
    };
    let is_wanted = |leaf: &&Leaf| !leaf.steps.iter().any(|step| step.name == unwanted);
    let mut nodes: Vec<(&[Step], Below<'_>)> = Vec::new();
    let mut known: HashMap<&[Step], usize> = HashMap::new();
    for leaf in leaves.iter().filter(is_wanted) {
        for end in selection.ends(&leaf.steps) {
            let (node, below) = leaf.steps.split_at(end);
            let at = *known.entry(node).or_insert_with(|| {
                nodes.push((node, Vec::new()));
                nodes.len() - 1
            });
            nodes[at].1.push((below, &leaf.value));
        }
    }
    let update = |(node, leaves): (&[Step], Below<'_>)| {
        let value = object(&leaves, None);
        Update { path: Some(to_gnmi(node)), val: Some(coding.encode(None, &value)), duplicates: 0 }
    };
    nodes.into_iter().map(update).collect()
}

/// The value with these leaves below it. Its members have their modules where they differ from `module` (RFC 7951).
fn object(leaves: &[(&[Step], &Value)], module: Option<&str>) -> Value {
    if let [([], value)] = leaves {
        return Value::clone(value);
    }
    let mut groups: Vec<(&Step, Below<'_>)> = Vec::new();
    let mut known: HashMap<&Step, usize> = HashMap::new();
    for (steps, value) in leaves {
        let Some((first, rest)) = steps.split_first() else { continue };
        let at = *known.entry(first).or_insert_with(|| {
            groups.push((first, Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push((rest, value));
    }
    let mut members = Map::new();
    for (step, leaves) in groups {
        let name = match module == Some(&step.module) {
            true => step.name.clone(),
            false => format!("{}:{}", step.module, step.name),
        };
        let value = object(&leaves, Some(&step.module));
        if step.keys.is_empty() {
            members.insert(name, value);
        } else if let Some(list) = members.entry(name).or_insert(json!([])).as_array_mut() {
            list.push(value);
        }
    }
    Value::Object(members)
}
