//! Two hosts, a network that loses, repeats and reorders, and the tracker in its middle.

use std::collections::{BTreeMap, BTreeSet};

use super::super::window::is_after;
use super::super::*;
use super::host::{Host, State};

/// A small generator, so that a run is a function of its seed.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    pub(super) fn below(&mut self, end: u32) -> u32 {
        self.next() % end.max(1)
    }

    pub(super) fn is(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }
}

/// How the network treats segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// Percent, on each side of the tracker.
    pub(super) loss: u32,
    pub(super) repeats: u32,
    /// Delays are this, in milliseconds, up to its threefold: segments overtake each other.
    pub(super) delay: u32,
}

/// Where a segment is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    BeforeTracker,
    BehindTracker,
}

/// A segment at the tracker: when, from where, what, the verdict, the state afterwards, and the states of the hosts.
type Judged = (u64, Direction, Segment, Verdict, Option<Tcp>, [State; 2]);

pub(super) struct World {
    pub(super) now: u64,
    pub(super) hosts: [Host; 2],
    pub(super) tracker: Option<Tcp>,
    /// What the tracker would be without an attacker.
    pub(super) unattacked: Option<Tcp>,
    pub(super) options: Options,
    pub(super) random: Random,
    pub(super) weather: Weather,
    on_the_way: BTreeMap<(u64, u64), (Direction, Place, Segment)>,
    serial: u64,
    /// The last segments at the tracker, for messages.
    log: Vec<Judged>,
    /// Segments of hosts that were refused.
    pub(super) refused: Vec<Judged>,
    /// A reset has overtaken its data, and may be behind it again where it arrives.
    has_early_reset: bool,
    /// Numbers of forged resets: they miss what the receiver awaits, or the connection would be over.
    forged_resets: BTreeSet<u32>,
}

