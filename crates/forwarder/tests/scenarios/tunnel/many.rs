//! Many tunnels of all kinds, mixed in the same vectors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_forwarder::kernel::Kernel;
use stoa_ports::Encapsulation::{self, Gre, Ip};
use stoa_wire::gre;

use super::{all, encapsulated_between, ends};
use crate::harness::*;

/// Tunnels of all kinds in turn, as interfaces 4 and up.
const MANY: u8 = 200;

/// The kind of a tunnel, its remote end, and the network behind it.
fn of_many(at: u8) -> ((bool, Encapsulation), IpAddr, IpAddr) {
    let kind = all()[usize::from(at % 4)];
    let remote = if kind.0 {
        Ipv4Addr::new(203, 0, 113, at).into()
    } else {
        Ipv6Addr::new(0x2001, 0xdb8, 0xee, 0, 0, 0, 0, at.into()).into()
    };
    (kind, remote, Ipv4Addr::new(198, 51, at, 0).into())
}

fn many(kernel: Kernel) -> Setup {
    let mut setup = Setup::three_ports();
    setup.0.workers.kernel = kernel;
    let remotes4 = (IpAddr::V4([203, 0, 113, 0].into()), 24);
    let remotes6 = (IpAddr::V6([0x2001, 0xdb8, 0xee, 0, 0, 0, 0, 0].into()), 64);
    setup = setup.paths(remotes4, &[("east", Some(host4(2).into()), 1)]);
    setup = setup.paths(remotes6, &[("east", Some(host6(2).into()), 1)]);
    for at in 0..MANY {
        let ((outer_is_ip4, encapsulation), remote, network) = of_many(at);
        let (name, local) = (format!("tun{at}"), ends(outer_is_ip4).0);
        setup = setup.tunnel(&name, at + 4, (local, remote), encapsulation);
        setup = setup.paths((network, 24), &[(&name, None, 1)]);
    }
    setup
}

/// Packets that each tunnel sent and received.
fn each_counted(lab: &mut Lab) -> Vec<(u64, u64)> {
    let interfaces = lab.state().list_interfaces();
    let of = |at| {
        let name = format!("tun{at}");
        let found = interfaces.iter().find(|interface| interface.name == name).unwrap();
        (found.tx_packets, found.rx_packets)
    };
    (0..MANY).map(of).collect()
}

/// Tunnels in an order that mixes kinds and repeats some more often than others.
fn mixed() -> impl Iterator<Item = u8> {
    (0..1000_u32).map(|turn| (turn * turn * 7 % 257 % u32::from(MANY)) as u8)
}

#[test]
fn each_of_many_mixed_tunnels_gets_and_gives_its_own_packets() {
    for kernel in Kernel::available() {
        let mut lab = Lab::new(&many(kernel));
        let mut expected = vec![(0, 0); MANY.into()];
        let into = |at: u8| udp(host4(1), Ipv4Addr::new(198, 51, at, 9), &[at]);
        lab.send("west", mixed().map(|at| packet_from(1, &into(at))).collect::<Vec<_>>());
        mixed().for_each(|at| expected[usize::from(at)].0 += 1);
        let mut sent = vec![(0, 0); MANY.into()];
        for parsed in lab.parsed("east") {
            let (_, Some((local, remote))) = (parsed.destination, parsed.ip) else { panic!() };
            let at = (0..MANY).find(|at| of_many(*at).1 == remote).unwrap();
            let ((outer_is_ip4, encapsulation), ..) = of_many(at);
            assert_eq!(local, ends(outer_is_ip4).0);
            let skipped = if encapsulation == Gre { gre::LENGTH } else { 0 };
            let inner = parse(&packet_from(1, &parsed.payload[skipped..]));
            assert_eq!((inner.ttl, &inner.payload[..]), (63, &[at][..]), "{kernel:?}");
            sent[usize::from(at)].0 += 1;
        }
        assert_eq!((&sent, each_counted(&mut lab)), (&expected, expected.clone()));
        // Back, among packets of no tunnel: with the protocol of another kind, or another source.
        let mut frames = Vec::new();
        for (turn, at) in mixed().enumerate() {
            let ((outer_is_ip4, encapsulation), remote, _) = of_many(at);
            let from = Ipv4Addr::new(198, 51, at, 9);
            let inner = udp(from, host4(1), &[at]);
            let wrong = turn % 50 == 7;
            let encapsulation = match (encapsulation, wrong) {
                (Gre, false) | (Ip, true) => Gre,
                _ => Ip,
            };
            let ends = (remote, ends(outer_is_ip4).0);
            frames.push(packet_from(2, &encapsulated_between(ends, encapsulation, &inner, 0)));
            expected[usize::from(at)].1 += u64::from(!wrong);
        }
        lab.send("east", frames);
        let received = lab.parsed("west");
        assert_eq!(received.len() as u64, expected.iter().map(|it| it.1).sum::<u64>());
        for parsed in received {
            let IpAddr::V4(from) = parsed.ip.unwrap().0 else { panic!("{parsed:?}") };
            assert_eq!((parsed.ttl, &parsed.payload[..]), (63, &[from.octets()[2]][..]));
        }
        assert_eq!(each_counted(&mut lab), expected, "{kernel:?}");
        lab.take("east");
    }
}
