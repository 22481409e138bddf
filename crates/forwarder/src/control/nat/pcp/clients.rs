//! Who may ask, and for whom: hosts behind interfaces of a policy, as the routes have them. The address of a request
//! proves nothing: without its route, any host could open ports of any other one.

use std::net::{Ipv4Addr, Ipv6Addr};

use stoa_wire::pcp::ResultCode;

use super::leases::Asker;
use crate::control::desired::PortControl;
use crate::control::forwarder_state::ForwarderState;
use crate::nat::Policy;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) interface: u32,
    /// As in keys of flows.
    pub(super) vrf: u16,
    pub(super) address: Ipv4Addr,
    pub(super) port: u16,
    /// The address of the router that it has asked.
    pub(super) server: Ipv4Addr,
}

impl Client {
    /// Where it is.
    pub(super) fn place(self) -> Asker {
        Asker { interface: self.interface, vrf: self.vrf, address: self.address.to_bits() }
    }
}

/// The policy that maps a host, and what it gives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    /// The number of the policy.
    pub(super) number: u32,
    pub(super) has_nat_pmp: bool,
    pub(super) allows_third_party: bool,
    /// Seconds of a lease, at least and at most.
    pub(super) lifetimes_s: (u32, u32),
    /// Leases of a host, at most.
    pub(super) host_leases: u32,
}

impl Server {
    fn new(number: u32, control: &PortControl) -> Self {
        let PortControl { has_nat_pmp, allows_third_party, lifetimes_s, host_leases, .. } =
            *control;
        Self { number, has_nat_pmp, allows_third_party, lifetimes_s, host_leases }
    }
}

impl ForwarderState {
    /// Whether a client is behind the interface that has received its request: a route to its address leaves there.
    pub(super) fn is_behind(&self, client: Client) -> bool {
        self.reaches(client, client.address, |interface| interface == client.interface)
    }

    /// Whether the route to an address in the VRF of a client leaves by such an interface. Nobody behind an external
    /// interface may ask.
    fn reaches(&self, client: Client, to: Ipv4Addr, is_meant: impl Fn(u32) -> bool) -> bool {
        let slot = self.interface(client.interface).map(|it| it.vrf);
        let Some((ip4, _)) = slot.and_then(|slot| self.fib.tables(slot)) else { return false };
        let is_inside = |it: &u32| !self.capabilities.nat.external.contains(it);
        // Neither the router's own addresses nor blackholes have an adjacency.
        let adjacencies = self.shared.next_hops.adjacencies(ip4.lookup(to.into()));
        let heads = adjacencies.filter_map(|it| Some(self.shared.adjacencies.get(it)?.head()));
        heads.map(|it| it.interface()).filter(is_inside).any(is_meant)
    }

    /// The policy that gives a host mappings: the first that answers at the interface, and translates the host.
    pub(super) fn pcp_server(&self, interface: u32, address: Ipv4Addr) -> Option<Server> {
        let nat = self.capabilities.nat.published.as_ref()?;
        let mut servers = self.servers_at(interface);
        let translates = |it: &Policy| it.has_subscriber(address.to_bits());
        servers.find(|it| nat.policy(it.number).is_some_and(translates))
    }

    /// Whether some policy answers NAT-PMP at an interface.
    pub(super) fn has_nat_pmp_at(&self, interface: u32) -> bool {
        self.servers_at(interface).any(|it| it.has_nat_pmp)
    }

    fn servers_at(&self, interface: u32) -> impl Iterator<Item = Server> {
        let name = self.interface(interface).map(|it| &it.name);
        self.capabilities.nat.policies.iter().filter_map(move |it| {
            let control = it.policy.port_control.as_ref()?;
            control.interfaces.contains(name?).then(|| Server::new(it.number, control))
        })
    }

    /// The host for which a client asks: one that could ask by itself.
    ///
    /// # Errors
    /// [`ResultCode::MalformedRequest`]: the client itself (RFC 6887 section 13.1), or no address of a host.
    /// [`ResultCode::NotAuthorized`]: an address of the router, an external one, or one that is behind no interface of
    /// the policy.
    pub(super) fn third_party(
        &self,
        (client, server): (Client, Server),
        other: Ipv6Addr,
    ) -> Result<Ipv4Addr, ResultCode> {
        let other = other.to_ipv4_mapped().filter(|it| is_host(*it) && *it != client.address);
        let other = other.ok_or(ResultCode::MalformedRequest)?;
        let mut policies = self.capabilities.nat.policies.iter();
        let policy = policies.find(|it| it.number == server.number);
        let control = policy.and_then(|it| it.policy.port_control.as_ref());
        let is_listed = |interface| {
            let name = self.interface(interface).map(|it| &it.name);
            control.zip(name).is_some_and(|(control, name)| control.interfaces.contains(name))
        };
        let may_be = !self.is_external(client.vrf, other) && self.reaches(client, other, is_listed);
        may_be.then_some(other).ok_or(ResultCode::NotAuthorized)
    }
}

/// Whether an address may be one of a host.
pub(super) fn is_host(address: Ipv4Addr) -> bool {
    let [first, ..] = address.octets();
    !matches!(first, 0 | 127 | 224..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_hosts_are_unicast() {
        for no in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [240, 0, 0, 1], [255; 4]] {
            assert!(!is_host(no.into()), "{no:?}");
        }
        for yes in [[1, 0, 0, 1], [10, 0, 0, 1], [126, 0, 0, 1], [223, 255, 255, 254]] {
            assert!(is_host(yes.into()), "{yes:?}");
        }
    }
}
