//! Translation of sources: masquerade and pools, both kinds of mapping, replies, changes, and what must never leave.

mod protocols;
mod rules;

use std::net::Ipv4Addr;
use std::time::Duration;

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::{Nat, NatMapping, NatPolicy};
use stoa_forwarder::flow::fragment_order::PATIENCE_MS;
use stoa_forwarder::nat::{Mapping, Prefix4};
use stoa_wire::checksum::{Pseudo, finish, sum};
use stoa_wire::tcp::{self, flag};
use stoa_wire::{ipv4, protocol};

use crate::acl::{all, input, list, output};
use crate::acl_stateful::{await_flows, flows, gate, stateful};
use crate::acl_stateful_attacks::halves;
use crate::harness::*;

pub const POOL: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

pub fn net(address: Ipv4Addr, length: u8) -> Prefix4 {
    let host_bits = u32::MAX.checked_shr(length.into()).unwrap_or(0);
    Prefix4 { network: address.to_bits() & !host_bits, length }
}

/// Translates what east sends, to the address of east.
pub fn policy(mapping: Mapping) -> NatPolicy {
    NatPolicy {
        instance: 1,
        policy: 1,
        interface: "east".to_owned(),
        ports: (1024, u16::MAX),
        mapping,
        ..NatPolicy::default()
    }
}

/// Hosts behind west and north are inside, those behind east outside.
pub fn translated(policy: NatPolicy) -> Setup {
    with_nat(Setup::three_ports(), vec![policy], Vec::new())
}

pub fn with_nat(mut setup: Setup, policies: Vec<NatPolicy>, mappings: Vec<NatMapping>) -> Setup {
    setup.0.nat = Nat { policies, mappings };
    setup
}

pub fn masquerade() -> Setup {
    translated(policy(Mapping::EndpointDependent))
}

/// A TCP segment with a right checksum.
pub fn segment(
    (source, destination): (Ipv4Addr, Ipv4Addr),
    ports: (u16, u16),
    (sequence, acknowledgement): (u32, u32),
    flags: u8,
    data: usize,
) -> Vec<u8> {
    let mut bytes = vec![0; tcp::LENGTH + data];
    let builder = tcp::Builder {
        source_port: ports.0,
        destination_port: ports.1,
        sequence,
        acknowledgement,
        flags,
        window: 1000,
        ..tcp::Builder::default()
    };
    builder.build(&mut bytes, &Pseudo::Ip4 { source, destination }, &vec![7; data]).unwrap();
    ip4(&ipv4::Builder::new(source, destination, protocol::TCP), &bytes)
}

/// Sends a packet of host `from`; the only one that `port` sends then.
#[track_caller]
pub fn passed(lab: &mut Lab, from: u8, packet: &[u8], port: &str) -> Parsed {
    lab.send(["west", "east", "north"][usize::from(from) - 1], [packet_from(from, packet)]);
    assert_eq!(lab.dropped(), []);
    lab.only(port)
}

/// Sends a packet of host `from`, which nobody gets.
#[track_caller]
pub fn refused(lab: &mut Lab, from: u8, packet: &[u8], reason: &str) {
    lab.send(["west", "east", "north"][usize::from(from) - 1], [packet_from(from, packet)]);
    lab.assert_dropped(&[(reason, 1)]);
    lab.assert_silent();
}

/// Sends a later fragment of host `from`, whose first one never comes: it waits, and nobody gets it.
#[track_caller]
pub fn refused_alone(lab: &mut Lab, from: u8, packet: &[u8]) {
    lab.send(["west", "east", "north"][usize::from(from) - 1], [packet_from(from, packet)]);
    lab.assert_dropped(&[]);
    lab.state().skip(Duration::from_millis(PATIENCE_MS));
    lab.await_dropped(&[("nat44-fragment", 1)]);
    lab.assert_silent();
}

pub fn ends(packet: &Parsed) -> (String, String) {
    let (source, destination) = packet.addresses();
    let (from, to) = packet.ports.unwrap();
    (format!("{source}:{from}"), format!("{destination}:{to}"))
}

