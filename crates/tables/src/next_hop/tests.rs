//! Tests of the table of next hops against a plain list.

use super::*;
use crate::lpm::Kernel;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn table() -> NextHops {
    NextHops::new(NextHopCapacity { objects: 4, buckets: 256 }).unwrap()
}

fn group(adjacencies: &[u32]) -> NextHop {
    let member = |&adjacency: &u32| Member { adjacency, weight: 1 };
    NextHop::Group(adjacencies.iter().map(member).collect())
}

#[test]
fn one_word_redirects_all() {
    let mut table = table();
    let id = table.add(&NextHop::Adjacency(5)).unwrap();
    let reader = table.reader();
    assert_eq!(reader.resolve(id, 0), Resolved::Adjacency(5));
    assert!(!reader.is_group(id));
    table.set(id, &NextHop::Special { code: 9, argument: 77 }).unwrap();
    assert_eq!(reader.resolve(id, 0), Resolved::Special { code: 9, argument: 77 });
    assert_eq!(reader.resolve(0, 0), Resolved::Missing);
    assert_eq!(reader.resolve(999, 0), Resolved::Missing);
}

#[test]
fn wrong_requests_are_refused_by_name() {
    let mut table = table();
    assert_eq!(table.add(&group(&[])), Err(NextHopError::MemberCount(0)));
    let many: Vec<u32> = (0..129).collect();
    assert_eq!(table.add(&group(&many)), Err(NextHopError::MemberCount(129)));
    assert_eq!(table.add(&group(&[3, 3])), Err(NextHopError::DuplicateMember(3)));
    let none = NextHop::Group(vec![Member { adjacency: 3, weight: 0 }]);
    assert_eq!(table.add(&none), Err(NextHopError::ZeroWeight(3)));
    assert_eq!(table.set(1, &group(&[1])), Err(NextHopError::Absent(1)));
    let id = table.add(&group(&[1])).unwrap();
    table.remove(id).unwrap();
    assert_eq!(table.remove(id), Err(NextHopError::Absent(id)));
    assert!(table.is_empty());
}

#[test]
fn ids_and_buckets_wait_for_their_grace_period() {
    let mut table = table();
    let ids: Vec<u32> = (0..4).map(|_| table.add(&group(&[1, 2, 3, 4])).unwrap()).collect();
    assert_eq!(table.add(&NextHop::Adjacency(1)), Err(NextHopError::Full(4)));
    table.remove(ids[0]).unwrap();
    assert_eq!(table.add(&NextHop::Adjacency(1)), Err(NextHopError::Full(4)));
    assert_eq!(table.set(ids[1], &group(&[1, 2, 3, 4, 5])), Err(NextHopError::BucketsFull(128)));
    assert_eq!(table.get(ids[1]), Ok(group(&[1, 2, 3, 4])), "nothing was changed");
    table.retire_mark(3);
    table.reclaim(3);
    assert_eq!(table.pending(), 0);
    assert_eq!(table.add(&NextHop::Adjacency(1)), Ok(ids[0]));
    table.remove(ids[2]).unwrap();
    table.retire_mark(4);
    table.reclaim(4);
    let word = table.word(ids[1]).unwrap();
    table.set(ids[1], &group(&[1, 2, 3, 9])).unwrap();
    assert_eq!(table.word(ids[1]), Ok(word), "same buckets, same word");
}

#[test]
fn a_neighbour_that_moves_takes_its_users_along() {
    let mut table = table();
    let single = table.add(&NextHop::Adjacency(7)).unwrap();
    let pair = table.add(&group(&[7, 8])).unwrap();
    let both = table.add(&group(&[7, 9])).unwrap();
    assert_eq!(table.replace_adjacency(7, 9), 3);
    assert_eq!(table.get(single), Ok(NextHop::Adjacency(9)));
    assert_eq!(table.get(pair), Ok(group(&[9, 8])));
    assert_eq!(table.get(both), Ok(NextHop::Group(vec![Member { adjacency: 9, weight: 2 }])));
    for hash in (0..=u32::MAX).step_by(1 << 24) {
        assert_ne!(table.resolve(pair, hash), Resolved::Adjacency(7));
        assert_eq!(table.resolve(both, hash), Resolved::Adjacency(9));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 100 }))]
    #[test]
    fn a_batch_resolves_what_leads_straight_to_an_adjacency(
        next_hops in prop::collection::vec(any_next_hop(), 1..20),
        straight: bool,
        ids in prop::collection::vec(prop_oneof![50 => 0..24_u32, 1 => any::<u32>()], 0..=BATCH),
    ) {
        let mut table = NextHops::new(NextHopCapacity { objects: 20, buckets: 4096 }).unwrap();
        for (at, next_hop) in next_hops.iter().enumerate() {
            let adjacency = NextHop::Adjacency(at as u32);
            table.add(if straight { &adjacency } else { next_hop }).unwrap();
        }
        let ids: Vec<u32> = match straight {
            true => ids.iter().map(|id| 1 + id % next_hops.len() as u32).collect(),
            false => ids,
        };
        let reader = table.reader();
        for kernel in [Kernel::Scalar, Kernel::Bits, Kernel::Avx2, Kernel::Avx512] {
            let mut adjacencies = vec![77; ids.len()];
            let others = reader.resolve_batch(kernel, &ids, &mut adjacencies);
            for (lane, id) in ids.iter().enumerate() {
                let is_other = others[lane / 64] >> (lane % 64) & 1 == 1;
                let word = table.word(*id).unwrap_or(0);
                prop_assert_eq!(is_other, word >> KIND_SHIFT != ADJACENCY, "{:?}", kernel);
                let found = Resolved::Adjacency(adjacencies[lane]);
                prop_assert!(is_other || found == reader.resolve(*id, 0), "{:?}", kernel);
            }
            let bits: u32 = others.iter().map(|word| word.count_ones()).sum();
            prop_assert!(bits as usize <= ids.len(), "no bits beyond the ids");
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Add(NextHop),
    Set(u32, NextHop),
    Remove(u32),
    Replace(u32, u32),
    Grace,
}

fn any_next_hop() -> impl Strategy<Value = NextHop> {
    prop_oneof![
        (any::<u8>(), any::<u32>())
            .prop_map(|(code, argument)| NextHop::Special { code, argument }),
        (0u32..20).prop_map(NextHop::Adjacency),
        prop::collection::btree_map(0u32..20, 1u16..9, 1..10).prop_map(|members| {
            let member = |(adjacency, weight)| Member { adjacency, weight };
            NextHop::Group(members.into_iter().map(member).collect())
        }),
    ]
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => any_next_hop().prop_map(Change::Add),
        3 => (0u32..12, any_next_hop()).prop_map(|(id, next_hop)| Change::Set(id, next_hop)),
        2 => (0u32..12).prop_map(Change::Remove),
        1 => (0u32..20, 0u32..20).prop_map(|(old, new)| Change::Replace(old, new)),
        1 => Just(Change::Grace),
    ]
}

