//! The FPM route source: FRR's zebra connects over TCP and pushes its routes as netlink messages (Forwarding
//! Plane Manager, module `dplane_fpm_nl`).
//!
//! zebra sends one frame per route: version 1, type 1, length in two bytes (network byte order), then one or
//! more netlink messages. After connecting it walks its labels, next-hop groups, routes and EVPN MAC
//! addresses and sends all of them. The protocol does not mark the end of the walk, and no message is always
//! the last one. So a quiet period counts as the end, as End-of-RIB does in BGP: `learned::session` judges whether
//! zebra has announced about as much as before.

mod reader;

use std::io;
use std::net::{SocketAddr, TcpListener as Listener};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, sleep_until};

pub use reader::{FramingError, Reader};

use super::devices::Devices;
use super::peer::{Admission, Entrance};
use super::{NamespaceContext, RETRY_DELAY};
use crate::learned::{Event, RouteSource};
use crate::route_sources::RouteSourceState;

/// Size of one read: some ten thousand routes.
const READ_SIZE: usize = 1 << 20;
/// Routes of one batch to the table.
const BATCH_ROUTES: usize = 4_096;
/// A quiet period of this length ends the walk. zebra's walk pauses for a second when its buffer is full, and
/// it coalesces for a tenth of a second.
const QUIET_TIME: Duration = Duration::from_secs(2);
/// The same without routes of a previous session to compare with: the daemons behind zebra may still be starting.
const QUIET_TIME_FIRST: Duration = Duration::from_secs(5);
/// Delay between reads, so that many small messages cost one wake-up. The first read after a pause is not
/// delayed.
const COALESCE: Duration = Duration::from_millis(1);
/// Interval at which the namespace is checked for replacement.
const NETNS_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Listens for zebra, which runs as one of `users`, and imports its routes, forever.
pub async fn run(
    route_source: RouteSource,
    (address, users): (SocketAddr, Vec<String>),
    context: NamespaceContext,
    state: Arc<RouteSourceState>,
) {
    let admission = Admission::new(&context.netns, &users, Arc::clone(&state));
    let mut server = Server { route_source, context, state, admission };
    let mut last_reason = String::new();
    loop {
        let reason = match server.open(address) {
            Ok((listener, devices)) => {
                last_reason.clear();
                server.state.down("zebra has not connected yet");
                server.serve(listener, devices).await
            }
            Err(error) => format!("cannot listen at {address}: {error}"),
        };
        server.state.fail(&reason);
        if reason != last_reason {
            let (route_source, netns) = (&server.route_source.source().name, &server.context.netns);
            tracing::warn!(route_source, netns, "{reason}; trying again");
            last_reason = reason;
        }
        sleep(RETRY_DELAY).await;
    }
}

struct Server {
    route_source: RouteSource,
    context: NamespaceContext,
    state: Arc<RouteSourceState>,
    admission: Arc<Admission>,
}

/// How a session ended.
enum SessionEnd {
    /// zebra closed the connection, or it must be closed.
    Closed(String),
    /// zebra opened a new connection, and nobody holds the other end of the present one.
    Replaced(TcpStream),
    /// The listener failed or its namespace is gone.
    ListenerLost(String),
}

impl Server {
    fn open(&self, address: SocketAddr) -> io::Result<(TcpListener, Devices)> {
        let listener = super::netns::run_in(&self.context.netns, || {
            let listener = Listener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })?;
        Ok((TcpListener::from_std(listener)?, Devices::open(self.context.clone())?))
    }

