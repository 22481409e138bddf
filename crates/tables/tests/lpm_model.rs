//! Longest-prefix match against a plain map of prefixes, over random changes and look-ups.

use std::collections::BTreeMap;

use proptest::prelude::*;
use stoa_tables::Reclaim;
use stoa_tables::lpm::{Kernel, Key, Lpm, LpmCapacity, LpmError, Outcome, Refused};

#[derive(Clone, Debug)]
enum Change<K> {
    Insert(K, u8, u32),
    InsertAll(Vec<(K, u8, u32)>),
    /// Values of 0 are removals; what has the last value is not to be replaced.
    Several(Vec<(K, u8, u32)>, u32),
    Remove(K, u8),
    RemoveNth(usize),
    Reader,
    Grace,
}

trait Family: Key + 'static {
    fn cut(self, len: u8) -> Self;
    fn near(self, bits: u32) -> Self;
    fn addresses() -> BoxedStrategy<Self>;
}

impl Family for u32 {
    fn cut(self, len: u8) -> Self {
        if len == 0 { 0 } else { self >> (32 - len) << (32 - len) }
    }
    fn near(self, bits: u32) -> Self {
        self ^ bits
    }
    fn addresses() -> BoxedStrategy<Self> {
        // Few distinct values in every byte, so that prefixes nest and touch.
        let byte =
            || prop_oneof![Just(0u8), Just(1), Just(0x80), Just(0xc0), Just(0xff), any::<u8>()];
        (prop_oneof![Just(10u8), Just(11), any::<u8>()], byte(), byte(), byte())
            .prop_map(|(a, b, c, d)| u32::from_be_bytes([a, b, c, d]))
            .boxed()
    }
}

impl Family for u128 {
    fn cut(self, len: u8) -> Self {
        if len == 0 { 0 } else { self >> (128 - len) << (128 - len) }
    }
    fn near(self, bits: u32) -> Self {
        self ^ u128::from(bits) << (bits % 97)
    }
    fn addresses() -> BoxedStrategy<Self> {
        let part = || {
            prop_oneof![
                3 => Just(0u32), 1 => Just(u32::MAX), 2 => u32::addresses(),
            ]
        };
        (
            prop_oneof![Just(0x2001_0db8u32), Just(0x2001_0db9), u32::addresses()],
            part(),
            part(),
            part(),
        )
            .prop_map(|(a, b, c, d)| {
                u128::from(a) << 96 | u128::from(b) << 64 | u128::from(c) << 32 | u128::from(d)
            })
            .boxed()
    }
}

fn routes<K: Family>() -> impl Strategy<Value = (K, u8, u32)> {
    // Few values, so that neighbours are often equal and runs join.
    (K::addresses(), 0..=K::BITS, prop_oneof![6 => 1u32..5, 1 => 65_534u32..65_538])
        .prop_map(|(address, len, value)| (address.cut(len), len, value))
}

fn changes<K: Family>(count: usize) -> impl Strategy<Value = Vec<Change<K>>> {
    let many = prop::collection::vec(routes(), 1..40);
    let change = prop_oneof![
        8 => routes().prop_map(|(prefix, len, value)| Change::Insert(prefix, len, value)),
        2 => (many, any::<bool>()).prop_map(|(mut routes, is_sorted)| {
            if is_sorted {
                routes.sort_unstable();
            }
            Change::InsertAll(routes)
        }),
        3 => (prop::collection::vec((routes(), 0..3_u8), 1..40), any::<bool>(), 1u32..9).prop_map(
            |(routes, is_sorted, kept)| {
                let change = |((prefix, len, value), what)| {
                    (prefix, len, if what == 0 { 0 } else { value })
                };
                let mut changes: Vec<_> = routes.into_iter().map(change).collect();
                // Some of them again, so that they are there already.
                changes.extend_from_within(..changes.len() / 2);
                if is_sorted {
                    changes.sort_by_key(|(prefix, len, _)| (*prefix, *len));
                }
                Change::Several(changes, kept)
            }
        ),
        1 => (K::addresses(), 0..=K::BITS)
            .prop_map(|(address, len)| Change::Remove(address.cut(len), len)),
        4 => any::<usize>().prop_map(Change::RemoveNth),
        1 => Just(Change::Reader),
        1 => Just(Change::Grace),
    ];
    prop::collection::vec(change, 1..count)
}

