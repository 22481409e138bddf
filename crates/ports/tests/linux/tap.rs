//! `tap`: frames both ways, offloads, and the life of the device.

use std::time::Instant;

use stoa_engine::Refused;
use stoa_lab::Namespace;
use stoa_ports::{OpenError, PortConfig, TapConfig};

use crate::af_packet;
use crate::offload::{packets_come_back, super_frames_become_packets};
use crate::peer::{Raw, is_plain, plain};
use crate::side::{DEADLINE, Side, namespaces};

fn config(namespace: &Namespace, queues: u16) -> PortConfig {
    let netns = Some(namespace.name().into());
    PortConfig::Tap(TapConfig { device: "tap0".into(), netns, queues, mtu: 0 })
}

/// A TAP port, and Linux's end of it quiet.
fn open(namespace: &Namespace, queues: u16) -> Side {
    namespace.sysctl("ipv6/conf/default/disable_ipv6", "1").expect("quiet");
    Side::open(&config(namespace, queues))
}

#[test]
fn frames_go_both_ways_with_their_tags() {
    let Some([near, _far]) = namespaces("frames_go_both_ways_with_their_tags") else { return };
    let side = open(&near, 1);
    let linux = Side::open(&af_packet::config(&near, "tap0"));
    assert_ne!(side.port.mac(), linux.port.mac());
    af_packet::both_ways(side, linux);
}

#[test]
fn super_frames_are_cut_and_joined() {
    let Some([near, far]) = namespaces("super_frames_are_cut_and_joined") else { return };
    let side = open(&near, 1);
    super_frames_become_packets(side, &Raw::new(&near, "tap0"));
    let side = open(&far, 1);
    let linux = Side::open(&af_packet::config(&far, "tap0"));
    packets_come_back(side, linux, &Raw::new(&far, "tap0"));
}

#[test]
fn several_queues_share_the_frames() {
    let Some([near, _far]) = namespaces("several_queues_share_the_frames") else { return };
    let mut side = open(&near, 3);
    assert_eq!((side.queues.rx.len(), side.queues.tx.len()), (3, 3));
    let raw = Raw::new(&near, "tap0");
    for number in 0..300 {
        raw.send([0; 10], &plain(number, &[], 60));
    }
    assert_eq!(side.receive(300, is_plain).len(), 300);
}

#[test]
fn a_frame_that_the_device_refuses_is_reported_and_does_not_stop_the_next() {
    let Some([near, _far]) = namespaces("a_frame_that_the_device_refuses") else { return };
    let mut side = open(&near, 1);
    let mut linux = Side::open(&af_packet::config(&near, "tap0"));
    let frames = [plain(1, &[], 10), plain(2, &[], 60)];
    assert_eq!(side.send(&frames), 2);
    assert_eq!(side.marked, [0]);
    assert_eq!(side.queues.tx[0].refused(), Refused { packets: 1, bytes: 10 });
    assert_eq!(side.queues.tx[0].refused(), Refused::default(), "reported once");
    assert_eq!(linux.receive(1, is_plain), frames[1..]);
}

#[test]
fn a_name_in_use_is_refused() {
    let Some([near, _far]) = namespaces("a_name_in_use_is_refused") else { return };
    let side = open(&near, 1);
    let pool = side.pool.pool();
    let error = stoa_ports::open(&config(&near, 1), pool).err().expect("refused");
    assert!(matches!(error, OpenError::Busy { .. }), "{error}");
    assert!(error.to_string().contains("tap0 is in use"), "{error}");
    drop(side);
    assert!(near.ip(&["link", "show", "tap0"]).is_err(), "the device goes with the port");
    open(&near, 1);
}

#[test]
fn the_device_survives_being_set_down() {
    let Some([near, _far]) = namespaces("the_device_survives_being_set_down") else { return };
    let mut side = open(&near, 1);
    near.ip(&["addr", "add", "198.18.0.1/24", "dev", "tap0"]).expect("an address");
    near.ip(&["link", "set", "tap0", "down"]).expect("down");
    assert_eq!(side.send(&[plain(1, &[], 60)]), 0);
    assert!(side.until_down().contains("tap0 is down"));
    near.ip(&["link", "set", "tap0", "up"]).expect("up");
    side.until_up();
    let shown = near.ip(&["addr", "show", "tap0"]).expect("shown");
    assert!(shown.contains("198.18.0.1/24"), "{shown}");
    Raw::new(&near, "tap0").send([0; 10], &plain(1, &[], 60));
    side.receive(1, is_plain);
    near.ip(&["link", "set", "tap0", "mtu", "1400"]).expect("mtu");
    let end = Instant::now() + DEADLINE;
    while side.port.mtu() != 1400 {
        side.port.service();
        assert!(Instant::now() < end, "the MTU is not detected");
    }
}

#[test]
fn a_namespace_that_is_made_anew_gets_the_device_again() {
    let Some([near, _far]) = namespaces("a_namespace_gets_the_device_again") else { return };
    let mut side = open(&near, 2);
    let name = near.name().to_owned();
    let ip = |arguments: &[&str]| {
        let done = std::process::Command::new("ip").args(arguments).status();
        assert!(done.expect("ip").success(), "ip {arguments:?}");
    };
    ip(&["netns", "delete", &name]);
    let reason = side.until_down();
    assert!(reason.contains("namespace") && reason.contains("gone"), "{reason}");
    ip(&["netns", "add", &name]);
    near.sysctl("ipv6/conf/default/disable_ipv6", "1").expect("quiet");
    side.until_up();
    Raw::new(&near, "tap0").send([0; 10], &plain(1, &[], 60));
    side.receive(1, is_plain);
}

#[test]
fn a_deleted_device_is_made_anew() {
    let Some([near, _far]) = namespaces("a_deleted_device_is_made_anew") else { return };
    let mut side = open(&near, 2);
    near.ip(&["link", "delete", "tap0"]).expect("deleted");
    assert!(side.receive_now().is_empty());
    assert!(side.until_down().contains("gone"));
    side.until_up();
    Raw::new(&near, "tap0").send([0; 10], &plain(1, &[], 60));
    side.receive(1, is_plain);
}
