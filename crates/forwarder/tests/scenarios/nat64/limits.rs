//! What NAT64 refuses, and that no stand-in leaves the router.

use stoa_forwarder::control::desired::RuleAction;
use stoa_forwarder::shared::SpecialNextHop;
use stoa_wire::icmp6;

use super::*;

#[test]
fn addresses_of_no_host_are_refused() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    for (source, destination) in [
        (host6(1), of(Ipv4Addr::new(127, 0, 0, 1))),
        (host6(1), of(Ipv4Addr::new(224, 0, 0, 5))),
        (host6(1), of(Ipv4Addr::new(240, 0, 0, 1))),
        // A source in the prefix would come back for ever.
        (of(host4(1)), of(host4(2))),
        // The answer would reach the router.
        (our6(1), of(host4(2))),
        (our6(3), of(host4(2))),
    ] {
        let packet = udp_ports(source, destination, (1, 2), b"x");
        refused(&mut lab, 1, &packet, "nat64-address");
    }
    assert_eq!(flows(&mut lab), []);
}

#[test]
fn the_well_known_prefix_reaches_no_private_address() {
    let well_known =
        NatPolicy { nat64: Some(Prefix::WELL_KNOWN), ..nat64(Mapping::EndpointIndependent) };
    let mut lab = lab(well_known);
    let there = Prefix::WELL_KNOWN.embed(host4(2));
    lab.send("west", [packet_from(1, &udp_ports(host6(1), there, (1, 2), b"x"))]);
    lab.assert_dropped(&[("nat64-address", 1)]);
    let answer = lab.only("west");
    assert_eq!((answer.icmp, answer.addresses().1), (Some((1, 1)), host6(1).to_string()));
    assert_eq!(flows(&mut lab), []);
}

/// The prefix may have a route from the Internet.
#[test]
fn hosts_outside_get_no_external_address() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    let packet = udp_ports(host6(2), of(host4(2)), (5000, 53), b"x");
    refused(&mut lab, 2, &packet, "nat64-address");
    assert_eq!(flows(&mut lab), []);
}

/// An address that the router gets while its former host has a flow.
#[test]
fn answers_reach_no_service_of_the_router() {
    let setup = translated(nat64(Mapping::EndpointIndependent));
    let mut lab = Lab::new(&setup);
    let host = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 9);
    let ask = udp_ports(host, of(host4(2)), (5000, 53), b"ask");
    passed(&mut lab, 1, &ask, "east");
    let own = setup.with("west", |it| it.ip6.addresses.push((host.into(), 128)));
    let own = own.special_route(host.into(), 128, SpecialNextHop::Local);
    lab.apply(&own).unwrap();
    // It announces the address.
    lab.settle();
    lab.take("west");
    for length in [5, 1400] {
        let answer = udp_ports(host4(2), our4(2), (53, 5000), &vec![7; length]);
        refused(&mut lab, 2, &answer, "nat64-address");
    }
}

#[test]
fn nothing_leaves_by_other_interfaces() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    // A network behind north, which is no external interface, and the router's own addresses.
    for to in [host4(3), our4(1), our4(3)] {
        lab.send("west", [packet_from(1, &udp_ports(host6(1), of(to), (1, 2), b"x"))]);
        lab.assert_dropped(&[("ip6-prohibited", 1)]);
        let answer = lab.only("west");
        assert_eq!((answer.icmp, answer.addresses().1), (Some((1, 1)), host6(1).to_string()));
        lab.assert_silent();
    }
    // An own external address without a mapping.
    refused(&mut lab, 1, &udp_ports(host6(1), of(our4(2)), (1, 2), b"x"), "nat44-no-mapping");
    assert_eq!(flows(&mut lab), []);
}

/// The interface of the host forwards no IPv4, and yet the host is answered.
#[test]
fn policy_rules_that_refuse_answer_the_ip6_host() {
    let mut setup = translated(nat64(Mapping::EndpointIndependent));
    setup = setup.with("west", |it| it.ip4.forwarding = false);
    let rule = rule(1, true, RuleAction::Special(SpecialNextHop::Prohibited));
    setup.0.rules.entry((String::new(), true)).or_default().push(rule);
    let mut lab = Lab::new(&setup);
    lab.send("west", [packet_from(1, &udp_ports(host6(1), of(host4(2)), (1, 2), b"x"))]);
    lab.assert_dropped(&[("rule-prohibited", 1)]);
    let answer = lab.only("west");
    assert_eq!((answer.icmp, answer.addresses().1), (Some((1, 1)), host6(1).to_string()));
}

#[test]
fn messages_without_a_counterpart_are_dropped() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    let mut message = ping6(host6(1), of(host4(2)), b"data");
    // Of a fragment of ICMP not even the type is known.
    let data = [&[protocol::ICMP6, 0, 0, 1, 0, 0, 0, 7][..], &message[40..]].concat();
    let header = ipv6::Builder::new(host6(1), of(host4(2)), protocol::FRAGMENT);
    refused(&mut lab, 1, &ip6(&header, &data), "nat64-icmp");
    // A message that nobody knows.
    message[40] = 200;
    refused(&mut lab, 1, &message, "nat64-icmp");
}

