//! memif against an independent peer: DPDK's `net_memif`, driven by `dpdk-testpmd`.
//!
//! Needs root and Debian's `dpdk` package; without them the tests report it and pass.

mod harness;
#[path = "harness/testpmd.rs"]
mod testpmd;

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use stoa_engine::Pool;
use stoa_engine::pool::HugePages;
use stoa_ports::{MemifConfig, MemifRole, PortConfig};

use harness::{DEADLINE, End, until};
use testpmd::Testpmd;

const SIGSEGV: i32 = 11;

/// Our end, in `role`.
fn end(socket: &str, role: MemifRole, pool: &'static Pool) -> End {
    end_with_queues(socket, role, [1, 1], pool)
}

fn end_with_queues(
    socket: &str,
    role: MemifRole,
    [rx_queues, tx_queues]: [u16; 2],
    pool: &'static Pool,
) -> End {
    let config = MemifConfig {
        socket: socket.into(),
        id: 7,
        role,
        rx_queues,
        tx_queues,
        mtu: 9000,
        ..MemifConfig::default()
    };
    End::open(&PortConfig::Memif(config), pool)
}

fn up(end: &mut End, testpmd: &mut Testpmd) {
    let ended = link(end, testpmd);
    assert!(ended.is_none(), "testpmd ended with {ended:?}:\n{}", testpmd.log());
}

/// As [`up`], after a peer of testpmd has gone. DPDK 22.11 exchanges the rings of such a peer
/// while its forwarding thread may still read them, and sometimes crashes on a busy machine:
/// `false` then, because the test can go no further. It may crash only once the new link is up, or
/// not crash but move an index of a new ring to where that of the old one was, which ends the link.
fn up_again(end: &mut End, testpmd: &mut Testpmd) -> bool {
    match link(end, testpmd) {
        None => true,
        Some(status) if status.signal() == Some(SIGSEGV) => {
            println!("testpmd did not survive that its peer went");
            false
        }
        Some(status) => panic!("testpmd ended with {status}:\n{}", testpmd.log()),
    }
}

