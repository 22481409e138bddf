//! What stands before every client: limits, who it is, the audit log, and the clients of logging in themselves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use stoa_controller::datastore::{self, Author, Client, Datastore};
use stoa_controller::management::Management;
use tokio::sync::broadcast;

use super::connection::BODY_FRAME;
use super::links::{self, Link};
use super::rate::Rate;
use super::share::Shares;
use crate::audit::{Audit, Deed};
use crate::auth::{Denied, Gate, Identity, Peer, Proof, sessions};
use crate::capture;
use crate::gnmi;
use crate::restconf;
use crate::restconf::fault::{Fault, Faults};
use crate::restconf::media::Media;
use crate::web;

mod login;
pub mod origin;

pub use origin::refusal as foreign;

/// The whole body of a request must be there after this time.
const BODY: Duration = Duration::from_secs(120);
/// Largest body of the clients that take a few words.
pub const WORDS_BYTES: usize = 64 << 10;

/// What all clients share.
#[derive(Debug)]
pub struct Front {
    /// Who comes in.
    pub gate: Gate,
    /// Who did what.
    pub audit: Audit,
    /// What the router is told and holds.
    pub datastore: Datastore,
    /// When the program was started, in seconds since 1970: revisions count from then.
    pub started: u64,
    /// Interfaces that went up or down.
    pub links: broadcast::Sender<Link>,
    /// Who listens to event streams.
    pub listeners: Arc<Shares>,
    /// Who is sent a capture.
    pub captures: Arc<Shares>,
    rate: Rate,
}

/// Why a body was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is larger than this, in bytes.
    TooLarge(usize),
    /// It did not come in time.
    TooSlow,
    /// The connection broke.
    Broken,
}

impl Front {
    /// The front over the router.
    pub fn new(datastore: &Datastore) -> Arc<Front> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Arc::new(Front {
            gate: Gate::new(datastore.state()),
            audit: Audit::new(datastore.state()),
            datastore: datastore.clone(),
            started: since.unwrap_or_default().as_secs(),
            links: broadcast::channel(links::EVENTS).0,
            listeners: Arc::default(),
            captures: Arc::default(),
            rate: Rate::default(),
        })
    }

    /// The settings in force, this moment: a user who was removed is out with the commit.
    pub fn management(&self) -> Arc<Management> {
        self.datastore.line().management()
    }

    /// Tells or forgets the way in for the first user, and forgets who was removed.
    pub fn follow(&self, management: &Management) {
        self.gate.setup.follow(!management.user.is_empty());
        self.gate.end_sessions(management);
        // A commit that waits may be undone, and then its users are there again: before and after the look at them.
        let is_settled = || self.datastore.unconfirmed().is_none();
        if is_settled() {
            let management = self.management();
            if is_settled() {
                self.gate.tokens.follow(&management.user);
            }
        }
    }

    /// Who sends a request. Who is not known is written down.
    ///
    /// # Errors
    /// Why not.
    pub async fn identify(&self, parts: &Parts) -> Result<Identity, Denied> {
        let peer = peer(parts);
        let management = self.management();
        let known = self.gate.identify(&management, &peer, &parts.method, &parts.headers).await;
        if let Err(denied) = &known {
            self.tell_denied(&peer, denied, &format!("{} {}", parts.method, parts.uri.path()));
        }
        known
    }

    fn tell_denied(&self, peer: &Peer, denied: &Denied, what: &str) {
        let (user, result) = match denied {
            // Browsers and programs ask so to learn which proof is wanted.
            Denied::Unknown => return,
            Denied::Wrong(user, _) => (user, "wrong credentials"),
            Denied::Wait(user, _) => (user, "locked out"),
            Denied::Busy(user) => (user, "too many tries at once"),
            Denied::Silent(user) => (user, "no RADIUS server answers"),
            Denied::Forged(user) => (user, "not from our page"),
        };
        let from = Some(peer.address);
        self.audit.write_refused(&Deed { user, from, client: "log-in", what, result });
    }

    /// The body of a request, within the limits.
    ///
    /// # Errors
    /// When it is too large, too slow, or does not come.
    pub async fn body(&self, body: Body, limit: usize) -> Result<Vec<u8>, Unread> {
        tokio::time::timeout(BODY, collect(body, limit)).await.unwrap_or(Err(Unread::TooSlow))
    }
}

async fn collect(mut body: Body, limit: usize) -> Result<Vec<u8>, Unread> {
    let mut bytes = Vec::new();
    loop {
        let frame = tokio::time::timeout(BODY_FRAME, body.frame()).await;
        match frame.map_err(|_| Unread::TooSlow)? {
            None => return Ok(bytes),
            Some(Err(_)) => return Err(Unread::Broken),
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else { continue };
                if bytes.len() + data.len() > limit {
                    return Err(Unread::TooLarge(limit));
                }
                bytes.extend_from_slice(&data);
            }
        }
    }
}

impl Unread {
    /// The status that tells it.
    pub fn status(self) -> StatusCode {
        match self {
            Unread::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Unread::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Unread::Broken => StatusCode::BAD_REQUEST,
        }
    }

