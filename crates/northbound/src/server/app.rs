//! The routes of all endpoints, what runs for each request (rate limits, cross-site checks), and the login endpoints.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use http::StatusCode;
use http::header::{self, HeaderValue};

use super::app_state::{AppState, answer_denied, failure, peer};
use crate::audit::AuditRecord;
use crate::auth::Peer;
use crate::capture;
use crate::gnmi;
use crate::nacm::{Operation, Rights};
use crate::restconf;
use crate::restconf::fault::{Fault, Faults};
use crate::restconf::media::Media;
use crate::restconf::path;
use crate::web;

mod login;
pub mod origin;

/// The routes of all endpoints.
pub fn router(app: &Arc<AppState>) -> Router {
    Router::new()
        .route("/setup", post(login::set_up))
        .route("/login", post(login::log_in))
        .route("/logout", post(login::log_out))
        .route("/tokens", get(login::list_tokens).post(login::make_token))
        .route("/tokens/{id}", axum::routing::delete(login::remove_token))
        .route("/whoami", get(login::who_am_i))
        .route("/metrics", get(metrics))
        .route("/capture", get(capture::serve))
        .merge(restconf::router())
        .merge(web::router())
        .merge(gnmi::router(app))
        .fallback(any(async || {
            failure(StatusCode::NOT_FOUND, "not found: no such path on this server")
        }))
        .method_not_allowed_fallback(async || {
            failure(StatusCode::METHOD_NOT_ALLOWED, "this method is not allowed for this path")
        })
        .layer(middleware::from_fn_with_state(Arc::clone(app), guard))
        .with_state(Arc::clone(app))
}

/// Data that metrics are made of, by module and name.
const IN_METRICS: [(&str, &str); 3] = [
    ("ietf-interfaces", "interfaces"),
    ("ietf-routing", "routing"),
    ("stoa-forwarder", "forwarder"),
];
/// Modules of nodes below that metrics are made of as well.
const MODULES_IN_METRICS: [&str; 5] =
    ["ietf-ip", "ietf-vrrp", "stoa-bfd", "stoa-interfaces", "stoa-routing"];

/// `GET /metrics`: all metrics, for users who may read what they are made of.
async fn metrics(State(app): State<Arc<AppState>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let identity = match app.identify(&parts).await {
        Ok(identity) => identity,
        Err(denied) => return answer_denied(&parts, &denied),
    };
    if !may_read_metrics(&Rights::of(&identity, &app.management())) {
        let (user, from) = (identity.name.as_str(), Some(peer(&parts).address));
        let (what, result) = ("GET /metrics", "forbidden");
        let record = AuditRecord { user, from, client: "metrics", what, result };
        app.audit.write_result(false, &record);
        let words = "access denied: metrics need the right to read all of interfaces, routing and forwarder, \
                     see ietf-netconf-acm:nacm";
        return failure(StatusCode::FORBIDDEN, words);
    }
    let page = stoa_controller::metrics::render(app.datastore.connection()).await;
    ([(header::CONTENT_TYPE, stoa_controller::metrics::CONTENT_TYPE)], page).into_response()
}

/// Whether nothing that metrics are made of is hidden from a client.
fn may_read_metrics(rights: &Rights<'_>) -> bool {
    let top = |module, name| path::below(Vec::new(), module, name);
    // A rule without a path hides all nodes of a module.
    let of_modules = MODULES_IN_METRICS.into_iter().map(|module| top(module, ""));
    rights.is_whole()
        || IN_METRICS.into_iter().all(|(module, name)| rights.may_read_all(&top(module, name)))
            && of_modules.into_iter().all(|any| rights.may(Operation::Read, &any))
}

/// Runs for every request: rate limit, cross-site check, security headers of the response.
async fn guard(State(app): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    let from = request.extensions().get::<Peer>().map(|peer| peer.address);
    let limit = app.management().limits.requests_per_second;
    if let Some(from) = from
        && !app.rate.take(from, limit, Instant::now())
    {
        let words = format!(
            "more than {limit} requests per second: wait, or raise \
            /stoa-management:management/limits/requests-per-second"
        );
        if gnmi::is_grpc(request.headers()) {
            return gnmi::refused(tonic::Status::resource_exhausted(words));
        }
        let status = StatusCode::TOO_MANY_REQUESTS;
        let mut response = match request.uri().path().starts_with("/restconf") {
            true => {
                let fault = Fault::protocol(status, "resource-denied", words);
                Faults::from(fault).response(Media::for_faults(request.headers()))
            }
            false => failure(status, words),
        };
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        return response;
    }
    if let Some(words) = origin::refusal(request.method(), request.uri(), request.headers()) {
        let fault = Fault::application(StatusCode::FORBIDDEN, "access-denied", words);
        return match request.uri().path().starts_with("/restconf") {
            true => Faults::from(fault).response(Media::for_faults(request.headers())),
            false => failure(StatusCode::FORBIDDEN, words),
        };
    }
    let mut response = next.run(request).await;
    let fields = [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("strict-transport-security", "max-age=31536000"),
    ];
    for (name, value) in fields {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    let cache = response.headers_mut().entry(header::CACHE_CONTROL);
    cache.or_insert(HeaderValue::from_static("no-cache"));
    response
}

#[cfg(test)]
mod tests;
