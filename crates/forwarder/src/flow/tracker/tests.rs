//! The tracker against a naive model with a clock, and flows that give way.

mod limited;
mod pressure;
mod steady;

use std::collections::HashMap;

use proptest::prelude::*;
use stoa_engine::quiescence::Quiescence;
use stoa_engine::vector::flags;
use stoa_tables::flow_hash::Flow;
use stoa_tables::lpm::Kernel;

use super::*;
use crate::flow::fields::{Kind, Place};

const ADMITTED: Admission =
    Admission { epoch: 1, rule: 7, profile: 0, is_confirmed: true, received: 0 };

fn flows(capacity: u32) -> (Arc<Flows>, FlowTracker) {
    // Its only worker is offline: a grace period ends at once.
    let quiescence = Quiescence::new(1);
    let flows = Flows::new(
        crate::flow::flows::Sizes { ip4: capacity, ip6: capacity, ..Default::default() },
        Kernel::Bits,
        1,
        &quiescence,
    )
    .unwrap();
    let flows = Arc::new(flows);
    let tracker = flows.tracker(0).unwrap();
    assert!(flows.tracker(0).is_none());
    (flows, tracker)
}

/// A packet of UDP or of GRE, without its bytes, which the tracker does not read.
fn packet(is_udp: bool, is_ip4: bool, length: u16) -> Seen<'static> {
    let family = if is_ip4 { 0 } else { Kind::IP6 };
    let kind = Kind(u32::from(if is_udp { protocol::UDP } else { 47_u8 }) | family);
    Seen { bytes: &[], kind, place: Place(length.into()) }
}

/// One of a few keys.
fn key(number: u8, is_ip4: bool) -> FlowKey {
    let protocol = if number.is_multiple_of(2) { protocol::UDP } else { 47 };
    let (source_port, destination_port) =
        if protocol == protocol::UDP { (1000 + u16::from(number), 53) } else { (0, 0) };
    let (source, destination) = (10 + u32::from(number), 9);
    if is_ip4 {
        return FlowKey::ip4(
            Flow { source, destination, source_port, destination_port, protocol },
            0,
        );
    }
    let (source, destination) = (u128::from(source) << 64, u128::from(destination));
    FlowKey::ip6(Flow { source, destination, source_port, destination_port, protocol }, 0)
}

#[derive(Clone, Debug)]
enum Step {
    Packet { key: u8, is_ip4: bool, is_reply: bool, length: u16 },
    Pass(u32),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let packet = (0..12_u8, any::<bool>(), any::<bool>(), 20..1500_u16)
        .prop_map(|(key, is_ip4, is_reply, length)| Step::Packet { key, is_ip4, is_reply, length });
    let step = prop_oneof![
        20 => packet,
        4 => prop_oneof![1..50_u32, 200..400_u32].prop_map(Step::Pass),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 1..150)
}

#[derive(Clone, Copy, Debug, Default)]
struct Expected {
    seen: u32,
    packets: [u64; 2],
    bytes: [u64; 2],
}

proptest! {
    #[test]
    fn flows_live_as_long_as_packets_come(steps in steps()) {
        let (flows, mut tracker) = flows(64);
        let mut model: HashMap<(u8, bool), Expected> = HashMap::new();
        let mut tick = flows.now(stoa_engine::clock::tsc()).tick;
        for step in steps {
            let now = Now { tick, ms: tick.wrapping_mul(1000) };
            match step {
                Step::Packet { key: number, is_ip4, is_reply, length } => {
                    let side = tracker.of(is_ip4);
                    let first = key(number, is_ip4);
                    let key = if is_reply { first.reversed() } else { first };
                    let packet = packet(number.is_multiple_of(2), is_ip4, length);
                    let known = model.get_mut(&(number, is_ip4));
                    let found = side.find(&key);
                    prop_assert_eq!(found.is_some(), known.is_some());
                    match (found, known) {
                        (Some(found), Some(known)) => {
                            let direction = found.direction();
                            prop_assert_eq!(direction == Direction::Reply, is_reply);
                            let id = found.id().unwrap();
                            let followed = side.follow((id, direction), &packet, (now, 1));
                            prop_assert_eq!(followed, Followed::Pass { is_admitted: true });
                            known.seen = tick;
                            known.packets[direction as usize] += 1;
                            known.bytes[direction as usize] += u64::from(length);
                            let flow = side.reader().entry(id);
                            let counted = [Direction::Original, Direction::Reply]
                                .map(|direction| flow.counters(direction));
                            prop_assert_eq!(counted.map(|it| it.packets), known.packets);
                            prop_assert_eq!(counted.map(|it| it.bytes), known.bytes);
                        }
                        // A reply begins no flow here.
                        _ if is_reply => {}
                        _ => {
                            prop_assert_eq!(side.create(key, &packet, ADMITTED, now), Opened::New);
                            let bytes = [length.into(), 0];
                            let created = Expected { seen: tick, packets: [1, 0], bytes };
                            model.insert((number, is_ip4), created);
                        }
                    }
                }
                Step::Pass(ticks) => {
                    tick = tick.wrapping_add(ticks);
                    while tracker.maintain(Now { tick, ms: 0 }) {}
                    model.retain(|_, flow| tick.wrapping_sub(flow.seen) < 300);
                }
                Step::Clear => {
                    flows.clear();
                    while tracker.maintain(now) {}
                    model.clear();
                }
            }
            let live = flows.live(true) + flows.live(false);
            prop_assert_eq!(live as usize, model.len());
        }
    }
}

