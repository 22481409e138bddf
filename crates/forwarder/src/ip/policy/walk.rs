//! The walk of packets through rules, in columns: rule after rule, each for all lanes that nothing
//! was decided about yet, so that look-ups in its table are one batch.

use std::ops::Range;

use stoa_engine::VECTOR;

use super::header::{Family, Header};
use super::{ANY, Match, PolicyAction, Rule};
use crate::shared::SpecialNextHop;

/// What was decided about a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing so far; in the end: no table that was looked at has a route.
    Open,
    /// Rules do not say anything about it: it goes its way.
    Excluded,
    /// It takes the route of this value.
    Route(u32),
    /// It is dropped.
    Special(SpecialNextHop),
}

/// The tables that rules name.
pub(super) trait Tables<K> {
    /// Looks addresses up in the table of a VRF; 0: there is no route, or no such table.
    fn look_up(&self, vrf: u32, beyond_default: bool, keys: &[K], values: &mut [u32]);
    /// Whether a route of this value leads anywhere, were it into a blackhole.
    fn is_route(&self, value: u32) -> bool;
}

/// The lanes of a vector as rules see them.
pub(super) struct Columns<K> {
    source: [K; VECTOR],
    destination: [K; VECTOR],
    class: [u8; VECTOR],
    protocol: [u16; VECTOR],
    source_port: [u16; VECTOR],
    destination_port: [u16; VECTOR],
    interface: [u32; VECTOR],
    length: [u16; VECTOR],
    /// The rule that each goes on with.
    rule: [u16; VECTOR],
    pub(super) outcome: [Outcome; VECTOR],
    /// Lanes that nothing was decided about, and how many.
    open: [u16; VECTOR],
    open_count: usize,
    /// Lanes that the rule at hand is about, with what is looked up for them.
    hit: [u16; VECTOR],
    keys: [K; VECTOR],
    values: [u32; VECTOR],
}

impl<K: Family> Columns<K> {
    /// Empty ones.
    pub(super) fn new() -> Self {
        Self {
            source: [K::default(); VECTOR],
            destination: [K::default(); VECTOR],
            class: [0; VECTOR],
            protocol: [0; VECTOR],
            source_port: [0; VECTOR],
            destination_port: [0; VECTOR],
            interface: [0; VECTOR],
            length: [0; VECTOR],
            rule: [0; VECTOR],
            outcome: [Outcome::Open; VECTOR],
            open: [0; VECTOR],
            open_count: 0,
            hit: [0; VECTOR],
            keys: [K::default(); VECTOR],
            values: [0; VECTOR],
        }
    }

    /// Begins anew, without lanes.
    pub(super) fn clear(&mut self) {
        self.open_count = 0;
    }

    /// Takes a lane in that no lane came behind of yet. `bytes` are those of the packet.
    pub(super) fn put(&mut self, lane: usize, header: &Header<K>, interface: u32, bytes: u16) {
        self.source[lane] = header.source;
        self.destination[lane] = header.destination;
        self.class[lane] = header.class;
        self.protocol[lane] = header.protocol;
        (self.source_port[lane], self.destination_port[lane]) = header.ports;
        (self.interface[lane], self.length[lane]) = (interface, bytes);
        self.rule[lane] = 0;
        self.outcome[lane] = Outcome::Open;
        if let Some(place) = self.open.get_mut(self.open_count) {
            *place = lane as u16;
            self.open_count += 1;
        }
    }

    /// The destinations of lanes.
    pub(super) fn destinations(&self, lanes: Range<usize>) -> &[K] {
        &self.destination[lanes]
    }

    /// Leaves lanes out that are ours whatever rules say, so that they go their way.
    pub(super) fn exclude(&mut self, is_ours: impl Fn(usize) -> bool) {
        for at in 0..self.open_count {
            let lane = usize::from(self.open[at]);
            if is_ours(lane) {
                self.outcome[lane] = Outcome::Excluded;
            }
        }
        self.close();
    }

    /// Takes lanes through the rules: their outcomes.
    pub(super) fn walk(&mut self, rules: &[Rule<K>], worker: usize, tables: &impl Tables<K>) {
        for (index, rule) in rules.iter().enumerate() {
            if self.open_count == 0 {
                return;
            }
            let hits = self.select(&rule.of, index as u16);
            if hits == 0 {
                continue;
            }
            let (mut packets, mut bytes) = (0, 0);
            if let PolicyAction::Table { vrf, beyond_default } = rule.action {
                for (key, lane) in self.keys.iter_mut().zip(&self.hit[..hits]) {
                    *key = self.destination[usize::from(*lane)];
                }
                let (keys, values) = (&self.keys[..hits], &mut self.values[..hits]);
                tables.look_up(vrf, beyond_default, keys, values);
            }
            for at in 0..hits {
                let lane = usize::from(self.hit[at]);
                match rule.action {
                    PolicyAction::Table { .. } if !tables.is_route(self.values[at]) => continue,
                    PolicyAction::Table { .. } => {
                        self.outcome[lane] = Outcome::Route(self.values[at])
                    }
                    PolicyAction::Special(special) => {
                        self.outcome[lane] = Outcome::Special(special)
                    }
                    PolicyAction::Goto(to) => {
                        self.rule[lane] = to.min(usize::from(u16::MAX)) as u16
                    }
                }
                packets += 1;
                bytes += u64::from(self.length[lane]);
            }
            rule.hits.add(worker, packets, bytes);
            if packets > 0 && !matches!(rule.action, PolicyAction::Goto(_)) {
                self.close();
            }
        }
    }

    /// Finds the lanes that a rule is about: how many. Without a branch on any of them.
    fn select(&mut self, of: &Match<K>, index: u16) -> usize {
        let mut count = 0;
        for at in 0..self.open_count {
            let lane = self.open[at];
            self.hit[count] = lane;
            let lane = usize::from(lane);
            count += usize::from((self.rule[lane] <= index) & self.holds(of, lane));
        }
        count
    }

    #[inline(always)]
    fn holds(&self, of: &Match<K>, lane: usize) -> bool {
        let within = |port: u16, (first, last): (u16, u16)| (first <= port) & (port <= last);
        (self.source[lane] & of.source.1 == of.source.0)
            & (self.destination[lane] & of.destination.1 == of.destination.0)
            & ((of.interface == ANY) | (of.interface == self.interface[lane]))
            & (self.class[lane] & of.class.1 == of.class.0)
            & (self.protocol[lane] & of.protocol.1 == of.protocol.0)
            & within(self.source_port[lane], of.source_ports)
            & within(self.destination_port[lane], of.destination_ports)
    }

    /// Leaves the lanes out that something was decided about.
    fn close(&mut self) {
        let mut left = 0;
        for at in 0..self.open_count {
            let lane = self.open[at];
            self.open[left] = lane;
            left += usize::from(self.outcome[usize::from(lane)] == Outcome::Open);
        }
        self.open_count = left;
    }
}
