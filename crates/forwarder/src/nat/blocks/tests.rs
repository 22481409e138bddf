//! Blocks against a naive model, with a clock that moves; and from two threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::nat::Prefix4;
use crate::nat::block_events::EventKind;

const ANY: Share = Share { blocks: 4, ports: [u32::MAX; 4] };

/// Blocks of so many ports at addresses of a prefix, from port 1024 on.
fn range(length: u8, per_address: u16, size: u16) -> BlockRange {
    BlockRange {
        policy: (1, 10),
        vrf: 0,
        pools: vec![Prefix4 { network: 0xc000_0200, length }],
        ports: (1024, 1024 + per_address * size - 1),
        size,
        length: 32,
        base: 0,
        free: Free::default(),
    }
    .at(100)
}

fn search<'a>(
    (blocks, range): (&'a Blocks, &'a BlockRange),
    share: Share,
    (address, now): (u32, u32),
) -> Search<'a> {
    let subscriber = range.subscriber(address, 0);
    let (protocol, worker, now) = (UDP, 0, (now, now * 1000));
    Search { blocks, range, former: &[], share, subscriber, protocol, worker, now }
}

fn free_all(blocks: &Blocks, range: &BlockRange, now: u32) -> (BlockUse, usize) {
    let (mut sum, mut freed) = (BlockUse::default(), 0);
    for at in 0..range.addresses() {
        let found = blocks.free_unused((range, at), (now, 120), |_, _| freed += 1);
        sum.used += found.used;
        sum.unused += found.unused;
        sum.subscribers += found.subscribers;
    }
    (sum, freed)
}

