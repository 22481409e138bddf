//! Zones and pairs of a configuration, decisions about packets between them, and what a commit warns about.

mod cookies;
mod example;

use std::net::IpAddr;
use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::acl::{Decision, Packet, evaluate};
use crate::configuration::Configuration;

const MODULE: &str = "ietf-access-control-list";

/// A list without a type, with rules for TCP ports that accept.
fn list(name: &str, ports: &[u16]) -> Value {
    let ace = |port: &u16| {
        json!({
            "name": port.to_string(),
            "matches": { "tcp": { "destination-port": { "port": port } } },
            "actions": { "forwarding": format!("{MODULE}:accept") },
        })
    };
    json!({ "name": name, "aces": { "ace": ports.iter().map(ace).collect::<Vec<_>>() } })
}

/// lan and wan in zones of these names, dmz in none. Each pair has one list.
fn whole(pairs: &[(&str, &str, &str)]) -> Value {
    let interface = |name: &&str| {
        json!({
            "name": name, "type": "iana-if-type:ethernetCsmacd",
            "stoa-interfaces:port": { "null": {} }, "ietf-ip:ipv4": {}, "ietf-ip:ipv6": {},
        })
    };
    let interfaces: Vec<Value> = ["lan", "wan", "dmz"].iter().map(interface).collect();
    let pair = |(from, to, acl): &(&str, &str, &str)| json!({ "from": from, "to": to, "acl-sets": { "acl-set": [{ "name": acl }] } });
    json!({
        "ietf-interfaces:interfaces": { "interface": interfaces },
        "ietf-access-control-list:acls": {
            "acl": [list("web", &[80]), list("ssh", &[22])],
            "stoa-acl:zones": { "zone": [
                { "name": "inside", "interface": ["lan"] },
                { "name": "outside", "interface": ["wan"] },
            ] },
            "stoa-acl:zone-pairs": { "zone-pair": pairs.iter().map(pair).collect::<Vec<_>>() },
        },
    })
}

fn parsed(value: &Value) -> Result<Configuration, Vec<(String, String)>> {
    let parsed = Configuration::parse(Path::new("test"), value.to_string());
    parsed.map_err(|errors| errors.into_iter().map(|it| (it.path, it.cause)).collect())
}

fn zones_of(value: &mut Value) -> &mut Value {
    &mut value["ietf-access-control-list:acls"]["stoa-acl:zones"]["zone"]
}

#[test]
fn interfaces_get_their_zones_and_pairs_their_lists() {
    let mut value = whole(&[("inside", "outside", "web"), ("inside", "router", "ssh")]);
    let six = format!("{MODULE}:ipv6-acl-type");
    value["ietf-access-control-list:acls"]["acl"][1]["type"] = json!(six);
    let configuration = parsed(&value).unwrap();
    let zone = |name: &str| configuration.interfaces.named(name).unwrap().zone.clone();
    assert_eq!(["lan", "wan", "dmz"].map(zone), ["inside", "outside", ""]);
    let pairs: Vec<_> = configuration
        .desired
        .zone_pairs
        .iter()
        .map(|it| (it.from.as_str(), it.to.as_str(), it.acls4.len(), it.acls6.len()))
        .collect();
    assert_eq!(pairs, [("inside", "outside", 1, 1), ("inside", "router", 0, 1)]);
}

