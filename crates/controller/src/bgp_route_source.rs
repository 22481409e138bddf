//! The route source for any BGP daemon: it connects to us, and hands over what it has learned by an internal BGP session.
//!
//! `stoa-bgp` is the protocol and the choice among the paths of a prefix; here are the sockets. We wait to be called. A daemon that
//! calls anew takes the place of its old connection as soon as it has said OPEN, for it knows better than we do whether that one still lives.

mod connection;
mod told;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener as Listener};
use std::sync::Arc;
use std::time::Duration;

use stoa_bgp::{Local, Rib};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::learned::RouteSource;
use crate::linux::inside::{identity, inside, is_local};
use crate::route_sources::RouteSourceState;
use connection::{Connection, Over};
use told::Told;

/// How long we wait until we listen again after we could not.
const RETRY: Duration = Duration::from_secs(1);
/// How often it is looked whether the namespace is still the one that we listen in.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long the daemon may be silent, seconds. It is on the same machine: when it dies, its connection ends at once.
const HOLD_S: u16 = 90;

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
    fn local(&self, stale_time: Duration) -> Local {
        Local {
            as_number: self.asn,
            router_id: self.router_id,
            hold_time_s: HOLD_S,
            restart_time_s: u16::try_from(stale_time.as_secs()).unwrap_or(u16::MAX),
            add_paths: self.add_paths,
        }
    }
}

/// Listens for the daemon, and tells what it says, for ever.
pub async fn run(route_source: RouteSource, settings: Settings, state: Arc<RouteSourceState>) {
    let mut server = Server { told: Told::new(route_source, state), settings };
    let mut said = String::new();
    loop {
        let reason = match server.listen() {
            Ok(listener) => {
                said.clear();
                server.told.state.down("the daemon has not connected yet");
                server.serve(listener).await
            }
            Err(error) => {
                let Settings { address, port, .. } = server.settings;
                format!("cannot listen at {}: {error}", SocketAddr::from((address, port)))
            }
        };
        server.told.state.fail(&reason);
        if reason != said {
            let (route_source, netns) = (server.told.name(), &server.settings.netns);
            tracing::warn!(route_source, netns, "{reason}; trying again");
            said = reason;
        }
        sleep(RETRY).await;
    }
}

struct Server {
    told: Told,
    settings: Settings,
}

/// What has happened.
enum News {
    /// Somebody has connected.
    Came(TcpStream),
    /// The connection whose routes count has something to say, or is over.
    Current(Result<(), Over>),
    /// So has the one that waits to take its place.
    Next(Result<(), Over>),
    /// Nobody can reach us any more.
    Lost(String),
}

impl Server {
    fn listen(&self) -> io::Result<TcpListener> {
        let address = SocketAddr::from((self.settings.address, self.settings.port));
        let listener = inside(&self.settings.netns, || {
            let listener = Listener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })?;
        TcpListener::from_std(listener)
    }

    /// Serves until nobody can come any more, and gives why.
    async fn serve(&mut self, listener: TcpListener) -> String {
        let home = identity(&self.settings.netns);
        let (mut current, mut next): (Option<Connection>, Option<Connection>) = (None, None);
        let reason = loop {
            let news = tokio::select! {
                biased;
                news = Connection::next_of(&mut current) => News::Current(news),
                news = Connection::next_of(&mut next) => News::Next(news),
                came = self.accept(&listener, home) => match came {
                    Ok(stream) => News::Came(stream),
                    Err(reason) => News::Lost(reason),
                },
            };
            match news {
                News::Came(stream) => next = Some(self.greet(stream)),
                News::Current(news) => self.hear(&mut current, news).await,
                News::Next(news) => self.hear_next(&mut current, &mut next, news).await,
                News::Lost(reason) => break reason,
            }
        };
        if let Some(mut current) = current {
            current.cease(6);
            self.told.down(&Over::without_a_word(reason.as_str()), current.said()).await;
        }
        reason
    }

    fn greet(&self, stream: TcpStream) -> Connection {
        // It has nothing to gain by waiting; what cannot be set does no harm.
        let _ = stream.set_nodelay(true);
        let local = self.settings.local(self.told.stale_time());
        let daemon = stream.peer_addr().ok().map(|daemon| daemon.ip());
        Connection::new(stream, local, Rib::new(self.settings.multipath, daemon))
    }

    /// Tells what the connection has brought.
    async fn hear(&mut self, current: &mut Option<Connection>, news: Result<(), Over>) {
        let Some(connection) = current else { return };
        let told = connection.tell(&mut self.told).await;
        // Who hangs up may have said why.
        if let Err(over) = told.and(news) {
            if connection.is_up() {
                self.told.down(&over, connection.said()).await;
            } else {
                self.told.refuse(&over.reason, false);
            }
            *current = None;
        }
    }

    /// Looks whether the daemon has connected anew and said OPEN: then this connection counts.
    async fn hear_next(
        &mut self,
        current: &mut Option<Connection>,
        next: &mut Option<Connection>,
        news: Result<(), Over>,
    ) {
        let Some(mut connection) = next.take() else { return };
        let mut looked = news;
        while looked.is_ok() && !connection.is_agreed() {
            match connection.step() {
                Ok(true) => {}
                Ok(false) => {
                    *next = Some(connection);
                    return;
                }
                Err(over) => looked = Err(over),
            }
        }
        if let Err(over) = looked {
            self.told.refuse(&over.reason, current.is_some());
            return;
        }
        if let Some(mut old) = current.replace(connection) {
            // Connection collision resolution (RFC 4486).
            old.cease(7);
            if old.is_up() {
                let over = Over::without_a_word("the daemon has connected anew");
                self.told.down(&over, old.said()).await;
            }
        }
        self.hear(current, Ok(())).await;
    }

    /// Waits for a daemon of this machine.
    async fn accept(
        &self,
        listener: &TcpListener,
        home: Option<(u64, u64)>,
    ) -> Result<TcpStream, String> {
        loop {
            tokio::select! {
                came = listener.accept() => match came {
                    Ok((stream, from)) if is_local(&stream, from) => return Ok(stream),
                    Ok((_, from)) => {
                        tracing::warn!(route_source = self.told.name(), %from, "refused, it is not of this machine");
                    }
                    Err(error) => return Err(format!("cannot take connections: {error}")),
                },
                () = sleep(LOOK_EVERY) => {
                    if identity(&self.settings.netns) != home {
                        return Err("the network namespace is another one now".to_owned());
                    }
                }
            }
        }
    }
}
