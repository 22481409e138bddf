//! The BGP route source: any BGP daemon connects and sends its routes in an internal BGP session.
//!
//! `stoa-bgp` implements the protocol and best-path selection; this module has the sockets. It only accepts
//! connections, of permitted users. A new connection replaces one that no process holds open any more, after its OPEN
//! message. One that is in use stays: who else connects must not take the routes of the daemon away.

mod connection;
mod reporter;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener as Listener};
use std::sync::Arc;
use std::time::Duration;

use stoa_bgp::{LocalConfig, Rib};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::learned::RouteSource;
use crate::linux::netns::{identity, run_in};
use crate::linux::peer::{Admission, Entrance};
use crate::route_sources::RouteSourceState;
use connection::{Connection, Disconnect};
use reporter::Reporter;

/// Delay before the listener is opened again.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Interval at which the namespace is checked for replacement.
const NETNS_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Proposed hold time, seconds. The daemon is on the same machine: when it dies, its connection ends at once.
const HOLD_TIME_S: u16 = 90;

/// Parameters of the sessions with a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The network namespace of the daemon; "" is the controller's own.
    pub netns: String,
    /// Users that may connect, besides root and our own.
    pub peer_users: Vec<String>,
    /// Address to listen on.
    pub address: IpAddr,
    /// TCP port.
    pub port: u16,
    /// The autonomous system of both ends.
    pub asn: u32,
    /// Our BGP identifier; must differ from the daemon's.
    pub router_id: Ipv4Addr,
    /// Whether to request all paths (RFC 7911).
    pub add_paths: bool,
    /// Maximum next hops of a prefix, 1..=64.
    pub multipath: u8,
}

impl Settings {
    fn local(&self, stale_time: Duration) -> LocalConfig {
        LocalConfig {
            as_number: self.asn,
            router_id: self.router_id,
            hold_time_s: HOLD_TIME_S,
            restart_time_s: u16::try_from(stale_time.as_secs()).unwrap_or(u16::MAX),
            add_paths: self.add_paths,
        }
    }
}

/// Listens for the daemon and imports its routes, forever.
pub async fn run(route_source: RouteSource, settings: Settings, state: Arc<RouteSourceState>) {
    let admission = Admission::new(&settings.netns, &settings.peer_users, Arc::clone(&state));
    let mut server = Server { reporter: Reporter::new(route_source, state), settings, admission };
    let mut last_reason = String::new();
    loop {
        let reason = match server.listen() {
            Ok(listener) => {
                last_reason.clear();
                server.reporter.state.down("the daemon has not connected yet");
                server.serve(listener).await
            }
            Err(error) => {
                let Settings { address, port, .. } = server.settings;
                format!("cannot listen at {}: {error}", SocketAddr::from((address, port)))
            }
        };
        server.reporter.state.fail(&reason);
        if reason != last_reason {
            let (route_source, netns) = (server.reporter.name(), &server.settings.netns);
            tracing::warn!(route_source, netns, "{reason}; trying again");
            last_reason = reason;
        }
        sleep(RETRY_DELAY).await;
    }
}

struct Server {
    reporter: Reporter,
    settings: Settings,
    admission: Arc<Admission>,
}

/// An event of a connection or of the listener.
enum ConnectionEvent {
    /// A new connection was accepted.
    Accepted(TcpStream),
    /// The current connection has data or has ended.
    Current(Result<(), Disconnect>),
    /// The connection that is to replace it has data or has ended.
    Next(Result<(), Disconnect>),
    /// The listener failed or its namespace is gone.
    ListenerLost(String),
}

impl Server {
    fn listen(&self) -> io::Result<TcpListener> {
        let address = SocketAddr::from((self.settings.address, self.settings.port));
        let listener = run_in(&self.settings.netns, || {
            let listener = Listener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })?;
        TcpListener::from_std(listener)
    }

