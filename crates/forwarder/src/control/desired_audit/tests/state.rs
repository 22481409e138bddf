//! A state with entries of each kind.

use stoa_api::v1;
use stoa_api::v1::port::Driver;
use stoa_api::v1::route::Action;

pub(super) fn prefix(address: &[u8], length: u32) -> v1::Prefix {
    v1::Prefix { address: address.to_vec(), length }
}

fn port(interface: &str, driver: Driver) -> v1::Port {
    let (interface, driver) = (interface.to_owned(), Some(driver));
    v1::Port { interface, driver, ..v1::Port::default() }
}

pub(super) fn address(address: &[u8], prefix_length: u32) -> v1::Address {
    v1::Address { address: address.to_vec(), prefix_length, ..v1::Address::default() }
}

const LOCAL6: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
const GLOBAL6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// IPv4 with everything that it has.
fn ip4() -> v1::Family {
    let router = v1::VirtualRouter {
        vrid: 7,
        version: 2,
        priority: 120,
        hold_s: 3,
        interval_cs: 100,
        addresses: vec![vec![10, 0, 0, 99]],
        tracked: vec![v1::TrackedInterface { interface: "b".into(), decrement: 20 }],
        networks: vec![v1::TrackedNetwork {
            prefix: Some(prefix(&[10, 9, 0, 0], 16)),
            decrement: 30,
        }],
        ..v1::VirtualRouter::default()
    };
    v1::Family {
        enabled: true,
        forwarding: true,
        mtu: 1400,
        addresses: vec![address(&[10, 0, 0, 1], 24), address(&[10, 1, 0, 1], 24)],
        reverse_path: v1::ReversePath::Loose.into(),
        proxy: true,
        discovery: Some(v1::RouterDiscovery {
            max_interval_s: 600,
            min_interval_s: 450,
            lifetime_s: 1800,
            preference: -5,
            ..v1::RouterDiscovery::default()
        }),
        virtual_routers: vec![router],
        options: Some(v1::FamilyOptions {
            directed_broadcast: true,
            redirects: true,
            ..v1::FamilyOptions::default()
        }),
        ..v1::Family::default()
    }
}

/// The same of IPv6.
fn ip6() -> v1::Family {
    let advertised = v1::AdvertisedPrefix {
        prefix: Some(prefix(&[GLOBAL6[..8].to_vec(), vec![0; 8]].concat(), 64)),
        on_link: true,
        valid_s: 900,
        preferred_s: 800,
        ..v1::AdvertisedPrefix::default()
    };
    let advertising = v1::RouterAdvertising {
        max_interval_s: 600,
        min_interval_s: 200,
        managed: true,
        hop_limit: 63,
        lifetime_s: 1800,
        preference: v1::RouterPreference::Low.into(),
        prefixes: vec![advertised],
        name_servers: vec![GLOBAL6.to_vec()],
        name_servers_s: 70,
        search: vec!["example.net".into()],
        search_s: 60,
        nat64_prefixes: vec![v1::AdvertisedNat64 {
            prefix: Some(prefix(&[vec![0, 0x64, 0xff, 0x9b], vec![0; 12]].concat(), 96)),
            lifetime_s: 1800,
        }],
        ..v1::RouterAdvertising::default()
    };
    v1::Family {
        enabled: true,
        forwarding: true,
        addresses: vec![address(&GLOBAL6, 64)],
        advertising: Some(advertising),
        virtual_routers: vec![v1::VirtualRouter {
            vrid: 7,
            version: 3,
            priority: 100,
            preempt: true,
            accept: true,
            interval_cs: 50,
            addresses: vec![LOCAL6.to_vec()],
            log: true,
            ..v1::VirtualRouter::default()
        }],
        ..v1::Family::default()
    }
}

