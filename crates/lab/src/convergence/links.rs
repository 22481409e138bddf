//! The test's ends of the router's memif ports: test packets enter on one, and leave on one of two others.

use std::path::Path;
use std::time::{Duration, Instant};

use stoa_memif::{BATCH, Config, Event, Memif, Receiver, Role, Sender};

use super::frames::{self, Arrival, Frame};
use super::hops::OutPort;
use crate::{LabError, Result, interrupt};

/// How long the router may take to bring a link up.
const UP: Duration = Duration::from_secs(15);
/// Descriptors of a ring: enough to buffer packets while this process is not scheduled.
const RING: u32 = 16_384;

/// One connected end.
struct Link {
    memif: Memif,
    receivers: Vec<Receiver>,
    senders: Vec<Sender>,
}

/// The ends of all three ports.
pub(super) struct Links {
    into: Link,
    out: [Option<Link>; 2],
    frame: Frame,
}

impl Links {
    /// Connects to the sockets of the ports in a folder and waits until all are up. `six`: test packets are IPv6.
    ///
    /// # Errors
    ///
    /// The endpoint's error when it cannot be opened or does not come up.
    pub(super) fn open(folder: &Path, six: bool) -> Result<Self> {
        let mut waiting = Vec::new();
        for name in ["in", OutPort::First.name(), OutPort::Second.name()] {
            let socket = socket(folder, name);
            let config = Config { socket, role: Role::Slave, ring_size: RING, ..Config::default() };
            let memif = Memif::open(&config).map_err(|error| not_up(name, &error.to_string()))?;
            waiting.push(Link { memif, receivers: Vec::new(), senders: Vec::new() });
        }
        let end = Instant::now() + UP;
        while waiting.iter().any(|link| link.senders.is_empty()) {
            interrupt::check()?;
            for link in &mut waiting {
                link.service();
            }
            if let Some(late) = waiting.iter().find(|link| link.senders.is_empty())
                && Instant::now() > end
            {
                return Err(not_up("a port of the router", late.memif.detail()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut all = waiting.into_iter();
        let into = all.next().ok_or_else(|| not_up("in", ""))?;
        Ok(Self { into, out: [all.next(), all.next()], frame: Frame::new(six) })
    }

    /// Sends one packet for each `(prefix index, address, sequence number)` and receives meanwhile. Stops early when
    /// the router accepts nothing for 200 ms.
    pub(super) fn send(
        &mut self,
        packets: impl IntoIterator<Item = (u32, u128, u32)>,
        mut look: impl FnMut(Arrival),
    ) {
        let mut packets = packets.into_iter().peekable();
        let mut stuck: Option<Instant> = None;
        while packets.peek().is_some() {
            let mut sent = 0;
            if let Some(sender) = self.into.senders.first_mut() {
                let mut batch = sender.batch();
                while sent < BATCH {
                    let Some((index, address, sequence)) = packets.peek().copied() else { break };
                    if batch.put(self.frame.filled(index, address, sequence)).is_err() {
                        break;
                    }
                    packets.next();
                    sent += 1;
                }
            }
            self.receive(&mut look);
            if sent > 0 {
                stuck = None;
            } else if stuck.get_or_insert_with(Instant::now).elapsed() > Duration::from_millis(200)
            {
                return;
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Receives all test packets that left the router.
    pub(super) fn receive(&mut self, mut look: impl FnMut(Arrival)) {
        for link in self.out.iter_mut().flatten() {
            for receiver in &mut link.receivers {
                while receiver.receive(|frame| frames::read(frame).into_iter().for_each(&mut look))
                    > 0
                {}
            }
        }
        // Packets of the router itself (announcements) are discarded.
        for receiver in &mut self.into.receivers {
            receiver.discard();
        }
    }

    /// Runs the control side.
    pub(super) fn service(&mut self) {
        self.into.service();
        self.out.iter_mut().flatten().for_each(Link::service);
    }

    /// Cuts one of the links that packets leave on.
    pub(super) fn cut(&mut self, out: OutPort) {
        let [first, second] = &mut self.out;
        *match out {
            OutPort::First => first,
            OutPort::Second => second,
        } = None;
    }
}

impl Link {
    fn service(&mut self) {
        match self.memif.service() {
            Some(Event::Up(rings)) => {
                (self.receivers, self.senders) = (rings.receivers, rings.senders);
            }
            Some(Event::Down(_)) => (self.receivers, self.senders) = Default::default(),
            None => {}
        }
    }
}

/// The socket of a port, in a folder.
pub(super) fn socket(folder: &Path, name: &str) -> String {
    folder.join(format!("{name}.memif")).to_string_lossy().into_owned()
}

fn not_up(name: &str, reason: &str) -> LabError {
    LabError::ParseFailed { what: format!("memif port {name}"), reason: reason.to_owned() }
}