#[test]
fn wrong_zones_are_refused_with_their_paths() {
    let zone = "/ietf-access-control-list:acls/stoa-acl:zones/zone";
    let errors = |change: fn(&mut Value)| {
        let mut value = whole(&[("inside", "outside", "web")]);
        change(&mut value);
        parsed(&value).unwrap_err()
    };
    let twice = errors(|it| zones_of(it)[1]["interface"] = json!(["wan", "lan"]));
    assert_eq!(twice[0].0, format!("{zone}[name='outside']/interface[.='lan']"));
    assert!(twice[0].1.contains("\"inside\""), "{twice:?}");
    let many = errors(|it| {
        let zones = (0..64).map(|at| json!({ "name": at.to_string() }));
        zones_of(it).as_array_mut().unwrap().extend(zones);
    });
    assert!(many[0].1.contains("66 zones are more than 64"), "{many:?}");
    let crossed = errors(|it| {
        let all = &mut it["ietf-interfaces:interfaces"]["interface"];
        for (at, other) in [(0, "wan"), (1, "lan")] {
            let name = all[at]["name"].clone();
            all[at] = json!({
                "name": name, "type": "iana-if-type:ethernetCsmacd",
                "stoa-interfaces:port": { "null": {} }, "stoa-interfaces:cross-connect": other,
            });
        }
    });
    assert!(crossed.iter().any(|(_, cause)| cause.contains("cross-connected")), "{crossed:?}");
    // What YANG refuses.
    let router = errors(|it| zones_of(it)[1] = json!({ "name": "router", "interface": ["wan"] }));
    assert!(router.iter().any(|(_, cause)| cause.contains("router itself")), "{router:?}");
    let pair = |from: &str, to: &str| {
        let found = parsed(&whole(&[(from, to, "web")]));
        found.map(drop).map_err(|errors| errors.len())
    };
    assert_eq!(pair("inside", "inside"), Err(1));
    assert_eq!(pair("router", "inside"), Ok(()));
    assert!(pair("inside", "elsewhere").is_err());
}

fn decision(configuration: &Configuration, port: u32, of: v1::TestAclRequest) -> Decision {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let of = v1::TestAclRequest { protocol: 6, destination_port: port, ..of };
    let packet = Packet { source: address("10.1.0.1"), destination: address("192.0.2.1"), of };
    evaluate(configuration, &packet).unwrap()
}

#[test]
fn decisions_follow_a_packet_through_the_router() {
    let mut value = whole(&[("inside", "outside", "web"), ("inside", "router", "ssh")]);
    let acls = &mut value["ietf-access-control-list:acls"];
    acls["acl"].as_array_mut().unwrap().push(list("both", &[80, 443]));
    let point = json!([{ "interface-id": "lan", "ingress": { "acl-sets": { "acl-set": [{ "name": "both" }] } } }]);
    acls["attachment-points"] = json!({ "interface": point });
    value["ietf-interfaces:interfaces"]["interface"][1]["ietf-ip:ipv4"] =
        json!({ "address": [{ "ip": "192.0.2.2", "prefix-length": 24 }] });
    let configuration = parsed(&value).unwrap();
    let through = |interface: &str, output: &str| v1::TestAclRequest {
        interface: interface.into(),
        direction: "in".into(),
        output: output.into(),
        ..v1::TestAclRequest::default()
    };
    let found = |port, of| {
        let decision = decision(&configuration, port, of);
        (decision.action, decision.rule, decision.place)
    };
    let expected = |action: &str, rule: &str, place: &str| {
        (action.to_owned(), rule.to_owned(), place.to_owned())
    };
    let pair = "zones inside to outside";
    assert_eq!(found(80, through("lan", "wan")), expected("accept", "80", pair));
    assert_eq!(found(443, through("lan", "wan")), expected("drop", "", pair));
    assert_eq!(found(25, through("lan", "wan")), expected("drop", "", "input of lan"));
    assert_eq!(found(80, through("wan", "lan")), expected("drop", "", "zones outside to inside"));
    assert_eq!(found(80, through("lan", "dmz")), expected("drop", "", "zones inside to none"));
    assert_eq!(found(80, through("dmz", "dmz")).0, "accept");
    let zones = |from: &str, to: &str| v1::TestAclRequest {
        from_zone: from.into(),
        to_zone: to.into(),
        ..v1::TestAclRequest::default()
    };
    assert_eq!(
        found(22, zones("inside", "router")),
        expected("accept", "22", "zones inside to router")
    );
    assert_eq!(found(80, zones("inside", "router")).0, "drop");
    assert_eq!(found(80, zones("outside", "router")).0, "accept", "no pair names them");
    let reason = decision(&configuration, 80, zones("outside", "inside")).reason;
    assert_eq!(reason, "there is no pair of these zones");
    // For the router itself: an address of it, a group and all hosts.
    let at = |interface: &str, destination: &str| {
        let of = v1::TestAclRequest { protocol: 6, destination_port: 80, ..through(interface, "") };
        let [source, destination] = ["10.1.0.1", destination].map(|it| it.parse().unwrap());
        evaluate(&configuration, &Packet { source, destination, of }).unwrap()
    };
    for destination in ["192.0.2.2", "224.0.0.5", "255.255.255.255"] {
        assert_eq!(at("lan", destination).place, "zones inside to router", "{destination}");
        assert_eq!(at("lan", destination).action, "drop", "{destination}");
        assert_eq!(at("wan", destination).action, "accept", "no pair names it: {destination}");
        assert_eq!(at("dmz", destination).place, "input of dmz");
    }
    assert_eq!(at("lan", "192.0.2.1").place, "input of lan");
    let unknown = zones("inside", "nowhere");
    let packet =
        |of| Packet { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into(), of };
    assert!(evaluate(&configuration, &packet(unknown)).unwrap_err().contains("nowhere"));
    assert!(evaluate(&configuration, &packet(v1::TestAclRequest::default())).is_err());
}