thread_local! {
    /// Blocks that this thread has looked at.
    pub(super) static LOOKS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Blocks that a subscriber has as the bound of its searches says.
fn counted(blocks: &Blocks, range: &BlockRange, address: u32) -> u32 {
    let count = blocks.owned.of(range.subscriber(address, 0));
    count.at_home() + count.away()
}

/// How many blocks something looks at.
fn looks<T>(act: impl FnOnce() -> T) -> (T, u32) {
    let before = LOOKS.get();
    (act(), LOOKS.get() - before)
}

#[test]
fn a_refused_subscriber_costs_no_search() {
    let (blocks, range) = (Blocks::default(), range(27, 126, 4));
    assert!(blocks.prepare(&range));
    let (mut events, mut refused) = (blocks.events.writer(), Refused::default());
    let mut hold = |address, now| {
        let search = search((&blocks, &range), ANY, (address, now));
        looks(|| refused.or_search(&search, || search.hold(None, &mut events)))
    };
    let held: Vec<u32> = (0..16).map(|_| hold(7, 0).0.unwrap()).collect();
    assert_eq!(hold(7, 0).0, Err(NoBlock::OverQuota));
    assert_eq!(hold(7, 0), (Err(NoBlock::OverQuota), 0));
    // A port that it gives back is found at once.
    blocks.release(held[3], UDP, 0);
    assert_eq!(hold(7, 0).0, Ok(held[3]));
    assert_eq!(hold(7, 0).0, Err(NoBlock::OverQuota));
    assert_eq!(hold(7, 0), (Err(NoBlock::OverQuota), 0));
}

#[test]
fn full_pools_are_not_searched_for_each_source() {
    let (blocks, range) = (Blocks::default(), range(28, 126, 4));
    assert!(blocks.prepare(&range));
    let mut events = blocks.events.writer();
    let share = Share { blocks: 1, ..ANY };
    let mut hold =
        |address| looks(|| search((&blocks, &range), share, (address, 0)).hold(None, &mut events));
    for address in 1..=range.count() {
        hold(address).0.unwrap();
    }
    // As from forged sources: none of them has a block.
    let refused: Vec<_> = (1..=1_000).map(|it| hold(0x0a00_0000 + it)).collect();
    assert!(refused.iter().all(|it| it.0 == Err(NoBlock::Full)));
    let most = refused.iter().filter(|it| it.1 > 0).count();
    assert!(most <= 20, "{most} of 1,000 share a counter with a subscriber");
}

#[test]
fn two_workers_do_not_both_miss_the_last_block() {
    let (blocks, range) = (Blocks::default(), range(32, 8, 4));
    assert!(blocks.prepare(&range));
    let mut events = blocks.events.writer();
    let share = Share { blocks: 1, ..ANY };
    // Another worker has claimed a block, and goes on later: its claim is behind that of this one, so it is taken away.
    let of = range.subscriber(7, 0);
    let (_, start) = range.home(of);
    let later = range.base + (start + 3) % 8;
    blocks.owned.add(of, true);
    assert!(blocks.block(later).unwrap().claim((of.key(), 1), (1, 4), 0));
    let hold = search((&blocks, &range), share, (7, 0)).hold(None, &mut events);
    assert!(hold.is_ok_and(|id| id != later), "{hold:?}");
    assert!(blocks.block(later).unwrap().state().is_free());
}

#[test]
fn blocks_of_a_former_range_are_not_given_to_others() {
    let blocks = Blocks::default();
    let former = Arc::new(range(32, 8, 4));
    let now = range(32, 4, 8).at(200);
    assert!([&*former, &now].into_iter().all(|it| blocks.prepare(it)));
    let mut events = blocks.events.writer();
    let id = search((&blocks, &former), ANY, (7, 0)).hold(None, &mut events).unwrap();
    blocks.release(id, UDP, 10);
    let (address, first, _) = former.place(id).unwrap();
    let all = [former.clone()];
    let mut hold = |address| {
        let share = Share { blocks: 1, ..ANY };
        let search = Search { former: &all, ..search((&blocks, &now), share, (address, 11)) };
        search.hold(None, &mut events)
    };
    let taken: Vec<u32> = (20..24).filter_map(|it| hold(it).ok()).collect();
    let kept = now.block_of(address, first).unwrap();
    assert!(taken.len() == 3 && !taken.contains(&kept), "{taken:?} {kept}");
    assert_eq!(hold(7), Ok(kept), "its own subscriber may have them");
    let is_kept = |port, source| blocks.is_kept(&all, (0, address, port), (source, 0));
    assert!(is_kept(first, 20) && !is_kept(first, 7) && !is_kept(first + 4, 20));
}

#[test]
fn a_subscriber_grows_to_its_limit_at_one_address() {
    let (blocks, range) = (Blocks::default(), range(30, 8, 4));
    assert!(blocks.prepare(&range));
    let mut events = blocks.events.writer();
    let hold = |events: &mut _| search((&blocks, &range), ANY, (7, 0)).hold(None, events);
    let held: Vec<u32> = (0..16).map(|_| hold(&mut events).unwrap()).collect();
    assert_eq!(hold(&mut events), Err(NoBlock::OverQuota));
    let ids: BTreeSet<u32> = held.iter().copied().collect();
    let addresses: BTreeSet<u32> = ids.iter().map(|id| range.place(*id).unwrap().0).collect();
    assert_eq!((ids.len(), addresses.len()), (4, 1));
    // Another protocol has the same ports again.
    let tcp = Search { protocol: TCP, ..search((&blocks, &range), ANY, (7, 0)) };
    assert!(tcp.hold(None, &mut events).is_ok_and(|id| ids.contains(&id)));
    let mut reported = 0;
    let lost = blocks.events.drain(|it| {
        assert_eq!((it.kind, it.subscriber.address), (EventKind::Allocated, 7));
        reported += 1;
    });
    assert_eq!((reported, lost), (4, 0));
}

#[test]
fn a_block_stays_with_its_subscriber_for_the_timeout() {
    let (blocks, range) = (Blocks::default(), range(32, 1, 4));
    assert!(blocks.prepare(&range));
    let mut events = blocks.events.writer();
    let mut hold =
        |address, now| search((&blocks, &range), ANY, (address, now)).hold(None, &mut events);
    let id = hold(7, 0).unwrap();
    assert_eq!(hold(8, 1), Err(NoBlock::Full));
    blocks.release(id, UDP, 50);
    assert_eq!(
        free_all(&blocks, &range, 169),
        (BlockUse { used: 0, unused: 1, subscribers: 1 }, 0)
    );
    assert_eq!(hold(8, 169), Err(NoBlock::Full), "its ports are in quarantine");
    assert_eq!(hold(7, 169), Ok(id), "its subscriber has it again");
    assert_eq!(free_all(&blocks, &range, 400).1, 0);
    blocks.release(id, UDP, 400);
    assert_eq!(free_all(&blocks, &range, 520), (BlockUse::default(), 1));
    assert_eq!(hold(8, 520), Ok(id));
}

#[test]
fn a_full_address_sends_subscribers_to_the_next_one() {
    let (blocks, range) = (Blocks::default(), range(31, 2, 4));
    assert!(blocks.prepare(&range));
    let mut events = blocks.events.writer();
    let share = Share { blocks: 1, ..ANY };
    let mut hold =
        |address, now| search((&blocks, &range), share, (address, now)).hold(None, &mut events);
    let ids: Vec<u32> = (1..=4).map(|address| hold(address, 0).unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 4);
    assert_eq!(hold(5, 0), Err(NoBlock::Full));
    // Whoever is not at home finds its block again.
    for (address, id) in (1..=4).zip(&ids) {
        assert_eq!(hold(address, 1), Ok(*id));
    }
    for id in ids.iter().chain(&ids) {
        blocks.release(*id, UDP, 2);
    }
    assert_eq!(free_all(&blocks, &range, 200), (BlockUse::default(), 4));
    assert_eq!((1..=4).map(|it| counted(&blocks, &range, it)).sum::<u32>(), 0);
}

#[test]
fn quotas_count_ports_of_all_blocks() {
    let (blocks, range) = (Blocks::default(), range(32, 8, 4));
    assert!(blocks.prepare(&range));
    let mut events = blocks.events.writer();
    let share = Share { blocks: 4, ports: [u32::MAX, 6, u32::MAX, 8] };
    let mut hold = |protocol| {
        let search = Search { protocol, ..search((&blocks, &range), share, (7, 0)) };
        search.hold(None, &mut events)
    };
    let held: Vec<u32> = (0..6).map(|_| hold(UDP).unwrap()).collect();
    assert_eq!(hold(UDP), Err(NoBlock::OverQuota));
    let tcp: Vec<u32> = (0..2).map(|_| hold(TCP).unwrap()).collect();
    assert_eq!(hold(TCP), Err(NoBlock::OverQuota), "8 of all protocols");
    blocks.release(held[0], UDP, 0);
    assert!(hold(TCP).is_ok());
    assert_eq!(blocks.listed(100..108).map(|it| u32::from(it.holders)).sum::<u32>(), 8);
    assert!(tcp.iter().all(|id| held.contains(id)), "no block is allocated in vain");
}

#[test]
fn a_prefix_is_one_subscriber() {
    let range = BlockRange { length: 24, ..range(32, 8, 4) };
    let of = |address| range.subscriber(address, 3);
    assert_eq!(of(0x0a00_0001), of(0x0a00_00ff));
    assert_eq!(of(0x0a00_0101), Subscriber { address: 0x0a00_0100, vrf: 3 });
}

#[test]
fn a_block_stands_for_ports_that_stand_for_it() {
    let pools = vec![
        Prefix4 { network: 0xc000_0208, length: 31 },
        Prefix4 { network: 0xc633_6400, length: 32 },
    ];
    let range = BlockRange { pools, ..range(32, 5, 7) };
    for id in range.base..range.base + range.count() {
        let (address, first, last) = range.place(id).unwrap();
        assert_eq!([first, last].map(|port| range.block_of(address, port)), [Some(id); 2]);
    }
    assert_eq!(range.count(), 15);
    assert_eq!(
        (range.block_of(0xc633_6400, 1023), range.block_of(0xc633_6400, 1059)),
        (None, None)
    );
    assert_eq!((range.block_of(0xc633_6401, 1024), range.place(115)), (None, None));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Hold(u32),
    Release(usize),
    Wait(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..12_u32).prop_map(Step::Hold),
        5 => any::<usize>().prop_map(Step::Release),
        2 => (1..200_u32).prop_map(Step::Wait),
    ]
}