    /// In words.
    pub fn words(self) -> String {
        match self {
            Unread::TooLarge(limit) => format!(
                "the body is larger than {limit} bytes: \
                 stoa-management:management/limits/body-bytes is the limit of configurations"
            ),
            Unread::TooSlow => "the body did not come in time".into(),
            Unread::Broken => "the body did not come to its end".into(),
        }
    }
}

/// The address and port of this machine that a request came to, beside the [`Peer`] of its connection.
#[derive(Clone, Copy, Debug)]
pub struct Local(pub SocketAddr);

/// Who asks for a change, with the way on which the request came: no commit cuts that unawares.
pub fn author(extensions: &http::Extensions, identity: &Identity, client: Client) -> Author {
    let proof = match identity.proof {
        Proof::Password | Proof::Session => datastore::Proof::Password,
        Proof::Token => datastore::Proof::Token,
        Proof::Certificate => datastore::Proof::Certificate,
    };
    let local = extensions.get::<Local>();
    let way = local.map(|Local(local)| datastore::Way { local: *local, proof: Some(proof) });
    Author::new(identity.name.clone(), client).on(way)
}

/// Who sent it, as the connection said. Requests made in the program itself come from nowhere.
pub fn peer(parts: &Parts) -> Peer {
    let nowhere = Peer { address: std::net::Ipv4Addr::UNSPECIFIED.into(), certificate: None };
    parts.extensions.get::<Peer>().cloned().unwrap_or(nowhere)
}

impl Denied {
    /// The status that tells it.
    pub fn status(&self) -> StatusCode {
        match self {
            Denied::Unknown | Denied::Wrong(..) => StatusCode::UNAUTHORIZED,
            Denied::Wait(..) => StatusCode::TOO_MANY_REQUESTS,
            Denied::Busy(_) | Denied::Silent(_) => StatusCode::SERVICE_UNAVAILABLE,
            Denied::Forged(_) => StatusCode::FORBIDDEN,
        }
    }

    /// In words. They do not say whether there is such a user.
    pub fn words(&self) -> String {
        match self {
            Denied::Unknown => "log in: by user and password, or by a token".into(),
            Denied::Wrong(_, delay) if !delay.is_zero() => {
                format!("wrong user, password or token; the next try is in {} s", delay.as_secs())
            }
            Denied::Wrong(..) => "wrong user, password or token".into(),
            Denied::Wait(_, wait) => {
                format!("too many wrong tries: wait {} s", wait.as_secs() + 1)
            }
            Denied::Busy(_) => "too many try to log in at this moment: try again".into(),
            Denied::Silent(_) => "no RADIUS server answers: try again, or log in as a user of the \
                                  configuration"
                .into(),
            Denied::Forged(_) => format!(
                "with a session, a request that changes something needs the header {}",
                sessions::HEADER
            ),
        }
    }

    /// The header fields that go with it.
    pub fn fields(&self, asked: &HeaderMap) -> HeaderMap {
        let mut fields = HeaderMap::new();
        match self {
            // Our own page has a form; the browser shall not show one of its own.
            Denied::Unknown | Denied::Wrong(..) if !asked.contains_key(sessions::HEADER) => {
                for proof in ["Basic realm=\"Stoa\", charset=\"UTF-8\"", "Bearer realm=\"Stoa\""] {
                    fields.append(header::WWW_AUTHENTICATE, HeaderValue::from_static(proof));
                }
            }
            Denied::Busy(_) | Denied::Silent(_) => {
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

/// A failure of the clients that are not RESTCONF.
pub fn failure(status: StatusCode, words: impl Into<String>) -> Response {
    answer(status, &json!({ "error": words.into() }))
}

/// The answer to somebody who is not known.
pub fn answer_denied(parts: &Parts, denied: &Denied) -> Response {
    let mut response = failure(denied.status(), denied.words());
    response.headers_mut().extend(denied.fields(&parts.headers));
    response
}

/// An answer in JSON.
pub fn answer(status: StatusCode, value: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (status, kind, format!("{value}\n")).into_response()
}

/// All clients.
pub fn router(front: &Arc<Front>) -> Router {
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
        .merge(gnmi::router(front))
        .fallback(any(async || failure(StatusCode::NOT_FOUND, "nothing is served by this name")))
        .method_not_allowed_fallback(async || {
            failure(StatusCode::METHOD_NOT_ALLOWED, "this cannot be asked so")
        })
        .layer(middleware::from_fn_with_state(Arc::clone(front), guard))
        .with_state(Arc::clone(front))
}

/// `GET /metrics`: what is counted, for everybody who is known.
async fn metrics(State(front): State<Arc<Front>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if let Err(denied) = front.identify(&parts).await {
        return answer_denied(&parts, &denied);
    }
    let page = stoa_controller::metrics::render(front.datastore.line()).await;
    ([(header::CONTENT_TYPE, stoa_controller::metrics::CONTENT_TYPE)], page).into_response()
}

/// What every request goes through: its share of requests, and what browsers are told of every answer.
async fn guard(State(front): State<Arc<Front>>, request: Request, next: Next) -> Response {
    let from = request.extensions().get::<Peer>().map(|peer| peer.address);
    let limit = front.management().limits.requests_per_second;
    if let Some(from) = from
        && !front.rate.take(from, limit, Instant::now())
    {
        let words = format!(
            "more than {limit} requests in a second: wait, or raise \
             stoa-management:management/limits/requests-per-second"
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