#[test]
fn messages_of_a_link_do_not_pass_to_another_zone() {
    let configuration = parsed(&whole(&[("inside", "router", "ssh")])).unwrap();
    let [source, destination] = ["2001:db8::1", "2001:db8:1::1"].map(|it| it.parse().unwrap());
    let action = |icmp_type: u32, from: &str, to: &str| {
        let (from_zone, to_zone) = (from.into(), to.into());
        let of = v1::TestAclRequest {
            protocol: 58,
            icmp_type,
            hop_limit: 255,
            from_zone,
            to_zone,
            ..v1::TestAclRequest::default()
        };
        evaluate(&configuration, &Packet { source, destination, of }).unwrap().action
    };
    assert_eq!([135, 2].map(|kind| action(kind, "inside", "outside")), ["drop", "accept"]);
    assert_eq!([135, 2].map(|kind| action(kind, "inside", "router")), ["accept"; 2]);
}

#[test]
fn a_commit_warns_of_a_pair_without_lists() {
    let mut value = whole(&[("inside", "outside", "web"), ("outside", "router", "ssh")]);
    let pairs = &mut value["ietf-access-control-list:acls"]["stoa-acl:zone-pairs"]["zone-pair"];
    pairs[1] = json!({ "from": "outside", "to": "router" });
    let warnings = parsed(&value).unwrap().warnings();
    let warning = warnings.iter().find(|it| it.text.contains("the pair has no lists")).unwrap();
    assert!(warning.text.starts_with("zones outside to router: "), "{}", warning.text);
    assert!(warning.nodes[0].ends_with("[from='outside'][to='router']"), "{warning:?}");
    assert_eq!(warnings.iter().filter(|it| it.text.contains("no lists")).count(), 1);
}

/// Warnings about pairs, whose lists are `ssh`, with this rule in place of that for port 22.
fn warned(pairs: &[(&str, &str)], matches: Value, change: impl Fn(&mut Value)) -> Vec<String> {
    let pairs: Vec<_> = pairs.iter().map(|(from, to)| (*from, *to, "ssh")).collect();
    let mut value = whole(&pairs);
    let ssh = &mut value["ietf-access-control-list:acls"]["acl"][1];
    ssh["type"] = json!(format!("{MODULE}:ipv4-acl-type"));
    ssh["aces"]["ace"][0]["matches"] = matches;
    change(&mut value);
    about_pairs(&value)
}

