//! The forwarder state for a workload: two ports, a table, neighbours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_engine::worker::Polling;
use stoa_forwarder::control::Limits;
use stoa_forwarder::control::desired::{
    Action, DesiredState, Family, Interface, Path, Route, Workers,
};
use stoa_ports::{GeneratorConfig, NullConfig, PortConfig};

use super::targets::Table;
use super::{FCS, Ip, Workload};

/// The VLAN of all frames when they are tagged.
const VLAN: u16 = 100;
/// The tag's protocol (IEEE 802.1Q).
const TPID: u16 = 0x8100;
/// Table capacity beyond the measured routes: neighbours have host routes.
const SPARE: usize = 1 << 15;
/// The MAC address of the first neighbour; the others are consecutive.
const GATEWAY_MAC: u64 = 0x0200_0000_0002;

impl Ip {
    /// The neighbour with this number.
    fn gateway(self, at: u32) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::from(0xc613_0002 + at)),
            Self::V6 => {
                let first = Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 2);
                IpAddr::V6(Ipv6Addr::from(u128::from(first) + u128::from(at)))
            }
        }
    }

    /// The source address.
    pub(super) fn source(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2)),
            Self::V6 => IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2)),
        }
    }

    /// The router's addresses on both sides, for benchmarks by RFC 2544 C.2.2 and RFC 5180 8.
    fn ours(self, side: u16) -> (IpAddr, u8) {
        match self {
            Self::V4 => (IpAddr::from([198, 18 + side as u8, 0, 1]), 16),
            Self::V6 => (IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, side, 0, 0, 0, 1)), 64),
        }
    }
}

/// The desired state, with these prefixes in the tables.
pub(super) fn desired(workload: &Workload, tables: &[Table]) -> DesiredState {
    let mut desired = DesiredState {
        workers: Workers {
            count: workload.workers,
            cpus: workload.cpus.clone(),
            polling: Polling::Always,
            buffers: 16_384 * workload.workers as u32,
            kernel: workload.kernel,
            ..Workers::default()
        },
        ..DesiredState::default()
    };
    let usual = Limits::default();
    let room = tables.iter().map(|table| table.prefixes.len() + SPARE).max().unwrap_or(0);
    desired.limits.routes4 = usual.routes4.max(room);
    desired.limits.routes6 = usual.routes6.max(room);
    let generator = PortConfig::Generator(generator(workload, tables));
    let null = NullConfig { tx_queues: workload.workers as u16, ..NullConfig::default() };
    for (side, port) in [generator, PortConfig::Null(null)].into_iter().enumerate() {
        let name = ["in", "out"][side].to_owned();
        let routed = interface(tables, side as u16);
        if workload.is_tagged {
            let below = Interface { enabled: true, ..Interface::default() };
            desired.interfaces.insert(name.clone(), below);
            let (parent, tags) = (Some(name.clone()), vec![(TPID, VLAN)]);
            let tagged = Interface { parent, tags, ..routed };
            desired.interfaces.insert(format!("{name}.{VLAN}"), tagged);
        } else {
            desired.interfaces.insert(name.clone(), routed);
        }
        desired.ports.insert(name, port);
    }
    for table in tables {
        let mut routes = Vec::new();
        for at in 0..workload.next_hops {
            let mac: [u8; 8] = (GATEWAY_MAC + u64::from(at)).to_be_bytes();
            let mac = [mac[2], mac[3], mac[4], mac[5], mac[6], mac[7]];
            let gateway = table.ip.gateway(at);
            desired.neighbors.insert((way_out(workload), gateway), mac);
            routes.push(route(workload, table.ip, at));
        }
        let spread = routes.iter().cycle();
        desired.routes.extend(
            table.prefixes.iter().zip(spread).map(|(prefix, route)| (*prefix, route.clone())),
        );
    }
    desired
}

/// The interface that packets leave on.
fn way_out(workload: &Workload) -> String {
    if workload.is_tagged { format!("out.{VLAN}") } else { "out".to_owned() }
}

/// A route through the neighbour with this number.
pub(super) fn route(workload: &Workload, ip: Ip, at: u32) -> Route {
    let (interface, next_hop) = (way_out(workload), Some(ip.gateway(at)));
    Route { protocol: 1, action: Action::Paths(vec![Path { interface, next_hop, weight: 1 }]) }
}

fn interface(tables: &[Table], side: u16) -> Interface {
    let of = |ip: Ip| {
        let is = tables.iter().any(|table| table.ip == ip);
        let addresses = if is { vec![ip.ours(side)] } else { Vec::new() };
        Family { enabled: is, forwarding: true, addresses, ..Family::default() }
    };
    Interface { enabled: true, ip4: of(Ip::V4), ip6: of(Ip::V6), ..Interface::default() }
}

fn generator(workload: &Workload, tables: &[Table]) -> GeneratorConfig {
    let mut config = GeneratorConfig {
        frame: workload.frame - FCS,
        queues: workload.workers as u16,
        flows: workload.flows,
        vlan: if workload.is_tagged { VLAN } else { 0 },
        ..GeneratorConfig::default()
    };
    if let Some(mix) = workload.mix {
        config.mix = Some(mix.packets(workload, tables));
    } else if let Some(table) = tables.first() {
        config.source = table.ip.source();
        config.destination = table.ip.gateway(0);
        config.destinations = table.destinations(workload);
    }
    config
}
