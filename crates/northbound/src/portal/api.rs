//! The API for hosts (RFC 8908): whether a host has to log in, and what is left of its login.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header;
use serde_json::{Map, Value, json};
use stoa_controller::config::login::Login;
use stoa_controller::login::Session;

use super::state::Portal;
use crate::server::app_state::peer;

/// The media type (RFC 8908 section 5).
const KIND: &str = "application/captive+json";

/// `GET /captive-portal/api`, for the host that asks.
pub(super) async fn serve(State(portal): State<Arc<Portal>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let settings = portal.settings();
    let from = peer(&parts);
    let session = portal.host(&from).and_then(|it| it.session);
    let now = stoa_controller::login::clock_s();
    let mut state = state(&settings, from.address.is_ipv4(), now, session.as_ref());
    if portal.datastore.connection().login_interface(from.address).is_none() {
        // A host that need not log in.
        state.insert("captive".to_owned(), json!(false));
    }
    ([(header::CONTENT_TYPE, KIND)], format!("{}\n", Value::Object(state))).into_response()
}

fn state(
    settings: &Login,
    is_ip4: bool,
    now: u64,
    session: Option<&Session>,
) -> Map<String, Value> {
    let mut state = Map::new();
    state.insert("captive".to_owned(), json!(session.is_none()));
    state.insert("user-portal-url".to_owned(), json!(settings.portal.location(is_ip4)));
    if let Some(session) = session {
        state.insert("can-extend-session".to_owned(), json!(false));
        if let Some(left) = session.remaining_s(now) {
            state.insert("seconds-remaining".to_owned(), json!(left));
        }
        if let Some(left) = session.remaining_bytes() {
            state.insert("bytes-remaining".to_owned(), json!(left));
        }
    }
    state
}
