//! The forwarder state for a workload: ports, interfaces, tables, neighbours.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_engine::worker::Polling;
use stoa_forwarder::control::Limits;
use stoa_forwarder::control::desired::{
    Action, DesiredState, Family, Interface, NatPolicy, Path, Prefix, Route, SiitPolicy, Workers,
};
use stoa_forwarder::nat::{Mapping, Prefix4};
use stoa_ports::generator::PREPARED;
use stoa_ports::{Destinations, GeneratorConfig, NullConfig, PortConfig};
use stoa_wire::siit;

use super::flows::TRACKED_MAX;
use super::layout::{Layout, Side, VLAN};
use super::senders::{PortSenders, interface_of};
use super::targets::Table;
use super::tunnels::Tunnels;
use super::{BenchError, FCS, Ip, Workload};
use super::{access_lists, answers};
use crate::export;

/// Table capacity beyond the measured routes: neighbours have host routes.
const SPARE: usize = 1 << 15;
/// The MAC address of the first neighbour of sending interfaces; the others are consecutive.
pub(super) const NEXT_HOP_MAC: u64 = 0x0200_0000_0002;
/// The same for receiving interfaces.
pub(super) const SENDER_MAC: u64 = 0x0200_0100_0002;
/// The fewest packets that lie prepared in each port.
const PREPARED_LEAST: u32 = 512;
/// Interface without traffic.
const ELSEWHERE: &str = "elsewhere";

/// The desired state, with these prefixes in the tables.
pub(super) fn desired(workload: &Workload, tables: &[Table]) -> Result<DesiredState, BenchError> {
    let layout = &Layout::new(workload);
    let buffers = layout.ports as u32 * prepared(layout) * 2;
    let mut desired = DesiredState {
        workers: Workers {
            count: workload.workers,
            cpus: workload.cpus.clone(),
            polling: Polling::Always,
            buffers: buffers * workload.workers as u32,
            kernel: workload.kernel,
            ..Workers::default()
        },
        ..DesiredState::default()
    };
    set_limits(&mut desired, (workload, layout), tables);
    add_ports(&mut desired, (workload, layout), tables)?;
    let mut features = workload.features.iter().chain(&workload.features_elsewhere);
    desired.noop_origin = features.any(|feature| feature.is_of_router());
    let rules = workload
        .acl
        .as_ref()
        .map(|set| (set, workload.is_stateful, access_lists::profile(workload)));
    let mut acls =
        rules.map(|rules| access_lists::add(&mut desired, rules, tables)).unwrap_or_default();
    if workload.has_zones {
        access_lists::attach_to_zones(&mut desired, std::mem::take(&mut acls));
    }
    for at in 0..layout.interfaces() {
        let mut interface = interface(layout, tables, (Side::In, at));
        if workload.has_nat64 {
            let addresses = vec![layout.ours(Ip::V6, (Side::In, at))];
            interface.ip6 = Family { enabled: true, addresses, ..interface.ip4.clone() };
        }
        interface.acls.clone_from(&acls);
        enable(workload, Side::In, &mut interface);
        add_interface(&mut desired, layout, (Side::In, at), interface);
    }
    for at in layout.sending() {
        let mut interface = interface(layout, tables, (Side::Out, at));
        enable(workload, Side::Out, &mut interface);
        add_interface(&mut desired, layout, (Side::Out, at), interface);
    }
    if workload.is_stateless {
        desired.siit.push(stateless());
    } else if workload.has_nat44 || workload.has_nat64 {
        add_nat(&mut desired, layout, workload.has_nat64);
    }
    if workload.is_exported {
        desired.ipfix = export::settings();
    }
    let tunnels = Tunnels::of(workload, layout);
    if let Some(tunnels) = &tunnels {
        add_tunnels(&mut desired, layout, tunnels, tables);
    }
    if !workload.features_elsewhere.is_empty() {
        let family = Family { enabled: true, forwarding: true, ..Family::default() };
        let (ip4, ip6) = (family.clone(), family);
        let mut interface = Interface { enabled: true, ip4, ip6, ..Interface::default() };
        for feature in &workload.features_elsewhere {
            feature.enable(&mut interface);
        }
        desired.interfaces.insert(ELSEWHERE.to_owned(), interface);
        desired.ports.insert(ELSEWHERE.to_owned(), null(workload));
    }
    for table in tables {
        add_neighbors(&mut desired, layout, table);
        for vrf in 0..layout.tables() {
            let through = tunnels.as_ref().and_then(|tunnels| tunnels.routes(&table.prefixes));
            let routes = through.unwrap_or_else(|| routes(layout, table, vrf));
            match layout.vrfs {
                0 => desired.routes.extend(routes),
                _ => desired.vrfs.entry(layout.vrf_name(vrf)).or_default().extend(routes),
            }
        }
    }
    if workload.has_answers {
        answers::turn(&mut desired, workload, layout);
    }
    Ok(desired)
}

