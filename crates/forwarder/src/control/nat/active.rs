//! Policies and static mappings in force.

use std::collections::BTreeMap;
use std::sync::Arc;

use stoa_wire::protocol::UDP;

use crate::control::desired::{NatBackend, NatMapping, NatPolicy, NatRemote};
use crate::nat::backends::Backend;
use crate::nat::quotas::Quota;
use crate::nat::statics::{Remote, Static};
use crate::nat::{Allocation, Counts, Prefix4};
use crate::protocols::udp_ports;

/// A policy in force.
#[derive(Clone, Debug)]
pub(super) struct ActivePolicy {
    pub(super) policy: NatPolicy,
    /// The index of its interface, and the VRF of that.
    pub(super) interface: u32,
    pub(super) vrf: u16,
    /// The primary address of its interface, if it has no pools.
    pub(super) address: Option<u32>,
    pub(super) number: u32,
    pub(super) counts: Arc<Counts>,
    pub(super) allocation: Allocation,
    /// Its number among the counters of quotas.
    pub(super) quota: u8,
}

impl ActivePolicy {
    /// Whether its flows go on by another one.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.interface, self.vrf, self.address) == (other.interface, other.vrf, other.address)
            && self.policy.is_same_translation(&other.policy)
    }

    /// What a source may have, where blocks do not say so.
    pub(super) fn quota(&self) -> Option<Quota> {
        let ports = self.policy.quotas;
        (ports != [None; 4]).then_some(Quota { policy: self.quota, ports })
    }

    /// Ports of its external addresses at which the router listens, with their VRF: those that the controller knows,
    /// and at its own address those of protocols that the forwarder has.
    pub(super) fn own_ports(&self) -> impl Iterator<Item = (u16, u32, u8, u16)> {
        let known = self.policy.own_ports.iter().copied();
        let udp =
            self.address.into_iter().flat_map(|own| udp_ports().map(move |it| (own, UDP, it)));
        known.chain(udp).map(|(address, protocol, port)| (self.vrf, address, protocol, port))
    }

    pub(super) fn pools(&self) -> Vec<Prefix4> {
        let own = self.address.map(|network| Prefix4 { network, length: 32 });
        self.policy.pools.iter().copied().chain(own).collect()
    }
}

/// A static mapping in force.
#[derive(Clone, Debug)]
pub(super) struct ActiveMapping {
    pub(super) mapping: NatMapping,
    pub(super) vrf: u16,
    pub(super) internal_vrf: u16,
    pub(super) number: u32,
    /// The numbers of its backends.
    pub(super) backends: Vec<u32>,
}

impl ActiveMapping {
    /// As workers need it.
    pub(super) fn compiled(&self) -> Static {
        let NatMapping { ports, .. } = self.mapping;
        let backends = self.mapping.backends.iter().zip(&self.backends);
        let backend = |(it, number): (&NatBackend, &u32)| {
            let NatBackend { address, first_port, weight } = *it;
            Backend { number: *number, address, first_port, weight }
        };
        let remote =
            self.mapping.remote.map(|NatRemote { addresses, ports }| Remote { addresses, ports });
        Static {
            number: self.number,
            instance: self.mapping.instance,
            vrf: self.vrf,
            internal_vrf: self.internal_vrf,
            protocol: self.mapping.protocol,
            internal: self.mapping.internal,
            external: self.mapping.external,
            ports,
            backends: backends.map(backend).collect(),
            is_by_source: self.mapping.is_by_source,
            remote,
        }
    }

    /// Its own number, and those of its backends.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        [self.number].into_iter().chain(self.backends.iter().copied())
    }

    /// Takes over numbers of its predecessor, so that flows go on; the others are 0.
    pub(super) fn follow(&mut self, former: &Self) {
        let vrfs = |it: &Self| (it.vrf, it.internal_vrf);
        if vrfs(self) != vrfs(former) {
            return;
        }
        if self.mapping == former.mapping {
            self.number = former.number;
        }
        if self.mapping == former.mapping || self.mapping.is_same_service(&former.mapping) {
            let known = former.mapping.backends.iter().zip(&former.backends);
            let known: BTreeMap<(u32, u16), u32> =
                known.map(|(it, number)| ((it.address, it.first_port), *number)).collect();
            for (it, number) in self.mapping.backends.iter().zip(&mut self.backends) {
                *number = known.get(&(it.address, it.first_port)).copied().unwrap_or(0);
            }
        }
    }
}
