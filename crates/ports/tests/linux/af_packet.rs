//! `af-packet`: frames both ways, tags, changes of the device, what cannot be taken.

use std::time::{Duration, Instant};

use stoa_engine::{Doze, Refused};
use stoa_lab::Namespace;
use stoa_ports::{AfPacketConfig, OpenError, PortConfig};

use crate::peer::{Raw, is_plain, plain};
use crate::side::{DEADLINE, Side, join, namespaces, until};

pub fn config(namespace: &Namespace, device: &str) -> PortConfig {
    PortConfig::AfPacket(AfPacketConfig {
        device: device.into(),
        netns: Some(namespace.name().into()),
        ..AfPacketConfig::default()
    })
}

const NO: [u8; 10] = [0; 10];

#[test]
fn frames_go_both_ways_with_their_tags() {
    let Some(spaces) = namespaces("frames_go_both_ways_with_their_tags") else { return };
    join(&spaces);
    let near = Side::open(&config(&spaces[0], "near0"));
    let far = Side::open(&config(&spaces[1], "far0"));
    both_ways(near, far);
}

/// Frames with all kinds of tags from one side to the other and back.
pub fn both_ways(mut near: Side, mut far: Side) {
    assert_eq!((near.port.mtu(), far.port.mtu()), (1500, 1500));
    assert_ne!(near.port.mac(), far.port.mac());
    let tags: [&[[u8; 4]]; 4] = [
        &[],
        &[[0x81, 0, 0x20, 100]],
        &[[0x88, 0xa8, 0, 200]],
        &[[0x88, 0xa8, 0, 200], [0x81, 0, 0x60, 100]],
    ];
    let mut frames = Vec::new();
    for number in 0..2000 {
        let tags = tags[number % 4];
        // Linux grants space above the MTU to one 802.1Q tag only.
        let most = if tags.first().is_some_and(|tag| tag[0] == 0x81) { 1518 } else { 1514 };
        let length = if number % 7 == 0 { most } else { 60 + number % 1000 };
        frames.push(plain(number as u32, tags, length));
    }
    for _ in 0..2 {
        // Less at once than any device queues.
        for sent in frames.chunks(500) {
            assert_eq!(near.send(sent), sent.len(), "{}", near.port.detail());
            let got = far.receive(sent.len(), is_plain);
            for (got, sent) in got.iter().zip(sent) {
                assert_eq!(got, sent);
            }
        }
        assert_eq!((near.port.missed(), far.port.missed()), (0, 0));
        // We do not receive what we sent.
        assert!(!near.receive_now().iter().any(|frame| is_plain(frame)));
        std::mem::swap(&mut near, &mut far);
    }
}

#[test]
fn several_queues_share_the_frames() {
    let Some(spaces) = namespaces("several_queues_share_the_frames") else { return };
    join(&spaces);
    let PortConfig::AfPacket(one) = config(&spaces[0], "near0") else { unreachable!() };
    let four = AfPacketConfig { rx_queues: 4, tx_queues: 3, ..one };
    let mut near = Side::open(&PortConfig::AfPacket(four));
    assert_eq!((near.queues.rx.len(), near.queues.tx.len()), (4, 3));
    let raw = Raw::new(&spaces[1], "far0");
    let mut numbers = Vec::new();
    for number in 0..500 {
        raw.send(NO, &plain(number, &[], 60));
        numbers.push(number);
    }
    let mut got: Vec<u32> = near
        .receive(500, is_plain)
        .iter()
        .map(|frame| u32::from_be_bytes([frame[14], frame[15], frame[16], frame[17]]))
        .collect();
    got.sort_unstable();
    assert_eq!(got, numbers, "each frame once");
}

/// IPv4 packets that Linux has begun to process in a namespace.
fn packets_of_linux(namespace: &Namespace) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp");
    let text = namespace.enter(read).expect("a namespace").expect("counters");
    let line = text.lines().filter(|line| line.starts_with("Ip:")).nth(1).expect("counters");
    line.split_whitespace().nth(3).expect("InReceives").parse().expect("a number")
}