#[test]
fn udp_goes_out_and_comes_back() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let mut lab = Lab::new(&translated(policy(mapping)));
        let ask = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
        let answer = udp_ports(host4(2), our4(2), (53, 5000), b"answer");
        // The first packet, and what is known.
        for _ in 0..3 {
            let sent = passed(&mut lab, 1, &ask, "east");
            assert_eq!(ends(&sent), ("10.0.2.1:5000".into(), "10.0.2.2:53".into()));
            let back = passed(&mut lab, 2, &answer, "west");
            assert_eq!(ends(&back), ("10.0.2.2:53".into(), "10.0.1.2:5000".into()));
            assert_eq!(back.payload, b"answer");
        }
        let listed = flows(&mut lab);
        let [flow] = listed.as_slice() else { panic!("{listed:?}") };
        assert_eq!((flow.packets, flow.reply_packets, flow.suspended), (3, 3, false));
        assert_eq!(flow.translated_source, our4(2).octets());
        assert_eq!((flow.translated_source_port, flow.translated_destination_port), (5000, 53));
        // Others get nothing in.
        let other = udp_ports(host4(2), our4(2), (54, 5000), b"x");
        lab.send("east", [packet_from(2, &other)]);
        assert_eq!(lab.take("west"), Vec::<Vec<u8>>::new());
        lab.take("east");
    }
}

#[test]
fn hosts_with_one_port_get_two() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let mut lab = Lab::new(&translated(policy(mapping)));
        let of = |lab: &mut Lab, host| {
            let ask = udp_ports(host4(host), host4(2), (5001, 53), b"ask");
            passed(lab, host, &ask, "east").ports.unwrap().0
        };
        let ports = [of(&mut lab, 1), of(&mut lab, 3)];
        assert_eq!(ports[0], 5001);
        assert_ne!(ports[1], 5001);
        assert_eq!(ports[1] % 2, 1, "the parity stays");
        for (port, home) in ports.into_iter().zip(["west", "north"]) {
            let answer = udp_ports(host4(2), our4(2), (53, port), b"answer");
            let back = passed(&mut lab, 2, &answer, home);
            assert_eq!(back.ports, Some((53, 5001)));
        }
    }
}

#[test]
fn an_independent_mapping_has_one_port_for_all_ends() {
    let ask = |to: Ipv4Addr, port| udp_ports(host4(1), to, (700, port), b"ask");
    let far = Ipv4Addr::new(198, 51, 100, 9);
    for (mapping, is_same) in
        [(Mapping::EndpointIndependent, true), (Mapping::EndpointDependent, false)]
    {
        let setup = translated(policy(mapping));
        let setup = setup.paths((far.into(), 32), &[("east", Some(host4(2).into()), 1)]);
        let mut lab = Lab::new(&setup);
        let mut ports = Vec::new();
        for packet in [ask(host4(2), 53), ask(host4(2), 54), ask(far, 53)] {
            ports.push(passed(&mut lab, 1, &packet, "east").ports.unwrap().0);
        }
        assert!(ports.iter().all(|port| *port >= 1024), "{ports:?}");
        if is_same {
            assert_eq!(ports, [ports[0]; 3]);
        }
    }
}

#[test]
fn tcp_passes_whole() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let mut lab = Lab::new(&translated(policy(mapping)));
        let there =
            |numbers, flags, data| segment((host4(1), host4(2)), (4000, 80), numbers, flags, data);
        let back =
            |numbers, flags, data| segment((host4(2), our4(2)), (80, 4000), numbers, flags, data);
        passed(&mut lab, 1, &there((100, 0), flag::SYN, 0), "east");
        passed(&mut lab, 2, &back((900, 101), flag::SYN | flag::ACK, 0), "west");
        passed(&mut lab, 1, &there((101, 901), flag::ACK, 0), "east");
        for number in 0..3 {
            let sent = passed(&mut lab, 1, &there((101 + number * 9, 901), flag::ACK, 9), "east");
            let checked = tcp::parse(&sent.payload).unwrap();
            let pseudo = Pseudo::Ip4 { source: our4(2), destination: host4(2) };
            assert!(checked.verify(&pseudo).is_ok());
            assert_eq!(checked.source_port(), 4000);
        }
        passed(&mut lab, 2, &back((901, 128), flag::ACK, 30), "west");
        // Outside of the window: it is dropped, and never goes out as it is.
        refused(&mut lab, 1, &there((900_000, 931), flag::ACK, 9), "tcp-out-of-window");
        assert_eq!(flows(&mut lab)[0].state, "tcp-established");
        // What opens no connection has no mapping.
        let stray = segment((host4(1), host4(2)), (4001, 80), (1, 1), flag::ACK, 0);
        refused(&mut lab, 1, &stray, "tcp-no-connection");
    }
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    let mut lab = Lab::new(&masquerade());
    let mut ask = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
    ask[30] ^= 0x5a;
    lab.send("west", [packet_from(1, &ask)]);
    let sent = lab.take("east").pop().unwrap();
    let mut right = udp_ports(our4(2), host4(2), (5000, 53), b"ask");
    right[30] ^= 0x5a;
    assert_eq!(sent[14 + 20..], right[20..]);
    // UDP without a checksum stays without one.
    let mut ask = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
    ask[26..28].fill(0);
    lab.send("west", [packet_from(1, &ask)]);
    let sent = lab.take("east").pop().unwrap();
    assert_eq!(sent[14 + 26..14 + 28], [0, 0]);
}

