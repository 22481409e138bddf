//! Vectors with frames of many sub-interfaces and of several ports.

use std::collections::BTreeMap;

use stoa_forwarder::control::desired::Family;
use stoa_forwarder::kernel::Kernel;

use crate::harness::*;

/// The numbers of the sub-interfaces.
const SUBS: std::ops::Range<u8> = 10..31;

fn port_of(n: u8) -> (&'static str, u8) {
    if n.is_multiple_of(4) { ("north", 3) } else { ("west", 1) }
}

/// One tag, two tags below the same outer one, or one tag of a provider.
fn tags_of(n: u8) -> Vec<(u16, u16)> {
    match n % 3 {
        0 => vec![(0x8100, n.into())],
        1 => vec![(0x88a8, 500), (0x8100, n.into())],
        _ => vec![(0x88a8, n.into())],
    }
}

/// Interface `n` has the tags of `tags(n)`; "one" and "other" are cross-connected.
fn many_vlans(kernel: Kernel, tags: impl Fn(u8) -> Vec<(u16, u16)>) -> Setup {
    let ports = Setup::new_with(kernel).port("west", 1).port("east", 2).port("north", 3);
    let ports = ports.port("one", 4).port("other", 5).host("east", 2);
    let ports = [("one", "other"), ("other", "one")].into_iter().fold(ports, |setup, (a, b)| {
        setup.with(a, |interface| {
            interface.cross_connect = Some(b.to_owned());
            (interface.ip4, interface.ip6) = (Family::default(), Family::default());
        })
    });
    SUBS.fold(ports, |setup, n| setup.sub(&format!("sub{n}"), n, port_of(n).0, &tags(n)))
}

/// A packet of host `n` to the east, in a frame with any priority.
fn packet_of(n: u8, round: u8, tags: &[(u16, u16)]) -> Vec<u8> {
    let packet = if round.is_multiple_of(2) {
        udp(host4(n), host4(2), &[n, round])
    } else {
        udp(host6(n), host6(2), &[n, round])
    };
    let tags: Vec<_> =
        tags.iter().map(|(tpid, vid)| (*tpid, vid | u16::from(round % 8) << 13)).collect();
    frame(our_mac(port_of(n).1), host_mac(n), &tags, ethertype_of(&packet), &packet)
}

/// Sends a packet of each sub-interface in each round, and between them frames that are dropped or
/// that a cable carries. All others arrive, and all counters agree.
fn all_arrive(lab: &mut Lab, tags: impl Fn(u8) -> Vec<(u16, u16)>) {
    const ROUNDS: u8 = 7;
    let interfaces = |lab: &mut Lab| {
        let list = lab.state().list_interfaces().into_iter();
        let counters = |one: &stoa_api::v1::InterfaceState| (one.rx_packets, one.rx_bytes);
        list.map(|one| (one.name.clone(), counters(&one))).collect::<BTreeMap<_, _>>()
    };
    let before = interfaces(lab);
    let (mut by_port, mut bytes): (BTreeMap<&str, Vec<_>>, BTreeMap<u8, u64>) = Default::default();
    for (round, n) in (0..ROUNDS).flat_map(|round| SUBS.map(move |n| (round, n))) {
        let frame = packet_of(n, round, &tags(n));
        *bytes.entry(n).or_default() += frame.len() as u64;
        by_port.entry(port_of(n).0).or_default().push(frame);
    }
    let west = by_port.get_mut("west").unwrap();
    let mut foreign = packet_of(13, 0, &tags(13));
    foreign[5] ^= 1;
    west.insert(40, foreign);
    west.insert(20, packet_of(13, 0, &[(0x8100, 999)]));
    west.insert(30, packet_of(13, 0, &[(0x8100, 15), (0x8100, 15), (0x8100, 15)]));
    let cable: Vec<_> = (0..9).map(|round| packet_of(12, round, &tags_of(12))).collect();
    by_port.insert("one", cable.clone());
    for (port, frames) in by_port {
        lab.put(port, 0, frames);
    }
    lab.settle();
    lab.assert_dropped(&[("ethernet-mac-mismatch", 1), ("vlan-unknown", 2)]);
    assert_eq!(lab.take("other"), cable);
    let mut received: Vec<_> = lab.parsed("east").into_iter().map(|it| it.payload).collect();
    received.sort();
    let expected: Vec<_> =
        SUBS.flat_map(|n| (0..ROUNDS).map(move |round| vec![n, round])).collect();
    assert_eq!(received, expected);
    let after = interfaces(lab);
    for n in SUBS {
        let name = format!("sub{n}");
        let (packets, its_bytes) =
            (after[&name].0 - before[&name].0, after[&name].1 - before[&name].1);
        // The frame to another address was received, too.
        let foreign = if n == 13 { packet_of(13, 0, &tags(13)).len() as u64 } else { 0 };
        assert_eq!(packets, u64::from(ROUNDS) + u64::from(n == 13), "{name}");
        assert_eq!(its_bytes, bytes[&n] + foreign, "{name}");
    }
}

