//! The bench's ends of the router's memif ports: test packets go in by one, and come out by one of two others.

use std::path::Path;
use std::time::{Duration, Instant};

use stoa_memif::{BATCH, Config, Event, Memif, Receiver, Role, Sender};

use super::hops::{Hop, IN, IN_MAC, Out};
use crate::{LabError, Result, interrupt};

/// How long the router may take to bring a link up.
const UP: Duration = Duration::from_secs(15);
/// Descriptors of a ring: room for what comes while somebody else has the processor.
const RING: u32 = 16_384;
/// Bytes of a test packet without FCS.
const FRAME: usize = 60;
/// Where the number of the prefix stands in it, and behind it that of the packet: after Ethernet, IPv4 and UDP.
const MARK: usize = 14 + 20 + 8;

/// One end that is up.
struct Link {
    memif: Memif,
    receivers: Vec<Receiver>,
    senders: Vec<Sender>,
}

/// The ends of all three ports.
pub(super) struct Links {
    into: Link,
    out: [Option<Link>; 2],
    frame: [u8; FRAME],
}

/// What a test packet that came out says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    /// The number of the prefix.
    pub(super) index: u32,
    /// The number of the packet.
    pub(super) sequence: u32,
    /// Where it went.
    pub(super) destination: u32,
    /// The MAC address of its next hop.
    pub(super) mac: [u8; 6],
}

impl Links {
    /// Connects to the sockets of the ports in a folder and waits until all are up.
    ///
    /// # Errors
    /// What the endpoint says when it cannot be opened or does not come up.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let mut waiting = Vec::new();
        for name in ["in", Out::First.name(), Out::Second.name()] {
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
        Ok(Self { into, out: [all.next(), all.next()], frame: template() })
    }

    /// Sends one packet for each of these (number of the prefix, address, number of the packet), looking at what comes out meanwhile.
    /// Ends early when the router takes nothing for 200 ms.
    pub(super) fn send(
        &mut self,
        packets: impl IntoIterator<Item = (u32, u32, u32)>,
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
                    fill(&mut self.frame, index, address, sequence);
                    if batch.put(&self.frame).is_err() {
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

    /// Looks at all that came out.
    pub(super) fn receive(&mut self, mut look: impl FnMut(Arrival)) {
        for link in self.out.iter_mut().flatten() {
            for receiver in &mut link.receivers {
                while receiver.receive(|frame| read(frame).into_iter().for_each(&mut look)) > 0 {}
            }
        }
        // What the router says by the port itself (announcements) is let go.
        for receiver in &mut self.into.receivers {
            receiver.discard();
        }
    }

    /// Goes on with the control side.
    pub(super) fn service(&mut self) {
        self.into.service();
        self.out.iter_mut().flatten().for_each(Link::service);
    }

    /// Cuts one of the links that packets leave by.
    pub(super) fn cut(&mut self, out: Out) {
        let [first, second] = &mut self.out;
        *match out {
            Out::First => first,
            Out::Second => second,
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

fn not_up(name: &str, why: &str) -> LabError {
    LabError::NotUnderstood { what: format!("memif port {name}"), why: why.to_owned() }
}

/// A UDP packet to nowhere yet.
fn template() -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[..6].copy_from_slice(&IN_MAC);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0xfe, 0, 1]);
    frame[12..14].copy_from_slice(&[8, 0]);
    // IPv4, 46 bytes, don't fragment, TTL 64, UDP.
    frame[14..26].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame[26..30].copy_from_slice(&IN[1].octets());
    // Ports 1024 and 9 (discard), 26 bytes, no checksum.
    frame[34..42].copy_from_slice(&[4, 0, 0, 9, 0, 26, 0, 0]);
    frame
}

fn fill(frame: &mut [u8; FRAME], index: u32, address: u32, sequence: u32) {
    frame[24..26].fill(0);
    frame[30..34].copy_from_slice(&address.to_be_bytes());
    let words =
        frame[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame[MARK..MARK + 4].copy_from_slice(&index.to_be_bytes());
    frame[MARK + 4..MARK + 8].copy_from_slice(&sequence.to_be_bytes());
}

fn read(frame: &[u8]) -> Option<Arrival> {
    let number =
        |at: usize| frame.get(at..)?.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes));
    let is_ours = frame.get(12..14)? == [8, 0] && frame.get(34..38)? == [4, 0, 0, 9];
    let mac = *frame.first_chunk::<6>()?;
    let (index, sequence, destination) = (number(MARK)?, number(MARK + 4)?, number(30)?);
    is_ours.then_some(Arrival { index, sequence, destination, mac })
}

impl Arrival {
    /// Whether it went by this next hop.
    pub(super) fn went_by(&self, hop: Hop) -> bool {
        self.mac == hop.mac()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_says_what_it_is_for() {
        let mut frame = template();
        fill(&mut frame, 7, 0x1400_0001, 9);
        let words =
            frame[14..34].chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the checksum (RFC 791)");
        let hop = Hop { peer: 3, out: Out::Second, depth: 5 };
        frame[..6].copy_from_slice(&hop.mac());
        let seen = read(&frame).expect("it is ours");
        assert_eq!((seen.index, seen.sequence, seen.destination), (7, 9, 0x1400_0001));
        assert!(seen.went_by(hop) && !seen.went_by(Hop { peer: 2, ..hop }));
        assert_eq!(read(&frame[..45]), None);
    }
}
