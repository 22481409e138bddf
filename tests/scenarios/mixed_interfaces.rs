//! Packets of many VLANs, VRFs, tunnels and ports mixed in the same vectors: each is checked, forwarded, tagged and
//! encapsulated as that of its own interface.
//!
//! Hosts send tagged frames by packet sockets, because not every kernel has VLAN devices.

mod frames;
mod traffic;
mod tunnels;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::json;
use stoa_lab::{Configuration, NextHop, Result, Tag};

use frames::{FAMILIES, Interface};
use traffic::{Mixture, Packet};

/// Enables strict reverse-path checks on an interface, in both families.
fn with_check(mut configuration: Configuration, interface: &Interface) -> Configuration {
    for family in FAMILIES {
        configuration.interface(&interface.name())[family]["stoa-interfaces:reverse-path"] =
            json!("strict");
    }
    configuration
}

/// Packets with good and with spoofed sources, which belong to the next VLAN, from 200 VLANs of one port; every other
/// VLAN has a strict reverse-path check.
#[test]
fn vlans_with_and_without_reverse_path_check() -> Result<()> {
    const VLANS: u8 = 200;
    const ROUNDS: u8 = 5;
    let far = Interface::new("far", &[], [18, 1]);
    let vlan = |at: u8| Interface::new("trunk", &[Tag::customer(100 + u16::from(at))], [19, at]);
    let vlans: Vec<Interface> = (0..VLANS).map(vlan).collect();
    let is_checked = |at: usize| at % 2 == 1;
    let mixture = Mixture::begin(&[vec![far.clone()], vlans.clone()].concat(), |made| {
        let checked = vlans.iter().enumerate().filter(|(at, _)| is_checked(*at));
        checked.fold(made, |made, (_, vlan)| with_check(made, vlan))
    })?;
    let mut packets = Vec::new();
    for (at, vlan) in vlans.iter().enumerate() {
        let next = &vlans[(at + 1) % vlans.len()];
        for (six, to) in far.addresses(2).into_iter().enumerate() {
            for last in 10..10 + ROUNDS {
                let good = [vlan.addresses(last)[six], to];
                packets.push(mixture.packet_between(vlan, good, &[&far]));
                let spoofed = [next.addresses(last)[six], to];
                let by: &[&Interface] = if is_checked(at) { &[] } else { &[&far] };
                packets.push(mixture.packet_between(vlan, spoofed, by));
            }
        }
    }
    let spoofed = u64::from(ROUNDS) * 2;
    let dropped = u64::from(VLANS) / 2 * spoofed;
    mixture.pass(packets, &[("reverse-path-strict", dropped)])?;
    // Counted by the interface that received them.
    let counters = mixture.scenario.router.interfaces()?;
    for (at, vlan) in vlans.iter().enumerate() {
        let name = vlan.name();
        let counters = counters.iter().find(|one| one.name == name).expect("it is listed");
        let expected = (2 * spoofed, if is_checked(at) { spoofed } else { 0 });
        assert_eq!((counters.rx_packets, counters.rx_drops), expected, "{name}");
    }
    mixture.scenario.end()
}

