//! Data resources of a datastore: preconditions, reads and changes.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use stoa_controller::datastore::{Datastore, Refusal, Snapshot, Store};
use stoa_controller::state::{self, StateRequest};
use yang5::data::DataTree;
use yang5::schema::SchemaNodeKind;

use super::call::{Call, ROOT, not_allowed, options};
use super::condition::Tags;
use super::fault::{Fault, Faults};
use super::library;
use super::media::Media;
use super::path::{self, Resource};
use super::permitted;
use super::query::{Content, Defaults, Field, Query};
use super::read::ReadRequest;
use super::refusals;
use super::warnings;
use super::write::{self, Change};
use crate::nacm::Rights;

const ALLOWED: &str = "OPTIONS, GET, HEAD, POST, PUT, PATCH, DELETE";
const ALLOWED_ROOT: &str = "OPTIONS, GET, HEAD, POST, PUT, PATCH";
const ALLOWED_STATE: &str = "OPTIONS, GET, HEAD";
/// Characters of a key that a URL does not escape.
const KEY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Attempts of a change when the datastore changes meanwhile.
const TRIES: usize = 4;

/// A datastore and how the URL names it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The datastore.
    pub store: Store,
    /// Whether it was named below `/ds/`.
    pub is_ds: bool,
}

/// Answers a request for the data at the path `raw`.
pub async fn serve(call: Call, target: Target, raw: &str, body: Body) -> Result<Response, Faults> {
    let resource = path::parse(raw)?;
    let allowed = match (resource.is_config(), resource.is_root()) {
        (false, _) => ALLOWED_STATE,
        (true, true) => ALLOWED_ROOT,
        (true, false) => ALLOWED,
    };
    let allowed = if target.store == Store::Startup { ALLOWED_STATE } else { allowed };
    let method = call.parts.method.clone();
    match method {
        Method::GET | Method::HEAD => get(call, target, resource).await,
        Method::OPTIONS => Ok(options(allowed)),
        _ if !allowed.split(", ").any(|one| one == method.as_str()) => Err(not_allowed(allowed)),
        _ => change(call, target, resource, body).await,
    }
}

/// Answers a request for operational data.
pub async fn operational(call: Call, target: Target, raw: &str) -> Result<Response, Faults> {
    let resource = path::parse(raw)?;
    match call.parts.method {
        Method::GET | Method::HEAD => get(call, target, resource).await,
        Method::OPTIONS => Ok(options(ALLOWED_STATE)),
        _ => Err(not_allowed(ALLOWED_STATE)),
    }
}

// ===== reads =====

async fn get(call: Call, target: Target, resource: Resource) -> Result<Response, Faults> {
    let query = Query::parse(call.parts.uri.query().unwrap_or_default(), &call.parts.method)?;
    let media = Media::accepted(&call.parts.headers)?;
    let snapshot = call.app.datastore.tree(target.store);
    let tags = tags(&call, &snapshot);
    let state = state(&call, target, &resource, query.content, query.fields.as_deref()).await?;
    // State changes without a new tag.
    if state.is_none()
        && let Some(response) = tags.unmodified(&call.parts.headers)
    {
        return Ok(response);
    }
    let is_small = matches!(resource.kind(), Some(SchemaNodeKind::Leaf))
        && query.defaults != Defaults::ReportAll;
    let (app, user) = (Arc::clone(&call.app), call.identity.name.clone());
    let work = move || {
        let management = call.app.management();
        let rights = Rights::of(&call.identity, &management);
        let request = ReadRequest { resource: &resource, query: &query, rights: &rights, media };
        let path = resource.data_path();
        let text = text(&snapshot, state.as_ref(), &request, &call.host())?;
        text.ok_or_else(|| Faults::from(Fault::nowhere("no such resource").at(path)))
    };
    // Large trees are printed off the threads that answer clients.
    let text = match is_small {
        true => work()?,
        false => app
            .turns
            .run(&user, work)
            .await
            .map_err(|_| Fault::broken("cannot print the data"))??,
    };
    let mut response = ([(header::CONTENT_TYPE, media.name())], text).into_response();
    tags.add(response.headers_mut());
    Ok(response)
}

