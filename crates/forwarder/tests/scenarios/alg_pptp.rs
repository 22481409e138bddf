//! Gateways of PPTP: calls by rules, and translated; what ends them; and what passes as it is.

mod call;
mod ends;

use std::net::IpAddr;

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::{NatMapping, NatPolicy, RuleOfList};
use stoa_forwarder::flow::alg::{Alg, AlgSums, Passed};
use stoa_forwarder::nat::{AlgPort, Mapping};
use stoa_wire::protocol;

use crate::acl::{all, input, list};
use crate::acl_stateful::{flows, stateful};
use crate::alg_ftp::control::ACK;
use crate::harness::*;
use crate::nat44::{net, policy, with_nat};
use crate::nat44_errors::error;
use call::*;

fn pptp_rule() -> RuleOfList {
    let mut rule = stateful(all(Action::Accept));
    (rule.protocols, rule.destination_ports) = (vec![protocol::TCP], vec![(1723, 1723)]);
    RuleOfList { alg: Some(Alg::Pptp), ..rule }
}

/// Hosts behind west may use PPTP, and nothing else passes.
fn pptp_gate() -> Setup {
    let setup =
        list(Setup::three_ports(), "out", &[("pptp", pptp_rule()), ("rest", all(Action::Drop))]);
    let setup = list(setup, "in", &[("rest", all(Action::Drop))]);
    input(input(setup, "west", &["out"]), "east", &["in"])
}

fn pptp_policy(mapping: Mapping) -> NatPolicy {
    NatPolicy { algs: vec![AlgPort { alg: Alg::Pptp, port: 1723 }], ..policy(mapping) }
}

fn masquerade() -> Setup {
    let policies = vec![pptp_policy(Mapping::EndpointIndependent)];
    with_nat(Setup::three_ports(), policies, Vec::new())
}

fn four(address: std::net::Ipv4Addr) -> IpAddr {
    address.into()
}

fn sums(lab: &mut Lab) -> AlgSums {
    lab.state().alg_sums()
}

fn passed_as_it_is(lab: &mut Lab, cause: Passed) -> u64 {
    sums(lab).passed[cause as usize]
}

/// A client behind the masquerade, and the server.
fn behind(lab: &mut Lab, host: u8, port: u16) -> Control {
    let (client, server, outside) = (four(host4(host)), four(host4(2)), four(our4(2)));
    Control::open(lab, [host, 2], [(client, server), (server, outside)], (port, 1723))
}

#[test]
fn rules_let_in_the_calls_of_a_control_connection() {
    let families: [[IpAddr; 2]; 2] =
        [[host4(1).into(), host4(2).into()], [host6(1).into(), host6(2).into()]];
    for [client, server] in families {
        let mut lab = Lab::new(&pptp_gate());
        let ends = [(client, server), (server, client)];
        let mut control = Control::open(&mut lab, [1, 2], ends, (4000, 1723));
        assert_eq!(passed(&mut lab, (2, "west"), (server, client), 7), None);
        assert_eq!(control.say(&mut lab, 0, &request(7)), request(7));
        assert_eq!(passed(&mut lab, (1, "east"), (client, server), 9), None);
        assert_eq!(control.say(&mut lab, 1, &reply(9, 7, true)), reply(9, 7, true));
        for _ in 0..3 {
            for (from, to, ends, id) in
                [(2, "west", (server, client), 7), (1, "east", (client, server), 9)]
            {
                assert_eq!(passed(&mut lab, (from, to), ends, id), Some((ends, id)));
                assert_eq!(passed(&mut lab, (from, to), ends, id + 1), None);
            }
        }
        assert_eq!(control.say(&mut lab, 0, &link_info(9)), link_info(9));
        let listed = flows(&mut lab);
        assert_eq!(listed.len(), 3);
        assert!(
            listed.iter().all(|flow| (flow.acl.as_str(), flow.rule.as_str()) == ("out", "pptp"))
        );
        let gre: Vec<_> = listed.iter().filter(|flow| flow.protocol == 47).collect();
        assert!(gre.iter().all(|flow| flow.packets == 3 && flow.state == "other-replied"));
        let sums = sums(&mut lab);
        assert_eq!((sums.expected, sums.begun, sums.edited), (2, 2, 0));
        assert_eq!(sums.passed, AlgSums::default().passed);
        // A change of rules ends neither.
        lab.apply(&list(pptp_gate(), "in", &[("all", all(Action::Drop))])).unwrap();
        assert!(passed(&mut lab, (2, "west"), (server, client), 7).is_some());
        control.say(&mut lab, 1, &disconnect(9));
        assert_eq!(passed(&mut lab, (2, "west"), (server, client), 7), None);
        assert_eq!(passed(&mut lab, (1, "east"), (client, server), 9), None);
    }
}

