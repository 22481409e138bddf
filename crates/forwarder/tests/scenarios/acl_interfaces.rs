//! Rules that look at the interfaces of packets and at VLANs: at inputs, at outputs and between zones.

use std::net::Ipv6Addr;
use std::slice::from_ref;

use stoa_api::v1;
use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::{self, RuleOfList, ZonePair};
use stoa_forwarder::kernel::Kernel;

use crate::acl::{all, hit, hits, input, list, output, to_east};
use crate::acl_stateful::{flows, into, stateful, udp_back, udp_there};
use crate::harness::*;
use crate::refused_changes::send;

fn from(ingress: &str, rule: RuleOfList) -> RuleOfList {
    RuleOfList { ingress: Some(ingress.to_owned()), ..rule }
}

fn to(egress: &str, rule: RuleOfList) -> RuleOfList {
    RuleOfList { egress: Some(egress.to_owned()), ..rule }
}

fn in_vlan(vlan: u16) -> RuleOfList {
    RuleOfList { vlan: Some(vlan), ..all(Action::Accept) }
}

/// Sends a packet of each family from a host into its port with these tags; returns how many leave by `to`.
fn cross(
    lab: &mut Lab,
    (port, n, tags): (&str, u8, &[(u16, u16)]),
    (to, host): (&str, u8),
) -> usize {
    let packets = [
        udp_ports(host4(n), host4(host), (1000, 80), b""),
        udp_ports(host6(n), host6(host), (1000, 80), b""),
    ];
    let port_mac = our_mac(if port == "north" { 3 } else { 1 });
    lab.send(
        port,
        packets.map(|packet| frame(port_mac, host_mac(n), tags, ethertype_of(&packet), &packet)),
    );
    lab.take(to).len()
}

const WEST: (&str, u8, &[(u16, u16)]) = ("west", 1, &[]);
const NORTH: (&str, u8, &[(u16, u16)]) = ("north", 3, &[]);

#[test]
fn a_rule_is_for_packets_of_its_receiving_interface() {
    for kernel in Kernel::available() {
        let rules = [("west", from("west", all(Action::Accept)))];
        let edge = list(Setup::three_ports().kernel(kernel), "edge", &rules);
        let mut lab = Lab::new(&input(input(edge.clone(), "west", &["edge"]), "north", &["edge"]));
        assert_eq!([WEST, NORTH].map(|it| cross(&mut lab, it, ("east", 2))), [2, 0]);
        lab.assert_dropped(&[("acl-input", 2)]);
        lab.apply(&output(edge.clone(), "east", &["edge"])).unwrap();
        assert_eq!([WEST, NORTH].map(|it| cross(&mut lab, it, ("east", 2))), [2, 0]);
        lab.assert_dropped(&[("acl-output", 2)]);
        assert_eq!(hits(&mut lab), [hit("west", 4, 152)]);
        // West and north are of one zone, east of another one.
        let zones = [("west", "lan"), ("north", "lan"), ("east", "wan")].into_iter();
        let mut zoned = zones
            .fold(edge, |setup, (name, zone)| setup.with(name, |it| it.zone = zone.to_owned()));
        let acls = vec!["edge".to_owned()];
        let pair = ZonePair { acls4: acls.clone(), acls6: acls };
        zoned.0.zone_pairs.insert(("lan".to_owned(), "wan".to_owned()), pair);
        lab.apply(&zoned).unwrap();
        assert_eq!([WEST, NORTH].map(|it| cross(&mut lab, it, ("east", 2))), [2, 0]);
        lab.assert_dropped(&[("zone-pair", 2)]);
    }
}

#[test]
fn a_rule_is_for_packets_of_both_interfaces() {
    let rules = [
        ("both", from("west", to("east", all(Action::Accept)))),
        ("any", to("north", all(Action::Accept))),
        ("rest", all(Action::Drop)),
    ];
    let edge = list(Setup::three_ports(), "edge", &rules);
    let setup = ["west", "east", "north"].into_iter();
    let mut lab = Lab::new(&setup.fold(edge, |setup, name| output(setup, name, &["edge"])));
    assert_eq!([WEST, NORTH].map(|it| cross(&mut lab, it, ("east", 2))), [2, 0]);
    assert_eq!(cross(&mut lab, WEST, ("north", 3)), 2);
    assert_eq!(cross(&mut lab, NORTH, ("west", 1)), 0);
    lab.assert_dropped(&[("acl-output", 4)]);
    assert_eq!(hits(&mut lab), [hit("both", 2, 76), hit("any", 2, 76), hit("rest", 4, 152)]);
}

