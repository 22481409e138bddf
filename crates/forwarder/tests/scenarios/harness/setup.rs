//! A builder of desired states. Interface number `n` has 10.0.n.1/24, 2001:db8:n::1/64 and the MAC
//! address [`our_mac`]; the addresses of host `n` behind it end in 2.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_engine::pool::HugePages;
use stoa_engine::worker::Polling;
use stoa_forwarder::control::desired::{
    Action, DesiredState, Family, HostInterface, Interface, Path, Prefix, Route, Rule, RuleAction,
    VirtualRouter, Workers,
};
use stoa_forwarder::kernel::Kernel;
use stoa_forwarder::shared::SpecialNextHop;
use stoa_ports::{Encapsulation, PortConfig, TunnelConfig};
use stoa_wire::vrrp::Version;

use super::wire;

pub fn our4(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, n, 1)
}

pub fn our6(n: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, n.into(), 0, 0, 0, 0, 1)
}

pub fn our_mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, n, 1]
}

pub fn host4(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, n, 2)
}

pub fn host6(n: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, n.into(), 0, 0, 0, 0, 2)
}

pub fn host_mac(n: u8) -> [u8; 6] {
    [2, 0xaa, 0, 0, n, 2]
}

fn connected(length: u8, addresses: &[(IpAddr, u8)]) -> (Vec<(IpAddr, u8)>, Prefix) {
    let first = addresses[0].0;
    let network = match first {
        IpAddr::V4(ip) => IpAddr::V4((u32::from(ip) & u32::MAX << (32 - u32::from(length))).into()),
        IpAddr::V6(ip) => {
            IpAddr::V6((u128::from(ip) & u128::MAX << (128 - u32::from(length))).into())
        }
    };
    (addresses.to_vec(), (network, length))
}

/// The desired state under construction.
#[derive(Clone)]
pub struct Setup(pub DesiredState);

impl Setup {
    /// One worker in interrupt mode, without ports.
    pub fn new() -> Self {
        let workers = Workers {
            polling: Polling::Interrupt,
            buffers: 4096,
            huge_pages: HugePages::Never,
            ..Workers::default()
        };
        Self(DesiredState { workers, ..DesiredState::default() }).workers(1)
    }

    /// The same with this SIMD kernel.
    pub fn new_with(kernel: Kernel) -> Self {
        let mut setup = Self::new();
        setup.0.workers.kernel = kernel;
        setup
    }

