//! The route source for FRR: zebra connects by TCP and pushes its routes as netlink messages (Forwarding Plane Manager, module `dplane_fpm_nl`).
//!
//! zebra sends a frame for each route: version 1, type 1, its length in two bytes of the network's order, then one or several netlink
//! messages. When it has connected it walks over what it has (labels, next-hop groups, routes, MAC addresses of EVPN) and says all of it. It knows
//! itself when each walk is done, but says nothing of that: there is no mark of the end in the protocol, and nothing that is always said last.
//! So silence has to do, and it is believed as far as as much was said as there was before: by zebra's own last session, else by the
//! forwarder (`learned::leftover`).

mod reader;

use std::io;
use std::net::{SocketAddr, TcpListener as Listener};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, sleep_until};

pub use reader::{FramingError, Reader, RouteCounts};

use super::devices::Devices;
use super::{NamespaceContext, RETRY_DELAY};
use crate::learned::{Event, RouteSource};
use crate::route_sources::RouteSourceState;

/// Bytes of one read: some ten thousand routes.
const READ_SIZE: usize = 1 << 20;
/// Routes of one batch to the table.
const BATCH_ROUTES: usize = 4_096;
/// So long zebra says nothing when it has said all that it has. Its walk over the routes pauses for a second when its buffer is
/// full, and it gathers for a tenth of a second.
const QUIET_TIME: Duration = Duration::from_secs(2);
/// The same when there was no session before that could be compared with: daemons behind zebra may still be on their way.
const QUIET_TIME_FIRST: Duration = Duration::from_secs(5);
/// What comes piece by piece is gathered for so long, so that many routes cost one wake-up. The first after a silence do not wait.
const COALESCE: Duration = Duration::from_millis(1);
/// How often it is looked whether the namespace is still the one that we listen in.
const NETNS_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Listens for zebra, and tells what it says, for ever.
pub async fn run(
    route_source: RouteSource,
    address: SocketAddr,
    context: NamespaceContext,
    state: Arc<RouteSourceState>,
) {
    let mut server = Server { route_source, context, state, last_counts: RouteCounts::default() };
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
    /// What the last session had said when it ended.
    last_counts: RouteCounts,
}

/// How a session ended.
enum SessionEnd {
    /// zebra went, or has to go.
    Closed(String),
    /// It connected anew.
    Replaced(TcpStream),
    /// Nobody can reach us any more.
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

    /// Serves one connection after the other. Gives why nobody can come any more.
    async fn serve(&mut self, listener: TcpListener, mut devices: Devices) -> String {
        let namespace_id = self.context.identity();
        loop {
            let mut stream = match self.accept(&listener, namespace_id).await {
                Ok(stream) => stream,
                Err(reason) => return reason,
            };
            loop {
                self.state.up();
                let route_source = &self.route_source.source().name;
                tracing::info!(route_source, "zebra has connected");
                self.route_source.send(vec![Event::Up]).await;
                let end = self.session(&mut stream, &listener, &mut devices, namespace_id).await;
                self.route_source.send(vec![Event::Down]).await;
                let (reason, next) = match end {
                    SessionEnd::Closed(reason) => (reason, None),
                    SessionEnd::Replaced(next) => ("zebra has connected anew".to_owned(), Some(next)),
                    SessionEnd::ListenerLost(reason) => return reason,
                };
                self.state.down(&reason);
                let route_source = &self.route_source.source().name;
                tracing::warn!(
                    route_source,
                    "the session with zebra ended: {reason}; its routes stay for the stale-time"
                );
                match next {
                    Some(next) => stream = next,
                    None => break,
                }
            }
        }
    }