const VLAN_10: &[(u16, u16)] = &[(0x8100, 10)];
const QINQ_10: &[(u16, u16)] = &[(0x88a8, 10), (0x8100, 7)];
const VLAN_20: &[(u16, u16)] = &[(0x8100, 20)];

/// Two sub-interfaces with the outer VLAN 10, and one with VLAN 20.
fn tagged() -> Setup {
    let setup = Setup::three_ports().sub("ten", 10, "west", VLAN_10).host("ten", 10);
    let setup = setup.sub("qinq", 11, "north", QINQ_10).host("qinq", 11);
    setup.sub("twenty", 20, "west", VLAN_20).host("twenty", 20)
}

#[test]
fn a_vlan_is_that_of_all_its_sub_interfaces() {
    let sources = [("west", 10, VLAN_10), ("north", 11, QINQ_10), ("west", 20, VLAN_20), WEST];
    for (vlan, expected) in [(10, [2, 2, 0, 0]), (20, [0, 0, 2, 0]), (0, [0, 0, 0, 2])] {
        let setup = list(tagged(), "edge", &[("vlan", in_vlan(vlan))]);
        let mut lab = Lab::new(&output(setup.clone(), "east", &["edge"]));
        assert_eq!(sources.map(|it| cross(&mut lab, it, ("east", 2))), expected, "{vlan}");
        let inputs = ["west", "ten", "qinq", "twenty"].into_iter();
        lab.apply(&inputs.fold(setup, |setup, name| input(setup, name, &["edge"]))).unwrap();
        assert_eq!(sources.map(|it| cross(&mut lab, it, ("east", 2))), expected, "{vlan}");
        lab.dropped();
    }
}

#[test]
fn a_vlan_follows_sub_interfaces_that_come_and_go() {
    let with =
        |setup: Setup| output(list(setup, "edge", &[("vlan", in_vlan(10))]), "east", &["edge"]);
    let mut lab = Lab::new(&with(Setup::three_ports()));
    let (ten, twenty) = (("west", 10, VLAN_10), ("west", 20, VLAN_20));
    lab.apply(&with(tagged())).unwrap();
    assert_eq!([ten, twenty].map(|it| cross(&mut lab, it, ("east", 2))), [2, 0]);
    // Both change their VLANs at once.
    let setup = Setup::three_ports().sub("ten", 10, "west", VLAN_20).host("ten", 10);
    let setup = setup.sub("twenty", 20, "west", VLAN_10).host("twenty", 20);
    lab.apply(&with(setup)).unwrap();
    let (ten, twenty) = (("west", 10, VLAN_20), ("west", 20, VLAN_10));
    assert_eq!([ten, twenty].map(|it| cross(&mut lab, it, ("east", 2))), [0, 2]);
    lab.assert_dropped(&[("acl-output", 4)]);
    assert_eq!(hits(&mut lab), [hit("vlan", 4, 152)]);
}

#[test]
fn a_rule_follows_its_interface_to_another_index() {
    let with = |setup: Setup| {
        let rules = [("b", from("b", all(Action::Accept)))];
        output(list(setup, "edge", &rules), "east", &["edge"])
    };
    let sub = |setup: Setup, name: &str, n: u8, vlan: u16| {
        setup.sub(name, n, "west", &[(0x8100, vlan)]).host(name, n)
    };
    let first = sub(sub(Setup::three_ports(), "a", 10, 10), "b", 11, 11);
    let mut lab = Lab::new(&with(first));
    let index = |lab: &mut Lab, name: &str| {
        let mut all = lab.state().list_interfaces().into_iter();
        all.find(|it| it.name == name).unwrap().index
    };
    let (a, b) = (index(&mut lab, "a"), index(&mut lab, "b"));
    assert_eq!(cross(&mut lab, ("west", 11, &[(0x8100, 11)]), ("east", 2)), 2);
    // With another VLAN, it is another interface of the same name.
    lab.apply(&with(sub(Setup::three_ports(), "b", 11, 12))).unwrap();
    assert_eq!(index(&mut lab, "b"), a);
    lab.apply(&with(sub(sub(Setup::three_ports(), "b", 11, 12), "c", 12, 13))).unwrap();
    assert_eq!(index(&mut lab, "c"), b);
    assert_eq!(cross(&mut lab, ("west", 11, &[(0x8100, 12)]), ("east", 2)), 2);
    assert_eq!(cross(&mut lab, ("west", 12, &[(0x8100, 13)]), ("east", 2)), 0);
    lab.assert_dropped(&[("acl-output", 2)]);
    assert_eq!(hits(&mut lab), [hit("b", 4, 152)]);
}