proptest! {
    /// A port is never in two hands, none leaks, and nobody gets a block before its time.
    #[test]
    fn blocks_do_what_a_model_does(
        steps in prop::collection::vec(step(), 1..200),
        (length, per_address, size) in (30..33_u8, 1..6_u16, 1..4_u16),
        limit in 1..4_u32,
    ) {
        let (blocks, range) = (Blocks::default(), range(length, per_address, size));
        assert!(blocks.prepare(&range));
        let mut events = blocks.events.writer();
        let share = Share { blocks: limit, ..ANY };
        // Block to subscriber, holders, and since when there are none.
        let mut model: BTreeMap<u32, (u32, u32, u32)> = BTreeMap::new();
        let (mut held, mut now) = (Vec::new(), 0);
        for step in steps {
            match step {
                Step::Hold(address) => {
                    let own = model.values().filter(|it| it.0 == address).count() as u32;
                    let has_room = model.values().any(|it| it.0 == address && it.1 < size.into());
                    let is_full = model.len() as u32 == range.count();
                    match search((&blocks, &range), share, (address, now)).hold(None, &mut events) {
                        Ok(id) => {
                            let known = model.entry(id).or_insert((address, 0, 0));
                            prop_assert_eq!(known.0, address);
                            known.1 += 1;
                            prop_assert!(known.1 <= u32::from(size));
                            held.push(id);
                        }
                        Err(NoBlock::OverQuota) => prop_assert!(!has_room && own == limit),
                        Err(NoBlock::Full) => prop_assert!(!has_room && is_full),
                    }
                    let own = model.values().filter(|it| it.0 == address).count() as u32;
                    prop_assert!(own <= limit);
                }
                Step::Release(at) if !held.is_empty() => {
                    let id = held.swap_remove(at % held.len());
                    blocks.release(id, UDP, now);
                    let known = model.get_mut(&id).unwrap();
                    (known.1, known.2) = (known.1 - 1, now);
                }
                Step::Release(_) => {}
                Step::Wait(seconds) => {
                    now += seconds;
                    let before = model.len();
                    model.retain(|_, it| it.1 > 0 || now - it.2 < 120);
                    let (sum, freed) = free_all(&blocks, &range, now);
                    prop_assert_eq!((sum.used + sum.unused) as usize, model.len());
                    prop_assert_eq!(freed, before - model.len());
                }
            }
        }
        for id in held {
            blocks.release(id, UDP, now);
        }
        free_all(&blocks, &range, now + 120);
        prop_assert_eq!(blocks.listed(range.base..range.base + range.count()).count(), 0);
        prop_assert_eq!((1..12).map(|it| counted(&blocks, &range, it)).sum::<u32>(), 0);
    }
}