    /// Waits for zebra of this machine.
    async fn accept(
        &self,
        listener: &TcpListener,
        namespace_id: Option<(u64, u64)>,
    ) -> Result<TcpStream, String> {
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, from)) if super::netns::is_local(&stream, from) => return Ok(stream),
                    Ok((_, from)) => {
                        tracing::warn!(%from, "FPM: refused, it is not of this machine");
                    }
                    Err(error) => return Err(format!("cannot take connections: {error}")),
                },
                () = sleep(NETNS_CHECK_INTERVAL) => {
                    if self.context.identity() != namespace_id {
                        return Err("the network namespace is another one now".to_owned());
                    }
                }
            }
        }
    }

    async fn session(
        &mut self,
        stream: &mut TcpStream,
        listener: &TcpListener,
        devices: &mut Devices,
        namespace_id: Option<(u64, u64)>,
    ) -> SessionEnd {
        let mut reader = Reader::default();
        let mut buffer: Vec<u8> = Vec::with_capacity(READ_SIZE);
        let mut configuration = self.context.connection.changes();
        let previous = std::mem::take(&mut self.last_counts);
        let quiet_time = if previous.total() == 0 { QUIET_TIME_FIRST } else { QUIET_TIME };
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
                    Err(error) => Some(format!("the connection broke: {error}")),
                },
                changed = devices.changed() => match changed {
                    Ok(changed) => {
                        reader.devices_changed();
                        // zebra says everything again when it connects anew: nothing that is held goes meanwhile.
                        changed.is_new_host_interface.then(|| "a host interface came: everything is to be said again".to_owned())
                    }
                    Err(error) => return self.end_session(reader, previous, SessionEnd::ListenerLost(format!("devices cannot be followed: {error}"))),
                },
                changed = configuration.changed() => {
                    let is_other = changed.is_ok() && devices.reconfigure();
                    reader.devices_changed();
                    is_other.then(|| "host interfaces are others now: everything is to be said again".to_owned())
                }
                () = sleep_until(quiet_deadline.unwrap_or_else(Instant::now)), if quiet_deadline.is_some() => {
                    quiet_deadline = None;
                    self.finish_walk(&reader.announced, &previous).await;
                    None
                }
                accepted = self.accept(listener, namespace_id) => {
                    let end = match accepted {
                        Ok(next) => SessionEnd::Replaced(next),
                        Err(reason) => SessionEnd::ListenerLost(reason),
                    };
                    return self.end_session(reader, previous, end);
                }
            };
            if let Some(reason) = end {
                return self.end_session(reader, previous, SessionEnd::Closed(reason));
            }
        }
    }

    /// What a session that ends leaves behind. One that said less than the one before it does not count: it was cut.
    fn end_session(&mut self, reader: Reader, previous: RouteCounts, end: SessionEnd) -> SessionEnd {
        self.last_counts = if reader.announced.covers_most_of(&previous) { reader.announced } else { previous };
        end
    }

    /// zebra is silent: it has said everything, unless it is itself waiting for the daemons behind it.
    async fn finish_walk(&self, last_counts: &RouteCounts, previous: &RouteCounts) {
        let route_source = &self.route_source.source().name;
        if let Some(event) = end_of_walk_event(last_counts, previous) {
            tracing::info!(route_source, routes = last_counts.total(), "zebra has said what it has");
            self.route_source.send(vec![event]).await;
        } else {
            tracing::info!(
                route_source,
                routes = last_counts.total(),
                previous = previous.total(),
                "zebra has said less than before: what is missing stays for the stale-time"
            );
        }
    }

    /// Reads the frames that are there and tells them.
    async fn process_frames(
        &self,
        reader: &mut Reader,
        buffer: &mut Vec<u8>,
        devices: &mut Devices,
    ) -> Result<(), String> {
        // What zebra knows of devices came by the same kernel before: it is news to us as well.
        if let Ok(changed) = devices.changed_now()
            && changed.any
        {
            reader.devices_changed();
            if changed.is_new_host_interface {
                return Err("a host interface came: everything is to be said again".to_owned());
            }
        }
        let mut at = 0;
        let result = loop {
            let read = reader.read(&buffer[at..], BATCH_ROUTES, &mut |device| devices.interface(device));
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
                break Err("next hops are others now: everything is to be said again".to_owned());
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
                "a message of zebra was left out: {reason}; said once, counted in the route source's state"
            );
        }
        if let Some((prefix, reason)) = counts.last_not_imported {
            self.state.not_imported(counts.not_imported, format_args!("{prefix}: {reason}"));
        }
    }
}

/// What silence says after a session has told so much, and the one before it so much; `None`: nothing, for something is missing.
fn end_of_walk_event(last_counts: &RouteCounts, previous: &RouteCounts) -> Option<Event> {
    // The first session of this controller has nothing of its own to be compared with. Nothing at all may be all that there is: what a
    // former controller has left is compared before it goes.
    let event = if previous.total() == 0 { Event::PresumedComplete } else { Event::Complete };
    last_counts.covers_most_of(previous).then_some(event)
}

#[cfg(test)]
mod tests {
    use super::reader::tests::route_counts;
    use super::*;

    #[test]
    fn a_fresh_zebra_without_routes_has_said_all_by_its_silence() {
        assert_eq!(end_of_walk_event(&route_counts(0, 0), &route_counts(0, 0)), Some(Event::PresumedComplete));
        assert_eq!(end_of_walk_event(&route_counts(3, 0), &route_counts(0, 0)), Some(Event::PresumedComplete));
        assert_eq!(end_of_walk_event(&route_counts(0, 0), &route_counts(1, 0)), None);
        assert_eq!(end_of_walk_event(&route_counts(90, 9), &route_counts(100, 10)), Some(Event::Complete));
        assert_eq!(end_of_walk_event(&route_counts(100, 0), &route_counts(100, 10)), None, "IPv6 is missing");
    }
}