    /// Serves one connection after the other. Returns why the listener was lost.
    async fn serve(&mut self, listener: TcpListener, mut devices: Devices) -> String {
        let namespace_id = self.context.identity();
        let name = &self.route_source.source().name;
        let mut entrance = Entrance::open(self.admission.clone(), name, listener);
        loop {
            let mut stream = match self.accept(&mut entrance, namespace_id).await {
                Ok(stream) => stream,
                Err(reason) => return reason,
            };
            loop {
                self.state.up();
                let route_source = &self.route_source.source().name;
                tracing::info!(route_source, "zebra has connected");
                self.route_source.send(vec![Event::Up]).await;
                let end =
                    self.session(&mut stream, &mut entrance, &mut devices, namespace_id).await;
                let (reason, next) = match end {
                    SessionEnd::Closed(reason) => (Ok(reason), None),
                    SessionEnd::Replaced(next) => {
                        (Ok("zebra has connected anew".to_owned()), Some(next))
                    }
                    SessionEnd::ListenerLost(reason) => (Err(reason), None),
                };
                let (Ok(why) | Err(why)) = &reason;
                self.state.down(why);
                let route_source = &self.route_source.source().name;
                let stale_time_s = self.route_source.stale_time().as_secs();
                tracing::warn!(
                    route_source,
                    "the session with zebra ended: {why}; its routes are stale and are removed in {stale_time_s} s"
                );
                // The table may be busy: the state and the log do not wait for it.
                self.route_source.send(vec![Event::Down]).await;
                match (reason, next) {
                    (Err(reason), _) => return reason,
                    (Ok(_), Some(next)) => stream = next,
                    (Ok(_), None) => break,
                }
            }
        }
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
                    if self.context.identity() != namespace_id {
                        return Err("the network namespace was replaced".to_owned());
                    }
                }
            }
        }
    }

    async fn session(
        &mut self,
        stream: &mut TcpStream,
        entrance: &mut Entrance,
        devices: &mut Devices,
        namespace_id: Option<(u64, u64)>,
    ) -> SessionEnd {
        let mut reader = Reader::default();
        let mut buffer: Vec<u8> = Vec::with_capacity(READ_SIZE);
        let mut configuration = self.context.connection.changes();
        let held = self.route_source.count().await.await.unwrap_or(0);
        let quiet_time = if held == 0 { QUIET_TIME_FIRST } else { QUIET_TIME };
        let mut quiet_deadline = Some(Instant::now() + quiet_time);
        let mut next_read = Instant::now();
        loop {
            let end = tokio::select! {
                read = async {
                    sleep_until(next_read).await;
                    stream.read_buf(&mut buffer).await
                } => match read {
                    Ok(0) => Some("zebra has closed the connection".to_owned()),
                    Ok(_) => {
                        let processed = self.process_frames(&mut reader, &mut buffer, devices).await;
                        quiet_deadline = quiet_deadline.map(|_| Instant::now() + quiet_time);
                        next_read = Instant::now() + COALESCE;
                        processed.err()
                    }
                    Err(error) => Some(format!("connection error: {error}")),
                },
                changed = devices.changed() => match changed {
                    Ok(changed) => {
                        reader.devices_changed();
                        // zebra sends everything again on a new connection, and existing routes are retained
                        // meanwhile.
                        changed.is_new_host_interface.then(|| "a host interface was added, resynchronizing".to_owned())
                    }
                    Err(error) => return SessionEnd::ListenerLost(format!("cannot monitor devices: {error}")),
                },
                changed = configuration.changed() => {
                    let is_other = changed.is_ok() && devices.reconfigure();
                    reader.devices_changed();
                    is_other.then(|| "host interfaces have changed, resynchronizing".to_owned())
                }
                () = sleep_until(quiet_deadline.unwrap_or_else(Instant::now)), if quiet_deadline.is_some() => {
                    quiet_deadline = None;
                    self.route_source.send(vec![Event::EndOfRib { ip4: true, ip6: true }]).await;
                    None
                }
                accepted = self.accept(entrance, namespace_id) => {
                    return match accepted {
                        Ok(_) if self.admission.is_held(stream).await => {
                            self.admission.refuse_second(&self.route_source.source().name);
                            continue;
                        }
                        Ok(next) => SessionEnd::Replaced(next),
                        Err(reason) => SessionEnd::ListenerLost(reason),
                    };
                }
            };
            if let Some(reason) = end {
                return SessionEnd::Closed(reason);
            }
        }
    }

    /// Processes the frames in the buffer.
    async fn process_frames(
        &self,
        reader: &mut Reader,
        buffer: &mut Vec<u8>,
        devices: &mut Devices,
    ) -> Result<(), String> {
        // The kernel announced devices before zebra used them, so process link notifications first.
        if let Ok(changed) = devices.changed_now()
            && changed.any
        {
            reader.devices_changed();
            if changed.is_new_host_interface {
                return Err("a host interface was added, resynchronizing".to_owned());
            }
        }
        let mut at = 0;
        let result = loop {
            let read =
                reader.read(&buffer[at..], BATCH_ROUTES, &mut |device| devices.interface(device));
            self.count(reader);
            let events = reader.take_events();
            if !events.is_empty() {
                self.route_source.send(events).await;
            }
            match read {
                Ok(0) => break Ok(()),
                Ok(length) => at += length,
                Err(FramingError(reason)) => break Err(reason.to_owned()),
            }
            if reader.needs_resync() {
                break Err("next hops have changed, resynchronizing".to_owned());
            }
        };
        buffer.drain(..at);
        result
    }

    fn count(&self, reader: &mut Reader) {
        let counts = std::mem::take(&mut reader.counts);
        self.state.updated(counts.updates);
        self.state.withdrawn(counts.withdrawals);
        if let Some(reason) = counts.last_malformed
            && self.state.malformed(counts.malformed)
        {
            let route_source = &self.route_source.source().name;
            tracing::warn!(
                route_source,
                "ignored a malformed message of zebra: {reason}; logged once, counted in the route source's state"
            );
        }
        if let Some((prefix, reason)) = counts.last_not_imported {
            self.state.not_imported(counts.not_imported, format_args!("{prefix}: {reason}"));
        }
    }
}
