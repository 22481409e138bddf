//! Limits of flows: whatever ends a flow gives back what that holds, and changes of limits keep the counts right.

use std::collections::BTreeMap;

use stoa_wire::checksum::Pseudo;
use stoa_wire::tcp::{self, flag};

use super::*;
use crate::acl::zones::FIRST;
use crate::flow::fields::packet::of_ip4;
use crate::flow::limits::{Limit, Limits, Measure, Of};
use crate::flow::profiles::without_profile;

const CAPACITY: u32 = 48;
const SERVER: u32 = 0xc000_0201;

/// A key of TCP or UDP from one of a few hosts.
fn of_host(host: u32, port: u16, is_tcp: bool) -> FlowKey {
    let protocol = if is_tcp { protocol::TCP } else { protocol::UDP };
    let (source, destination) = (0x0a00_0000 + host, SERVER);
    let (source_port, destination_port) = (port, 80);
    FlowKey::ip4(Flow { source, destination, source_port, destination_port, protocol }, 0)
}

/// A packet of a connection, from the client or from the server.
fn segment(host: u32, port: u16, flags: u8, [sequence, acknowledgement]: [u32; 2]) -> Vec<u8> {
    let (client, is_back) = (0x0a00_0000 + host, flags == flag::SYN | flag::ACK);
    let (from, to) = if is_back { (SERVER, client) } else { (client, SERVER) };
    let (source_port, destination_port) = if is_back { (80, port) } else { (port, 80) };
    let window = 1000;
    let builder = tcp::Builder {
        source_port,
        destination_port,
        sequence,
        acknowledgement,
        flags,
        window,
        ..tcp::Builder::default()
    };
    let mut bytes = vec![0; 40];
    (bytes[0], bytes[3], bytes[8], bytes[9]) = (0x45, 40, 64, protocol::TCP);
    bytes[12..16].copy_from_slice(&from.to_be_bytes());
    bytes[16..20].copy_from_slice(&to.to_be_bytes());
    let pseudo = Pseudo::Ip4 { source: from.into(), destination: to.into() };
    builder.build(&mut bytes[20..], &pseudo, &[]).unwrap();
    bytes
}

fn seen(bytes: &[u8]) -> Seen<'_> {
    let fields = of_ip4(bytes);
    Seen { bytes, kind: fields.kind, place: fields.place }
}

struct Limited {
    flows: Arc<Flows>,
    tracker: FlowTracker,
    now: Now,
    limits: Limits,
}

impl Limited {
    fn new(limits: &Limits) -> Self {
        let (flows, tracker) = flows(CAPACITY);
        for interface in 0..2 {
            flows.limits().set_zone_of(interface, FIRST + interface as u8);
        }
        let now = Now { tick: flows.now(stoa_engine::clock::tsc()).tick, ms: 0 };
        let mut all = Self { flows, tracker, now, limits: Limits::default() };
        all.set(limits);
        all
    }

    fn set(&mut self, limits: &Limits) {
        let capacities = [true, false].map(|is_ip4| self.flows.capacity(is_ip4));
        assert!(self.flows.limits().prepare(limits, capacities));
        self.flows.limits().set(limits);
        self.limits = limits.clone();
        while self.tracker.maintain(self.now) {}
    }

    fn create(&mut self, (host, port): (u32, u16), is_tcp: bool, received: u32) -> Opened {
        let syn = segment(host, port, flag::SYN, [100, 0]);
        let packet = if is_tcp { seen(&syn) } else { packet(true, true, 100) };
        let side = self.tracker.of(true);
        side.begin();
        let admission = Admission { received, ..ADMITTED };
        side.create(of_host(host, port, is_tcp), &packet, admission, self.now)
    }

    /// The server answers a SYN, and the client that.
    fn open(&mut self, host: u32, port: u16) {
        let all = [
            (segment(host, port, flag::SYN | flag::ACK, [500, 101]), Direction::Reply),
            (segment(host, port, flag::ACK, [101, 501]), Direction::Original),
        ];
        let side = self.tracker.of(true);
        let found = side.find(&of_host(host, port, true)).and_then(Match::id);
        for (bytes, direction) in all {
            if let Some(id) = found {
                side.follow((id, direction), &seen(&bytes), (self.now, 1));
            }
        }
    }