#[test]
fn frames_of_many_vlans_and_ports_arrive() {
    for kernel in Kernel::available() {
        let mut lab = Lab::new(&many_vlans(kernel, tags_of));
        all_arrive(&mut lab, tags_of);
    }
}

#[test]
fn tags_pass_from_one_interface_to_another() {
    let exchanged = |n: u8| tags_of(if n + 1 == SUBS.end { SUBS.start } else { n + 1 });
    let setup = many_vlans(Kernel::detect(), tags_of);
    let mut lab = Lab::new(&setup);
    all_arrive(&mut lab, tags_of);
    lab.apply(&many_vlans(Kernel::detect(), exchanged)).unwrap();
    lab.settle();
    lab.forget();
    all_arrive(&mut lab, exchanged);
    lab.apply(&setup).unwrap();
    lab.settle();
    lab.forget();
    all_arrive(&mut lab, tags_of);
}

#[test]
fn frames_of_many_vlans_pass_their_features() {
    for kernel in Kernel::available() {
        let setup = SUBS.step_by(2).fold(many_vlans(kernel, tags_of), |setup, n| {
            setup.with(&format!("sub{n}"), |sub| sub.noop_ethernet = true)
        });
        let mut lab = Lab::new(&setup.with("west", |west| west.noop_ethernet = true));
        all_arrive(&mut lab, tags_of);
        let nodes: BTreeMap<_, _> = lab.node_counts().into_iter().collect();
        // Seven frames of every other sub-interface, and two with unknown tags.
        let expected = 11 * 7 + 2;
        let counts = ["ethernet-noop", "ethernet-dispatch", "cross-connect"].map(|it| nodes[it]);
        assert_eq!(counts, [expected, expected, 9], "{kernel:?}");
    }
}

/// The port is enabled or disabled while its link is down.
#[test]
fn a_sub_interface_comes_up_with_its_link_only_if_its_port_is_enabled() {
    let tags = [(0x8100, 100)];
    let setup = |is_enabled| {
        let setup = Setup::three_ports().sub("west.100", 10, "west", &tags);
        setup.with("west", |west| west.enabled = is_enabled)
    };
    let packet = frame(our_mac(1), host_mac(10), &tags, 0x0800, &udp(host4(10), host4(2), b""));
    let mut lab = Lab::new(&setup(false));
    for is_enabled in [true, false, true] {
        lab.plug("west", false);
        lab.apply(&setup(is_enabled)).unwrap();
        lab.plug("west", true);
        lab.forget();
        lab.send("west", [packet.clone()]);
        let (left, dropped): (_, &[_]) =
            if is_enabled { (1, &[]) } else { (0, &[("interface-down", 1)]) };
        assert_eq!(lab.take("east").len(), left);
        lab.assert_dropped(dropped);
    }
}
