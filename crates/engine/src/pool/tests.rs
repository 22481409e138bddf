//! The two stocks of a pool: every buffer has one owner, and comes back to its own stock.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::packet_fifo::PacketFifo;
use crate::vector::Vector;

fn pool() -> &'static Pool {
    Pool::leak(512, HugePages::Never).unwrap()
}

fn all_free(pool: &Pool) -> bool {
    (pool.free(), pool.jumbo_free()) == (u64::from(pool.count()), u64::from(pool.jumbo_count()))
}

#[test]
fn a_jumbo_buffer_is_five_slots_of_its_own() {
    let pool = pool();
    let mut jumbos: Vec<_> = std::iter::from_fn(|| pool.jumbo_packet()).collect();
    assert_eq!(jumbos.len(), JUMBOS as usize);
    assert_eq!(pool.jumbo_free(), 0);
    let mut plain: Vec<_> = std::iter::from_fn(|| pool.packet()).collect();
    assert_eq!(plain.len(), 512);
    // Each is written whole: none overlaps another.
    for (number, packet) in jumbos.iter_mut().chain(&mut plain).enumerate() {
        let capacity = packet.capacity();
        assert!(packet.set_span(0, capacity) && !packet.set_span(1, capacity));
        packet.bytes_mut().fill(number as u8);
    }
    for (number, packet) in jumbos.iter().chain(&plain).enumerate() {
        assert!(packet.bytes().iter().all(|byte| *byte == number as u8));
    }
    assert!(jumbos[0].set_bytes(&[7; JUMBO_FRAME_MAX]));
    assert!(!jumbos[0].set_bytes(&[7; JUMBO_FRAME_MAX + 1]));
    assert!(!plain[0].set_bytes(&[7; FRAME_MAX + 1]));
    drop((jumbos, plain));
    assert!(all_free(pool));
}

#[test]
fn a_pool_that_nobody_uses_any_more_is_used_again_or_given_back() {
    let former = pool();
    let again = |former: &'static Pool, count: u32| {
        Pool::leak_after(&mut vec![former], &[(None, count)], HugePages::Never).unwrap()[0]
    };
    let taken = |pool: &'static Pool| pool.packet().unwrap().bytes_mut().as_ptr();
    let mut packet = former.packet().unwrap();
    assert!(packet.set_bytes(&[7; 100]));
    let at = packet.bytes_mut().as_ptr();
    drop(packet);
    let same = again(former, 512);
    assert!(std::ptr::eq(former, same));
    // A buffer is in use: the pool stays as it is.
    let mut held = former.packet().unwrap();
    assert!(held.set_bytes(&[8; 100]));
    let other = again(former, 1024);
    assert_eq!((held.bytes(), other.count()), ([8; 100].as_slice(), 1024));
    assert_eq!(held.bytes_mut().as_ptr(), at);
    drop(held);
    let other = again(former, 1024);
    assert_ne!(taken(other), at);
    let mut fresh = former.packet().unwrap();
    assert!(fresh.set_span(HEADROOM, 100));
    assert_eq!(fresh.bytes(), [0; 100], "its memory went back to the system");
}

/// The second of two nodes cannot have its pool: that of the first is kept for the next attempt, and one that
/// has given its memory back works when it is used again.
#[test]
fn a_pool_is_kept_when_another_one_fails() {
    let [near, far] = [Some(NumaNode(0)), Some(NumaNode(1))];
    let mut known = Vec::new();
    let mut request = |second: u32| {
        let requested = [(near, 512), (far, second)];
        (Pool::leak_after(&mut known, &requested, HugePages::Never), known.clone())
    };
    let (refused, kept) = request(1);
    assert!(matches!(refused, Err(PoolError::Count(1))));
    let first = kept[0];
    assert_eq!((kept.len(), first.node()), (1, near));
    let (refused, kept) = request(1);
    assert!(refused.is_err() && kept.len() == 1);
    let (made, kept) = request(512);
    let made = made.unwrap();
    assert!(std::ptr::eq(made[0], first) && made[1].node() == far && kept.len() == 2);
    // The second one goes back to the system, and is used again.
    let (made, kept) = request(1024);
    assert!(std::ptr::eq(made.unwrap()[0], first) && kept.len() == 3);
    let (made, kept) = request(512);
    assert!(std::ptr::eq(made.unwrap()[1], kept[1]) && kept.len() == 3);
    let mut packet = kept[1].packet().unwrap();
    assert!(packet.set_bytes(&[7; 100]));
}

/// Reserved huge pages that a pool has given back may be gone when it is requested again.
#[test]
fn huge_pages_that_were_given_back_are_taken_before_they_are_used() {
    let mut known = Vec::new();
    let mut request = |count: u32| {
        let made = Pool::leak_after(&mut known, &[(None, count)], HugePages::IfAvailable).unwrap();
        (made[0], known.clone())
    };
    let (first, _) = request(512);
    let (other, _) = request(600);
    let (again, known) = request(512);
    // Without huge pages (few test machines reserve any), the kernel takes pages as they are written to.
    assert!(std::ptr::eq(again, first) || again.backing() != Backing::Huge);
    assert!(known.len() == 2 || first.backing() == Backing::Huge);
    for pool in [again, other] {
        if pool.has_memory() {
            let mut packet = pool.packet().unwrap();
            assert!(packet.set_bytes(&[7; 100]));
        }
    }
}