/// Waits for the link, or for the end of testpmd, which is returned.
fn link(end: &mut End, testpmd: &mut Testpmd) -> Option<ExitStatus> {
    let start = Instant::now();
    while end.service() != Some(true) {
        if let Some(status) = testpmd.ended() {
            return Some(status);
        }
        assert!(start.elapsed() < DEADLINE, "no link: {}\n{}", end.port.detail(), testpmd.log());
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("{}", end.port.detail());
    None
}

/// Sends until something comes back: testpmd empties its rings when it starts to forward.
/// `false`: the link ended, so nothing will.
fn warm_up(end: &mut End, testpmd: &Testpmd) -> bool {
    let start = Instant::now();
    while end.receive().is_empty() {
        if end.service() == Some(false) {
            return false;
        }
        end.send(&[[2_u8; 60]]);
        std::thread::sleep(Duration::from_millis(5));
        assert!(start.elapsed() < DEADLINE, "no frame comes back:\n{}", testpmd.log());
    }
    let mut quiet = Instant::now();
    while quiet.elapsed() < Duration::from_millis(200) {
        if !end.receive().is_empty() {
            quiet = Instant::now();
        }
    }
    true
}

fn frame(length: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..length).map(|at| (at * 3 + length) as u8).collect();
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

/// testpmd swaps MAC addresses and sends back what we send.
fn come_back(end: &mut End, frames: &[Vec<u8>]) {
    let (mut sent, mut got) = (0, Vec::new());
    until("all frames back", || {
        // No more in flight than a ring holds: testpmd drops what it cannot send.
        if sent < frames.len() && sent - got.len() < 128 {
            sent += end.send(&frames[sent..frames.len().min(sent + 32)]);
        }
        got.extend(end.receive());
        (got.len() >= frames.len()).then_some(())
    });
    for (got, frame) in got.iter().zip(frames) {
        assert_eq!(got[..12], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        assert!(got[12..] == frame[12..], "{} bytes", frame.len());
    }
}

/// Sends frames through each queue; `false`: the link ended before the first came back.
fn pass(end: &mut End, testpmd: &Testpmd, frames: &[Vec<u8>]) -> bool {
    for _ in 0..end.queues.rx.len() {
        if !warm_up(end, testpmd) {
            return false;
        }
        come_back(end, frames);
        end.queues.rx.rotate_left(1);
        end.queues.tx.rotate_left(1);
    }
    true
}

/// As [`pass`], after a peer of testpmd has gone; `false`: see [`up_again`]. A link that ends is
/// made again, but not without limit: that would hide a fault of ours.
fn pass_again(end: &mut End, testpmd: &mut Testpmd, frames: &[Vec<u8>]) -> bool {
    for _ in 0..3 {
        if !up_again(end, testpmd) {
            return false;
        }
        if pass(end, testpmd, frames) {
            return true;
        }
        println!("the link ended: {}", end.port.detail());
    }
    panic!("the link ends each time: {}\n{}", end.port.detail(), testpmd.log());
}

/// Frames of all sizes through each queue; then our port closes and reopens where testpmd
/// reconnects: as a client, DPDK connects once when its port starts. Then testpmd is killed.
fn answers(ours: MemifRole, theirs: &str, queues: u16) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memif.sock").display().to_string();
    let pool = Pool::leak(8192, HugePages::Never).unwrap();
    let open = || end_with_queues(&socket, ours, [queues, queues], pool);
    let mut end = open();
    let Some(mut testpmd) = Testpmd::start(&socket, theirs, "macswap", [queues, queues]) else {
        return;
    };
    let all: Vec<Vec<u8>> = (60..=1514).chain([2048, 2113, 4096, 9014]).map(frame).collect();
    let few: Vec<Vec<u8>> = [60, 1514, 9014].map(frame).into();
    let lives = if ours == MemifRole::Slave { 3 } else { 1 };
    let mut alive = true;
    for (life, frames) in [&all, &few, &few].into_iter().enumerate().take(lives) {
        if life == 0 {
            up(&mut end, &mut testpmd);
            assert!(pass(&mut end, &testpmd, frames), "{}\n{}", end.port.detail(), testpmd.log());
        } else if !pass_again(&mut end, &mut testpmd, frames) {
            alive = false;
            break;
        }
        assert_eq!((end.queues.rx.len(), end.queues.tx.len()), (queues.into(), queues.into()));
        assert_eq!(end.port.missed(), 0);
        if lives > 1 {
            end = open();
        }
    }
    if lives > 1 && alive {
        alive = up_again(&mut end, &mut testpmd);
    }
    drop(testpmd);
    if alive {
        until("the link is down", || (end.service() == Some(false)).then_some(()));
    }
    drop(end);
    assert_eq!((pool.free(), pool.jumbo_free()), (8192, u64::from(pool.jumbo_count())));
}

#[test]
fn our_master_speaks_with_a_testpmd_client() {
    answers(MemifRole::Master, "client", 1);
}

#[test]
fn our_slave_speaks_with_a_testpmd_server() {
    answers(MemifRole::Slave, "server", 1);
}

#[test]
fn our_master_speaks_with_a_testpmd_client_by_four_queues() {
    answers(MemifRole::Master, "client", 4);
}

#[test]
fn our_slave_speaks_with_a_testpmd_server_by_four_queues() {
    answers(MemifRole::Slave, "server", 4);
}

#[test]
fn a_testpmd_client_brings_more_queues_one_way_than_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memif.sock").display().to_string();
    let pool = Pool::leak(4096, HugePages::Never).unwrap();
    let mut end = end(&socket, MemifRole::Master, pool);
    // It has three to receive by; its forwarding uses as many as it has to send by.
    let Some(mut testpmd) = Testpmd::start(&socket, "client", "macswap", [3, 1]) else { return };
    up(&mut end, &mut testpmd);
    assert_eq!((end.queues.rx.len(), end.queues.tx.len()), (1, 3));
    assert!(warm_up(&mut end, &testpmd), "{}", end.port.detail());
    come_back(&mut end, &[60, 1514, 9014].map(frame));
}

#[test]
fn a_new_peer_is_taken_when_the_old_one_died() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memif.sock").display().to_string();
    let pool = Pool::leak(4096, HugePages::Never).unwrap();
    let mut end = end(&socket, MemifRole::Master, pool);
    for _ in 0..2 {
        let Some(mut testpmd) = Testpmd::start(&socket, "client", "macswap", [1, 1]) else {
            return;
        };
        up(&mut end, &mut testpmd);
        assert!(warm_up(&mut end, &testpmd), "{}", end.port.detail());
        drop(testpmd);
        until("the link is down", || (end.service() == Some(false)).then_some(()));
    }
}