/// Prints the requested part of a datastore and the forwarder's state beside it. `host` is the name by which the
/// client reaches this machine. `None`: there is no data.
///
/// # Errors
/// When libyang fails.
pub fn text(
    snapshot: &Arc<Snapshot>,
    state: Option<&DataTree<'static>>,
    request: &ReadRequest<'_>,
    host: &str,
) -> Result<Option<String>, Faults> {
    let broken = |_| Fault::broken("the data cannot be copied");
    let first = request.resource.steps.first().map(|step| step.module.as_str());
    if first.is_some_and(library::is_generated) {
        return Ok(match request.query.content {
            Content::Config => None,
            _ => request.read(&library::facts(host)?)?,
        });
    }
    let mut full;
    let mut tree: &DataTree<'static> = &snapshot.tree;
    if request.query.defaults == Defaults::ReportAll {
        full = tree.duplicate().map_err(broken)?;
        full.add_implicit(yang5::data::DataImplicitFlags::NO_STATE).map_err(broken)?;
        tree = &full;
    }
    let mut whole;
    if let Some(state) = state {
        whole = tree.duplicate().map_err(broken)?;
        whole.merge(state).map_err(broken)?;
        if request.resource.is_root() {
            whole.merge(&library::facts(host)?).map_err(broken)?;
        }
        tree = &whole;
    }
    Ok(request.read(tree)?)
}

/// The forwarder's state for a resource; `None`: none is needed.
async fn state(
    call: &Call,
    target: Target,
    resource: &Resource,
    content: Content,
    fields: Option<&[Field]>,
) -> Result<Option<DataTree<'static>>, Faults> {
    // A configured leaf is not state: the forwarder need not be asked.
    let is_leaf = matches!(resource.kind(), Some(SchemaNodeKind::Leaf | SchemaNodeKind::LeafList));
    let is_value = is_leaf && resource.is_config();
    if content == Content::Config || target.store != Store::Running || is_value {
        return Ok(None);
    }
    let may_lack = content == Content::All && resource.is_config();
    let path = resource.data_path();
    let requested = match fields {
        // Some state takes long to read, such as the number of flows: not unless it is selected.
        Some(fields) if !resource.is_root() => {
            StateRequest::of_members(&path, fields.iter().map(|field| field.name.as_str()))
        }
        _ => StateRequest::at(&path),
    };
    read_state(&call.app.datastore, &requested, may_lack).await
}

/// The forwarder's state at or below a path, whose lists may lack their keys; `None`: none is needed, or the forwarder
/// does not answer and `may_lack` is true.
///
/// # Errors
/// When the forwarder does not answer.
pub async fn facts(
    datastore: &Datastore,
    path: &str,
    may_lack: bool,
) -> Result<Option<DataTree<'static>>, Faults> {
    read_state(datastore, &StateRequest::at(path), may_lack).await
}

async fn read_state(
    datastore: &Datastore,
    requested: &StateRequest,
    may_lack: bool,
) -> Result<Option<DataTree<'static>>, Faults> {
    if requested.is_empty() {
        return Ok(None);
    }
    match state::read(datastore.connection(), requested).await {
        Ok(tree) => Ok(Some(tree)),
        // The configuration is available all the same; a request for state alone fails.
        Err(error) if may_lack => {
            tracing::debug!("serving the configuration without state: {error}");
            Ok(None)
        }
        Err(error) => {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            Err(Fault::application(status, "operation-failed", error.to_string()).into())
        }
    }
}

fn tags(call: &Call, snapshot: &Snapshot) -> Tags {
    Tags::new(call.app.started, snapshot.revision, snapshot.modified)
}

// ===== changes =====