#[test]
fn linux_hears_nothing_where_it_has_no_address() {
    let name = "linux_hears_nothing_where_it_has_no_address";
    for has_address in [false, true] {
        let Some(spaces) = namespaces(name) else { return };
        join(&spaces);
        if has_address {
            spaces[0].ip(&["address", "add", "192.0.2.1/24", "dev", "near0"]).expect("an address");
        }
        let mut near = Side::open(&config(&spaces[0], "near0"));
        let shared = near.port.detail().contains("Linux processes the frames");
        if shared && !has_address {
            eprintln!("SKIPPED {name}: {}", near.port.detail());
            return;
        }
        assert_eq!(shared, has_address, "{}", near.port.detail());
        let (raw, before) = (Raw::new(&spaces[1], "far0"), packets_of_linux(&spaces[0]));
        let mut frame = plain(1, &[], 60);
        frame[..6].fill(0xff);
        frame[12..14].copy_from_slice(&[8, 0]);
        for _ in 0..10 {
            raw.send(NO, &frame);
        }
        let got = near.receive(10, |got| got[12..14] == [8, 0]);
        assert_eq!(got.len(), 10);
        let received = || packets_of_linux(&spaces[0]) - before;
        if has_address {
            until("Linux has them as well", || received() >= 10);
        } else {
            assert_eq!(received(), 0);
        }
    }
}

#[test]
fn linux_hears_where_another_device_stands_on_it() {
    let name = "linux_hears_where_another_device_stands_on_it";
    let bridge = [
        &["link", "add", "above0", "type", "bridge"][..],
        &["link", "set", "near0", "master", "above0"],
    ];
    let other = [&["link", "add", "link", "near0", "name", "above0", "type", "macvlan"][..]];
    for above in [&bridge[..], &other] {
        let Some(spaces) = namespaces(name) else { return };
        join(&spaces);
        for words in above {
            spaces[0].ip(words).expect("a device above");
        }
        let near = Side::open(&config(&spaces[0], "near0"));
        let detail = near.port.detail();
        assert!(detail.contains("another device there is on top of it"), "{detail}");
    }
}

#[test]
fn a_sleeper_is_woken() {
    let Some(spaces) = namespaces("a_sleeper_is_woken") else { return };
    join(&spaces);
    let mut near = Side::open(&config(&spaces[0], "near0"));
    let raw = Raw::new(&spaces[1], "far0");
    for number in 0..50 {
        near.receive_now();
        let queue = &mut near.queues.rx[0];
        assert_eq!(queue.doze(), Doze::OnDescriptor);
        let descriptor = queue.descriptor().expect("a descriptor");
        let mut watched = [nix::poll::PollFd::new(descriptor, nix::poll::PollFlags::POLLIN)];
        assert_eq!(nix::poll::poll(&mut watched, 0u8).expect("poll"), 0, "nothing yet");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(1));
                raw.send(NO, &plain(number, &[], 60));
            });
            let ready = nix::poll::poll(&mut watched, DEADLINE.as_millis() as u16);
            assert_eq!(ready.expect("poll"), 1, "woken");
        });
        assert_eq!(queue.doze(), Doze::Awake);
        queue.wake();
        assert_eq!(near.receive(1, is_plain).len(), 1);
    }
}

#[test]
fn the_port_follows_the_link() {
    let Some(spaces) = namespaces("the_port_follows_the_link") else { return };
    join(&spaces);
    let [near_space, far_space] = &spaces;
    let mut near = Side::open(&config(near_space, "near0"));
    assert!(near.port.service().is_empty(), "nothing new");
    near_space.ip(&["link", "set", "near0", "down"]).expect("down");
    let reason = near.until_down();
    assert!(reason.contains("near0 is down"), "{reason}");
    assert!(near.port.service().is_empty(), "reported once");
    near_space.ip(&["link", "set", "near0", "up"]).expect("up");
    near.until_up();
    far_space.ip(&["link", "set", "far0", "down"]).expect("down");
    assert!(near.until_down().contains("no carrier"));
    far_space.ip(&["link", "set", "far0", "up"]).expect("up");
    near.until_up();
    Raw::new(far_space, "far0").send(NO, &plain(1, &[], 60));
    near.receive(1, is_plain);
    // The main thread is notified, so that it need not wait for its next round.
    let watched = near.port.descriptors()[0];
    let mut watched = [nix::poll::PollFd::new(watched, nix::poll::PollFlags::POLLIN)];
    near_space.ip(&["link", "set", "near0", "mtu", "1400"]).expect("mtu");
    assert_eq!(nix::poll::poll(&mut watched, DEADLINE.as_millis() as u16).expect("poll"), 1);
    near.port.service();
    assert_eq!(near.port.mtu(), 1400);
}

#[test]
fn a_device_made_anew_is_found() {
    let Some(spaces) = namespaces("a_device_made_anew_is_found") else { return };
    join(&spaces);
    let [near_space, far_space] = &spaces;
    let mut near = Side::open(&config(near_space, "near0"));
    // Queues in use survive the removal of the device.
    near_space.ip(&["link", "delete", "near0"]).expect("delete");
    assert_eq!(near.send(&[plain(1, &[], 60)]), 0);
    assert!(near.receive_now().is_empty());
    assert!(near.until_down().contains("gone"));
    join(&spaces);
    near.until_up();
    let mut far = Side::open(&config(far_space, "far0"));
    assert_eq!(near.send(&[plain(2, &[], 60)]), 1);
    far.receive(1, is_plain);
    // Gone and back between two polls.
    near_space.ip(&["link", "delete", "near0"]).expect("delete");
    join(&spaces);
    near.until_up();
    Raw::new(far_space, "far0").send(NO, &plain(3, &[], 60));
    near.receive(1, is_plain);
}

