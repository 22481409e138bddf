//! Access lists: received, forwarded and local packets of both families, answers to rejected ones, fragments, and
//! counters that outlive changes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::{AclRule, AclSets, Fragments, RuleOfList};
use stoa_wire::checksum::Pseudo;
use stoa_wire::tcp::{self, flag};
use stoa_wire::{ipv4, ipv6, protocol};

use crate::harness::*;

/// Adds a list with these rules in their order, or replaces it.
pub fn list(mut setup: Setup, acl: &str, rules: &[(&str, RuleOfList)]) -> Setup {
    setup.0.acl_rules.retain(|(of, _), _| of != acl);
    let mut after = String::new();
    for (name, rule) in rules {
        let rule = AclRule { after: after.clone(), sets: None, rule: rule.clone() };
        after = (*name).to_owned();
        setup.0.acl_rules.insert((acl.to_owned(), after.clone()), rule);
    }
    setup
}

fn names(acls: &[&str]) -> Vec<String> {
    acls.iter().map(|acl| (*acl).to_owned()).collect()
}

/// Attaches lists of both families to the input of an interface.
pub fn input(setup: Setup, interface: &str, acls: &[&str]) -> Setup {
    let acls = names(acls);
    setup.with(interface, |it| {
        it.acls = AclSets { in4: acls.clone(), in6: acls, ..it.acls.clone() };
    })
}

/// The same for the output.
pub fn output(setup: Setup, interface: &str, acls: &[&str]) -> Setup {
    let acls = names(acls);
    setup.with(interface, |it| {
        it.acls = AclSets { out4: acls.clone(), out6: acls, ..it.acls.clone() };
    })
}

pub fn all(action: Action) -> RuleOfList {
    RuleOfList::all(action)
}

/// A rule for a destination port of UDP.
pub fn to_port(port: u16, action: Action) -> RuleOfList {
    let destination_ports = vec![(port, port)];
    RuleOfList { protocols: vec![protocol::UDP], destination_ports, ..all(action) }
}

/// A UDP packet of each family from host `n` to the host behind east.
pub fn to_east(n: u8, port: u16) -> [Vec<u8>; 2] {
    [
        udp_ports(host4(n), host4(2), (1000, port), b""),
        udp_ports(host6(n), host6(2), (1000, port), b""),
    ]
}

/// A TCP segment of each family from host 1 to the host behind east.
fn segments(flags: u8) -> [Vec<u8>; 2] {
    let segment = |pseudo: &Pseudo| {
        let mut bytes = [0; tcp::LENGTH];
        let builder = tcp::Builder {
            source_port: 1000,
            destination_port: 80,
            sequence: 7,
            flags,
            ..tcp::Builder::default()
        };
        builder.build(&mut bytes, pseudo, &[]).unwrap();
        bytes
    };
    let four = segment(&Pseudo::Ip4 { source: host4(1), destination: host4(2) });
    let six = segment(&Pseudo::Ip6 { source: host6(1), destination: host6(2) });
    [
        ip4(&ipv4::Builder::new(host4(1), host4(2), protocol::TCP), &four),
        ip6(&ipv6::Builder::new(host6(1), host6(2), protocol::TCP), &six),
    ]
}

/// Sends packets from host 1 into west; returns how many leave by east.
pub fn pass(lab: &mut Lab, packets: impl IntoIterator<Item = Vec<u8>>) -> usize {
    lab.send("west", packets.into_iter().map(|packet| packet_from(1, &packet)));
    lab.take("east").len()
}

/// Rules with their hits: name, packets, bytes.
pub fn hits(lab: &mut Lab) -> Vec<(String, u64, u64)> {
    let (rules, next) = lab.state().list_acl_rules("", (String::new(), 0));
    assert!(next.is_none());
    rules.into_iter().map(|it| (it.rule.unwrap().name, it.packets, it.bytes)).collect()
}

pub fn hit(name: &str, packets: u64, bytes: u64) -> (String, u64, u64) {
    (name.to_owned(), packets, bytes)
}