#[test]
fn the_number_of_an_interface_that_no_rule_names_is_free() {
    let named = |name: &str| {
        let rules = [("only", from(name, all(Action::Accept)))];
        output(list(Setup::three_ports(), "edge", &rules), "east", &["edge"])
    };
    let mut lab = Lab::new(&named("west"));
    for name in ["north", "west", "north"] {
        lab.apply(&named(name)).unwrap();
        let expected = if name == "west" { [2, 0] } else { [0, 2] };
        assert_eq!([WEST, NORTH].map(|it| cross(&mut lab, it, ("east", 2))), expected);
    }
    lab.assert_dropped(&[("acl-output", 6)]);
    // Lists that look at no interface, in the same vectors.
    let setup = list(tagged(), "open", &[("open", all(Action::Accept))]);
    let setup = list(setup, "edge", &[("only", from("ten", all(Action::Accept)))]);
    let setup = input(input(setup, "twenty", &["open"]), "ten", &["edge"]);
    lab.apply(&input(setup, "west", &["edge"])).unwrap();
    let packets = (0..200_usize).map(|at| {
        let (n, tags): (u8, &[_]) = [(10, VLAN_10), (20, VLAN_20), (1, &[])][at % 3];
        let packet = &to_east(n, 80)[at / 3 % 2];
        frame(our_mac(1), host_mac(n), tags, ethertype_of(packet), packet)
    });
    lab.send("west", packets);
    assert_eq!(lab.take("east").len(), 67 + 67);
    lab.assert_dropped(&[("acl-input", 66)]);
}

#[test]
fn packets_beside_the_arc_have_an_interface() {
    let rules = [("west", from("west", all(Action::Drop))), ("rest", all(Action::Accept))];
    let setup = list(Setup::three_ports(), "edge", &rules);
    let mut lab = Lab::new(&input(input(setup, "west", &["edge"]), "north", &["edge"]));
    let local = |n: u8| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n.into());
    lab.send("west", [packet_from(1, &ping6(local(9), our6(1), b""))]);
    lab.assert_dropped(&[("acl-input", 1)]);
    lab.send("north", [packet_from(3, &ping6(local(9), our6(3), b""))]);
    assert_eq!(hits(&mut lab)[0].1, 1);
    assert_eq!(hits(&mut lab)[1].1, 1);
}

#[test]
fn no_interface_has_received_what_the_router_sends() {
    let setup = list(Setup::three_ports(), "own", &[("untagged", in_vlan(0))]);
    let mut setup = setup.with("east", |it| it.zone = "wan".to_owned());
    let acls = vec!["own".to_owned()];
    let pair = ZonePair { acls4: acls.clone(), acls6: acls };
    setup.0.zone_pairs.insert(("router".to_owned(), "wan".to_owned()), pair);
    let mut lab = Lab::new(&setup);
    let pings = [ping4(host4(2), our4(2), b""), ping6(host6(2), our6(2), b"")];
    lab.send("east", pings.map(|packet| packet_from(2, &packet)));
    assert!(lab.take("east").is_empty());
    lab.assert_dropped(&[("zone-pair", 2)]);
}

/// Sends requests of UDP into a port; returns how many leave by east.
fn ask(lab: &mut Lab, port: &str) -> usize {
    let n = if port == "north" { 3 } else { 1 };
    let packets = udp_there((5000, 53));
    lab.send(port, packets.map(|it| frame(our_mac(n), host_mac(1), &[], ethertype_of(&it), &it)));
    lab.take("east").len()
}