#[test]
fn what_cannot_be_taken_is_counted() {
    let Some(spaces) = namespaces("what_cannot_be_taken_is_counted") else { return };
    join(&spaces);
    for (namespace, device) in [(&spaces[0], "near0"), (&spaces[1], "far0")] {
        namespace.ip(&["link", "set", device, "mtu", "9000"]).expect("mtu");
    }
    let PortConfig::AfPacket(device) = config(&spaces[0], "near0") else { unreachable!() };
    let mut near = Side::open(&PortConfig::AfPacket(AfPacketConfig { mtu: 1500, ..device }));
    assert_eq!(near.port.mtu(), 1500, "less than the device's");
    let raw = Raw::new(&spaces[1], "far0");
    // 2,112 bytes fit a plain buffer, though not a slot of the ring; a larger MTU is not set.
    raw.send(NO, &plain(1, &[], 2112));
    raw.send(NO, &plain(2, &[], 2113));
    raw.send(NO, &plain(3, &[], 9000));
    raw.send(NO, &plain(4, &[[0x81, 0, 0, 100]], 2112));
    raw.send(NO, &plain(5, &[[0x81, 0, 0, 100]], 2116));
    raw.send(NO, &plain(6, &[], 60));
    let got = near.receive(3, is_plain);
    assert_eq!(got[0], plain(1, &[], 2112));
    assert_eq!(got[1], plain(4, &[[0x81, 0, 0, 100]], 2112));
    assert_eq!(got[2], plain(6, &[], 60));
    assert_eq!(near.port.missed(), 3);
    // More than the ring holds while the port is not polled.
    let sent = 6000;
    for number in 0..sent {
        raw.send(NO, &plain(number, &[], 60));
    }
    let end = Instant::now() + DEADLINE;
    let mut got = 0;
    while got + near.port.missed() as usize - 3 < sent as usize {
        got += near.receive_now().len();
        assert!(Instant::now() < end, "{got} received, {} missed", near.port.missed());
    }
    assert_eq!(got, 4096);
}

#[test]
fn a_frame_that_the_device_refuses_is_reported_and_does_not_stop_the_next() {
    let Some(spaces) = namespaces("a_frame_that_the_device_refuses") else { return };
    join(&spaces);
    let mut near = Side::open(&config(&spaces[0], "near0"));
    let mut far = Side::open(&config(&spaces[1], "far0"));
    let cut = plain(4, &[], 10);
    let frames = [plain(1, &[], 60), plain(2, &[], 2000), plain(3, &[], 60), cut];
    assert_eq!(near.send(&frames), 4);
    assert_eq!(near.marked, [1, 3]);
    assert_eq!(near.queues.tx[0].refused(), Refused { packets: 2, bytes: 2010 });
    assert_eq!(near.queues.tx[0].refused(), Refused::default(), "reported once");
    let got = far.receive(2, is_plain);
    assert_eq!(got, [frames[0].clone(), frames[2].clone()]);
    assert!(near.port.detail().contains("2 frames refused"), "{}", near.port.detail());
}

#[test]
fn what_is_wrong_is_reported() {
    let Some(spaces) = namespaces("what_is_wrong_is_reported") else { return };
    let pool = stoa_engine::Pool::leak(512, stoa_engine::pool::HugePages::Never).expect("memory");
    let open = |config: &PortConfig| stoa_ports::open(config, pool).err().expect("refused");
    let error = open(&config(&spaces[0], "near0"));
    assert!(matches!(error, OpenError::NoDevice { .. }), "{error}");
    assert!(error.to_string().contains(spaces[0].name()));
    let error = open(&config(&spaces[0], "lo"));
    assert!(error.to_string().contains("not an Ethernet device"), "{error}");
    let error = open(&config(&spaces[0], "a-name-that-is-too-long"));
    assert!(matches!(error, OpenError::Config { field: "device", .. }), "{error}");
    let nowhere = AfPacketConfig {
        device: "near0".into(),
        netns: Some("stoa-nowhere".into()),
        ..AfPacketConfig::default()
    };
    let error = open(&PortConfig::AfPacket(nowhere));
    assert!(matches!(error, OpenError::NoNamespace { .. }), "{error}");
}
