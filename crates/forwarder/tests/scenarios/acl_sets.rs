//! Access lists whose rules have many prefixes, protocols and ports, as sets give them: one rule each, with its
//! counters.

use std::net::{IpAddr, Ipv4Addr};

use stoa_api::v1;
use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::{Prefix, RuleOfList};
use stoa_wire::protocol;

use crate::acl::{all, hit, hits, input, list, pass, to_east, to_port};
use crate::harness::*;

/// A prefix of one host.
fn host(ip: Ipv4Addr) -> Prefix {
    (IpAddr::V4(ip), 32)
}

/// A rule for UDP from these hosts to these ports.
fn from(sources: &[Ipv4Addr], ports: &[u16]) -> RuleOfList {
    RuleOfList {
        family: 4,
        sources: sources.iter().copied().map(host).collect(),
        protocols: vec![protocol::TCP, protocol::UDP],
        destination_ports: ports.iter().map(|port| (*port, *port)).collect(),
        ..all(Action::Accept)
    }
}

fn setup(rules: &[(&str, RuleOfList)]) -> Setup {
    input(list(Setup::three_ports(), "edge", rules), "west", &["edge"])
}

/// UDP packets of IPv4 from a host to a port.
fn to(source: Ipv4Addr, port: u16) -> Vec<u8> {
    udp_ports(source, host4(2), (1000, port), b"")
}

#[test]
fn a_rule_with_many_values_is_one_rule() {
    let other = Ipv4Addr::new(192, 0, 2, 7);
    let rule = from(&[host4(1), other], &[53, 80]);
    let mut lab = Lab::new(&setup(&[("sets", rule)]));
    let sources = [host4(1), other, Ipv4Addr::new(192, 0, 2, 8)];
    let packets = sources.into_iter().flat_map(|it| [53, 80, 81].map(|port| to(it, port)));
    assert_eq!(pass(&mut lab, packets), 4);
    lab.assert_dropped(&[("acl-input", 5)]);
    assert_eq!(hits(&mut lab), [hit("sets", 4, 4 * 28)]);
    let limits = lab.state().list_limits();
    let used = |name: &str| limits.iter().find(|it| it.name == name).unwrap().used;
    // The tree of IPv6 has no entry, and counts as one.
    assert_eq!((used("acl-rules"), used("acl-rules-compiled")), (Some(1), Some(2 * 2 * 2 + 1)));
}

#[test]
fn counters_outlive_other_sets_and_other_names() {
    let first = from(&[host4(1)], &[53, 54]);
    let second = from(&[host4(1)], &[80]);
    let mut lab = Lab::new(&setup(&[("first", first.clone()), ("second", second)]));
    let packets = || [53, 54, 80].map(|port| to(host4(1), port));
    assert_eq!(pass(&mut lab, packets()), 3);
    // The set of the second rule changes. Its counters begin at 0, those of the first one do not.
    let wider = from(&[host4(1), host4(7)], &[80]);
    let mut changed = setup(&[("first", first.clone()), ("second", wider)]);
    lab.apply(&changed).unwrap();
    assert_eq!(hits(&mut lab), [hit("first", 2, 56), hit("second", 0, 0)]);
    // A name of a set changes nothing.
    let key = ("edge".to_owned(), "first".to_owned());
    let sets = v1::AclRuleSets { destination_ports: "dns".to_owned(), ..Default::default() };
    changed.0.acl_rules.get_mut(&key).unwrap().sets = Some(sets.clone());
    lab.apply(&changed).unwrap();
    assert_eq!(pass(&mut lab, packets()), 3);
    assert_eq!(hits(&mut lab), [hit("first", 4, 112), hit("second", 1, 28)]);
    let (rules, _) = lab.state().list_acl_rules("", (String::new(), 0));
    assert_eq!(rules[0].rule.as_ref().unwrap().sets, Some(sets));
}

#[test]
fn a_rule_that_matches_nothing_is_listed_and_has_no_entry() {
    let never = RuleOfList { matches_nothing: true, ..all(Action::Drop) };
    let mut lab = Lab::new(&setup(&[("never", never), ("dns", to_port(53, Action::Accept))]));
    assert_eq!(pass(&mut lab, to_east(1, 53)), 2);
    assert_eq!(hits(&mut lab), [hit("never", 0, 0), hit("dns", 2, 76)]);
}

#[test]
fn large_products_are_compiled_and_listed_in_pages() {
    // Every second host and port: nothing that could be joined.
    let hosts: Vec<Ipv4Addr> = (0..1_000).map(|n| Ipv4Addr::from(0x0a07_0000 + 2 * n)).collect();
    let ports: Vec<u16> = (0..25).map(|n| 100 + 2 * n).collect();
    let small = from(&[host4(1)], &[53]);
    let rules = [("large", from(&hosts, &ports)), ("small", small)];
    let mut lab = Lab::new(&setup(&rules));
    let packets = [
        to(hosts[0], 100),
        to(hosts[999], 148),
        to(hosts[500], 101),
        to(Ipv4Addr::from(u32::from(hosts[500]) + 1), 100),
        to(host4(1), 53),
    ];
    assert_eq!(pass(&mut lab, packets), 3);
    assert_eq!(hits(&mut lab), [hit("large", 2, 56), hit("small", 1, 28)]);
    // A page ends behind the rule with which it has enough values.
    let many: Vec<(String, RuleOfList)> =
        (0..20).map(|at| (format!("r{at:02}"), from(&hosts, &[at]))).collect();
    let many: Vec<(&str, RuleOfList)> =
        many.iter().map(|(name, rule)| (name.as_str(), rule.clone())).collect();
    lab.apply(&setup(&many)).unwrap();
    let (mut from, mut pages, mut names) = ((String::new(), 0), 0, Vec::new());
    loop {
        let (page, next) = lab.state().list_acl_rules("edge", from);
        names.extend(page.into_iter().map(|it| it.rule.unwrap().name));
        pages += 1;
        let Some(next) = next else { break };
        from = next;
    }
    assert_eq!(names, many.iter().map(|it| it.0).collect::<Vec<_>>());
    assert_eq!(pages, 3);
}