#[test]
fn a_flow_is_judged_by_the_interface_of_its_first_packet() {
    let out = ("out", stateful(from("west", all(Action::Accept))));
    let closed = |setup| input(list(setup, "in", &[("rest", all(Action::Drop))]), "east", &["in"]);
    let at_inputs = |rules: &[(&str, RuleOfList)]| {
        let setup = closed(list(Setup::three_ports(), "out", rules));
        input(input(setup, "west", &["out"]), "north", &["out"])
    };
    let at_output = |rules: &[(&str, RuleOfList)]| {
        output(closed(list(Setup::three_ports(), "out", rules)), "east", &["out"])
    };
    let answer = |lab: &mut Lab| into(lab, udp_back((53, 5000)));
    type With<'a> = &'a dyn Fn(&[(&str, RuleOfList)]) -> Setup;
    for (with, reason) in [(&at_inputs as With<'_>, "acl-input"), (&at_output, "acl-output")] {
        let mut lab = Lab::new(&with(from_ref(&out)));
        assert_eq!((ask(&mut lab, "north"), answer(&mut lab)), (0, 0));
        lab.dropped();
        // Its further packets may come in elsewhere, as its replies do.
        assert_eq!((ask(&mut lab, "west"), answer(&mut lab)), (2, 2));
        assert_eq!((ask(&mut lab, "north"), answer(&mut lab)), (2, 2));
        assert_eq!(flows(&mut lab).len(), 2);
        lab.assert_dropped(&[]);
        // After a change of rules, the next packet decides.
        let other = ("other", from("east", all(Action::Drop)));
        lab.apply(&with(&[out.clone(), other])).unwrap();
        assert_eq!((ask(&mut lab, "west"), answer(&mut lab)), (2, 2));
        lab.apply(&with(from_ref(&out))).unwrap();
        assert_eq!(answer(&mut lab), 2);
        assert_eq!(ask(&mut lab, "north"), 0);
        lab.assert_dropped(&[(reason, 2)]);
        assert!(flows(&mut lab).is_empty());
        assert_eq!(answer(&mut lab), 0);
        lab.assert_dropped(&[("acl-input", 2)]);
    }
}

#[test]
fn rules_name_interfaces_that_exist() {
    let setup = Setup::three_ports().sub("sub", 5, "west", VLAN_10);
    let mut setup = list(setup, "edge", &[("only", from("sub", all(Action::Accept)))]);
    // No route needs it.
    setup.0.routes.retain(|_, route| match &route.action {
        desired::Action::Paths(paths) => paths[0].interface != "sub",
        desired::Action::Special(_) => true,
    });
    let mut lab = Lab::new(&setup);
    let none = v1::DesiredChange::default;
    let rule = |ingress: &str, egress: &str| v1::AclRule {
        acl: "edge".to_owned(),
        name: "only".to_owned(),
        ingress_interface: ingress.to_owned(),
        egress_interface: egress.to_owned(),
        ..v1::AclRule::default()
    };
    let with = |rule| v1::DesiredChange { acl_rules: vec![rule], ..none() };
    let path = "rule \"only\" of access list \"edge\"";
    for wrong in [rule("nowhere", ""), rule("", "nowhere")] {
        let refused = send(&mut lab, &with(wrong)).unwrap_err();
        assert_eq!(
            refused,
            [format!("{path} names the interface \"nowhere\", which does not exist")]
        );
    }
    let vlan = send(&mut lab, &with(v1::AclRule { vlan_id: Some(4095), ..rule("", "") }));
    assert_eq!(vlan.unwrap_err(), [format!("{path} has the VLAN 4095, more than 4094")]);
    let gone = v1::DesiredChange { removed_interfaces: vec!["sub".to_owned()], ..none() };
    let refused = send(&mut lab, &gone).unwrap_err();
    assert_eq!(refused, [format!("{path} names the interface \"sub\", which does not exist")]);
    // Together with its last reference.
    let both = v1::DesiredChange { acl_rules: vec![rule("west", "")], ..gone };
    send(&mut lab, &both).unwrap();
}
