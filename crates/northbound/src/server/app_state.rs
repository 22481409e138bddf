//! What all endpoints share: authentication, the audit log, bodies within their limits, and error responses.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use stoa_controller::config::management::Management;
use stoa_controller::datastore::{self, Author, Client, Datastore};
use tokio::sync::broadcast;

use super::connections::Connection;
use super::links::{self, Link};
use super::quota::ClientQuotas;
use super::rate::Rate;
use super::turns::Turns;
use crate::audit::{Audit, AuditRecord};
use crate::auth::{Authenticator, Denied, Identity, Peer, Proof, sessions};

/// Time for the complete body of a request.
const BODY: Duration = Duration::from_secs(120);
/// Time for a frame of a request's body.
pub const BODY_FRAME: Duration = Duration::from_secs(10);
/// Largest body of endpoints with short requests.
pub const WORDS_BYTES: usize = 64 << 10;

/// State that all endpoints share.
#[derive(Debug)]
pub struct AppState {
    /// Authentication.
    pub authenticator: Authenticator,
    /// The audit log.
    pub audit: Audit,
    /// The datastores of the controller.
    pub datastore: Datastore,
    /// Start time of the program, in seconds since 1970: revisions count from it.
    pub started: u64,
    /// Link changes of interfaces.
    pub links: broadcast::Sender<Link>,
    /// Event streams by client.
    pub listeners: Arc<ClientQuotas>,
    /// Captures by client.
    pub captures: Arc<ClientQuotas>,
    pub(super) rate: Rate,
    /// Long work of users.
    pub turns: Turns,
    /// New tokens by user.
    pub(super) token_rate: Rate<String>,
}

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// It is larger than this, in bytes.
    TooLarge(usize),
    /// It did not arrive in time.
    TooSlow,
    /// The connection broke.
    Broken,
}

impl AppState {
    /// Writes what is counted or changed in memory alone, before the program ends.
    pub fn end(&self) {
        self.audit.write_all_counts();
        self.authenticator.sessions.store();
    }

    /// The state for a router.
    pub fn new(datastore: &Datastore) -> Arc<AppState> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Arc::new(AppState {
            authenticator: Authenticator::new(datastore.state()),
            audit: Audit::new(datastore.state()),
            datastore: datastore.clone(),
            started: since.unwrap_or_default().as_secs(),
            links: broadcast::channel(links::EVENTS).0,
            listeners: Arc::default(),
            captures: Arc::default(),
            rate: Rate::default(),
            turns: Turns::default(),
            token_rate: Rate::default(),
        })
    }

    /// The current settings: a removed user is locked out as soon as the commit is done.
    pub fn management(&self) -> Arc<Management> {
        self.datastore.connection().management()
    }

    /// Creates or removes the setup token, and removes sessions and tokens of removed users.
    pub fn follow(&self, management: &Management) {
        self.authenticator.setup.follow(!management.user.is_empty());
        self.authenticator.end_sessions(management);
        // An unconfirmed commit may be rolled back, which restores its users: check before and after.
        let is_settled = || self.datastore.unconfirmed().is_none();
        if is_settled() {
            let management = self.management();
            if is_settled() {
                self.authenticator.tokens.follow(&management.user);
            }
        }
    }

    /// Authenticates a request. Failures are written to the audit log.
    ///
    /// # Errors
    /// Why authentication failed.
    pub async fn identify(&self, parts: &Parts) -> Result<Identity, Denied> {
        let peer = peer(parts);
        let management = self.management();
        let known =
            self.authenticator.identify(&management, &peer, &parts.method, &parts.headers).await;
        match &known {
            Ok(_) => authenticate_connection(parts),
            Err(denied) => {
                let what = format!("{} {}", parts.method, parts.uri.path());
                self.audit_failure(&peer, denied, &what);
            }
        }
        known
    }

    /// Writes a failed authentication to the audit log.
    pub fn audit_failure(&self, peer: &Peer, denied: &Denied, what: &str) {
        let (user, result) = match denied {
            // Browsers and programs send such requests to learn the authentication schemes.
            Denied::Unknown => return,
            Denied::Wrong(user, _) => (user, "wrong credentials"),
            Denied::Wait(user, _) => (user, "locked out"),
            Denied::Busy(user) => (user, "too many attempts at the same time"),
            Denied::NoRadiusReply(user) => (user, "no RADIUS server answered"),
            Denied::CrossSite(user) => (user, "cross-site request"),
        };
        let from = Some(peer.address);
        self.audit.write_login(&AuditRecord { user, from, client: "log-in", what, result });
    }

    /// Reads the body of a request within the limits.
    ///
    /// # Errors
    /// When it is too large, too slow or incomplete.
    pub async fn body(&self, body: Body, limit: usize) -> Result<Vec<u8>, BodyError> {
        tokio::time::timeout(BODY, collect(body, limit)).await.unwrap_or(Err(BodyError::TooSlow))
    }
}

