//! A request of an authenticated client, and answers that several resources give.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use stoa_controller::datastore::{Author, Client};

use super::fault::{Fault, Faults};
use super::media::Media;
use crate::auth::{Identity, Proof};
use crate::server::app_state::{AppState, author};

/// The path of the root.
pub(super) const ROOT: &str = "/restconf";
/// The revision of ietf-yang-library.
pub(super) const LIBRARY: &str = "2019-01-04";

/// An authenticated request.
#[derive(Debug)]
pub struct Call {
    pub(super) app: Arc<AppState>,
    pub(super) identity: Identity,
    pub(super) parts: Parts,
    pub(super) media: Media,
}

impl Call {
    /// Who asks, as an author of changes.
    pub(super) fn author(&self) -> Author {
        let client =
            if self.identity.proof == Proof::Session { Client::Web } else { Client::Restconf };
        author(&self.parts.extensions, &self.identity, client)
    }

    /// The name and port by which the client reaches this machine.
    pub(super) fn host(&self) -> String {
        let named = self.parts.uri.authority().map(|authority| authority.as_str());
        let header = self.parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        named.or(header).unwrap_or_default().to_owned()
    }

    /// The body, within the limit of the settings.
    pub(super) async fn body(&self, body: axum::body::Body) -> Result<Vec<u8>, Faults> {
        let limit = self.app.management().limits.body_bytes;
        Ok(self.app.body(body, usize::try_from(limit).unwrap_or(usize::MAX)).await?)
    }
}

/// Answers a read-only resource.
pub(super) fn only_read(call: &Call, text: String) -> Result<Response, Faults> {
    match call.parts.method {
        Method::GET | Method::HEAD => {
            let media = Media::accepted(&call.parts.headers)?;
            Ok(([(header::CONTENT_TYPE, media.name())], format!("{text}\n")).into_response())
        }
        Method::OPTIONS => Ok(options("OPTIONS, GET, HEAD")),
        _ => Err(not_allowed("OPTIONS, GET, HEAD")),
    }
}

/// The allowed methods of a resource.
pub(super) fn options(allowed: &'static str) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let fields = response.headers_mut();
    fields.insert(header::ALLOW, HeaderValue::from_static(allowed));
    if allowed.contains("PATCH") {
        let patch = "application/yang-data+json, application/yang-data+xml";
        fields.insert("accept-patch", HeaderValue::from_static(patch));
    }
    response
}

/// The error for a method that a resource does not have.
pub(super) fn not_allowed(allowed: &'static str) -> Faults {
    let words = format!("this method is not allowed here: use {allowed}");
    Faults::from(Fault::unsupported(words)).with(header::ALLOW, HeaderValue::from_static(allowed))
}
