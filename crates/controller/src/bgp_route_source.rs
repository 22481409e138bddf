//! The route source for any BGP daemon: it connects to us, and hands over what it has learned by an internal BGP session.
//!
//! `stoa-bgp` is the protocol and the choice among the paths of a prefix; here are the sockets. We wait to be called. A daemon that
//! calls anew takes the place of its old connection as soon as it has said OPEN, for it knows better than we do whether that one still lives.

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
use crate::linux::netns::{identity, is_local, run_in};
use crate::route_sources::RouteSourceState;
use connection::{Connection, Disconnect};
use reporter::Reporter;

/// How long we wait until we listen again after we could not.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// How often it is looked whether the namespace is still the one that we listen in.
const NETNS_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How long the daemon may be silent, seconds. It is on the same machine: when it dies, its connection ends at once.
const HOLD_TIME_S: u16 = 90;

/// What a session with a daemon is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The network namespace of the daemon; "" is our own.
    pub netns: String,
    /// Where we listen.
    pub address: IpAddr,
    /// TCP port.
    pub port: u16,
    /// The autonomous system of both ends.
    pub asn: u32,
    /// Our BGP identifier, another one than the daemon's.
    pub router_id: Ipv4Addr,
    /// Whether all paths are asked for (RFC 7911).
    pub add_paths: bool,
    /// Next hops that share the packets of a prefix at most, 1..=64.
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

/// Listens for the daemon, and tells what it says, for ever.
pub async fn run(route_source: RouteSource, settings: Settings, state: Arc<RouteSourceState>) {
    let mut server = Server { reporter: Reporter::new(route_source, state), settings };
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
}

/// What has happened.
enum ConnectionEvent {
    /// Somebody has connected.
    Accepted(TcpStream),
    /// The connection whose routes count has something to say, or is over.
    Current(Result<(), Disconnect>),
    /// So has the one that waits to take its place.
    Next(Result<(), Disconnect>),
    /// Nobody can reach us any more.
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

    /// Serves until nobody can come any more, and gives why.
    async fn serve(&mut self, listener: TcpListener) -> String {
        let namespace_id = identity(&self.settings.netns);
        let (mut current, mut next): (Option<Connection>, Option<Connection>) = (None, None);
        let reason = loop {
            let event = tokio::select! {
                biased;
                event = Connection::next_event(&mut current) => ConnectionEvent::Current(event),
                event = Connection::next_event(&mut next) => ConnectionEvent::Next(event),
                accepted = self.accept(&listener, namespace_id) => match accepted {
                    Ok(stream) => ConnectionEvent::Accepted(stream),
                    Err(reason) => ConnectionEvent::ListenerLost(reason),
                },
            };
            match event {
                ConnectionEvent::Accepted(stream) => next = Some(self.start_session(stream)),
                ConnectionEvent::Current(event) => self.process_current(&mut current, event).await,
                ConnectionEvent::Next(event) => self.process_next(&mut current, &mut next, event).await,
                ConnectionEvent::ListenerLost(reason) => break reason,
            }
        };
        if let Some(mut current) = current {
            current.cease(6);
            self.reporter.down(&Disconnect::connection_lost(reason.as_str()), current.complete_prefixes()).await;
        }
        reason
    }

    fn start_session(&self, stream: TcpStream) -> Connection {
        // It has nothing to gain by waiting; what cannot be set does no harm.
        let _ = stream.set_nodelay(true);
        let local = self.settings.local(self.reporter.stale_time());
        let daemon = stream.peer_addr().ok().map(|daemon| daemon.ip());
        Connection::new(stream, local, Rib::new(self.settings.multipath, daemon))
    }

    /// Tells what the connection has brought.
    async fn process_current(&mut self, current: &mut Option<Connection>, event: Result<(), Disconnect>) {
        let Some(connection) = current else { return };
        let reporter = connection.process(&mut self.reporter).await;
        // Who hangs up may have said why.
        if let Err(disconnect) = reporter.and(event) {
            if connection.is_up() {
                self.reporter.down(&disconnect, connection.complete_prefixes()).await;
            } else {
                self.reporter.refuse(&disconnect.reason, false);
            }
            *current = None;
        }
    }

    /// Looks whether the daemon has connected anew and said OPEN: then this connection counts.
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
                let disconnect = Disconnect::connection_lost("the daemon has connected anew");
                self.reporter.down(&disconnect, old.complete_prefixes()).await;
            }
        }
        self.process_current(current, Ok(())).await;
    }

    /// Waits for a daemon of this machine.
    async fn accept(
        &self,
        listener: &TcpListener,
        namespace_id: Option<(u64, u64)>,
    ) -> Result<TcpStream, String> {
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, from)) if is_local(&stream, from) => return Ok(stream),
                    Ok((_, from)) => {
                        tracing::warn!(route_source = self.reporter.name(), %from, "refused, it is not of this machine");
                    }
                    Err(error) => return Err(format!("cannot take connections: {error}")),
                },
                () = sleep(NETNS_CHECK_INTERVAL) => {
                    if identity(&self.settings.netns) != namespace_id {
                        return Err("the network namespace is another one now".to_owned());
                    }
                }
            }
        }
    }
}