impl World {
    pub(super) fn new(hosts: [Host; 2], weather: Weather, seed: u64) -> Self {
        Self {
            now: u64::from(seed as u32),
            hosts,
            tracker: None,
            unattacked: None,
            options: Options::default(),
            random: Random(seed),
            weather,
            on_the_way: BTreeMap::new(),
            serial: 0,
            log: Vec::new(),
            refused: Vec::new(),
            has_early_reset: false,
            forged_resets: BTreeSet::new(),
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.on_the_way.is_empty()
    }

    /// A host sends.
    pub(super) fn send(&mut self, from: Direction, out: Vec<Segment>) {
        for segment in out {
            self.launch(from, Place::BeforeTracker, segment);
        }
    }

    fn launch(&mut self, from: Direction, place: Place, segment: Segment) {
        let copies = 1 + u32::from(self.random.is(self.weather.repeats));
        for _ in 0..copies {
            if self.random.is(self.weather.loss) {
                continue;
            }
            let delay = u64::from(self.weather.delay + self.random.below(2 * self.weather.delay));
            self.serial += 1;
            self.on_the_way.insert((self.now + delay, self.serial), (from, place, segment));
        }
    }

    /// Moves the time on by a millisecond or so, and all that happens then.
    pub(super) fn tick(&mut self, by: u64, burst: u32) {
        self.now += by;
        while let Some(entry) = self.on_the_way.first_entry()
            && entry.key().0 <= self.now
        {
            let (from, place, segment) = entry.remove();
            match place {
                Place::BeforeTracker => self.track(from, segment),
                Place::BehindTracker => self.deliver(from, segment),
            }
        }
        for from in [Direction::Original, Direction::Reply] {
            let mut out = Vec::new();
            self.hosts[from as usize].poll(self.now, burst, &mut out);
            self.send(from, out);
        }
    }

    fn deliver(&mut self, from: Direction, segment: Segment) {
        let to = from.reverse();
        let is_hit = self.hosts[to as usize].rcv_nxt == segment.sequence;
        if segment.flags & RST != 0 && is_hit && self.forged_resets.contains(&segment.sequence) {
            return;
        }
        let mut out = Vec::new();
        self.hosts[to as usize].receive(self.now, &segment, &mut out);
        self.send(to, out);
    }

    /// A segment of a host meets the tracker.
    pub(super) fn track(&mut self, from: Direction, segment: Segment) {
        let verdict = self.judge(from, &segment);
        if let Some(unattacked) = &mut self.unattacked {
            // Both begin in the same way; this one is not attacked.
            let step = unattacked.step(from, &segment, self.options, self.now as u32);
            *unattacked = match step.verdict {
                Verdict::Replace => Tcp::open(&segment, self.options).expect("a SYN opens"),
                _ => step.state,
            };
        }
        if segment.flags & RST != 0 && verdict == Verdict::Challenge {
            self.has_early_reset |= self.tracker.is_some_and(|tcp| {
                tcp.is_opening() || is_after(segment.sequence, tcp.sides[from as usize].end)
            });
        }
        match verdict {
            Verdict::Drop(_) if self.is_void(from, &segment) => {}
            Verdict::Drop(_) => self.refused.extend(self.log.last().cloned()),
            _ => self.launch(from, Place::BehindTracker, segment),
        }
    }

    /// Whether a segment is a reset that its receiver ignores, or one of a connection that a host has aborted: late
    /// SYNs and SYN-ACKs that its reset has overtaken mean nothing.
    fn is_void(&self, from: Direction, segment: &Segment) -> bool {
        let receiver = &self.hosts[from.reverse() as usize];
        let is_reset = segment.flags & RST != 0;
        let is_ignored = receiver.state != State::SynSent && receiver.rcv_nxt != segment.sequence;
        self.hosts.iter().any(|host| host.has_aborted) || is_reset && is_ignored
    }

    /// An attacker's segment meets the tracker, and the host behind it.
    pub(super) fn forge(&mut self, from: Direction, segment: Segment) {
        if self.unattacked.is_none() {
            self.unattacked = self.tracker;
        }
        if segment.flags & RST != 0 {
            self.forged_resets.insert(segment.sequence);
        }
        match self.judge(from, &segment) {
            Verdict::Drop(_) => {}
            _ => self.launch(from, Place::BehindTracker, segment),
        }
    }

    fn judge(&mut self, from: Direction, segment: &Segment) -> Verdict {
        let (next, verdict) = match &self.tracker {
            None => match Tcp::open(segment, self.options) {
                Ok(tcp) => (Some(tcp), Verdict::Accept),
                Err(reason) => (None, Verdict::Drop(reason)),
            },
            Some(tcp) => {
                let step = tcp.step(from, segment, self.options, self.now as u32);
                match step.verdict {
                    // By a policy that admits all. The direction of the first flow remains that of the model.
                    Verdict::Replace if from == Direction::Original => {
                        (Tcp::open(segment, self.options).ok(), Verdict::Accept)
                    }
                    verdict => (Some(step.state), verdict),
                }
            }
        };
        let states = self.hosts.each_ref().map(|host| host.state);
        if self.log.len() > 1_000 {
            self.log.clear();
        }
        self.log.push((self.now, from, *segment, verdict, next, states));
        // As a flow entry keeps it.
        self.tracker = next.map(|tcp| Tcp::from_words(tcp.words()));
        verdict
    }

    /// The last lines of the log, for a message.
    pub(super) fn history(&self) -> String {
        let from = self.log.len().saturating_sub(14);
        let lines: Vec<_> = self.log[from..].iter().map(|line| format!("{line:?}")).collect();
        format!("{}\n{:#?}", lines.join("\n"), self.hosts)
    }

    /// The class of the flow; `None`: there is none.
    pub(super) fn class(&self) -> Option<Class> {
        self.tracker.map(|tcp| tcp.class())
    }

    /// The two promises about what lives and what is dead, at a moment at which nothing is on the way.
    pub(super) fn check(&self) {
        let is_kept = matches!(self.class(), Some(Class::TcpEstablished | Class::TcpHalfClosed));
        let [a, b] = &self.hosts;
        // Where both have sent their FIN, one repeats something until the end (RFC 5382 section 2.1: closing).
        let has_fin = |host: &Host| {
            matches!(
                host.state,
                State::FinWait1 | State::FinWait2 | State::Closing | State::LastAck
            )
        };
        if a.is_synchronized() && b.is_synchronized() && !(has_fin(a) && has_fin(b)) {
            assert!(is_kept, "a live connection in {:?}\n{}", self.class(), self.history());
        }
        let is_dead =
            |host: &Host| matches!(host.state, State::Closed | State::TimeWait | State::Listen);
        let has_ended =
            a.was_reset || b.was_reset || a.state == State::TimeWait || b.state == State::TimeWait;
        if is_dead(a) && is_dead(b) && has_ended && !self.has_early_reset {
            assert!(!is_kept, "a dead connection in {:?}\n{}", self.class(), self.history());
        }
    }
}
