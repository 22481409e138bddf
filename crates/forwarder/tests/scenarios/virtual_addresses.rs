//! Which packets a virtual router takes besides pings: those of BFD sessions and of tunnels only in accept
//! mode (RFC 9568 6.4.3).

use std::net::IpAddr;
use std::time::Duration;

use stoa_ports::Encapsulation::Gre;
use stoa_wire::bfd::{Packet, State};

use super::tunnel::encapsulated_between;
use super::{bfd, vrrp};
use crate::harness::*;

/// The other end of the tunnel and of the BFD session, which is host 1, and the virtual address.
fn ends(is_ip4: bool) -> (IpAddr, IpAddr) {
    match is_ip4 {
        true => (host4(1).into(), vrrp::virtual4().into()),
        false => (host6(1).into(), vrrp::virtual6()[1].into()),
    }
}

/// The same with the address of the interface.
fn own_ends(is_ip4: bool) -> (IpAddr, IpAddr) {
    let own = if is_ip4 { our4(1).into() } else { our6(1).into() };
    (ends(is_ip4).0, own)
}

/// Tunnels with both addresses, and a BFD session.
fn setup(is_ip4: bool, accept: bool) -> Setup {
    let (peer, own) = ends(is_ip4);
    let setup = vrrp::setup(100, accept).tunnel("tun", 4, (own, peer), Gre);
    let setup = setup.tunnel("own", 5, (own_ends(is_ip4).1, peer), Gre);
    setup.with("west", |west| {
        west.bfd.insert(peer, bfd::CONFIG);
    })
}

/// Packets that nodes took since the last call.
fn taken<const N: usize>(lab: &mut Lab, nodes: [&str; N]) -> [u64; N] {
    let counts = lab.node_counts();
    let of = |node| counts.iter().find(|(name, _)| name == node).map_or(0, |(_, packets)| *packets);
    nodes.map(of)
}

/// A packet in a tunnel.
fn tunneled(ends: (IpAddr, IpAddr)) -> Vec<u8> {
    let inner = udp(host4(4), host4(2), b"inner");
    packet_from(1, &encapsulated_between(ends, Gre, &inner, 0))
}

/// A control packet of the BFD session.
fn session((peer, own): (IpAddr, IpAddr)) -> Vec<u8> {
    let down = Packet { state: State::Down, multiplier: 3, mine: 1, ..Packet::default() };
    let mut session = bfd::control(peer, own, 255, &down);
    session[..12].copy_from_slice(&[our_mac(1), host_mac(1)].concat());
    session
}

#[test]
fn a_virtual_router_takes_packets_of_bfd_and_tunnels_only_in_accept_mode() {
    for (is_ip4, accept) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut lab = Lab::new(&setup(is_ip4, accept));
        lab.pass_time(Duration::from_secs(4));
        assert_eq!(vrrp::states(&mut lab), ["master", "master"]);
        lab.forget();
        let ends = ends(is_ip4);
        for (frame, node) in [(session(ends), "bfd-input"), (tunneled(ends), "tunnel-input")] {
            lab.send("west", vec![frame; 3]);
            assert_eq!(taken(&mut lab, [node]), [if accept { 3 } else { 0 }], "{node} {is_ip4}");
            let dropped: &[_] = if accept { &[] } else { &[("virtual-address", 3)] };
            lab.assert_dropped(dropped);
        }
        assert_eq!(lab.take("east").len(), if accept { 3 } else { 0 });
    }
}

#[test]
fn tunnels_with_another_address_of_the_router_keep_the_fast_path() {
    for is_ip4 in [false, true] {
        let mut lab = Lab::new(&setup(is_ip4, false));
        lab.pass_time(Duration::from_secs(4));
        lab.forget();
        // Among packets to the virtual address, with a full step of a kernel of each.
        let (own, other) = (tunneled(own_ends(is_ip4)), tunneled(ends(is_ip4)));
        lab.send("west", (0..48).map(|at| if at % 3 == 0 { &other } else { &own }.clone()));
        let counts = taken(&mut lab, ["tunnel-input", "ip-demux"]);
        assert_eq!((counts, lab.take("east").len()), ([32, 16], 32));
        lab.assert_dropped(&[("virtual-address", 16)]);
        lab.send("west", vec![session(own_ends(is_ip4)); 3]);
        assert_eq!(taken(&mut lab, ["bfd-input"]), [3]);
        lab.assert_dropped(&[]);
    }
}
