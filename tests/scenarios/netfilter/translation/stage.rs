//! Plays scripts through a router between three hosts, and describes what arrives after each step.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use stoa_lab::{Result, Topology};
use stoa_wire::ipv4;

use super::super::packet::{Ends, Packet};
use super::super::rules::MARK;
use super::super::station::{self, Station};
use super::Plan;
use super::ends::{address, name};
use super::script::{Made, Of, Step};
use super::view::{Arrived, Describer, Sent, payload};

const DEADLINE: Duration = Duration::from_secs(10);
/// Marks that differ.
const MARKS: usize = 1000;
const UDP_HEADER: usize = 8;
/// The script whose addresses marks have.
const OF_MARKS: u8 = 250;
/// A host of each station, for marks.
const HOSTS: [&str; 3] = ["a", "b", "c"];
/// Stations whose marks show, one after the other, that a router has sent all: each one's last packets are behind it,
/// and what comes to it is before the mark that comes to it later.
const AROUND: [usize; 5] = [0, 1, 2, 0, 1];
/// What stands for no packet.
pub const NOTHING: &str = "nothing";

/// What arrives in each step of each script.
pub type Descriptions = Vec<Vec<String>>;

struct Run<'a> {
    of: Of,
    steps: &'a [Step],
    sent: Vec<Option<Sent>>,
    arrived: Vec<Vec<Arrived>>,
    described: Vec<Vec<String>>,
    /// Fragments by station, source, destination and identification.
    pieces: BTreeMap<(usize, Vec<u8>), Vec<Vec<u8>>>,
    describer: Describer,
}

/// A router between three stations.
pub struct Stage<'a> {
    stations: [Station; 3],
    runs: Vec<Run<'a>>,
    mark: (usize, bool),
    number: u16,
}

impl<'a> Stage<'a> {
    /// Scripts between the hosts of a topology.
    ///
    /// # Errors
    /// Errors of the lab.
    pub fn new(topology: &Topology, scripts: &'a [Vec<Step>], plan: Plan) -> Result<Self> {
        let station = |label: &str| Station::open(topology, label);
        let run = |(number, steps): (usize, &'a Vec<Step>)| Run {
            of: Of {
                script: u8::try_from(number + 1).expect("fewer scripts than addresses"),
                external: plan.external(),
            },
            steps,
            sent: vec![],
            arrived: vec![],
            described: vec![],
            pieces: BTreeMap::new(),
            describer: plan.describer(),
        };
        Ok(Self {
            stations: [station("host-a")?, station("host-b")?, station("host-c")?],
            runs: scripts.iter().enumerate().map(run).collect(),
            mark: (0, false),
            number: 0,
        })
    }

    /// Plays all scripts side by side, step by step.
    pub fn play(mut self) -> Descriptions {
        // Neighbours are not known yet.
        for from in AROUND {
            self.mark(from, Duration::from_millis(50));
        }
        let steps = self.runs.iter().map(|run| run.steps.len()).max().unwrap_or(0);
        for step in 0..steps {
            for run in 0..self.runs.len() {
                self.send(run, step);
            }
            for from in AROUND {
                self.mark(from, DEADLINE);
            }
        }
        let join = |described: Vec<String>| match described.is_empty() {
            true => NOTHING.to_owned(),
            false => described.join("; "),
        };
        self.runs.into_iter().map(|run| run.described.into_iter().map(join).collect()).collect()
    }

    fn send(&mut self, run: usize, step: usize) {
        let run = &mut self.runs[run];
        let Some(made) = run.steps.get(step).map(|it| it.make(run.of, &run.arrived)) else {
            return;
        };
        run.arrived.push(vec![]);
        run.described.push(vec![]);
        let Some(Made { station, packet, ends }) = made else {
            run.sent.push(None);
            return;
        };
        self.number = self.number.checked_add(1).expect("fewer packets");
        let bytes = packet.bytes(&ends, self.number);
        let payload = payload(packet.protocol(false), &packet.upper(&ends)).to_vec();
        run.sent.push(Some(Sent { packet: bytes.clone(), payload }));
        self.stations[station].send(&bytes);
    }

    /// Sends a mark from a station to the next one, each `pause` again, until it arrives. Each has a length of its own.
    fn mark(&mut self, from: usize, pause: Duration) {
        let to = (from + 1) % HOSTS.len();
        let [source, destination] = [from, to].map(|at| address(HOSTS[at], OF_MARKS).into());
        let ends = Ends { usual: [source, destination], other: [source, destination] };
        let begun = Instant::now();
        self.mark = (self.mark.0 % MARKS + 1, false);
        let text = format!("> udp @{MARK} :{MARK} d{}", self.mark.0);
        while !self.mark.1 {
            assert!(begun.elapsed() < DEADLINE, "no mark of {} arrives", HOSTS[from]);
            self.stations[from].send(&Packet::parse(&text).bytes(&ends, 0));
            let sent = Instant::now();
            while !self.mark.1 && sent.elapsed() < pause {
                station::wait(&self.stations);
                for at in 0..self.stations.len() {
                    while let Some(packet) = self.stations[at].receive() {
                        self.note(at, packet);
                    }
                }
            }
        }
    }

    fn note(&mut self, station: usize, packet: Vec<u8>) {
        let Ok(view) = ipv4::check(&packet) else { return };
        let (_, script) = name(view.destination());
        if script == Some(OF_MARKS) {
            self.mark.1 |= view.payload().len() == UDP_HEADER + self.mark.0;
        } else if let Some(run) = self.runs.iter_mut().find(|run| Some(run.of.script) == script)
            && let Some(packet) = run.whole(station, packet)
        {
            run.note(Arrived { station, packet });
        }
    }
}

impl Run<'_> {
    /// The packet of which a fragment is the last one that arrives.
    fn whole(&mut self, station: usize, packet: Vec<u8>) -> Option<Vec<u8>> {
        let header = *ipv4::check(&packet).ok()?.header();
        if !header.is_fragment() {
            return Some(packet);
        }
        let key = (station, [&packet[4..6], &packet[12..20]].concat());
        let pieces = self.pieces.entry(key).or_default();
        pieces.push(packet);
        let (mut upper, mut is_whole) = (vec![], false);
        for piece in &*pieces {
            let view = ipv4::check(piece).ok()?;
            let (header, data) = (view.header(), view.payload());
            if header.fragment_offset() != upper.len() {
                return None;
            }
            upper.extend(data);
            is_whole = !header.more_fragments();
        }
        let first = ipv4::check(&pieces[0]).ok()?;
        let builder = ipv4::Builder { flags_fragment: 0, ..ipv4::Builder::of(&first) };
        let mut bytes = [0; 60];
        let length = builder.build(&mut bytes, upper.len()).ok()?;
        is_whole.then(|| [&bytes[..length], &upper].concat())
    }

    fn note(&mut self, arrived: Arrived) {
        let (Some(described), Some(all)) = (self.described.last_mut(), self.arrived.last_mut())
        else {
            return;
        };
        let sent = self.sent.last().and_then(Option::as_ref);
        let place = ["a", "b", "c"][arrived.station];
        described.push(format!("at {place}: {}", self.describer.describe(&arrived, &self.sent)));
        if let Some(sent) = sent {
            self.describer.note_text(&arrived, sent);
        }
        all.push(arrived);
    }
}
