//! Regions against a map, and what hostile memory can do.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;

use super::*;

const BOOT: u128 = 7;

struct Test;

impl State for Test {
    const NAME: &'static str = "test";
    const VERSION: u32 = 3;
    type Key = u32;
    type Value = u64;

    fn is_valid(_: &u32, value: &u64) -> bool {
        *value != u64::MAX
    }
}

/// The same region by a later version, and with other fields.
struct Later;
struct Other;

impl State for Later {
    const NAME: &'static str = "test";
    const VERSION: u32 = 4;
    type Key = u32;
    type Value = u64;

    fn is_valid(_: &u32, _: &u64) -> bool {
        true
    }
}

impl State for Other {
    const NAME: &'static str = "test";
    const VERSION: u32 = 3;
    type Key = u32;
    type Value = i64;

    fn is_valid(_: &u32, _: &i64) -> bool {
        true
    }
}

fn values(adopted: &Adopted<Test>) -> BTreeMap<u32, u64> {
    adopted.entries.iter().map(|(slot, value)| (*slot.key(), *value)).collect()
}

fn adopt(file: &OwnedFd) -> Adopted<Test> {
    Region::adopt(file, BOOT).map_err(|error| error.to_string()).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, u64),
    Write(usize, u64),
    Remove(usize),
    Restart,
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..20_u32, 0..100_u64).prop_map(|(key, value)| Step::Insert(key, value)),
        4 => (any::<usize>(), 0..100_u64).prop_map(|(which, value)| Step::Write(which, value)),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #[test]
    fn a_region_is_a_map_that_survives(steps in proptest::collection::vec(a_step(), 0..60)) {
        let (mut region, file) = Region::<Test>::create(8, BOOT).unwrap();
        let mut slots: Vec<Slot<Test>> = Vec::new();
        let mut model = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(key, _) if model.contains_key(&key) => {}
                Step::Insert(key, value) => match region.insert(key, &value) {
                    Some(slot) => {
                        slots.push(slot);
                        model.insert(key, value);
                    }
                    None => prop_assert_eq!(model.len(), 8),
                },
                Step::Write(which, value) if !slots.is_empty() => {
                    let which = which % slots.len();
                    slots[which].write(&value);
                    model.insert(*slots[which].key(), value);
                }
                Step::Remove(which) if !slots.is_empty() => {
                    let slot = slots.swap_remove(which % slots.len());
                    model.remove(slot.key());
                    region.remove(slot);
                }
                Step::Write(..) | Step::Remove(_) => {}
                Step::Restart => {
                    let adopted = adopt(&file);
                    prop_assert_eq!((adopted.torn, adopted.left_out), (0, 0));
                    region = adopted.region;
                    slots = adopted.entries.into_iter().map(|(slot, _)| slot).collect();
                }
            }
            prop_assert_eq!(region.room(), 8 - model.len());
            let adopted = adopt(&file);
            prop_assert_eq!(values(&adopted), model.clone());
            prop_assert_eq!(adopted.entries.len(), model.len());
        }
    }

    /// Whatever another process writes into the memory: entries are valid, and each key is there once.
    #[test]
    fn hostile_memory_gives_valid_entries(
        changes in proptest::collection::vec((any::<usize>(), any::<u64>(), any::<bool>()), 1..20),
        copied in proptest::option::of((0..8_usize, 0..8_usize)),
    ) {
        let (mut region, file) = Region::<Test>::create(8, BOOT).unwrap();
        let slots: Vec<_> = (0..6_u64).map(|n| region.insert(n as u32, &n).unwrap()).collect();
        let memory = region.mapping.words();
        if let Some((from, to)) = copied {
            let pairs = slot_words::<Test>(memory, from).iter().zip(slot_words::<Test>(memory, to));
            pairs.for_each(|(from, to)| to.store(from.load(Relaxed), Relaxed));
        }
        for (at, word, is_header) in changes {
            let room = if is_header { header::WORDS } else { memory.len() };
            memory[at % room].fetch_xor(word, Relaxed);
        }
        if let Ok(adopted) = Region::<Test>::adopt(&file, BOOT) {
            let found = values(&adopted);
            prop_assert_eq!(found.len(), adopted.entries.len());
            prop_assert!(found.iter().all(|(key, value)| u64::from(*key) == *value));
            prop_assert!(adopted.entries.len() + adopted.left_out + adopted.region.room() == 8);
        }
        drop(slots);
    }
}

#[test]
fn entries_that_make_no_sense_are_left_out() {
    let (mut region, file) = Region::<Test>::create(4, BOOT).unwrap();
    for (key, value) in [(1, 10), (2, u64::MAX), (3, 30), (3, 31)] {
        region.insert(key, &value).unwrap();
    }
    assert!(region.insert(5, &50).is_none(), "full");
    let adopted = adopt(&file);
    assert_eq!(values(&adopted), BTreeMap::from([(1, 10)]), "2 is not valid, 3 is there twice");
    assert_eq!((adopted.left_out, adopted.region.room()), (3, 0));
}

#[test]
fn memory_of_others_is_refused() {
    let (region, file) = Region::<Test>::create(4, BOOT).unwrap();
    let reason = |refused: Option<Unusable>| refused.unwrap().to_string();
    assert_eq!(
        reason(Region::<Later>::adopt(&file, BOOT).err()),
        "it has version 3, this program has 4"
    );
    assert_eq!(reason(Region::<Other>::adopt(&file, BOOT).err()), "its entries have other fields");
    let other_boot = Region::<Test>::adopt(&file, BOOT + 1);
    assert_eq!(reason(other_boot.err()), "it is from before this machine started");
    region.mapping.words()[3].fetch_xor(1, Relaxed);
    assert_eq!(reason(Region::<Test>::adopt(&file, BOOT).err()), "its header is damaged");
    header::write::<Test>(region.mapping.words(), 5, BOOT);
    assert!(reason(Region::<Test>::adopt(&file, BOOT).err()).ends_with("should have 384"));
    region.mapping.words()[0].fetch_xor(1, Relaxed);
    assert_eq!(reason(Region::<Test>::adopt(&file, BOOT).err()), "it is not a region");
    let small = Mapping::create("small", 1).unwrap();
    assert_eq!(reason(Region::<Test>::adopt(&small.1, BOOT).err()), "it is not a region");
}

#[test]
fn capacities_have_limits() {
    for capacity in [0, header::CAPACITY_MAX + 1, usize::MAX] {
        assert!(Region::<Test>::create(capacity, BOOT).is_err());
    }
}

#[test]
fn slots_write_on_other_threads() {
    let (mut region, file) = Region::<Test>::create(4, BOOT).unwrap();
    let slots: Vec<_> = (0..4).map(|key| region.insert(key, &0).unwrap()).collect();
    std::thread::scope(|scope| {
        for mut slot in slots {
            scope.spawn(move || (0..10_000).for_each(|value| slot.write(&value)));
        }
    });
    assert!(values(&adopt(&file)).values().all(|value| *value == 9_999));
}