/// Two workers, the same subscribers: limits are those of both together, and nothing leaks.
#[test]
fn workers_share_blocks_and_limits() {
    let (blocks, range) = (Arc::new(Blocks::default()), Arc::new(range(31, 16, 8)));
    assert!(blocks.prepare(&range));
    let share = Share { blocks: 2, ports: [u32::MAX, 12, u32::MAX, u32::MAX] };
    let worker = |seed: u8| {
        let (blocks, range, mut events) = (blocks.clone(), range.clone(), blocks.events.writer());
        std::thread::spawn(move || {
            let (mut held, mut word) = (Vec::new(), u32::from(seed));
            for _ in 0..20_000 {
                word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if word >> 31 == 0 {
                    let address = 1 + (word >> 8) % 10;
                    let found = search((&*blocks, &*range), share, (address, 0));
                    let found = Search { worker: seed, ..found };
                    held.extend(found.hold(None, &mut events));
                } else if !held.is_empty() {
                    let id = held.swap_remove((word >> 8) as usize % held.len());
                    blocks.release(id, UDP, 0);
                }
                if word.is_multiple_of(64) {
                    for it in blocks.listed(range.base..range.base + range.count()) {
                        assert!(it.ports[1] <= 8, "{it:?}");
                    }
                }
            }
            held
        })
    };
    let workers = [worker(1), worker(2)];
    let held: Vec<u32> = workers.into_iter().flat_map(|it| it.join().unwrap()).collect();
    let mut of_each: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for it in blocks.listed(range.base..range.base + range.count()) {
        let known = of_each.entry(it.subscriber.address).or_default();
        *known = (known.0 + 1, known.1 + u32::from(it.holders));
    }
    assert!(of_each.values().all(|it| it.0 <= 2 && it.1 <= 12), "{of_each:?}");
    assert_eq!(of_each.values().map(|it| it.1).sum::<u32>() as usize, held.len());
    held.into_iter().for_each(|id| blocks.release(id, UDP, 0));
    assert_eq!(free_all(&blocks, &range, 120).0, BlockUse::default());
}
