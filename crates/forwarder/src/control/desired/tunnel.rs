//! Checks tunnels, and what is configured on them.

use std::net::IpAddr;

use stoa_ports::PortConfig;

use super::held::Held;
use super::{Interface, ValidationErrors};

impl Held {
    fn is_tunnel(&self, name: &str) -> bool {
        matches!(self.desired().ports.get(name), Some(PortConfig::Tunnel(_)))
    }

    /// Tunnels have no neighbours.
    pub(super) fn check_tunnel_neighbor(
        &self,
        (name, address): &(String, IpAddr),
        errors: &mut ValidationErrors,
    ) {
        if self.is_tunnel(name) {
            let cause = format!("is on the tunnel {name:?}");
            let fix = "Remove it: a tunnel has no neighbours.";
            errors.add(format!("neighbor {address}"), cause, fix);
        }
    }

    /// Two tunnels of a VRF differ in their endpoints, and tunnels have no sub-interfaces.
    pub(super) fn check_tunnel(
        &self,
        (name, interface): (&String, &Interface),
        is_first: &dyn Fn(&String, &String) -> bool,
        errors: &mut ValidationErrors,
    ) {
        let mut add = |cause: String, fix| errors.add(format!("interface {name:?}"), cause, fix);
        if let Some(parent) = &interface.parent
            && self.is_tunnel(parent)
        {
            let cause = format!("is a sub-interface of the tunnel {parent:?}");
            add(cause, "Create another tunnel: tunnels carry no VLAN tags.");
        }
        if !self.is_tunnel(name) {
            return;
        }
        if interface.host_interface.is_some() {
            let fix = "Remove the host interface: only Ethernet interfaces have one.";
            add("is a tunnel with a host interface".into(), fix);
        }
        let other = self.references().with_ends_of(self.desired(), name);
        if let Some(other) = other.filter(|other| !is_first(name, other)) {
            let cause = format!("has the same endpoints as the tunnel {other:?}");
            add(cause, "Use another address for one of them, or GRE.");
        }
    }
}

#[cfg(test)]
mod tests {
    use stoa_api::v1;
    use stoa_api::v1::port::Driver;

    use super::super::DesiredState;

    /// A tunnel between two addresses.
    fn tunnel(interface: &str, local: &[u8], remote: &[u8]) -> v1::Port {
        let (local, remote) = (local.to_vec(), remote.to_vec());
        let tunnel = v1::Tunnel { local, remote, ..v1::Tunnel::default() };
        let (interface, driver) = (interface.to_owned(), Some(Driver::Tunnel(tunnel)));
        v1::Port { interface, driver, ..v1::Port::default() }
    }

    fn interface(name: &str) -> v1::Interface {
        v1::Interface { name: name.to_owned(), enabled: true, ..v1::Interface::default() }
    }

    /// The errors of one tunnel, "tun", after `change`.
    fn refused(change: impl FnOnce(&mut v1::Desired)) -> Vec<String> {
        let mut desired = v1::Desired {
            ports: vec![tunnel("tun", &[192, 0, 2, 1], &[192, 0, 2, 2])],
            interfaces: vec![interface("tun")],
            ..v1::Desired::default()
        };
        change(&mut desired);
        let errors = DesiredState::parse(&desired).err().unwrap_or_default();
        errors.into_iter().map(|error| format!("{} {}", error.path, error.cause)).collect()
    }

    #[test]
    fn invalid_endpoints_are_refused() {
        assert!(refused(|_| {}).is_empty());
        let ends = |local: &'static [u8], remote: &'static [u8]| {
            refused(move |desired| desired.ports = vec![tunnel("tun", local, remote)])
        };
        let port = "port \"tun\" is a tunnel";
        assert!(ends(&[192, 0, 2, 1], &[])[0].starts_with(port));
        assert!(ends(&[0; 4], &[192, 0, 2, 2])[0].starts_with(port));
        assert!(ends(&[192, 0, 2, 1], &[224, 0, 0, 5])[0].starts_with(port));
        assert!(ends(&[192, 0, 2, 1], &[192, 0, 2, 1])[0].starts_with(port));
        assert!(ends(&[192, 0, 2, 1], &[0x20; 16])[0].starts_with(port));
    }

    #[test]
    fn invalid_configuration_on_a_tunnel_is_refused() {
        let same_ends = refused(|desired| {
            desired.ports.push(tunnel("tun2", &[192, 0, 2, 1], &[192, 0, 2, 2]));
            desired.interfaces.push(interface("tun2"));
        });
        assert_eq!(same_ends, ["interface \"tun2\" has the same endpoints as the tunnel \"tun\""]);
        let tagged = refused(|desired| {
            let outer = Some(v1::Tag { tpid: 0x8100, vid: 7 });
            let parent = "tun".to_owned();
            desired.interfaces.push(v1::Interface { parent, outer, ..interface("tun.7") });
        });
        assert_eq!(tagged, ["interface \"tun.7\" is a sub-interface of the tunnel \"tun\""]);
        let with_host_interface = refused(|desired| {
            let host_interface = v1::HostInterface { device: "tun".into(), netns: String::new() };
            desired.interfaces[0].host_interface = Some(host_interface);
        });
        assert_eq!(with_host_interface, ["interface \"tun\" is a tunnel with a host interface"]);
        let neighbor = refused(|desired| {
            let (interface, address) = ("tun".to_owned(), vec![192, 0, 2, 9]);
            desired.neighbors.push(v1::Neighbor { interface, address, mac: vec![2; 6] });
        });
        assert_eq!(neighbor, ["neighbor 192.0.2.9 is on the tunnel \"tun\""]);
    }
}