async fn collect(mut body: Body, limit: usize) -> Result<Vec<u8>, BodyError> {
    let mut bytes = Vec::new();
    loop {
        let frame = tokio::time::timeout(BODY_FRAME, body.frame()).await;
        match frame.map_err(|_| BodyError::TooSlow)? {
            None => return Ok(bytes),
            Some(Err(_)) => return Err(BodyError::Broken),
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else { continue };
                if bytes.len() + data.len() > limit {
                    return Err(BodyError::TooLarge(limit));
                }
                bytes.extend_from_slice(&data);
            }
        }
    }
}

impl BodyError {
    /// The HTTP status.
    pub fn status(self) -> StatusCode {
        match self {
            BodyError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::TooSlow => StatusCode::REQUEST_TIMEOUT,
            BodyError::Broken => StatusCode::BAD_REQUEST,
        }
    }

    /// The message.
    pub fn words(self) -> String {
        match self {
            BodyError::TooLarge(limit) => format!(
                "the body is larger than {limit} bytes: for a configuration, raise \
                /stoa-management:management/limits/body-bytes"
            ),
            BodyError::TooSlow => "the body did not arrive in time: send it faster".into(),
            BodyError::Broken => "the body is incomplete: the connection broke".into(),
        }
    }
}

/// The local address and port of the connection, beside its [`Peer`].
#[derive(Clone, Copy, Debug)]
pub struct Local(pub SocketAddr);

/// The author of a change, with the connection it uses, so that a commit does not cut it off unnoticed.
pub fn author(extensions: &http::Extensions, identity: &Identity, client: Client) -> Author {
    let proof = match identity.proof {
        Proof::Password | Proof::Session => datastore::Credential::Password,
        Proof::Token => datastore::Credential::Token,
        Proof::Certificate => datastore::Credential::Certificate,
    };
    let local = extensions.get::<Local>();
    let peer = extensions.get::<Peer>().map(|peer| peer.address);
    let way = local.map(|Local(local)| datastore::AccessPath {
        local: *local,
        peer,
        credential: Some(proof),
    });
    Author::new(identity.name.clone(), client).with_access_path(way)
}

/// Somebody has logged in over the connection of a request: no other connection replaces it.
pub fn authenticate_connection(parts: &Parts) {
    let connection = parts.extensions.get::<Weak<Connection>>().and_then(Weak::upgrade);
    if let Some(connection) = connection.filter(|it| !it.is_authenticated()) {
        connection.authenticate(Instant::now());
    }
}

/// The peer of the connection. Requests of the program itself have none.
pub fn peer(parts: &Parts) -> Peer {
    let nowhere = Peer::at(std::net::Ipv4Addr::UNSPECIFIED.into());
    parts.extensions.get::<Peer>().cloned().unwrap_or(nowhere)
}

impl Denied {
    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        match self {
            Denied::Unknown | Denied::Wrong(..) => StatusCode::UNAUTHORIZED,
            Denied::Wait(..) => StatusCode::TOO_MANY_REQUESTS,
            Denied::Busy(_) | Denied::NoRadiusReply(_) => StatusCode::SERVICE_UNAVAILABLE,
            Denied::CrossSite(_) => StatusCode::FORBIDDEN,
        }
    }

    /// The message. It does not reveal whether the user exists.
    pub fn words(&self) -> String {
        match self {
            Denied::Unknown => "log in with user and password, or with a token".into(),
            Denied::Wrong(_, delay) if !delay.is_zero() => {
                format!("wrong user, password or token; try again in {} s", delay.as_secs())
            }
            Denied::Wrong(..) => "wrong user, password or token".into(),
            Denied::Wait(_, wait) => {
                format!("too many failed logins: wait {} s", wait.as_secs() + 1)
            }
            Denied::Busy(_) => "too many logins at the same time: try again".into(),
            Denied::NoRadiusReply(_) => {
                "no RADIUS server answered: try again, or log in as a user of the \
            configuration"
                    .into()
            }
            Denied::CrossSite(_) => format!(
                "a state-changing request with a session cookie needs the header {}",
                sessions::HEADER
            ),
        }
    }

    /// The header fields of the response.
    pub fn fields(&self, asked: &HeaderMap) -> HeaderMap {
        let mut fields = HeaderMap::new();
        match self {
            // The web page has a login form; the browser must not show its own dialog.
            Denied::Unknown | Denied::Wrong(..) if !asked.contains_key(sessions::HEADER) => {
                for proof in ["Basic realm=\"Stoa\", charset=\"UTF-8\"", "Bearer realm=\"Stoa\""] {
                    fields.append(header::WWW_AUTHENTICATE, HeaderValue::from_static(proof));
                }
            }
            Denied::Busy(_) | Denied::NoRadiusReply(_) => {
                fields.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            Denied::Wait(_, wait) => {
                fields.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
            }
            _ => {}
        }
        fields
    }
}

/// An error response of the endpoints other than RESTCONF.
pub fn failure(status: StatusCode, words: impl Into<String>) -> Response {
    answer(status, &json!({ "error": words.into() }))
}

/// The response to an unauthenticated request.
pub fn answer_denied(parts: &Parts, denied: &Denied) -> Response {
    let mut response = failure(denied.status(), denied.words());
    response.headers_mut().extend(denied.fields(&parts.headers));
    response
}

/// A JSON response.
pub fn answer(status: StatusCode, value: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (status, kind, format!("{value}\n")).into_response()
}