/// What each hash may answer.
fn allowed(next_hop: &NextHop, answer: Resolved) -> bool {
    match (next_hop, answer) {
        (&NextHop::Special { code, argument }, answer) => {
            answer == Resolved::Special { code, argument }
        }
        (&NextHop::Adjacency(id), answer) => answer == Resolved::Adjacency(id),
        (NextHop::Group(members), Resolved::Adjacency(id)) => {
            members.iter().any(|member| member.adjacency == id)
        }
        _ => false,
    }
}

/// The adjacencies that a list of members has, in order.
fn adjacencies(next_hop: Option<&NextHop>) -> Vec<u32> {
    let mut all = match next_hop {
        Some(NextHop::Group(members)) => members.iter().map(|member| member.adjacency).collect(),
        Some(NextHop::Adjacency(adjacency)) => vec![*adjacency],
        _ => Vec::new(),
    };
    all.sort_unstable();
    all
}

/// However many buckets the members have.
#[test]
fn a_walk_meets_each_member_once() {
    let mut table = NextHops::new(NextHopCapacity { objects: 1, buckets: 4096 }).unwrap();
    let weight = |at: u32| if at == 0 { 1 } else { u16::MAX };
    let members = (0..MAX_MEMBERS as u32).map(|at| Member { adjacency: at, weight: weight(at) });
    let group = NextHop::Group(members.collect());
    let id = table.add(&group).unwrap();
    assert_eq!(table.groups[&id].range.len(), 4096);
    assert_eq!(table.reader().adjacencies(id).collect::<Vec<_>>(), adjacencies(Some(&group)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]
    #[test]
    fn answers_as_a_plain_list(changes in prop::collection::vec(any_change(), 1..60)) {
        let mut table = NextHops::new(NextHopCapacity { objects: 8, buckets: 2048 }).unwrap();
        let mut model: BTreeMap<u32, NextHop> = BTreeMap::new();
        let mut epoch = 0;
        for change in changes {
            match change {
                Change::Add(next_hop) => if let Ok(id) = table.add(&next_hop) {
                    prop_assert!(model.insert(id, next_hop).is_none());
                },
                Change::Set(id, next_hop) => {
                    let done = table.set(id, &next_hop);
                    prop_assert_eq!(done == Err(NextHopError::Absent(id)), !model.contains_key(&id));
                    if done.is_ok() {
                        model.insert(id, next_hop);
                    }
                }
                Change::Remove(id) => {
                    prop_assert_eq!(table.remove(id).is_ok(), model.remove(&id).is_some());
                }
                Change::Replace(old, new) => {
                    table.replace_adjacency(old, new);
                    for (id, next_hop) in &mut model {
                        *next_hop = table.get(*id).unwrap();
                        if old != new {
                            prop_assert!(!allowed(next_hop, Resolved::Adjacency(old)));
                        }
                    }
                }
                Change::Grace => {
                    epoch += 1;
                    table.retire_mark(epoch);
                    table.reclaim(epoch);
                }
            }
            prop_assert_eq!(table.len(), model.len());
            for id in 0..12 {
                prop_assert_eq!(table.get(id).ok(), model.get(&id).cloned());
                let mut listed: Vec<u32> = table.reader().adjacencies(id).collect();
                prop_assert!(listed.len() <= MAX_MEMBERS);
                listed.sort_unstable();
                listed.dedup();
                prop_assert_eq!(listed, adjacencies(model.get(&id)));
                for hash in [0, 1 << 28, 0x9000_0000, u32::MAX] {
                    let answer = table.resolve(id, hash);
                    match model.get(&id) {
                        Some(next_hop) => prop_assert!(allowed(next_hop, answer)),
                        None => prop_assert_eq!(answer, Resolved::Missing),
                    }
                }
            }
        }
    }
}