/// Two clients that choose the same ID, towards one server.
#[test]
fn call_ids_of_clients_are_translated() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let setup = with_nat(Setup::three_ports(), vec![pptp_policy(mapping)], Vec::new());
        let mut lab = Lab::new(&setup);
        let (server, outside) = (four(host4(2)), four(our4(2)));
        let mut seen = Vec::new();
        for (host, home, theirs) in [(1, "west", 90), (3, "north", 91)] {
            let client = four(host4(host));
            let mut control = behind(&mut lab, host, 4000);
            let asked = control.say(&mut lab, 0, &request(7));
            let id = u16::from_be_bytes([asked[12], asked[13]]);
            assert_eq!(asked, request(id));
            seen.push(id);
            // The request is repeated, as its acknowledgement was lost.
            let answer = control.say(&mut lab, 1, &reply(theirs, id, true));
            assert_eq!(answer, reply(theirs, 7, true));
            for _ in 0..2 {
                let to_client = passed(&mut lab, (2, home), (server, outside), id);
                assert_eq!(to_client, Some(((server, client), 7)));
                let to_server = passed(&mut lab, (host, "east"), (client, server), theirs);
                assert_eq!(to_server, Some(((outside, server), theirs)));
            }
            // Two messages in a segment.
            let both = [link_info(theirs), echo()].concat();
            assert_eq!(control.say(&mut lab, 0, &both), both);
            let both = |id| [message(14, 40, &u16::to_be_bytes(id)), link_info(id)].concat();
            assert_eq!(control.say(&mut lab, 1, &both(id)), both(7));
        }
        assert_eq!(seen[0], 7);
        assert_ne!(seen[1], 7);
        let sums = sums(&mut lab);
        assert_eq!((sums.begun, sums.passed), (4, AlgSums::default().passed));
        let clients = flows(&mut lab).into_iter().filter(|flow| flow.protocol == 47).count();
        assert_eq!(clients, 4);
    }
}

