//! `host_interface`: the owner of a device, lifetimes, and what a device inherits.

use stoa_engine::port::Followed;
use stoa_lab::Namespace;
use stoa_ports::{HostInterfaceConfig, NullConfig, OpenError, PortConfig};

use crate::peer::{Raw, is_plain, plain};
use crate::side::{Side, namespaces};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x77];

fn config(namespace: &Namespace, alias: &str) -> PortConfig {
    let (device, netns) = ("wan0".into(), Some(namespace.name().into()));
    PortConfig::HostInterface(HostInterfaceConfig { device, netns, queues: 2, alias: alias.into() })
}

fn open(namespace: &Namespace) -> Side {
    let mut side = Side::open(&config(namespace, "host interface of a test"));
    side.port.follow(&Followed { mac: MAC, mtu: 1400, is_up: true });
    side
}

/// What a killed forwarder leaves behind.
fn left_behind(namespace: &Namespace, alias: &str) {
    let make = ["tuntap", "add", "dev", "wan0", "mode", "tap", "multi_queue", "vnet_hdr"];
    namespace.ip(&make).expect("a persistent device");
    namespace.ip(&["link", "set", "wan0", "alias", alias]).expect("an alias");
}

#[test]
fn the_device_follows_its_interface() {
    let Some([near, _far]) = namespaces("the_device_follows_its_interface") else { return };
    let mut side = open(&near);
    let shown = || near.ip(&["-d", "addr", "show", "wan0"]).expect("shown");
    let now = shown();
    for part in
        ["02:00:00:00:00:77", "mtu 1400", "LOWER_UP", "host interface of a test", "persist on"]
    {
        assert!(now.contains(part), "{part}: {now}");
    }
    assert!(!now.contains("inet6"), "no address of Linux's own: {now}");
    side.port.follow(&Followed { mac: MAC, mtu: 1500, is_up: false });
    let now = shown();
    assert!(now.contains("mtu 1500") && now.contains("NO-CARRIER"), "{now}");
    side.port.follow(&Followed { mac: MAC, mtu: 1500, is_up: true });
    assert!(shown().contains("LOWER_UP"));
    assert_eq!(side.port.detail(), format!("{}/wan0 up", near.name()));
    Raw::new(&near, "wan0").send([0; 10], &plain(1, &[], 60));
    side.receive(1, is_plain);
    drop(side);
    assert!(near.ip(&["link", "show", "wan0"]).is_err(), "closed in order, it goes");
}

#[test]
fn a_device_that_was_left_behind_is_taken_over() {
    let Some([near, _far]) = namespaces("a_device_that_was_left_behind") else { return };
    left_behind(&near, "host interface of a test");
    near.ip(&["addr", "add", "198.18.0.1/24", "dev", "wan0"]).expect("an address");
    let mut side = open(&near);
    let shown = near.ip(&["addr", "show", "wan0"]).expect("shown");
    assert!(shown.contains("198.18.0.1/24") && shown.contains("LOWER_UP"), "{shown}");
    Raw::new(&near, "wan0").send([0; 10], &plain(1, &[], 60));
    side.receive(1, is_plain);
}

#[test]
fn another_s_device_is_left_alone() {
    let Some([near, _far]) = namespaces("another_s_device_is_left_alone") else { return };
    let pool = Side::open(&PortConfig::Null(NullConfig::default())).pool.pool();
    for alias in ["host interface of another", ""] {
        left_behind(&near, alias);
        let error =
            stoa_ports::open(&config(&near, "host interface of a test"), pool).err().unwrap();
        assert!(matches!(error, OpenError::Busy { .. }), "{error}");
        assert!(error.to_string().contains("wan0"), "{error}");
        near.ip(&["link", "delete", "wan0"]).expect("it is still there");
    }
}

#[test]
fn a_deleted_or_downed_device_comes_back() {
    let Some([near, _far]) = namespaces("a_deleted_or_downed_device") else { return };
    let mut side = open(&near);
    near.ip(&["link", "set", "wan0", "down"]).expect("down");
    assert!(side.until_down().contains("ip link set wan0 up"));
    near.ip(&["link", "set", "wan0", "up"]).expect("up");
    side.until_up();
    near.ip(&["link", "delete", "wan0"]).expect("deleted");
    assert!(side.until_down().contains("gone"));
    side.until_up();
    let shown = near.ip(&["link", "show", "wan0"]).expect("made anew");
    assert!(shown.contains("02:00:00:00:00:77") && shown.contains("LOWER_UP"), "{shown}");
}

/// While the controller holds a spare queue, a device keeps its carrier without a forwarder, until the next port is up.
#[test]
fn a_spare_queue_keeps_the_carrier_and_not_the_device() {
    let Some([near, _far]) = namespaces("a_spare_queue_keeps_the_carrier") else { return };
    left_behind(&near, "host interface of a test");
    near.ip(&["link", "set", "wan0", "up"]).expect("up");
    let shown = || near.ip(&["-d", "-o", "link", "show", "wan0"]).expect("shown");
    assert!(shown().contains("NO-CARRIER"), "{}", shown());
    let index = shown().split(':').next().and_then(|number| number.parse().ok()).expect("a number");
    let spare = stoa_ports::host_interface::spare(near.name(), "wan0", index).expect("a queue");
    let is_held = |now: &str| now.contains("numdisabled 1") && now.contains("LOWER_UP");
    assert!(is_held(&shown()), "{}", shown());
    let mut side = Side::open(&config(&near, "host interface of a test"));
    let followed = |is_up| Followed { mac: MAC, mtu: 1500, is_up };
    side.port.follow(&followed(false));
    assert!(is_held(&shown()), "the port may be about to come up: {}", shown());
    // No packet goes to the spare queue.
    Raw::new(&near, "wan0").send([0; 10], &plain(1, &[], 60));
    side.receive(1, is_plain);
    side.port.follow(&followed(true));
    side.port.follow(&followed(false));
    assert!(shown().contains("NO-CARRIER"), "it was up: {}", shown());
    drop(side);
    assert!(near.ip(&["link", "show", "wan0"]).is_err(), "closed in order, it goes");
    drop(spare);
    for (netns, index) in [(near.name(), index), ("stoa-no-such-namespace", index)] {
        assert!(stoa_ports::host_interface::spare(netns, "wan0", index).is_err(), "{netns}");
    }
    assert!(near.ip(&["link", "show", "wan0"]).is_err(), "none is made");
}