#[test]
fn the_first_rule_that_matches_decides() {
    let rules = [
        ("dns", to_port(53, Action::Accept)),
        ("low", RuleOfList { destination_ports: vec![(0, 100)], ..to_port(0, Action::Drop) }),
    ];
    let first = list(Setup::three_ports(), "first", &rules);
    let both = list(first, "second", &[("high", to_port(2000, Action::Accept))]);
    let setup = input(both, "west", &["first", "second"]);
    let mut lab = Lab::new(&setup);
    let all = [53, 54, 2000, 3000].into_iter().flat_map(|port| to_east(1, port));
    assert_eq!(pass(&mut lab, all), 4);
    lab.assert_dropped(&[("acl-input", 4)]);
    assert_eq!(hits(&mut lab), [hit("dns", 2, 76), hit("low", 2, 76), hit("high", 2, 76)]);
    let (rules, _) = lab.state().list_acl_rules("second", (String::new(), 0));
    assert_eq!(rules.len(), 1);
    assert!(rules[0].last_hit_unix_s > 1_600_000_000, "{}", rules[0].last_hit_unix_s);
    // Other interfaces have no lists.
    lab.send("north", to_east(3, 3000).map(|packet| packet_from(3, &packet)));
    assert_eq!(lab.take("east").len(), 2);
    lab.assert_dropped(&[]);
}

#[test]
fn counters_outlive_changes_of_other_rules() {
    let dns = to_port(53, Action::Accept);
    let with = |rules: &[(&str, RuleOfList)]| {
        input(list(Setup::three_ports(), "edge", rules), "west", &["edge"])
    };
    let mut lab = Lab::new(&with(&[("dns", dns.clone())]));
    assert_eq!(pass(&mut lab, to_east(1, 53)), 2);
    // A rule before it, and one behind it.
    let before = ("web", to_port(80, Action::Drop));
    let behind = ("rest", all(Action::Drop));
    lab.apply(&with(&[before.clone(), ("dns", dns.clone()), behind.clone()])).unwrap();
    assert_eq!(pass(&mut lab, to_east(1, 53).into_iter().chain(to_east(1, 80))), 2);
    assert_eq!(hits(&mut lab), [hit("web", 2, 76), hit("dns", 4, 152), hit("rest", 0, 0)]);
    // It changes: its counters begin at 0. The other one moves.
    let dropped = RuleOfList { action: Action::Drop, ..dns };
    lab.apply(&with(&[("dns", dropped), before, behind])).unwrap();
    assert_eq!(pass(&mut lab, to_east(1, 53)), 0);
    assert_eq!(hits(&mut lab), [hit("dns", 2, 76), hit("web", 2, 76), hit("rest", 0, 0)]);
    // Without lists nothing is in the way.
    lab.apply(&Setup::three_ports()).unwrap();
    lab.settle();
    lab.forget();
    assert_eq!(pass(&mut lab, to_east(1, 80)), 2);
    assert!(hits(&mut lab).is_empty());
    assert!(lab.node_counts().iter().all(|(node, _)| !node.contains("-acl-")));
    lab.assert_dropped(&[]);
}

#[test]
fn rejected_packets_are_answered() {
    for is_input in [true, false] {
        let setup = list(Setup::three_ports(), "edge", &[("all", all(Action::Reject))]);
        let setup = match is_input {
            true => input(setup, "west", &["edge"]),
            false => output(setup, "east", &["edge"]),
        };
        let reason = if is_input { "acl-input" } else { "acl-output" };
        let mut lab = Lab::new(&setup);
        assert_eq!(pass(&mut lab, to_east(1, 53)), 0);
        let answers = lab.parsed("west");
        let icmp: Vec<_> = answers.iter().filter_map(|it| it.icmp).collect();
        assert_eq!(icmp, [(3, 13), (1, 1)]);
        lab.assert_dropped(&[(reason, 2)]);
        assert_eq!(pass(&mut lab, segments(flag::SYN)), 0);
        let answers = lab.parsed("west");
        assert_eq!(answers.len(), 2);
        for answer in answers {
            let segment = tcp::parse(&answer.payload).unwrap();
            assert_eq!((segment.source_port(), segment.destination_port()), (80, 1000));
            assert!(segment.has(flag::RST | flag::ACK));
            assert_eq!(segment.header().acknowledgement.get(), 8);
            let east: IpAddr =
                if answer.ip.unwrap().0.is_ipv4() { host4(2).into() } else { host6(2).into() };
            assert_eq!(answer.ip.unwrap().0, east);
        }
        lab.assert_dropped(&[(reason, 2)]);
        // A reset causes none.
        assert_eq!(pass(&mut lab, segments(flag::RST)), 0);
        lab.assert_silent();
        lab.assert_dropped(&[(reason, 2)]);
    }
}

