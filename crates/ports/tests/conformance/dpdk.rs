//! Devices of DPDK that need no card: `net_ring` to itself, `net_memif` in both roles,
//! `net_af_packet` over veth, `net_pcap`, `net_null`.

use std::sync::atomic::{AtomicU32, Ordering};

use stoa_engine::pool::{FRAME_MAX, HugePages};
use stoa_engine::vector::NONE;
use stoa_engine::{Doze, Pool};
use stoa_ports::{DpdkConfig, MemifConfig, MemifRole, OpenError, PortConfig};

use crate::harness::{End, until};
use crate::{Pair, conform_while_open, frame};

static DEVICES: AtomicU32 = AtomicU32::new(0);

/// A device number that no other test has.
fn number() -> u32 {
    DEVICES.fetch_add(1, Ordering::Relaxed)
}

fn config(device: &str) -> DpdkConfig {
    DpdkConfig { device: device.into(), ..DpdkConfig::default() }
}

fn open(config: DpdkConfig, pool: &'static Pool) -> End {
    End::open(&PortConfig::Dpdk(config), pool)
}

fn refusal(config: DpdkConfig, pool: &'static Pool) -> OpenError {
    stoa_ports::open(&PortConfig::Dpdk(config), pool).err().expect("refused")
}

fn pool() -> &'static Pool {
    Pool::leak(4096, HugePages::Never).unwrap()
}

/// A ring whose ends are one device: what it sends it receives, in the very buffers.
#[test]
fn dpdk_ring_to_itself_copies_nothing() {
    let pool = pool();
    let mut end = open(config(&format!("net_ring{}", number())), pool);
    assert_eq!(end.service(), Some(true));
    assert_eq!(end.service(), None, "once");
    let frames: Vec<Vec<u8>> = (60..=1514).map(|length| frame(length, length)).collect();
    for some in frames.chunks(100) {
        assert_eq!(end.send(some), some.len());
        assert!(end.receive() == some);
    }
    end.cache.fill(&mut end.vector, 1);
    end.vector.length[0] = 60;
    let before = end.vector.buffers()[0];
    assert_eq!(end.queues.tx[0].transmit(&mut end.vector, &mut end.cache), 1);
    end.cache.free_from(&mut end.vector, 0);
    assert_eq!(end.queues.rx[0].receive(&mut end.vector, &mut end.cache), 1);
    assert_eq!(end.vector.buffers()[0], before);
    end.cache.free_from(&mut end.vector, 0);
    // More than it holds: what is not taken stays ours.
    let mut sent = 0;
    while let taken @ 1.. = end.send(&frames[..256]) {
        sent += taken;
    }
    assert!((500..2048).contains(&sent), "{sent}");
    let mut got = 0;
    while let some @ 1.. = end.receive().len() {
        got += some;
    }
    assert_eq!(got, sent);
    // Left in the ring at the end.
    end.send(&frames[..200]);
    drop(end);
    assert_eq!(pool.free(), 4096, "buffers leaked");
}

#[test]
fn dpdk_refuses_frames_that_are_none() {
    let pool = pool();
    let mut end = open(config(&format!("net_ring{}", number())), pool);
    assert_eq!(end.service(), Some(true));
    let lengths = [60, 13, 0, 61, 2112, 2500];
    let frames: Vec<Vec<u8>> = lengths.map(|length| frame(length, length)).into();
    assert_eq!(end.send(&frames), frames.len());
    let refused = end.queues.tx[0].refused();
    assert_eq!((refused.packets, refused.bytes), (3, 2513));
    let came: Vec<usize> = end.receive().iter().map(Vec::len).collect();
    assert_eq!(came, [60, 61, 2112]);
    drop(end);
    assert_eq!((pool.free(), pool.jumbo_free()), (4096, u64::from(pool.jumbo_count())));
}

