//! Fragments in any order and at any worker against those in order at one.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

use super::*;

const PLENTY: [usize; 2] = [1_000, 1_000];

/// A fragment: its packet, and its place there.
type Item = (u32, u16);

fn key(identification: u32) -> Key {
    let (source, destination) = (0xffff_0a00_0000 + u128::from(identification % 3), 9);
    Key { vrf: 0, source, destination, protocol: 17, identification }
}

/// The fragment of this number, of so many.
fn piece(number: u16, count: u16) -> Piece {
    Piece { start: number * 2, end: number * 2 + 2, is_last: number + 1 == count }
}

/// What becomes of a fragment: what leaves, in order, and how many are dropped.
fn offer(
    order: &mut Order<Item>,
    (item, piece): (Item, Piece),
    now: u64,
    left: &mut Vec<Item>,
) -> u64 {
    let mut released = Vec::new();
    let key = key(item.0);
    let decision = order.decide((&key, piece), (0, PLENTY), now, |item| released.push(item));
    let mut dropped = 0;
    match decision {
        Decision::Pass | Decision::Full => left.push(item),
        Decision::Wait(of) => order.held.push(&of, item).unwrap(),
        Decision::Overlap => dropped = 1 + order.forget(&key),
    }
    left.extend(released);
    dropped
}

proptest! {
    /// In time, all fragments leave, the first one of each packet first and once.
    #[test]
    fn any_order_becomes_one_that_begins_with_the_first(
        counts in prop::collection::vec(1..9_u16, 1..12),
        chances in prop::collection::vec(any::<u64>(), 96),
        workers in 1..4_usize,
    ) {
        let mut items: Vec<(u64, Item)> = Vec::new();
        for (packet, count) in (0_u32..).zip(&counts) {
            items.extend((0..*count).map(|number| (0, (packet, number))));
        }
        items.iter_mut().zip(&chances).for_each(|(it, chance)| it.0 = *chance);
        items.sort_unstable();
        let mut orders: Vec<Order<Item>> = (0..workers).map(|_| Order::new([5, 7])).collect();
        let mut left: BTreeMap<u32, Vec<Item>> = BTreeMap::new();
        for (at, (_, item)) in items.iter().enumerate() {
            // All fragments of a packet have one home.
            let (home, count) = (item.0 as usize % workers, counts[item.0 as usize]);
            let mut some = Vec::new();
            // Less than the time for which they wait, in all.
            let now = at as u64 * 20;
            prop_assert_eq!(offer(&mut orders[home], (*item, piece(item.1, count)), now, &mut some), 0);
            some.into_iter().for_each(|item| left.entry(item.0).or_default().push(item));
        }
        for (packet, count) in (0_u32..).zip(&counts) {
            let of = left.remove(&packet).unwrap_or_default();
            prop_assert_eq!(of[0].1, 0, "the first one");
            let all: BTreeSet<u16> = of.iter().map(|it| it.1).collect();
            prop_assert_eq!((of.len(), all.len()), (usize::from(*count), usize::from(*count)));
        }
        prop_assert!(orders.iter().all(|order| order.held.is_empty()));
    }

    /// The longest packet on Ethernet leaves whole in whatever order its fragments come.
    #[test]
    fn the_longest_packet_may_come_in_any_order(
        numbers in Just((0..45).collect::<Vec<u16>>()).prop_shuffle(),
    ) {
        let mut order = Order::<Item>::new([5, 7]);
        let mut left = Vec::new();
        for number in &numbers {
            prop_assert_eq!(offer(&mut order, ((1, *number), piece(*number, 45)), 0, &mut left), 0);
        }
        prop_assert_eq!(left[0].1, 0, "the first one");
        prop_assert!(order.held.is_empty());
        left.sort_unstable();
        prop_assert_eq!(left, (0..45).map(|number| (1, number)).collect::<Vec<_>>());
    }

    /// Whatever comes, and however late: each fragment leaves once or is dropped, and none waits for longer than it
    /// should.
    #[test]
    fn each_fragment_has_an_end(
        steps in prop::collection::vec((0..5_u32, 0..6_u16, 1..4_u16, any::<bool>(), 0..400_u64), 1..250),
    ) {
        let (mut order, mut now) = (Order::new([5, 7]), 0);
        let (mut left, mut dropped, mut waits) = (Vec::new(), 0, Vec::new());
        for (number, (packet, start, length, is_last, pause)) in (0_u16..).zip(&steps) {
            now += pause;
            order.expire(now, |item: Item| left.push(item));
            let piece = Piece { start: *start, end: start + length, is_last: *is_last };
            let before = left.len();
            dropped += offer(&mut order, ((*packet, number), piece), now, &mut left);
            prop_assert!(left[before..].iter().all(|it| it.0 == *packet));
            waits.push((number, now));
            let held = u64::from(number) + 1 - left.len() as u64 - dropped;
            prop_assert_eq!(order.held.len() as u64, held);
            // Who waits came a short while ago.
            let young = waits.iter().filter(|(_, at)| now - at < PATIENCE_MS).count();
            prop_assert!(order.held.len() <= young);
        }
        order.expire(now + PATIENCE_MS, |item| left.push(item));
        prop_assert!(order.held.is_empty());
        let all: BTreeSet<u16> = left.iter().map(|it| it.1).collect();
        prop_assert_eq!(all.len(), left.len(), "none leaves twice");
        prop_assert_eq!(left.len() as u64 + dropped, steps.len() as u64);
    }
}

