//! Reads the data of a path, through the reads of RESTCONF, without the nodes that the client may not read.

use std::sync::Arc;

use serde_json::Value;
use stoa_api::gnmi::get_request::DataType;
use stoa_api::gnmi::typed_value::Value as Typed;
use stoa_api::gnmi::{GetRequest, GetResponse, Notification, Path, PathElem, TypedValue, Update};
use stoa_controller::datastore::{Snapshot, Store};
use tonic::Status;
use yang5::data::DataTree;
use yang5::schema::{SchemaNode, SchemaNodeKind};

use super::openconfig::{self, Selected, Selection};
use super::path::{PathPattern, to_gnmi};
use super::service::{Caller, PATHS_LIMIT, now, plain_only};
use super::status;
use super::tree::find;
use super::value::ValueEncoding;
use crate::nacm::Rights;
use crate::restconf::data;
use crate::restconf::fault::{Fault, Faults};
use crate::restconf::media::Media;
use crate::restconf::query::{Content, Query};
use crate::restconf::read::ReadRequest;
use crate::server::app_state::AppState;

/// Maximum size of a response to a Get over all paths, in bytes.
const ANSWER_BYTES: usize = 64 << 20;

/// Reads the data of a path and passes it to `see`; `None`: there is none that the client may read. Both run off the
/// threads that answer clients.
///
/// # Errors
/// When the forwarder does not answer, or libyang fails.
pub async fn look<T, F>(
    app: &Arc<AppState>,
    caller: &Caller,
    pattern: &Arc<PathPattern>,
    content: Content,
    see: F,
) -> Result<T, Faults>
where
    T: Send + 'static,
    F: FnOnce(Option<&Value>) -> T + Send + 'static,
{
    let snapshot = app.datastore.tree(Store::Running);
    let facts = match content != Content::Config && pattern.has_facts() {
        true => {
            let may_lack =
                content == Content::All && pattern.ends.iter().all(SchemaNode::is_config);
            data::facts(&app.datastore, &pattern.facts_path(), may_lack).await?
        }
        false => None,
    };
    let (app, caller, pattern) = (Arc::clone(app), caller.clone(), Arc::clone(pattern));
    let (own, user) = (Arc::clone(&app), caller.identity.name.clone());
    let work = move || select(&app, &caller, &pattern, content, (&snapshot, facts.as_ref()), see);
    own.turns.run(&user, work).await.map_err(|_| Fault::broken("cannot read the data"))?
}

/// The same with data that is already read: running, and the forwarder's state. This call blocks.
///
/// # Errors
/// When libyang fails.
pub fn select<T>(
    app: &AppState,
    caller: &Caller,
    pattern: &PathPattern,
    content: Content,
    (snapshot, facts): (&Arc<Snapshot>, Option<&DataTree<'static>>),
    see: impl FnOnce(Option<&Value>) -> T,
) -> Result<T, Faults> {
    let management = app.management();
    let rights = Rights::of(&caller.identity, &management);
    let (fields, defaults) = (pattern.fields(), pattern.defaults);
    let query = Query { content, fields, defaults, ..Query::default() };
    let action = ReadRequest {
        resource: &pattern.resource,
        query: &query,
        rights: &rights,
        media: Media::Json,
    };
    let text = data::text(snapshot, facts, &action, &caller.host)?;
    let read = |text: String| {
        serde_json::from_str::<Value>(&text)
            .map_err(|error| Fault::broken(format!("the data is not JSON: {error}")))
    };
    let whole = text.map(read).transpose()?;
    Ok(see(whole.as_ref().and_then(|whole| inside(pattern, whole))))
}

/// The value in the one member that RESTCONF prints for a node.
fn inside<'a>(pattern: &PathPattern, whole: &'a Value) -> Option<&'a Value> {
    let value = whole.as_object()?.values().next()?;
    match pattern.resource.kind() {
        Some(SchemaNodeKind::List | SchemaNodeKind::LeafList) => value.get(0),
        _ => Some(value),
    }
}

/// Answers a Get: one notification for each path, with the subtree of each matching node.
///
/// # Errors
/// When a path is not in the schema or occurs twice, one without wildcards matches nothing, or the response is too
/// large.
pub async fn get(
    app: &Arc<AppState>,
    caller: &Caller,
    request: GetRequest,
) -> Result<GetResponse, Status> {
    plain_only(&request.use_models, &request.extension)?;
    let coding = ValueEncoding::of(request.encoding)?;
    let kind = DataType::try_from(request.r#type).map_err(|_| {
        Status::invalid_argument("unknown type of data: use ALL, CONFIG, STATE or OPERATIONAL")
    })?;
    if request.path.len() > PATHS_LIMIT {
        let words = format!("a Get must have at most {PATHS_LIMIT} paths");
        return Err(Status::invalid_argument(words));
    }
    let prefix = request.prefix.as_ref();
    let whole = [Path::default()];
    let paths = if request.path.is_empty() { &whole[..] } else { &request.path };
    let patterns = patterns(prefix.cloned(), paths.to_vec()).await?;
    let mut notification = Vec::new();
    let mut left = ANSWER_BYTES;
    for selected in patterns {
        let (update, is_one) = match &selected {
            Selected::Native(pattern) => {
                let (update, rest) = of_schema(app, caller, pattern, (kind, coding), left).await?;
                left = rest;
                (update, pattern.is_one())
            }
            Selected::OpenConfig(selection) => {
                let update = of_openconfig(app, caller, selection, (kind, coding), left).await?;
                for Update { path, val, .. } in &update {
                    let (Some(path), Some(val)) = (path, val) else { continue };
                    left = left.checked_sub(bytes(path, val)).ok_or_else(too_much)?;
                }
                (update, selection.is_one())
            }
        };
        if update.is_empty() && is_one {
            return Err(status::of_fault(Fault::nowhere("no such data").at(selected.text())));
        }
        notification.push(Notification {
            timestamp: now(),
            prefix: echoed(prefix),
            update,
            ..Notification::default()
        });
    }
    Ok(GetResponse { notification, extension: Vec::new() })
}

