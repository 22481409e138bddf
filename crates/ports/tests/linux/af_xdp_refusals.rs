//! `af-xdp`: every frame that the kernel refuses after it took the descriptors is reported.

use stoa_engine::Refused;

use crate::af_xdp::config;
use crate::peer::{is_plain, plain};
use crate::side::{Side, join, namespaces};

/// What the kernel throws away after it took the descriptors: here, frames that the far end
/// has no space for in its MTU.
#[test]
fn what_the_kernel_refuses_later_is_reported_in_full() {
    let Some(spaces) = namespaces("what_the_kernel_refuses_later") else { return };
    join(&spaces);
    spaces[1].ip(&["link", "set", "far0", "mtu", "500"]).expect("mtu");
    let mut near = Side::open(&config(&spaces[0], "near0"));
    let mut far = Side::open(&config(&spaces[1], "far0"));
    let is_long = |number: u32| number % 3 == 1 || (20..200).contains(&number);
    let frame =
        |number| plain(number, &[], if is_long(number) { 1000 + number as usize } else { 60 });
    // One burst, which takes more system calls than one burst may have.
    let frames: Vec<_> = (0..250).map(frame).collect();
    let long = frames.iter().filter(|frame| frame.len() > 60);
    let all = long.fold(Refused::default(), |all, frame| Refused {
        packets: all.packets + 1,
        bytes: all.bytes + frame.len() as u64,
    });
    assert_eq!(near.send(&frames), 250);
    let mut refused = near.queues.tx[0].refused();
    let long = (0..250).filter(|number| is_long(*number)).map(|number| number as usize);
    let expected: Vec<_> = long.take(refused.packets as usize).collect();
    assert_eq!(near.marked, expected, "those that were refused within the call");
    assert!((1..all.packets).contains(&refused.packets), "{refused:?}");
    // The receiving half goes on where the sending one has stopped.
    assert_eq!(near.queues.rx[0].doze(), stoa_engine::Doze::After(50));
    crate::side::until("all are reported", || {
        near.receive_now();
        refused += near.queues.tx[0].refused();
        refused.packets >= all.packets
    });
    assert_eq!(refused, all);
    let short: Vec<_> = frames.iter().filter(|frame| frame.len() == 60).cloned().collect();
    assert_eq!(far.receive(short.len(), is_plain), short);
    assert_eq!(near.queues.rx[0].doze(), stoa_engine::Doze::OnDescriptor);
    let detail = near.port.detail();
    assert!(detail.contains(&format!("{} frames refused", all.packets)), "{detail}");
}

/// A queue that goes leaves nothing untold, and its other half touches nothing of it any more.
#[test]
fn what_a_queue_leaves_behind_is_reported() {
    let Some(spaces) = namespaces("what_a_queue_leaves_behind") else { return };
    join(&spaces);
    spaces[1].ip(&["link", "set", "far0", "mtu", "500"]).expect("mtu");
    let mut near = Side::open(&config(&spaces[0], "near0"));
    // Each is refused, and one burst has too few system calls to report all.
    let frames: Vec<_> = (0..250).map(|number| plain(number, &[], 1000)).collect();
    assert_eq!(near.send(&frames), 250);
    let mut refused = near.queues.tx[0].refused();
    let left = near.queues.tx[0].close();
    refused += near.queues.tx[0].refused();
    assert!(refused.packets > 0 && left.packets > 0, "{refused:?} {left:?}");
    near.receive_now();
    assert_eq!(near.queues.tx[0].refused(), Refused::default());
    refused += left;
    assert_eq!(refused, Refused { packets: 250, bytes: 250_000 });
}

/// Both halves at once, on threads of their own.
#[test]
fn refusals_are_right_when_two_threads_share_a_queue() {
    let Some(spaces) = namespaces("refusals_with_two_threads") else { return };
    join(&spaces);
    spaces[1].ip(&["link", "set", "far0", "mtu", "500"]).expect("mtu");
    let mut near = Side::open(&config(&spaces[0], "near0"));
    let mut rx = near.queues.rx.remove(0);
    let pool = near.pool.pool();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let (mut refused, mut expected, mut taken) = (Refused::default(), Refused::default(), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut cache = stoa_engine::PoolCache::new(pool);
            let mut vector = stoa_engine::Vector::new(pool);
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                rx.receive(&mut vector, &mut cache);
                cache.free_from(&mut vector, 0);
            }
        });
        for burst in 0..100u32 {
            let size = |number: u32| if (burst + number).is_multiple_of(4) { 60 } else { 900 };
            let frames: Vec<_> = (0..100).map(|number| plain(number, &[], size(number))).collect();
            let now = near.send(&frames);
            taken += now;
            for frame in frames[..now].iter().filter(|frame| frame.len() > 60) {
                expected += Refused { packets: 1, bytes: frame.len() as u64 };
            }
            refused += near.queues.tx[0].refused();
        }
        let end = std::time::Instant::now() + crate::side::DEADLINE;
        while refused.packets < expected.packets && std::time::Instant::now() < end {
            refused += near.queues.tx[0].refused();
            std::thread::yield_now();
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!((refused, taken > 0), (expected, true));
}
