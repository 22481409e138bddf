//! `ip6-reassembly`: reassembles fragments for local addresses and sends the packets back to
//! `ip6-local` (RFC 8200 4.5).

use std::sync::Arc;

use stoa_engine::{Node, Packet};
use stoa_wire::ipv6_extensions::FRAGMENT_LENGTH;
use stoa_wire::{ipv6, protocol};

use super::FragmentView;
use super::node::{Family, Reassembly};
use super::table::{Key, zone};
use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::shared::Shared;

/// Next nodes.
pub const EDGES: &[&str] = &["ip6-local", "icmp6-error"];

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Reassembly::<Ip6>::boxed(shared)
}

struct Ip6;

impl Family for Ip6 {
    const IS_IP4: bool = false;

    fn parse(bytes: &[u8], source: (u32, u32)) -> Result<FragmentView<'_>, Drop> {
        parse(bytes, source).ok_or(Drop::Ip6Extension)
    }

    /// RFC 8200 4.5.
    fn fault(piece: &FragmentView<'_>) -> Option<IcmpCause> {
        if piece.more && !piece.data.len().is_multiple_of(8) {
            return Some(IcmpCause::Header(4));
        }
        // The fragment header is the last of the headers; its offset field is at byte 2.
        let at = piece.head.len() - FRAGMENT_LENGTH + 2;
        let end = piece.offset + piece.data.len();
        (end > usize::from(u16::MAX)).then_some(IcmpCause::Header(at as u16))
    }

    /// The packet without the fragment header.
    fn whole(
        head: &[u8],
        data: &[u8],
        allocate: impl FnOnce(usize) -> Option<Packet>,
    ) -> Option<Packet> {
        let (kept, fragment) = head.split_at_checked(head.len() - FRAGMENT_LENGTH)?;
        let named_at = named_at(kept)?;
        let mut whole = allocate(kept.len() + data.len())?;
        let bytes = whole.bytes_mut();
        bytes[..kept.len()].copy_from_slice(kept);
        bytes[kept.len()..].copy_from_slice(data);
        bytes[named_at] = fragment[0];
        let payload = (bytes.len() - ipv6::LENGTH) as u16;
        bytes[4..6].copy_from_slice(&payload.to_be_bytes());
        Some(whole)
    }
}

/// The offset of the last next-header field in `kept`, an IPv6 header with extension headers.
fn named_at(kept: &[u8]) -> Option<usize> {
    let (mut at, mut next, mut end) = (6, *kept.get(6)?, ipv6::LENGTH);
    while end < kept.len() {
        at = end;
        let (following, length) = (*kept.get(at)?, usize::from(*kept.get(at + 1)?));
        end += if next == protocol::AH { (length + 2) * 4 } else { (length + 1) * 8 };
        next = following;
    }
    Some(at)
}

fn parse(bytes: &[u8], (rx_if, vrf): (u32, u32)) -> Option<FragmentView<'_>> {
    let view = ipv6::check(bytes).ok()?;
    let header = view.extensions().flatten().find(|header| header.kind == protocol::FRAGMENT)?;
    let fragment = view.upper().ok()?.fragment?;
    let start = header.offset + FRAGMENT_LENGTH;
    let is_local = |ip: std::net::Ipv6Addr| ip.is_unicast_link_local() || ip.is_multicast();
    let is_on_link = is_local(view.source()) || is_local(view.destination());
    let key = Key {
        source: view.source().into(),
        destination: view.destination().into(),
        identification: fragment.identification.get(),
        protocol: 0,
        zone: zone(is_on_link, rx_if, vrf),
    };
    let (head, data) = view.packet().split_at_checked(start)?;
    Some(FragmentView { key, head, offset: fragment.offset(), more: fragment.more(), data, rx_if })
}
