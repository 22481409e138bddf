//! Set: delete, then replace, then update, as one transaction on running.

use std::sync::Arc;

use serde_json::Value;
use stoa_api::gnmi::update_result::Operation;
use stoa_api::gnmi::{Path, SetRequest, SetResponse, Update, UpdateResult};
use stoa_controller::datastore::{Author, Commit, Edit, Refusal, Snapshot, Store};
use tonic::{Code, Status};
use yang5::schema::{SchemaNode, SchemaNodeKind};

use super::confirm::{self, CommitAction};
use super::openconfig;
use super::path::PathPattern;
use super::read::select;
use super::service::{Caller, Service, now};
use super::target::Target;
use super::tree::{Found, find, plain};
use super::{status, value};
use crate::audit::AuditRecord;
use crate::nacm::Rights;
use crate::restconf::fault::Fault;
use crate::restconf::operation::MODULE;
use crate::restconf::path::{Resource, data_path};
use crate::restconf::permitted;
use crate::restconf::query::Content;
use crate::restconf::refusals;
use crate::server::app_state::AppState;

/// Maximum number of operations in a Set.
const OPERATIONS_LIMIT: usize = 10_000;
/// Maximum number of operations in a Set that need a read of the current data.
const READS_LIMIT: usize = 64;
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
        Ok(action) => {
            if let CommitAction::Wait(id, _)
            | CommitAction::Confirm(id)
            | CommitAction::Cancel(id) = &action
            {
                what = format!("{what} commit {id}");
            }
            change(service, caller, &author, request, action).await
        }
        Err(status) => Err(status),
    };
    let result = match &done {
        Ok(_) => "OK".to_owned(),
        Err(status) => format!("{:?}: {}", status.code(), status.message()),
    };
    let (user, from) = (author.name.as_str(), Some(caller.from));
    let record = AuditRecord { user, from, client: "gnmi", what: &what, result: &result };
    service.app.audit.write_result(done.is_ok(), &record);
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
    action: CommitAction,
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
    match &action {
        CommitAction::Confirm(id) | CommitAction::Cancel(id) => {
            if count > 0 {
                let words = "a Set that confirms or cancels a commit must not have other changes";
                return Err(Status::invalid_argument(words));
            }
            let is_confirm = matches!(action, CommitAction::Confirm(_));
            service.settle(caller, author, id, is_confirm).await?;
            return Ok(answered(&request));
        }
        CommitAction::Wait(_, within) => commit.confirm_within = Some(*within),
        CommitAction::Nothing => {}
    }
    let request = Arc::new(request);
    let is_changed = transaction(service, caller, author, &request, commit).await?;
    if let (CommitAction::Wait(id, _), true) = (action, is_changed) {
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
    let datastore = &service.app.datastore;
    // Sets run one after the other, in order of arrival, so that they do not invalidate each other's revision.
    let _turn = service.changes.lock().await;
    for turn in 1.. {
        // In this order: a pending commit of another user that begins after the check has another revision.
        let snapshot = datastore.tree(Store::Running);
        confirm::none_waits(datastore)?;
        let revision = snapshot.revision;
        let (app, asking) = (Arc::clone(&service.app), caller.clone());
        let (request, is_plain) = (Arc::clone(request), commit.confirm_within.is_none());
        let (turns, user) = (&service.app.turns, caller.identity.name.clone());
        let looked =
            turns.run(&user, move || planned(&app, &asking, &request, &snapshot, is_plain));
        let broken = |_| Status::internal("the change failed");
        let Some(edits) = looked.await.map_err(broken)?? else { return Ok(false) };
        // The change applies to the data that it was checked against; otherwise the check is repeated.
        let if_match = Some(revision);
        let done = datastore.edit_as(author, Store::Running, edits, if_match, commit.clone()).await;
        match done {
            Ok(_) => return Ok(true),
            Err(Refusal::Stale) if turn < TRIES => {}
            refused => {
                let refused = refusals::readable(&service.app, &caller.identity, refused).await;
                return refused.map(|_| true).map_err(status::of_refusal);
            }
        }
    }
    Err(Status::new(
        Code::Aborted,
        "the configuration changed during each of several attempts: try again",
    ))
}

/// The permitted edits of a request; `None`: they change nothing. This call blocks.
fn planned(
    app: &Arc<AppState>,
    caller: &Caller,
    request: &SetRequest,
    snapshot: &Arc<Snapshot>,
    is_plain: bool,
) -> Result<Option<Vec<Edit>>, Status> {
    let management = app.management();
    let rights = Rights::of(&caller.identity, &management);
    let forbidden = |path: String| Err(status::of_fault(Fault::forbidden(path)));
    // A commit with a rollback timer needs more than the right to change, as in RESTCONF.
    if !is_plain && !rights.is_called_by_rule(MODULE, "commit") {
        return forbidden(format!("/{MODULE}:commit"));
    }
    // A client without write access is refused before the work.
    let mut decode_update =
        request.replace.iter().chain(&request.update).map(|one| one.path.as_ref());
    let first = request.delete.first().map(Some).or_else(|| decode_update.next());
    if let Some(path) = first
        && !rights.may_write_any()
    {
        return forbidden(PathPattern::read(request.prefix.as_ref(), path)?.resource.data_path());
    }
    let edits = edits(app, caller, request, snapshot)?;
    let (datastore, store) = (&app.datastore, Store::Running);
    let is_change = permitted::named(datastore, store, &edits, &rights)
        .and_then(|hidden| permitted::changed(datastore, store, &edits, (&rights, hidden)))
        .map_err(|faults| status::of_faults(&faults))?;
    Ok(is_change.then_some(edits))
}

