//! The routes of the portal, and what each request passes before them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use http::header::{self, HeaderValue};
use http::{HeaderMap, StatusCode, Uri};
use stoa_controller::config::login::Portal as Settings;

use super::forms::Form;
use super::state::Portal;
use super::{api, log_in, pages};
use crate::auth::Peer;
use crate::server::app::origin;

/// Requests of one client per second.
const REQUESTS_PER_SECOND: u32 = 50;
/// Only our own style and forms: no script, nothing of other sites, no frames.
const POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// The routes of the portal.
pub(super) fn router(portal: &Arc<Portal>) -> Router {
    Router::new()
        .route("/", get(log_in::show))
        .route("/log-in", post(log_in::log_in))
        .route("/log-out", post(log_in::log_out))
        .route("/captive-portal/api", get(api::serve))
        .route("/style.css", get(async || pages::style()))
        .fallback(any(async || pages::home()))
        .method_not_allowed_fallback(async || pages::home())
        .layer(middleware::from_fn_with_state(Arc::clone(portal), guard))
        .with_state(Arc::clone(portal))
}

/// Whether a request names the portal, and not another host.
fn is_ours(settings: &Settings, uri: &Uri, headers: &HeaderMap) -> bool {
    let named = uri.authority().map(|authority| authority.as_str());
    let Some(named) = named.or_else(|| headers.get(header::HOST)?.to_str().ok()) else {
        return false;
    };
    let url = settings.url.as_deref().unwrap_or_default();
    let of_url = url.strip_prefix("https://").and_then(|rest| rest.split('/').next());
    let is_same = |ours: &str| {
        let plain = |host: &str| host.strip_suffix(":443").unwrap_or(host).to_ascii_lowercase();
        plain(named) == plain(ours)
    };
    let mut of_addresses = settings.address.iter().map(|it| SocketAddr::new(*it, settings.port));
    of_url.is_some_and(is_same) || of_addresses.any(|it| is_same(&it.to_string()))
}

/// Runs for every request: rate limit, forged hosts, cross-site requests, security headers of the answer.
async fn guard(State(portal): State<Arc<Portal>>, request: Request, next: Next) -> Response {
    let settings = portal.settings();
    let from = request.extensions().get::<Peer>().map(Peer::source);
    let is_over =
        from.is_some_and(|from| !portal.rate.take(from, REQUESTS_PER_SECOND, Instant::now()));
    let mut response = if is_over {
        (StatusCode::TOO_MANY_REQUESTS, "Too many requests: wait a moment.\n").into_response()
    } else if !is_ours(&settings.portal, request.uri(), request.headers()) {
        (StatusCode::MISDIRECTED_REQUEST, "This is another host.\n").into_response()
    } else if let Some(words) = origin::refusal(request.method(), request.uri(), request.headers())
    {
        // Clients that still send a form would not see the answer.
        let _ = Form::read(request.into_body()).await;
        (StatusCode::FORBIDDEN, format!("{words}\n")).into_response()
    } else {
        next.run(request).await
    };
    let fields = [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cache-control", "no-store"),
    ];
    for (name, value) in fields {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests;
