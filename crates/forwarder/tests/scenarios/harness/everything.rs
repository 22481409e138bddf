//! A configuration with all that the graph can do: sub-interfaces, VRFs, tunnels, policy rules, virtual routers, a
//! cross-connect, two workers that hand packets to each other, and the features of all arcs in both families.

// By paths, as the fuzz targets include this file by its own.
#[path = "everything/logins.rs"]
mod logins;
#[path = "everything/prefixes.rs"]
mod prefixes;
#[path = "everything/zones.rs"]
mod zones;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_api::v1;
use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::{
    AclRule, Family, Fragments, Nat, NatBackend, NatBlocks, NatMapping, NatPolicy, NatRemote,
    Prefix, Rule, RuleAction, RuleOfList, VirtualRouter, ZonePair,
};
use stoa_forwarder::flow::alg::Alg;
use stoa_forwarder::flow::profiles::Profile;
use stoa_forwarder::flow::tcp::Options;
use stoa_forwarder::flow::timeouts::Class;
use stoa_forwarder::nat::{Filtering, Mapping, Prefix4};
use stoa_forwarder::shared::SpecialNextHop;
use stoa_ports::Encapsulation;
use stoa_wire::{protocol, vrrp};

use logins::logins;
use prefixes::prefixes;
pub use prefixes::{nat64, stateless};
use zones::zones;

use super::setup::{self, Setup, host4, host6, our4, our6, virtual_router};

/// The ports, in the order of their numbers. The last two are cross-connected.
pub const PORTS: [&str; 5] = ["west", "east", "north", "left", "right"];
/// How many configurations [`everything`] has.
pub const VARIANTS: u8 = 32;
/// The virtual routers of west and west.100. The second one accepts packets.
pub const VIRTUAL_ROUTERS: [(u8, u8); 2] = [(51, 1), (52, 10)];

/// The IPv4 address of a virtual router.
pub fn virtual4(which: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, VIRTUAL_ROUTERS[which % 2].1, 254)
}

/// The global IPv6 address of a virtual router.
pub fn virtual6(which: usize) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, VIRTUAL_ROUTERS[which % 2].1.into(), 0, 0, 0, 0, 0x51)
}

/// The MAC address of a virtual router.
pub fn virtual_mac(which: usize, is_ip6: bool) -> [u8; 6] {
    vrrp::mac(VIRTUAL_ROUTERS[which % 2].0, is_ip6).0
}

/// One of the configurations: they differ in a link, in forwarding, in the rules of the default VRF, in zones, in
/// stateful rules, and in translation.
/// `options` are all options of a family.
pub fn everything(which: u8, options: &v1::FamilyOptions) -> Setup {
    let is_second = which / 4 % 2 == 1;
    let setup = virtual_routers(rules(vrfs(interfaces()), is_second));
    let mut setup = access_lists(features(setup, options));
    if which / 8 % 2 == 1 {
        setup = stateful_rules(setup);
    }
    if is_second {
        setup = zones(setup);
    }
    if which / 16 % 2 == 1 {
        setup = logins(prefixes(nat(setup)));
    }
    setup.0.noop_origin = true;
    setup.0.software_rss = ["west", "east", "left"].map(str::to_owned).into();
    match which % 4 {
        0 => setup,
        1 => setup.with("west", |west| west.enabled = false),
        2 => setup.with("north", |north| north.ip6.enabled = false),
        _ => setup.with("east", |east| east.ip4.forwarding = false),
    }
}