/// The edits.
fn edits(
    app: &AppState,
    caller: &Caller,
    request: &SetRequest,
    snapshot: &Arc<Snapshot>,
) -> Result<Vec<Edit>, Status> {
    let prefix = request.prefix.as_ref();
    // The result of each operation, in order, and the operations that need a read of the current data.
    let (mut edits, mut open) = (Vec::new(), Vec::new());
    let mut look_later = |pattern: &Arc<PathPattern>, at: usize| {
        open.push((Arc::clone(pattern), at));
        match open.len() > READS_LIMIT {
            true => Err(Status::invalid_argument(format!(
                "a Set must have at most {READS_LIMIT} operations with wildcards or whole leaf-lists"
            ))),
            false => Ok(()),
        }
    };
    for path in &request.delete {
        let pattern = Arc::new(writable(prefix, Some(path))?);
        configured(&pattern)?;
        if pattern.is_one() {
            edits.push(vec![Edit::Remove { path: pattern.resource.data_path() }]);
        } else {
            look_later(&pattern, edits.len())?;
            edits.push(Vec::new());
        }
    }
    let replaced = request.replace.iter().map(|update| (update, true));
    for (update, is_replace) in replaced.chain(request.update.iter().map(|update| (update, false)))
    {
        let DecodedUpdate { pattern, body, is_values } = decode_update(prefix, update)?;
        if is_replace && is_values {
            look_later(&pattern, edits.len())?;
            edits.push(Vec::new());
        }
        edits.push(vec![match is_replace && !is_values {
            true => Edit::Replace { path: pattern.resource.data_path(), body },
            false => Edit::Merge { body },
        }]);
    }
    while let Some((first, _)) = open.first() {
        let resource = first.resource.clone();
        let (these, others) =
            open.into_iter().partition(|(pattern, _)| pattern.resource.steps == resource.steps);
        open = others;
        for (at, removed) in removed(app, caller, resource, these, snapshot)? {
            edits[at] = removed;
        }
    }
    Ok(edits.into_iter().flatten().collect())
}

/// Parses a path of a change. OpenConfig paths can only be read.
fn writable(prefix: Option<&Path>, path: Option<&Path>) -> Result<PathPattern, Status> {
    let pattern = PathPattern::read(prefix, path);
    pattern.map_err(|status| openconfig::read_only(prefix, path).unwrap_or(status))
}

/// A decoded update.
#[derive(Debug)]
pub struct DecodedUpdate {
    /// The path.
    pub pattern: Arc<PathPattern>,
    /// The data from the root on, in RFC 7951 encoding.
    pub body: String,
    /// Whether it has all values of a leaf-list.
    pub is_values: bool,
}

/// Decodes an update.
///
/// # Errors
/// When the path does not match exactly one configuration node, or the value does not match the node.
pub fn decode_update(prefix: Option<&Path>, update: &Update) -> Result<DecodedUpdate, Status> {
    let pattern = Arc::new(writable(prefix, update.path.as_ref())?);
    configured(&pattern)?;
    let target = Target::of(&pattern)?;
    let is_values = matches!(target, Target::Values(..));
    let value = value::decode(update.val.as_ref(), pattern.ends.first());
    let value = value.map_err(|status| at(status, &pattern))?;
    let body = target.body(value).map_err(|faults| status::of_faults(&faults))?;
    Ok(DecodedUpdate { pattern, body, is_values })
}

/// The same error, with the path.
pub(super) fn at(status: Status, pattern: &PathPattern) -> Status {
    Status::new(status.code(), format!("{}: {}", pattern.resource.data_path(), status.message()))
}

fn configured(pattern: &PathPattern) -> Result<(), Status> {
    let is_fact = !pattern.ends.is_empty() && !pattern.ends.iter().any(SchemaNode::is_config);
    match is_fact {
        true => {
            let fault = Fault::unsupported("this is state data, which cannot be configured");
            Err(status::of_fault(fault.at(pattern.resource.data_path())))
        }
        false => Ok(()),
    }
}

/// Deletes the matches of paths with wildcards below one resource, which is read once for all of them.
fn removed(
    app: &AppState,
    caller: &Caller,
    resource: Resource,
    patterns: Vec<(Arc<PathPattern>, usize)>,
    snapshot: &Arc<Snapshot>,
) -> Result<Vec<(usize, Vec<Edit>)>, Status> {
    let see = |value: Option<&Value>| {
        let one = |(pattern, at): (Arc<PathPattern>, usize)| {
            let found = value.map(|value| find(&pattern, value)).unwrap_or_default();
            let paths = found.iter().flat_map(paths);
            (at, paths.map(|path| Edit::Remove { path }).collect())
        };
        patterns.into_iter().map(one).collect()
    };
    let all = PathPattern::below(resource);
    let seen = select(app, caller, &all, Content::Config, (snapshot, None), see);
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
