//! Results and errors of the table benchmark.

use std::io::Write;

use super::*;

fn small(keys: Keys) -> Workload {
    let prefixes = Source::Synthetic(2000);
    let kernel = Kernel::Scalar;
    Workload { prefixes, keys, kernel, values: 7, rounds: 1, lookups: LOOKUPS_MIN }
}

#[test]
fn results_are_plausible_for_all_keys() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"192.0.2.1\n2001:db8::1\n198.51.100.7\n").unwrap();
    let check = |figures: Result<Figures, TableError>| {
        let figures = figures.unwrap();
        assert_eq!(figures.routes, 2000);
        assert!(figures.mlps > 0.0 && figures.cycles_per_lookup > 0.0);
        assert!(figures.inserts_per_second > 0.0 && figures.deletes_per_second > 0.0);
        assert!(figures.bytes_per_route_all > figures.bytes_per_route);
        assert!(figures.redirect_us_median > 0.0 && figures.redirect_readers > 0);
        assert!(figures.redirect_us_most >= figures.redirect_us_median);
    };
    for keys in [Keys::Random, Keys::InTable, Keys::Zipf] {
        check(run::<u32>(&small(keys), |_| ()));
    }
    check(run::<u128>(&small(Keys::File(file.path().into())), |_| ()));
}

#[test]
fn finds_keys_in_the_table() {
    let routes: Vec<_> = prefixes::load::<u128>(&Source::Synthetic(500)).unwrap();
    let routes: Vec<_> = routes.into_iter().map(|(prefix, len)| (prefix, len, 5)).collect();
    let lpm = Changes::default().build(&routes).unwrap();
    for kind in [Keys::InTable, Keys::Zipf] {
        let keys = keys(&small(kind), &routes, &mut Random::new(1)).unwrap();
        assert!(keys.len() >= LOOKUPS_MIN as usize && keys.len() % VECTOR == 0);
        assert!(keys.iter().all(|key| lpm.reader().lookup(*key) == 5));
    }
}

#[test]
fn rejects_invalid_workloads() {
    for wrong in [
        Workload { values: 0, ..small(Keys::Random) },
        Workload { rounds: 101, ..small(Keys::Random) },
        Workload { lookups: LOOKUPS_MIN - 1, ..small(Keys::Random) },
        Workload { lookups: LOOKUPS_MAX + 1, ..small(Keys::Random) },
        Workload { prefixes: Source::File("/no/such/file".into()), ..small(Keys::Random) },
        small(Keys::File("/no/such/file".into())),
    ] {
        assert!(run::<u32>(&wrong, |_| ()).is_err(), "{wrong:?}");
    }
    assert!(kernel("sse").is_err());
    assert_eq!(kernel("scalar"), Ok(Kernel::Scalar));
}
