//! GRE tunnels of a workload: routes lead into them, or packets come through them.
//!
//! All tunnels begin at the router's address on the port where their outer packets are, and end at
//! addresses of one network, which is routed to the first neighbour there.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::sync::Arc;

use stoa_forwarder::control::desired::{Action, DesiredState, Interface, Path, Route};
use stoa_forwarder::shared::SpecialNextHop;
use stoa_ports::{Encapsulation, GreTunnels, PortConfig, Senders, TunnelConfig};

use super::layout::{Layout, Side};
use super::targets::Prefix;
use super::{Ip, Workload};
use crate::random::Random;

/// The network of the remote ends.
const REMOTES: u32 = 0x0a80_0000;
/// Its prefix length.
const LENGTH: u8 = 16;
/// The most tunnels: as many as the network has addresses.
pub const TUNNELS_MAX: u32 = 1 << (32 - LENGTH);
/// The longest frame, FCS included, that fits the MTU of a tunnel: 24 bytes less than without.
const FRAME_MOST: u16 = 1518 - 24;
/// Outer sources until they repeat, at least.
const TURNS: usize = 1 << 16;

/// Which way packets take the tunnels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Packets are routed into tunnels.
    #[default]
    Encapsulate,
    /// Packets come through tunnels.
    Decapsulate,
}

impl FromStr for Direction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "encapsulate" => Ok(Self::Encapsulate),
            "decapsulate" => Ok(Self::Decapsulate),
            _ => Err("give encapsulate or decapsulate".to_owned()),
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Encapsulate => "encapsulate",
            Self::Decapsulate => "decapsulate",
        })
    }
}

/// Rejects a workload with tunnels that do not fit the rest of it.
pub(super) fn check(workload: &Workload) -> Result<(), String> {
    let count = workload.tunnels;
    if count == 0 {
        return Ok(());
    }
    let is_plain = workload.ports == 1
        && !Layout::new(workload).is_tagged()
        && workload.mix.is_none()
        && workload.update_rate == 0
        && !workload.has_random_sources();
    if !is_plain {
        return Err(
            "--tunnels needs one port, and neither VLANs, VRFs, a mix, random sources nor \
             route changes: leave these options out"
                .to_owned(),
        );
    }
    if workload.frame > FRAME_MOST {
        return Err(format!("{} bytes of a frame: give at most {FRAME_MOST}", workload.frame));
    }
    let lacks_routes = workload.prefixes.is_empty() && workload.routes < count;
    if workload.direction == Direction::Encapsulate && lacks_routes {
        return Err(format!(
            "{count} tunnels for {} routes: give --routes {count} or more",
            workload.routes
        ));
    }
    Ok(())
}

/// The tunnels of a workload.
pub(super) struct Tunnels<'a> {
    layout: &'a Layout,
    count: u32,
    direction: Direction,
}

impl<'a> Tunnels<'a> {
    /// The tunnels of `workload`; `None`: it has none.
    pub(super) fn of(workload: &Workload, layout: &'a Layout) -> Option<Self> {
        let (count, direction) = (workload.tunnels, workload.direction);
        (count > 0).then_some(Self { layout, count, direction })
    }

    /// The interface with the outer packets.
    fn outside(&self) -> (Side, usize) {
        match self.direction {
            Direction::Encapsulate => (Side::Out, 0),
            Direction::Decapsulate => (Side::In, 0),
        }
    }

    fn name(at: u32) -> String {
        format!("gre{}", at + 1)
    }

    /// Adds the tunnels, and the route to their ends. `plain` has the settings of an interface that
    /// carries packets.
    pub(super) fn add(&self, desired: &mut DesiredState, plain: Interface) {
        let outside = self.outside();
        let mut plain = plain;
        for family in [&mut plain.ip4, &mut plain.ip6] {
            family.addresses.clear();
        }
        let (local, _) = self.layout.ours(Ip::V4, outside);
        for at in 0..self.count {
            let config = TunnelConfig {
                local,
                remote: Ipv4Addr::from_bits(REMOTES + at).into(),
                encapsulation: Encapsulation::Gre,
                hop_limit: 0,
                mtu: 0,
            };
            desired.interfaces.insert(Self::name(at), plain.clone());
            desired.ports.insert(Self::name(at), PortConfig::Tunnel(config));
        }
        let next_hop = self.layout.neighbor(Ip::V4, outside, 0);
        let on = self.layout.name(outside.0, outside.1);
        let path = Path { interface: on, next_hop: Some(next_hop), weight: 1 };
        let route = Route { protocol: 1, action: Action::Paths(vec![path]) };
        desired.routes.insert((Ipv4Addr::from_bits(REMOTES).into(), LENGTH), route);
        let local_route = Action::Special(SpecialNextHop::Local);
        desired.routes.insert((local, 32), Route { protocol: 1, action: local_route });
    }

