//! Compares the evaluation in columns with a model that evaluates packet by packet.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use stoa_engine::VECTOR;
use stoa_engine::vector::LaneSet;

use super::header::Header;
use super::walk::{Columns, Outcome, Tables};
use super::{ANY, Hits, Match, PolicyAction, Rule};
use crate::shared::SpecialNextHop;

/// Routes by VRF: the first byte of the destination, and the value; 0 is the default route.
struct Fake(BTreeMap<u32, BTreeMap<u8, u32>>);

/// The value of an unusable route.
const DEAD: u32 = 7;

impl Fake {
    fn find(&self, vrf: u32, suppress_default: bool, key: u32) -> u32 {
        let Some(table) = self.0.get(&vrf) else { return 0 };
        let default = if suppress_default { None } else { table.get(&0) };
        *table.get(&((key >> 24) as u8)).or(default).unwrap_or(&0)
    }
}

impl Tables<u32> for Fake {
    fn look_up(&self, vrf: u32, suppress_default: bool, keys: &[u32], values: &mut [u32]) {
        for (key, value) in keys.iter().zip(values) {
            *value = self.find(vrf, suppress_default, *key);
        }
    }

    fn is_route(&self, value: u32) -> bool {
        value != 0 && value != DEAD
    }
}

/// The same without the table that the lanes were looked up in: nobody may look it up a second time.
struct WithoutOwn<'a>(&'a Fake);

/// The VRF of all lanes.
const OWN: u32 = 0;

impl Tables<u32> for WithoutOwn<'_> {
    fn look_up(&self, vrf: u32, suppress_default: bool, keys: &[u32], values: &mut [u32]) {
        assert!(vrf != OWN || suppress_default, "looked up twice");
        self.0.look_up(vrf, suppress_default, keys, values);
    }

    fn is_route(&self, value: u32) -> bool {
        self.0.is_route(value)
    }
}

type Packet = (Header<u32>, u32, u16);

/// The outcome of one packet and the rules that it hits, by ip-rule(8).
fn model(rules: &[Rule<u32>], tables: &Fake, packet: &Packet) -> (Outcome, Vec<usize>) {
    let (header, interface, _) = packet;
    let (mut at, mut did) = (0, Vec::new());
    while let Some(rule) = rules.get(at) {
        let of = &rule.of;
        let holds = [
            header.source & of.source.1 == of.source.0,
            header.destination & of.destination.1 == of.destination.0,
            of.interface == ANY || of.interface == *interface,
            header.class & of.class.1 == of.class.0,
            header.protocol & of.protocol.1 == of.protocol.0,
            (of.source_ports.0..=of.source_ports.1).contains(&header.ports.0),
            (of.destination_ports.0..=of.destination_ports.1).contains(&header.ports.1),
        ];
        let here = at;
        at += 1;
        if holds.contains(&false) {
            continue;
        }
        match rule.action {
            PolicyAction::Table { vrf, suppress_default } => {
                let value = tables.find(vrf, suppress_default, header.destination);
                if tables.is_route(value) {
                    did.push(here);
                    return (Outcome::Route(value), did);
                }
            }
            PolicyAction::Special(special) => {
                did.push(here);
                return (Outcome::Special(special), did);
            }
            PolicyAction::Goto(to) => {
                did.push(here);
                at = to;
            }
        }
    }
    (Outcome::Open, did)
}

fn masked(value: u32, length: u32) -> (u32, u32) {
    let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
    (value & mask, mask)
}

fn address() -> impl Strategy<Value = u32> {
    // Few addresses, so that rules and routes match often.
    (1..4_u32, 0..2_u32).prop_map(|(first, last)| first << 24 | last)
}

fn prefix() -> impl Strategy<Value = (u32, u32)> {
    (address(), prop_oneof![Just(0), Just(8), Just(32)]).prop_map(|(a, l)| masked(a, l))
}

fn ports() -> impl Strategy<Value = (u16, u16)> {
    prop_oneof![3 => Just((0, u16::MAX)), 1 => (1..4_u16, 0..3_u16).prop_map(|(a, n)| (a, a + n))]
}

