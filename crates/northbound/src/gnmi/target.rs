//! What a value of a Set is for, and the data that it comes to.

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

/// What a value is for.
pub enum Target<'a> {
    /// One node, or the whole.
    One(&'a Place),
    /// All values of a leaf-list below a place.
    Values(&'a Place, Step),
}

impl Target<'_> {
    /// What the value of a way is for.
    ///
    /// # Errors
    /// When the way leads to more than one node.
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
                let words = format!("say which entry of {}: its keys are {keys}", node.name());
                Err(at(Status::invalid_argument(words), way))
            }
            _ => Err(at(Status::invalid_argument("a value is for one node: no wildcards"), way)),
        }
    }

    /// The data with all that stands above it.
    ///
    /// # Errors
    /// When the value is none for the node.
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
            return Err(Fault::malformed("the value holds a zero character").into());
        }
        let given = body::Given { tree: body::parse(&text, Media::Json)?, step: None };
        Ok(given.text()?)
    }
}

fn only(step: &Step, value: Value) -> Map<String, Value> {
    Map::from_iter([(format!("{}:{}", step.module, step.name), value)])
}

/// The members of a value that is an object, without the keys that the path has given.
fn members(place: &Place, value: Value) -> Result<Map<String, Value>, Faults> {
    let Value::Object(mut members) = value else {
        let fault = Fault::malformed("the value of this node is a JSON object");
        return Err(fault.at(place.data_path()).into());
    };
    let Some(last) = place.steps.last() else { return Ok(members) };
    for (name, wanted) in &last.keys {
        let full = format!("{}:{name}", last.module);
        for name in [name, &full] {
            if members.shift_remove(name).is_some_and(|found| plain(&found) != *wanted) {
                let fault = Fault::value(format!("the key {name} is another one than in the path"));
                return Err(fault.at(place.data_path()).into());
            }
        }
    }
    Ok(members)
}