type Model<K> = BTreeMap<(u8, K), u32>;

/// The longest match, among prefixes of these lengths in ascending order.
fn longest<K: Family>(model: &Model<K>, lens: &[u8], address: K) -> u32 {
    lens.iter().rev().find_map(|&len| model.get(&(len, address.cut(len))).copied()).unwrap_or(0)
}

fn agree<K: Family>(lpm: &Lpm<K>, model: &Model<K>, more: &[K]) -> Result<(), TestCaseError> {
    let mut routes: Vec<_> =
        lpm.iter().map(|(prefix, len, value)| ((len, prefix), value)).collect();
    routes.sort_unstable();
    let expected: Vec<_> = model.iter().map(|(&key, &value)| (key, value)).collect();
    prop_assert_eq!(routes, expected);
    prop_assert_eq!(lpm.len(), model.len());
    // First and last address of each prefix, their neighbours, and some strangers.
    let mut keys: Vec<K> = more.to_vec();
    for &(_, prefix) in model.keys() {
        keys.extend([0, 1, 2, 3, 0x3f, 0x40, 0xff, 0x100, 0xffff].map(|bits| prefix.near(bits)));
    }
    let mut lens: Vec<u8> = model.keys().map(|(len, _)| *len).collect();
    lens.dedup();
    let expected: Vec<u32> = keys.iter().map(|&key| longest(model, &lens, key)).collect();
    for kernel in [Kernel::Scalar, Kernel::Bits, Kernel::Avx2, Kernel::Avx512] {
        let Some(reader) = lpm.reader().with_kernel(kernel) else { continue };
        let mut found = vec![u32::MAX; keys.len()];
        reader.lookup_batch(&keys, &mut found);
        prop_assert_eq!(&found, &expected, "{:?}", kernel);
    }
    for (&key, &expected) in keys.iter().zip(&expected).take(20) {
        prop_assert_eq!(lpm.lookup(key), expected);
        prop_assert_eq!(lpm.reader().lookup(key), expected);
    }
    Ok(())
}

fn run<K: Family>(
    capacity: LpmCapacity,
    changes: Vec<Change<K>>,
    strangers: Vec<K>,
) -> Result<(), TestCaseError> {
    let mut lpm = Lpm::<K>::new(capacity).unwrap();
    let mut model = Model::new();
    let mut readers = Vec::new();
    let mut epoch = 0;
    for change in changes {
        match change {
            Change::Insert(prefix, len, value) => match lpm.insert(prefix, len, value) {
                Ok(old) => prop_assert_eq!(old, model.insert((len, prefix), value)),
                Err(LpmError::Full(_)) => {
                    prop_assert_ne!(model.get(&(len, prefix)), Some(&value));
                    // Full must change nothing; checked at the end and by later steps.
                    prop_assert_eq!(
                        lpm.get_exact(prefix, len).ok(),
                        model.get(&(len, prefix)).copied()
                    );
                }
                Err(other) => prop_assert!(false, "{other}"),
            },
            Change::InsertAll(routes) => {
                let done = lpm.insert_all(routes.iter().copied());
                let inserted = done.map_or_else(|refused| refused.inserted, |()| routes.len());
                let new =
                    routes[..inserted].iter().map(|&(prefix, len, value)| ((len, prefix), value));
                model.extend(new);
                if let Err(refused) = done {
                    prop_assert!(matches!(refused.error, LpmError::Full(_)));
                    let (prefix, len, value) = routes[inserted];
                    prop_assert_ne!(model.get(&(len, prefix)), Some(&value));
                }
                prop_assert_eq!(lpm.len(), model.len());
            }
            Change::Several(changes, kept) => {
                change_all(&mut lpm, &mut model, &changes, kept)?;
            }
            Change::Remove(prefix, len) => remove(&mut lpm, &mut model, prefix, len)?,
            Change::RemoveNth(nth) => {
                if let Some((&(len, prefix), _)) = model.iter().nth(nth % model.len().max(1)) {
                    remove(&mut lpm, &mut model, prefix, len)?;
                }
            }
            Change::Reader => readers.push(lpm.reader()),
            Change::Grace => {
                epoch += 1;
                lpm.retire_mark(epoch);
                lpm.reclaim(epoch);
                prop_assert_eq!(lpm.pending(), 0);
            }
        }
    }
    agree(&lpm, &model, &strangers)?;
    let places: Vec<_> =
        strangers.iter().zip(0..).map(|(&at, n): (_, u8)| (at, n % (K::BITS + 2))).collect();
    agree_from(&lpm, &model, &places)?;
    // Half of the routes away, then all: nothing is left behind.
    drop(readers);
    let keys: Vec<_> = model.keys().copied().collect();
    for half in [keys.iter().step_by(2).copied().collect::<Vec<_>>(), keys] {
        for (len, prefix) in half {
            if model.contains_key(&(len, prefix)) {
                lpm.retire_mark(epoch + 1);
                lpm.reclaim(epoch + 1);
                remove(&mut lpm, &mut model, prefix, len)?;
            }
        }
        agree(&lpm, &model, &strangers)?;
    }
    lpm.retire_mark(epoch + 1);
    lpm.reclaim(epoch + 1);
    prop_assert_eq!(lpm.lookup_words_used(), 0);
    Ok(())
}

