//! Packets that change nothing of their flow but counters and time.

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
