//! Rings whose other side writes invalid values.

use super::*;
use crate::ring::NEXT;
use crate::rx::Doze;

fn pair() -> (Hero, Villain) {
    let mut hero = Hero::new(&config(Role::Master));
    let villain = Villain::meet(&mut hero);
    villain.complete_handshake(&mut hero);
    (hero, villain)
}

#[test]
fn spoiled_frames_are_lost_alone_and_counted() {
    let (mut hero, villain) = pair();
    let end = MEMORY as u32;
    // flags, region, length, offset
    let bad = [
        (0, 1, 60, 4096),
        (0, 65_535, 60, 4096),
        (0, 0, 60, end - 59),
        (0, 0, u32::MAX, 4096),
        (0, 0, u32::MAX, u32::MAX),
        (0, 0, 60, u32::MAX),
        (0, 0, 0, 4096),
        (0, 0, 2049, 4096),
    ];
    let mut head = 0_u16;
    for (number, (flags, region, length, offset)) in bad.into_iter().enumerate() {
        let slot = |ahead: u16| u64::from((head + ahead) % SIZE);
        villain.good(slot(0), 60);
        villain.describe(S2M, slot(1), flags, region, length, offset);
        villain.good(slot(2), 61);
        head += 3;
        villain.head(S2M).store(head, Ordering::Release);
        let lengths: Vec<usize> = hero.receive().iter().map(Vec::len).collect();
        assert_eq!(lengths, [60, 61], "{number}");
        assert_eq!(hero.memif.left_out(), number as u64 + 1);
        assert_eq!(villain.tail(S2M).load(Ordering::Acquire), head);
    }
    hero.service();
    assert!(hero.down.is_none());
}

#[test]
fn nothing_is_read_behind_the_memory() {
    let (mut hero, villain) = pair();
    // Frames that end where the memory does, so that their last lines are not whole there.
    let lengths: Vec<u32> = (1..=u32::from(SIZE)).map(|at| at * 5).collect();
    for (slot, length) in lengths.iter().enumerate() {
        villain.describe(S2M, slot as u64, 0, 0, *length, MEMORY as u32 - length);
    }
    villain.head(S2M).store(SIZE, Ordering::Release);
    let found: Vec<_> = hero.receive().iter().map(|frame| frame.len() as u32).collect();
    assert_eq!(found, lengths);
    assert_eq!(hero.memif.left_out(), 0);
}

#[test]
fn chains_are_joined_when_they_fit() {
    let (mut hero, villain) = pair();
    for (slot, length, flags) in [(0, 100, NEXT), (1, 200, NEXT), (2, 300, 0)] {
        villain.describe(S2M, slot, flags, 0, length, (BUFFERS + slot * 2048) as u32);
    }
    // Too long in all, and then one that ends.
    for (slot, flags) in [(3, NEXT), (4, NEXT), (5, 0)] {
        villain.describe(S2M, slot, flags, 0, 2048, (BUFFERS + slot * 2048) as u32);
    }
    villain.good(6, 64);
    villain.head(S2M).store(7, Ordering::Release);
    let lengths: Vec<usize> = hero.receive().iter().map(Vec::len).collect();
    assert_eq!(lengths, [600, 64]);
    assert_eq!(hero.memif.left_out(), 1);
}

#[test]
fn frames_that_nobody_looks_at_are_counted_once() {
    let (mut hero, villain) = pair();
    // Two frames, the second of three pieces whose last has not come yet.
    villain.good(0, 60);
    for (slot, flags) in [(1, NEXT), (2, NEXT), (3, 0)] {
        villain.describe(S2M, slot, flags, 0, 100, (BUFFERS + slot * 2048) as u32);
    }
    villain.good(4, 61);
    let receiver = |hero: &mut Hero| hero.rings.as_mut().unwrap().receivers[0].discard();
    villain.head(S2M).store(3, Ordering::Release);
    assert_eq!(receiver(&mut hero), (2, 260));
    assert_eq!(villain.tail(S2M).load(Ordering::Acquire), 3);
    villain.head(S2M).store(4, Ordering::Release);
    assert_eq!(receiver(&mut hero), (0, 100), "the rest of a frame is none");
    villain.head(S2M).store(5, Ordering::Release);
    assert_eq!(hero.receive().iter().map(Vec::len).collect::<Vec<_>>(), [61]);
    assert_eq!(receiver(&mut hero), (0, 0));
}

