//! What the forwarder requires of every driver.
//!
//! A driver with two ends is tested as a [`Pair`]: two ports joined back to back.
//! To add one, write a function that makes such a pair and one test that gives it
//! to [`conform`], in the file of its kind.

#[cfg(feature = "dpdk")]
mod dpdk;
#[path = "../harness/mod.rs"]
mod harness;
mod linux;
mod memif;
mod memory;

use std::any::Any;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use stoa_engine::pool::{FRAME_MAX, HugePages};
use stoa_engine::{Doze, Pool};

use harness::{End, until};

/// Two ports joined back to back, both up.
struct Pair {
    near: End,
    far: End,
    /// What must live as long as the pair: folders, namespaces.
    _keep: Box<dyn Any>,
}

/// A frame that carries its number: Ethernet with a local experimental type, so that a
/// kernel in between leaves it alone.
fn frame(number: usize, length: usize) -> Vec<u8> {
    let mut frame = vec![0; length.max(20)];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[14..18].copy_from_slice(&(number as u32).to_be_bytes());
    for (at, byte) in frame.iter_mut().enumerate().skip(18) {
        *byte = (at * 7 + number) as u8;
    }
    frame.truncate(length);
    frame
}

fn is_ours(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[0x88, 0xb5])
}

/// Sends all frames from one end while receiving at the other; returns what came.
fn carry(from: &mut End, to: &mut End, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut sent, mut got) = (0, Vec::new());
    until("all frames", || {
        sent += from.send(&frames[sent..]);
        got.extend(to.receive().into_iter().filter(|frame| is_ours(frame)));
        (got.len() >= frames.len()).then_some(())
    });
    assert_eq!(sent, frames.len());
    got
}

/// Frames of every size come in order and whole, in both directions.
fn frames_come_whole_and_in_order(pair: &mut Pair) {
    let frames: Vec<Vec<u8>> = (60..=1514).map(|length| frame(length, length)).collect();
    assert!(carry(&mut pair.near, &mut pair.far, &frames) == frames);
    assert!(carry(&mut pair.far, &mut pair.near, &frames) == frames);
}

/// More frames than any ring holds: the driver takes what it can and reports how much.
fn a_full_ring_takes_fewer_and_loses_none(pair: &mut Pair) {
    let frames: Vec<Vec<u8>> = (0..3000).map(|number| frame(number, 60)).collect();
    // The far end does not receive until the near end is full, or takes it all.
    let mut sent = 0;
    while sent < 1500 {
        let taken = pair.near.send(&frames[sent..1500.min(sent + 256)]);
        assert!(taken <= 256);
        if taken == 0 {
            break;
        }
        sent += taken;
    }
    let mut got = Vec::new();
    until("all frames", || {
        got.extend(pair.far.receive().into_iter().filter(|frame| is_ours(frame)));
        if got.len() + 256 > sent {
            sent += pair.near.send(&frames[sent..]);
        }
        (got.len() == frames.len()).then_some(())
    });
    assert!(got == frames);
}

/// Runts and giants may be dropped, but what comes is whole and neighbours go on.
fn unusual_sizes_do_no_harm(pair: &mut Pair) {
    for length in [14, 15, 20, 59, 1515, 2000, 2048, 2049, FRAME_MAX] {
        let sample = frame(length, length);
        let mut taken = pair.near.send(std::slice::from_ref(&sample));
        let after = frame(1, 60);
        let mut came = Vec::new();
        until("the frame after", || {
            if taken < 2 {
                taken = 1 + pair.near.send(std::slice::from_ref(&after));
            }
            came.extend(pair.far.receive().into_iter().filter(|frame| is_ours(frame)));
            came.contains(&after).then_some(())
        });
        // A link may fill short frames up to 60 bytes.
        let is_sample =
            |frame: &Vec<u8>| frame.starts_with(&sample) && frame.len() <= sample.len().max(60);
        assert!(came.iter().all(|frame| is_sample(frame) || *frame == after), "{length}");
    }
}

fn is_readable(end: &End, milliseconds: u16) -> bool {
    let Some(descriptor) = end.queues.rx[0].descriptor() else { return false };
    let mut watched = [PollFd::new(descriptor, PollFlags::POLLIN)];
    poll(&mut watched, PollTimeout::from(milliseconds)).unwrap() > 0
}

/// Goes to sleep with nothing to wake it, as a worker does; `false`: the driver signals
/// by other means than a descriptor.
fn fall_asleep(end: &mut End) -> bool {
    until("a quiet sleep", || {
        while !end.receive().is_empty() {}
        let doze = end.queues.rx[0].doze();
        let is_quiet = match doze {
            Doze::OnDescriptor => !is_readable(end, 0),
            Doze::Awake => false,
            Doze::After(_) | Doze::Never => true,
        };
        if !is_quiet {
            end.queues.rx[0].wake();
        }
        is_quiet.then_some(doze == Doze::OnDescriptor)
    })
}

