//! The evaluation of rules in columns: rule after rule, each for all undecided lanes, so that the
//! lookups in a table form one batch.

use stoa_engine::VECTOR;
use stoa_engine::vector::LaneSet;

use super::header::{Family, Header};
use super::{ANY, Match, PolicyAction, Rule};
use crate::shared::SpecialNextHop;

/// The outcome of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Undecided; at the end: no table has a route.
    Open,
    /// Rules do not apply.
    Excluded,
    /// The route of this value.
    Route(u32),
    /// Dropped by a rule.
    Special(SpecialNextHop),
}

/// The tables that rules refer to.
pub(super) trait Tables<K> {
    /// Looks up addresses in the table of a VRF; 0: no route, or no such table.
    fn look_up(&self, vrf: u32, suppress_default: bool, keys: &[K], values: &mut [u32]);
    /// Whether a value is a usable route; a blackhole is one.
    fn is_route(&self, value: u32) -> bool;
}

/// The lanes of a vector with their header fields.
pub(super) struct Columns<K> {
    source: [K; VECTOR],
    destination: [K; VECTOR],
    class: [u8; VECTOR],
    protocol: [u16; VECTOR],
    source_port: [u16; VECTOR],
    destination_port: [u16; VECTOR],
    interface: [u32; VECTOR],
    length: [u16; VECTOR],
    /// The rule that each lane continues with.
    rule: [u16; VECTOR],
    pub(super) outcome: [Outcome; VECTOR],
    /// The undecided lanes, and their number.
    open: [u16; VECTOR],
    open_count: usize,
    /// The lanes that match the current rule, with the keys and values of the lookup.
    hit: [u16; VECTOR],
    keys: [K; VECTOR],
    values: [u32; VECTOR],
}

impl<K: Family> Columns<K> {
    /// Without lanes.
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

    /// Sets the undecided lanes, which were put before.
    pub(super) fn open(&mut self, lanes: &LaneSet) {
        self.open_count = 0;
        for (place, lane) in self.open.iter_mut().zip(lanes.iter()) {
            *place = lane as u16;
            self.open_count += 1;
        }
    }

    /// Sets the fields of a lane. `bytes` is the length of the packet.
    pub(super) fn put(&mut self, lane: usize, header: &Header<K>, interface: u32, bytes: u16) {
        self.source[lane] = header.source;
        self.destination[lane] = header.destination;
        self.class[lane] = header.class;
        self.protocol[lane] = header.protocol;
        (self.source_port[lane], self.destination_port[lane]) = header.ports;
        (self.interface[lane], self.length[lane]) = (interface, bytes);
        self.rule[lane] = 0;
        self.outcome[lane] = Outcome::Open;
    }

    /// The destinations of the first lanes.
    pub(super) fn destinations(&self, lanes: usize) -> &[K] {
        &self.destination[..lanes]
    }

    /// Excludes lanes from the rules.
    pub(super) fn exclude(&mut self, is_excluded: impl Fn(usize) -> bool) {
        for at in 0..self.open_count {
            let lane = usize::from(self.open[at]);
            if is_excluded(lane) {
                self.outcome[lane] = Outcome::Excluded;
            }
        }
        self.close();
    }

    /// Applies the rules to the undecided lanes and sets their outcomes. `own` are their routes in the table of
    /// their VRF, which is not looked up again.
    pub(super) fn walk(
        &mut self,
        rules: &[Rule<K>],
        worker: usize,
        tables: &impl Tables<K>,
        own: (u32, &[u32; VECTOR]),
    ) {
        for (index, rule) in rules.iter().enumerate() {
            if self.open_count == 0 {
                return;
            }
            let hits = self.select(&rule.of, index as u16);
            if hits == 0 {
                continue;
            }
            let (mut packets, mut bytes) = (0, 0);
            if let PolicyAction::Table { vrf, suppress_default } = rule.action {
                self.look_up(hits, (vrf, suppress_default), tables, own);
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

    /// The routes of the lanes that match a rule.
    fn look_up(
        &mut self,
        hits: usize,
        (vrf, suppress_default): (u32, bool),
        tables: &impl Tables<K>,
        (own_vrf, own): (u32, &[u32; VECTOR]),
    ) {
        let lanes = self.hit[..hits].iter().map(|lane| usize::from(*lane));
        if vrf == own_vrf && !suppress_default {
            self.values.iter_mut().zip(lanes).for_each(|(value, lane)| *value = own[lane]);
            return;
        }
        self.keys.iter_mut().zip(lanes).for_each(|(key, lane)| *key = self.destination[lane]);
        tables.look_up(vrf, suppress_default, &self.keys[..hits], &mut self.values[..hits]);
    }

    /// Selects the lanes that match a rule, without a branch per lane; returns their number.
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

    /// Removes the decided lanes from the open ones.
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