/// The warnings, but not those about lists that no pair has.
fn about_pairs(value: &Value) -> Vec<String> {
    let texts = parsed(value).unwrap().warnings().into_iter().map(|it| it.text);
    texts.filter(|it| !it.contains("decides nothing")).collect()
}

fn interface_of(value: &mut Value, at: usize) -> &mut Value {
    &mut value["ietf-interfaces:interfaces"]["interface"][at]
}

const PAIRS: [(&str, &str); 2] = [("inside", "router"), ("router", "inside")];

#[test]
fn a_commit_warns_of_bfd_and_tunnels_that_pairs_cut() {
    let family = || json!({ "address": [{ "ip": "192.0.2.1", "prefix-length": 24 }] });
    let protocol = |number: u8| json!({ "ipv4": { "protocol": number } });
    let bfd = |value: &mut Value| {
        interface_of(value, 0)["stoa-bfd:bfd"] =
            json!({ "session": [{ "dest-addr": "192.0.2.9" }] });
        interface_of(value, 0)["ietf-ip:ipv4"] = family();
    };
    let sent = "zones router to inside: no rule accepts BFD to 192.0.2.9 at interface lan: the session goes down; \
                accept UDP port 3784";
    assert_eq!(warned(&PAIRS[1..], protocol(1), bfd), [sent]);
    assert_eq!(warned(&PAIRS[1..], protocol(17), bfd), [""; 0]);
    let tunnel = |kind: &'static str, remote: &'static str| {
        move |value: &mut Value| {
            interface_of(value, 0)["ietf-ip:ipv4"] = family();
            value["ietf-interfaces:interfaces"]["interface"].as_array_mut().unwrap().push(json!({
                "name": "branch", "type": "iana-if-type:tunnel", "ietf-ip:ipv4": {}, "ietf-ip:ipv6": {},
                "stoa-interfaces:port": { "tunnel": { "encapsulation": kind, "local": "192.0.2.1", "remote": remote } },
            }));
        }
    };
    let gre = [
        "zones inside to router: no rule accepts packets of tunnel branch at interface lan: the tunnel receives none; \
         accept protocol 47",
        "zones router to inside: no rule accepts packets of tunnel branch at interface lan: the tunnel sends none; \
         accept protocol 47",
    ];
    // On the link, and behind a gateway.
    for remote in ["192.0.2.9", "198.51.100.1"] {
        assert_eq!(warned(&PAIRS, protocol(4), tunnel("gre", remote)), gre, "{remote}");
        assert_eq!(warned(&PAIRS, protocol(47), tunnel("gre", remote)), [""; 0], "{remote}");
    }
    // Either protocol of tunnels without GRE.
    let found = warned(&PAIRS, protocol(4), tunnel("ip", "192.0.2.9"));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|it| it.contains("IPv6 packets of tunnel branch")), "{found:?}");
    assert_eq!(warned(&PAIRS, protocol(47), tunnel("ip", "192.0.2.9")).len(), 4);
    // Pairs of another zone are not concerned.
    assert_eq!(warned(&[("outside", "router")], protocol(1), tunnel("gre", "192.0.2.9")), [""; 0]);
    // The interface on whose link the other end is, rather than that with the local address.
    let elsewhere = |value: &mut Value| {
        tunnel("gre", "198.51.100.1")(value);
        interface_of(value, 1)["ietf-ip:ipv4"] =
            json!({ "address": [{ "ip": "198.51.100.2", "prefix-length": 24 }] });
    };
    assert_eq!(warned(&PAIRS, protocol(1), elsewhere), [""; 0]);
    assert_eq!(warned(&[("outside", "router")], protocol(1), elsewhere).len(), 1);
}

