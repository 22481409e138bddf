//! ICMP errors across the families, those of the router, path MTU and fragments.

use stoa_wire::{icmp6, ipv4};

use super::*;
use crate::nat44_errors::error;
use crate::nat64::errors::{ends6, error6, halves6};

/// What `port` sends after host `from` has sent a packet.
fn sent(lab: &mut Lab, from: u8, packet: &[u8], port: &str) -> Vec<Vec<u8>> {
    lab.send(["west", "east", "north"][usize::from(from) - 1], [packet_from(from, packet)]);
    assert_eq!(lab.dropped(), []);
    lab.take(port).into_iter().map(|it| it[14..].to_vec()).collect()
}

#[test]
fn errors_of_ip4_routers_reach_mapped_hosts() {
    let mut lab = lab();
    let outside = sent(&mut lab, 1, &answer(), "east").pop().unwrap();
    let router = Ipv4Addr::new(203, 0, 113, 1);
    for ((kind, code, word), expected, word6) in [
        ((11, 0, 0), (3, 0), 0),
        ((3, 3, 0), (1, 4), 0),
        ((3, 4, 1400), (2, 0), 1420_u32),
        // The least MTU of IPv6, whatever an IPv4 router says.
        ((3, 4, 576), (2, 0), 1280),
    ] {
        let packet = error((router, mapped(1)), (kind, code, word), &outside);
        let got = passed(&mut lab, 2, &packet, "west");
        assert_eq!(got.addresses(), (of(router).to_string(), host6(1).to_string()));
        assert_eq!((got.icmp, got.word), (Some(expected), word6.to_be_bytes()));
        assert_eq!(ends6(&got.payload), (host6(1), of(host4(2))));
        assert_eq!(got.payload[40..44], answer()[40..44], "the ports that it has sent");
    }
    // About a packet of nobody who is mapped.
    let stray = udp(host4(3), host4(2), b"x");
    refused(&mut lab, 2, &error((router, mapped(1)), (3, 3, 0), &stray), "siit-quoted");
}

/// RFC 6791: routers without a mapping have an address of the interface to IPv4.
#[test]
fn errors_of_ip6_hosts_and_routers_reach_ip4_hosts() {
    let mut lab = lab();
    let inside = sent(&mut lab, 2, &ask(), "west").pop().unwrap();
    let router = "2001:db8:77::1".parse().unwrap();
    for (what, expected, word) in [
        (icmp6::Error::Unreachable(icmp6::Unreachable::Port), (3, 3), 0),
        (icmp6::Error::PacketTooBig { mtu: 1400 }, (3, 4), 1380_u32),
        (icmp6::Error::TimeExceeded, (11, 0), 0),
    ] {
        for (source, seen) in [(host6(1), mapped(1)), (router, our4(2))] {
            let got = passed(&mut lab, 1, &error6(source, what, &inside), "east");
            assert_eq!(got.addresses(), (seen.to_string(), "10.0.2.2".to_owned()));
            assert_eq!((got.icmp, got.word), (Some(expected), word.to_be_bytes()));
            assert_eq!(got.payload[12..24], ask()[12..24]);
        }
    }
    let what = icmp6::Error::TimeExceeded;
    let nobody = SiitPolicy { error_interface: String::new(), ..siit() };
    lab.apply(&setup(nobody)).unwrap();
    refused(&mut lab, 1, &error6(router, what, &inside), "siit-source");
}

#[test]
fn errors_between_mapped_hosts_quote_what_was_sent() {
    let mut lab = lab();
    let ask = udp_ports(host6(1), of(mapped(3)), (5000, 53), b"ask");
    let got = sent(&mut lab, 1, &ask, "north").pop().unwrap();
    let what = icmp6::Error::Unreachable(icmp6::Unreachable::Port);
    let back = passed(&mut lab, 3, &error6(host6(3), what, &got), "west");
    assert_eq!(back.addresses(), (of(mapped(3)).to_string(), host6(1).to_string()));
    assert_eq!(ends6(&back.payload), (host6(1), of(mapped(3))));
    // Of the router.
    let mut short = ask.clone();
    short[7] = 1;
    lab.send("west", [packet_from(1, &short)]);
    lab.assert_dropped(&[("ip6-hop-limit", 1)]);
    let got = lab.only("west");
    assert_eq!(got.addresses(), (our6(1).to_string(), host6(1).to_string()));
    assert_eq!(ends6(&got.payload), (host6(1), of(mapped(3))));
}

#[test]
fn the_router_answers_in_the_family_of_the_sender() {
    let mut lab = lab();
    let mut short = answer();
    short[7] = 1;
    lab.send("west", [packet_from(1, &short)]);
    let got = lab.only("west");
    assert_eq!(got.addresses(), (our6(1).to_string(), host6(1).to_string()));
    assert_eq!((got.icmp, ends6(&got.payload)), (Some((3, 0)), (host6(1), of(host4(2)))));
    lab.dropped();
    let data = datagram(host4(2).into(), mapped(1).into(), (5000, 53), b"x");
    let header = ipv4::Builder::new(host4(2), mapped(1), protocol::UDP);
    let short = ip4(&ipv4::Builder { time_to_live: 1, ..header }, &data);
    lab.send("east", [packet_from(2, &short)]);
    let got = lab.only("east");
    assert_eq!(got.addresses(), ("10.0.2.1".into(), "10.0.2.2".into()));
    assert_eq!((got.icmp, &got.payload[12..24]), (Some((11, 0)), &short[12..24]));
    lab.dropped();
    // No route to the IPv4 host.
    let nowhere = udp_ports(host6(1), of(Ipv4Addr::new(203, 0, 113, 9)), (53, 5000), b"x");
    lab.send("west", [packet_from(1, &nowhere)]);
    let got = lab.only("west");
    assert_eq!((got.icmp, got.addresses().1), (Some((1, 0)), host6(1).to_string()));
}