    /// Changes the SIMD kernel.
    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.0.workers.kernel = kernel;
        self
    }

    /// Ports "west" (1), "east" (2) and "north" (3), with a static neighbour behind each.
    pub fn three_ports() -> Self {
        let setup = Self::new().port("west", 1).port("east", 2).port("north", 3);
        setup.host("west", 1).host("east", 2).host("north", 3)
    }

    pub fn workers(mut self, count: usize) -> Self {
        self.0.workers.count = count;
        self
    }

    pub fn port(mut self, name: &str, n: u8) -> Self {
        self.0.ports.insert(name.to_owned(), wire::config(name, our_mac(n)));
        self.interface(name, n, None, &[])
    }

    pub fn sub(self, name: &str, n: u8, parent: &str, tags: &[(u16, u16)]) -> Self {
        self.interface(name, n, Some(parent), tags)
    }

    fn interface(mut self, name: &str, n: u8, parent: Option<&str>, tags: &[(u16, u16)]) -> Self {
        let family = |own: IpAddr, length| {
            let (addresses, network) = connected(length, &[(own, length)]);
            let family = Family { enabled: true, forwarding: true, addresses, ..Family::default() };
            (family, network)
        };
        let (ip4, net4) = family(our4(n).into(), 24);
        let (ip6, net6) = family(our6(n).into(), 64);
        let parent = parent.map(str::to_owned);
        let interface = Interface {
            parent,
            tags: tags.to_vec(),
            enabled: true,
            ip4,
            ip6,
            ..Interface::default()
        };
        self.0.interfaces.insert(name.to_owned(), interface);
        self.special_route(our4(n).into(), 32, SpecialNextHop::Local)
            .special_route(our6(n).into(), 128, SpecialNextHop::Local)
            .paths(net4, &[(name, None, 1)])
            .paths(net6, &[(name, None, 1)])
    }

    /// A static neighbour of both families.
    pub fn host(mut self, name: &str, n: u8) -> Self {
        for address in [IpAddr::V4(host4(n)), IpAddr::V6(host6(n))] {
            self.0.neighbors.insert((name.to_owned(), address), host_mac(n));
        }
        self
    }

    pub fn special_route(mut self, address: IpAddr, length: u8, special: SpecialNextHop) -> Self {
        let route = Route { protocol: 0, action: Action::Special(special) };
        self.0.routes.insert((address, length), route);
        self
    }

    pub fn paths(mut self, prefix: Prefix, paths: &[(&str, Option<IpAddr>, u16)]) -> Self {
        let path = |(interface, next_hop, weight): &(&str, Option<IpAddr>, u16)| Path {
            interface: (*interface).to_owned(),
            next_hop: *next_hop,
            weight: *weight,
        };
        let mut paths: Vec<_> = paths.iter().map(path).collect();
        paths.sort();
        self.0.routes.insert(prefix, Route { protocol: 0, action: Action::Paths(paths) });
        self
    }

    /// Creates a VRF and moves interfaces into it, with their connected and local routes.
    pub fn vrf(mut self, vrf: &str, interfaces: &[&str]) -> Self {
        let mut routes = self.0.vrfs.remove(vrf).unwrap_or_default();
        for name in interfaces {
            let interface = self.0.interfaces.get_mut(*name).unwrap();
            vrf.clone_into(&mut interface.vrf);
            let (ip4, ip6) = (&interface.ip4.addresses, &interface.ip6.addresses);
            for (own, length) in ip4.iter().chain(ip6).copied() {
                let (_, network) = connected(length, &[(own, length)]);
                let host = (own, if own.is_ipv4() { 32 } else { 128 });
                for prefix in [network, host] {
                    routes.insert(prefix, self.0.routes.remove(&prefix).unwrap());
                }
            }
        }
        self.0.vrfs.insert(vrf.to_owned(), routes);
        self
    }

    /// A route in a VRF.
    pub fn paths_in(
        mut self,
        vrf: &str,
        prefix: Prefix,
        paths: &[(&str, Option<IpAddr>, u16)],
    ) -> Self {
        let before = self.0.routes.remove(&prefix);
        self = self.paths(prefix, paths);
        let route = self.0.routes.remove(&prefix).unwrap();
        self.0.routes.extend(before.map(|before| (prefix, before)));
        self.0.vrfs.entry(vrf.to_owned()).or_default().insert(prefix, route);
        self
    }

    /// A tunnel as interface `n`.
    pub fn tunnel(
        mut self,
        name: &str,
        n: u8,
        (local, remote): (impl Into<IpAddr>, impl Into<IpAddr>),
        encapsulation: Encapsulation,
    ) -> Self {
        let config = TunnelConfig {
            local: local.into(),
            remote: remote.into(),
            encapsulation,
            hop_limit: 0,
            mtu: 0,
        };
        self.0.ports.insert(name.to_owned(), PortConfig::Tunnel(config));
        self.interface(name, n, None, &[])
    }

    /// A host interface, whose wire has the name of the device.
    pub fn host_interface(self, name: &str, device: &str) -> Self {
        let (netns, device) = (String::new(), device.to_owned());
        self.with(name, |interface| {
            interface.host_interface = Some(HostInterface { netns, device })
        })
    }

    /// Changes an interface.
    pub fn with(mut self, name: &str, change: impl FnOnce(&mut Interface)) -> Self {
        change(self.0.interfaces.get_mut(name).unwrap());
        self
    }
}

/// A rule of the default VRF that matches all packets.
pub fn rule(priority: u32, is_ip4: bool, action: RuleAction) -> Rule {
    Rule {
        vrf: String::new(),
        is_ip4,
        priority,
        from: None,
        to: None,
        interface: String::new(),
        dscp: None,
        ip_protocol: None,
        source_ports: None,
        destination_ports: None,
        action,
        protocol: 1,
    }
}

/// A virtual router that advertises each second.
pub fn virtual_router(vrid: u8, priority: u8, addresses: Vec<IpAddr>) -> VirtualRouter {
    VirtualRouter {
        vrid,
        version: Version::Three,
        priority,
        preempt: true,
        hold_ms: 0,
        accept: false,
        interval_cs: 100,
        addresses,
        tracked: Vec::new(),
        networks: Vec::new(),
        is_logged: true,
    }
}
