//! One connection: TLS, then requests. Each step has a time limit, which disconnects slow clients.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use nix::sys::socket::{setsockopt, sockopt};
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::app_state::Local;
use super::certificate::common_name;
use super::connections::Connection;
use super::plain_http::{self, Home};
use crate::auth::Peer;
use crate::gnmi::HangUp;

/// Time for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time for the header of a request, and between two HTTP/1 requests.
const HEAD: Duration = Duration::from_secs(30);
/// Time without an active request.
const IDLE: Duration = Duration::from_secs(60);
/// The same before anybody has logged in.
const IDLE_BEFORE_LOGIN: Duration = Duration::from_secs(20);
/// Time for the client to acknowledge sent data.
const ACK_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between checks for idle connections.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Concurrent requests of one HTTP/2 connection.
const STREAMS: u32 = 64;
/// Maximum size of all header fields of a request, in bytes.
const HEADERS_BYTES: usize = 32 << 10;

/// The activity of a connection.
struct Activity {
    begun: Instant,
    requests: AtomicUsize,
    last_ms: AtomicU64,
}

impl Activity {
    fn touch(&self) {
        let passed = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(passed, Ordering::Relaxed);
    }

    fn is_idle(&self, limit: Duration) -> bool {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        self.requests.load(Ordering::Relaxed) == 0
            && self.begun.elapsed().saturating_sub(last) > limit
    }
}

/// A request, or a response that is still being sent.
struct ActiveRequest(Arc<Activity>);

impl ActiveRequest {
    fn begin(activity: &Arc<Activity>) -> ActiveRequest {
        activity.requests.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(Arc::clone(activity))
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.touch();
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves a connection to its end. A connection with a client certificate ends when the certificates are reloaded:
/// the new authority may not trust its issuer.
pub async fn serve(
    stream: TcpStream,
    (from, mac): (SocketAddr, Option<[u8; 6]>),
    mut tls: watch::Receiver<Arc<ServerConfig>>,
    (router, home): (Router, &Home),
    admitted: &Arc<Connection>,
) {
    let _ = stream.set_nodelay(true);
    let unsent_ms = u32::try_from(ACK_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    let _ = setsockopt(&stream, sockopt::TcpUserTimeout, &unsent_ms);
    let end = tokio::time::Instant::now() + HANDSHAKE;
    match tokio::time::timeout_at(end, plain_http::is_spoken(&stream)).await {
        Ok(false) => {}
        Ok(true) => {
            let _ = tokio::time::timeout_at(end, plain_http::answer(stream, home)).await;
            return tracing::debug!(%from, "answered plain HTTP with the address for HTTPS");
        }
        Err(_) => return tracing::debug!(%from, "TLS handshake timed out"),
    }
    let config = Arc::clone(&tls.borrow_and_update());
    let handshake = TlsAcceptor::from(config).accept(stream);
    let stream = match tokio::time::timeout_at(end, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%from, "TLS handshake failed: {error}"),
        Err(_) => return tracing::debug!(%from, "TLS handshake timed out"),
    };
    let is_certified = stream.get_ref().1.peer_certificates().is_some();
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    // A v4 address mapped to v6 is the same client.
    let certificate = shown.and_then(common_name);
    let peer = Peer { address: from.ip().to_canonical(), certificate, mac };
    let local = stream.get_ref().0.local_addr().ok().map(Local);
    let activity = Arc::new(Activity {
        begun: Instant::now(),
        requests: AtomicUsize::new(0),
        last_ms: AtomicU64::new(0),
    });
    let hang_up = HangUp::default();
    let service = service_fn({
        let (activity, hang_up) = (Arc::clone(&activity), hang_up.clone());
        // A request that outlives its connection does not keep its place.
        let admitted = Arc::downgrade(admitted);
        move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(hang_up.clone());
            request.extensions_mut().insert(Weak::clone(&admitted));
            answer(router.clone(), (peer.clone(), local), ActiveRequest::begin(&activity), request)
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEADERS_BYTES.max(64 << 10))
        .max_headers(100);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(HEADERS_BYTES).unwrap_or(u32::MAX))
        .keep_alive_interval(ACK_TIMEOUT)
        .keep_alive_timeout(HANDSHAKE);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    loop {
        let idle = if admitted.is_authenticated() { IDLE } else { IDLE_BEFORE_LOGIN };
        let served = tokio::select! {
            served = tokio::time::timeout(POLL_INTERVAL, connection.as_mut()) => served,
            () = hang_up.0.notified() => return tracing::debug!(%from, "connection aborted"),
            () = replaced(&mut tls), if is_certified => {
                return tracing::debug!(%from, "certificates reloaded: closing the connection of a client certificate");
            }
        };
        match served {
            Ok(Ok(())) => return,
            Ok(Err(error)) => return tracing::debug!(%from, "connection failed: {error}"),
            Err(_) if activity.is_idle(idle) => {
                connection.as_mut().graceful_shutdown();
                // A client that does not even read the end of the connection.
                let _ = tokio::time::timeout(POLL_INTERVAL, connection.as_mut()).await;
                return;
            }
            Err(_) => {}
        }
    }
}

/// Waits until the certificates are reloaded.
async fn replaced(tls: &mut watch::Receiver<Arc<ServerConfig>>) {
    if tls.changed().await.is_err() {
        // The server ends, and this task with it.
        std::future::pending::<()>().await;
    }
}

/// Answers one request. A panic ends only this request.
async fn answer(
    router: Router,
    (peer, local): (Peer, Option<Local>),
    underway: ActiveRequest,
    request: Request<Incoming>,
) -> Result<Response<Body>, std::convert::Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(peer);
    if let Some(local) = local {
        request.extensions_mut().insert(local);
    }
    let answered = AssertUnwindSafe(router.oneshot(request)).catch_unwind().await;
    let response = match answered {
        Ok(Ok(response)) => response,
        Err(_) => {
            tracing::error!("a request handler panicked: see the messages above");
            let mut response =
                Response::new(Body::from("internal error: see the log of the router\n"));
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    };
    // The request stays active until its response is sent.
    Ok(response.map(|body| Body::new(ActiveBody { body, _underway: underway })))
}

/// The body of a response, which keeps its connection from being idle.
struct ActiveBody {
    body: Body,
    _underway: ActiveRequest,
}

impl http_body::Body for ActiveBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = <Body as http_body::Body>::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        std::pin::Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