#[test]
fn a_commit_warns_of_daemons_and_dhcp_that_pairs_cut() {
    let host = |value: &mut Value| {
        interface_of(value, 0)["stoa-host-interface:host-interface"] = json!({ "netns": "local" });
        interface_of(value, 0)["ietf-ip:ipv4"] =
            json!({ "address": [{ "ip": "192.0.2.1", "prefix-length": 24 }] });
        value["ietf-routing:routing"] = json!({ "control-plane-protocols": { "control-plane-protocol": [
            {
                "type": "stoa-routing:netlink", "name": "kernel",
                "stoa-routing:route-source": { "netns": "local" },
            },
        ] } });
    };
    let to =
        |prefix: &str| json!({ "ipv4": { "protocol": 89, "destination-ipv4-network": prefix } });
    for accepted in ["224.0.0.5/32", "224.0.0.0/24", "192.0.2.1/32"] {
        assert_eq!(warned(&PAIRS[..1], to(accepted), host), [""; 0], "{accepted}");
    }
    let found = warned(&PAIRS[..1], to("224.0.0.9/32"), host);
    assert!(found.len() == 1 && found[0].contains("BGP or OSPF"), "{found:?}");
    let dhcp = |value: &mut Value| {
        interface_of(value, 0)["stoa-host-interface:host-interface"] = json!({ "netns": "local" });
    };
    let to_all =
        json!({ "ipv4": { "protocol": 17, "destination-ipv4-network": "255.255.255.255/32" } });
    assert_eq!(warned(&PAIRS[..1], to_all, dhcp), [""; 0]);
    let found = warned(&PAIRS[..1], to("255.255.255.255/32"), dhcp);
    assert!(found.len() == 1 && found[0].contains("DHCP"), "{found:?}");
}

#[test]
fn a_commit_warns_of_what_the_router_does_not_get() {
    let with = |pairs: &[(&str, &str, &str)], change: fn(&mut Value)| -> Vec<String> {
        let mut value = whole(pairs);
        change(&mut value);
        about_pairs(&value)
    };
    let bfd = |value: &mut Value| {
        let lan = &mut value["ietf-interfaces:interfaces"]["interface"][0];
        lan["stoa-bfd:bfd"] = json!({ "session": [{ "dest-addr": "192.0.2.9" }] });
        lan["ietf-ip:ipv4"] = json!({ "address": [{ "ip": "192.0.2.1", "prefix-length": 24 }] });
    };
    assert_eq!(
        with(&[("inside", "router", "ssh")], bfd),
        [
            "zones inside to router: no rule accepts BFD of 192.0.2.9 at interface lan: the session goes down; accept UDP \
          port 3784"
        ]
    );
    // Not without a pair to the router, nor for interfaces of other zones.
    assert_eq!(with(&[("inside", "outside", "ssh")], bfd), [""; 0]);
    assert_eq!(with(&[("outside", "router", "ssh")], bfd), [""; 0]);
    let accepted = |value: &mut Value| {
        let lan = &mut value["ietf-interfaces:interfaces"]["interface"][0];
        lan["stoa-bfd:bfd"] = json!({ "session": [{ "dest-addr": "192.0.2.9" }] });
        lan["ietf-ip:ipv4"] = json!({ "address": [{ "ip": "192.0.2.1", "prefix-length": 24 }] });
        value["ietf-access-control-list:acls"]["acl"][1]["aces"]["ace"][0]["matches"] =
            json!({ "udp": { "destination-port": { "port": 3784 } } });
    };
    assert_eq!(with(&[("inside", "router", "ssh")], accepted), [""; 0]);
    // A rule that drops what paths need is named with the pair.
    let drops = |value: &mut Value| {
        value["ietf-access-control-list:acls"]["acl"][0]["aces"]["ace"] = json!([{
            "name": "rest", "actions": { "forwarding": format!("{MODULE}:drop") },
        }]);
        value["ietf-access-control-list:acls"]["acl"][0]["type"] =
            json!(format!("{MODULE}:ipv4-acl-type"));
    };
    let found = with(&[("inside", "outside", "web")], drops);
    assert!(found.len() == 1 && found[0].contains("at zones inside to outside"), "{found:?}");
}
