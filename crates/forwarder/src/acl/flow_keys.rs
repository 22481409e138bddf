//! From the columns of fields to the keys of flows, of both families.

use std::net::{Ipv4Addr, Ipv6Addr};

use stoa_engine::quiescence::Reader;
use stoa_engine::vector::Fields;
use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{Columns4, Columns6, FlowKey, FlowReader, Match, Tuple};

use super::keys::{Ip4, Ip6};
use crate::flow::fields::Kind;
use crate::shared::Shared;

/// What differs between the families.
pub trait FlowKeys {
    /// Looks up the flows of all lanes; `ports` and `contexts` are columns of keys.
    fn look_up_flows(
        reader: &FlowReader,
        fields: &Fields,
        keys: (&[u32], &[u32]),
        found: &mut [Match],
    );
    /// The key of a lane in a VRF.
    fn flow_key(fields: &Fields, lane: usize, vrf: u16) -> FlowKey;
}

/// A VRF in keys: the bits of its slot, and the lower ones of how often that was used. 256 VRFs fit.
#[inline(always)]
pub(crate) const fn flow_vrf(vrf: u32) -> u16 {
    (vrf >> 4) as u16 & 0xff00 | vrf as u16 & 0xff
}

/// Whether a packet is from an address of the router in a VRF, or to one.
pub(super) fn is_of_router(shared: &Shared, at: (u32, &Reader), key: &FlowKey) -> bool {
    match &key.tuple {
        Tuple::Ip4(it) => [it.source, it.destination]
            .into_iter()
            .any(|end| shared.is_local4(at, Ipv4Addr::from_bits(end))),
        Tuple::Ip6(it) => [it.source, it.destination]
            .into_iter()
            .any(|end| shared.is_local6(at, Ipv6Addr::from_bits(end))),
    }
}

/// Whether the packet becomes one of the other family. With NAT64 its flow is that of NAT44, and answers come to that
/// one. With SIIT answers have the other family where they are received.
pub(super) fn changes_family(
    shared: &Shared,
    (vrf, reader): (u32, &Reader),
    key: &FlowKey,
) -> bool {
    let nat64 = shared.nat64.read(reader);
    matches!(&key.tuple, Tuple::Ip6(it) if nat64.translates(vrf, it.destination))
        || shared.siit.read(reader).translates(vrf, &key.tuple)
}

/// A key with these addresses.
fn flow<K>(fields: &Fields, lane: usize, [source, destination]: [K; 2]) -> Flow<K> {
    let kind = Kind(fields.kind[lane]);
    let ports = kind.flow_ports(fields.ports[lane]);
    let (source_port, destination_port) = ((ports >> 16) as u16, ports as u16);
    Flow { source, destination, source_port, destination_port, protocol: kind.protocol() }
}

/// An IPv6 address of words, the most significant first.
fn wide(words: &[stoa_engine::vector::Column<u32>; 4], lane: usize) -> u128 {
    words.iter().fold(0, |all, word| all << 32 | u128::from(word[lane]))
}

impl FlowKeys for Ip4 {
    #[inline]
    fn look_up_flows(
        reader: &FlowReader,
        fields: &Fields,
        (ports, contexts): (&[u32], &[u32]),
        found: &mut [Match],
    ) {
        let lanes = found.len();
        let [sources, destinations] =
            [&fields.source, &fields.destination].map(|it| &it[0][..lanes]);
        reader.lookup_ip4(&Columns4 { sources, destinations, ports, contexts }, found);
    }

    fn flow_key(fields: &Fields, lane: usize, vrf: u16) -> FlowKey {
        let ends = [fields.source[0][lane], fields.destination[0][lane]];
        FlowKey::ip4(flow(fields, lane, ends), vrf)
    }
}

impl FlowKeys for Ip6 {
    #[inline]
    fn look_up_flows(
        reader: &FlowReader,
        fields: &Fields,
        (ports, contexts): (&[u32], &[u32]),
        found: &mut [Match],
    ) {
        let lanes = found.len();
        // Keys have the lowest word first.
        let [sources, destinations] = [&fields.source, &fields.destination]
            .map(|it| [&it[3][..lanes], &it[2][..lanes], &it[1][..lanes], &it[0][..lanes]]);
        reader.lookup_ip6(&Columns6 { sources, destinations, ports, contexts }, found);
    }

    fn flow_key(fields: &Fields, lane: usize, vrf: u16) -> FlowKey {
        let ends = [wide(&fields.source, lane), wide(&fields.destination, lane)];
        FlowKey::ip6(flow(fields, lane, ends), vrf)
    }
}