/// Makes changes in one or, where some are refused, several calls.
fn change_all<K: Family>(
    lpm: &mut Lpm<K>,
    model: &mut Model<K>,
    changes: &[(K, u8, u32)],
    kept: u32,
) -> Result<(), TestCaseError> {
    let (mut rest, mut outcomes) = (changes, Vec::new());
    while !rest.is_empty() {
        let done = lpm.change_all(rest, |_, old| old != kept, &mut outcomes);
        for (&(prefix, len, value), &outcome) in rest.iter().zip(&outcomes) {
            let old = model.get(&(len, prefix)).copied();
            let expected = match (old, value) {
                (Some(old), _) if old == kept => Outcome::Kept(old),
                (Some(old), 0) => Outcome::Removed(old),
                (Some(old), _) => Outcome::Replaced(old),
                (None, 0) => Outcome::Absent,
                (None, _) => Outcome::Added,
            };
            prop_assert_eq!(outcome, expected);
            match outcome {
                Outcome::Removed(_) => drop(model.remove(&(len, prefix))),
                Outcome::Added | Outcome::Replaced(_) => {
                    model.insert((len, prefix), value);
                }
                Outcome::Kept(_) | Outcome::Absent => {}
            }
        }
        prop_assert_eq!(lpm.len(), model.len());
        rest = match done {
            Ok(()) => {
                prop_assert_eq!(outcomes.len(), rest.len());
                &[]
            }
            Err(refused) => {
                prop_assert!(matches!(refused.error, LpmError::Full(_)));
                prop_assert_eq!(outcomes.len(), refused.inserted);
                let (prefix, len, value) = rest[refused.inserted];
                let old = model.get(&(len, prefix)).copied();
                prop_assert!(value != 0 || lpm.pending() > 0, "removals have a reserve");
                prop_assert_eq!(lpm.get_exact(prefix, len).ok(), old);
                &rest[refused.inserted + 1..]
            }
        };
    }
    Ok(())
}

/// The walk from some keys on yields what the model has from there, in order.
fn agree_from<K: Family>(
    lpm: &Lpm<K>,
    model: &Model<K>,
    places: &[(K, u8)],
) -> Result<(), TestCaseError> {
    let mut routes: Vec<_> =
        model.iter().map(|(&(len, prefix), &value)| (prefix, len, value)).collect();
    routes.sort_unstable();
    let of_routes = routes.iter().flat_map(|&(prefix, len, _)| {
        [(prefix, len), (prefix, len + 1), (prefix.near(1), len), (prefix.near(0x40), 0)]
    });
    for (from, len) in of_routes.chain(places.iter().copied()).collect::<Vec<_>>() {
        let behind = routes.partition_point(|&(prefix, its, _)| (prefix, its) < (from, len));
        let walk = lpm.range(from, len).take(20);
        prop_assert!(walk.eq(routes[behind..].iter().copied().take(20)), "from {from:x}/{len}");
    }
    prop_assert!(lpm.iter().eq(routes));
    Ok(())
}