/// A state with several entries of each kind.
pub(super) fn everything() -> v1::Desired {
    let session = |last: u8, multiplier| v1::BfdSession {
        address: vec![10, 0, 0, last],
        multiplier,
        ..v1::BfdSession::default()
    };
    let interface =
        |name: &str| v1::Interface { name: name.into(), enabled: true, ..v1::Interface::default() };
    let acls = v1::AclSets { in4: vec!["edge".into()], ..v1::AclSets::default() };
    let lan = v1::Interface {
        mac: vec![2, 0, 0, 0, 0, 1],
        ip4: Some(ip4()),
        ip6: Some(ip6()),
        bfd: vec![session(2, 0), session(3, 5)],
        acls: Some(acls),
        description: "not in force".into(),
        host_interface: Some(v1::HostInterface { device: "lan".into(), netns: String::new() }),
        ..interface("a")
    };
    let tagged = v1::Interface {
        parent: "b".into(),
        outer: Some(v1::Tag { tpid: 0x88a8, vid: 5 }),
        inner: Some(v1::Tag { tpid: 0x8100, vid: 6 }),
        vrf: "red".into(),
        zone: "lan".into(),
        ..interface("b.5")
    };
    let ends = v1::Tunnel {
        local: vec![10, 0, 0, 1],
        remote: vec![192, 0, 2, 1],
        encapsulation: v1::Encapsulation::Gre.into(),
        hop_limit: 0,
    };
    let esp = v1::Tunnel {
        remote: vec![192, 0, 2, 9],
        encapsulation: v1::Encapsulation::Esp.into(),
        hop_limit: 32,
        ..ends.clone()
    };
    let neighbor = |last: u8| v1::Neighbor {
        interface: "a".into(),
        address: vec![10, 0, 0, last],
        mac: vec![2, 0, 0, 0, 0, last],
    };
    let path =
        |last: u8| v1::Path { interface: "a".into(), next_hop: vec![10, 0, 0, last], weight: 0 };
    let route = |second: u8, vrf: &str, action| v1::Route {
        prefix: Some(prefix(&[172, second, 0, 0], 16)),
        protocol: v1::Protocol::Static.into(),
        action: Some(action),
        vrf: vrf.into(),
    };
    let two_paths = Action::Paths(v1::Paths { paths: vec![path(3), path(2)] });
    let rule = |priority, action| v1::Rule {
        family: 4,
        priority,
        from: Some(prefix(&[10, 0, 0, 0], 8)),
        dscp: Some(0),
        source_ports: Some(v1::PortRange { first: 1, last: 9 }),
        action: Some(action),
        ..v1::Rule::default()
    };
    let table = v1::RuleTable { vrf: "red".into(), suppress_default: true };
    let acl_rule = |name: &str, after: &str| v1::AclRule {
        acl: "edge".into(),
        name: name.into(),
        after: after.into(),
        family: 4,
        sources: vec![prefix(&[10, 0, 0, 0], 8), prefix(&[172, 16, 0, 0], 12)],
        protocols: vec![6],
        destination_ports: vec![v1::PortRange { first: 0, last: 9 }],
        sets: Some(v1::AclRuleSets { sources: "private".into(), ..v1::AclRuleSets::default() }),
        tcp_flags: 2,
        tcp_flags_mask: 18,
        fragment: v1::AclFragment::NoFragment.into(),
        length: Some(v1::PortRange { first: 40, last: 1500 }),
        action: v1::AclAction::AclReject.into(),
        ..v1::AclRule::default()
    };
    let of_interfaces = v1::AclRule {
        ingress_interface: "a".into(),
        egress_interface: "b.5".into(),
        vlan_id: Some(0),
        ..acl_rule("between", "last")
    };
    let punt =
        |class: &str, rate| v1::PuntLimit { class: class.into(), rate, ..v1::PuntLimit::default() };
    let limits = v1::Limits { neighbors: 1 << 10, ..v1::Limits::default() };
    let (source, destination) = (vec![192, 0, 2, 7], Vec::new());
    let generator = v1::Generator { source, destination, ..v1::Generator::default() };
    v1::Desired {
        workers: Some(v1::Workers { polling: v1::Polling::Interrupt.into(), ..Default::default() }),
        limits: Some(limits),
        logging: Some(v1::Logging { level: "warn".into(), ..v1::Logging::default() }),
        reassembly: Some(v1::Reassembly { packets: 0, per_source: 20 }),
        multipath: Some(v1::Multipath { hash_seed: 7 }),
        ports: vec![
            port("g", Driver::Generator(generator)),
            port("a", Driver::Null(v1::Null {})),
            port("b", Driver::Null(v1::Null {})),
            port("t", Driver::Tunnel(ends)),
            port("e", Driver::Tunnel(esp)),
        ],
        interfaces: vec![
            lan,
            interface("b"),
            interface("g"),
            tagged,
            interface("t"),
            interface("e"),
        ],
        vrfs: vec![v1::Vrf { name: "red".into(), ..v1::Vrf::default() }],
        neighbors: vec![neighbor(2), neighbor(4)],
        routes: vec![
            route(16, "", two_paths),
            route(17, "", Action::Special(v1::Special::Prohibit.into())),
            route(18, "red", Action::Special(v1::Special::Blackhole.into())),
        ],
        rules: vec![
            rule(9, v1::rule::Action::Table(table)),
            rule(5, v1::rule::Action::GotoPriority(9)),
            rule(5, v1::rule::Action::Special(v1::Special::Unreachable.into())),
        ],
        acl_rules: vec![acl_rule("last", "first"), of_interfaces, acl_rule("first", "")],
        zone_pairs: vec![v1::ZonePair {
            from: "lan".into(),
            to: "router".into(),
            acls4: vec!["edge".into()],
            acls6: Vec::new(),
        }],
        nat: Some(nat()),
        nptv6: Some(nptv6()),
        siit: Some(siit()),
        ipfix: Some(ipfix()),
        flow_sync: Some(flow_sync()),
        ipsec: Some(super::associations::ipsec()),
        flow_limits: Some(flow_limits()),
        existing_flows: v1::ExistingFlows::Keep.into(),
        punts: vec![punt("arp", 100), punt("nd", 0)],
    }
}