#[test]
fn output_lists_see_forwarded_packets_only() {
    let setup = list(Setup::three_ports(), "edge", &[("web", to_port(80, Action::Accept))]);
    let mut lab = Lab::new(&output(setup.clone(), "east", &["edge"]));
    let packets = to_east(1, 80).into_iter().chain(to_east(1, 81));
    assert_eq!(pass(&mut lab, packets), 2);
    lab.assert_dropped(&[("acl-output", 2)]);
    // The router replies to a host behind east.
    lab.send(
        "east",
        [
            packet_from(2, &ping4(host4(2), our4(2), b"")),
            packet_from(2, &ping6(host6(2), our6(2), b"")),
        ],
    );
    assert_eq!(lab.take("east").len(), 2);
    // On the way to north there is no list.
    lab.send("west", [packet_from(1, &udp(host4(1), host4(3), b""))]);
    assert_eq!(lab.take("north").len(), 1);
    lab.assert_dropped(&[]);
    // The list goes while packets are sent.
    lab.apply(&setup).unwrap();
    assert_eq!(pass(&mut lab, to_east(1, 81)), 2);
}

#[test]
fn packets_for_the_router_do_not_escape() {
    let setup = list(Setup::three_ports(), "edge", &[("web", to_port(80, Action::Accept))]);
    let setup = input(setup, "west", &["edge"]);
    let mut lab = Lab::new(&setup);
    let local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    let to_us = [ping4(host4(1), our4(1), b""), ping6(host6(1), our6(1), b"")];
    lab.send("west", to_us.map(|packet| packet_from(1, &packet)));
    lab.assert_silent();
    lab.assert_dropped(&[("acl-input", 2)]);
    // To all nodes, and from a link-local address.
    let all_nodes = frame(
        [0x33, 0x33, 0, 0, 0, 1],
        host_mac(1),
        &[],
        0x86dd,
        &ping6(host6(1), ipv6::ALL_NODES, b""),
    );
    let all_hosts = Ipv4Addr::new(224, 0, 0, 1);
    let all_hosts =
        frame([1, 0, 0x5e, 0, 0, 1], host_mac(1), &[], 0x800, &ping4(host4(1), all_hosts, b""));
    let from_link = packet_from(1, &ping6(local, our6(1), b""));
    lab.send("west", [all_nodes, all_hosts, from_link]);
    lab.assert_silent();
    lab.assert_dropped(&[("acl-input", 3)]);
    // Neighbour discovery works without a rule for it.
    let to = (host6(1), our6(1));
    lab.send("west", [solicitation((host_mac(1), our_mac(1)), to, our6(1), Some(host_mac(1)))]);
    assert_eq!(lab.only("west").icmp, Some((136, 0)));
    // But a rule can refuse it.
    let refused = list(setup, "edge", &[("all", all(Action::Drop))]);
    lab.apply(&refused).unwrap();
    lab.send("west", [solicitation((host_mac(1), our_mac(1)), to, our6(1), Some(host_mac(1)))]);
    lab.assert_silent();
    lab.assert_dropped(&[("acl-input", 1)]);
}

#[test]
fn errors_that_paths_need_pass_without_a_rule() {
    let setup = list(Setup::three_ports(), "edge", &[("web", to_port(80, Action::Accept))]);
    let mut lab = Lab::new(&output(input(setup, "west", &["edge"]), "east", &["edge"]));
    let error = |kind: u8, code: u8| {
        let mut message = [0; 8];
        (message[0], message[1]) = (kind, code);
        let sum = stoa_wire::checksum::finish(stoa_wire::checksum::sum(&message));
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        ip4(&ipv4::Builder::new(host4(1), host4(2), protocol::ICMP4), &message)
    };
    assert_eq!(pass(&mut lab, [error(3, 4)]), 1);
    assert_eq!(pass(&mut lab, [error(3, 1), error(8, 0)]), 0);
    lab.assert_dropped(&[("acl-input", 2)]);
}

