//! Associations and tunnels that change while their packets pass.

use std::collections::BTreeMap;

use stoa_ports::TunnelConfig;

use super::*;

/// Frames that are on their way while associations change.
const FRAMES: usize = 400;
/// Associations that replace each other meanwhile.
const REKEYS: u8 = 15;

fn into(case: Case) -> Vec<u8> {
    packet_from(1, &udp(host4(1), if case.outer_is_ip4 { FAR4 } else { FAR6 }, b"into"))
}

/// The SPI and the number of a frame with ESP over IPv4.
fn header_of(frame: &[u8]) -> (u32, u32) {
    assert_eq!(ipv4::check(&frame[14..]).unwrap().header().protocol, protocol::ESP);
    let header = esp::check(&frame[34..], 0).unwrap();
    (header.spi.get(), header.sequence.get())
}

#[test]
fn rekeys_under_traffic_lose_nothing_and_mix_nothing() {
    for algorithm in [Algorithm::Aes128Gcm, Algorithm::Aes128CbcSha256] {
        let case = Case { algorithm, ..Case::USUAL };
        let mut lab = case.lab();
        let mut number = 0;
        let (mut sent, mut counts) = (Vec::new(), BTreeMap::<u32, u32>::new());
        for _ in 0..12 {
            lab.put("west", 0, vec![into(case); FRAMES]);
            for _ in 0..REKEYS {
                number += 1;
                Case { number, ..case }.send_by(&mut lab, "tun");
            }
            lab.settle();
            sent.extend(lab.take("east"));
        }
        assert_eq!(sent.len(), 12 * FRAMES, "{:?}", lab.dropped());
        for frame in &sent {
            let (spi, sequence) = header_of(frame);
            let count = counts.entry(spi).or_default();
            *count += 1;
            assert_eq!(sequence, *count, "each number once, in order");
            let by = Case { number: (spi - OUT) as u8, ..case };
            assert_eq!(parse(&packet_from(1, &by.opened(frame, sequence.into()))).payload, b"into");
        }
        lab.assert_dropped(&[]);
    }
}

#[test]
fn the_number_of_an_interface_keeps_nothing_of_a_former_tunnel() {
    let case = Case::USUAL;
    let mut lab = case.lab();
    let far4 = (IpAddr::V4([198, 51, 100, 0].into()), 24);
    let setup = Setup::three_ports().tunnel("tun", 4, ends(true), Encapsulation::Esp);
    let with = setup.paths(far4, &[("tun", None, 1)]);
    for _ in 0..5 {
        lab.put("west", 0, vec![into(case); FRAMES]);
        lab.apply(&Setup::three_ports()).unwrap();
        lab.settle();
        assert!(lab.take("east").iter().map(|frame| header_of(frame)).all(|(spi, _)| spi == OUT));
        // The routes to the far networks are gone as well.
        lab.forget();
        lab.apply(&with).unwrap();
        lab.send("west", [into(case), into(case)]);
        lab.assert_silent();
        lab.assert_dropped(&[("tunnel-deleted", 2)]);
        assert!(lab.state().inbound_association(IN).is_none());
        case.associate(&mut lab, "tun");
        lab.send("west", [into(case)]);
        assert_eq!(case.opened(&lab.take("east")[0], 1).len(), 32);
    }
}

/// The setup of [`Case::lab`] with one change of its tunnel.
fn changed(change: impl FnOnce(&mut TunnelConfig)) -> Setup {
    let far4 = (IpAddr::V4([198, 51, 100, 0].into()), 24);
    let setup = Setup::three_ports().tunnel("tun", 4, ends(true), Encapsulation::Esp);
    let mut setup = setup.paths(far4, &[("tun", None, 1)]);
    let Some(PortConfig::Tunnel(tunnel)) = setup.0.ports.get_mut("tun") else { panic!() };
    change(tunnel);
    setup
}

/// Associations are for two ends: nothing is sent to others by them, or in the clear.
#[test]
fn a_tunnel_with_other_ends_has_no_associations() {
    let case = Case::USUAL;
    let other = host4(7).into();
    for setup in [
        changed(|it| it.remote = other),
        changed(|it| it.local = our4(3).into()),
        changed(|it| it.encapsulation = Encapsulation::Gre),
    ] {
        let mut lab = Lab::new(&changed(|_| {}));
        case.associate(&mut lab, "tun");
        lab.apply(&setup).unwrap();
        lab.settle();
        lab.forget();
        assert!(lab.state().outbound_association("tun").is_none());
        assert!(lab.state().inbound_association(IN).is_none());
        lab.send("west", [into(case)]);
        let is_esp = |frame: &Vec<u8>| {
            ipv4::check(&frame[14..]).is_ok_and(|view| view.header().protocol == protocol::ESP)
        };
        assert!(!lab.take("east").iter().any(is_esp));
        // It is a tunnel like any other, for new associations.
        lab.apply(&changed(|_| {})).unwrap();
        case.associate(&mut lab, "tun");
        lab.forget();
        lab.send("west", [into(case)]);
        assert_eq!(case.opened(&lab.take("east")[0], 1).len(), 32);
    }
}

/// The tunnel and the port of its outer packets move to another VRF: associations go on.
#[test]
fn associations_follow_their_tunnel_into_another_vrf() {
    let case = Case::USUAL;
    let mut lab = Lab::new(&changed(|_| {}));
    case.associate(&mut lab, "tun");
    let far4 = (IpAddr::V4([198, 51, 100, 0].into()), 24);
    let moved = changed(|_| {}).vrf("blue", &["west", "east", "tun"]);
    lab.apply(&moved.paths_in("blue", far4, &[("tun", None, 1)])).unwrap();
    lab.settle();
    lab.forget();
    lab.send("west", [into(case)]);
    assert_eq!(case.opened(&lab.take("east")[0], 1).len(), 32);
    let packet = udp(FAR4, host4(1), b"out");
    lab.send("east", [packet_from(2, &case.encapsulated(1, &packet))]);
    assert_eq!(lab.only("west").payload, b"out");
    lab.assert_dropped(&[]);
}