/// Limits of each kind.
fn flow_limits() -> v1::FlowLimits {
    let limit = |name: &str, live| v1::FlowLimit {
        name: name.into(),
        live: Some(live),
        ..v1::FlowLimit::default()
    };
    v1::FlowLimits {
        host: Some(limit("", 100)),
        prefix: Some(v1::FlowLimit { ip4_length: 20, ..limit("", 1_000) }),
        zones: vec![limit("lan", 10_000)],
        vrfs: vec![limit("", 20_000), limit("red", 10)],
        refusal: v1::FlowRefusal::Silent.into(),
    }
}

/// A collector at which nobody listens.
fn flow_sync() -> v1::FlowSync {
    v1::FlowSync {
        local_address: vec![127, 0, 0, 1],
        local_port: 8_784,
        partner_address: vec![127, 0, 0, 2],
        partner_port: 8_784,
        secret: "a secret of enough bytes".to_owned(),
        minimum_age_s: 5,
    }
}

fn ipfix() -> v1::Ipfix {
    let collector = v1::IpfixCollector {
        name: "nobody".into(),
        address: vec![127, 0, 0, 1],
        port: 9,
        ..v1::IpfixCollector::default()
    };
    v1::Ipfix {
        collectors: vec![collector],
        active_timeout_s: 60,
        idle_timeout_s: 15,
        template_interval_s: 600,
        message_size: 1_400,
        flows: true,
        ..v1::Ipfix::default()
    }
}

