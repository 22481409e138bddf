//! Set: delete, then replace, then update, as one transaction of what is in force.

use std::sync::Arc;

use serde_json::{Map, Value};
use stoa_api::gnmi::update_result::Operation;
use stoa_api::gnmi::{Path, SetRequest, SetResponse, Update, UpdateResult};
use stoa_controller::datastore::{Author, Commit, Edit, Refusal, Store};
use tonic::{Code, Status};
use yang5::schema::{SchemaNode, SchemaNodeKind};

use super::confirm::{self, Asked};
use super::path::{Elem, Way};
use super::read::look;
use super::tree::{find, plain};
use super::{Caller, Door, now, status, value};
use crate::audit::Deed;
use crate::nacm::Rights;
use crate::restconf::body;
use crate::restconf::fault::{Fault, Faults};
use crate::restconf::media::Media;
use crate::restconf::path::{Place, Step, data_path};
use crate::restconf::query::Content;
use crate::restconf::rpc::MODULE;
use crate::restconf::write::{self, Made};

/// Operations of one Set, at most.
const OPERATIONS_LIMIT: usize = 10_000;
/// How often a change is tried again whose datastore changed while it was looked at.
const TRIES: usize = 4;
/// Paths of a Set that the audit log names.
const NAMED: usize = 8;

/// Makes the changes of a request, and writes down who asked and what came of it.
///
/// # Errors
/// Why nothing is changed.
pub async fn set(door: &Door, caller: &Caller, request: SetRequest) -> Result<SetResponse, Status> {
    let author = caller.author.clone();
    let mut what = named(&request);
    let done = match confirm::read(&request.extension) {
        Ok(asked) => {
            if let Asked::Wait(id, _) | Asked::Confirm(id) | Asked::Cancel(id) = &asked {
                what = format!("{what} commit {id}");
            }
            change(door, caller, &author, request, asked).await
        }
        Err(status) => Err(status),
    };
    let result = match &done {
        Ok(_) => "OK".to_owned(),
        Err(status) => format!("{:?}: {}", status.code(), status.message()),
    };
    let (user, from) = (author.name.as_str(), Some(caller.from));
    let deed = Deed { user, from, door: "gnmi", what: &what, result: &result };
    door.front.audit.write(&deed);
    done
}

/// The operations in a few words, for the audit log.
fn named(request: &SetRequest) -> String {
    let updates = |name, list: &[Update]| -> Vec<(&'static str, Option<Path>)> {
        list.iter().map(|one| (name, one.path.clone())).collect()
    };
    let mut all: Vec<_> =
        request.delete.iter().map(|path| ("delete", Some(path.clone()))).collect();
    all.extend(updates("replace", &request.replace));
    all.extend(updates("update", &request.update));
    let more = all.len().saturating_sub(NAMED);
    let mut words = String::from("Set");
    for (name, path) in all.into_iter().take(NAMED) {
        let parts = [request.prefix.as_ref(), path.as_ref()].into_iter().flatten();
        let elems = parts.flat_map(|part| &part.elem).map(|elem| {
            let keys = elem.key.iter().map(|(name, value)| format!("[{name}={value}]"));
            format!("/{}{}", elem.name, keys.collect::<String>())
        });
        words.push_str(&format!(" {name} {}", elems.collect::<String>()));
    }
    if more > 0 {
        words.push_str(&format!(" and {more} more"));
    }
    words
}

async fn change(
    door: &Door,
    caller: &Caller,
    author: &Author,
    request: SetRequest,
    asked: Asked,
) -> Result<SetResponse, Status> {
    let count = request.delete.len() + request.replace.len() + request.update.len();
    if !request.union_replace.is_empty() {
        let words = "union_replace is not served: a Set of replace and update does the same";
        return Err(Status::unimplemented(words));
    }
    if count > OPERATIONS_LIMIT {
        let words = format!("a Set has at most {OPERATIONS_LIMIT} operations");
        return Err(Status::invalid_argument(words));
    }
    let mut commit = Commit::default();
    match &asked {
        Asked::Confirm(id) | Asked::Cancel(id) => {
            if count > 0 {
                let words = "a Set that confirms or cancels a commit changes nothing else";
                return Err(Status::invalid_argument(words));
            }
            let is_confirm = matches!(asked, Asked::Confirm(_));
            door.settle(caller, author, id, is_confirm).await?;
            return Ok(answered(&request));
        }
        Asked::Wait(_, within) => commit.confirm_within = Some(*within),
        Asked::Nothing => {}
    }
    confirm::none_waits(&door.front.datastore)?;
    let is_changed = transaction(door, caller, author, &request, commit).await?;
    if let (Asked::Wait(id, _), true) = (asked, is_changed) {
        door.waits(id);
    }
    Ok(answered(&request))
}

fn answered(request: &SetRequest) -> SetResponse {
    let result =
        |path: Option<&Path>, op: Operation| UpdateResult { path: path.cloned(), op: op.into() };
    let deleted = request.delete.iter().map(|path| result(Some(path), Operation::Delete));
    let replaced = request.replace.iter().map(|it| result(it.path.as_ref(), Operation::Replace));
    let updated = request.update.iter().map(|it| result(it.path.as_ref(), Operation::Update));
    SetResponse {
        prefix: request.prefix.clone(),
        response: deleted.chain(replaced).chain(updated).collect(),
        timestamp: now(),
        extension: Vec::new(),
    }
}