/// Ports, sub-interfaces, tunnels and the routes of the default VRF.
fn interfaces() -> Setup {
    let mut setup = Setup::three_ports()
        .workers(2)
        .sub("west.100", 10, "west", &[(0x8100, 100)])
        .sub("west.7.8", 11, "west", &[(0x88a8, 7), (0x8100, 8)])
        .host("west.100", 10)
        .host("west.7.8", 11)
        .sub("west.31", 12, "west", &[(0x8100, 31)])
        .sub("west.32", 13, "west", &[(0x8100, 32)])
        .host("west.31", 12)
        .host("west.32", 13)
        .tunnel("gre", 14, (our4(2), host4(2)), Encapsulation::Gre)
        .tunnel("ip-ip", 15, (our4(3), host4(3)), Encapsulation::Ip)
        .tunnel("gre6", 16, (our6(2), host6(2)), Encapsulation::Gre)
        .special_route([10, 9, 1, 0].into(), 24, SpecialNextHop::Unreachable)
        .special_route([10, 9, 2, 0].into(), 24, SpecialNextHop::Prohibited)
        .special_route([10, 9, 3, 0].into(), 24, SpecialNextHop::Blackhole)
        // Back to the link that they come from.
        .paths(([10, 9, 0, 0].into(), 24), &[("west.100", Some(host4(10).into()), 1)])
        .paths((host6(7).into(), 128), &[("west.100", Some(host6(10).into()), 1)])
        .paths(([10, 9, 4, 0].into(), 24), &[("east", Some(host4(2).into()), 1)])
        .paths(
            ([10, 9, 5, 0].into(), 24),
            &[("east", Some(host4(2).into()), 1), ("north", Some(host4(3).into()), 2)],
        )
        .paths(
            (host6(9).into(), 128),
            &[("east", Some(host6(2).into()), 1), ("north", Some(host6(3).into()), 2)],
        )
        .paths(([10, 9, 6, 0].into(), 24), &[("gre", None, 1)])
        .paths(([10, 9, 7, 0].into(), 24), &[("ip-ip", None, 1)])
        .paths((host6(8).into(), 128), &[("gre6", None, 1)])
        .port("left", 20)
        .port("right", 21);
    for (name, other) in [("left", "right"), ("right", "left")] {
        setup = setup.with(name, |interface| {
            interface.cross_connect = Some(other.to_owned());
            (interface.ip4, interface.ip6) = (Family::default(), Family::default());
        });
    }
    let of_cable = |prefix: &Prefix| {
        [20, 21].into_iter().any(|n| {
            let nets: [IpAddr; 4] = [
                our4(n).into(),
                our6(n).into(),
                Ipv4Addr::new(10, 0, n, 0).into(),
                Ipv6Addr::from(u128::from(our6(n)) - 1).into(),
            ];
            nets.contains(&prefix.0)
        })
    };
    setup.0.routes.retain(|prefix, _| !of_cable(prefix));
    setup
}

/// Vectors of the port west mix VRFs: both leak to other ports and into tunnels.
fn vrfs(setup: Setup) -> Setup {
    setup
        .vrf("red", &["west.31"])
        .vrf("blue", &["west.32"])
        .paths_in("red", ([10, 9, 0, 0].into(), 16), &[("east", Some(host4(2).into()), 1)])
        .paths_in("blue", ([10, 9, 4, 0].into(), 23), &[("north", Some(host4(3).into()), 1)])
        .paths_in("blue", ([10, 0, 0, 0].into(), 8), &[("east", Some(host4(2).into()), 1)])
        .paths_in("red", (host6(9).into(), 128), &[("ip-ip", None, 1)])
        .paths_in("blue", ([10, 9, 6, 0].into(), 24), &[("gre", None, 1)])
        .paths_in("blue", (Ipv6Addr::UNSPECIFIED.into(), 0), &[("north", Some(host6(3).into()), 1)])
}

/// Rules of all kinds in the VRFs red and blue, and if requested in the default one.
fn rules(mut setup: Setup, in_default: bool) -> Setup {
    for is_ip4 in [true, false] {
        let all: Prefix =
            if is_ip4 { ([0; 4].into(), 0) } else { (Ipv6Addr::UNSPECIFIED.into(), 0) };
        let host = |n: u8| -> Prefix {
            if is_ip4 { (host4(n).into(), 32) } else { (host6(n).into(), 128) }
        };
        let rule = |priority: u32, vrf: &str, action: RuleAction| Rule {
            vrf: vrf.to_owned(),
            ..setup::rule(priority, is_ip4, action)
        };
        let table = |vrf: &str, suppress| RuleAction::Table(vrf.to_owned(), suppress);
        let special = RuleAction::Special;
        let list = |vrf: &str| {
            vec![
                Rule { from: Some(host(1)), ..rule(100, vrf, table("red", false)) },
                Rule { dscp: Some(10), ..rule(200, vrf, special(SpecialNextHop::Prohibited)) },
                Rule {
                    ip_protocol: Some(17),
                    destination_ports: Some((1000, 2000)),
                    ..rule(300, vrf, table("blue", true))
                },
                Rule { interface: "west.7.8".into(), ..rule(400, vrf, RuleAction::Goto(600)) },
                Rule {
                    source_ports: Some((7, 7)),
                    ..rule(500, vrf, special(SpecialNextHop::Blackhole))
                },
                Rule {
                    from: Some(all),
                    to: Some(host(3)),
                    ..rule(600, vrf, special(SpecialNextHop::Unreachable))
                },
                Rule { to: Some(host(9)), ..rule(700, vrf, table("", true)) },
            ]
        };
        for vrf in ["red", "blue", ""] {
            if !vrf.is_empty() || in_default {
                setup.0.rules.insert((vrf.to_owned(), is_ip4), list(vrf));
            }
        }
    }
    setup
}