/// The tunnels, and what their outer packets need: IPv4 and a neighbour on a port.
fn add_tunnels(
    desired: &mut DesiredState,
    layout: &Layout,
    tunnels: &Tunnels<'_>,
    tables: &[Table],
) {
    let (outside, next_hop) = tunnels.neighbor();
    let name = layout.name(outside.0, outside.1);
    if let Some(port) = desired.interfaces.get_mut(&name) {
        let addresses = vec![layout.ours(Ip::V4, outside)];
        port.ip4 = Family { enabled: true, forwarding: true, addresses, ..Family::default() };
    }
    let [_, _, mac @ ..] = SENDER_MAC.to_be_bytes();
    desired.neighbors.insert((name, next_hop), mac);
    tunnels.add(desired, interface(layout, tables, outside));
}

/// The external addresses, 203.0.113.0/24: enough ports for the flows of all destinations, and no sources of packets.
pub(super) const POOL: Prefix4 = Prefix4 { network: 0xcb00_7100, length: 24 };

/// Translates what the sending interfaces send.
fn add_nat(desired: &mut DesiredState, layout: &Layout, is_nat64: bool) {
    for (policy, at) in (1..).zip(layout.sending()) {
        desired.nat.policies.push(NatPolicy {
            instance: 1,
            policy,
            interface: layout.name(Side::Out, at),
            pools: vec![POOL],
            ports: (1024, u16::MAX),
            mapping: Mapping::EndpointDependent,
            nat64: is_nat64.then_some(siit::Prefix::WELL_KNOWN),
            ..NatPolicy::default()
        });
    }
}

/// Maps hosts inside to external addresses, without state.
fn stateless() -> SiitPolicy {
    let network = Ip::V6.source();
    let bits = if let IpAddr::V6(it) = network { it.to_bits() & !0xff } else { 0 };
    let ip4 = (Ipv4Addr::from_bits(POOL.network), POOL.length);
    let mapping = siit::Mapping::explicit(ip4, (Ipv6Addr::from_bits(bits), 120));
    SiitPolicy {
        instance: 1,
        policy: 1,
        vrf: String::new(),
        prefix: siit::Prefix::WELL_KNOWN,
        mappings: mapping.into_iter().collect(),
        kept: Vec::new(),
        error_interface: String::new(),
    }
}

/// Enables the features of one side of the router on an interface.
fn enable(workload: &Workload, side: Side, interface: &mut Interface) {
    let is_output = matches!(side, Side::Out);
    if workload.has_zones {
        interface.zone = access_lists::ZONES[usize::from(is_output)].to_owned();
        interface.zone_syn_cookies = (workload.has_syn_cookies && is_output).then_some(0);
    }
    let features = workload.features.iter().filter(|feature| feature.is_output() == is_output);
    features.for_each(|feature| feature.enable(interface));
}

fn set_limits(
    desired: &mut DesiredState,
    (workload, layout): (&Workload, &Layout),
    tables: &[Table],
) {
    let usual = Limits::default();
    let room = tables.iter().map(|table| table.len() + SPARE).max().unwrap_or(0);
    desired.limits.routes4 = usual.routes4.max(room);
    desired.limits.routes6 = usual.routes6.max(room);
    if layout.vrfs > 0 {
        desired.limits.vrf_routes = usual.vrf_routes.max(room);
    }
    let neighbors = (layout.next_hops * layout.tables() + layout.interfaces()) * tables.len();
    desired.limits.neighbors = usual.neighbors.max(neighbors);
    if workload.has_flows() {
        // Flows of many destinations are drawn at random: none is refused, and none evicted.
        let flows = (workload.tracked_flows() * 2).min(TRACKED_MAX) as usize;
        desired.limits.flows4 = usual.flows4.max(flows);
        desired.limits.flows6 = usual.flows6.max(flows);
        desired.limits.nat_flows = usual.nat_flows.max(flows);
    }
}

/// Packets prepared in each port. The ports together prepare as many as one alone, so that their
/// number does not change which cache the packets are in.
fn prepared(layout: &Layout) -> u32 {
    (PREPARED / layout.ports as u32).max(PREPARED_LEAST)
}

/// The generators, the ports that send, and their own interfaces.
fn add_ports(
    desired: &mut DesiredState,
    (workload, layout): (&Workload, &Layout),
    tables: &[Table],
) -> Result<(), BenchError> {
    let senders = tables.iter().map(|table| PortSenders::new(layout, table));
    let senders = senders.collect::<Result<Vec<_>, _>>()?;
    for port in 0..layout.ports {
        let generator = generator((workload, layout), tables, (&senders, port));
        let ports = [(Side::In, PortConfig::Generator(generator)), (Side::Out, null(workload))];
        for (side, config) in ports {
            let name = layout.port_name(side, port);
            if layout.is_tagged() {
                let below = Interface { enabled: true, ..Interface::default() };
                desired.interfaces.insert(name.clone(), below);
            }
            desired.ports.insert(name, config);
        }
    }
    Ok(())
}

fn null(workload: &Workload) -> PortConfig {
    PortConfig::Null(NullConfig { tx_queues: workload.workers as u16, ..NullConfig::default() })
}

