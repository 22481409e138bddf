//! The pair of a zone and the router decides about what Linux gets on a host interface: to groups and all hosts, too.

use std::net::Ipv4Addr;

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::RuleOfList;
use stoa_wire::ethernet::Mac;
use stoa_wire::{icmp6, ipv4, ipv6, protocol};

use crate::acl::{all, hit, hits, input, list};
use crate::harness::*;
use crate::zones::{pair, unmatched, zone};

const OSPF: u8 = 89;

fn of_protocols(protocols: &[u8]) -> RuleOfList {
    RuleOfList { protocols: protocols.to_vec(), ..all(Action::Accept) }
}

/// West is in the zone wan and has a host interface. Of what comes for the router, pings pass.
fn host() -> Setup {
    let setup = zone(Setup::three_ports().host_interface("west", "linux"), "west", "wan");
    let ping = of_protocols(&[protocol::ICMP4, protocol::ICMP6]);
    pair(list(setup, "ping", &[("ping", ping)]), ("wan", "router"), &["ping"])
}

fn four(source: Ipv4Addr, group: [u8; 4], protocol: u8) -> Vec<u8> {
    let header =
        ipv4::Builder { time_to_live: 1, ..ipv4::Builder::new(source, group.into(), protocol) };
    let to = if group == [255; 4] { [0xff; 6] } else { Mac::of_ip4_group(group.into()).0 };
    frame(to, host_mac(1), &[], 0x0800, &ip4(&header, &[0; 32]))
}

fn six(group: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let group = group.parse().unwrap();
    let source = "fe80::2".parse().unwrap();
    let header = ipv6::Builder { hop_limit: 1, ..ipv6::Builder::new(source, group, protocol) };
    frame(Mac::of_ip6_group(group).0, host_mac(1), &[], 0x86dd, &ip6(&header, payload))
}

/// OSPF, RIP and PIM, of both families, and DHCP with and without an address.
fn to_groups() -> Vec<Vec<u8>> {
    vec![
        four(host4(1), [224, 0, 0, 5], OSPF),
        four(host4(1), [224, 0, 0, 9], protocol::UDP),
        four(host4(1), [224, 0, 0, 13], 103),
        four(host4(1), [255; 4], protocol::UDP),
        four([0; 4].into(), [255; 4], protocol::UDP),
        six("ff02::5", OSPF, &[0; 32]),
        six("ff02::9", protocol::UDP, &[0; 32]),
        six("ff02::d", 103, &[0; 32]),
    ]
}

#[test]
fn groups_and_broadcasts_meet_the_pair_to_the_router() {
    let mut lab = Lab::new(&host());
    let count = to_groups().len() as u64;
    lab.send("west", to_groups());
    assert_eq!(lab.take("linux").len(), 0);
    lab.assert_dropped(&[("zone-pair", count)]);
    assert_eq!(unmatched(&mut lab), (vec![count], 0));
    // As for addresses of the router, listener discovery needs no rule.
    let done = six("ff02::2:ff00:1", protocol::ICMP6, &[icmp6::kind::LISTENER_DONE; 24]);
    lab.send("west", [done.clone()]);
    assert_eq!(lab.take("linux"), [done]);
    // A rule for one of them.
    let ospf = list(host(), "ospf", &[("ospf", of_protocols(&[OSPF]))]);
    lab.apply(&pair(ospf.clone(), ("wan", "router"), &["ping", "ospf"])).unwrap();
    lab.send("west", to_groups());
    let mut passed = lab.take("linux");
    passed.sort();
    assert_eq!(passed, [to_groups()[0].clone(), to_groups()[5].clone()]);
    lab.assert_dropped(&[("zone-pair", count - 2)]);
    assert!(hits(&mut lab).contains(&hit("ospf", 2, 52 + 72)));
    // Lists of the interface come first.
    let none = list(ospf, "none", &[("none", all(Action::Drop))]);
    lab.apply(&input(none, "west", &["none"])).unwrap();
    lab.send("west", to_groups());
    assert_eq!(lab.take("linux").len(), 0);
    lab.assert_dropped(&[("acl-input", count)]);
    // Without a pair to the router all pass; other zones have none.
    lab.apply(&zone(host(), "west", "lan")).unwrap();
    lab.send("west", to_groups());
    assert_eq!(lab.take("linux").len(), to_groups().len());
    lab.assert_dropped(&[]);
}
