//! Set: delete, then replace, then update, as one transaction on running.

use std::sync::Arc;

use serde_json::Value;
use stoa_api::gnmi::update_result::Operation;
use stoa_api::gnmi::{Path, SetRequest, SetResponse, Update, UpdateResult};
use stoa_controller::datastore::{Author, Commit, Edit, Refusal, Snapshot, Store};
use tonic::{Code, Status};
use yang5::schema::{SchemaNode, SchemaNodeKind};

use super::confirm::{self, Asked};
use super::path::Way;
use super::read::seen;
use super::target::Target;
use super::tree::{Found, find, plain};
use super::{Caller, Service, now, status, value};
use crate::audit::Deed;
use crate::nacm::Rights;
use crate::restconf::fault::Fault;
use crate::restconf::path::{Place, data_path};
use crate::restconf::query::Content;
use crate::restconf::rpc::MODULE;
use crate::restconf::write::{self, Made};
use crate::server::front::Front;

/// Maximum number of operations in a Set.
const OPERATIONS_LIMIT: usize = 10_000;
/// Maximum number of operations in a Set that need a read of the current data.
const LOOKS_LIMIT: usize = 64;
/// Attempts of a change when the datastore changes meanwhile.
const TRIES: usize = 4;
/// Maximum number of paths of a Set in the audit log.
const NAMED: usize = 8;

/// Applies the changes of a request and writes the audit record.
///
/// # Errors
/// Why nothing is changed.
pub async fn set(
    service: &Service,
    caller: &Caller,
    request: SetRequest,
) -> Result<SetResponse, Status> {
    let author = caller.author.clone();
    let mut what = named(&request);
    let done = match confirm::read(&request.extension) {
        Ok(asked) => {
            if let Asked::Wait(id, _) | Asked::Confirm(id) | Asked::Cancel(id) = &asked {
                what = format!("{what} commit {id}");
            }
            change(service, caller, &author, request, asked).await
        }
        Err(status) => Err(status),
    };
    let result = match &done {
        Ok(_) => "OK".to_owned(),
        Err(status) => format!("{:?}: {}", status.code(), status.message()),
    };
    let (user, from) = (author.name.as_str(), Some(caller.from));
    let deed = Deed { user, from, client: "gnmi", what: &what, result: &result };
    service.front.audit.write(&deed);
    done
}