/// A sleeper is woken by a frame, and not before; again and again.
fn a_sleeper_is_woken(pair: &mut Pair) {
    for number in 0..3 {
        let by_descriptor = fall_asleep(&mut pair.far);
        let frame = frame(number, 60);
        until("it is taken", || (pair.near.send(std::slice::from_ref(&frame)) == 1).then_some(()));
        if by_descriptor {
            assert!(is_readable(&pair.far, 10_000), "not woken");
        }
        pair.far.queues.rx[0].wake();
        until("the frame", || pair.far.receive().contains(&frame).then_some(()));
    }
    // A frame that comes before the sleep is received, or wakes at once.
    let frame = frame(9, 60);
    until("it is taken", || (pair.near.send(std::slice::from_ref(&frame)) == 1).then_some(()));
    match pair.far.queues.rx[0].doze() {
        Doze::OnDescriptor => assert!(is_readable(&pair.far, 10_000), "overslept"),
        other => assert_ne!(other, Doze::Never),
    }
    pair.far.queues.rx[0].wake();
    until("the frame", || pair.far.receive().contains(&frame).then_some(()));
}

/// One end goes away in the middle of traffic: the other one notes it or goes on.
fn closing_does_no_harm(mut pair: Pair) {
    let frames: Vec<Vec<u8>> = (0..256).map(|number| frame(number, 200)).collect();
    pair.near.send(&frames);
    let Pair { mut near, far, _keep } = pair;
    drop(far);
    for _ in 0..10 {
        if !near.queues.tx.is_empty() {
            near.send(&frames);
            near.receive();
        }
        near.service();
    }
    drop(near);
}

/// Frames of all sizes up to 9,000 bytes of packet, among small ones; without jumbo
/// buffers they are shed and counted, and small ones go on.
fn jumbo_frames_come_whole(mut pair: Pair, pool: &'static Pool) {
    let frames: Vec<Vec<u8>> = (0..160)
        .map(|number| frame(number, if number % 4 == 0 { 60 } else { 1000 + 50 * number }))
        .chain([2112, 2113, 4095, 9000, 9014].map(|length| frame(length, length)))
        .collect();
    let carry_some = |pair: &mut Pair, frames: &[Vec<u8>]| {
        // No more at once than the smallest ring takes in 256 bytes each.
        for some in frames.chunks(1) {
            assert!(carry(&mut pair.near, &mut pair.far, some) == some);
            assert!(carry(&mut pair.far, &mut pair.near, some) == some);
        }
    };
    carry_some(&mut pair, &frames);
    assert_eq!(pool.jumbo_free(), u64::from(pool.jumbo_count()), "all are back");
    let large = frame(1, 9014);
    assert_eq!(pair.near.send(std::slice::from_ref(&large)), 1);
    let held: Vec<_> = std::iter::from_fn(|| pool.jumbo_packet()).collect();
    until("the large frame is missed", || {
        assert!(pair.far.receive().iter().all(|frame| !is_ours(frame)));
        (pair.far.port.missed() > 0).then_some(())
    });
    carry_some(&mut pair, &frames[..1]);
    drop(held);
    carry_some(&mut pair, std::slice::from_ref(&large));
    drop(pair);
    let free = (pool.free(), pool.jumbo_free());
    assert_eq!(free, (u64::from(pool.count()), u64::from(pool.jumbo_count())));
}

/// All requirements on a driver with two ends.
fn conform(make: impl Fn(&'static Pool) -> Pair) {
    conform_while_open(&make);
    let pool = Pool::leak(4096, HugePages::Never).unwrap();
    closing_does_no_harm(make(pool));
    assert_eq!(pool.free(), 4096, "buffers leaked at close");
}

/// The requirements while both ends exist.
fn conform_while_open(make: impl Fn(&'static Pool) -> Pair) {
    type Case = (&'static str, fn(&mut Pair));
    let cases: [Case; 4] = [
        ("whole and in order", frames_come_whole_and_in_order),
        ("full ring", a_full_ring_takes_fewer_and_loses_none),
        ("unusual sizes", unusual_sizes_do_no_harm),
        ("sleeper", a_sleeper_is_woken),
    ];
    for (name, case) in cases {
        println!("{name}");
        let pool = Pool::leak(4096, HugePages::Never).unwrap();
        let mut pair = make(pool);
        case(&mut pair);
        drop(pair);
        assert_eq!(pool.free(), 4096, "{name}: buffers leaked");
    }
}
