//! Neighbours on the control thread: packets from workers, the timers of the cache, adjacencies.

mod adjacencies;
mod dad;
mod receive;
mod replacement;
mod resolve;

use std::net::IpAddr;

use super::desired::network;
use super::forwarder_state::ForwarderState;
use crate::neighbor::entry::Key;

pub(super) use dad::DadEntry;

impl ForwarderState {
    pub(in crate::control) fn is_on_link(&self, interface: u32, address: IpAddr) -> bool {
        let Some(state) = self.interface(interface) else { return false };
        let family = if address.is_ipv4() { &state.desired.ip4 } else { &state.desired.ip6 };
        let is_local = matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let covers =
            |(own, length): &(IpAddr, u8)| network(*own, *length) == network(address, *length);
        is_local
            || family.addresses.iter().any(covers)
            || self.cache.get(&(interface, address)).is_some_and(|entry| entry.pins > 0)
            || self.leads_to_link(interface, address)
    }

    fn is_ours(&self, interface: u32, address: IpAddr) -> bool {
        let Some(own) = self.addresses.of(interface) else { return false };
        match address {
            IpAddr::V4(ip) => own.ip4.iter().any(|(address, _)| *address == ip),
            IpAddr::V6(ip) => {
                own.link_local == Some(ip) || own.ip6.iter().any(|(address, _)| *address == ip)
            }
        }
    }

    /// Our address on the neighbour's network: the source of solicitations.
    fn source_for(&self, key: Key) -> Option<IpAddr> {
        let own = self.addresses.of(key.0)?;
        match key.1 {
            IpAddr::V4(ip) => {
                let same = |(address, length): &&(std::net::Ipv4Addr, u8)| {
                    network((*address).into(), *length) == network(ip.into(), *length)
                };
                own.ip4.iter().find(same).or(own.ip4.first()).map(|(address, _)| (*address).into())
            }
            IpAddr::V6(ip) => {
                let same = |(address, length): &&(std::net::Ipv6Addr, u8)| {
                    network((*address).into(), *length) == network(ip.into(), *length)
                };
                let global = own.ip6.iter().find(same).map(|(address, _)| *address);
                global.or(own.link_local).map(IpAddr::V6)
            }
        }
    }
}
