//! Counters against a naive model, and threads that count at the same time.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

type Counters = TaggedCounters<20>;

#[derive(Default)]
struct Word(AtomicU64);

impl Place for Word {
    fn word(&self) -> &AtomicU64 {
        &self.0
    }
}

fn some(count: usize) -> Vec<Word> {
    (0..count).map(|_| Word::default()).collect()
}

fn counts(places: &[Word]) -> Vec<u64> {
    places.iter().map(|it| Counters::count(it.0.load(Ordering::Relaxed))).collect()
}

#[test]
fn places_are_a_power_of_two_with_room() {
    let of = |names| Counters::places(names, 1 << 20);
    assert_eq!([0, 1, 8, 9, 1_000].map(of), [16, 16, 16, 32, 2_048]);
    assert_eq!((of(1 << 19), of(1 << 30), of(u64::MAX)), (1 << 20, 1 << 20, 1 << 20));
}

#[test]
fn without_places_nothing_is_counted() {
    let all = Counters::new([1, 2]);
    let places = some(0);
    assert_eq!(all.take(&places, all.name(0, [1, 2]), 9), Err(NotTaken::Full));
}

#[test]
fn a_place_remembers_its_last_name() {
    let (all, places) = (Counters::new([1, 2]), some(16));
    let [one, other] = [1, 2].map(|it| all.name(16, [it, 0]));
    let first = all.take(&places, one, 9).unwrap();
    assert!(first.is_first && first.is_other);
    assert!(!all.take(&places, one, 9).unwrap().is_first);
    assert_ne!(all.take(&places, other, 9).unwrap().place, first.place);
    for _ in 0..2 {
        assert!(Counters::give_back(places[first.place].word()).is_some());
    }
    assert!(Counters::give_back(places[first.place].word()).is_none(), "none is left");
    let again = all.take(&places, one, 9).unwrap();
    assert_eq!((again.place, again.is_first, again.is_other), (first.place, true, false));
}

#[test]
fn buckets_follow_from_a_secret() {
    let buckets = |keys| {
        let all = Counters::new(keys);
        (0..64).map(|it| all.exact(4_096, it << 20).buckets).collect::<Vec<_>>()
    };
    assert_ne!(buckets([1, 2]), buckets([3, 4]));
    assert!(buckets([1, 2]).iter().all(|[one, other]| one != other && one % BUCKET == 0));
}

/// Neighbours, networks, and one address in many contexts.
#[test]
fn as_many_names_as_half_of_the_places_fit() {
    let patterns: [fn(u64) -> [u64; 2]; 3] =
        [|it| [0x0a00_0000 + it, 0], |it| [it << 12, 0], |it| [7, it]];
    for pattern in patterns {
        let names = 1 << 15;
        let (all, places) = (Counters::new([11, 12]), some(Counters::places(names, 1 << 20)));
        for it in 0..names {
            let taken = all.take(&places, all.name(places.len(), pattern(it)), 1).unwrap();
            assert!(taken.is_first);
        }
        assert_eq!(counts(&places).iter().sum::<u64>(), names);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Take(u64),
    GiveBack(usize),
}

proptest! {
    /// Of few places, so that names find none, and with limits.
    #[test]
    fn counts_are_those_of_a_naive_model(
        steps in prop::collection::vec(
            prop_oneof![
                3 => (0_u64..40).prop_map(Step::Take),
                2 => any::<usize>().prop_map(Step::GiveBack),
            ],
            0..300,
        ),
        most in 0_u64..6,
        is_exact in any::<bool>(),
    ) {
        let (all, places) = (Counters::new([5, 6]), some(32));
        let named = |it: u64| match is_exact {
            true => all.exact(32, it << 20),
            false => all.name(32, [it, it >> 3]),
        };
        // What is held, with its place.
        let (mut held, mut model) = (Vec::new(), HashMap::<u64, (usize, u64)>::new());
        for step in steps {
            match step {
                Step::Take(it) => {
                    let known = model.get(&it).copied().filter(|(_, count)| *count > 0);
                    match all.take(&places, named(it), most) {
                        Ok(taken) => {
                            prop_assert_eq!(taken.is_first, known.is_none());
                            prop_assert!(known.is_none_or(|(place, _)| place == taken.place));
                            let before = known.map_or(0, |(_, count)| count);
                            prop_assert!(before < most);
                            model.insert(it, (taken.place, before + 1));
                            held.push(it);
                        }
                        Err(NotTaken::Most) => {
                            prop_assert!(known.map_or(0, |(_, count)| count) >= most);
                        }
                        Err(NotTaken::Full) => {
                            prop_assert!(known.is_none());
                            let used = counts(&places);
                            let buckets = named(it).buckets;
                            let mut of = buckets.iter().flat_map(|at| &used[*at..at + BUCKET]);
                            prop_assert!(of.all(|count| *count > 0));
                        }
                        Err(NotTaken::Contended) => prop_assert!(false, "there is one thread"),
                    }
                }
                Step::GiveBack(at) if !held.is_empty() => {
                    let it = held.swap_remove(at % held.len());
                    let (place, count) = model.get_mut(&it).unwrap();
                    let before = Counters::give_back(places[*place].word());
                    prop_assert_eq!(before.map(Counters::count), Some(*count));
                    *count -= 1;
                }
                Step::GiveBack(_) => {}
            }
            let mut expected = vec![0; 32];
            model.values().for_each(|(place, count)| expected[*place] += count);
            prop_assert_eq!(counts(&places), expected);
        }
    }
}

/// Threads count few names at few places: no name has more than it may have by much, and nothing is left.
#[test]
#[cfg_attr(miri, ignore)]
fn threads_count_together() {
    const MOST: u64 = 20;
    let (all, places) = (Counters::new([5, 6]), some(32));
    let work = |thread: u64| {
        let mut held = Vec::new();
        for round in 0..20_000_u64 {
            let name = all.name(32, [(round ^ thread) % 5, 0]);
            match all.take(&places, name, MOST) {
                Ok(taken) => held.push(taken.place),
                Err(why) => assert_eq!(why, NotTaken::Most, "there is room for all names"),
            }
            if round % 7 > 2 && !held.is_empty() {
                let place = held.swap_remove(round as usize % held.len());
                assert!(Counters::give_back(places[place].word()).is_some());
            }
            // A place has one name, with no more than that may have.
            assert!(counts(&places).iter().all(|count| *count <= MOST));
        }
        for place in held {
            assert!(Counters::give_back(places[place].word()).is_some());
        }
    };
    std::thread::scope(|scope| {
        (0..4).for_each(|thread| drop(scope.spawn(move || work(thread))));
    });
    assert_eq!(counts(&places), [0; 32]);
}

/// However many threads count one name at the same time, each of them counts.
#[test]
#[cfg_attr(miri, ignore)]
fn no_thread_is_too_late_for_a_name() {
    const EACH: u64 = 100_000;
    let (all, places) = (Counters::new([5, 6]), some(32));
    let name = all.name(32, [7, 0]);
    let start = std::sync::Barrier::new(8);
    let work = || {
        start.wait();
        (0..EACH).for_each(|_| assert!(all.take(&places, name, u64::MAX).is_ok()));
    };
    std::thread::scope(|scope| {
        (0..8).for_each(|_| drop(scope.spawn(work)));
    });
    let counted: Vec<u64> = counts(&places).into_iter().filter(|it| *it > 0).collect();
    assert_eq!(counted, [8 * EACH]);
}