/// Lanes can be read after they were sent, whatever the device does with the frames.
#[test]
fn dpdk_leaves_lanes_that_are_watched() {
    let pool = pool();
    let jumbo = DpdkConfig { mtu: 9000, ..config(&format!("net_ring{}", number())) };
    let mut end = open(jumbo, pool);
    assert_eq!(end.service(), Some(true));
    let frames = [60, 2112, 5000, 61].map(|length| frame(length, length));
    end.cache.fill(&mut end.vector, frames.len());
    for (lane, frame) in frames.iter().enumerate() {
        assert!(frame.len() <= FRAME_MAX || end.cache.enlarge(&mut end.vector, lane));
        end.vector.length[lane] = frame.len() as u16;
        end.vector.bytes_mut(lane).copy_from_slice(frame);
    }
    end.vector.watch(true);
    assert_eq!(end.queues.tx[0].transmit(&mut end.vector, &mut end.cache), 4);
    for (lane, frame) in frames.iter().enumerate() {
        let is_there = end.vector.buffers()[lane] != NONE;
        assert!(!is_there && lane == 2 || end.vector.bytes(lane) == frame);
    }
    end.vector.watch(false);
    end.cache.free_from(&mut end.vector, 0);
    assert!(end.receive() == frames);
    drop(end);
    assert_eq!((pool.free(), pool.jumbo_free()), (4096, u64::from(pool.jumbo_count())));
}

#[test]
fn dpdk_carries_jumbo_buffers_as_they_are() {
    let pool = pool();
    let jumbo = DpdkConfig { mtu: 9000, ..config(&format!("net_ring{}", number())) };
    let mut end = open(jumbo, pool);
    assert_eq!((end.service(), end.port.mtu()), (Some(true), 9000));
    let frames = [60, 9014, 2113, 100].map(|length| frame(length, length));
    assert_eq!(end.send(&frames), 4);
    assert!(end.receive() == frames);
    drop(end);
    assert_eq!((pool.free(), pool.jumbo_free()), (4096, u64::from(pool.jumbo_count())));
}

/// memif, DPDK 22.11 at one end and our own driver at the other. With DPDK at both ends of one process, one run of
/// twenty crashed in `rte_free`, called by DPDK's interrupt thread for its control channel.
fn memif(pool: &'static Pool, server_is_dpdk: bool) -> Pair {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memif.sock").display().to_string();
    let end = |is_dpdk: bool, is_server: bool| {
        if is_dpdk {
            let role = if is_server { "server" } else { "client" };
            let (number, settings) = (number(), format!("socket-abstract=no,socket={socket}"));
            return open(config(&format!("net_memif{number},role={role},{settings}")), pool);
        }
        let role = if is_server { MemifRole::Master } else { MemifRole::Slave };
        let config = MemifConfig { socket: socket.clone(), role, ..MemifConfig::default() };
        End::open(&PortConfig::Memif(config), pool)
    };
    let mut near = end(server_is_dpdk, true);
    let mut far = end(!server_is_dpdk, false);
    until("the link", || {
        near.service();
        far.service();
        let is_up = !near.queues.rx.is_empty() && !far.queues.rx.is_empty();
        is_up.then_some(())
    });
    Pair { near, far, _keep: Box::new(folder) }
}