    /// What there is for each of those that have limits, live and half open.
    fn expected(&self) -> BTreeMap<(Of, u32), [u32; 2]> {
        let mut all = BTreeMap::new();
        let reader = self.flows.reader(true);
        let ids = 0..self.flows.capacity(true);
        for flow in ids.map(|id| reader.entry(id)).filter(|flow| flow.is_live()) {
            let stoa_tables::flow_table::Tuple::Ip4(it) = flow.key().tuple else { panic!("IPv4") };
            let zone = (flow.zone_pair() >> 8) as u8;
            let length = u32::from(self.limits.lengths[0]);
            let of = [
                (Of::Host, it.source),
                (Of::Prefix, it.source.checked_shr(32 - length).unwrap_or(0)),
                (Of::Zone(zone), 0),
                (Of::Vrf(0), 0),
            ];
            let is_half_open = without_profile(flow.class()) == Class::TcpOpening as u8;
            for of in of.into_iter().filter(|of| self.limits.all().any(|it| it.0 == of.0)) {
                let [live, half_open] = all.entry(of).or_insert([0; 2]);
                *live += 1;
                *half_open += u32::from(is_half_open);
            }
        }
        all
    }

    #[track_caller]
    fn check(&self) {
        let (limits, expected) = (self.flows.limits(), self.expected());
        let most = |of: Of| {
            let some = expected.iter().filter(|(key, _)| key.0 == of).map(|(_, counts)| *counts);
            some.fold([0; 2], |[a, b], [live, half]| [u32::max(a, live), u32::max(b, half)])
        };
        for of in [Of::Host, Of::Prefix] {
            assert_eq!(limits.fullest(of, 0, self.now.tick).0[..2], most(of), "{of:?}");
        }
        for of in [Of::Zone(FIRST), Of::Zone(FIRST + 1), Of::Vrf(0)] {
            assert_eq!(limits.now(of, self.now.tick).unwrap()[..2], most(of), "{of:?}");
        }
    }
}

fn limit(live: u32, half_open: u32) -> Limit {
    [Some(live), Some(half_open), None]
}

#[derive(Clone, Debug)]
enum Step {
    Create { host: u32, port: u16, is_tcp: bool, received: u32 },
    Open { host: u32, port: u16 },
    Replace { host: u32, port: u16 },
    Pass(u32),
    Clear,
    Set(Limits),
}