#[test]
fn a_lane_moves_to_a_jumbo_buffer_with_its_data() {
    let pool = pool();
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    assert_eq!(cache.fill(&mut vector, 3), 3);
    vector.length[1] = 114;
    vector.bytes_mut(1).fill(5);
    assert!(vector.advance(1, 14));
    assert!(cache.enlarge(&mut vector, 1) && cache.enlarge(&mut vector, 1));
    assert_eq!(pool.jumbo_free(), u64::from(JUMBOS) - 1, "once");
    assert_eq!(vector.bytes(1), [5; 100]);
    assert!(vector.advance(1, -14));
    assert_eq!(vector.bytes(1), [5; 114], "with its link-layer header");
    assert_eq!((vector.capacity(0), vector.capacity(1)), (SLOT, JUMBO));
    assert_eq!(vector.buffer_mut(1).len(), JUMBO);
    vector.length[1] = 9014;
    vector.length[0] = 9014;
    assert_eq!((vector.bytes(1).len(), vector.bytes(0).len()), (9014, FRAME_MAX));
    let mut packet_fifo = PacketFifo::new(pool, 8);
    assert_eq!(packet_fifo.put(&mut vector, 0), 3);
    assert_eq!(packet_fifo.take().map(|packet| packet.bytes().len()), Some(FRAME_MAX), "cut");
    assert_eq!(packet_fifo.take().map(|packet| packet.bytes().len()), Some(9014));
    drop((packet_fifo, vector, cache));
    assert!(all_free(pool));
}

#[test]
fn without_jumbo_buffers_a_lane_stays_as_it_is() {
    let pool = pool();
    let held: Vec<_> = std::iter::from_fn(|| pool.jumbo_packet()).collect();
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    assert_eq!(cache.fill(&mut vector, 1), 1);
    assert!(!cache.enlarge(&mut vector, 0));
    assert!(cache.jumbo_packet().is_none());
    assert_eq!((vector.capacity(0), cache.jumbo_exhausted), (SLOT, 2));
    drop((held, vector, cache));
    assert!(all_free(pool));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Any mix of filling, enlarging, taking, pushing and freeing keeps every buffer
    /// with one owner, and all of them come back.
    #[test]
    fn every_buffer_has_one_owner(steps in proptest::collection::vec((0..6_u8, 0..300_usize), 1..60)) {
        let pool = pool();
        let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
        let mut held = Vec::new();
        for (what, n) in steps {
            match what {
                0 => drop(cache.fill(&mut vector, n)),
                1 if !vector.is_empty() => {
                    let lane = n % vector.len();
                    cache.enlarge(&mut vector, lane);
                }
                2 if !vector.is_empty() => held.extend(vector.take(n % vector.len())),
                3 => held.extend(if n % 2 == 0 { cache.packet() } else { cache.jumbo_packet() }),
                4 if !held.is_empty() => {
                    let packet = held.swap_remove(n % held.len());
                    if n % 3 > 0 { drop(packet) } else { held.extend(vector.push(packet).err()) }
                }
                5 => cache.free_from(&mut vector, n),
                _ => {}
            }
            let lanes = vector.buffers()[..vector.len()].iter().copied();
            let mut owners: Vec<u32> = lanes.filter(|id| *id != crate::vector::NONE).collect();
            owners.extend(held.iter().map(crate::Packet::buffer));
            let distinct: BTreeSet<u32> = owners.iter().copied().collect();
            prop_assert_eq!(distinct.len(), owners.len());
            let (plain, jumbo): (Vec<u32>, Vec<u32>) =
                owners.iter().partition(|id| **id < pool.count());
            prop_assert!(jumbo.iter().all(|id| (id - pool.count()).is_multiple_of(JUMBO_SLOTS)));
            prop_assert_eq!(pool.jumbo_free() + jumbo.len() as u64, u64::from(JUMBOS));
            let stock = pool.free() + cache.len() as u64;
            prop_assert_eq!(stock + plain.len() as u64, u64::from(pool.count()));
        }
        drop((held, vector, cache));
        prop_assert!(all_free(pool));
    }
}

/// Runs itself again in a process with little address space.
#[test]
fn a_pool_that_the_system_refuses_is_an_error() {
    const CHILD: &str = "STOA_TEST_LITTLE_MEMORY";
    if std::env::var_os(CHILD).is_some() {
        let refused = Pool::leak(1 << 20, HugePages::Never).err();
        assert!(matches!(refused, Some(PoolError::Memory { .. })), "{refused:?}");
        return;
    }
    // 1 GiB; the pool needs 2.3.
    let script = "ulimit -v 1048576 && exec \"$0\" --exact \"$1\"";
    let name = "pool::tests::a_pool_that_the_system_refuses_is_an_error";
    let program = std::env::current_exe().unwrap();
    let mut child = std::process::Command::new("sh");
    child.args(["-c", script]).arg(program).arg(name).env(CHILD, "1");
    let output = child.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}