/// Servers behind static mappings that choose the same ID for a client.
#[test]
fn call_ids_of_servers_inside_are_translated() {
    let forward = |index, host, port| NatMapping {
        instance: 1,
        index,
        protocol: 6,
        internal: net(host4(host), 32),
        external: net(our4(2), 32),
        ports: Some((1723, port, 0)),
        ..NatMapping::default()
    };
    let setup = with_nat(
        Setup::three_ports(),
        vec![pptp_policy(Mapping::EndpointIndependent)],
        vec![forward(1, 1, 1723), forward(2, 3, 1724)],
    );
    let mut lab = Lab::new(&setup);
    let (client, outside) = (four(host4(2)), four(our4(2)));
    let mut seen = Vec::new();
    for (host, home, port) in [(1, "west", 1723), (3, "north", 1724)] {
        let server = four(host4(host));
        let ends = [(client, outside), (server, client)];
        let mut control = Control::open(&mut lab, [2, host], ends, (4000, port));
        let id = 7 + u16::from(host);
        assert_eq!(control.say(&mut lab, 0, &request(id)), request(id));
        let answer = control.say(&mut lab, 1, &reply(9, id, true));
        let theirs = u16::from_be_bytes([answer[12], answer[13]]);
        assert_eq!(answer, reply(theirs, id, true));
        seen.push(theirs);
        for _ in 0..2 {
            let to_server = passed(&mut lab, (2, home), (client, outside), theirs);
            assert_eq!(to_server, Some(((client, server), 9)));
            let to_client = passed(&mut lab, (host, "east"), (server, client), id);
            assert_eq!(to_client, Some(((outside, client), id)));
        }
        assert_eq!(control.say(&mut lab, 0, &link_info(theirs)), link_info(9));
        assert_eq!(control.say(&mut lab, 1, &disconnect(9)), disconnect(theirs));
        assert_eq!(passed(&mut lab, (2, home), (client, outside), theirs), None);
        control.say(&mut lab, 0, &request(id));
        control.say(&mut lab, 1, &reply(9, id, true));
    }
    assert_eq!(seen[0], 9);
    assert_ne!(seen[1], 9);
}

/// An incoming call: the server asks the client, as access concentrators do.
#[test]
fn incoming_calls_are_translated() {
    let mut lab = Lab::new(&masquerade());
    let mut other = behind(&mut lab, 3, 4000);
    other.say(&mut lab, 0, &request(7));
    let mut control = behind(&mut lab, 1, 4000);
    let (client, server, outside) = (four(host4(1)), four(host4(2)), four(our4(2)));
    let asked = message(9, 220, &60_u16.to_be_bytes());
    assert_eq!(control.say(&mut lab, 1, &asked), asked);
    let answer = control.say(&mut lab, 0, &message(10, 24, &[0, 7, 0, 60, 1]));
    let id = u16::from_be_bytes([answer[12], answer[13]]);
    assert_ne!(id, 7);
    let connected = |id: u16| message(11, 28, &id.to_be_bytes());
    assert_eq!(control.say(&mut lab, 1, &connected(id)), connected(7));
    let to_client = passed(&mut lab, (2, "west"), (server, outside), id);
    assert_eq!(to_client, Some(((server, client), 7)));
    let to_server = passed(&mut lab, (1, "east"), (client, server), 60);
    assert_eq!(to_server, Some(((outside, server), 60)));
}

#[test]
fn what_cannot_be_used_passes_as_it_is() {
    let mut lab = Lab::new(&masquerade());
    let mut control = behind(&mut lab, 1, 4000);
    let whole = request(7);
    control.say(&mut lab, 0, &whole[..100]);
    assert_eq!(passed_as_it_is(&mut lab, Passed::Split), 1);
    // Its rest, with another message behind it.
    let rest = [&whole[100..], &request(8)].concat();
    assert_eq!(control.say(&mut lab, 0, &rest), rest);
    assert_eq!((sums(&mut lab).expected, passed_as_it_is(&mut lab, Passed::Malformed)), (1, 0));
    for (data, cause) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), Passed::Malformed),
        (request(u16::MAX), Passed::Malformed),
        (link_info(99), Passed::Foreign),
        (clear(99), Passed::Foreign),
        (reply(1, 99, true), Passed::Foreign),
    ] {
        let before = passed_as_it_is(&mut lab, cause);
        assert_eq!(control.say(&mut lab, 0, &data), data);
        assert_eq!(passed_as_it_is(&mut lab, cause), before + 1, "{data:?}");
    }
    let mut packet = control.segment(0, ACK, &request(9));
    packet[36] ^= 1;
    lab.send("west", [packet_from(1, &packet)]);
    assert_eq!(lab.take("east").len(), 1);
    assert_eq!((sums(&mut lab).expected, passed_as_it_is(&mut lab, Passed::Checksum)), (1, 1));
    // As many calls as a control connection may have.
    for id in 10..13 {
        control.say(&mut lab, 0, &request(id));
    }
    assert_eq!((sums(&mut lab).expected, passed_as_it_is(&mut lab, Passed::Full)), (4, 0));
    control.say(&mut lab, 0, &request(13));
    assert_eq!((sums(&mut lab).expected, passed_as_it_is(&mut lab, Passed::Full)), (4, 1));
    // A refused call makes room.
    control.say(&mut lab, 1, &reply(0, 10, false));
    control.say(&mut lab, 0, &request(13));
    assert_eq!((sums(&mut lab).expected, lab.state().alg_sums().begun), (5, 0));
}