#[test]
fn a_chain_without_end_holds_nobody_up() {
    let (mut hero, villain) = pair();
    let mut head = 0_u16;
    for slot in 0..u64::from(SIZE) {
        villain.describe(S2M, slot, NEXT, 0, 60, 4096);
    }
    for _ in 0..5 {
        head = head.wrapping_add(SIZE);
        villain.head(S2M).store(head, Ordering::Release);
        assert!(hero.receive().is_empty());
        assert_eq!(villain.tail(S2M).load(Ordering::Acquire), head, "consumed");
    }
    assert_eq!(hero.memif.left_out(), 1, "one endless frame");
    villain.good(0, 60);
    villain.good(1, 61);
    villain.head(S2M).store(head.wrapping_add(2), Ordering::Release);
    // The first good descriptor is the end of the endless frame.
    assert_eq!(hero.receive().len(), 1);
}

#[test]
fn a_jumping_head_costs_the_link() {
    for jump in [SIZE + 1, 30_000, 65_535] {
        let (mut hero, villain) = pair();
        villain.head(S2M).store(jump, Ordering::Release);
        assert!(hero.receive().is_empty());
        assert!(hero.wait_down().contains("jumped"));
        assert_eq!(hero.send(60), 0);
        Villain::meet(&mut hero).complete_handshake(&mut hero);
        assert_eq!(hero.memif.left_out(), 0);
    }
}

#[test]
fn buffers_that_do_not_exist_cost_the_link() {
    for (region, length, offset) in
        [(1, 2048, 4096), (0, 2048, MEMORY as u32), (0, u32::MAX, 0), (0, 0, 0)]
    {
        let (mut hero, villain) = pair();
        villain.describe(M2S, 0, 0, region, length, offset);
        villain.head(M2S).store(1, Ordering::Release);
        assert_eq!(hero.send(60), 0);
        assert!(hero.wait_down().contains("outside its memory"));
    }
}

#[test]
fn a_frame_waits_for_enough_buffers() {
    let (mut hero, villain) = pair();
    assert_eq!(hero.send(60), 0, "nothing offered");
    for slot in 0..4 {
        villain.describe(M2S, slot, 0, 0, 32, (BUFFERS + slot * 2048) as u32);
    }
    villain.head(M2S).store(1, Ordering::Release);
    assert_eq!(hero.send(60), 0, "half a frame fits");
    villain.head(M2S).store(2, Ordering::Release);
    assert_eq!(hero.send(60), 1);
    assert_eq!(villain.tail(M2S).load(Ordering::Acquire), 2);
    assert_eq!(villain.word(M2S + 128).load(Ordering::Relaxed), NEXT);
    assert_eq!(villain.word(M2S + 144).load(Ordering::Relaxed), 0);
    assert_eq!(villain.word(M2S + 148).load(Ordering::Relaxed), 28, "the rest");
}

#[test]
fn a_sleeper_asks_for_interrupts() {
    let (mut hero, villain) = pair();
    let flags = || villain.word(S2M + 4).load(Ordering::Relaxed);
    assert_eq!(flags(), 1, "polls");
    let receiver = &mut hero.rings.as_mut().unwrap().receivers[0];
    assert_eq!(receiver.doze(), Doze::OnDescriptor);
    assert_eq!(flags(), 0, "sleeps");
    receiver.wake();
    assert_eq!(flags(), 1);
    villain.good(0, 60);
    villain.head(S2M).store(1, Ordering::Release);
    assert_eq!(receiver.doze(), Doze::Awake);
    villain.head(S2M).store(9999, Ordering::Release);
    assert_eq!(receiver.doze(), Doze::Never);
}

/// Rings of an ended link can still be used safely, and carry no frames.
#[test]
fn rings_end_with_their_link_and_their_memory_does_not() {
    for end in 0..3 {
        let (mut hero, villain) = pair();
        let mut rings = hero.rings.take().unwrap();
        villain.good(0, 60);
        villain.head(S2M).store(1, Ordering::Release);
        villain.head(M2S).store(SIZE, Ordering::Release);
        match end {
            0 => {
                drop(villain);
                hero.wait_down();
            }
            1 => {
                hero.memif.set_enabled(false);
                hero.wait_down();
            }
            _ => {}
        }
        drop(hero.memif);
        let receiver = &mut rings.receivers[0];
        assert_eq!((receiver.ready(), receiver.receive(|_| {})), (0, 0));
        assert_eq!(receiver.doze(), Doze::Never);
        receiver.wake();
        assert_eq!(rings.senders[0].batch().put(&[7; 60]), Err(crate::NoRoom::Now));
    }
}