/// Both ports have the same kinds of interfaces; each packet leaves by an interface of another kind.
#[test]
fn two_tags_one_tag_and_none_on_one_port() -> Result<()> {
    let mut tags = vec![vec![]];
    for outer in 10..16 {
        tags.push(vec![Tag::customer(outer)]);
        tags.push(vec![Tag::service(outer)]);
        for inner in 10..16 {
            tags.push(vec![Tag::service(outer), Tag::customer(inner)]);
            tags.push(vec![Tag::customer(outer), Tag::customer(inner)]);
        }
    }
    let on = |port, block: u8| {
        let numbered = (1..).zip(&tags);
        numbered.map(|(at, tags)| Interface::new(port, tags, [block, at])).collect::<Vec<_>>()
    };
    let (near, far) = (on("near", 18), on("far", 19));
    let mixture = Mixture::begin(&[near.clone(), far.clone()].concat(), |made| made)?;
    let mut packets = Vec::new();
    for (at, one) in near.iter().enumerate() {
        for step in 0..8 {
            let other = &far[(at * 7 + step * 5) % far.len()];
            for six in [false, true] {
                packets.push(mixture.packet(one, other, six));
                packets.push(mixture.packet(other, one, six));
            }
        }
    }
    // Tags of no interface: an unknown outer one, alone or above a known one, and unknown ones below known ones.
    let unknown = [
        vec![Tag::customer(99)],
        vec![Tag::service(99), Tag::customer(10)],
        vec![Tag::service(10), Tag::customer(99)],
        vec![Tag::customer(10), Tag::customer(99)],
    ];
    let count = 20 * unknown.len();
    for tags in unknown.iter().cycle().take(count) {
        let mut packet = mixture.packet(&near[0], &far[0], false);
        packet.frame.tags.clone_from(tags);
        packet.leaves_by.clear();
        packets.push(packet);
    }
    mixture.pass(packets, &[("vlan-unknown", count as u64)])?;
    mixture.scenario.end()
}

/// All VRFs have the same addresses; only the VLAN distinguishes their packets.
#[test]
fn vrfs_with_the_same_addresses() -> Result<()> {
    const VRFS: u16 = 16;
    let on = |port, first: u16, block| {
        let tags = (first..first + VRFS).map(|vid| [Tag::customer(vid)]);
        tags.map(|tag| Interface::new(port, &tag, [block, 1])).collect::<Vec<_>>()
    };
    let (near, far) = (on("near", 100, 18), on("far", 300, 19));
    let mixture = Mixture::begin(&[near.clone(), far.clone()].concat(), |made| {
        let pairs = near.iter().zip(&far).enumerate();
        pairs.fold(made, |made, (at, (near, far))| {
            made.vrf(&format!("vrf{at}"), &[&near.name(), &far.name()])
        })
    })?;
    let mut packets = Vec::new();
    for (near, far) in near.iter().zip(&far) {
        for six in [false, true, false, true].repeat(16) {
            packets.push(mixture.packet(near, far, six));
            packets.push(mixture.packet(far, near, six));
        }
    }
    mixture.pass(packets, &[])?;
    mixture.scenario.end()
}

/// The network behind all paths, as [`Interface::network`].
const BEHIND: [u8; 2] = [19, 99];
const PACKETS_OF_A_FLOW: usize = 8;

/// The packets of 512 flows from two ports to a network behind four ports.
fn flows(mixture: &Mixture, from: &[Interface], by: &[&Interface]) -> Vec<Packet> {
    let targets: [IpAddr; 2] = Interface::new("", &[], BEHIND).addresses(9);
    let mut packets = Vec::new();
    for port in 2000..2128 {
        for from in from {
            for (source, target) in from.addresses(9).into_iter().zip(targets) {
                for _ in 0..PACKETS_OF_A_FLOW {
                    let mut packet = mixture.packet_between(from, [source, target], by);
                    packet.frame.port = port;
                    packets.push(packet);
                }
            }
        }
    }
    packets
}

