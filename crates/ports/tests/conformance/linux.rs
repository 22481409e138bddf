//! The drivers of Linux devices, in namespaces of their own. Needs root; reports it and
//! passes when this user is not.

use stoa_engine::Pool;
use stoa_engine::pool::HugePages;
use stoa_lab::Namespace;
use stoa_ports::{AfPacketConfig, AfXdpConfig, PortConfig, TapConfig, XdpAttach, XdpBind};

use crate::harness::{End, until};
use crate::{Pair, conform, jumbo_frames_come_whole};

/// A namespace without other traffic; `None` and a message when this user may not make it.
fn namespace(test: &str) -> Option<Namespace> {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED {test}: network namespaces need root; run the tests as root");
        return None;
    }
    let namespace = Namespace::new("conform").unwrap();
    namespace.sysctl("ipv6/conf/default/disable_ipv6", "1").unwrap();
    Some(namespace)
}

fn af_packet(pool: &'static Pool, namespace: &Namespace, device: &str) -> End {
    let netns = Some(namespace.name().to_owned());
    let config = AfPacketConfig { device: device.into(), netns, ..AfPacketConfig::default() };
    let mut end = End::open(&PortConfig::AfPacket(config), pool);
    until("the link", || (end.service() == Some(true)).then_some(()));
    end
}

#[test]
fn af_packet_over_veth() {
    if namespace("af_packet_over_veth").is_none() {
        return;
    }
    conform(|pool| veth(pool, "1500"));
    let pool = Pool::leak(4096, HugePages::Never).unwrap();
    jumbo_frames_come_whole(veth(pool, "9000"), pool);
}

fn af_xdp(pool: &'static Pool, space: &Namespace, device: &str, config: &AfXdpConfig) -> End {
    let netns = Some(space.name().to_owned());
    let config = AfXdpConfig { device: device.into(), netns, ..config.clone() };
    let mut end = End::open(&PortConfig::AfXdp(config), pool);
    until("the link", || (end.service() == Some(true)).then_some(()));
    end
}

#[test]
fn af_xdp_over_veth() {
    if namespace("af_xdp_over_veth").is_none() {
        return;
    }
    let kinds = [
        (XdpAttach::Native, XdpBind::Auto, true),
        (XdpAttach::Native, XdpBind::Copy, false),
        (XdpAttach::Generic, XdpBind::Auto, true),
    ];
    for (attach, bind, need_wakeup) in kinds {
        println!("{attach:?}, {bind:?}, need-wakeup {need_wakeup}");
        let config = AfXdpConfig { attach, bind, need_wakeup, ..AfXdpConfig::default() };
        let make = |pool, mtu: &str| {
            let space = namespace("af_xdp_over_veth").unwrap();
            space.ip(&["link", "add", "one", "type", "veth", "peer", "name", "two"]).unwrap();
            for device in ["one", "two"] {
                space.ip(&["link", "set", device, "up", "mtu", mtu]).unwrap();
            }
            let near = af_xdp(pool, &space, "one", &config);
            let far = af_xdp(pool, &space, "two", &config);
            assert_eq!(near.port.mtu().to_string(), mtu);
            Pair { near, far, _keep: Box::new(space) }
        };
        conform(|pool| make(pool, "1500"));
        for mtu in ["9000", "11050"] {
            let pool = Pool::leak(4096, HugePages::Never).unwrap();
            jumbo_frames_come_whole(make(pool, mtu), pool);
        }
    }
}

fn veth(pool: &'static Pool, mtu: &str) -> Pair {
    let space = namespace("af_packet_over_veth").unwrap();
    space.ip(&["link", "add", "one", "type", "veth", "peer", "name", "two"]).unwrap();
    for device in ["one", "two"] {
        space.ip(&["link", "set", device, "up", "mtu", mtu]).unwrap();
    }
    let (near, far) = (af_packet(pool, &space, "one"), af_packet(pool, &space, "two"));
    assert_eq!(near.port.mtu().to_string(), mtu);
    Pair { near, far, _keep: Box::new(space) }
}

#[test]
fn linux_ports_follow_the_mtu_of_their_device() {
    for xdp in [false, true] {
        let Some(space) = namespace("linux_ports_follow_the_mtu") else { return };
        space.ip(&["link", "add", "one", "type", "veth", "peer", "name", "two"]).unwrap();
        space.ip(&["link", "set", "one", "up"]).unwrap();
        space.ip(&["link", "set", "two", "up"]).unwrap();
        let pool = Pool::leak(4096, HugePages::Never).unwrap();
        let mut end = match xdp {
            true => af_xdp(pool, &space, "one", &AfXdpConfig::default()),
            false => af_packet(pool, &space, "one"),
        };
        for mtu in [9000, 65_535, 1400] {
            space.ip(&["link", "set", "one", "mtu", &mtu.to_string()]).unwrap();
            until("new queues", || (end.service() == Some(true)).then_some(()));
            assert_eq!(end.port.mtu(), mtu.min(stoa_ports::MTU_MAX));
        }
        assert_eq!(end.service(), None, "once");
    }
}

fn tap(pool: &'static Pool, space: Namespace, tap_is_near: bool, mtu: u32) -> Pair {
    let netns = Some(space.name().to_owned());
    let config = TapConfig { device: "tap0".into(), netns, queues: 1, mtu };
    let mut tap = End::open(&PortConfig::Tap(config), pool);
    until("the link", || (tap.service() == Some(true)).then_some(()));
    let linux = af_packet(pool, &space, "tap0");
    let (near, far) = if tap_is_near { (tap, linux) } else { (linux, tap) };
    Pair { near, far, _keep: Box::new(space) }
}

#[test]
fn tap_to_linux_and_back() {
    if namespace("tap_to_linux_and_back").is_none() {
        return;
    }
    for tap_is_near in [true, false] {
        conform(|pool| tap(pool, namespace("tap_to_linux_and_back").unwrap(), tap_is_near, 0));
    }
    let pool = Pool::leak(4096, HugePages::Never).unwrap();
    let space = namespace("tap_to_linux_and_back").unwrap();
    jumbo_frames_come_whole(tap(pool, space, true, 9000), pool);
}
