//! `ip4-reassembly`: reassembles fragments for local addresses and sends the packets back to
//! `ip4-local` (RFC 791 3.2, RFC 1122 3.3.2).

use std::sync::Arc;

use stoa_engine::{Node, Packet};
use stoa_wire::{checksum, ipv4, protocol};

use super::FragmentView;
use super::node::{Family, Reassembly};
use super::table::{Key, zone};
use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::shared::Shared;

/// Next nodes.
pub const EDGES: &[&str] = &["ip4-local", "icmp4-error"];

/// The minimum TCP header in a first fragment: ports, sequence numbers and flags (RFC 1858).
const TCP_LEAST: usize = 16;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Reassembly::<Ip4>::boxed(shared)
}

struct Ip4;

impl Family for Ip4 {
    const IS_IP4: bool = true;

    fn parse(bytes: &[u8], (rx_if, vrf): (u32, u32)) -> Result<FragmentView<'_>, Drop> {
        let view = ipv4::check(bytes).map_err(|_| Drop::Ip4Truncated)?;
        let header = view.header();
        let (offset, more, data) =
            (header.fragment_offset(), header.more_fragments(), view.payload());
        // RFC 1858 3, RFC 3128 2: a TCP header in two fragments is an attempt to evade filters.
        let splits = offset == 8 || (offset == 0 && data.len() < TCP_LEAST);
        if header.protocol == protocol::TCP && splits {
            return Err(Drop::FragmentTiny);
        }
        let key = Key {
            source: u32::from(view.source()).into(),
            destination: u32::from(view.destination()).into(),
            identification: header.identification.get().into(),
            protocol: header.protocol,
            zone: zone(false, rx_if, vrf),
        };
        let head = &view.packet()[..header.header_length()];
        Ok(FragmentView { key, head, offset, more, data, rx_if })
    }

    /// Malformed IPv4 fragments cause no ICMP error.
    fn fault(_: &FragmentView<'_>) -> Option<IcmpCause> {
        None
    }

    fn whole(
        head: &[u8],
        data: &[u8],
        allocate: impl FnOnce(usize) -> Option<Packet>,
    ) -> Option<Packet> {
        let mut whole = allocate(head.len() + data.len())?;
        let bytes = whole.bytes_mut();
        bytes[..head.len()].copy_from_slice(head);
        bytes[head.len()..].copy_from_slice(data);
        let length = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        bytes[6..8].fill(0);
        bytes[10..12].fill(0);
        let sum = checksum::ones_complement(&bytes[..head.len()]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        Some(whole)
    }
}