/// An ICMPv6 error about an answer that the host has got.
#[test]
fn quotes_that_are_cut_or_wrong_are_dropped() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    passed(&mut lab, 1, &udp_ports(host6(1), of(host4(2)), (5000, 53), b"ask"), "east");
    let answer = udp_ports(of(host4(2)), host6(1), (53, 5000), &[7; 40]);
    let what = icmp6::Error::Unreachable(icmp6::Unreachable::Port);
    let whole = errors::error6(host6(1), what, &answer);
    passed(&mut lab, 1, &whole, "east");
    let cut = |inner: usize| {
        let mut packet = whole[..48 + inner].to_vec();
        packet[4..6].copy_from_slice(&(8 + inner as u16).to_be_bytes());
        packet
    };
    for inner in [0, 1, 20, 39] {
        refused(&mut lab, 1, &cut(inner), "nat64-quoted-truncated");
    }
    for change in [(48, 0x40), (48, 0x00)] {
        let mut packet = whole.clone();
        packet[change.0] = change.1;
        refused(&mut lab, 1, &packet, "nat64-quoted-malformed");
    }
    // Ports that were cut, or that no flow has: nobody knows whom it is about.
    refused(&mut lab, 1, &cut(42), "nat44-icmp");
    let mut packet = whole.clone();
    packet[48 + 41] ^= 1;
    refused(&mut lab, 1, &packet, "nat44-icmp");
}

/// Random changes of packets of both families neither stop the router nor leave as they are.
#[test]
fn mutants_leave_no_stand_in() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    let ask = udp_ports(host6(1), of(host4(2)), (5000, 53), &[7; 60]);
    let error = errors::error6(host6(1), icmp6::Error::TimeExceeded, &ask);
    let mut state = 7_u32;
    let mut random = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    let mut translated = 0;
    for round in 0..2_000 {
        let mut packet = if round % 2 == 0 { ask.clone() } else { error.clone() };
        for _ in 0..1 + random(3) {
            let at = random(packet.len());
            packet[at] = random(256) as u8;
        }
        packet.truncate(packet.len() - if random(3) == 0 { random(packet.len()) } else { 0 });
        lab.send("west", [packet_from(1, &packet)]);
        for port in ["east", "west", "north"] {
            for frame in lab.take(port) {
                if frame.get(12..14) == Some(&[8, 0]) {
                    let ends = [26, 30].map(|at| frame.get(at).copied());
                    assert!(ends.iter().flatten().all(|it| *it < 240), "{frame:02x?}");
                    translated += usize::from(port == "east");
                }
            }
        }
        lab.dropped();
    }
    assert!(translated > 50, "{translated}");
}

#[test]
fn extension_headers_are_left_out_or_refused() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    let data = datagram(host6(1).into(), of(host4(2)).into(), (5000, 53), b"ask");
    let with = |kind: u8| {
        let payload = [&[protocol::UDP, 0, 1, 4, 0, 0, 0, 0][..], &data].concat();
        ip6(&ipv6::Builder::new(host6(1), of(host4(2)), kind), &payload)
    };
    let sent = passed(&mut lab, 1, &with(protocol::DESTINATION_OPTIONS), "east");
    assert_eq!(ends(&sent), ("10.0.2.1:5000".into(), "10.0.2.2:53".into()));
    assert_eq!(sent.payload, b"ask");
    // Mobility (RFC 6275) has no counterpart.
    refused(&mut lab, 1, &with(135), "nat64-extension");
}

#[test]
fn workers_share_hosts_and_hand_packets_to_the_owner_of_their_flow() {
    let mut setup = translated(nat64(Mapping::EndpointIndependent)).workers(2);
    setup = setup.with("west", |it| it.ip4.forwarding = false);
    let mut lab = Lab::with(&setup, LIMITS, |_| Wire::new(2, 8));
    for port in 0..8 {
        let ask = udp_ports(host6(1), of(host4(2)), (6000 + port, 53), b"ask");
        let answer = udp_ports(host4(2), our4(2), (53, 6000 + port), b"answer");
        let queue = usize::from(port % 2);
        for queue in [queue, 1 - queue] {
            lab.put("west", queue, [packet_from(1, &ask)]);
            lab.settle();
            assert_eq!(lab.take("east").len(), 1, "{port}");
            lab.put("east", queue, [packet_from(2, &answer)]);
            lab.settle();
            assert_eq!(lab.take("west").len(), 1, "{port}");
        }
    }
    lab.assert_dropped(&[]);
    let all = flows(&mut lab);
    assert_eq!(all.len(), 8);
    assert!(all.iter().all(|flow| (flow.packets, flow.reply_packets) == (2, 2)), "{all:?}");
    let handed: u64 = lab.state().list_workers().iter().map(|worker| worker.handed_in).sum();
    // Both queues get each direction of each flow, and a flow has one owner.
    assert_eq!(handed, 16);
}
