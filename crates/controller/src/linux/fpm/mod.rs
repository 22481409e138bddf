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

pub use reader::{Broken, Reader, Told};

use super::devices::Devices;
use super::{Place, RETRY};
use crate::learned::{Event, RouteSource};
use crate::route_sources::RouteSourceState;

/// Bytes of one read: some ten thousand routes.
const READ: usize = 1 << 20;
/// Routes of one batch to the table.
const BATCH: usize = 4_096;
/// So long zebra says nothing when it has said all that it has. Its walk over the routes pauses for a second when its buffer is
/// full, and it gathers for a tenth of a second.
const QUIET: Duration = Duration::from_secs(2);
/// The same when there was no session before that could be compared with: daemons behind zebra may still be on their way.
const QUIET_FIRST: Duration = Duration::from_secs(5);
/// What comes piece by piece is gathered for so long, so that many routes cost one wake-up. The first after a silence do not wait.
const GATHER: Duration = Duration::from_millis(1);
/// How often it is looked whether the namespace is still the one that we listen in.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Listens for zebra, and tells what it says, for ever.
pub async fn run(
    route_source: RouteSource,
    address: SocketAddr,
    place: Place,
    state: Arc<RouteSourceState>,
) {
    let mut server = Server { route_source, place, state, told: Told::default() };
    let mut said = String::new();
    loop {
        let reason = match server.open(address) {
            Ok((listener, devices)) => {
                said.clear();
                server.state.down("zebra has not connected yet");
                server.serve(listener, devices).await
            }
            Err(error) => format!("cannot listen at {address}: {error}"),
        };
        server.state.fail(&reason);
        if reason != said {
            let (route_source, netns) = (&server.route_source.source().name, &server.place.netns);
            tracing::warn!(route_source, netns, "{reason}; trying again");
            said = reason;
        }
        sleep(RETRY).await;
    }
}

struct Server {
    route_source: RouteSource,
    place: Place,
    state: Arc<RouteSourceState>,
    /// What the last session had said when it ended.
    told: Told,
}

/// How a session ended.
enum Ended {
    /// zebra went, or has to go.
    Gone(String),
    /// It connected anew.
    Replaced(TcpStream),
    /// Nobody can reach us any more.
    Lost(String),
}

impl Server {
    fn open(&self, address: SocketAddr) -> io::Result<(TcpListener, Devices)> {
        let listener = super::inside::inside(&self.place.netns, || {
            let listener = Listener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })?;
        Ok((TcpListener::from_std(listener)?, Devices::open(self.place.clone())?))
    }

