//! Plays scripts of packets through a router, and notes what becomes of each packet.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use stoa_lab::{Result, Topology};
use stoa_wire::{ipv4, ipv6, protocol, tcp};

use super::packet::{Ends, Packet};
use super::rules::MARK;
use super::station::{self, Station};

const DEADLINE: Duration = Duration::from_secs(10);
/// Longer than a fragment waits for the first one of its packet.
const FRAGMENTS_WAIT: Duration = Duration::from_secs(3);
/// Packets between two waits for the router: fewer than a receive ring holds.
const BURST: usize = 128;

/// Marks that differ.
const MARKS: usize = 1000;
const UDP_HEADER: usize = 8;

/// What becomes of a packet: whether it comes out at the other side, and the answer to its sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub passes: bool,
    pub answer: Option<String>,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = if self.passes { "passes" } else { "dropped" };
        match &self.answer {
            None => out.write_str(word),
            Some(answer) => write!(out, "{word}, {answer}"),
        }
    }
}

/// A script of one family on its own addresses.
struct Run<'a> {
    packets: &'a [Packet],
    ends: Ends,
    verdicts: Vec<Verdict>,
    /// Parts of fragments that have arrived, by the side that has sent them.
    pieces: [Vec<Part>; 2],
    /// The step of the packet that each side has sent last.
    last: [Option<usize>; 2],
}

/// The number of an IPv4 packet, the offset, and data.
type Part = (u16, usize, Vec<u8>);

/// Addresses of a script: host-a has 198.18.64.0/20, and 198.18.80.0/20 besides; host-b 128.0/20 and 144.0/20.
fn ends(number: usize, six: bool) -> Ends {
    let address = |block: usize| -> IpAddr {
        let number = number + 1;
        if six {
            Ipv6Addr::new(
                0x2001,
                0xdb8,
                [0x64, 0x80, 0x128, 0x144][block],
                0,
                0,
                0,
                0,
                number as u16,
            )
            .into()
        } else {
            let third = [64, 80, 128, 144][block] + number / 256;
            Ipv4Addr::new(198, 18, third as u8, (number % 256) as u8).into()
        }
    };
    Ends { usual: [address(0), address(2)], other: [address(1), address(3)] }
}

/// Prefixes behind the hosts, for routes.
pub const BEHIND: [(&str, &str); 4] = [
    ("198.18.64.0/19", "198.18.1.2"),
    ("2001:db8::/40", "2001:db8:1::2"),
    ("198.18.128.0/19", "198.18.2.2"),
    ("2001:db8:100::/40", "2001:db8:2::2"),
];

/// A router between two stations.
pub struct Stage<'a> {
    stations: [Station; 2],
    runs: Vec<Run<'a>>,
    /// The run and the step of packets that are under way, by what does not change of them.
    sent: HashMap<Vec<u8>, (usize, usize)>,
    /// The mark that was sent last, of any side and family, and whether it has come out.
    mark: (usize, bool),
}

impl<'a> Stage<'a> {
    /// Scripts between host-a and host-b, each in both families: IPv4 first.
    ///
    /// # Errors
    /// Errors of the lab.
    pub fn new(topology: &Topology, scripts: &'a [Vec<Packet>]) -> Result<Self> {
        let station = |label: &str| Station::open(topology, label);
        let run = |(number, packets): (usize, &'a Vec<Packet>)| {
            [false, true].map(|six| Run {
                packets,
                ends: ends(number, six),
                verdicts: vec![Verdict::default(); packets.len()],
                pieces: [vec![], vec![]],
                last: [None; 2],
            })
        };
        Ok(Self {
            stations: [station("host-a")?, station("host-b")?],
            runs: scripts.iter().enumerate().flat_map(run).collect(),
            sent: HashMap::new(),
            mark: (0, false),
        })
    }

    /// Plays all scripts side by side, step by step.
    pub fn play(mut self) -> Vec<Vec<Verdict>> {
        // Neighbours are not known yet.
        for six in [false, true] {
            for from in [0, 1] {
                self.mark(from, six, Duration::from_millis(50));
            }
        }
        let steps = self.runs.iter().map(|run| run.packets.len()).max().unwrap_or(0);
        let mut number = 0_u16;
        for step in 0..steps {
            let runs: Vec<usize> =
                (0..self.runs.len()).filter(|run| step < self.runs[*run].packets.len()).collect();
            for burst in runs.chunks(BURST) {
                for run in burst {
                    number = number.checked_add(1).expect("fewer packets");
                    self.send(*run, step, number);
                }
                // What comes back to host-a has passed when a mark that was sent later has.
                for from in [0, 1, 0] {
                    self.mark(from, false, DEADLINE);
                    self.mark(from, true, DEADLINE);
                }
            }
        }
        // Fragments whose first one does not come may wait for it.
        let waited = Instant::now() + FRAGMENTS_WAIT;
        while Instant::now() < waited {
            station::wait(&self.stations);
            self.receive_all();
        }
        self.judge_pieces();
        self.runs.into_iter().map(|run| run.verdicts).collect()
    }

    fn send(&mut self, run: usize, step: usize, number: u16) {
        let of = &mut self.runs[run];
        let packet = &of.packets[step];
        let bytes = packet.bytes(&of.ends, number);
        of.last[packet.from] = Some(step);
        if packet.piece.is_none() {
            self.sent.insert(unchanging(&bytes), (run, step));
        }
        self.stations[packet.from].send(&bytes);
    }