/// GRE that no call announces goes by its addresses, as before.
#[test]
fn other_gre_goes_by_its_addresses() {
    let mut lab = Lab::new(&masquerade());
    let (client, server, outside) = (four(host4(1)), four(host4(2)), four(our4(2)));
    let mut control = behind(&mut lab, 1, 4000);
    control.say(&mut lab, 0, &request(7));
    control.say(&mut lab, 1, &reply(9, 7, true));
    for id in [1, 2] {
        let sent = passed(&mut lab, (1, "east"), (client, server), id);
        assert_eq!(sent, Some(((outside, server), id)));
        let back = passed(&mut lab, (2, "west"), (server, outside), id);
        assert_eq!(back, Some(((server, client), id)));
    }
    assert!(passed(&mut lab, (2, "west"), (server, outside), 7).is_some());
    assert_eq!((flows(&mut lab).len(), sums(&mut lab).begun), (3, 1));
    // Another host has the flow of that: there is one for each pair of addresses.
    assert_eq!(passed(&mut lab, (3, "east"), (four(host4(3)), server), 1), None);
}

/// Errors quote the first 8 bytes of enhanced GRE, up to the call ID.
#[test]
fn errors_about_calls_reach_their_senders() {
    let mut lab = Lab::new(&masquerade());
    behind(&mut lab, 3, 4000).say(&mut lab, 0, &request(7));
    let mut control = behind(&mut lab, 1, 4000);
    let (client, server, outside) = (four(host4(1)), four(host4(2)), four(our4(2)));
    let asked = control.say(&mut lab, 0, &request(7));
    let id = u16::from_be_bytes([asked[12], asked[13]]);
    control.say(&mut lab, 1, &reply(9, id, true));
    passed(&mut lab, (2, "west"), (server, outside), id).unwrap();
    passed(&mut lab, (1, "east"), (client, server), 9).unwrap();
    // About a packet of the client, of the server outside.
    let sent = gre((outside, server), 9);
    for length in [28, sent.len()] {
        let packet = error((host4(2), our4(2)), (3, 4, 1200), &sent[..length]);
        lab.send("east", [packet_from(2, &packet)]);
        let got = lab.only("west");
        assert_eq!(got.addresses(), (server.to_string(), client.to_string()));
        assert_eq!(got.payload[12..20], gre((client, server), 9)[12..20]);
        assert_eq!(got.payload[20..28], sent[20..28]);
    }
    // About a packet of the server, of the client.
    let received = gre((server, client), 7);
    for length in [28, received.len()] {
        let packet = error((host4(1), host4(2)), (3, 2, 0), &received[..length]);
        lab.send("west", [packet_from(1, &packet)]);
        let got = lab.only("east");
        assert_eq!(got.addresses(), (outside.to_string(), server.to_string()));
        assert_eq!(got.payload[12..20], gre((server, outside), id)[12..20]);
        assert_eq!(got.payload[26..28], id.to_be_bytes());
    }
    // About GRE of these hosts that is of no call.
    passed(&mut lab, (1, "east"), (client, server), 77).unwrap();
    let packet = error((host4(2), our4(2)), (3, 4, 1200), &gre((outside, server), 77)[..28]);
    lab.send("east", [packet_from(2, &packet)]);
    assert_eq!(lab.only("west").addresses().1, client.to_string());
}