#[test]
fn one_source_leaves_room_for_others() {
    let mut order = Order::<Item>::new([5, 7]);
    let mut left = Vec::new();
    // Of one source: more packets than may wait.
    for packet in (0..300).map(|at| at * 3) {
        offer(&mut order, ((packet, 1), piece(1, 3)), 0, &mut left);
    }
    assert_eq!(order.held.len(), usize::from(WAITING_OF_SOURCE));
    let full = left.len();
    offer(&mut order, ((1, 1), piece(1, 3)), 0, &mut left);
    assert_eq!((left.len(), order.held.len()), (full, usize::from(WAITING_OF_SOURCE) + 1));
    offer(&mut order, ((1, 0), piece(0, 3)), 0, &mut left);
    assert_eq!(left[full..], [(1, 0), (1, 1)]);
}

/// Otherwise others could overlap them unseen.
#[test]
fn fragments_behind_too_many_gaps_are_dropped() {
    let mut order = Order::<Item>::new([5, 7]);
    let mut left = Vec::new();
    let mut offered = |at: u16| offer(&mut order, ((1, at), piece(2 * at, 200)), 0, &mut left);
    let dropped: u64 = (0..30).map(&mut offered).sum();
    assert_eq!((dropped, left.len()), (6, 24));
}

#[test]
fn buffers_of_each_kind_have_a_limit() {
    let mut order = Order::<Item>::new([5, 7]);
    let mut decide = |packet, kind| {
        order.decide((&key(packet), piece(1, 3)), (kind, [0, 1]), 0, |_| panic!("none waits"))
    };
    assert_eq!(decide(1, 0), Decision::Full);
    assert!(matches!(decide(2, 1), Decision::Wait(_)));
}

#[test]
fn the_longest_packet_may_come_last_fragment_first() {
    let mut order = Order::<Item>::new([5, 7]);
    let mut left = Vec::new();
    for number in (0..45).rev() {
        let piece = Piece { start: number * 185, end: (number + 1) * 185, is_last: number == 44 };
        let piece = Piece { end: piece.end.min(1 << 13), ..piece };
        assert_eq!(offer(&mut order, ((1, number), piece), 0, &mut left), 0);
    }
    assert_eq!(left, (0..45).map(|number| (1, number)).collect::<Vec<_>>());
}

#[test]
fn an_overlap_frees_what_waits() {
    let mut order = Order::<Item>::new([5, 7]);
    let mut left = Vec::new();
    let wide = Piece { start: 3, end: 6, is_last: false };
    assert_eq!(offer(&mut order, ((1, 1), piece(1, 4)), 0, &mut left), 0);
    assert_eq!(offer(&mut order, ((1, 9), wide), 0, &mut left), 2);
    assert_eq!(offer(&mut order, ((1, 0), piece(0, 4)), 0, &mut left), 1);
    assert!(left.is_empty() && order.held.is_empty());
}

#[test]
fn the_clock_never_goes_back_nor_wraps() {
    let mut clock = Clock::default();
    assert_eq!(clock.advance(u32::MAX - 5), 0);
    assert_eq!(clock.advance(4), 10);
    // Of another core.
    assert_eq!(clock.advance(2), 10);
    assert_eq!(clock.advance(7), 13);
}
