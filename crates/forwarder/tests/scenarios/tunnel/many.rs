//! Many tunnels of all kinds, mixed in the same vectors: each packet has the bytes that it should have,
//! with each kernel.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_forwarder::kernel::Kernel;
use stoa_ports::Encapsulation::{self, Gre, Ip};
use stoa_ports::{PortConfig, TunnelConfig};
use stoa_wire::{checksum, ethernet, ipv4, protocol};

use super::{all, encapsulated_between, ends};
use crate::harness::*;

/// Tunnels of all kinds in turn.
const MANY: u16 = 300;

/// The kind of a tunnel, its remote end, and the network behind it.
fn of_many(at: u16) -> ((bool, Encapsulation), IpAddr, Ipv4Addr) {
    let kind = all()[usize::from(at % 4)];
    let remote = if kind.0 {
        Ipv4Addr::from_bits(Ipv4Addr::new(203, 0, 112, 0).to_bits() + u32::from(at)).into()
    } else {
        Ipv6Addr::new(0x2001, 0xdb8, 0xee, 0, 0, 0, 0, at).into()
    };
    let [high, low] = at.to_be_bytes();
    (kind, remote, Ipv4Addr::new(198, 51 + high, low, 0))
}

/// All tunnels, or only those over IPv4 with GRE.
fn many(kernel: Kernel, is_used: impl Fn(u16) -> bool) -> Setup {
    let mut setup = Setup::three_ports();
    setup.0.workers.kernel = kernel;
    let remotes4 = (IpAddr::V4([203, 0, 112, 0].into()), 23);
    let remotes6 = (IpAddr::V6([0x2001, 0xdb8, 0xee, 0, 0, 0, 0, 0].into()), 64);
    setup = setup.paths(remotes4, &[("east", Some(host4(2).into()), 1)]);
    setup = setup.paths(remotes6, &[("east", Some(host6(2).into()), 1)]);
    for at in (0..MANY).filter(|at| is_used(*at)) {
        let ((outer_is_ip4, encapsulation), remote, network) = of_many(at);
        let (name, local) = (format!("tun{at}"), ends(outer_is_ip4).0);
        setup = setup.tunnel(&name, 4, (local, remote), encapsulation);
        setup = setup.with(&name, |tunnel| {
            tunnel.ip4.addresses.clear();
            tunnel.ip6.addresses.clear();
        });
        setup = setup.paths((network.into(), 24), &[(&name, None, 1)]);
    }
    setup
}

/// Packets and bytes that each tunnel sent and received.
fn each_counted(lab: &mut Lab) -> Vec<[u64; 4]> {
    let interfaces = lab.state().list_interfaces();
    let of = |at| {
        let name = format!("tun{at}");
        let found = interfaces.iter().find(|interface| interface.name == name);
        found.map_or([0; 4], |it| [it.tx_packets, it.tx_bytes, it.rx_packets, it.rx_bytes])
    };
    (0..MANY).map(of).collect()
}

/// Tunnels in an order that mixes kinds and repeats some more often than others.
fn mixed(is_used: impl Fn(u16) -> bool) -> Vec<u16> {
    let turns = (0..1500_u32).map(|turn| (turn * turn * 7 % 509 % u32::from(MANY)) as u16);
    turns.filter(|at| is_used(*at)).collect()
}

/// A packet that differs from those of other turns, now and then with don't-fragment, and its class.
fn inner(ends: (Ipv4Addr, Ipv4Addr), turn: usize) -> (Vec<u8>, u8) {
    let builder = ipv4::Builder {
        dscp_ecn: (turn % 64 * 4) as u8,
        identification: turn as u16,
        flags_fragment: if turn.is_multiple_of(3) { ipv4::DONT_FRAGMENT } else { 0 },
        ..ipv4::Builder::new(ends.0, ends.1, protocol::UDP)
    };
    let data = vec![turn as u8; turn % 40];
    let payload = datagram(ends.0.into(), ends.1.into(), (turn as u16, 9), &data);
    (ip4(&builder, &payload), builder.dscp_ecn)
}

