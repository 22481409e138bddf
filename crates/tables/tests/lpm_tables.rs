//! Look-ups of which each lane has its own table: all kernels find what each table finds alone.

use proptest::prelude::*;
use stoa_tables::lpm::{Counted, Kernel, Key, Lpm, LpmCapacity, LpmTables};

/// Tables, of which one slot is empty.
const SLOTS: usize = 5;
const EMPTY: usize = 1;

/// The id of a slot's table: the slot with a generation above.
fn id(slot: usize) -> u32 {
    slot as u32 | (slot as u32 + 3) << 12
}

/// Which table a lane names (beyond [`SLOTS`]: an id without a table), and its address: near that of a
/// prefix, or any.
type Lane<K> = (usize, usize, K);

/// The cases of a property test: `usual` ones, and in proportion more if `PROPTEST_CASES` is above its default.
fn cases(usual: u32) -> ProptestConfig {
    let given = ProptestConfig::default().cases;
    let more = usual.saturating_mul(given) / 256;
    ProptestConfig::with_cases(if cfg!(miri) { 1 } else { more.max(usual) })
}

fn agree<K: Key>(
    prefixes: &[(K, u8)],
    lanes: &[Lane<K>],
    near: impl Fn(K, u8, K) -> K,
) -> Result<(), TestCaseError> {
    let table = |slot: usize| {
        let mut table = Lpm::<K>::new(LpmCapacity::for_routes(1000)).unwrap();
        for (number, (prefix, len)) in prefixes.iter().enumerate() {
            // Each table has others, with values of any width.
            if number % (slot + 2) != 0 {
                let value = (number as u32 + 1) << (slot * 5);
                table.insert(*prefix, *len, value).unwrap();
            }
        }
        table
    };
    let tables: Vec<_> = (0..SLOTS).map(table).collect();
    let readers = tables.iter().map(Lpm::reader).enumerate();
    let slots: Vec<_> =
        readers.map(|(slot, reader)| (slot != EMPTY).then(|| (id(slot), reader))).collect();
    let ids: Vec<_> = lanes
        .iter()
        .map(|(slot, ..)| if *slot < SLOTS { id(*slot) } else { *slot as u32 })
        .collect();
    let keys: Vec<_> = lanes
        .iter()
        .map(|(_, at, key)| {
            prefixes.get(*at).map_or(*key, |(prefix, len)| near(*prefix, *len, *key))
        })
        .collect();
    for counted in [Counted::All, Counted::BeyondDefault] {
        let expected = ids.iter().zip(&keys).map(|(id, key)| {
            let table = slots.iter().flatten().find(|slot| slot.0 == *id);
            table.map_or(0, |(_, table)| match counted {
                Counted::All => table.lookup(*key),
                Counted::BeyondDefault => table.lookup_beyond_default(*key),
            })
        });
        let expected: Vec<u32> = expected.collect();
        for kernel in [Kernel::Scalar, Kernel::Bits, Kernel::Avx2, Kernel::Avx512] {
            let tables = LpmTables::new(kernel, slots.clone());
            let mut found = vec![7; ids.len()];
            tables.lookup_batch(&ids, &keys, counted, &mut found);
            prop_assert_eq!(&found, &expected, "{:?} {:?}", kernel, counted);
        }
    }
    Ok(())
}

fn lanes<K: Key + Arbitrary>() -> impl Strategy<Value = Vec<Lane<K>>> {
    let slot = prop_oneof![9 => 0..SLOTS, 1 => SLOTS..40];
    prop::collection::vec((slot, 0..80_usize, any::<K>()), 0..150)
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn ip4_lanes_have_their_tables(
        prefixes in prop::collection::vec((any::<u32>(), 0..=32_u8), 0..60),
        lanes in lanes::<u32>(),
    ) {
        let mask = |len: u8| u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
        let prefixes: Vec<_> =
            prefixes.into_iter().map(|(key, len)| (key & 0xf3ff_ffff & mask(len), len)).collect();
        agree(&prefixes, &lanes, |prefix, len, key| prefix | key & !mask(len) & 0xfff)?;
    }

    #[test]
    fn ip6_lanes_have_their_tables(
        prefixes in prop::collection::vec((any::<u128>(), 0..=128_u8), 0..60),
        lanes in lanes::<u128>(),
    ) {
        let mask = |len: u8| u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
        let prefixes: Vec<_> = prefixes
            .into_iter()
            .map(|(key, len)| (key & mask(len) & !(0xffff << 100), len))
            .collect();
        agree(&prefixes, &lanes, |prefix, len, key| prefix | key & !mask(len) >> 5)?;
    }
}

#[test]
#[should_panic(expected = "assertion")]
fn an_id_in_another_slot_is_refused() {
    let table = Lpm::<u32>::new(LpmCapacity::for_routes(1)).unwrap();
    LpmTables::new(Kernel::Scalar, [None, Some((2, table.reader()))]);
}

/// A leaf's value may have the bits that tell the kind of a chunk: in an arena that was never written, they
/// must not lead anywhere, whatever the other lanes of the vector do.
#[test]
fn the_value_of_a_leaf_is_no_chunk() {
    for value in [1 << 29, 1 << 30, 3 << 29] {
        let mut plain = Lpm::<u32>::new(LpmCapacity::for_routes(1000)).unwrap();
        plain.insert(0, 1, value).unwrap();
        let mut deep = Lpm::<u32>::new(LpmCapacity::for_routes(1000)).unwrap();
        deep.insert(0, 1, value).unwrap();
        deep.insert(0x0a00_0001, 32, 7).unwrap();
        let slots = [Some((0, plain.reader())), Some((1, deep.reader()))];
        let ids: Vec<u32> = (0..256).map(|lane| lane % 2).collect();
        let keys = vec![0x0a00_0001; ids.len()];
        let expected: Vec<u32> = ids.iter().map(|id| if *id == 0 { value } else { 7 }).collect();
        let mixed = [0x0a00_0001_u32, 0x0b00_0001, 0x0a00_0001, 0x0a00_0002].repeat(64);
        for kernel in [Kernel::Scalar, Kernel::Bits, Kernel::Avx2, Kernel::Avx512] {
            let tables = LpmTables::new(kernel, slots.clone());
            for lanes in [2, 16, 64, 256] {
                let mut found = vec![0; lanes];
                tables.lookup_batch(&ids[..lanes], &keys[..lanes], Counted::All, &mut found);
                assert_eq!(found, expected[..lanes], "{kernel:?}");
            }
            // The same in one table, beside a lane that goes down.
            let Some(table) = deep.reader().with_kernel(kernel) else { continue };
            let mut found = vec![0; mixed.len()];
            table.lookup_batch(&mixed, &mut found);
            assert_eq!(found, [7, value, 7, value].repeat(64), "{kernel:?}");
        }
    }
}