/// A policy with a mapping of each kind.
fn siit() -> v1::Siit {
    let prefix = |address: &[u8], length| Some(v1::Prefix { address: address.to_vec(), length });
    let net = |first: u8, length| prefix(&[&[first][..], &[0; 15]].concat(), length);
    let mapping =
        |ip4: [u8; 4], ip6, embedded| v1::SiitMapping { ip4: prefix(&ip4, 30), ip6, embedded };
    let policy = v1::SiitPolicy {
        instance: 7,
        policy: 1,
        vrf: "red".into(),
        prefix: net(0x64, 96),
        mappings: vec![
            mapping([192, 0, 2, 4], net(0x30, 64), false),
            mapping([192, 0, 2, 8], net(0x64, 96), true),
        ],
        kept: prefix(&[192, 0, 2, 4], 32).into_iter().collect(),
        error_interface: "b".into(),
    };
    v1::Siit { policies: vec![policy] }
}

/// A pair of prefixes.
fn nptv6() -> v1::Nptv6 {
    let net = |first: u8| {
        let mut address = vec![0; 16];
        address[0] = first;
        Some(v1::Prefix { address, length: 48 })
    };
    let (internal, external) = (net(0xfd), net(0x20));
    let prefix =
        v1::NptPrefix { instance: 1, policy: 3, interface: "b".into(), internal, external };
    v1::Nptv6 { prefixes: vec![prefix] }
}

/// Two policies, one of them with the defaults, and a static mapping of each kind.
fn nat() -> v1::Nat {
    let net = |address: [u8; 4], length| v1::Prefix { address: address.into(), length };
    let policy = |policy| v1::NatPolicy {
        instance: 1,
        policy,
        interface: "b".into(),
        quotas: vec![v1::NatPortQuota { protocol: 6, ports: 100 }],
        ..Default::default()
    };
    let first = v1::NatPolicy {
        subscribers: vec![net([10, 0, 0, 0], 8)],
        exempt: vec![net([10, 9, 0, 0], 16)],
        pools: vec![net([192, 0, 2, 0], 28)],
        last_port: 2000,
        mapping: v1::NatMappingType::NatEdm.into(),
        blocks: Some(v1::NatPortBlocks { size: 64, ..v1::NatPortBlocks::default() }),
        quotas: [17, 0].map(|protocol| v1::NatPortQuota { protocol, ports: 100 }).into(),
        silent: true,
        ..policy(1)
    };
    let asked = v1::NatPortControl {
        interfaces: vec!["a".into()],
        min_lifetime_s: 60,
        ..v1::NatPortControl::default()
    };
    let own = |port| v1::NatOwnPort { address: vec![192, 0, 2, 9], protocol: 6, port };
    let own_ports = vec![own(8443), own(179)];
    let second = v1::NatPolicy { port_control: Some(asked), own_ports, ..policy(2) };
    let whole = v1::NatMapping {
        instance: 1,
        index: 1,
        internal: Some(net([10, 0, 0, 0], 30)),
        external: Some(net([192, 0, 2, 32], 30)),
        ..v1::NatMapping::default()
    };
    let range = |first| Some(v1::PortRange { first, last: first + 9 });
    let ports = v1::NatMapping {
        index: 2,
        protocol: 17,
        internal: Some(net([10, 0, 0, 9], 32)),
        external: Some(net([192, 0, 2, 1], 32)),
        internal_ports: range(700),
        external_ports: range(800),
        ..whole.clone()
    };
    let backend =
        |last| v1::NatBackend { address: vec![10, 0, 0, last], first_port: 80, weight: 3 };
    let shared = v1::NatMapping {
        instance: 1,
        index: 3,
        protocol: 6,
        external: Some(net([192, 0, 2, 1], 32)),
        external_ports: range(800),
        backends: vec![backend(7), backend(8)],
        by_source: true,
        internal_remote: Some(net([10, 0, 0, 0], 30)),
        ..v1::NatMapping::default()
    };
    v1::Nat { policies: vec![first, second], mappings: vec![whole, ports, shared] }
}
