//! Packets that change nothing of their flow but counters and time.

use stoa_tables::flow_table::{FlowStates, LANES};

use super::*;

proptest! {
    #[test]
    fn a_run_counts_as_its_packets(
        is_ip4 in any::<bool>(),
        runs in prop::collection::vec(
            (any::<bool>(), prop::collection::vec(20..1500_u16, 1..20)),
            1..20,
        ),
    ) {
        let mut all = [false, true].map(|by_run| (flows(64).1, by_run));
        let (mut tick, first) = (all[0].0.of(is_ip4).flows().now(stoa_engine::clock::tsc()).tick, key(0, is_ip4));
        for (tracker, _) in &mut all {
            let now = Now { tick, ms: 0 };
            let created = tracker.of(is_ip4).create(first, &packet(true, is_ip4, 100), ADMITTED, now);
            prop_assert_eq!(created, Opened::New);
        }
        for (is_reply, lengths) in &runs {
            tick = tick.wrapping_add(1);
            let now = Now { tick, ms: 0 };
            let key = if *is_reply { first.reversed() } else { first };
            let counted = all.each_mut().map(|(tracker, by_run)| {
                let side = tracker.of(is_ip4);
                let found = side.find(&key).unwrap();
                let (id, direction) = (found.id().unwrap(), found.direction());
                let parts: Vec<_> = lengths.chunks(if *by_run { lengths.len() } else { 1 }).collect();
                for part in parts {
                    let bytes = part.iter().map(|length| u32::from(*length)).sum();
                    let steady = side.steady(Steady { now, epoch: 1, is_alone: true });
                    let packets = (part.len() as u32, bytes);
                    let flags = steady.pass(found, packet(true, is_ip4, 20).kind, packets);
                    if flags != 0 {
                        assert_eq!(flags, flags::TRACKED | flags::ADMITTED);
                        continue;
                    }
                    for length in part {
                        let packet = packet(true, is_ip4, *length);
                        let followed = side.follow((id, direction), &packet, (now, 1));
                        assert_eq!(followed, Followed::Pass { is_admitted: true });
                    }
                }
                let flow = side.reader().entry(id);
                (flow.counters(direction), flow.seen(), flow.flags(), flow.tcp())
            });
            prop_assert_eq!(counted[0], counted[1]);
            prop_assert_eq!(counted[0].1, tick);
        }
    }
}

/// Packets of a vector: the number of a flow, whether it is a reply, and its length.
fn vector() -> impl Strategy<Value = Vec<(u8, bool, u16)>> {
    prop::collection::vec((0..12_u8, any::<bool>(), 20..1500_u16), 1..=256)
}

proptest! {
    #[test]
    fn a_vector_passes_as_its_packets_do(
        is_ip4 in any::<bool>(),
        is_alone in any::<bool>(),
        vectors in prop::collection::vec(vector(), 1..4),
        refused in 0..12_u8,
    ) {
        let mut all = [false, true].map(|at_once| (flows(64).1, at_once));
        let mut tick = all[0].0.of(is_ip4).flows().now(stoa_engine::clock::tsc()).tick;
        for (tracker, _) in &mut all {
            let side = tracker.of(is_ip4);
            for number in 0..10 {
                let packet = packet(number % 2 == 0, is_ip4, 100);
                let of = Admission { epoch: 1 + u16::from(number == refused), ..ADMITTED };
                let created = side.create(key(number, is_ip4), &packet, of, Now { tick, ms: 0 });
                prop_assert_eq!(created, Opened::New);
                if number % 3 == 0 {
                    let found = side.find(&key(number, is_ip4).reversed()).unwrap();
                    let of = (Now { tick, ms: 0 }, 1);
                    side.follow((found.id().unwrap(), Direction::Reply), &packet, of);
                }
            }
        }
        for lanes in vectors {
            tick = tick.wrapping_add(1);
            let seen = all.each_mut().map(|(tracker, at_once)| {
                let side = tracker.of(is_ip4);
                let mut found = [Match::NONE; LANES];
                let [mut kinds, mut places] = [[0; LANES]; 2];
                for (lane, (number, is_reply, length)) in lanes.iter().enumerate() {
                    let first = key(*number, is_ip4);
                    let key = if *is_reply { first.reversed() } else { first };
                    found[lane] = side.find(&key).unwrap_or(Match::NONE);
                    let packet = packet(number % 2 == 0, is_ip4, *length);
                    (kinds[lane], places[lane]) = (packet.kind.0, packet.place.0);
                }
                let flows = side.steady(Steady { now: Now { tick, ms: 0 }, epoch: 1, is_alone });
                let (mut flags, count) = ([0; LANES], lanes.len());
                if *at_once {
                    let of = Lanes { found: &found, kinds: &kinds, places: &places, count };
                    flows.pass_all(of, &mut FlowStates::default(), &mut flags);
                } else {
                    for lane in 0..count {
                        let packets = (1, u32::from(Place(places[lane]).length()));
                        flags[lane] = flows.pass(found[lane], Kind(kinds[lane]), packets);
                    }
                }
                let counted: Vec<_> = (0..10).map(|number| {
                    let id = side.find(&key(number, is_ip4)).unwrap().id().unwrap();
                    let flow = side.reader().entry(id);
                    let both = [Direction::Original, Direction::Reply];
                    (both.map(|direction| flow.counters(direction)), flow.seen())
                }).collect();
                (flags, counted)
            });
            prop_assert_eq!(&seen[0], &seen[1]);
        }
    }
}