#[test]
fn pings_go_out_by_their_identifier() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let narrow = NatPolicy { ports: (9000, 9001), ..policy(mapping) };
        let mut lab = Lab::new(&translated(narrow));
        for (host, home) in [(1, "west"), (3, "north")] {
            let sent = passed(&mut lab, host, &ping4(host4(host), host4(2), b"ping"), "east");
            assert_eq!((sent.icmp, sent.addresses().0), (Some((8, 0)), "10.0.2.1".into()));
            let mut reply = ping4(host4(2), our4(2), b"ping");
            reply[20] = 0;
            reply[24..26].copy_from_slice(&sent.word[..2]);
            reply[22..24].fill(0);
            let checksum = finish(sum(&reply[20..]));
            reply[22..24].copy_from_slice(&checksum.to_be_bytes());
            let back = passed(&mut lab, 2, &reply, home);
            assert_eq!((back.icmp, &back.word[..2]), (Some((0, 0)), &[0, 7][..]));
            assert_eq!(back.addresses().1, host4(host).to_string());
        }
        // Both identifiers are in use.
        let mut third = ping4(host4(1), host4(2), b"ping");
        third[25] = 9;
        third[22..24].fill(0);
        let checksum = finish(sum(&third[20..]));
        third[22..24].copy_from_slice(&checksum.to_be_bytes());
        lab.send("west", [packet_from(1, &third)]);
        lab.assert_dropped(&[("nat44-no-port", 1)]);
        assert_eq!(lab.only("west").icmp, Some((3, 13)));
    }
}

#[test]
fn without_ports_a_sender_gets_an_error() {
    let narrow = NatPolicy { ports: (6000, 6000), ..policy(Mapping::EndpointDependent) };
    let mut lab = Lab::new(&translated(narrow));
    let ask = |host, port| udp_ports(host4(host), host4(2), (5000, port), b"ask");
    assert_eq!(passed(&mut lab, 1, &ask(1, 53), "east").ports, Some((6000, 53)));
    // Towards another end, the port is free.
    assert_eq!(passed(&mut lab, 3, &ask(3, 54), "east").ports, Some((6000, 54)));
    lab.send("north", [packet_from(3, &ask(3, 53))]);
    lab.assert_dropped(&[("nat44-no-port", 1)]);
    let error = lab.only("north");
    assert_eq!((error.icmp, error.addresses().1), (Some((3, 13)), host4(3).to_string()));
    lab.assert_silent();
}

#[test]
fn pools_have_one_address_for_a_host() {
    let pools = vec![net(POOL, 29)];
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let of_pool = NatPolicy { pools: pools.clone(), ..policy(mapping) };
        let mut lab = Lab::new(&translated(of_pool));
        let mut seen = std::collections::BTreeSet::new();
        for host in 10..40 {
            let own = Ipv4Addr::new(10, 0, 1, host);
            let mut of_host = std::collections::BTreeSet::new();
            for port in [53, 54] {
                let ask = udp_ports(own, host4(2), (4000 + port, port), b"ask");
                of_host.insert(passed(&mut lab, 1, &ask, "east").addresses().0);
            }
            assert_eq!(of_host.len(), 1, "{of_host:?}");
            seen.extend(of_host);
            lab.state().clear_flows(&Default::default());
            await_flows(&mut lab, 0);
        }
        assert!(seen.len() > 3, "{seen:?}");
        assert!(seen.iter().all(|it| pools[0].contains(it.parse::<Ipv4Addr>().unwrap().to_bits())));
        // Nobody has asked for this.
        let stray = udp_ports(host4(2), POOL, (53, 9999), b"x");
        refused(&mut lab, 2, &stray, "nat44-no-mapping");
    }
}