    /// Sends a mark from one side, each `pause` again, until it comes out at the other side. Each has a length of its
    /// own: copies of an earlier one may be late, and say nothing about this one.
    fn mark(&mut self, from: usize, six: bool, pause: Duration) {
        let ends = ends(4000, six);
        let begun = Instant::now();
        self.mark = (self.mark.0 % MARKS + 1, false);
        let text = if from == 0 { format!("> udp :{MARK}") } else { format!("< udp @{MARK}") };
        let text = format!("{text} d{}", self.mark.0);
        while !self.mark.1 {
            assert!(begun.elapsed() < DEADLINE, "no mark of side {from} comes out");
            self.stations[from].send(&Packet::parse(&text).bytes(&ends, 0));
            let sent = Instant::now();
            while !self.mark.1 && sent.elapsed() < pause {
                station::wait(&self.stations);
                self.receive_all();
            }
        }
    }

    /// Waits until a side has received something, for a short time.
    fn receive_all(&mut self) {
        for at in [0, 1] {
            while let Some(packet) = self.stations[at].receive() {
                self.note(at, &packet);
            }
        }
    }

    /// Notes a packet that a side has received.
    fn note(&mut self, at: usize, packet: &[u8]) {
        let Some(seen) = Seen::of(packet) else { return };
        let marks = ends(4000, packet[0] >> 4 == 6).usual;
        if [seen.source, seen.destination] == [marks[1 - at], marks[at]] {
            self.mark.1 |= seen.upper.len() == UDP_HEADER + self.mark.0;
            return;
        }
        if let Some((run, step)) = self.sent.get(&unchanging(packet)).copied()
            && self.runs[run].packets[step].from != at
        {
            self.runs[run].verdicts[step].passes = true;
            return;
        }
        let is_to =
            |ends: &Ends| seen.destination == ends.usual[at] || seen.destination == ends.other[at];
        let Some(run) = self.runs.iter_mut().find(|run| is_to(&run.ends)) else { return };
        // A fragment that is a whole packet may have lost its header.
        let is_whole = |packet: &&Packet| {
            let is_piece = packet.piece.is_some() && packet.from != at;
            is_piece && packet.upper(&run.ends) == seen.upper
        };
        let whole = run.packets.iter().find(is_whole).and_then(|packet| packet.piece);
        if let Some((id, offset)) = seen.piece.or(whole.map(|piece| (piece.id, 0))) {
            run.pieces[1 - at].push((id, offset, seen.upper.to_vec()));
        } else if let Some(step) = run.last[at] {
            run.verdicts[step].answer = Some(seen.answer());
        }
    }

    /// A fragment has passed if each of its bytes has: a router may have cut the packet elsewhere.
    fn judge_pieces(&mut self) {
        for run in &mut self.runs {
            for (packet, verdict) in run.packets.iter().zip(&mut run.verdicts) {
                let Some(piece) = packet.piece else { continue };
                let (upper, pieces) = (packet.upper(&run.ends), &run.pieces[packet.from]);
                let six = run.ends.usual[0].is_ipv6();
                let has = |at: usize| {
                    pieces.iter().any(|(id, offset, data)| {
                        let byte = at.checked_sub(*offset).and_then(|at| data.get(at));
                        (six || *id == piece.id) && byte == Some(&upper[at])
                    })
                };
                verdict.passes = packet.range(&upper).all(has);
            }
        }
    }
}

/// A packet without what a router changes: TTL or hop limit, and the checksum of IPv4.
fn unchanging(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 6 {
        packet[7] = 0;
    } else {
        packet[8] = 0;
        packet[10..12].fill(0);
    }
    packet
}

/// A received packet.
struct Seen<'a> {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    upper: &'a [u8],
    piece: Option<(u16, usize)>,
}

impl<'a> Seen<'a> {
    fn of(packet: &'a [u8]) -> Option<Self> {
        if packet[0] >> 4 == 6 {
            let view = ipv6::check(packet).ok()?;
            let (source, destination) = (view.source().into(), view.destination().into());
            let (mut protocol, mut upper) = (packet[6], view.payload());
            let mut piece = None;
            if let (protocol::FRAGMENT, Some((header, rest))) =
                (protocol, upper.split_first_chunk::<8>())
            {
                (protocol, upper) = (header[0], rest);
                piece = Some((0, usize::from(u16::from_be_bytes([header[2], header[3]]) & !7)));
            }
            return Some(Self { source, destination, protocol, upper, piece });
        }
        let view = ipv4::check(packet).ok()?;
        let header = view.header();
        let piece = header.is_fragment();
        let piece = piece.then(|| (header.identification.get(), header.fragment_offset()));
        Some(Self {
            source: view.source().into(),
            destination: view.destination().into(),
            protocol: header.protocol,
            upper: view.payload(),
            piece,
        })
    }

    /// What an answer says.
    fn answer(&self) -> String {
        match (self.protocol, self.upper) {
            (protocol::TCP, bytes) => match tcp::parse(bytes) {
                Ok(view) => {
                    let header = view.header();
                    let (sequence, ack) = (header.sequence.get(), header.acknowledgement.get());
                    format!("flags {:#x} {sequence} {ack}", header.flags)
                }
                Err(error) => format!("{error:?}"),
            },
            (protocol::ICMP4 | protocol::ICMP6, [kind, code, ..]) => {
                format!("ICMP type {kind} code {code}")
            }
            (protocol, _) => format!("protocol {protocol} from {}", self.source),
        }
    }
}
