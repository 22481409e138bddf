//! The target of a value in a Set, and the resulting data.

use serde_json::{Map, Value};
use tonic::Status;
use yang5::schema::SchemaNodeKind;

use super::path::{Elem, PathPattern};
use super::set::at;
use super::tree::plain;
use crate::restconf::body;
use crate::restconf::fault::{Fault, Faults};
use crate::restconf::media::Media;
use crate::restconf::path::{Resource, Step};

/// The target of a value.
pub enum Target<'a> {
    /// One node, or the root.
    One(&'a Resource),
    /// All values of a leaf-list below a resource.
    Values(&'a Resource, Step),
}

impl Target<'_> {
    /// The target of a path.
    ///
    /// # Errors
    /// When the path matches more than one node.
    pub fn of(pattern: &PathPattern) -> Result<Target<'_>, Status> {
        match (pattern.rest.as_slice(), pattern.ends.as_slice()) {
            ([], _) => Ok(Target::One(&pattern.resource)),
            ([Elem::Named { .. }], [node]) if node.kind() == SchemaNodeKind::LeafList => {
                let module = node.module().name().to_owned();
                let step = Step { module, name: node.name().to_owned(), keys: Vec::new() };
                Ok(Target::Values(&pattern.resource, step))
            }
            ([Elem::Named { .. }], [node]) => {
                let keys = super::path::key_names(node).join(", ");
                let words =
                    format!("{} is a list: select one entry, its keys are {keys}", node.name());
                Err(at(Status::invalid_argument(words), pattern))
            }
            _ => Err(at(
                Status::invalid_argument("the path of a value must not have wildcards"),
                pattern,
            )),
        }
    }

    /// The data from the root on.
    ///
    /// # Errors
    /// When the value does not match the node.
    pub fn body(&self, value: Value) -> Result<String, Faults> {
        let (resource, members) = match self {
            Target::Values(resource, step) => ((*resource).clone(), only(step, value)),
            Target::One(resource) => match (resource.kind(), resource.steps.last()) {
                (Some(SchemaNodeKind::Leaf), Some(step)) => (resource.parent(), only(step, value)),
                (Some(SchemaNodeKind::LeafList), Some(step)) => {
                    (resource.parent(), only(step, vec![value].into()))
                }
                _ => ((*resource).clone(), members(resource, value)?),
            },
        };
        let text = body::json(&resource, members)?;
        if text.contains("\\u0000") {
            return Err(Fault::malformed("the value contains a NUL character: remove it").into());
        }
        let given = body::RequestBody { tree: body::parse(&text, Media::Json)?, step: None };
        Ok(given.text()?)
    }
}

fn only(step: &Step, value: Value) -> Map<String, Value> {
    Map::from_iter([(format!("{}:{}", step.module, step.name), value)])
}

/// The members of an object, without the keys of the path.
fn members(resource: &Resource, value: Value) -> Result<Map<String, Value>, Faults> {
    let Value::Object(mut members) = value else {
        let fault = Fault::malformed("the value of this node must be a JSON object");
        return Err(fault.at(resource.data_path()).into());
    };
    let Some(last) = resource.steps.last() else { return Ok(members) };
    for (name, expected) in &last.keys {
        let full = format!("{}:{name}", last.module);
        for name in [name, &full] {
            if members.shift_remove(name).is_some_and(|found| plain(&found) != *expected) {
                let fault =
                    Fault::value(format!("the key {name} differs from the one in the path"));
                return Err(fault.at(resource.data_path()).into());
            }
        }
    }
    Ok(members)
}
