//! Which packets a virtual router takes besides pings: those of BFD sessions and of tunnels only in accept
//! mode (RFC 9568 6.4.3).

use std::net::IpAddr;
use std::time::Duration;

use stoa_ports::Encapsulation::Gre;
use stoa_wire::bfd::{Packet, State};

use super::tunnel::encapsulated_between;
use super::{bfd, vrrp};
use crate::harness::*;

/// The other end of the tunnel and of the BFD session: host 1.
fn ends() -> (IpAddr, IpAddr) {
    (host6(1).into(), vrrp::virtual6()[1].into())
}

fn setup(accept: bool) -> Setup {
    let (peer, own) = ends();
    let setup = vrrp::setup(100, accept).tunnel("tun", 4, (own, peer), Gre);
    setup.with("west", |west| {
        west.bfd.insert(peer, bfd::CONFIG);
    })
}

/// Packets that a node took since the last call.
fn taken(lab: &mut Lab, node: &str) -> u64 {
    let counts = lab.node_counts();
    counts.iter().find(|(name, _)| name == node).map_or(0, |(_, packets)| *packets)
}

#[test]
fn an_ip6_virtual_router_takes_packets_of_bfd_and_tunnels_only_in_accept_mode() {
    for accept in [false, true] {
        let mut lab = Lab::new(&setup(accept));
        lab.pass_time(Duration::from_secs(4));
        assert_eq!(vrrp::states(&mut lab), ["master", "master"]);
        lab.forget();
        let down = Packet { state: State::Down, multiplier: 3, mine: 1, ..Packet::default() };
        let (peer, own) = ends();
        let mut session = bfd::control(peer, own, 255, &down);
        session[..12].copy_from_slice(&[our_mac(1), host_mac(1)].concat());
        let inner = udp(host4(4), host4(2), b"inner");
        let tunneled = packet_from(1, &encapsulated_between((peer, own), Gre, &inner, 0));
        for (frame, node) in [(session, "bfd-input"), (tunneled, "tunnel-input")] {
            lab.send("west", vec![frame; 3]);
            assert_eq!(taken(&mut lab, node), if accept { 3 } else { 0 }, "{node}");
            let dropped: &[_] = if accept { &[] } else { &[("virtual-address", 3)] };
            lab.assert_dropped(dropped);
        }
        assert_eq!(lab.take("east").len(), if accept { 3 } else { 0 });
    }
}
