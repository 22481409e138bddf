//! The HTTPS server: listens as the configuration in force says, and follows it.

pub mod certificate;
pub mod connection;
pub mod front;
pub mod links;
pub mod rate;
pub mod share;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use rustls::ServerConfig;
use stoa_controller::datastore::Datastore;
use stoa_controller::management::{Https, Management};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use certificate::{Files, Stamp};
use front::Front;
use share::{Shares, quarter};

/// How often the configuration and the certificate's files are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How long until a port that could not be had is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// Connections that wait to be accepted.
const BACKLOG: u32 = 128;

/// A listener as a task, ended when this is dropped. Connections that are open stay.
struct Listening(JoinHandle<()>);

impl Listening {
    /// Ends it, and waits until its port is free.
    async fn end(mut self) {
        self.0.abort();
        let _ = (&mut self.0).await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Serves for ever, and follows the configuration in force.
pub async fn keep(datastore: Datastore) {
    if let Err(refusal) = datastore.make_state() {
        tracing::warn!("{refusal}");
    }
    let front = Front::new(&datastore);
    tokio::spawn(links::watch(Arc::clone(&front)));
    let mut server = Server::new(datastore, front);
    loop {
        let management = server.datastore.line().management();
        server.follow(&management).await;
        tokio::time::sleep(LOOK).await;
    }
}

struct Server {
    datastore: Datastore,
    front: Arc<Front>,
    router: Router,
    https: Option<Https>,
    connections: (u16, Arc<Semaphore>),
    /// What of them each client has.
    shares: Arc<Shares>,
    tls: Option<(Files, Stamp, watch::Sender<Arc<ServerConfig>>)>,
    /// What was last said to be wrong with the files.
    complaint: Option<String>,
    listening: BTreeMap<SocketAddr, Listening>,
    /// When to try what failed again, and what was said of it.
    failed: BTreeMap<SocketAddr, (Instant, String)>,
}

impl Server {
    fn new(datastore: Datastore, front: Arc<Front>) -> Server {
        let router = front::router(&front);
        Server {
            datastore,
            front,
            router,
            https: None,
            connections: (0, Arc::new(Semaphore::new(0))),
            shares: Arc::default(),
            tls: None,
            complaint: None,
            listening: BTreeMap::new(),
            failed: BTreeMap::new(),
        }
    }

    async fn follow(&mut self, management: &Arc<Management>) {
        let https = &management.https;
        self.front.follow(management);
        if !https.enabled {
            self.listening.clear();
            self.failed.clear();
            self.https = Some(https.clone());
            return;
        }
        let limit = management.limits.connections;
        let is_resized = self.connections.0 != limit;
        if is_resized || self.https.as_ref() != Some(https) {
            self.failed.clear();
        }
        if is_resized {
            self.connections = (limit, Arc::new(Semaphore::new(usize::from(limit))));
        }
        // What is listened on before and after stays open: no client finds the client shut meanwhile.
        let addresses = wanted(https);
        for (address, listening) in std::mem::take(&mut self.listening) {
            match is_resized || !addresses.contains(&address) {
                true => listening.end().await,
                false => drop(self.listening.insert(address, listening)),
            }
        }
        self.https = Some(https.clone());
        self.read_certificate(https);
        let Some((_, _, tls)) = &self.tls else { return };
        for address in addresses {
            let waits = self.failed.get(&address).is_some_and(|(when, _)| *when > Instant::now());
            if self.listening.contains_key(&address) || waits {
                continue;
            }
            match listen(address) {
                Ok(listener) => {
                    self.failed.remove(&address);
                    tracing::info!(%address, "HTTPS is served");
                    let places = Places {
                        all: Arc::clone(&self.connections.1),
                        shares: Arc::clone(&self.shares),
                        share: quarter(usize::from(limit)),
                    };
                    let task = accept(listener, tls.subscribe(), places, self.router.clone());
                    self.listening.insert(address, Listening(tokio::spawn(task)));
                }
                Err(error) => {
                    let words = error.to_string();
                    let was = self.failed.get(&address).map(|(_, words)| words);
                    // Once, not every few seconds.
                    if was != Some(&words) && !is_without_family(address, &error) {
                        tracing::warn!(
                            %address,
                            "HTTPS cannot be served there: {words}; the router forwards all the \
                             same, and the server tries again. Another port is \
                             stoa-management:management/https/port"
                        );
                    }
                    self.failed.insert(address, (Instant::now() + AGAIN, words));
                }
            }
        }
    }

    /// Reads the certificate when it is another one, or has changed. One that cannot be read leaves the one before.
    fn read_certificate(&mut self, https: &Https) {
        let files = Files::of(https, self.datastore.state());
        let stamp = files.stamp();
        if self.tls.as_ref().is_some_and(|(was, then, _)| *was == files && *then == stamp) {
            return;
        }
        match files.read(&https.address) {
            Ok(config) => {
                self.complaint = None;
                let stamp = files.stamp();
                match self.tls.take() {
                    Some((_, _, sender)) => {
                        tracing::info!("the certificate was read again");
                        sender.send_replace(config);
                        self.tls = Some((files, stamp, sender));
                    }
                    None => self.tls = Some((files, stamp, watch::channel(config).0)),
                }
            }
            Err(words) => {
                if self.complaint.as_ref() != Some(&words) {
                    tracing::warn!("the certificate of the HTTPS server cannot be used: {words}");
                    self.complaint = Some(words);
                }
            }
        }
    }
}

/// Whether this machine lacks a family that nobody asked for by name.
fn is_without_family(address: SocketAddr, error: &io::Error) -> bool {
    let none =
        [io::ErrorKind::AddrNotAvailable, io::ErrorKind::Unsupported].contains(&error.kind());
    address.ip().is_loopback() && none
}

/// Where to listen.
fn wanted(https: &Https) -> Vec<SocketAddr> {
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let addresses = if https.address.is_empty() { &loopback[..] } else { &https.address };
    addresses.iter().map(|address| SocketAddr::new(*address, https.port)).collect()
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => {
            let socket = TcpSocket::new_v6()?;
            // :: and 0.0.0.0 are two addresses, each to be named.
            nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::Ipv6V6Only, &true)?;
            socket
        }
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Who may have how many connections.
struct Places {
    all: Arc<Semaphore>,
    shares: Arc<Shares>,
    /// What one client may have.
    share: usize,
}

async fn accept(
    listener: TcpListener,
    tls: watch::Receiver<Arc<ServerConfig>>,
    places: Places,
    router: Router,
) {
    loop {
        // Those beyond the limit wait in the backlog until a place is free.
        let Ok(place) = Arc::clone(&places.all).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, from)) => {
                let share = places.shares.take(from.ip().to_canonical(), places.share, usize::MAX);
                let Some(share) = share else {
                    tracing::debug!(%from, "has its share of connections: one more is closed");
                    continue;
                };
                let (tls, router) = (tls.clone(), router.clone());
                tokio::spawn(async move {
                    connection::serve(stream, from, tls, router).await;
                    drop((place, share));
                });
            }
            Err(error) => {
                // Out of descriptors, mostly: it gets better when others end.
                tracing::debug!("cannot accept: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