/// All packets of a flow leave by the same of four ports, and each port carries its share of the flows.
#[test]
fn flows_of_two_ports_over_four_paths() -> Result<()> {
    let port = |name, number| Interface::new(name, &[], [18, number]);
    let from = [port("in-1", 1), port("in-2", 2)];
    let out = [port("out-1", 11), port("out-2", 12), port("out-3", 13), port("out-4", 14)];
    let mixture = Mixture::begin(&[from.to_vec(), out.to_vec()].concat(), |made| {
        let prefixes = ["198.19.99.0/24", "2001:db8:13:63::/64"];
        let routes = prefixes.into_iter().enumerate();
        routes.fold(made, |made, (six, prefix)| {
            let hops = out.iter().map(|one| one.addresses(2)[six].to_string()).collect::<Vec<_>>();
            let hops = hops.iter().map(|hop| (hop.as_str(), 1)).collect::<Vec<_>>();
            made.route(prefix, NextHop::Among(&hops))
        })
    })?;
    let packets = flows(&mixture, &from, &out.each_ref());
    let count = packets.len() / PACKETS_OF_A_FLOW;
    let mut paths = BTreeMap::new();
    for (packet, by) in mixture.pass(packets, &[])? {
        let by = by.expect("it has left");
        let path = paths.entry((packet.frame.addresses, packet.frame.port)).or_insert(by);
        assert_eq!(*path, by, "the path of {:?}", packet.frame);
    }
    assert_eq!(paths.len(), count);
    for one in &out {
        let share = paths.values().filter(|by| **by == one.port).count();
        println!("{}: {share} of {count} flows", one.port);
        // A quarter of 512 is 128; fewer than 64 are 6 standard deviations away.
        assert!((64..256).contains(&share), "{share} flows by {}", one.port);
    }
    mixture.scenario.end()
}

/// The nodes of IPv4 and of output that the traced packet passed, and its outcome.
fn traced(
    mixture: &Mixture,
    vlan: &Interface,
    packets: Vec<Packet>,
    drops: &[(&str, u64)],
) -> Result<(Vec<String>, String)> {
    let router = &mixture.scenario.router;
    let name = vlan.name();
    router
        .call(&["trace", "add", "--interface", &name, "--match", "ip and udp", "--count", "1"])?
        .ok()?;
    mixture.pass(packets, drops)?;
    let shown = router.json(&["trace", "show", "--json"])?;
    let packet = &shown["packets"][0];
    assert_eq!((&shown["taken"], &packet["interface"]), (&json!(1), &json!(name)), "{shown}");
    let steps = packet["steps"].as_array().expect("a list");
    let nodes = steps.iter().filter_map(|step| step["node"].as_str());
    let nodes = nodes.filter(|node| node.starts_with("ip4-") || node.ends_with("-output"));
    let outcome = packet["outcome"].as_str().expect("a text");
    Ok((nodes.map(str::to_owned).collect(), outcome.to_owned()))
}

/// Packets of two VLANs are in one vector; only those of the VLAN with the check pass its node.
#[test]
fn a_trace_shows_the_check_of_its_own_vlan() -> Result<()> {
    let far = Interface::new("far", &[], [18, 1]);
    let vlan = |vid| Interface::new("trunk", &[Tag::customer(vid)], [19, vid as u8]);
    let (checked, plain) = (vlan(100), vlan(101));
    let all = [far.clone(), checked.clone(), plain.clone()];
    let mixture = Mixture::begin(&all, |made| with_check(made, &checked))?;
    let both = || {
        let pairs = [&checked, &plain].repeat(16);
        pairs.into_iter().map(|vlan| mixture.packet(vlan, &far, false)).collect::<Vec<_>>()
    };
    let (nodes, outcome) = traced(&mixture, &checked, both(), &[])?;
    let expected = ["ip4-input", "ip4-reverse-path", "ip4-lookup", "ip4-rewrite", "port-output"];
    assert_eq!(
        (nodes.as_slice(), outcome.as_str()),
        (&expected.map(str::to_owned)[..], "sent on far")
    );
    let (nodes, outcome) = traced(&mixture, &plain, both(), &[])?;
    let expected = ["ip4-input", "ip4-rewrite", "port-output"];
    assert_eq!(
        (nodes.as_slice(), outcome.as_str()),
        (&expected.map(str::to_owned)[..], "sent on far")
    );
    let spoofed = [plain.addresses(9)[0], far.addresses(2)[0]];
    let spoofed = mixture.packet_between(&checked, spoofed, &[]);
    let (nodes, outcome) =
        traced(&mixture, &checked, vec![spoofed], &[("reverse-path-strict", 1)])?;
    assert_eq!(nodes.last().map(String::as_str), Some("ip4-reverse-path"), "{nodes:?}");
    assert!(outcome.starts_with("dropped, reverse-path-strict"), "{outcome}");
    mixture.scenario.end()
}