    /// Serves until the listener is lost; returns the reason.
    async fn serve(&mut self, listener: TcpListener) -> String {
        let namespace_id = identity(&self.settings.netns);
        let mut entrance = Entrance::open(self.admission.clone(), self.reporter.name(), listener);
        let (mut current, mut next): (Option<Connection>, Option<Connection>) = (None, None);
        let reason = loop {
            let event = tokio::select! {
                biased;
                event = Connection::next_event(&mut current) => ConnectionEvent::Current(event),
                event = Connection::next_event(&mut next) => ConnectionEvent::Next(event),
                accepted = self.accept(&mut entrance, namespace_id) => match accepted {
                    Ok(stream) => ConnectionEvent::Accepted(stream),
                    Err(reason) => ConnectionEvent::ListenerLost(reason),
                },
            };
            match event {
                ConnectionEvent::Accepted(stream) => {
                    let mut new = self.start_session(stream);
                    let held = current.as_ref().map(|old| self.admission.is_held(old.stream()));
                    let is_held = match held {
                        Some(held) => held.await,
                        None => false,
                    };
                    match is_held {
                        true => {
                            // Connection collision resolution (RFC 4486).
                            new.cease(7);
                            self.admission.refuse_second(self.reporter.name());
                        }
                        false => next = Some(new),
                    }
                }
                ConnectionEvent::Current(event) => self.process_current(&mut current, event).await,
                ConnectionEvent::Next(event) => {
                    self.process_next(&mut current, &mut next, event).await
                }
                ConnectionEvent::ListenerLost(reason) => break reason,
            }
        };
        if let Some(mut current) = current {
            current.cease(6);
            self.reporter.down(&Disconnect::connection_lost(reason.as_str())).await;
        }
        reason
    }

    fn start_session(&self, stream: TcpStream) -> Connection {
        // Only latency depends on it, so errors are ignored.
        let _ = stream.set_nodelay(true);
        let local = self.settings.local(self.reporter.stale_time());
        let daemon = stream.peer_addr().ok().map(|daemon| daemon.ip());
        Connection::new(stream, local, Rib::new(self.settings.multipath, daemon))
    }

    /// Processes the received data of the current connection.
    async fn process_current(
        &mut self,
        current: &mut Option<Connection>,
        event: Result<(), Disconnect>,
    ) {
        let Some(connection) = current else { return };
        let reporter = connection.process(&mut self.reporter).await;
        // The NOTIFICATION, if there is one, gives the actual reason.
        if let Err(disconnect) = reporter.and(event) {
            if connection.is_up() {
                self.reporter.down(&disconnect).await;
            } else {
                self.reporter.refuse(&disconnect.reason, false);
            }
            *current = None;
        }
    }

    /// Replaces the current connection once the new one has exchanged OPEN messages.
    async fn process_next(
        &mut self,
        current: &mut Option<Connection>,
        next: &mut Option<Connection>,
        event: Result<(), Disconnect>,
    ) {
        let Some(mut connection) = next.take() else { return };
        let mut result = event;
        while result.is_ok() && !connection.is_negotiated() {
            match connection.process_chunk() {
                Ok(true) => {}
                Ok(false) => {
                    *next = Some(connection);
                    return;
                }
                Err(disconnect) => result = Err(disconnect),
            }
        }
        if let Err(disconnect) = result {
            self.reporter.refuse(&disconnect.reason, current.is_some());
            return;
        }
        if let Some(mut old) = current.replace(connection) {
            // Connection collision resolution (RFC 4486).
            old.cease(7);
            if old.is_up() {
                let disconnect =
                    Disconnect::connection_lost("the daemon has opened a new connection");
                self.reporter.down(&disconnect).await;
            }
        }
        self.process_current(current, Ok(())).await;
    }

    /// The next connection of a permitted user of this machine.
    async fn accept(
        &self,
        entrance: &mut Entrance,
        namespace_id: Option<(u64, u64)>,
    ) -> Result<TcpStream, String> {
        loop {
            tokio::select! {
                accepted = entrance.next() => {
                    return accepted.map_err(|error| format!("cannot accept connections: {error}"));
                }
                () = sleep(NETNS_CHECK_INTERVAL) => {
                    if identity(&self.settings.netns) != namespace_id {
                        return Err("the network namespace was replaced".to_owned());
                    }
                }
            }
        }
    }
}