#[test]
fn flows_that_nobody_has_answered_give_way_to_new_ones() {
    let (flows, mut tracker) = flows(16);
    let now = Now { tick: flows.now(stoa_engine::clock::tsc()).tick, ms: 0 };
    let side = tracker.of(true);
    for number in 0..200 {
        side.begin();
        let opened = side.create(key(number, true), &packet(true, true, 100), ADMITTED, now);
        assert_eq!(opened, Opened::New, "{number}");
    }
    let sums = flows.sums(true);
    assert_eq!((sums.created, sums.refused), (200, 0));
    assert_eq!(sums.evicted + flows.live(true), 200);
    assert!((8..=16).contains(&flows.live(true)), "{}", flows.live(true));
    assert_eq!(flows.live(false), 0);
    assert!(side.find(&key(199, true)).is_some());
}

#[test]
fn a_suspended_flow_is_admitted_again() {
    let (flows, mut tracker) = flows(16);
    let now = Now { tick: flows.now(stoa_engine::clock::tsc()).tick, ms: 0 };
    let side = tracker.of(false);
    let (key, packet) = (key(2, false), packet(true, false, 100));
    assert_eq!(side.create(key, &packet, ADMITTED, now), Opened::New);
    let id = side.find(&key).and_then(Match::id).unwrap();
    side.suspend(id);
    assert_ne!(side.reader().entry(id).flags() & SUSPENDED, 0);
    let anew = Admission { epoch: 2, rule: 9, profile: 3, ..ADMITTED };
    side.judge(id, anew, now);
    let flow = side.reader().entry(id);
    assert_eq!(profile_of(flow.class()), 3);
    assert_eq!((flow.flags() & SUSPENDED, flow.epoch(), flow.rule()), (0, 2, 9));
    side.remove(id);
    assert_eq!((side.find(&key), flows.live(false)), (None, 0));
}

#[test]
fn a_flow_waits_for_the_output() {
    let (flows, mut tracker) = flows(16);
    let now = Now { tick: flows.now(stoa_engine::clock::tsc()).tick, ms: 0 };
    let side = tracker.of(true);
    let (key, packet) = (key(2, true), packet(true, true, 100));
    let pending = Admission { is_confirmed: false, ..ADMITTED };
    assert_eq!(side.create(key, &packet, pending, now), Opened::New);
    let found = side.find(&key).unwrap();
    let id = found.id().unwrap();
    let original =
        |side: &mut Side, epoch| side.follow((id, Direction::Original), &packet, (now, epoch));
    assert_eq!(original(side, 1), Followed::Pass { is_admitted: false });
    assert!(!side.admits_replies(id));
    side.pass_output(found, 1, now);
    assert!(side.admits_replies(id));
    assert_eq!(original(side, 1), Followed::Pass { is_admitted: true });
    // Of the next epoch: replies pass, and the other direction waits again.
    assert_eq!(original(side, 2), Followed::Pass { is_admitted: false });
    side.judge(id, Admission { epoch: 2, ..pending }, now);
    assert!(side.admits_replies(id));
    assert_eq!(original(side, 2), Followed::Pass { is_admitted: false });
    side.pass_output(found, 2, now);
    assert_eq!(original(side, 2), Followed::Pass { is_admitted: true });
    // The output was left over, and keeps nothing.
    side.pass_output(found, 3, now);
    assert!(!side.admits_replies(id));
}
