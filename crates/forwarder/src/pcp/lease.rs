//! Leases of mappings, as the server of PCP has them, and as two routers know them ([`crate::flow_sync`]).

use crate::nat::mappings::{End, RemotePeer};

/// An internal end that a policy maps, and of PEER the remote end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The number of the policy.
    pub policy: u32,
    /// The VRF of the internal end, as in keys of flows.
    pub vrf: u16,
    /// Its address.
    pub address: u32,
    /// TCP or UDP.
    pub protocol: u8,
    /// Its port.
    pub port: u16,
    /// Of PEER: address and port of the other end. `None`: a mapping for anybody, or for those that it names.
    pub remote: Option<(u32, u16)>,
}

impl Key {
    /// The internal end.
    pub fn internal(&self) -> End {
        let Self { address, port, protocol, vrf, .. } = *self;
        End { address, port, protocol, vrf }
    }
}

/// Who may change a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Whoever knows the nonce (RFC 6887 section 11.3).
    Nonce([u8; 12]),
    /// The host, by NAT-PMP.
    NatPmp,
}

/// Who has asked for a lease, as two routers know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// A [hash](crate::flow::adoption::head::stable_hash) of the name of the interface.
    pub interface: u64,
    /// The VRF, as in keys of flows.
    pub vrf: u16,
    /// The address.
    pub address: u32,
}

/// What a lease is, with times in ticks of flow tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Who may change it.
    pub holder: Holder,
    /// Who has asked for it first.
    pub origin: Origin,
    /// The external end.
    pub external: End,
    /// When it ends.
    pub end: u32,
    /// When its host has asked for it last, or has ended it.
    pub renewed: u32,
    /// Who may send; none: anybody.
    pub peers: Vec<RemotePeer>,
}
