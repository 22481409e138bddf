//! Tests of the exact-match table against a map, with all kernels.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::lpm::Kernel;

/// A reader for each kernel of this machine.
fn readers(table: &ExactMatch) -> impl Iterator<Item = (Kernel, ExactMatchReader)> {
    [Kernel::Scalar, Kernel::Avx2, Kernel::Avx512]
        .into_iter()
        .filter_map(|kernel| Some((kernel, table.reader().with_kernel(kernel)?)))
}

/// The keys of sub-interfaces: a port, an outer and an inner tag.
fn tags(port: u64, outer: u64, inner: u64) -> u64 {
    port << 27 | outer << 14 | inner
}

#[test]
fn values_are_set_replaced_and_removed() {
    let mut table = ExactMatch::default();
    assert_eq!(table.get(0), None);
    for key in [0, 5, MAX_KEY] {
        assert_eq!(table.insert(key, 0), Ok(None));
        assert_eq!(table.insert(key, MAX_VALUE), Ok(Some(0)));
        assert_eq!(table.get(key), Some(MAX_VALUE));
    }
    assert_eq!((table.len(), table.iter().count()), (3, 3));
    assert_eq!(table.remove(5), Some(MAX_VALUE));
    assert_eq!((table.remove(5), table.get(5), table.len()), (None, None, 2));
}

#[test]
fn keys_and_values_out_of_range_are_refused() {
    let mut table = ExactMatch::default();
    let key = MAX_KEY + 1;
    assert_eq!(table.insert(key, 1), Err(ExactMatchError::KeyOutOfRange(key)));
    let value = MAX_VALUE + 1;
    assert_eq!(table.insert(1, value), Err(ExactMatchError::ValueOutOfRange(value)));
    assert!(table.is_empty());
    // Nor are they found: the first of them looks like an empty word.
    for (kernel, reader) in readers(&table) {
        let keys = [key, u64::MAX, key + 1, 1 << 63, key, 0, key, u64::MAX, key, key, 7];
        let mut values = [0; 11];
        reader.lookup_batch(&keys, &mut values);
        assert_eq!(values, [ABSENT; 11], "{kernel:?}");
        assert_eq!(reader.get(key), None);
    }
}

#[test]
fn a_batch_works_on_the_shorter_slice() {
    let mut table = ExactMatch::default();
    table.insert(3, 4).unwrap();
    for (_, reader) in readers(&table) {
        let mut values = [9; 4];
        reader.lookup_batch(&[3, 8], &mut values);
        assert_eq!(values, [4, ABSENT, 9, 9]);
        reader.lookup_batch(&[3; 20], &mut values);
        assert_eq!(values, [4; 4]);
    }
}

/// Sets of keys with the structure of real ones, which a weak hash function would pile up.
#[test]
#[cfg_attr(miri, ignore)]
fn memory_follows_the_number_of_entries() {
    let sets: [(&str, Vec<u64>); 5] = [
        ("all VLANs of 16 ports", (0..65_536).map(|n| tags(n / 4096, n % 4096, 0)).collect()),
        ("a VLAN of each port", (0..65_536).map(|n| tags(n, 5, 0)).collect()),
        ("QinQ", (0..65_536).map(|n| tags(3, n / 256, (1 << 13) | (n % 256))).collect()),
        ("one outer tag", (0..4096).map(|n| tags(1, 7, 1 << 13 | n)).collect()),
        ("as many as the key", (0..65_536).map(|n| n << 31).collect()),
    ];
    for (what, keys) in sets {
        let mut table = ExactMatch::default();
        for (value, key) in keys.iter().enumerate() {
            assert_eq!(table.insert(*key, value as u32), Ok(None));
            // 8 bytes, in a table of which at least 3 of 16 words are in use.
            assert!(table.bytes() <= 512.max((value + 1) * 43), "{what}: {}", table.bytes());
        }
        for (value, key) in keys.iter().enumerate() {
            assert_eq!(table.get(*key), Some(value as u32), "{what}");
        }
        keys.iter().for_each(|key| assert!(table.remove(*key).is_some()));
        assert_eq!((table.len(), table.bytes()), (0, 512), "{what}");
    }
}

#[test]
fn a_reader_sees_changes_until_the_table_is_written_anew() {
    let mut table = ExactMatch::default();
    let reader = table.reader();
    table.insert(1, 10).unwrap();
    assert_eq!(reader.get(1), Some(10));
    let mut keys = 2..;
    while reader.is_current(&table) {
        table.insert(keys.next().unwrap(), 0).unwrap();
    }
    table.insert(1, 11).unwrap();
    assert_eq!((reader.get(1), table.reader().get(1)), (Some(10), Some(11)));
    assert!(table.reader().is_current(&table));
}

#[derive(Clone, Debug)]
enum Change {
    Insert(u64, u32),
    Remove(u64),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    // Few enough keys that removals and replacements hit; in places that differ in few bits.
    let key = || (0..200_u64, 0..3_u32).prop_map(|(key, place)| key << (place * 16));
    let change = prop_oneof![
        3 => (key(), 0..=MAX_VALUE).prop_map(|(key, value)| Change::Insert(key, value)),
        1 => key().prop_map(Change::Remove),
    ];
    prop::collection::vec(change, 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]
    #[test]
    fn all_kernels_agree_with_a_map(
        changes in changes(),
        absent in prop::collection::vec(any::<u64>(), 0..40),
    ) {
        let (mut table, mut model) = (ExactMatch::default(), BTreeMap::new());
        for change in changes {
            match change {
                Change::Insert(key, value) => {
                    prop_assert_eq!(table.insert(key, value), Ok(model.insert(key, value)));
                }
                Change::Remove(key) => prop_assert_eq!(table.remove(key), model.remove(&key)),
            }
            prop_assert_eq!(table.len(), model.len());
        }
        let entries: BTreeMap<_, _> = table.iter().collect();
        prop_assert_eq!(&entries, &model);
        let keys: Vec<u64> = (0..200).chain((0..200).map(|key| key << 32)).chain(absent).collect();
        let expected: Vec<_> = keys.iter().map(|key| model.get(key).copied()).collect();
        for (kernel, reader) in readers(&table) {
            let mut values = vec![0; keys.len()];
            reader.lookup_batch(&keys, &mut values);
            let found: Vec<_> = values.iter().map(|it| (*it != ABSENT).then_some(*it)).collect();
            prop_assert_eq!(&found, &expected, "{:?}", kernel);
            for (key, expected) in keys.iter().zip(&expected) {
                prop_assert_eq!(reader.get(*key), *expected);
            }
        }
    }
}
