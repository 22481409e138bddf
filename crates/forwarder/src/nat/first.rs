//! Packets without a translated flow.

use stoa_tables::flow_hash::{Flow, mix};
use stoa_tables::flow_table::{FlowKey, Tuple};
use stoa_wire::protocol::{ICMP4, TCP};
use stoa_wire::tcp::flag;

use super::choice;
use super::mappings::End;
use super::rewrite;
use crate::drops::Drop;
use crate::flow::tcp::Direction;
use crate::flow::tracker::{Seen, fits};

/// A packet without a translated flow.
#[derive(Clone, Copy)]
pub(super) struct First<'a> {
    pub(super) packet: Seen<'a>,
    /// Its key in the VRF of the receiving interface.
    pub(super) key: FlowKey,
    /// The column `ports` of it.
    pub(super) ports: u32,
    /// Its flow that rules have admitted, of this worker.
    pub(super) untranslated: Option<u32>,
    /// The interface that has received it.
    pub(super) received: u32,
}

impl First<'_> {
    pub(super) fn flow(&self) -> Flow<u32> {
        match self.key.tuple {
            Tuple::Ip4(flow) => flow,
            Tuple::Ip6(_) => {
                Flow { source: 0, destination: 0, source_port: 0, destination_port: 0, protocol: 0 }
            }
        }
    }

    pub(super) fn internal(&self) -> End {
        let Flow { source, source_port, protocol, .. } = self.flow();
        End { address: source, port: source_port, protocol, vrf: self.key.vrf }
    }

    /// The hash by which it gets one of several hosts: of its connection, or of its source alone.
    pub(super) fn hash(&self, is_by_source: bool) -> u32 {
        let Flow { source, source_port, destination, destination_port, protocol } = self.flow();
        let of_source = choice::hash(source, self.key.vrf);
        if is_by_source {
            return of_source;
        }
        let ports = u32::from(source_port) << 16 | u32::from(destination_port);
        mix(mix(of_source ^ ports) ^ destination.wrapping_add(protocol.into()))
    }

    /// Whether it has a flow already, or is no segment in the middle of a connection.
    pub(super) fn may_begin(&self) -> bool {
        let is_tcp = self.packet.kind.protocol() == TCP;
        let flags = self.packet.kind.tcp_flags() & (flag::SYN | flag::ACK | flag::RST);
        self.untranslated.is_some() || !is_tcp || flags == flag::SYN
    }

    /// Whether it can begin a flow.
    pub(super) fn begins_flow(&self) -> Result<(), Drop> {
        if rewrite::is_authenticated(self.packet.bytes) {
            // Its receiver would discard it: the authentication header covers addresses (RFC 3715 section 2.1).
            return Err(Drop::Nat44Malformed);
        }
        if fits(self.packet.kind, self.ports, Direction::Original) {
            return Ok(());
        }
        let is_icmp = self.packet.kind.protocol() == ICMP4;
        Err(if is_icmp { Drop::Nat44Icmp } else { Drop::Nat44Malformed })
    }
}