    /// Serves one connection after the other. Gives why nobody can come any more.
    async fn serve(&mut self, listener: TcpListener, mut devices: Devices) -> String {
        let home = self.place.identity();
        loop {
            let mut stream = match self.accept(&listener, home).await {
                Ok(stream) => stream,
                Err(reason) => return reason,
            };
            loop {
                self.state.up();
                let route_source = &self.route_source.source().name;
                tracing::info!(route_source, "zebra has connected");
                self.route_source.tell(vec![Event::Up]).await;
                let ended = self.session(&mut stream, &listener, &mut devices, home).await;
                self.route_source.tell(vec![Event::Down]).await;
                let (reason, next) = match ended {
                    Ended::Gone(reason) => (reason, None),
                    Ended::Replaced(next) => ("zebra has connected anew".to_owned(), Some(next)),
                    Ended::Lost(reason) => return reason,
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
        home: Option<(u64, u64)>,
    ) -> Result<TcpStream, String> {
        loop {
            tokio::select! {
                came = listener.accept() => match came {
                    Ok((stream, from)) if super::inside::is_local(&stream, from) => return Ok(stream),
                    Ok((_, from)) => {
                        tracing::warn!(%from, "FPM: refused, it is not of this machine");
                    }
                    Err(error) => return Err(format!("cannot take connections: {error}")),
                },
                () = sleep(LOOK_EVERY) => {
                    if self.place.identity() != home {
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
        home: Option<(u64, u64)>,
    ) -> Ended {
        let mut reader = Reader::default();
        let mut buffer: Vec<u8> = Vec::with_capacity(READ);
        let mut configuration = self.place.line.changes();
        let before = std::mem::take(&mut self.told);
        let silence = if before.all() == 0 { QUIET_FIRST } else { QUIET };
        let mut quiet = Some(Instant::now() + silence);
        let mut gathered = Instant::now();
        loop {
            let ended = tokio::select! {
                read = async {
                    sleep_until(gathered).await;
                    stream.read_buf(&mut buffer).await
                } => match read {
                    Ok(0) => Some("zebra has closed the connection".to_owned()),
                    Ok(_) => {
                        let heard = self.hear(&mut reader, &mut buffer, devices).await;
                        quiet = quiet.map(|_| Instant::now() + silence);
                        gathered = Instant::now() + GATHER;
                        heard.err()
                    }
                    Err(error) => Some(format!("the connection broke: {error}")),
                },
                changed = devices.changed() => match changed {
                    Ok(changed) => {
                        reader.devices_changed();
                        // zebra says everything again when it connects anew: nothing that is held goes meanwhile.
                        changed.is_new_host_interface.then(|| "a host interface came: everything is to be said again".to_owned())
                    }
                    Err(error) => return self.end(reader, before, Ended::Lost(format!("devices cannot be followed: {error}"))),
                },
                changed = configuration.changed() => {
                    let is_other = changed.is_ok() && devices.reconfigure();
                    reader.devices_changed();
                    is_other.then(|| "host interfaces are others now: everything is to be said again".to_owned())
                }
                () = sleep_until(quiet.unwrap_or_else(Instant::now)), if quiet.is_some() => {
                    quiet = None;
                    self.complete(&reader.told, &before).await;
                    None
                }
                came = self.accept(listener, home) => {
                    let ended = match came {
                        Ok(next) => Ended::Replaced(next),
                        Err(reason) => Ended::Lost(reason),
                    };
                    return self.end(reader, before, ended);
                }
            };
            if let Some(reason) = ended {
                return self.end(reader, before, Ended::Gone(reason));
            }
        }
    }

    /// What a session that ends leaves behind. One that said less than the one before it does not count: it was cut.
    fn end(&mut self, reader: Reader, before: Told, ended: Ended) -> Ended {
        self.told = if reader.told.is_like(&before) { reader.told } else { before };
        ended
    }

    /// zebra is silent: it has said everything, unless it is itself waiting for the daemons behind it.
    async fn complete(&self, told: &Told, before: &Told) {
        let route_source = &self.route_source.source().name;
        if let Some(event) = silence(told, before) {
            tracing::info!(route_source, routes = told.all(), "zebra has said what it has");
            self.route_source.tell(vec![event]).await;
        } else {
            tracing::info!(
                route_source,
                routes = told.all(),
                before = before.all(),
                "zebra has said less than before: what is missing stays for the stale-time"
            );
        }
    }

    /// Reads the frames that are there and tells them.
    async fn hear(
        &self,
        reader: &mut Reader,
        buffer: &mut Vec<u8>,
        devices: &mut Devices,
    ) -> Result<(), String> {
        // What zebra knows of devices came by the same kernel before: it is news to us as well.
        if let Ok(changed) = devices.changed_now()
            && changed.is_anything
        {
            reader.devices_changed();
            if changed.is_new_host_interface {
                return Err("a host interface came: everything is to be said again".to_owned());
            }
        }
        let mut at = 0;
        let result = loop {
            let read = reader.read(&buffer[at..], BATCH, &mut |device| devices.interface(device));
            self.count(reader);
            let events = reader.take();
            if !events.is_empty() {
                self.route_source.tell(events).await;
            }
            match read {
                Ok(0) => break Ok(()),
                Ok(length) => at += length,
                Err(Broken(reason)) => break Err(reason.to_owned()),
            }
            if reader.is_to_be_said_again() {
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
        if let Some(reason) = counts.reason_malformed
            && self.state.malformed(counts.malformed)
        {
            let route_source = &self.route_source.source().name;
            tracing::warn!(
                route_source,
                "a message of zebra was left out: {reason}; said once, counted in the route source's state"
            );
        }
        if let Some((prefix, reason)) = counts.reason_left_out {
            self.state.not_imported(counts.not_imported, format_args!("{prefix}: {reason}"));
        }
    }
}

/// What silence says after a session has told so much, and the one before it so much; `None`: nothing, for something is missing.
fn silence(told: &Told, before: &Told) -> Option<Event> {
    // The first session of this controller has nothing of its own to be compared with. Nothing at all may be all that there is: what a
    // former controller has left is compared before it goes.
    let event = if before.all() == 0 { Event::Silent } else { Event::Complete };
    told.is_like(before).then_some(event)
}

#[cfg(test)]
mod tests {
    use super::reader::tests::told;
    use super::*;

    #[test]
    fn a_fresh_zebra_without_routes_has_said_all_by_its_silence() {
        assert_eq!(silence(&told(0, 0), &told(0, 0)), Some(Event::Silent));
        assert_eq!(silence(&told(3, 0), &told(0, 0)), Some(Event::Silent));
        assert_eq!(silence(&told(0, 0), &told(1, 0)), None);
        assert_eq!(silence(&told(90, 9), &told(100, 10)), Some(Event::Complete));
        assert_eq!(silence(&told(100, 0), &told(100, 10)), None, "IPv6 is missing");
    }
}