/// The updates of a path of the modules; `left` bytes may be sent. Returns how many are left.
async fn of_schema(
    app: &Arc<AppState>,
    caller: &Caller,
    pattern: &Arc<PathPattern>,
    (kind, coding): (DataType, ValueEncoding),
    mut left: usize,
) -> Result<(Vec<Update>, usize), Status> {
    let content = match kind {
        DataType::All => Content::All,
        DataType::Config => Content::Config,
        DataType::State | DataType::Operational => Content::Nonconfig,
    };
    let known = Arc::clone(pattern);
    let see = move |value: Option<&Value>| {
        let found = value.map(|value| find(&known, value)).unwrap_or_default();
        let mut all = Vec::new();
        for one in &found {
            let (path, val) = (to_gnmi(&one.steps), coding.encode(one.node.as_ref(), one.value));
            left = left.checked_sub(bytes(&path, &val)).ok_or_else(too_much)?;
            all.push(Update { path: Some(path), val: Some(val), duplicates: 0 });
        }
        Ok::<_, Status>((all, left))
    };
    let update = look(app, caller, pattern, content, see).await;
    update.map_err(|faults| status::of_faults(&faults))?
}

/// The updates of an OpenConfig path; their leaves may have `left` bytes.
async fn of_openconfig(
    app: &Arc<AppState>,
    caller: &Caller,
    selection: &Arc<Selection>,
    (kind, coding): (DataType, ValueEncoding),
    mut left: usize,
) -> Result<Vec<Update>, Status> {
    let mut leaves = Vec::new();
    for (part, pattern) in &selection.reads {
        let (known, part) = (Arc::clone(selection), *part);
        let see = move |value: Option<&Value>| known.leaves(part, value, left);
        let found = look(app, caller, pattern, Content::All, see).await;
        let found = found.map_err(|faults| status::of_faults(&faults))?;
        let (of_part, rest) = found.ok_or_else(too_much)?;
        leaves.extend(of_part);
        left = rest;
    }
    let selection = Arc::clone(selection);
    let work = move || openconfig::updates(&selection, &leaves, kind, coding);
    let broken = |_| Status::internal("cannot build the answer");
    app.turns.run(&caller.identity.name, work).await.map_err(broken)
}

/// Parses the paths of a Get off the threads that answer clients.
async fn patterns(prefix: Option<Path>, paths: Vec<Path>) -> Result<Vec<Selected>, Status> {
    let work = move || {
        let mut patterns: Vec<Selected> = Vec::new();
        for path in &paths {
            let pattern = Selected::read(prefix.as_ref(), Some(path))?;
            if patterns.iter().any(|other| other.is_same(&pattern)) {
                let words = format!("the path {} occurs twice", pattern.text());
                return Err(Status::invalid_argument(words));
            }
            patterns.push(pattern);
        }
        Ok(patterns)
    };
    let broken = |_| Status::internal("cannot parse the paths");
    tokio::task::spawn_blocking(work).await.map_err(broken)?
}

/// The approximate size of an update in a response, in bytes.
fn bytes(path: &Path, value: &TypedValue) -> usize {
    let key = |(name, value): (&String, &String)| name.len() + value.len() + 6;
    let elem = |elem: &PathElem| elem.name.len() + 4 + elem.key.iter().map(key).sum::<usize>();
    let text = match &value.value {
        Some(Typed::JsonIetfVal(text) | Typed::JsonVal(text)) => text.len(),
        _ => 0,
    };
    text + path.elem.iter().map(elem).sum::<usize>() + 16
}

fn too_much() -> Status {
    let limit = ANSWER_BYTES >> 20;
    let words = format!("the response has more than {limit} MiB: request less at a time");
    Status::resource_exhausted(words)
}

/// The prefix of a response: target and origin of the request. Paths are absolute.
pub fn echoed(prefix: Option<&Path>) -> Option<Path> {
    let prefix = prefix.filter(|it| !it.target.is_empty() || !it.origin.is_empty())?;
    let (target, origin) = (prefix.target.clone(), prefix.origin.clone());
    Some(Path { target, origin, ..Path::default() })
}
