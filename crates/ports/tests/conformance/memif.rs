//! memif, master to slave in one process.

use std::sync::atomic::{AtomicU32, Ordering};

use stoa_engine::Pool;
use stoa_engine::pool::HugePages;
use stoa_ports::{MemifConfig, MemifRole, PortConfig};

use crate::harness::{End, until};
use crate::{Pair, carry, conform, frame, jumbo_frames_come_whole};

static SOCKETS: AtomicU32 = AtomicU32::new(0);

fn memif(pool: &'static Pool, ring_size: u32, buffer_size: u32, master_is_near: bool) -> Pair {
    memif_with(pool, [ring_size, buffer_size, 0], [1, 1], master_is_near)
}

fn memif_with(
    pool: &'static Pool,
    [ring_size, buffer_size, mtu]: [u32; 3],
    [rx_queues, tx_queues]: [u16; 2],
    master_is_near: bool,
) -> Pair {
    let number = SOCKETS.fetch_add(1, Ordering::Relaxed);
    // An abstract name leaves nothing behind.
    let socket = format!("@stoa-conformance-{}-{number}", std::process::id());
    let end = |role| {
        let config = MemifConfig {
            socket: socket.clone(),
            role,
            ring_size,
            buffer_size,
            rx_queues,
            tx_queues,
            mtu,
            secret: Some("open sesame".into()),
            ..MemifConfig::default()
        };
        End::open(&PortConfig::Memif(config), pool)
    };
    let (mut master, mut slave) = (end(MemifRole::Master), end(MemifRole::Slave));
    until("the link", || {
        master.service();
        slave.service();
        let is_up = !master.queues.rx.is_empty() && !slave.queues.rx.is_empty();
        is_up.then_some(())
    });
    let (near, far) = if master_is_near { (master, slave) } else { (slave, master) };
    Pair { near, far, _keep: Box::new(()) }
}

#[test]
fn memif_master_to_slave() {
    conform(|pool| memif(pool, 0, 0, true));
}

#[test]
fn memif_slave_to_master() {
    conform(|pool| memif(pool, 0, 0, false));
}

#[test]
fn memif_with_small_rings_and_chained_buffers() {
    conform(|pool| memif(pool, 64, 256, true));
    conform(|pool| memif(pool, 64, 256, false));
}

#[test]
fn memif_carries_jumbo_frames_in_chains_of_buffers() {
    for master_is_near in [true, false] {
        for [ring, buffer] in [[0, 0], [64, 256], [64, 16_384]] {
            let pool = Pool::leak(4096, HugePages::Never).unwrap();
            let pair = memif_with(pool, [ring, buffer, 9000], [1, 1], master_is_near);
            jumbo_frames_come_whole(pair, pool);
        }
    }
}

#[test]
fn memif_queues_are_as_many_as_the_slave_brings() {
    let pool = Pool::leak(4096, HugePages::Never).unwrap();
    let pair = memif_with(pool, [0; 3], [3, 2], true);
    let Pair { near: mut master, far: mut slave, _keep } = pair;
    assert_eq!((slave.queues.rx.len(), slave.queues.tx.len()), (3, 2));
    assert_eq!((master.queues.rx.len(), master.queues.tx.len()), (2, 3));
    for number in 0..3 {
        assert!(carry(&mut master, &mut slave, &[frame(number, 60)]) == [frame(number, 60)]);
        master.queues.tx.rotate_left(1);
        slave.queues.rx.rotate_left(1);
    }
    for number in 0..2 {
        assert!(carry(&mut slave, &mut master, &[frame(number, 60)]) == [frame(number, 60)]);
        slave.queues.tx.rotate_left(1);
        master.queues.rx.rotate_left(1);
    }
}