/// A fragment of a UDP packet to port 2000, at this offset in units of 8 bytes.
pub fn fragment(offset: u16, more: bool, payload: &[u8], upper: u8) -> Vec<u8> {
    let flags_fragment = offset | if more { ipv4::MORE_FRAGMENTS } else { 0 };
    let mut packet = ip4(&ipv4::Builder::new(host4(1), host4(2), upper), payload);
    packet[6..8].copy_from_slice(&flags_fragment.to_be_bytes());
    packet[10..12].fill(0);
    let sum = stoa_wire::checksum::finish(stoa_wire::checksum::sum(&packet[..20]));
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn fragments_match_by_their_state() {
    let later = RuleOfList { fragments: Fragments::Later, ..all(Action::Accept) };
    let rules = [("port", to_port(2000, Action::Accept)), ("later", later)];
    let setup = list(Setup::three_ports(), "edge", &rules);
    let mut lab = Lab::new(&input(setup, "west", &["edge"]));
    let header = datagram(host4(1).into(), host4(2).into(), (1, 2000), &[0; 16]);
    let other = datagram(host4(1).into(), host4(2).into(), (1, 2001), &[0; 16]);
    let parts = [
        fragment(0, true, &header, protocol::UDP),
        fragment(0, true, &other, protocol::UDP),
        fragment(3, false, &[0; 16], protocol::UDP),
    ];
    assert_eq!(pass(&mut lab, parts), 2);
    lab.assert_dropped(&[("acl-input", 1)]);
    assert_eq!(hits(&mut lab), [hit("port", 1, 44), hit("later", 1, 36)]);
    // Upper headers that are cut, or overwritten by a later fragment.
    let cut = [
        fragment(0, true, &header[..6], protocol::UDP),
        fragment(0, true, &[0; 16], protocol::TCP),
        fragment(1, true, &[0; 16], protocol::TCP),
    ];
    assert_eq!(pass(&mut lab, cut), 0);
    lab.assert_dropped(&[("acl-truncated", 3)]);
    assert_eq!(hits(&mut lab)[1], hit("later", 1, 36));
}

#[test]
fn interfaces_of_one_vector_have_their_own_lists() {
    let mut setup = Setup::three_ports();
    for n in 0..4_u8 {
        let name = format!("west.{n}");
        setup =
            setup.sub(&name, 20 + n, "west", &[(0x8100, 100 + u16::from(n))]).host(&name, 20 + n);
        let port = 2000 + u16::from(n);
        setup = list(setup, &name, &[("own", to_port(port, Action::Accept))]);
        setup = if n < 3 { input(setup, &name, &[&name]) } else { setup };
    }
    let mut lab = Lab::new(&setup);
    let frames = (0..240_u16).map(|at| {
        let (n, port) = ((at % 4) as u8, 2000 + at / 4 % 4);
        let packet = &to_east(20 + n, port)[usize::from(at / 16 % 2)];
        frame(
            our_mac(1),
            host_mac(20 + n),
            &[(0x8100, 100 + u16::from(n))],
            ethertype_of(packet),
            packet,
        )
    });
    lab.send("west", frames);
    // 15 of 60 of each of three interfaces, and all 60 of the last one.
    assert_eq!(lab.take("east").len(), 3 * 15 + 60);
    lab.assert_dropped(&[("acl-input", 3 * 45)]);
    let counted: Vec<u64> = hits(&mut lab).into_iter().map(|it| it.1).collect();
    assert_eq!(counted, [15, 15, 15, 0]);
}

#[test]
fn too_many_compiled_rules_are_refused_and_nothing_changes() {
    let mut setup = input(
        list(Setup::three_ports(), "edge", &[("web", to_port(80, Action::Accept))]),
        "west",
        &["edge"],
    );
    let mut lab = Lab::new(&setup);
    // Two interfaces and families, 20 ports a rule: 320,000 entries. Those in force stay until the new ones are.
    let ports = |at: u16| (0..20).map(|n| (n * 3_000 + at, n * 3_000 + at)).collect();
    let with = |at| RuleOfList { destination_ports: ports(at), ..to_port(0, Action::Accept) };
    let rules: Vec<(String, RuleOfList)> =
        (0..4_000).map(|at| (format!("{at}"), with(at))).collect();
    let named: Vec<(&str, RuleOfList)> =
        rules.iter().map(|(name, rule)| (name.as_str(), rule.clone())).collect();
    setup = input(list(setup, "large", &named), "west", &["edge", "large"]);
    setup = output(setup, "east", &["large"]);
    let refused = lab.apply(&setup).unwrap_err();
    assert!(refused.is_full, "{refused:?}");
    assert_eq!(refused.errors[0].path, "access lists");
    let cause = &refused.errors[0].cause;
    assert!(
        cause.contains("320004 entries of attached lists are more than 262144: rule "),
        "{cause}"
    );
    assert!(cause.contains("of access list large has 20 of them"), "{cause}");
    let limits = lab.state().list_limits();
    let limit = limits.iter().find(|it| it.name == "acl-rules-compiled").unwrap();
    assert_eq!((limit.used, limit.refused), (Some(2), 1));
    assert_eq!(pass(&mut lab, to_east(1, 80).into_iter().chain(to_east(1, 81))), 2);
    assert_eq!(hits(&mut lab), [hit("web", 2, 76)]);
    lab.assert_dropped(&[("acl-input", 2)]);
}