/// A short form of the operations for the audit log.
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
    service: &Service,
    caller: &Caller,
    author: &Author,
    request: SetRequest,
    asked: Asked,
) -> Result<SetResponse, Status> {
    let count = request.delete.len() + request.replace.len() + request.update.len();
    if !request.union_replace.is_empty() {
        let words = "union_replace is not supported: use replace and update";
        return Err(Status::unimplemented(words));
    }
    if count > OPERATIONS_LIMIT {
        let words = format!("a Set must have at most {OPERATIONS_LIMIT} operations");
        return Err(Status::invalid_argument(words));
    }
    let mut commit = Commit::default();
    match &asked {
        Asked::Confirm(id) | Asked::Cancel(id) => {
            if count > 0 {
                let words = "a Set that confirms or cancels a commit must not have other changes";
                return Err(Status::invalid_argument(words));
            }
            let is_confirm = matches!(asked, Asked::Confirm(_));
            service.settle(caller, author, id, is_confirm).await?;
            return Ok(answered(&request));
        }
        Asked::Wait(_, within) => commit.confirm_within = Some(*within),
        Asked::Nothing => {}
    }
    let request = Arc::new(request);
    let is_changed = transaction(service, caller, author, &request, commit).await?;
    if let (Asked::Wait(id, _), true) = (asked, is_changed) {
        service.waits(id, author);
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

/// Applies all operations or none; returns whether anything changed.
async fn transaction(
    service: &Service,
    caller: &Caller,
    author: &Author,
    request: &Arc<SetRequest>,
    commit: Commit,
) -> Result<bool, Status> {
    let datastore = &service.front.datastore;
    // Sets run one after the other, in order of arrival, so that they do not invalidate each other's revision.
    let _turn = service.changes.lock().await;
    for turn in 1.. {
        // In this order: a pending commit of another user that begins after the check has another revision.
        let snapshot = datastore.tree(Store::Running);
        confirm::none_waits(datastore)?;
        let revision = snapshot.revision;
        let (front, caller) = (Arc::clone(&service.front), caller.clone());
        let (request, is_plain) = (Arc::clone(request), commit.confirm_within.is_none());
        let looked = tokio::task::spawn_blocking(move || {
            planned(&front, &caller, &request, &snapshot, is_plain)
        });
        let broken = |_| Status::internal("the change failed");
        let Some(edits) = looked.await.map_err(broken)?? else { return Ok(false) };
        // The change applies to the data that it was checked against; otherwise the check is repeated.
        let if_match = Some(revision);
        let done = datastore.edit_as(author, Store::Running, edits, if_match, commit.clone()).await;
        match done {
            Ok(_) => return Ok(true),
            Err(Refusal::Stale) if turn < TRIES => {}
            Err(refusal) => return Err(status::of_refusal(refusal)),
        }
    }
    Err(Status::new(Code::Aborted, "the configuration changed during each of several attempts: try again"))
}

/// The permitted edits of a request; `None`: they change nothing. This call blocks.
fn planned(
    front: &Arc<Front>,
    caller: &Caller,
    request: &SetRequest,
    snapshot: &Arc<Snapshot>,
    is_plain: bool,
) -> Result<Option<Vec<Edit>>, Status> {
    let management = front.management();
    let rights = Rights::of(&caller.identity, &management);
    let forbidden = |path: String| Err(status::of_fault(Fault::forbidden(path)));
    // A commit with a rollback timer needs more than the right to change, as in RESTCONF.
    if !is_plain && !rights.is_called_by_rule(MODULE, "commit") {
        return forbidden(format!("/{MODULE}:commit"));
    }
    // A client without write access is refused before the work.
    let mut given = request.replace.iter().chain(&request.update).map(|one| one.path.as_ref());
    let first = request.delete.first().map(Some).or_else(|| given.next());
    if let Some(path) = first
        && !rights.may_write_any()
    {
        return forbidden(Way::read(request.prefix.as_ref(), path)?.place.data_path());
    }
    let (edits, is_bound) = edits(front, caller, request, snapshot)?;
    let made = Made { edits, created: None, is_bound };
    let is_change = write::permitted(&front.datastore, Store::Running, &made, &rights);
    let is_change = is_change.map_err(|faults| status::of_faults(&faults))?;
    Ok(is_change.then_some(made.edits))
}

/// The edits, and whether they are valid only while the datastore is unchanged.
fn edits(
    front: &Front,
    caller: &Caller,
    request: &SetRequest,
    snapshot: &Arc<Snapshot>,
) -> Result<(Vec<Edit>, bool), Status> {
    let prefix = request.prefix.as_ref();
    // The result of each operation, in order, and the operations that need a read of the current data.
    let (mut edits, mut open) = (Vec::new(), Vec::new());
    let mut look_later = |way: &Arc<Way>, at: usize| {
        open.push((Arc::clone(way), at));
        match open.len() > LOOKS_LIMIT {
            true => Err(Status::invalid_argument(format!(
                "a Set must have at most {LOOKS_LIMIT} operations with wildcards or whole leaf-lists"
            ))),
            false => Ok(()),
        }
    };
    for path in &request.delete {
        let way = Arc::new(Way::read(prefix, Some(path))?);
        configured(&way)?;
        if way.is_one() {
            edits.push(vec![Edit::Remove { path: way.place.data_path() }]);
        } else {
            look_later(&way, edits.len())?;
            edits.push(Vec::new());
        }
    }
    let replaced = request.replace.iter().map(|update| (update, true));
    for (update, is_replace) in replaced.chain(request.update.iter().map(|update| (update, false)))
    {
        let Given { way, body, is_values } = given(prefix, update)?;
        if is_replace && is_values {
            look_later(&way, edits.len())?;
            edits.push(Vec::new());
        }
        edits.push(vec![match is_replace && !is_values {
            true => Edit::Replace { path: way.place.data_path(), body },
            false => Edit::Merge { body },
        }]);
    }
    let is_bound = !open.is_empty();
    while let Some((first, _)) = open.first() {
        let place = first.place.clone();
        let (these, others) = open.into_iter().partition(|(way, _)| way.place.steps == place.steps);
        open = others;
        for (at, removed) in removed(front, caller, place, these, snapshot)? {
            edits[at] = removed;
        }
    }
    Ok((edits.into_iter().flatten().collect(), is_bound))
}

/// A decoded update.
#[derive(Debug)]
pub struct Given {
    /// The path.
    pub way: Arc<Way>,
    /// The data from the root on, in RFC 7951 encoding.
    pub body: String,
    /// Whether it has all values of a leaf-list.
    pub is_values: bool,
}

/// Decodes an update.
///
/// # Errors
/// When the path does not match exactly one configuration node, or the value does not match the node.
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

/// The same error, with the path.
pub(super) fn at(status: Status, way: &Way) -> Status {
    Status::new(status.code(), format!("{}: {}", way.place.data_path(), status.message()))
}

fn configured(way: &Way) -> Result<(), Status> {
    let is_fact = !way.ends.is_empty() && !way.ends.iter().any(SchemaNode::is_config);
    match is_fact {
        true => {
            let fault = Fault::unsupported("this is state data, which cannot be configured");
            Err(status::of_fault(fault.at(way.place.data_path())))
        }
        false => Ok(()),
    }
}

/// Deletes the matches of paths with wildcards below one resource, which is read once for all of them.
fn removed(
    front: &Front,
    caller: &Caller,
    place: Place,
    ways: Vec<(Arc<Way>, usize)>,
    snapshot: &Arc<Snapshot>,
) -> Result<Vec<(usize, Vec<Edit>)>, Status> {
    let see = |value: Option<&Value>| {
        let one = |(way, at): (Arc<Way>, usize)| {
            let found = value.map(|value| find(&way, value)).unwrap_or_default();
            let paths = found.iter().flat_map(paths);
            (at, paths.map(|path| Edit::Remove { path }).collect())
        };
        ways.into_iter().map(one).collect()
    };
    let all = Way { place, rest: Vec::new(), ends: Vec::new() };
    let seen = seen(front, caller, &all, Content::Config, (snapshot, None), see);
    seen.map_err(|faults| status::of_faults(&faults))
}

/// The data paths to delete for a match.
fn paths(found: &Found<'_>) -> Vec<String> {
    let Some(node) = &found.node else { return Vec::new() };
    let is_many = node.kind() == SchemaNodeKind::LeafList;
    let Some(values) = found.value.as_array().filter(|_| is_many) else {
        // A key is deleted with its entry.
        return match node.is_list_key() {
            true => Vec::new(),
            false => vec![data_path(&found.steps)],
        };
    };
    let one = |value: &Value| {
        let mut steps = found.steps.clone();
        if let Some(last) = steps.last_mut() {
            last.keys = vec![(".".to_owned(), plain(value))];
        }
        data_path(&steps)
    };
    values.iter().map(one).collect()
}