    /// The neighbour that the ends are behind, and its interface.
    pub(super) fn neighbor(&self) -> ((Side, usize), IpAddr) {
        (self.outside(), self.layout.neighbor(Ip::V4, self.outside(), 0))
    }

    /// The routes to `prefixes`, through the tunnels in turn; `None`: they do not lead into them.
    pub(super) fn routes(&self, prefixes: &[Prefix]) -> Option<BTreeMap<Prefix, Route>> {
        if self.direction == Direction::Decapsulate {
            return None;
        }
        let through = |(prefix, at): (&Prefix, u32)| {
            // Without a gateway, the last address of a prefix would be a broadcast.
            let ip = if prefix.0.is_ipv4() { Ip::V4 } else { Ip::V6 };
            let gateway = self.layout.neighbor(ip, self.outside(), 0);
            let path = Path { interface: Self::name(at), next_hop: Some(gateway), weight: 1 };
            (*prefix, Route { protocol: 1, action: Action::Paths(vec![path]) })
        };
        Some(prefixes.iter().zip((0..self.count).cycle()).map(through).collect())
    }

    /// The senders of packets that come through the tunnels, each as often as the others, in random
    /// order; `None`: they do not.
    pub(super) fn senders(&self) -> Option<Arc<Senders>> {
        if self.direction == Direction::Encapsulate {
            return None;
        }
        let (IpAddr::V4(local), _) = self.layout.ours(Ip::V4, self.outside()) else { return None };
        let rounds = TURNS.div_ceil(self.count as usize);
        let mut sources: Vec<u32> =
            (0..rounds).flat_map(|_| (0..self.count).map(|at| REMOTES + at)).collect();
        Random::new(0x6e11).shuffle(&mut sources);
        let vlans = vec![[0; 2]; sources.len()];
        let tunnels = GreTunnels { sources, destination: local.to_bits() };
        Some(Arc::new(Senders { vlans, tunnels: Some(tunnels), ..Senders::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::workload::tests::workload;
    use crate::forward::{Visits, step};

    #[test]
    fn all_packets_take_a_tunnel() {
        for direction in [Direction::Encapsulate, Direction::Decapsulate] {
            assert_eq!(direction.to_string().parse(), Ok(direction));
            for (ip, frame) in [(Ip::V4, 64), (Ip::V6, 78)] {
                let workload = Workload {
                    tunnels: 300,
                    direction,
                    routes: 300,
                    visits: Visits::Random,
                    ip,
                    frame,
                    ..workload()
                };
                let counts = step(&workload, 4).unwrap();
                let node = |name: &str| {
                    let node = counts.nodes.iter().find(|node| node.name == name);
                    node.map_or(0, |node| node.packets)
                };
                let (taken, other) = match direction {
                    Direction::Encapsulate => (node("tunnel-output"), node("tunnel-input")),
                    Direction::Decapsulate => (node("tunnel-input"), node("tunnel-output")),
                };
                assert_eq!((taken, other), (4 * 256, 0), "{counts:?}");
                assert!(counts.packets >= 4 * 256, "{counts:?}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_tunnels_is_refused() {
        let with = Workload { tunnels: 10, routes: 10, ..workload() };
        let refused = |workload: &Workload| check(workload).err().unwrap_or_default();
        assert_eq!(refused(&with), "");
        let few = Workload { routes: 9, ..with.clone() };
        assert!(refused(&few).contains("give --routes 10"));
        assert_eq!(refused(&Workload { direction: Direction::Decapsulate, ..few }), "");
        assert!(refused(&Workload { ports: 2, ..with.clone() }).contains("one port"));
        assert!(refused(&Workload { frame: 1495, ..with }).contains("at most 1494"));
        assert!("in".parse::<Direction>().is_err());
    }
}
