//! The target of a value in a Set, and the resulting data.

use serde_json::{Map, Value};
use tonic::Status;
use yang5::schema::SchemaNodeKind;

use super::path::{Elem, Way};
use super::set::at;
use super::tree::plain;
use crate::restconf::body;
use crate::restconf::fault::{Fault, Faults};
use crate::restconf::media::Media;
use crate::restconf::path::{Place, Step};

/// The target of a value.
pub enum Target<'a> {
    /// One node, or the root.
    One(&'a Place),
    /// All values of a leaf-list below a resource.
    Values(&'a Place, Step),
}

impl Target<'_> {
    /// The target of a path.
    ///
    /// # Errors
    /// When the path matches more than one node.
    pub fn of(way: &Way) -> Result<Target<'_>, Status> {
        match (way.rest.as_slice(), way.ends.as_slice()) {
            ([], _) => Ok(Target::One(&way.place)),
            ([Elem::Named { .. }], [node]) if node.kind() == SchemaNodeKind::LeafList => {
                let module = node.module().name().to_owned();
                let step = Step { module, name: node.name().to_owned(), keys: Vec::new() };
                Ok(Target::Values(&way.place, step))
            }
            ([Elem::Named { .. }], [node]) => {
                let keys = super::path::key_names(node).join(", ");
                let words = format!("{} is a list: give all of its keys, {keys}", node.name());
                Err(at(Status::invalid_argument(words), way))
            }
            _ => Err(at(Status::invalid_argument("the path of a value must not have wildcards"), way)),
        }
    }

    /// The data from the root on.
    ///
    /// # Errors
    /// When the value does not match the node.
    pub fn body(&self, value: Value) -> Result<String, Faults> {
        let (place, members) = match self {
            Target::Values(place, step) => ((*place).clone(), only(step, value)),
            Target::One(place) => match (place.kind(), place.steps.last()) {
                (Some(SchemaNodeKind::Leaf), Some(step)) => (place.parent(), only(step, value)),
                (Some(SchemaNodeKind::LeafList), Some(step)) => {
                    (place.parent(), only(step, vec![value].into()))
                }
                _ => ((*place).clone(), members(place, value)?),
            },
        };
        let text = body::json(&place, members)?;
        if text.contains("\\u0000") {
            return Err(Fault::malformed("the value contains a NUL character: remove it").into());
        }
        let given = body::Given { tree: body::parse(&text, Media::Json)?, step: None };
        Ok(given.text()?)
    }
}

fn only(step: &Step, value: Value) -> Map<String, Value> {
    Map::from_iter([(format!("{}:{}", step.module, step.name), value)])
}

/// The members of an object, without the keys of the path.
fn members(place: &Place, value: Value) -> Result<Map<String, Value>, Faults> {
    let Value::Object(mut members) = value else {
        let fault = Fault::malformed("the value of this node must be a JSON object");
        return Err(fault.at(place.data_path()).into());
    };
    let Some(last) = place.steps.last() else { return Ok(members) };
    for (name, wanted) in &last.keys {
        let full = format!("{}:{name}", last.module);
        for name in [name, &full] {
            if members.shift_remove(name).is_some_and(|found| plain(&found) != *wanted) {
                let fault = Fault::value(format!("the key {name} differs from the one in the path"));
                return Err(fault.at(place.data_path()).into());
            }
        }
    }
    Ok(members)
}