/// Makes all operations or none; gives whether anything is changed.
async fn transaction(
    door: &Door,
    caller: &Caller,
    author: &Author,
    request: &SetRequest,
    commit: Commit,
) -> Result<bool, Status> {
    let datastore = &door.front.datastore;
    for turn in 1.. {
        let revision = datastore.tree(Store::Running).revision;
        let (edits, is_bound) = edits(door, caller, request).await?;
        let made = Made { edits, created: None, is_bound };
        let (store, own) = (datastore.clone(), caller.clone());
        let management = door.front.management();
        let is_plain = commit.confirm_within.is_none();
        let looked = tokio::task::spawn_blocking(move || {
            let rights = Rights::of(&own.identity, &management);
            // What can be undone takes more than the right to change, as everywhere.
            if !is_plain && !rights.is_called_by_rule(MODULE, "commit") {
                return Err(Fault::forbidden(format!("/{MODULE}:commit")).into());
            }
            let is_change = write::permitted(&store, Store::Running, &made, &rights)?;
            Ok::<_, Faults>((made, rights.is_whole(), is_change))
        });
        let broken = |_| Status::internal("the change could not be made");
        let looked = looked.await.map_err(broken)?;
        let (made, is_whole, is_change) = looked.map_err(|faults| status::of_faults(&faults))?;
        if !is_change {
            return Ok(false);
        }
        // What was looked at is what is changed, or it is looked at again.
        let if_match = (made.is_bound || !is_whole).then_some(revision);
        let done =
            datastore.edit_as(author, Store::Running, made.edits, if_match, commit.clone()).await;
        match done {
            Ok(_) => return Ok(true),
            Err(Refusal::Stale) if turn < TRIES => {}
            Err(refusal) => return Err(status::of_refusal(refusal)),
        }
    }
    Err(Status::new(Code::Aborted, "the configuration changes all the time: try again"))
}

/// The edits, and whether they hold only as long as the datastore is as it was read.
async fn edits(
    door: &Door,
    caller: &Caller,
    request: &SetRequest,
) -> Result<(Vec<Edit>, bool), Status> {
    let (mut edits, mut is_bound) = (Vec::new(), false);
    let prefix = request.prefix.as_ref();
    for path in &request.delete {
        let way = Arc::new(Way::read(prefix, Some(path))?);
        configured(&way)?;
        if way.is_one() {
            edits.push(Edit::Remove { path: way.place.data_path() });
        } else {
            edits.extend(removed(door, caller, &way).await?);
            is_bound = true;
        }
    }
    let replaced = request.replace.iter().map(|update| (update, true));
    for (update, is_replace) in replaced.chain(request.update.iter().map(|update| (update, false)))
    {
        let Given { way, body, is_values } = given(prefix, update)?;
        if is_replace && is_values {
            edits.extend(removed(door, caller, &way).await?);
            is_bound = true;
        }
        edits.push(match is_replace && !is_values {
            true => Edit::Replace { path: way.place.data_path(), body },
            false => Edit::Merge { body },
        });
    }
    Ok((edits, is_bound))
}

/// What a client gives for a path.
#[derive(Debug)]
pub struct Given {
    /// What it is for.
    pub way: Arc<Way>,
    /// The data with all that stands above it, in RFC 7951 encoding.
    pub body: String,
    /// Whether it is all values of a leaf-list.
    pub is_values: bool,
}

/// Reads what a client gives.
///
/// # Errors
/// When the path names no one node of configuration, or the value is none for it.
pub fn given(prefix: Option<&Path>, update: &Update) -> Result<Given, Status> {
    let way = Arc::new(Way::read(prefix, update.path.as_ref())?);
    configured(&way)?;
    let target = Target::of(&way)?;
    let is_values = matches!(target, Target::Values(..));
    let value = value::given(update.val.as_ref(), way.ends.first());
    let value = value.map_err(|status| at(status, &way))?;
    let body = target.body(value).map_err(|faults| status::of_faults(&faults))?;
    Ok(Given { way, body, is_values })
}

fn at(status: Status, way: &Way) -> Status {
    Status::new(status.code(), format!("{}: {}", way.place.data_path(), status.message()))
}

fn configured(way: &Way) -> Result<(), Status> {
    let is_fact = !way.ends.is_empty() && !way.ends.iter().any(SchemaNode::is_config);
    match is_fact {
        true => {
            let fault = Fault::unsupported("this is a fact, not something to be configured");
            Err(status::of_fault(fault.at(way.place.data_path())))
        }
        false => Ok(()),
    }
}

/// Removes what a way with wildcards leads to now.
async fn removed(door: &Door, caller: &Caller, way: &Arc<Way>) -> Result<Vec<Edit>, Status> {
    let known = Arc::clone(way);
    let see = move |value: Option<&Value>| {
        let mut paths = Vec::new();
        for one in value.map(|value| find(&known, value)).unwrap_or_default() {
            let Some(node) = &one.node else { continue };
            let is_many = node.kind() == SchemaNodeKind::LeafList;
            match one.value.as_array().filter(|_| is_many) {
                Some(values) => {
                    for value in values {
                        let mut steps = one.steps.clone();
                        if let Some(last) = steps.last_mut() {
                            last.keys = vec![(".".to_owned(), plain(value))];
                        }
                        paths.push(data_path(&steps));
                    }
                }
                // A key goes with its entry.
                None if node.is_list_key() => {}
                None => paths.push(data_path(&one.steps)),
            }
        }
        paths
    };
    let paths = look(&door.front, caller, way, Content::Config, see).await;
    let paths = paths.map_err(|faults| status::of_faults(&faults))?;
    Ok(paths.into_iter().map(|path| Edit::Remove { path }).collect())
}

/// What a value is for.
enum Target<'a> {
    /// One node, or the whole.
    One(&'a Place),
    /// All values of a leaf-list below a place.
    Values(&'a Place, Step),
}

impl Target<'_> {
    fn of(way: &Way) -> Result<Target<'_>, Status> {
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
    fn body(&self, value: Value) -> Result<String, Faults> {
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