/// Virtual routers of both families on west and west.100.
fn virtual_routers(mut setup: Setup) -> Setup {
    for (which, name) in ["west", "west.100"].into_iter().enumerate() {
        let router = |addresses| VirtualRouter {
            accept: which == 1,
            interval_cs: 4000,
            is_logged: false,
            ..virtual_router(VIRTUAL_ROUTERS[which].0, 100, addresses)
        };
        let link_local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x51 + which as u16);
        setup = setup.with(name, |interface| {
            interface.ip4.virtual_routers = vec![router(vec![virtual4(which).into()])];
            let addresses = vec![link_local.into(), virtual6(which).into()];
            interface.ip6.virtual_routers = vec![router(addresses)];
        });
    }
    setup
}

/// Access lists that accept, drop and reject, at some interfaces of the vectors of the port west and behind others.
fn access_lists(setup: Setup) -> Setup {
    let all = RuleOfList::all;
    let first = [
        RuleOfList { dscp: Some(12), ..all(Action::Drop) },
        RuleOfList {
            protocols: vec![17],
            destination_ports: vec![(7, 7), (3000, 4000)],
            ..all(Action::Reject)
        },
        RuleOfList {
            ingress: Some("west.31".to_owned()),
            egress: Some("east".to_owned()),
            dscp: Some(8),
            ..all(Action::Drop)
        },
        RuleOfList { vlan: Some(7), dscp: Some(24), ..all(Action::Reject) },
        RuleOfList { fragments: Fragments::Later, length: Some((0, 100)), ..all(Action::Drop) },
        RuleOfList { protocols: vec![6], tcp_flags: (2, 0x12), ..all(Action::Reject) },
    ];
    let second = [
        RuleOfList { family: 6, protocols: vec![58], icmp_type: Some(1), ..all(Action::Drop) },
        all(Action::Accept),
    ];
    let setup = list(list(setup, "first", &first), "second", &second);
    let both = || vec!["first".to_owned(), "second".to_owned()];
    let only = || vec!["second".to_owned()];
    setup
        .with("west.7.8", |it| (it.acls.in4, it.acls.in6) = (both(), only()))
        .with("west.31", |it| (it.acls.in4, it.acls.in6) = (only(), both()))
        .with("east", |it| (it.acls.out4, it.acls.out6) = (both(), both()))
}

/// An access list with these rules.
fn list(mut setup: Setup, name: &str, rules: &[RuleOfList]) -> Setup {
    let mut after = String::new();
    for (at, rule) in rules.iter().enumerate() {
        let after = std::mem::replace(&mut after, at.to_string());
        let rule = AclRule { after, sets: None, rule: rule.clone() };
        setup.0.acl_rules.insert((name.to_owned(), at.to_string()), rule);
    }
    setup
}

/// Stateful rules of inputs and of an output, with and without profiles, limits and logs; rules with sets of prefixes
/// and ports. Replies have no rule.
fn stateful_rules(setup: Setup) -> Setup {
    let flow = |protocols: &[u8]| RuleOfList {
        protocols: protocols.to_vec(),
        is_stateful: true,
        ..RuleOfList::all(Action::Accept)
    };
    let mut quick = Profile { options: Options { loose: true, liberal: false }, ..<_>::default() };
    Class::ALL.iter().for_each(|class| quick.timeouts.set(*class, 1));
    let liberal = Profile { options: Options { loose: true, liberal: true }, ..<_>::default() };
    // Without the fuzzer, limits would depend on the time of the machine.
    let limit = if cfg!(fuzzing) { (10, 5) } else { (1_000_000, 1_000_000) };
    let sets = RuleOfList {
        family: 4,
        sources: vec![([10, 0, 1, 0].into(), 24), (host4(10).into(), 32)],
        destinations: vec![([10, 0, 2, 0].into(), 24), ([10, 9, 4, 0].into(), 22)],
        destination_ports: vec![(7, 7), (1000, 1999), (3000, 3001)],
        ..flow(&[6, 17])
    };
    let alg = Some(Alg::Ftp);
    let out = [
        RuleOfList { tcp_flags: (0, 0x10), flow_profile: Some(quick), ..flow(&[6]) },
        sets,
        RuleOfList { flow_profile: Some(liberal), is_logged: true, alg, ..flow(&[6]) },
        RuleOfList { rate_limit: Some(limit), flow_profile: Some(quick), ..flow(&[17]) },
        RuleOfList { family: 4, rate_limit: Some(limit), is_logged: true, ..flow(&[1]) },
        flow(&[1, 4, 41, 47, 58]),
    ];
    let back = [
        RuleOfList {
            family: 6,
            protocols: vec![58],
            icmp_type: Some(136),
            ..RuleOfList::all(Action::Accept)
        },
        RuleOfList { dscp: Some(1), ..flow(&[]) },
        RuleOfList { protocols: vec![6], ..RuleOfList::all(Action::Reject) },
    ];
    let (out_names, back_names) = (|| vec!["out".to_owned()], || vec!["back".to_owned()]);
    list(list(setup, "out", &out), "back", &back)
        .with("west", |it| (it.acls.in4, it.acls.in6) = (out_names(), out_names()))
        .with("west.100", |it| (it.acls.out4, it.acls.out6) = (out_names(), out_names()))
        .with("east", |it| (it.acls.in4, it.acls.in6) = (back_names(), back_names()))
        .with("gre", |it| it.acls.in4 = back_names())
}