async fn change(
    call: Call,
    target: Target,
    resource: Resource,
    body: Body,
) -> Result<Response, Faults> {
    let method = call.parts.method.clone();
    let query = Query::parse(call.parts.uri.query().unwrap_or_default(), &method)?;
    let (media, bytes) = if method == Method::DELETE {
        (None, Vec::new())
    } else {
        let media = Media::content_type(&call.parts.headers)?;
        (Some(media), call.body(body).await?)
    };
    let author = call.author();
    let datastore = call.app.datastore.clone();
    let call = Arc::new(call);
    let job = Arc::new((resource, query, media, bytes, target, method));
    for turn in 1.. {
        let snapshot = datastore.tree(target.store);
        let is_asked = tags(&call, &snapshot).check(&call.parts.headers)?;
        let (worker, store) = (Arc::clone(&call), datastore.clone());
        let task = Arc::clone(&job);
        // Large bodies are parsed off the threads that answer clients.
        let made = call.app.turns.run(&call.identity.name, move || {
            let (resource, query, media, bytes, target, method) = &*task;
            let change = Change {
                method,
                resource: resource.clone(),
                given: media.map(|media| (media, bytes.as_slice())),
                insert: query.insert.clone(),
            };
            let management = worker.app.management();
            let rights = Rights::of(&worker.identity, &management);
            if rights.is_whole() {
                change.has_place(&store, target.store)?;
            }
            let asked = change.asked()?;
            let named = std::slice::from_ref(&asked.edit);
            let is_hidden = permitted::named(&store, target.store, named, &rights)?;
            let mut made = change.plan(asked, &store, target.store)?;
            if is_hidden {
                // Whether it is new tells whether it existed.
                made.created = None;
            }
            let rights_and_hidden = (&rights, is_hidden);
            let is_change =
                permitted::changed(&store, target.store, &made.edits, rights_and_hidden)?;
            Ok::<_, Faults>((made, rights.is_whole(), is_change))
        });
        let (made, is_whole, is_change) =
            made.await.map_err(|_| Fault::broken("the change failed"))??;
        if !is_change {
            // No commit for an empty change: it would confirm a pending one and write files.
            let mut response = StatusCode::NO_CONTENT.into_response();
            tags(&call, &datastore.tree(target.store)).add(response.headers_mut());
            return Ok(response);
        }
        // The change applies to the data that it was checked against; otherwise the check is repeated.
        let is_bound = made.is_bound || !is_whole;
        let if_match = (is_asked || is_bound).then_some(snapshot.revision);
        match write::make(&datastore, &author, target.store, made, if_match).await {
            // Without a condition of the client, a conflict only repeats the check.
            Err(Refusal::Stale) if !is_asked => {
                if turn >= TRIES {
                    break;
                }
            }
            Err(refusal) => {
                let refused =
                    refusals::readable::<Response>(&call.app, &call.identity, Err(refusal));
                return Ok(refused.await?);
            }
            Ok((created, status, warnings)) => {
                let mut response = status.into_response();
                for warning in headers(&warnings::readable(&call, warnings).await) {
                    response.headers_mut().append(header::WARNING, warning);
                }
                tags(&call, &datastore.tree(target.store)).add(response.headers_mut());
                if let Some(location) = created.and_then(|resource| location(&resource, target)) {
                    response.headers_mut().insert(header::LOCATION, location);
                }
                return Ok(response);
            }
        }
    }
    let words = "the configuration changed during each of several attempts: try again";
    Err(Fault::application(StatusCode::CONFLICT, "in-use", words).into())
}

/// Length of a warning in a header, in bytes.
const WARNING_LIMIT: usize = 500;
/// Most warnings of an answer: clients limit the size of all headers together.
const WARNINGS: usize = 10;

/// The warnings of a commit as headers.
fn headers(warnings: &[String]) -> impl Iterator<Item = HeaderValue> {
    warnings.iter().filter_map(|text| warning(text)).take(WARNINGS)
}

/// A warning of the commit as a header: code 299, a miscellaneous warning (RFC 7234 5.5).
fn warning(text: &str) -> Option<HeaderValue> {
    let plain = text.chars().map(|letter| match letter {
        '"' | '\\' => '\'',
        ' '..='~' => letter,
        _ => '?',
    });
    let plain: String = plain.take(WARNING_LIMIT).collect();
    HeaderValue::try_from(format!("299 - \"{plain}\"")).ok()
}

/// The URL of a resource.
fn location(resource: &Resource, target: Target) -> Option<HeaderValue> {
    let mut url = match (target.is_ds, target.store) {
        (false, _) => format!("{ROOT}/data"),
        (true, Store::Candidate) => format!("{ROOT}/ds/ietf-datastores:candidate"),
        (true, Store::Running) => format!("{ROOT}/ds/ietf-datastores:running"),
        (true, Store::Startup) => format!("{ROOT}/ds/ietf-datastores:startup"),
    };
    for (name, step) in path::named(&resource.steps) {
        url.push('/');
        url.push_str(&name);
        let keys: Vec<String> =
            step.keys.iter().map(|(_, key)| utf8_percent_encode(key, KEY).to_string()).collect();
        if !keys.is_empty() {
            url.push('=');
            url.push_str(&keys.join(","));
        }
    }
    HeaderValue::try_from(url).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_few_headers() {
        let warnings: Vec<String> = (0..50).map(|at| format!("user \"ann{at}\"\n")).collect();
        let whole: Vec<_> = headers(&warnings).collect();
        assert_eq!((whole.len(), whole[9].to_str().unwrap()), (10, "299 - \"user 'ann9'?\""));
    }
}