#[test]
fn only_subscribers_are_translated_and_nothing_that_is_exempt() {
    let some = NatPolicy {
        subscribers: vec![net(host4(1), 24)],
        exempt: vec![net(Ipv4Addr::new(198, 51, 100, 0), 24)],
        ..policy(Mapping::EndpointDependent)
    };
    let far = Ipv4Addr::new(198, 51, 100, 9);
    let setup = translated(some).paths((far.into(), 32), &[("east", Some(host4(2).into()), 1)]);
    let mut lab = Lab::new(&setup);
    let source = |lab: &mut Lab, host, to| {
        passed(lab, host, &udp_ports(host4(host), to, (5000, 53), b"ask"), "east").addresses().0
    };
    for _ in 0..2 {
        assert_eq!(source(&mut lab, 1, host4(2)), "10.0.2.1");
        assert_eq!(source(&mut lab, 3, host4(2)), "10.0.3.2");
        assert_eq!(source(&mut lab, 1, far), "10.0.1.2");
    }
    // Between inside hosts nothing is translated.
    let inside = udp_ports(host4(1), host4(3), (5000, 53), b"ask");
    assert_eq!(passed(&mut lab, 1, &inside, "north").addresses().0, "10.0.1.2");
}

#[test]
fn the_router_itself_is_not_translated() {
    let mut lab = Lab::new(&masquerade());
    let answer = passed(&mut lab, 2, &ping4(host4(2), our4(2), b"ping"), "east");
    assert_eq!((answer.icmp, answer.addresses().0), (Some((0, 0)), "10.0.2.1".into()));
    let answer = passed(&mut lab, 1, &ping4(host4(1), our4(2), b"ping"), "west");
    assert_eq!((answer.icmp, answer.addresses().0), (Some((0, 0)), "10.0.2.1".into()));
    assert_eq!(flows(&mut lab).len(), 0);
}

#[test]
fn a_full_table_drops_what_it_cannot_translate() {
    let mut lab = Lab::new(&masquerade());
    for number in 0..200 {
        let ask = segment((host4(1), host4(2)), (2000 + number, 80), (1, 0), flag::SYN, 0);
        lab.send("west", [packet_from(1, &ask)]);
    }
    for frame in lab.take("east") {
        assert_eq!(parse(&frame).addresses().0, "10.0.2.1");
    }
    assert!(flows(&mut lab).len() <= 64);
}

#[test]
fn mappings_end_with_their_flows() {
    let narrow = NatPolicy { ports: (6000, 6000), ..policy(Mapping::EndpointIndependent) };
    let mut lab = Lab::new(&translated(narrow));
    let ask = |host| udp_ports(host4(host), host4(2), (5000, 53), b"ask");
    passed(&mut lab, 1, &ask(1), "east");
    lab.send("north", [packet_from(3, &ask(3))]);
    lab.assert_dropped(&[("nat44-no-port", 1)]);
    lab.take("north");
    lab.state().clear_flows(&Default::default());
    await_flows(&mut lab, 0);
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        lab.pass_time(Duration::from_secs(6));
        lab.send("north", [packet_from(3, &ask(3))]);
        lab.take("north");
        if !lab.take("east").is_empty() {
            break;
        }
        assert!(std::time::Instant::now() < deadline);
    }
}

#[test]
fn fragments_follow_the_first_one_and_never_leave_as_they_are() {
    let mut lab = Lab::new(&masquerade());
    let whole = udp_ports(host4(1), host4(2), (5000, 53), &[7; 2000]);
    let [_, second] = halves(&whole, 9);
    refused_alone(&mut lab, 1, &second);
    for identification in 10..12 {
        let [first, second] = halves(&whole, identification);
        for part in [&first, &second] {
            lab.send("west", [packet_from(1, part)]);
            let sent = lab.take("east").pop().expect("a fragment");
            assert_eq!(sent[14 + 12..14 + 16], our4(2).octets());
        }
        let back = udp_ports(host4(2), our4(2), (53, 5000), &[8; 2000]);
        for part in halves(&back, identification) {
            lab.send("east", [packet_from(2, &part)]);
            let sent = lab.take("west").pop().expect("a fragment");
            assert_eq!(sent[14 + 16..14 + 20], host4(1).octets());
        }
    }
}

#[test]
fn protocols_without_ports_pass_by_address() {
    let mut lab = Lab::new(&masquerade());
    let gre = |from, to| ip4(&ipv4::Builder::new(from, to, 47), &[0, 0, 8, 0, 1, 2, 3, 4]);
    for _ in 0..2 {
        let sent = passed(&mut lab, 1, &gre(host4(1), host4(2)), "east");
        assert_eq!(sent.addresses().0, "10.0.2.1");
        let back = passed(&mut lab, 2, &gre(host4(2), our4(2)), "west");
        assert_eq!(back.addresses().1, "10.0.1.2");
    }
    // One inside host for each remote one.
    lab.send("north", [packet_from(3, &gre(host4(3), host4(2)))]);
    lab.assert_dropped(&[("nat44-no-port", 1)]);
}