fn remove<K: Family>(
    lpm: &mut Lpm<K>,
    model: &mut Model<K>,
    prefix: K,
    len: u8,
) -> Result<(), TestCaseError> {
    match lpm.remove(prefix, len) {
        Err(LpmError::Full(_)) => prop_assert!(lpm.pending() > 0),
        done => prop_assert_eq!(done, model.remove(&(len, prefix)).ok_or(LpmError::Absent)),
    }
    Ok(())
}

/// The cases of a property test: `usual` ones, and in proportion more if `PROPTEST_CASES` is above its default.
fn cases(usual: u32) -> ProptestConfig {
    let given = ProptestConfig::default().cases;
    let more = usual.saturating_mul(given) / 256;
    ProptestConfig::with_cases(if cfg!(miri) { 1 } else { more.max(usual) })
}

const COUNT: usize = if cfg!(miri) { 8 } else { 150 };
const AMPLE: LpmCapacity = LpmCapacity::for_routes(1000);
/// So small that every limit is met.
const TIGHT: LpmCapacity =
    LpmCapacity { routes: 60, lookup_words: 64 * 6, nodes: 50, bookkeeping_words: 64 * 2 };

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn ip4_agrees(changes in changes::<u32>(COUNT), more in prop::collection::vec(any::<u32>(), 40)) {
        run(AMPLE, changes, more)?;
    }

    #[test]
    fn ip4_agrees_when_full(changes in changes::<u32>(COUNT)) {
        run(TIGHT, changes, Vec::new())?;
    }

    #[test]
    fn ip6_agrees(changes in changes::<u128>(COUNT), more in prop::collection::vec(any::<u128>(), 40)) {
        run(AMPLE, changes, more)?;
    }

    #[test]
    fn ip6_agrees_when_full(changes in changes::<u128>(COUNT)) {
        run(TIGHT, changes, Vec::new())?;
    }
}

#[test]
fn wrong_requests_are_refused_by_name() {
    let mut lpm = Lpm::<u32>::new(LpmCapacity::for_routes(1)).unwrap();
    assert_eq!(lpm.insert(0x0a00_0001, 24, 1), Err(LpmError::HostBitsSet));
    assert_eq!(lpm.insert(0, 33, 1), Err(LpmError::LengthOutOfRange { len: 33, max: 32 }));
    assert_eq!(lpm.insert(0, 0, 0), Err(LpmError::ValueOutOfRange(0)));
    assert_eq!(lpm.insert(0, 0, 1 << 31), Err(LpmError::ValueOutOfRange(1 << 31)));
    assert_eq!(lpm.remove(0x0a00_0001, 24), Err(LpmError::HostBitsSet));
    assert_eq!(lpm.remove(0x0a00_0000, 24), Err(LpmError::Absent));
    assert_eq!(lpm.get_exact(0, 200), Err(LpmError::LengthOutOfRange { len: 200, max: 32 }));
    let routes = [(0x0a00_0000, 24, 7), (0x0a00_0001, 24, 7), (0x0a00_0002, 24, 7)];
    let refused = lpm.insert_all(routes).unwrap_err();
    assert_eq!(refused, Refused { inserted: 1, error: LpmError::HostBitsSet });
    assert_eq!(lpm.remove(0x0a00_0000, 24), Ok(7));
    assert_eq!(lpm.insert(0x0a00_0000, 24, 7), Ok(None));
    let full = lpm.insert(0x0a00_0100, 24, 7).unwrap_err();
    assert_eq!(
        full.to_string(),
        "no space: the limit of routes is reached; remove routes or raise the table's capacity"
    );
    assert_eq!(lpm.insert(0x0a00_0000, 24, 8), Ok(Some(7)), "replacing needs no space");
}