#[test]
fn packets_that_grow_too_long_are_answered_with_the_mtu_of_their_family() {
    let mut lab = lab();
    // 1,500 bytes of IPv4 are 1,520 of IPv6.
    let mut long = udp_ports(host4(2), mapped(1), (5000, 53), &[7; 1472]);
    long[6] |= 0x40;
    long[10..12].fill(0);
    let sum = stoa_wire::checksum::finish(stoa_wire::checksum::sum(&long[..20]));
    long[10..12].copy_from_slice(&sum.to_be_bytes());
    lab.send("east", [packet_from(2, &long)]);
    let got = lab.only("east");
    assert_eq!((got.icmp, got.word), (Some((3, 4)), [0, 0, 0x05, 0xc8]), "1,480 bytes");
    assert_eq!(got.payload[12..24], long[12..24]);
    lab.assert_silent();
    lab.dropped();
    // The other way round, to an interface with a shorter MTU.
    let short = setup(siit()).with("east", |it| it.ip4.mtu = 1300);
    lab.apply(&short).unwrap();
    lab.settle();
    let long = udp_ports(host6(1), of(host4(2)), (53, 5000), &[7; 1400]);
    lab.send("west", [packet_from(1, &long)]);
    let got = lab.only("west");
    assert_eq!((got.icmp, got.word), (Some((2, 0)), 1320_u32.to_be_bytes()));
}

#[test]
fn long_packets_without_df_go_on_in_fragments() {
    let mut lab = lab();
    let data: Vec<u8> = (0..1472).map(|it| it as u8).collect();
    let long = udp_ports(host4(2), mapped(1), (5000, 53), &data);
    let pieces = sent(&mut lab, 2, &long, "west");
    assert!(pieces.iter().all(|it| it.len() <= 1280 && it[6] == protocol::FRAGMENT));
    let whole: Vec<u8> = pieces.iter().flat_map(|it| it[48..].to_vec()).collect();
    assert_eq!((pieces.len(), whole.len(), &whole[8..]), (2, 1480, data.as_slice()));
    let pseudo = Pseudo::Ip6 { source: of(host4(2)), destination: host6(1) };
    let sum = stoa_wire::checksum::sum(&whole) + pseudo.sum(protocol::UDP, whole.len());
    assert!(stoa_wire::checksum::is_valid(sum));
}

/// It is answered as a short one is.
#[test]
fn long_packets_without_a_route_are_answered() {
    let nowhere = explicit((mapped(9), 32), ("2001:db8:99::9".parse().unwrap(), 128));
    let mappings = [siit().mappings, vec![nowhere]].concat();
    let mut lab = Lab::new(&setup(SiitPolicy { mappings, ..siit() }));
    for length in [10, 1472] {
        let packet = udp_ports(host4(2), mapped(9), (5000, 53), &vec![7; length]);
        lab.send("east", [packet_from(2, &packet)]);
        lab.assert_dropped(&[("ip4-no-route", 1)]);
        let got = lab.only("east");
        assert_eq!((got.icmp, got.addresses().1), (Some((3, 0)), host4(2).to_string()));
        assert_eq!(got.payload[12..24], packet[12..24]);
    }
}

/// Each by itself, in any order: nothing is put together.
#[test]
fn fragments_pass_without_their_first_one() {
    let mut lab = lab();
    let data = datagram(host6(1).into(), of(host4(2)).into(), (53, 5000), &[7; 1600]);
    let [one, two] = halves6(host6(1), of(host4(2)), &data);
    let second = sent(&mut lab, 1, &two, "east").pop().unwrap();
    let first = sent(&mut lab, 1, &one, "east").pop().unwrap();
    assert_eq!((first[6], u16::from_be_bytes([second[6], second[7]])), (0x20, 100));
    assert_eq!(first[4..6], second[4..6], "one identification");
    let asked = udp_ports(host4(2), mapped(1), (5000, 53), &[7; 1600]);
    let [one, two] = crate::acl_stateful_attacks::halves(&asked, 5);
    for piece in [two, one] {
        let got = sent(&mut lab, 2, &piece, "west").pop().unwrap();
        assert_eq!((ends6(&got), got[6]), ((of(host4(2)), host6(1)), protocol::FRAGMENT));
    }
}

#[test]
fn fragments_of_icmp_are_dropped() {
    let mut lab = lab();
    let message = ping6(host6(1), of(host4(2)), b"data");
    let data = [&[protocol::ICMP6, 0, 0, 1, 0, 0, 0, 7][..], &message[40..]].concat();
    let header = ipv6::Builder::new(host6(1), of(host4(2)), protocol::FRAGMENT);
    refused(&mut lab, 1, &ip6(&header, &data), "siit-icmp");
}
