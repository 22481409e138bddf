//! Samples by a clock of the test.

use super::*;

fn interface(name: &str, is_port: bool, packets: u64) -> InterfaceSample {
    let counters =
        Counters { in_packets: packets, in_octets: 100 * packets, ..Counters::default() };
    InterfaceSample { name: name.into(), is_port, created_unix_s: 1, counters }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Rates of received packets; -1: a gap.
fn packets(points: &Points) -> Vec<i64> {
    points.iter().map(|it| it.map_or(-1, |rates| rates.in_packets.round() as i64)).collect()
}

/// A port with 5 packets per second and its VLAN with 2, sampled every ten seconds.
fn sampled(from: u64, to: u64) -> Traffic {
    let mut traffic = Traffic::default();
    for second in (from..=to).step_by(10) {
        let interfaces =
            vec![interface("lan", true, 5 * second), interface("lan.7", false, 2 * second)];
        traffic.record(at(second), Sample { interfaces, dropped: second });
    }
    traffic
}

#[test]
fn an_hour_is_kept_in_mean_rates() {
    let traffic = sampled(10, 5_000);
    let lan = traffic.interface("lan", 1).unwrap();
    assert_eq!(packets(&lan), [5; SAMPLES]);
    assert_eq!(lan[0].unwrap().in_bits, 4_000.0);
    assert_eq!(packets(&traffic.interface("lan.7", 6).unwrap()), [2; 60]);
    // A port counts the packets of its sub-interfaces, and drops are those of the router.
    let total = traffic.total(6);
    assert_eq!(packets(&total), [5; 60]);
    assert_eq!(total[59].unwrap().dropped, 1.0);
    assert!(traffic.interface("wan", 1).is_none());
}

#[test]
fn the_time_before_the_start_is_a_gap_and_a_missed_sample_is_none() {
    let mut traffic = sampled(10, 50);
    let lan = packets(&traffic.interface("lan", 1).unwrap());
    assert_eq!(lan[SAMPLES - 5..], [-1, 5, 5, 5, 5]);
    assert!(lan[..SAMPLES - 4].iter().all(|rate| *rate == -1));
    // The first minute is not over.
    assert_eq!(packets(&traffic.interface("lan", 6).unwrap())[58..], [-1, 5]);
    // The sample of second 60 is missing; the next one counts both intervals.
    let interfaces = vec![interface("lan", true, 5 * 70)];
    traffic.record(at(70), Sample { interfaces, dropped: 70 });
    let lan = packets(&traffic.interface("lan", 1).unwrap());
    assert_eq!(lan[SAMPLES - 3..], [5, 5, 5]);
    assert!(traffic.interface("lan.7", 1).is_none(), "a removed interface has no history");
    // Twice in one interval.
    traffic.record(at(71), Sample { interfaces: Vec::new(), dropped: 0 });
    assert_eq!(traffic.names(), ["lan"]);
}

#[test]
fn counters_that_begin_anew_are_gaps() {
    let mut traffic = sampled(10, 50);
    traffic.record(at(60), Sample { interfaces: vec![interface("lan", true, 3)], dropped: 0 });
    let recreated = InterfaceSample { created_unix_s: 2, ..interface("lan", true, 900) };
    traffic.record(at(70), Sample { interfaces: vec![recreated.clone()], dropped: 0 });
    let counters = Counters { in_packets: 1_000, ..recreated.counters };
    let next = InterfaceSample { counters, ..recreated };
    traffic.record(at(80), Sample { interfaces: vec![next], dropped: 5 });
    let lan = packets(&traffic.interface("lan", 1).unwrap());
    assert_eq!(lan[SAMPLES - 4..], [5, -1, -1, 10]);
    // The restart of the forwarder is a gap of the total, too.
    let total = packets(&traffic.total(1));
    assert_eq!(total[SAMPLES - 4..], [5, -1, 0, 10]);
}

#[test]
fn memory_is_bounded_and_idle_interfaces_need_none() {
    let mut traffic = Traffic::default();
    let names: Vec<String> = (0..2_000).map(|index| format!("if{index:04}")).collect();
    let sample = |second: u64, busy: usize| {
        let packets = |index: usize| if index < busy { second.min(100) } else { 7 };
        let interfaces = names.iter().enumerate();
        let interfaces = interfaces.map(|(index, name)| interface(name, true, packets(index)));
        Sample { interfaces: interfaces.collect(), dropped: 0 }
    };
    for second in [10, 20, 30] {
        traffic.record(at(second), sample(second, 1_500));
    }
    assert_eq!(traffic.kept, INTERFACES);
    assert_eq!(packets(&traffic.interface("if0000", 1).unwrap())[SAMPLES - 2..], [1, 1]);
    assert!(traffic.interface("if1400", 1).is_none(), "no place");
    let idle = packets(&traffic.interface("if1999", 1).unwrap());
    assert_eq!(idle[SAMPLES - 3..], [-1, 0, 0]);
    // After an hour without packets the places are free.
    for second in (40..4_000).step_by(10) {
        traffic.record(at(second), sample(second, 1_500));
    }
    assert_eq!(traffic.kept, 0);
}