fn rule(place: usize) -> impl Strategy<Value = Rule<u32>> {
    let action = prop_oneof![
        4 => (0..4_u32, any::<bool>()).prop_map(|(vrf, suppress_default)| PolicyAction::Table { vrf, suppress_default }),
        1 => prop_oneof![Just(SpecialNextHop::Blackhole), Just(SpecialNextHop::Prohibited)].prop_map(PolicyAction::Special),
        1 => (1..4_usize).prop_map(move |more| PolicyAction::Goto(place + more)),
    ];
    let interface = prop_oneof![2 => Just(ANY), 1 => 0..3_u32];
    let class = prop_oneof![2 => Just((0, 0)), 1 => (0..2_u8).prop_map(|v| (v << 2, 0xfc))];
    let protocol = prop_oneof![2 => Just((0, 0)), 1 => (16..18_u16).prop_map(|v| (v, u16::MAX))];
    let rest = (interface, class, protocol, ports(), ports());
    (prefix(), prefix(), rest, action).prop_map(|(source, destination, rest, action)| {
        let (interface, class, protocol, source_ports, destination_ports) = rest;
        let of = Match {
            source,
            destination,
            interface,
            class,
            protocol,
            source_ports,
            destination_ports,
        };
        Rule { of, action, hits: Arc::new(Hits::new(1)) }
    })
}

fn packet() -> impl Strategy<Value = Packet> {
    let header = (address(), address(), 0..8_u8, 16..18_u16, (0..5_u16, 0..5_u16));
    (header, 0..3_u32, 20..100_u16).prop_map(|(header, interface, length)| {
        let (source, destination, class, protocol, ports) = header;
        (Header { source, destination, class, protocol, ports }, interface, length)
    })
}

fn rules() -> impl Strategy<Value = Vec<Rule<u32>>> {
    (0..12_usize).prop_flat_map(|count| (0..count).map(rule).collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn columns_agree_with_the_model(
        rules in rules(),
        packets in prop::collection::vec(packet(), 1..=256),
        tables in prop::collection::btree_map(
            0..3_u32,
            prop::collection::btree_map(0..4_u8, 5..9_u32, 0..4),
            0..3,
        ),
    ) {
        let tables = Fake(tables);
        let mut columns = Box::new(Columns::new());
        for (lane, (header, interface, length)) in packets.iter().enumerate() {
            columns.put(lane, header, *interface, *length);
        }
        let mut own = [0; VECTOR];
        for (value, (header, ..)) in own.iter_mut().zip(&packets) {
            *value = tables.find(OWN, false, header.destination);
        }
        columns.open(&LaneSet::first_of(packets.len()));
        columns.walk(&rules, 0, &WithoutOwn(&tables), (OWN, &own));
        let mut sums = vec![(0, 0); rules.len()];
        for (lane, packet) in packets.iter().enumerate() {
            let (outcome, did) = model(&rules, &tables, packet);
            prop_assert_eq!(columns.outcome[lane], outcome, "lane {}", lane);
            for rule in did {
                sums[rule].0 += 1;
                sums[rule].1 += u64::from(packet.2);
            }
        }
        let counted: Vec<_> = rules.iter().map(|rule| rule.hits.sum()).collect();
        prop_assert_eq!(counted, sums);
    }
}

#[test]
fn rules_do_not_apply_to_local_lanes() {
    let mut columns = Box::new(Columns::<u32>::new());
    let action = PolicyAction::Special(SpecialNextHop::Blackhole);
    let rules = [Rule { of: Match::all(), action, hits: Arc::new(Hits::new(1)) }];
    for lane in 0..4 {
        columns.put(lane, &Header::default(), 0, 20);
    }
    let mut lanes = LaneSet::first_of(4);
    // The first one is of another VRF.
    lanes.remove(&std::array::from_fn(|byte| u8::from(byte == 0)));
    columns.open(&lanes);
    columns.exclude(|lane| lane == 2);
    columns.walk(&rules, 0, &Fake(BTreeMap::new()), (OWN, &[0; VECTOR]));
    let refused = Outcome::Special(SpecialNextHop::Blackhole);
    assert_eq!(columns.outcome[..4], [Outcome::Open, refused, Outcome::Excluded, refused]);
    assert_eq!(rules[0].hits.sum(), (2, 40));
}