/// DPDK is the near end. It unmaps the memory of a peer that went while a worker may read it and may
/// crash (22.11), so no worker receives or sends while the far end goes.
fn conform_to_memif(make: impl Fn(&'static Pool) -> Pair) {
    conform_while_open(&make);
    let pool = pool();
    let Pair { mut near, mut far, _keep } = make(pool);
    let frames: Vec<Vec<u8>> = (0..256).map(|number| frame(number, 200)).collect();
    near.send(&frames);
    far.send(&frames);
    drop(far);
    until("the link is down", || (near.service() == Some(false)).then_some(()));
    assert!(near.port.detail().contains("no link"));
    drop(near);
    assert_eq!(pool.free(), 4096, "buffers leaked at close");
}

#[test]
fn dpdk_memif_as_server() {
    conform_to_memif(|pool| memif(pool, true));
}

#[test]
fn dpdk_memif_as_client() {
    conform_to_memif(|pool| {
        let Pair { near, far, _keep } = memif(pool, false);
        Pair { near: far, far: near, _keep }
    });
}

#[test]
fn dpdk_refuses_by_name() {
    let pool = pool();
    let cases = [
        (config("net_nonsense0"), "device: DPDK has no driver for net_nonsense0"),
        (config("two words"), "device: \"two words\" is not a DPDK device"),
        (config("net_af_xdp0,iface=x"), "use Stoa's af-xdp driver"),
        (config("0000:fe:1f.7"), "cannot open 0000:fe:1f.7: there is no such PCI device"),
        (config("net_memif77,role=boss"), "cannot open net_memif77"),
        (config("net_pcap77,rx_pcap=/no/such/file"), "No such file or directory"),
        (DpdkConfig { rx_queues: 17, ..config("net_ring77") }, "net_ring77 has at most 16"),
        (DpdkConfig { tx_queues: 17, ..config("net_ring77") }, "tx-queues: 17 queues requested"),
        (DpdkConfig { rx_queues: 65, ..config("net_ring77") }, "configure 1 to 64"),
        (DpdkConfig { mtu: 9000, ..config("net_memif77") }, "net_memif77 supports 46 to 1500"),
        (DpdkConfig { mtu: 20_000, ..config("net_ring77") }, "configure 68 to 11050"),
    ];
    for (config, words) in cases {
        let reason = refusal(config.clone(), pool).to_string();
        assert!(reason.contains(words), "{config:?}: {reason}");
    }
    // What was refused is closed, and may be opened with valid settings.
    let end = open(config("net_ring77"), pool);
    assert!(matches!(refusal(config("net_ring77"), pool), OpenError::Busy { .. }));
    drop(end);
    drop(open(config("net_ring77"), pool));
    assert_eq!(pool.free(), 4096);
}

#[test]
fn dpdk_null_makes_and_swallows() {
    let pool = pool();
    let device = format!("net_null{},size=200", number());
    let mut end =
        open(DpdkConfig { rx_queues: 2, tx_queues: 0, workers: 3, ..config(&device) }, pool);
    assert_eq!(end.service(), Some(true));
    assert_eq!((end.queues.rx.len(), end.queues.tx.len()), (2, 3));
    for _ in 0..100 {
        let frames = end.receive();
        assert!(frames.len() == 256 && frames.iter().all(|frame| frame.len() == 200));
        assert_eq!(end.send(&frames), 256);
    }
    assert!(matches!(end.queues.rx[0].doze(), Doze::After(_)));
    let detail = end.port.detail();
    assert!(detail.contains("net_null") && detail.contains("queues 2 in, 3 out"), "{detail}");
    drop(end);
    assert_eq!(pool.free(), 4096);
}

#[test]
fn dpdk_queues_have_one_owner_at_a_time() {
    let pool = pool();
    let mut end = open(config(&format!("net_ring{}", number())), pool);
    assert_eq!(end.service(), Some(true));
    let frames = [frame(1, 60)];
    assert_eq!(end.send(&frames), 1);
    assert!(end.receive() == frames);
    // The link went and came: new queues are there before the old ones are gone.
    let old = std::mem::take(&mut end.queues);
    end.port.set_enabled(false);
    until("down", || (end.service() == Some(false)).then_some(()));
    end.port.set_enabled(true);
    until("up", || (end.service() == Some(true)).then_some(()));
    assert_eq!((end.send(&frames), end.receive().len()), (0, 0), "another owner has them");
    drop(old);
    assert_eq!(end.send(&frames), 1);
    assert!(end.receive() == frames);
    drop(end);
    assert_eq!(pool.free(), 4096);
}

/// What is longer than a buffer comes in several, and is joined in a jumbo one where the MTU requires
/// it.
#[test]
fn dpdk_pcap_from_file_to_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.pcap").display().to_string();
    let lengths = (60..=1514).chain([2112, 2113, 61, 4225, 9014, 62]);
    let frames: Vec<Vec<u8>> = lengths.map(|length| frame(length, length)).collect();
    let pool = pool();
    let with_mtu = |mtu, what: &str| {
        let device = format!("net_pcap{},{what}_pcap={path}", number());
        let mut end = open(DpdkConfig { mtu, ..config(&device) }, pool);
        assert_eq!(end.service(), Some(true));
        end
    };
    let mut writer = with_mtu(9000, "tx");
    let mut sent = 0;
    while sent < frames.len() {
        sent += writer.send(&frames[sent..]);
    }
    drop(writer);
    for (mtu, longest) in [(9000, 9014), (0, 2112)] {
        let expected: Vec<_> = frames.iter().filter(|one| one.len() <= longest).cloned().collect();
        let mut reader = with_mtu(mtu, "rx");
        let mut got = Vec::new();
        until("all frames", || {
            got.extend(reader.receive());
            (got.len() >= expected.len()).then_some(())
        });
        assert!(got == expected);
        assert_eq!(reader.port.missed(), (frames.len() - expected.len()) as u64);
    }
    let free = (pool.free(), pool.jumbo_free());
    assert_eq!(free, (4096, u64::from(pool.jumbo_count())));
}
