//! gNMI: the same data, users and rules as RESTCONF, by gRPC on the same port.
//!
//! `path` reads what is asked for, `read` and `tree` find it, `value` writes it down, `set`, `target` and `confirm`
//! change it, `subscribe`, `watch` and `messages` tell what becomes of it, `turns` who waits for whom, and `status`
//! why not.

mod confirm;
mod messages;
pub mod path;
mod read;
pub mod set;
mod status;
mod subscribe;
mod target;
#[cfg(test)]
mod tests;
mod tree;
mod turns;
mod value;
mod watch;

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::{self, Stream};
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use stoa_api::gnmi::g_nmi_server::{GNmi, GNmiServer};
use stoa_api::gnmi::{
    CapabilityRequest, CapabilityResponse, GetRequest, GetResponse, ModelData, SetRequest,
    SetResponse, SubscribeRequest, SubscribeResponse,
};
use stoa_api::gnmi_ext::{Extension, extension::Ext};
use stoa_controller::datastore::{self, Author, Unconfirmed};
use stoa_controller::yang;
use tokio::sync::{Notify, Semaphore, mpsc};
use tonic::{Status, Streaming};
use tower::ServiceExt;

use crate::auth::Identity;
use crate::server::front::{Front, author, failure, peer};
use crate::server::share::Shares;
use turns::Turns;
use value::Coding;

/// The version of the specification that is spoken.
pub const VERSION: &str = "0.10.0";
/// Paths of one Get, and subscriptions of one stream, at most.
pub const PATHS_LIMIT: usize = 256;
/// Largest message of a client that subscribes, in bytes.
const SUBSCRIBE_BYTES: usize = 1 << 20;
/// Messages that wait for a client to take them.
const WAITING: usize = 16;
/// Time for a client to take a message.
const PATIENCE: Duration = Duration::from_secs(30);

/// Ends the connection that a request came by.
#[derive(Clone, Debug, Default)]
pub struct HangUp(pub Arc<Notify>);

/// Who calls.
#[derive(Clone, Debug)]
pub struct Caller {
    identity: Identity,
    /// The same as who changes something.
    author: Author,
    from: IpAddr,
    /// The name and port by which the client knows this machine.
    host: String,
    hang_up: HangUp,
}

/// What all calls share.
#[derive(Debug)]
pub struct Service {
    front: Arc<Front>,
    /// Streams that are open.
    streams: Arc<Shares>,
    /// Values that all streams remember, to tell what has changed.
    values: AtomicUsize,
    /// Streams look one at a time: together they take one thread at most, and ask the forwarder for one thing.
    looks: Semaphore,
    /// Who may make a Set: one of each client.
    turns: Turns,
    /// Sets are made one after the other.
    changes: tokio::sync::Mutex<()>,
    /// What the client called a commit that waits for its confirmation, and which one that is.
    waiting: Mutex<Option<(String, Unconfirmed)>>,
    patience: Duration,
}

impl Service {
    fn new(front: &Arc<Front>, patience: Duration) -> Arc<Service> {
        Arc::new(Service {
            front: Arc::clone(front),
            streams: Arc::default(),
            values: AtomicUsize::new(0),
            looks: Semaphore::new(1),
            turns: Turns::default(),
            changes: tokio::sync::Mutex::default(),
            waiting: Mutex::default(),
            patience,
        })
    }
}

/// The gNMI service of gNMI.
pub fn router(front: &Arc<Front>) -> Router<Arc<Front>> {
    mounted(Service::new(front, PATIENCE))
}

fn mounted(service: Arc<Service>) -> Router<Arc<Front>> {
    let serve = move |request| serve(Arc::clone(&service), request);
    Router::new().route("/gnmi.gNMI/{*rest}", any(serve))
}

/// Whether a request is gRPC, and its answer has to be.
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

/// An answer of gRPC that says why not.
pub fn refused(status: Status) -> Response {
    status.into_http()
}

async fn serve(service: Arc<Service>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    if !is_grpc(&parts.headers) {
        let words = "this is gNMI, which is gRPC: use a client of it";
        return failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, words);
    }
    prove(&mut parts.headers);
    let front = &service.front;
    let identity = match front.identify(&parts).await {
        Ok(identity) => identity,
        Err(denied) => return refused(status::of_denied(&denied)),
    };
    let named = parts.uri.authority().map(|authority| authority.as_str());
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = named.or(host).unwrap_or_default().to_owned();
    let hang_up = parts.extensions.get::<HangUp>().cloned().unwrap_or_default();
    let author = author(&parts.extensions, &identity, datastore::Client::Gnmi);
    let caller = Caller { identity, author, from: peer(&parts).address, host, hang_up };
    let limit = usize::try_from(front.management().limits.body_bytes).unwrap_or(usize::MAX);
    let (body, limit) = match parts.uri.path().ends_with("/Subscribe") {
        true => (body, SUBSCRIBE_BYTES),
        // The whole of it within the times and the size that all services have.
        false => match front.body(body, limit).await {
            Ok(bytes) => (Body::from(bytes), limit),
            Err(unread) => return refused(status::of_unread(unread)),
        },
    };
    parts.extensions.insert(caller);
    let service = GNmiServer::new(Calls(service)).max_decoding_message_size(limit);
    let answered = service.oneshot(Request::from_parts(parts, body)).await;
    let response = answered.unwrap_or_else(|never| match never {});
    response.map(Body::new)
}