/// Translation at all interfaces. Without the fuzzer only by static mappings: ports of others are random, and runs are
/// compared.
fn nat(mut setup: Setup) -> Setup {
    let net = |address: Ipv4Addr, length| Prefix4 { network: address.to_bits(), length };
    let policy = |(at, interface): (usize, &String)| NatPolicy {
        instance: 1,
        policy: at as u32,
        interface: interface.clone(),
        subscribers: vec![net([192, 168, 0, 0].into(), 16)],
        ports: (1024, u16::MAX),
        mapping: Mapping::Static,
        // Its hosts have no external address, but nodes of NAT64 see their packets.
        nat64: (interface == "east").then(nat64),
        ..NatPolicy::default()
    };
    let mut policies: Vec<NatPolicy> = setup.0.interfaces.keys().enumerate().map(policy).collect();
    if cfg!(fuzzing) {
        let dynamic = |interface: &str, mapping, filtering| NatPolicy {
            policy: 900,
            interface: interface.to_owned(),
            ports: (1024, 1100),
            mapping,
            filtering,
            ..NatPolicy::default()
        };
        policies = vec![
            NatPolicy {
                policy: 901,
                nat64: Some(nat64()),
                ..dynamic("east", Mapping::EndpointIndependent, Filtering::Anyone)
            },
            dynamic("east", Mapping::EndpointIndependent, Filtering::Address),
            NatPolicy {
                blocks: Some(NatBlocks {
                    size: 32,
                    limit: 1,
                    timeout_s: 1,
                    length: 32,
                    is_deterministic: false,
                    quotas: [None, Some(4), None, None],
                }),
                ..dynamic("north", Mapping::EndpointDependent, Filtering::AddressAndPort)
            },
        ];
    }
    let mapping = |index, (internal, external), ports: Option<(u16, u16, u16)>| NatMapping {
        instance: 1,
        index,
        protocol: if ports.is_some() { protocol::UDP } else { 0 },
        internal,
        external,
        ports,
        ..NatMapping::default()
    };
    let mut shared = mapping(3, (net(host4(10), 32), net(our4(3), 32)), Some((9, 9, 1)));
    let backend = |n, first_port| NatBackend { address: host4(n).to_bits(), first_port, weight: n };
    shared.backends = vec![backend(1, 7), backend(2, 1500)];
    shared.remote = Some(NatRemote { addresses: net(our4(1), 32), ports: (1024, 2047) });
    let mappings = vec![
        shared,
        mapping(1, (net(host4(10), 32), net([10, 9, 5, 5].into(), 32)), None),
        mapping(2, (net(host4(1), 32), net(our4(3), 32)), Some((7, 1500, 1))),
    ];
    setup.0.nat = Nat { policies, mappings };
    setup
}

/// The features of all arcs. Vectors of the port west mix interfaces with all of them and without.
fn features(setup: Setup, options: &v1::FamilyOptions) -> Setup {
    setup
        .with("west.31", |sub| {
            (sub.ip4.reverse_path, sub.ip6.reverse_path) = (1, 1);
            (sub.flow_hash, sub.noop_local) = (true, true);
            (sub.ip4.options, sub.ip6.options) = (*options, *options);
        })
        .with("east", |east| {
            (east.ip4.mtu, east.ip6.mtu) = (900, 1280);
            (east.noop_output, east.noop_local) = (true, true);
        })
        // Frames with unknown tags pass the features of their port.
        .with("north", |north| {
            (north.ip4.reverse_path, north.ip6.reverse_path) = (1, 2);
            (north.noop_port, north.noop_ethernet) = (true, true);
        })
        .with("west.100", |sub| {
            (sub.noop, sub.flow_hash, sub.noop_ethernet, sub.noop_local) = (true, true, true, true);
            (sub.noop_output, sub.noop_port) = (true, true);
            (sub.ip4.options, sub.ip6.options) = (*options, *options);
        })
        .with("west.7.8", |sub| (sub.ip4.reverse_path, sub.ip6.reverse_path) = (2, 1))
        .with("left", |left| left.noop_ethernet = true)
        .with("right", |right| right.noop_port = true)
}