/// The packet one hop further.
fn forwarded(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[8] -= 1;
    packet[10..12].fill(0);
    let sum = checksum::ones_complement(&packet[..ipv4::LENGTH]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Sends packets into tunnels: all of them get the headers of theirs.
fn encapsulate(lab: &mut Lab, order: &[u16], expected: &mut [[u64; 4]]) {
    let to = |at: u16| of_many(at).2 | Ipv4Addr::new(0, 0, 0, 9);
    let packets: Vec<_> =
        (0..).zip(order).map(|(turn, at)| inner((host4(1), to(*at)), turn)).collect();
    lab.send("west", packets.iter().map(|(packet, _)| packet_from(1, packet)).collect::<Vec<_>>());
    let mut expected_outer = HashSet::new();
    for (turn, (at, (packet, class))) in order.iter().zip(&packets).enumerate() {
        let ((outer_is_ip4, encapsulation), remote, _) = of_many(*at);
        let ends = (ends(outer_is_ip4).0, remote);
        let mut outer = encapsulated_between(ends, encapsulation, &forwarded(packet), *class);
        if outer_is_ip4 && turn.is_multiple_of(3) {
            outer[6] = (ipv4::DONT_FRAGMENT >> 8) as u8;
        }
        if outer_is_ip4 {
            outer[10..12].fill(0);
        }
        expected_outer.insert(outer);
        expected[usize::from(*at)][0] += 1;
        expected[usize::from(*at)][1] += packet.len() as u64;
    }
    assert_eq!(expected_outer.len(), order.len());
    let (frames, mut identifications) = (lab.take("east"), HashSet::new());
    assert_eq!(frames.len(), order.len());
    for frame in frames {
        let mut outer = frame[ethernet::LENGTH..].to_vec();
        if let Ok(view) = ipv4::check(&outer) {
            let (header, ends) = (view.header(), (view.source(), view.destination()));
            let identification = header.identification.get();
            // 0 where it is not needed, and another one of a tunnel for each packet.
            if header.dont_fragment() {
                assert_eq!(identification, 0);
            } else {
                assert!(identifications.insert((ends, identification)), "{ends:?}");
            }
            outer[4..6].fill(0);
            outer[10..12].fill(0);
        } else {
            // The flow label.
            outer[1] &= 0xf0;
            outer[2..4].fill(0);
        }
        assert!(expected_outer.remove(&outer), "{outer:x?}");
    }
}

/// Packets from tunnels, among packets of none: with the protocol of another kind, or another source.
fn decapsulate(lab: &mut Lab, order: &[u16], expected: &mut [[u64; 4]]) {
    let (mut frames, mut expected_inner) = (Vec::new(), HashSet::new());
    for (turn, at) in order.iter().enumerate() {
        let ((outer_is_ip4, encapsulation), remote, network) = of_many(*at);
        let from = network | Ipv4Addr::new(0, 0, 0, 9);
        let (packet, _) = inner((from, host4(1)), turn);
        let is_wrong = turn % 50 == 7;
        let encapsulation = match (encapsulation, is_wrong) {
            (Gre, false) | (Ip, true) => Gre,
            _ => Ip,
        };
        let ends = (remote, ends(outer_is_ip4).0);
        let outer = encapsulated_between(ends, encapsulation, &packet, 0);
        frames.push(packet_from(2, &outer));
        if !is_wrong {
            expected_inner.insert(forwarded(&packet));
            expected[usize::from(*at)][2] += 1;
            expected[usize::from(*at)][3] += packet.len() as u64;
        }
    }
    lab.send("east", frames);
    let received = lab.take("west");
    assert_eq!(received.len(), expected_inner.len());
    for frame in received {
        assert!(expected_inner.remove(&frame[ethernet::LENGTH..]), "{frame:x?}");
    }
    lab.take("east");
}

#[test]
fn only_ports_with_a_link_are_serviced() {
    let all = many(Kernel::detect(), |_| true);
    let mut lab = Lab::new(&all);
    assert_eq!(lab.state().serviced_ports(), 3);
    // A tunnel that is made anew comes up, and a port still follows its link.
    let mut other = all.clone();
    let tunnel = PortConfig::Tunnel(TunnelConfig { mtu: 1400, ..config_of(&all, "tun7") });
    other.0.ports.insert("tun7".into(), tunnel);
    lab.apply(&other).unwrap();
    lab.plug("north", false);
    assert_eq!(lab.state().serviced_ports(), 3);
    let down = |lab: &mut Lab| {
        let interfaces = lab.state().list_interfaces().into_iter();
        interfaces.filter(|it| !it.up).map(|it| it.name).collect::<Vec<_>>()
    };
    assert_eq!(down(&mut lab), ["north"]);
    lab.apply(&many(Kernel::detect(), |at| at == 0)).unwrap();
    lab.plug("north", true);
    assert_eq!((lab.state().serviced_ports(), down(&mut lab)), (3, Vec::new()));
}

fn config_of(setup: &Setup, name: &str) -> TunnelConfig {
    let PortConfig::Tunnel(config) = &setup.0.ports[name] else { panic!("{name} is no tunnel") };
    config.clone()
}

#[test]
fn each_of_many_mixed_tunnels_gets_and_gives_its_own_packets() {
    let kinds: [fn(u16) -> bool; 2] = [|_| true, |at| at % 4 == 1];
    for kernel in Kernel::available() {
        for is_used in kinds {
            let mut lab = Lab::new(&many(kernel, is_used));
            let (order, mut expected) = (mixed(is_used), vec![[0; 4]; MANY.into()]);
            encapsulate(&mut lab, &order, &mut expected);
            decapsulate(&mut lab, &order, &mut expected);
            assert_eq!(each_counted(&mut lab), expected, "{kernel:?}");
        }
    }
}
