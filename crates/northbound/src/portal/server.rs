//! The listeners of the portal, which follow the running configuration.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use rustls::ServerConfig;
use stoa_controller::config::login::Login;
use stoa_controller::config::management::Https;
use stoa_controller::datastore::Datastore;
use stoa_controller::linux::netns::run_in;
use stoa_controller::linux::saved_syn;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::accounting;
use super::routes::router;
use super::state::Portal;
use crate::server::certificate::{Files, Stamp};
use crate::server::connections::Connections;
use crate::server::{ListenerTask, accept, listen};

/// Interval between checks of the configuration and the certificate files.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time until a failed bind is retried.
const RETRY_DELAY: Duration = Duration::from_secs(2);
/// Connections at most.
const CONNECTIONS: usize = 1_024;

/// Serves the portal until the program ends. Files in the folders `of_ports` are not trusted.
pub async fn run(datastore: Datastore, of_ports: Vec<PathBuf>) {
    let portal = Portal::new(datastore.clone());
    tokio::spawn(accounting::run(Arc::clone(&portal)));
    let connections = Arc::<Connections>::default();
    connections.set_limit(CONNECTIONS);
    let mut server = Server {
        router: router(&portal),
        datastore,
        of_ports,
        connections,
        tls: None,
        reported: None,
        netns: String::new(),
        listening: BTreeMap::new(),
        failed: BTreeMap::new(),
    };
    loop {
        let login = server.datastore.connection().login();
        server.follow(&login).await;
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// A listener in a network namespace.
fn listen_in(netns: &str, address: SocketAddr) -> io::Result<TcpListener> {
    let runtime = tokio::runtime::Handle::current();
    run_in(netns, || {
        let _runtime = runtime.enter();
        let listener = listen(address)?;
        // Who a client is.
        saved_syn::save(&listener)?;
        Ok(listener)
    })
}

/// Where plain HTTP is sent: the portal as it is configured at that moment.
fn home(datastore: &Datastore) -> Arc<dyn Fn(SocketAddr) -> String + Send + Sync> {
    let datastore = datastore.clone();
    Arc::new(move |local| {
        let is_ip4 = local.ip().to_canonical().is_ipv4();
        datastore.connection().login().portal.location(is_ip4)
    })
}

struct Server {
    router: Router,
    datastore: Datastore,
    of_ports: Vec<PathBuf>,
    connections: Arc<Connections>,
    tls: Option<(Files, Stamp, watch::Sender<Arc<ServerConfig>>)>,
    /// The last reported error of the certificate files.
    reported: Option<String>,
    /// The network namespace of the listeners.
    netns: String,
    listening: BTreeMap<SocketAddr, ListenerTask>,
    /// When to try again, and what was reported.
    failed: BTreeMap<SocketAddr, (Instant, String)>,
}

impl Server {
    async fn follow(&mut self, login: &Login) {
        let portal = &login.portal;
        let addresses: Vec<_> =
            portal.address.iter().map(|it| SocketAddr::new(*it, portal.port)).collect();
        let netns = portal.netns.clone().unwrap_or_default();
        let is_moved = netns != self.netns;
        self.netns = netns;
        for (address, listening) in std::mem::take(&mut self.listening) {
            match addresses.contains(&address) && !is_moved {
                true => drop(self.listening.insert(address, listening)),
                false => listening.end().await,
            }
        }
        self.failed.retain(|address, _| addresses.contains(address));
        if addresses.is_empty() {
            return;
        }
        self.read_certificate(login);
        let Some((_, _, tls)) = &self.tls else { return };
        for address in addresses {
            let waits = self.failed.get(&address).is_some_and(|(next, _)| *next > Instant::now());
            if self.listening.contains_key(&address) || waits {
                continue;
            }
            match listen_in(&self.netns, address) {
                Ok(listener) => {
                    self.failed.remove(&address);
                    tracing::info!(%address, "the portal is listening");
                    let connections = Arc::clone(&self.connections);
                    let served = (self.router.clone(), Some(home(&self.datastore)));
                    let task = accept(listener, tls.subscribe(), connections, served);
                    self.listening.insert(address, ListenerTask(tokio::spawn(task)));
                }
                Err(error) => {
                    let (words, next) = (error.to_string(), Instant::now() + RETRY_DELAY);
                    let was = self.failed.insert(address, (next, words.clone()));
                    if was.is_none_or(|(_, was)| was != words) {
                        tracing::warn!(%address, "the portal cannot listen: {words}; it tries again");
                    }
                }
            }
        }
    }

    /// Reloads the certificate after a change. An unreadable certificate leaves the previous one in use.
    fn read_certificate(&mut self, login: &Login) {
        let https = Https {
            address: login.portal.address.clone(),
            certificate: login.portal.certificate.clone(),
            key: login.portal.key.clone(),
            ..Https::default()
        };
        // A self-signed one of its own: users of hosts and operators need not trust the same one.
        let state = self.datastore.state().join("portal");
        let files = Files::of(&https, &state, &self.of_ports);
        let stamp = files.stamp();
        if self.tls.as_ref().is_some_and(|(was, then, _)| *was == files && *then == stamp) {
            return;
        }
        match files.read(&https.address) {
            Ok(config) => {
                self.reported = None;
                let stamp = files.stamp();
                let sender = match self.tls.take() {
                    Some((_, _, sender)) => {
                        sender.send_replace(config);
                        sender
                    }
                    None => watch::channel(config).0,
                };
                self.tls = Some((files, stamp, sender));
            }
            Err(words) if self.reported.as_ref() != Some(&words) => {
                tracing::warn!("cannot use the certificate of the portal: {words}");
                self.reported = Some(words);
            }
            Err(_) => {}
        }
    }
}
