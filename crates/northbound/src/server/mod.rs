//! The HTTPS server: listens on the configured addresses and follows the running configuration.

pub mod app;
pub mod app_state;
pub mod certificate;
pub mod connection;
pub mod connections;
pub mod links;
pub(crate) mod plain_http;
pub mod quota;
pub mod rate;
pub mod source;
mod trusted_file;
pub mod turns;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use rustls::ServerConfig;
use stoa_controller::config::management::{Https, Management};
use stoa_controller::datastore::Datastore;
use stoa_controller::linux::saved_syn::source_mac;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use app_state::AppState;
use certificate::{Files, Stamp};
use connections::Connections;
use plain_http::Home;
use source::of_host;

/// Interval between checks of the configuration and the certificate files.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time until a failed bind is retried.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// Length of the accept queue.
const BACKLOG: u32 = 128;

/// The task of a listener, aborted on drop. Open connections stay.
pub(crate) struct ListenerTask(pub(crate) JoinHandle<()>);

impl ListenerTask {
    /// Ends the task and waits until its port is free.
    pub(crate) async fn end(mut self) {
        self.0.abort();
        let _ = (&mut self.0).await;
    }
}

impl Drop for ListenerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Serves until the program ends and follows the running configuration. `state` gets the state of the server, which
/// [`AppState::end`] writes at the end of the program. Files in the folders `of_ports` are not trusted.
pub async fn run(
    datastore: Datastore,
    state: Arc<OnceLock<Arc<AppState>>>,
    of_ports: Vec<PathBuf>,
) {
    if let Err(refusal) = datastore.create_state_folder() {
        tracing::warn!("{refusal}");
    }
    let app = AppState::new(&datastore);
    let _ = state.set(Arc::clone(&app));
    tokio::spawn(links::watch(Arc::clone(&app)));
    let mut server = Server::new(datastore, app, of_ports);
    loop {
        let management = server.datastore.connection().management();
        server.follow(&management).await;
        server.datastore.set_https_problems(server.problems());
        server.store().await;
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

struct Server {
    datastore: Datastore,
    of_ports: Vec<PathBuf>,
    app: Arc<AppState>,
    router: Router,
    https: Option<Https>,
    connections: Arc<Connections>,
    tls: Option<(Files, Stamp, watch::Sender<Arc<ServerConfig>>)>,
    /// The last reported error of the certificate files.
    reported_error: Option<String>,
    /// The last reported error of the file of the tokens.
    reported_tokens: Option<String>,
    listening: BTreeMap<SocketAddr, ListenerTask>,
    /// By address.
    failed: BTreeMap<SocketAddr, FailedBind>,
}

/// A failed attempt to listen.
struct FailedBind {
    /// Time of the next attempt.
    next: Instant,
    /// The last reported error.
    words: String,
    /// The kernel lacks the family of a default address.
    is_without_family: bool,
}

impl Server {
    fn new(datastore: Datastore, app: Arc<AppState>, of_ports: Vec<PathBuf>) -> Server {
        let router = app::router(&app);
        Server {
            datastore,
            of_ports,
            app,
            router,
            https: None,
            connections: Arc::default(),
            tls: None,
            reported_error: None,
            reported_tokens: None,
            listening: BTreeMap::new(),
            failed: BTreeMap::new(),
        }
    }

    async fn follow(&mut self, management: &Arc<Management>) {
        let https = &management.https;
        self.app.follow(management);
        if !https.enabled {
            self.listening.clear();
            self.failed.clear();
            self.reported_error = None;
            self.https = Some(https.clone());
            return;
        }
        self.connections.set_limit(usize::from(management.limits.connections));
        if self.https.as_ref() != Some(https) {
            self.failed.clear();
        }
        // A listener that stays configured stays open, so that no client is refused meanwhile.
        let addresses = listen_addresses(https);
        for (address, listening) in std::mem::take(&mut self.listening) {
            match addresses.contains(&address) {
                true => drop(self.listening.insert(address, listening)),
                false => listening.end().await,
            }
        }
        self.https = Some(https.clone());
        self.read_certificate(https);
        let Some((_, _, tls)) = &self.tls else { return };
        for address in addresses {
            let waits =
                self.failed.get(&address).is_some_and(|failed| failed.next > Instant::now());
            if self.listening.contains_key(&address) || waits {
                continue;
            }
            match listen(address) {
                Ok(listener) => {
                    self.failed.remove(&address);
                    tracing::info!(%address, "HTTPS server is listening");
                    let connections = Arc::clone(&self.connections);
                    let served = (self.router.clone(), None);
                    let task = accept(listener, tls.subscribe(), connections, served);
                    self.listening.insert(address, ListenerTask(tokio::spawn(task)));
                }
                Err(error) => {
                    let words = error.to_string();
                    let was = self.failed.get(&address).map(|failed| &failed.words);
                    let is_without_family = is_without_family(address, &error);
                    // Reported once, not at each attempt.
                    if was != Some(&words) && !is_without_family {
                        tracing::warn!(
                            %address,
                            "cannot listen for HTTPS: {words}; forwarding is not affected, and the \
                            server tries again every 5 s. To use another port, set \
                            /stoa-management:management/https/port"
                        );
                    }
                    let next = Instant::now() + RETRY_DELAY;
                    let failed = FailedBind { next, words, is_without_family };
                    self.failed.insert(address, failed);
                }
            }
        }
    }

    /// Why HTTPS is not served as configured.
    fn problems(&self) -> Vec<String> {
        let previous = match self.tls.is_some() {
            true => "the previous certificate is in use",
            false => "not served",
        };
        let certificate = self.reported_error.iter().map(|words| format!("{previous}: {words}"));
        let is_alone = self.listening.is_empty();
        // The kernel may lack one of the default addresses.
        let failed = self.failed.iter().filter(|(_, failed)| is_alone || !failed.is_without_family);
        let address = |(at, failed): (&SocketAddr, &FailedBind)| {
            format!("not served on {at}: {}", failed.words)
        };
        certificate.chain(failed.map(address)).collect()
    }

    /// Writes what changed in memory alone, off the threads that answer clients.
    async fn store(&mut self) {
        let stored = self.app.authenticator.tokens.store().await;
        let words = stored.err().map(|error| error.to_string());
        if let Some(words) = words.as_ref().filter(|_| words != self.reported_tokens) {
            tracing::warn!("cannot store the tokens: {words}");
        }
        self.reported_tokens = words;
        let app = Arc::clone(&self.app);
        let write = move || {
            app.audit.write_counts(Instant::now());
            app.authenticator.sessions.store();
        };
        // A panic is logged.
        let _ = tokio::task::spawn_blocking(write).await;
    }

    /// Reloads the certificate after a change. An unreadable certificate leaves the previous one in use.
    fn read_certificate(&mut self, https: &Https) {
        let files = Files::of(https, self.datastore.state(), &self.of_ports);
        let stamp = files.stamp();
        if self.tls.as_ref().is_some_and(|(was, then, _)| *was == files && *then == stamp) {
            return;
        }
        match files.read(&https.address) {
            Ok(config) => {
                self.reported_error = None;
                let stamp = files.stamp();
                match self.tls.take() {
                    Some((_, _, sender)) => {
                        tracing::info!("certificate reloaded");
                        sender.send_replace(config);
                        self.tls = Some((files, stamp, sender));
                    }
                    None => self.tls = Some((files, stamp, watch::channel(config).0)),
                }
            }
            Err(words) => {
                if self.reported_error.as_ref() != Some(&words) {
                    tracing::warn!("cannot use the HTTPS certificate: {words}");
                    self.reported_error = Some(words);
                }
            }
        }
    }
}

/// Whether the kernel lacks the address family of a default (loopback) address.
fn is_without_family(address: SocketAddr, error: &io::Error) -> bool {
    let none =
        [io::ErrorKind::AddrNotAvailable, io::ErrorKind::Unsupported].contains(&error.kind());
    address.ip().is_loopback() && none
}

/// The addresses to listen on.
fn listen_addresses(https: &Https) -> Vec<SocketAddr> {
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let addresses = if https.address.is_empty() { &loopback[..] } else { &https.address };
    addresses.iter().map(|address| SocketAddr::new(*address, https.port)).collect()
}

/// A listener at an address.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => {
            let socket = TcpSocket::new_v6()?;
            // :: does not include 0.0.0.0: each is configured by itself.
            nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::Ipv6V6Only, &true)?;
            socket
        }
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves the connections of a listener; the second of `served` is what plain HTTP is answered with.
pub(crate) async fn accept(
    listener: TcpListener,
    tls: watch::Receiver<Arc<ServerConfig>>,
    connections: Arc<Connections>,
    served: (Router, Home),
) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let mac = source_mac(&stream);
                let source = mac.map_or(from.ip().to_canonical(), of_host);
                let admitted = connections.admit(source, Instant::now());
                let Some(admitted) = admitted.map(Arc::new) else {
                    tracing::debug!(%from, "connection limit reached: closing a new connection");
                    continue;
                };
                let (tls, (router, home)) = (tls.clone(), served.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = connection::serve(stream, (from, mac), tls, (router, &home), &admitted) => {}
                        () = admitted.replaced() => {
                            tracing::debug!(%from, "replaced by another connection: nobody had logged in");
                        }
                    }
                });
            }
            Err(error) => {
                // Usually out of file descriptors, which recovers when other connections end.
                tracing::debug!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
