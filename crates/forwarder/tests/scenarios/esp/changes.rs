//! Associations and tunnels that change while their packets pass.

use std::collections::BTreeMap;

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
