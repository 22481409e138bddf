//! gNMI: the data, users and rules of RESTCONF, over gRPC on the same port.
//!
//! All calls share a `service`. `path` parses paths, `read` and `tree` find the data, `value` encodes it. `set`,
//! `target` and `confirm` change it. `subscribe`, `watch`, `stored_values` and `messages` stream its changes,
//! `client_locks` serializes requests of a client, and `status` formats errors. `openconfig` is another view of the
//! data.

mod client_locks;
mod confirm;
mod messages;
mod openconfig;
pub mod path;
mod read;
mod service;
pub mod set;
mod status;
mod stored_values;
mod subscribe;
mod target;
#[cfg(test)]
mod tests;
mod tree;
mod value;
mod watch;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

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
use stoa_controller::datastore;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};
use tower::ServiceExt;

use crate::server::app_state::{AppState, author, failure, peer};
pub use service::HangUp;
use service::{Caller, Service};
use value::ValueEncoding;

/// The supported version of the specification.
pub const VERSION: &str = "0.10.0";
/// Maximum size of a message to Subscribe, in bytes.
const SUBSCRIBE_BYTES: usize = 1 << 20;
/// Messages that wait for a slow client.
const WAITING: usize = 16;
/// Time for a client to read a message.
const PATIENCE: Duration = Duration::from_secs(30);

/// The route of the gNMI service.
pub fn router(app: &Arc<AppState>) -> Router<Arc<AppState>> {
    mounted(Service::new(app, PATIENCE))
}

fn mounted(service: Arc<Service>) -> Router<Arc<AppState>> {
    let serve = move |request| serve(Arc::clone(&service), request);
    Router::new().route("/gnmi.gNMI/{*rest}", any(serve))
}

/// Whether a request is gRPC and needs a gRPC response.
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

/// A gRPC error response.
pub fn refused(status: Status) -> Response {
    status.into_http()
}

async fn serve(service: Arc<Service>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    if !is_grpc(&parts.headers) {
        let words = "this path is gNMI, which needs gRPC: use a gNMI client";
        return failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, words);
    }
    prove(&mut parts.headers);
    let app = &service.app;
    let identity = match app.identify(&parts).await {
        Ok(identity) => identity,
        Err(denied) => return refused(status::of_denied(&denied)),
    };
    let named = parts.uri.authority().map(|authority| authority.as_str());
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = named.or(host).unwrap_or_default().to_owned();
    let hang_up = parts.extensions.get::<HangUp>().cloned().unwrap_or_default();
    let author = author(&parts.extensions, &identity, datastore::Client::Gnmi);
    let caller = Caller { identity, author, from: peer(&parts).address, host, hang_up };
    let limit = usize::try_from(app.management().limits.body_bytes).unwrap_or(usize::MAX);
    let (body, limit) = match parts.uri.path().ends_with("/Subscribe") {
        true => (body, SUBSCRIBE_BYTES),
        // The complete message, within the time and size limits of all endpoints.
        false => match app.body(body, limit).await {
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

/// Converts gNMI's user and password metadata to HTTP Basic. Cookies are for the web page only.
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

/// The service for one call.
#[derive(Debug)]
struct Calls(Arc<Service>);

fn caller<T>(request: &tonic::Request<T>) -> Result<Caller, Status> {
    let caller = request.extensions().get::<Caller>().cloned();
    caller.ok_or_else(|| Status::unauthenticated("the request is not authenticated"))
}

#[tonic::async_trait]
impl GNmi for Calls {
    async fn capabilities(
        &self,
        request: tonic::Request<CapabilityRequest>,
    ) -> Result<tonic::Response<CapabilityResponse>, Status> {
        caller(&request)?;
        let modules = stoa_yang::schema().context().modules(false);
        let supported_models =
            modules.filter(|module| module.is_implemented()).map(|module| ModelData {
                name: module.name().to_owned(),
                organization: module.organization().unwrap_or_default().to_owned(),
                version: module.revision().unwrap_or_default().to_owned(),
            });
        Ok(tonic::Response::new(CapabilityResponse {
            supported_models: supported_models.chain(openconfig::models()).collect(),
            supported_encodings: ValueEncoding::ALL.map(i32::from).into(),
            g_nmi_version: VERSION.to_owned(),
            extension: Vec::new(),
        }))
    }

    async fn get(
        &self,
        request: tonic::Request<GetRequest>,
    ) -> Result<tonic::Response<GetResponse>, Status> {
        let caller = caller(&request)?;
        let answer = read::get(&self.0.app, &caller, request.into_inner()).await?;
        Ok(tonic::Response::new(answer))
    }

    async fn set(
        &self,
        request: tonic::Request<SetRequest>,
    ) -> Result<tonic::Response<SetResponse>, Status> {
        let (caller, service) = (caller(&request)?, Arc::clone(&self.0));
        // A client that disconnects meanwhile leaves the queue.
        let turn = service.client_locks.take(caller.from).await;
        // A disconnect interrupts neither the change nor its audit record.
        let done = tokio::spawn(async move {
            let _turn = turn;
            set::set(&service, &caller, request.into_inner()).await
        });
        match done.await {
            Ok(done) => done.map(tonic::Response::new),
            Err(_) => Err(Status::internal("the change failed: see the log of the router")),
        }
    }

    type SubscribeStream = Pin<Box<dyn Stream<Item = Result<SubscribeResponse, Status>> + Send>>;

    async fn subscribe(
        &self,
        request: tonic::Request<Streaming<SubscribeRequest>>,
    ) -> Result<tonic::Response<Self::SubscribeStream>, Status> {
        let (caller, service) = (caller(&request)?, Arc::clone(&self.0));
        let open = subscribe::OpenStream::new(&service, &caller)?;
        let (sender, mut receiver) = mpsc::channel(WAITING);
        tokio::spawn(subscribe::serve(service, caller, open, request.into_inner(), sender));
        let responses = stream::poll_fn(move |context| receiver.poll_recv(context));
        Ok(tonic::Response::new(Box::pin(responses)))
    }
}