fn generator(
    (workload, layout): (&Workload, &Layout),
    tables: &[Table],
    (senders, port): (&[PortSenders<'_>], usize),
) -> GeneratorConfig {
    let mut config = GeneratorConfig {
        frame: workload.frame - FCS,
        queues: workload.workers as u16,
        flows: workload.flows.sources(),
        vlan: if workload.is_tagged { VLAN } else { 0 },
        prepared: if layout.ports == 1 { 0 } else { prepared(layout) },
        burst: workload.burst,
        syn: workload.has_syn_cookies,
        ..GeneratorConfig::default()
    };
    let share = (port, layout.ports);
    let senders: Vec<_> = senders.iter().map(|senders| senders.of(port)).collect();
    if let Some(mix) = workload.mix {
        config.mix = Some(mix.packets(tables, &senders, share));
    } else if let (Some(table), Some(senders)) = (tables.first(), senders.into_iter().next()) {
        config.source = table.ip.source();
        config.destination = layout.neighbor(table.ip, (Side::Out, 0), 0);
        config.destinations = table.destinations(share);
        if workload.has_nat64 {
            send_by_nat64(&mut config);
        }
        config.senders = senders.or_else(|| Tunnels::of(workload, layout)?.senders());
    }
    config
}

/// Sends the packets of an IPv6 host to the same destinations.
fn send_by_nat64(config: &mut GeneratorConfig) {
    let of = |it: Ipv4Addr| siit::Prefix::WELL_KNOWN.embed(it);
    config.source = Ip::V6.source();
    if let IpAddr::V4(destination) = config.destination {
        config.destination = of(destination).into();
    }
    if let Destinations::List4(list) = &config.destinations {
        let list = list.iter().map(|it| of(Ipv4Addr::from_bits(*it)).to_bits());
        config.destinations = Destinations::List6(list.collect());
    }
}

fn add_interface(
    desired: &mut DesiredState,
    layout: &Layout,
    (side, at): (Side, usize),
    interface: Interface,
) {
    let parent = layout.is_tagged().then(|| layout.port_name(side, layout.port_of(at)));
    let interface = Interface { parent, tags: layout.tags(at), ..interface };
    desired.interfaces.insert(layout.name(side, at), interface);
}

/// The settings of an interface that carries packets.
fn interface(layout: &Layout, tables: &[Table], (side, at): (Side, usize)) -> Interface {
    let of = |ip: Ip| {
        let is = tables.iter().any(|table| table.ip == ip);
        let addresses = if is { vec![layout.ours(ip, (side, at))] } else { Vec::new() };
        Family { enabled: is, forwarding: true, addresses, ..Family::default() }
    };
    let vrf = layout.vrf_name(layout.table_of(at));
    Interface { enabled: true, ip4: of(Ip::V4), ip6: of(Ip::V6), vrf, ..Interface::default() }
}

/// The next hops, and where sources are, one neighbour on each receiving interface.
fn add_neighbors(desired: &mut DesiredState, layout: &Layout, table: &Table) {
    let mut add = |on: (Side, usize), address: IpAddr, mac: u64| {
        let [_, _, mac @ ..] = mac.to_be_bytes();
        desired.neighbors.insert((layout.name(on.0, on.1), address), mac);
    };
    for vrf in 0..layout.tables() {
        for hop in 0..layout.next_hops {
            let (at, number) = layout.next_hop(vrf, hop);
            let address = layout.neighbor(table.ip, (Side::Out, at), number);
            let mac = NEXT_HOP_MAC + (vrf * layout.next_hops + hop) as u64;
            add((Side::Out, at), address, mac);
        }
    }
    if table.sources.is_some() {
        for at in 0..layout.interfaces() {
            let address = layout.neighbor(table.ip, (Side::In, at), 0);
            add((Side::In, at), address, SENDER_MAC + at as u64);
        }
    }
}

/// The routes of a table: to destinations through next hops in turn, and back to sources.
fn routes(layout: &Layout, table: &Table, vrf: usize) -> BTreeMap<Prefix, Route> {
    let hops: Vec<Route> =
        (0..layout.next_hops).map(|hop| route(layout, table.ip, (vrf, hop))).collect();
    let spread = hops.iter().cycle().cloned();
    let mut routes: BTreeMap<Prefix, Route> = table.prefixes.iter().copied().zip(spread).collect();
    let back = table.sources.iter().flatten().map(|(prefix, cover)| {
        let at = interface_of(layout, vrf, *cover);
        (*prefix, through(layout, (Side::In, at), layout.neighbor(table.ip, (Side::In, at), 0)))
    });
    routes.extend(back);
    routes
}

/// A route through the next hop with this number.
pub(super) fn route(layout: &Layout, ip: Ip, (vrf, hop): (usize, usize)) -> Route {
    let (at, number) = layout.next_hop(vrf, hop);
    through(layout, (Side::Out, at), layout.neighbor(ip, (Side::Out, at), number))
}

pub(super) fn through(layout: &Layout, (side, at): (Side, usize), next_hop: IpAddr) -> Route {
    let interface = layout.name(side, at);
    let path = Path { interface, next_hop: Some(next_hop), weight: 1 };
    Route { protocol: 1, action: Action::Paths(vec![path]) }
}