/// Makes of gNMI's own way to tell user and password the one that all services know. Cookies are for pages.
fn prove(headers: &mut HeaderMap) {
    headers.remove(COOKIE);
    let (user, password) = (headers.remove("username"), headers.remove("password"));
    let (Some(user), Some(password)) = (user, password) else { return };
    if headers.contains_key(AUTHORIZATION) {
        return;
    }
    let shown = [user.as_bytes(), b":", password.as_bytes()].concat();
    let shown = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(shown)));
    if let Ok(shown) = shown {
        headers.insert(AUTHORIZATION, shown);
    }
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Refuses what changes the meaning of a request and is not served. Extensions that are not known are ignored.
fn plain_only(models: &[ModelData], extensions: &[Extension]) -> Result<(), Status> {
    if !models.is_empty() {
        return Err(Status::unimplemented("use_models is not served: say by paths what is wanted"));
    }
    extensions.iter().try_for_each(|extension| match &extension.ext {
        None | Some(Ext::RegisteredExt(_)) => Ok(()),
        Some(Ext::Commit(_)) => {
            Err(Status::invalid_argument("the extension Commit goes with a Set"))
        }
        Some(other) => Err(unserved(other)),
    })
}

fn unserved(extension: &Ext) -> Status {
    let name = match extension {
        Ext::MasterArbitration(_) => "MasterArbitration",
        Ext::History(_) => "History",
        Ext::Depth(_) => "Depth",
        Ext::ConfigSubscription(_) => "ConfigSubscription",
        Ext::Commit(_) | Ext::RegisteredExt(_) => "of this kind",
    };
    Status::unimplemented(format!("the extension {name} is not served"))
}

/// The service, for one call.
#[derive(Debug)]
struct Calls(Arc<Service>);

fn caller<T>(request: &tonic::Request<T>) -> Result<Caller, Status> {
    let caller = request.extensions().get::<Caller>().cloned();
    caller.ok_or_else(|| Status::unauthenticated("nobody is known to ask"))
}

#[tonic::async_trait]
impl GNmi for Calls {
    async fn capabilities(
        &self,
        request: tonic::Request<CapabilityRequest>,
    ) -> Result<tonic::Response<CapabilityResponse>, Status> {
        caller(&request)?;
        let modules = yang::schema().context().modules(false);
        let supported_models =
            modules.filter(|module| module.is_implemented()).map(|module| ModelData {
                name: module.name().to_owned(),
                organization: module.organization().unwrap_or_default().to_owned(),
                version: module.revision().unwrap_or_default().to_owned(),
            });
        Ok(tonic::Response::new(CapabilityResponse {
            supported_models: supported_models.collect(),
            supported_encodings: Coding::ALL.map(i32::from).into(),
            g_nmi_version: VERSION.to_owned(),
            extension: Vec::new(),
        }))
    }

    async fn get(
        &self,
        request: tonic::Request<GetRequest>,
    ) -> Result<tonic::Response<GetResponse>, Status> {
        let caller = caller(&request)?;
        let answer = read::get(&self.0.front, &caller, request.into_inner()).await?;
        Ok(tonic::Response::new(answer))
    }

    async fn set(
        &self,
        request: tonic::Request<SetRequest>,
    ) -> Result<tonic::Response<SetResponse>, Status> {
        let (caller, service) = (caller(&request)?, Arc::clone(&self.0));
        // Who hangs up meanwhile does not wait any more.
        let turn = service.turns.take(caller.from).await;
        // A client that hangs up cuts neither a change in half nor the change from its line in the log.
        let done = tokio::spawn(async move {
            let _turn = turn;
            set::set(&service, &caller, request.into_inner()).await
        });
        match done.await {
            Ok(done) => done.map(tonic::Response::new),
            Err(_) => {
                Err(Status::internal("the change was not answered: see the log of the router"))
            }
        }
    }

    type SubscribeStream = Pin<Box<dyn Stream<Item = Result<SubscribeResponse, Status>> + Send>>;

    async fn subscribe(
        &self,
        request: tonic::Request<Streaming<SubscribeRequest>>,
    ) -> Result<tonic::Response<Self::SubscribeStream>, Status> {
        let (caller, service) = (caller(&request)?, Arc::clone(&self.0));
        let open = subscribe::Open::new(&service, caller.from)?;
        let (sender, mut receiver) = mpsc::channel(WAITING);
        tokio::spawn(subscribe::serve(service, caller, open, request.into_inner(), sender));
        let told = stream::poll_fn(move |context| receiver.poll_recv(context));
        Ok(tonic::Response::new(Box::pin(told)))
    }
}