fn any_limits() -> impl Strategy<Value = Limits> {
    let one = || {
        let bound = || prop::option::of(0..12_u32);
        (bound(), bound()).prop_map(|(live, half_open)| [live, half_open, None])
    };
    let lengths = prop::sample::select(vec![[24, 56], [30, 60], [32, 64]]);
    let zones = prop::collection::btree_map(FIRST..FIRST + 2, one(), 0..3);
    let vrfs = prop::collection::btree_map(0..1_u8, one(), 0..2);
    (one(), one(), lengths, zones, vrfs).prop_map(|(host, prefix, lengths, zones, vrfs)| Limits {
        host,
        prefix,
        lengths,
        zones,
        vrfs,
        ..Limits::default()
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (host, port) = (|| 0..10_u32, || 0..6_u16);
    let step = prop_oneof![
        20 => (host(), port(), any::<bool>(), 0..3_u32)
            .prop_map(|(host, port, is_tcp, received)| Step::Create { host, port, is_tcp, received }),
        5 => (host(), port()).prop_map(|(host, port)| Step::Open { host, port }),
        3 => (host(), port()).prop_map(|(host, port)| Step::Replace { host, port }),
        3 => prop_oneof![1..50_u32, 200..400_u32].prop_map(Step::Pass),
        1 => Just(Step::Clear),
        2 => any_limits().prop_map(Step::Set),
    ];
    prop::collection::vec(step, 1..150)
}

proptest! {
    #[test]
    fn counts_follow_flows_whatever_happens(first in any_limits(), steps in steps()) {
        let mut all = Limited::new(&first);
        for step in steps {
            match step {
                Step::Create { host, port, is_tcp, received } => {
                    let before = all.expected();
                    let opened = all.create((host, port), is_tcp, received);
                    if let Opened::Drop(reason) = opened
                        && reason != Drop::FlowTableFull
                    {
                        // Nothing was created, and none has given way.
                        prop_assert_eq!(all.expected(), before);
                        let reasons = [Of::Host, Of::Prefix, Of::Zone(0), Of::Vrf(0)];
                        prop_assert!(reasons.map(Of::reason).contains(&reason));
                    }
                }
                Step::Open { host, port } => all.open(host, port),
                Step::Replace { host, port } => {
                    // As address translation does it.
                    let side = all.tracker.of(true);
                    let id = side.find(&of_host(host, port, true)).and_then(Match::id);
                    if let Some(taken) = id.and_then(|id| side.take(id)) {
                        side.give_up(&taken);
                    }
                }
                Step::Pass(ticks) => {
                    all.now.tick = all.now.tick.wrapping_add(ticks);
                    while all.tracker.maintain(all.now) {}
                }
                Step::Clear => {
                    all.flows.clear();
                    while all.tracker.maintain(all.now) {}
                }
                Step::Set(limits) => all.set(&limits),
            }
            all.check();
        }
        all.now.tick = all.now.tick.wrapping_add(8_000);
        while all.tracker.maintain(all.now) {}
        prop_assert_eq!(all.flows.live(true), 0);
        all.check();
    }
}

#[test]
fn flows_that_live_on_are_counted_by_new_limits() {
    let mut all = Limited::new(&Limits::default());
    for port in 0..6 {
        assert_eq!(all.create((port.into(), port), true, 0), Opened::New);
    }
    all.open(5, 5);
    let zones = [(FIRST, limit(7, 6))].into();
    let prefix = limit(100, 100);
    all.set(&Limits { prefix, zones, lengths: [24, 56], ..Limits::default() });
    all.check();
    let of_zone = Of::Zone(FIRST);
    assert_eq!(all.flows.limits().now(of_zone, 0).unwrap()[..2], [6, 5]);
    assert_eq!(all.create((6, 6), true, 0), Opened::New);
    let refused = Opened::Drop(Drop::FlowZoneLimit);
    assert_eq!(all.create((7, 7), false, 0), refused);
    assert_eq!(all.create((7, 7), false, 1), Opened::New, "of another zone");
    assert_eq!(all.create((8, 8), false, 2), Opened::New, "of none");
    assert!(matches!(all.create((3, 3), true, 0), Opened::Existing(_)));
    // A lower limit ends nothing.
    let zones = [(FIRST, limit(1, 1))].into();
    all.set(&Limits { zones, ..all.limits.clone() });
    assert_eq!(all.create((9, 9), false, 0), refused);
    assert_eq!(all.flows.live(true), 9);
    assert_eq!(all.flows.limits().refused(of_zone)[Measure::Live as usize], 2);
    all.check();
    all.set(&Limits::default());
    all.check();
    assert_eq!(all.create((9, 9), false, 0), Opened::New);
}

/// A flood that a limit refuses ends no flow of others.
#[test]
fn what_a_limit_refuses_takes_no_room() {
    let mut all = Limited::new(&Limits { host: limit(3, 3), ..Limits::default() });
    for host in 0..CAPACITY - 8 {
        assert_eq!(all.create((100 + host, 1), false, 0), Opened::New);
    }
    let live = all.flows.live(true);
    for port in 0..200 {
        all.create((1, port), false, 0);
    }
    let sums = all.flows.sums(true);
    assert_eq!((sums.source_limited, sums.evicted), (197, 0));
    assert_eq!(all.flows.live(true), live + 3);
    all.check();
}
