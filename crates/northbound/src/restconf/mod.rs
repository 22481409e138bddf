//! RESTCONF (RFC 8040): the datastores as resources, and `/ds/` of RFC 8527.
//!
//! A `call` is a request of an authenticated client. `path` and `query` parse requests, `read` reads, `body`,
//! `permitted` and `write` change, `rpc` calls operations (`operation`), `warnings` are those of commits, `refusals`
//! those of changes, `library` describes the schema, `streams` sends events, and `fault` formats errors.

pub mod body;
mod call;
pub mod condition;
pub mod data;
pub mod fault;
pub mod keys;
pub mod library;
mod logins;
pub mod media;
mod openapi;
pub mod operation;
pub mod path;
pub mod permitted;
pub mod query;
pub mod read;
mod read_only;
mod recent;
pub mod refusals;
pub mod rpc;
mod searches;
mod streams;
#[cfg(test)]
mod tests;
mod warnings;
pub mod write;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use http::{StatusCode, header};
use serde_json::json;
use stoa_controller::datastore::Store;

use crate::audit::AuditRecord;
use crate::server::app_state::{AppState, peer};
use call::{Call, LIBRARY, ROOT, only_read};
use fault::{Fault, Faults, NAMESPACE};
use media::Media;

/// The routes of RESTCONF.
pub fn router() -> Router<Arc<AppState>> {
    Router::new()
        .route("/.well-known/host-meta", get(host_meta))
        .route("/openapi.json", get(open_api))
        .route("/restconf", any(serve))
        .route("/restconf/", any(serve))
        .route("/restconf/{*rest}", any(serve))
}

/// RFC 8040, section 3.1: discovery of the root.
async fn host_meta() -> Response {
    let body = format!(
        "<XRD xmlns=\"http://docs.oasis-open.org/ns/xri/xrd-1.0\">\n\
         <Link rel=\"restconf\" href=\"{ROOT}\"/>\n</XRD>\n"
    );
    ([(header::CONTENT_TYPE, "application/xrd+xml")], body).into_response()
}

/// The OpenAPI description, for authenticated users only: it reveals what the router can do.
async fn open_api(State(app): State<Arc<AppState>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match app.identify(&parts).await {
        Ok(_) => {
            let text = tokio::task::spawn_blocking(openapi::text).await.unwrap_or("{}");
            ([(header::CONTENT_TYPE, "application/json")], text).into_response()
        }
        Err(denied) => Faults::denied(&denied, &parts.headers).response(Media::Json),
    }
}

/// Answers any request below the root.
async fn serve(State(app): State<Arc<AppState>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let identity = match app.identify(&parts).await {
        Ok(identity) => identity,
        Err(denied) => {
            let media = Media::for_faults(&parts.headers);
            return Faults::denied(&denied, &parts.headers).response(media);
        }
    };
    let from = peer(&parts).address;
    // Over HTTP/2 the URI includes the host, which the audit log does not need.
    let asked = parts.uri.path_and_query().map_or("", |asked| asked.as_str());
    let what = format!("{} {asked}", parts.method);
    let user = identity.name.clone();
    let media = Media::for_faults(&parts.headers);
    let is_change = !parts.method.is_safe() && !rpc::only_reads(parts.uri.path());
    let call = Call { app: Arc::clone(&app), identity, parts, media };
    let work = async move {
        let answered = dispatch(call, body).await;
        note(
            &app,
            is_change,
            &answered,
            &AuditRecord {
                user: &user,
                from: Some(from),
                client: "restconf",
                what: &what,
                result: "",
            },
        );
        answered
    };
    // A disconnect interrupts neither the change nor its audit record.
    let answered = match is_change {
        true => match tokio::spawn(work).await {
            Ok(answered) => answered,
            Err(broken) if broken.is_panic() => std::panic::resume_unwind(broken.into_panic()),
            Err(_) => Err(Fault::broken("the router is shutting down").into()),
        },
        false => work.await,
    };
    answered.unwrap_or_else(|faults| faults.response(media))
}

/// Writes an audit record for changes, and one of the refused requests for changes and for forbidden reads.
fn note(
    app: &AppState,
    is_change: bool,
    answered: &Result<Response, Faults>,
    record: &AuditRecord<'_>,
) {
    if is_change || answered.as_ref().is_err_and(|faults| faults.status() == StatusCode::FORBIDDEN)
    {
        let result = match answered {
            Ok(response) => response.status().to_string(),
            Err(faults) => format!("{}: {}", faults.status(), faults.words()),
        };
        app.audit.write_result(answered.is_ok(), &AuditRecord { result: &result, ..*record });
    }
}

async fn dispatch(call: Call, body: axum::body::Body) -> Result<Response, Faults> {
    let path = call.parts.uri.path().to_owned();
    let rest = path.strip_prefix(ROOT).unwrap_or_default();
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let (first, below) = rest.split_once('/').unwrap_or((rest, ""));
    match first {
        "" => only_read(&call, root(&call)),
        "data" => {
            data::serve(call, data::Target { store: Store::Running, is_ds: false }, below, body)
                .await
        }
        "ds" => {
            let (name, below) = below.split_once('/').unwrap_or((below, ""));
            let store = match name.replace("%3A", ":").replace("%3a", ":").as_str() {
                "ietf-datastores:running" => Store::Running,
                "ietf-datastores:candidate" => Store::Candidate,
                "ietf-datastores:startup" => Store::Startup,
                "ietf-datastores:operational" => {
                    let target = data::Target { store: Store::Running, is_ds: true };
                    return data::operational(call, target, below).await;
                }
                _ => return Err(Fault::nowhere(
                    "no such datastore: use ietf-datastores:running, candidate, startup and operational",
                ).into()),
            };
            data::serve(call, data::Target { store, is_ds: true }, below, body).await
        }
        "operations" => rpc::serve(call, below, body).await,
        "yang-library-version" => {
            let text = match call.media {
                Media::Json => json!({ "ietf-restconf:yang-library-version": LIBRARY }).to_string(),
                Media::Xml => format!(
                    "<yang-library-version xmlns=\"{NAMESPACE}\">{LIBRARY}</yang-library-version>"
                ),
            };
            only_read(&call, text)
        }
        "schemas" => library::schema(&call, below),
        "streams" => streams::serve(call, below),
        _ => Err(Fault::nowhere(
            "no such resource: below the root are data, ds, operations, schemas, streams and \
                                 yang-library-version",
        )
        .into()),
    }
}

/// The API resource of section 3.3.
fn root(call: &Call) -> String {
    match call.media {
        Media::Json => {
            let root = json!({ "data": {}, "operations": {}, "yang-library-version": LIBRARY });
            json!({ "ietf-restconf:restconf": root }).to_string()
        }
        Media::Xml => format!(
            "<restconf xmlns=\"{NAMESPACE}\"><data/><operations/>\
             <yang-library-version>{LIBRARY}</yang-library-version></restconf>"
        ),
    }
}
