//! Hosts for listings, logs and export: to look at them counts as no packet of theirs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::PoisonError;

use stoa_wire::siit::Prefix;

use super::{Hosts, WAYS, named};
use crate::flow::selection::VRF_SLOT;

impl Hosts {
    /// The stand-in of a host for listings: it does not count as a packet.
    pub fn known(&self, host: (u128, u16)) -> Option<u32> {
        let (first, tag) = self.set(host);
        let way =
            self.hosts.get(first..first + WAYS)?.iter().position(|it| it.read() == Some(host))?;
        Some(named(first + way, tag))
    }

    /// The host behind a stand-in, with its VRF, for listings: it does not count as a packet.
    pub fn known_host(&self, address: u32) -> Option<(u128, u16)> {
        self.at(address)?.read()
    }

    /// An address for listings: that of the IPv6 host if it is a stand-in.
    pub fn shown(&self, address: u32) -> IpAddr {
        let host = self.known_host(address).map(|it| Ipv6Addr::from_bits(it.0).into());
        host.unwrap_or(Ipv4Addr::from_bits(address).into())
    }

    /// The same in bytes.
    pub fn octets(&self, address: u32) -> Vec<u8> {
        match self.shown(address) {
            IpAddr::V4(it) => it.octets().into(),
            IpAddr::V6(it) => it.octets().into(),
        }
    }

    /// The host behind a stand-in, and an IPv4 address as this host sees it.
    pub fn ends(&self, stand_in: u32, other: u32) -> Option<[u128; 2]> {
        let (host, vrf) = self.known_host(stand_in)?;
        Some([host, self.prefix(vrf)?.embed(Ipv4Addr::from_bits(other)).to_bits()])
    }

    /// The last prefix of a VRF, as in keys of flows.
    pub(crate) fn prefix(&self, vrf: u16) -> Option<Prefix> {
        let prefixes = self.prefixes.lock().unwrap_or_else(PoisonError::into_inner);
        prefixes.get(&(vrf & VRF_SLOT)).copied()
    }

    /// Takes prefixes by VRF for [`Self::ends`]. One that has gone is that of the flows that it leaves.
    pub fn set_prefixes(&self, prefixes: impl Iterator<Item = (u16, Prefix)>) {
        let mut all = self.prefixes.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(prefixes.map(|(vrf, prefix)| (vrf & VRF_SLOT, prefix)));
    }
}
