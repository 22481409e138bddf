//! Results and errors of the benchmark of the flow table.

use super::*;

fn small(flows: u32, is_ip6: bool, is_translated: bool) -> Workload {
    let (kernel, lookups) = (Kernel::detect(), LOOKUPS_MIN);
    Workload { flows, is_ip6, is_translated, kernel, rounds: 1, lookups }
}

#[test]
fn results_are_plausible_for_all_kinds() {
    for (is_ip6, is_translated, most) in
        [(false, false, 96.0), (false, true, 128.0), (true, false, 160.0), (true, true, 224.0)]
    {
        let figures = run(&small(1500, is_ip6, is_translated), |_| ()).unwrap();
        assert!(figures.cycles_per_lookup > 0.0 && figures.cycles_per_miss > 0.0);
        assert!(figures.creates_per_second > 0.0 && figures.cycles_per_create > 0.0);
        assert!(figures.bytes_per_flow <= most, "{figures:?}");
    }
    assert!(run(&small(1, false, false), |_| ()).is_ok());
}

#[test]
fn the_steady_state_has_as_many_flows_as_asked_for() {
    let workload = small(5000, false, false);
    let mut bench = Bench::new(&workload).unwrap();
    bench.fill(|_| ()).unwrap();
    let live = bench.owner.live();
    assert!((4800..5300).contains(&live), "{live}");
    let hits = bench.hits();
    let mut found = vec![Match::NONE; hits.len()];
    hits.look_up(&bench.reader, 0, &mut found);
    assert!(found.iter().all(|found| found.is_some()));
    let misses = bench.misses();
    misses.look_up(&bench.reader, 0, &mut found);
    assert!(found.iter().filter(|found| found.is_some()).count() < 10);
}

#[test]
fn what_is_out_of_range_is_named() {
    for wrong in [
        small(0, false, false),
        small(FLOWS_MAX + 1, false, false),
        Workload { rounds: 0, ..small(9, false, false) },
        Workload { rounds: 101, ..small(9, false, false) },
        Workload { lookups: LOOKUPS_MIN - 1, ..small(9, false, false) },
        Workload { lookups: LOOKUPS_MAX + 1, ..small(9, false, false) },
    ] {
        assert!(matches!(run(&wrong, |_| ()), Err(FlowTableError::Range(_))), "{wrong:?}");
    }
}
