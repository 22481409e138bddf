//! Ways around stateful rules that an attacker's review has found, and connections that it has seen die.

use std::net::Ipv4Addr;

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::RuleOfList;
use stoa_wire::checksum::{finish, sum};
use stoa_wire::tcp::flag;
use stoa_wire::{ipv4, protocol};

use crate::acl::{all, input, list, output, to_port};
use crate::acl_stateful::{
    back, connect, flows, icmp4, into, open_gate, out, stateful, there, udp_back, udp_there,
};
use crate::harness::*;

/// An IPv4 packet with another TTL.
pub fn with_ttl(mut packet: Vec<u8>, ttl: u8) -> Vec<u8> {
    packet[8] = ttl;
    packet[10..12].fill(0);
    let checksum = finish(sum(&packet[..20]));
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// A fragment of an IPv4 packet: `length` bytes from `offset` on.
fn part(whole: &[u8], identification: u16, (offset, length): (usize, usize)) -> Vec<u8> {
    let (header, data) = whole.split_at(20);
    let is_last = offset + length == data.len();
    let address = |at: usize| Ipv4Addr::from_octets(header[at..at + 4].try_into().unwrap());
    let builder = ipv4::Builder::new(address(12), address(16), header[9]);
    let mut packet = ip4(&builder, &data[offset..offset + length]);
    packet[4..6].copy_from_slice(&identification.to_be_bytes());
    let word = (offset as u16 / 8) | if is_last { 0 } else { ipv4::MORE_FRAGMENTS };
    packet[6..8].copy_from_slice(&word.to_be_bytes());
    with_ttl(packet, 64)
}

/// An IPv4 packet in two fragments.
pub fn halves(whole: &[u8], identification: u16) -> [Vec<u8>; 2] {
    let data = whole.len() - 20;
    let first = (data / 2).next_multiple_of(8);
    [(0, first), (first, data - first)].map(|range| part(whole, identification, range))
}

/// All of west may go out, but the list of the output of east admits port 80 only; nothing else comes in from east.
fn two_lists() -> Setup {
    let setup = list(Setup::three_ports(), "out", &[("out", stateful(all(Action::Accept)))]);
    let setup = list(setup, "web", &[("web", to_port(80, Action::Accept))]);
    let setup = list(setup, "in", &[("rest", all(Action::Drop))]);
    input(output(input(setup, "west", &["out"]), "east", &["web"]), "east", &["in"])
}

#[test]
fn a_packet_that_does_not_leave_opens_nothing() {
    let mut lab = Lab::new(&two_lists());
    let [refused, _] = udp_there((5000, 22));
    let [reply, _] = udp_back((22, 5000));
    // It is accepted by the input, and expires before the output.
    for ttl in [1, 64] {
        assert_eq!(out(&mut lab, [with_ttl(refused.clone(), ttl)]), 0);
        // The router's own error about it.
        lab.take("west");
        assert_eq!(into(&mut lab, [reply.clone()]), 0);
    }
    // What the output admits has replies.
    assert_eq!(out(&mut lab, udp_there((5000, 80))), 2);
    assert_eq!(into(&mut lab, udp_back((80, 5000))), 2);
    assert_eq!(out(&mut lab, udp_there((5000, 80))), 2);
}

#[test]
fn a_packet_that_waits_for_its_neighbor_opens_nothing() {
    let mut lab = Lab::new(&two_lists());
    let absent = Ipv4Addr::new(10, 0, 2, 99);
    // All lists would accept it.
    assert_eq!(out(&mut lab, [udp_ports(host4(1), absent, (5000, 80), b"ask")]), 1, "ARP");
    assert_eq!(into(&mut lab, [udp_ports(absent, host4(1), (80, 5000), b"forged")]), 0);
    lab.assert_dropped(&[("acl-input", 1)]);
}

#[test]
fn a_change_on_its_way_to_the_output_cuts_no_replies() {
    // Only the output keeps flows.
    let setup = |more: bool| {
        let rule = stateful(to_port(80, Action::Accept));
        let setup = list(Setup::three_ports(), "web", &[("web", rule)]);
        let drop = [("rest", all(Action::Drop)), ("more", to_port(9, Action::Drop))];
        let setup = list(setup, "in", &drop[..1 + usize::from(more)]);
        input(output(setup, "east", &["web"]), "east", &["in"])
    };
    let mut lab = Lab::new(&setup(false));
    assert_eq!(out(&mut lab, udp_there((5000, 80))), 2);
    assert_eq!(into(&mut lab, udp_back((80, 5000))), 2);
    lab.apply(&setup(true)).unwrap();
    lab.settle();
    let [ask, _] = udp_there((5000, 80));
    let [answer, _] = udp_back((80, 5000));
    // Both directions wait for the same walk of the graph.
    lab.put("west", 0, [packet_from(1, &ask), packet_from(1, &ask)]);
    lab.put("east", 0, [packet_from(2, &answer)]);
    lab.settle();
    assert_eq!((lab.take("east").len(), lab.take("west").len()), (2, 1));
    lab.assert_dropped(&[]);
    assert!(flows(&mut lab).iter().all(|flow| !flow.suspended));
}

#[test]
fn connections_survive_segments_in_fragments() {
    let mut lab = Lab::new(&open_gate());
    connect(&mut lab);
    let [data, _] = there((101, 901), flag::ACK, 400);
    assert_eq!(out(&mut lab, halves(&data, 7)), 2);
    let [acknowledged, _] = back((901, 501), flag::ACK, 0);
    assert_eq!(into(&mut lab, [acknowledged]), 1);
    let [more, _] = there((501, 901), flag::ACK, 100);
    assert_eq!(out(&mut lab, [more]), 1);
    lab.assert_dropped(&[]);
}

#[test]
fn fragments_do_not_hide_segments() {
    let mut lab = Lab::new(&open_gate());
    // Without a connection.
    let [data, _] = there((101, 901), flag::ACK, 400);
    assert_eq!(out(&mut lab, halves(&data, 1)[..1].to_vec()), 0);
    lab.assert_dropped(&[("tcp-no-connection", 1)]);
    let [syn, _] = there((101, 0), flag::SYN, 400);
    assert_eq!(out(&mut lab, halves(&syn, 2)[..1].to_vec()), 0);
    lab.assert_dropped(&[("tcp-no-connection", 1)]);
    // Within one.
    connect(&mut lab);
    let [reset, _] = back((0x7000_0000, 0), flag::RST, 64);
    // The other fragment does not follow one that was refused.
    assert_eq!(into(&mut lab, halves(&reset, 3)), 0);
    lab.assert_dropped(&[("acl-input", 1), ("tcp-blind-reset", 1)]);
    let [odd, _] = back((901, 101), flag::SYN | flag::FIN, 64);
    assert_eq!(into(&mut lab, halves(&odd, 4)[..1].to_vec()), 0);
    lab.assert_dropped(&[("tcp-impossible-flags", 1)]);
    assert_eq!(out(&mut lab, there((101, 901), flag::ACK, 10)), 2);
}

#[test]
fn a_first_datagram_may_be_fragmented() {
    // The rule of the output has ports, which later fragments do not have.
    let mut lab = Lab::new(&two_lists());
    let whole = datagram(host4(1).into(), host4(2).into(), (5000, 80), &[9; 256]);
    let whole = ip4(&ipv4::Builder::new(host4(1), host4(2), protocol::UDP), &whole);
    assert_eq!(out(&mut lab, halves(&whole, 1)), 2);
    let refused = datagram(host4(1).into(), host4(2).into(), (5000, 81), &[9; 256]);
    let refused = ip4(&ipv4::Builder::new(host4(1), host4(2), protocol::UDP), &refused);
    assert_eq!(out(&mut lab, halves(&refused, 2)), 0);
    lab.assert_dropped(&[("acl-output", 2)]);
}

#[test]
fn queries_of_another_kind_are_of_another_flow() {
    let mut lab = Lab::new(&open_gate());
    assert_eq!(out(&mut lab, [ping4(host4(1), host4(2), b"x")]), 1);
    let echoed = [0, 7, 0, 9];
    // A timestamp reply (RFC 792) with the identifier of the ping.
    assert_eq!(into(&mut lab, [icmp4(14, 0, echoed, &[0; 12])]), 0);
    lab.assert_dropped(&[("acl-input", 1)]);
    assert_eq!(into(&mut lab, [icmp4(0, 0, echoed, b"x")]), 1);
}

#[test]
fn both_ends_may_ping_with_the_same_identifier() {
    let setup = list(Setup::three_ports(), "any", &[("any", stateful(all(Action::Accept)))]);
    let mut lab = Lab::new(&input(input(setup, "west", &["any"]), "east", &["any"]));
    assert_eq!(out(&mut lab, [ping4(host4(1), host4(2), b"x")]), 1);
    assert_eq!(into(&mut lab, [icmp4(8, 0, [0, 7, 0, 9], b"x")]), 1);
    assert_eq!(flows(&mut lab).len(), 2);
}

#[test]
fn an_address_of_the_router_begins_no_flow() {
    let mut lab = Lab::new(&open_gate());
    let forged = udp_ports(our4(2), host4(2), (161, 5000), b"x");
    lab.send("west", [packet_from(1, &forged)]);
    lab.take("east");
    assert_eq!(flows(&mut lab).len(), 0);
}

#[test]
fn errors_about_a_connection_need_a_number_that_is_under_way() {
    let mut lab = Lab::new(&open_gate());
    connect(&mut lab);
    assert_eq!(out(&mut lab, there((101, 901), flag::ACK, 100)), 2);
    let error = |sequence: u32| {
        let [four, _] = there((sequence, 901), flag::ACK, 100);
        icmp4(3, 4, [0, 0, 5, 0], &four[..28])
    };
    assert_eq!(into(&mut lab, [error(101)]), 1);
    assert_eq!(into(&mut lab, [error(0x4000_0000)]), 0);
    lab.assert_dropped(&[("acl-input", 1)]);
}

#[test]
fn a_forged_segment_ends_no_connection_after_a_change() {
    let rule = |port| {
        let rule = RuleOfList { protocols: vec![protocol::TCP], ..all(Action::Accept) };
        let setup = list(Setup::three_ports(), "out", &[("out", stateful(rule))]);
        let refusals = [("port", to_port(port, Action::Drop)), ("rest", all(Action::Drop))];
        let setup = list(setup, "in", &refusals);
        input(input(input(setup, "west", &["out"]), "east", &["in"]), "north", &["in"])
    };
    let mut lab = Lab::new(&rule(1));
    connect(&mut lab);
    lab.apply(&rule(2)).unwrap();
    lab.settle();
    // By another interface, whose list refuses it, and with a number out of the window.
    let forged = there((0x7000_0000, 901), flag::ACK, 10);
    lab.send("north", forged.map(|packet| packet_from(3, &packet)));
    lab.take("east");
    lab.assert_dropped(&[("tcp-out-of-window", 2)]);
    assert_eq!(out(&mut lab, there((101, 901), flag::ACK, 10)), 2);
    assert_eq!(into(&mut lab, back((901, 111), flag::ACK, 10)), 2);
}
