//! Packets that pass access lists unless a rule matches them.

use stoa_tables::classifier::Fragment;
use stoa_wire::essential;

use super::keys::Family;
use crate::flow::fields::PacketFields;

/// Whether a packet that no rule matches passes: links and paths need it. It is not malformed.
pub(super) fn is_essential<F: Family>(packet: &PacketFields, hop_limit: u8) -> bool {
    let [message, code, ..] = packet.ports.to_be_bytes();
    packet.kind.protocol() == F::ICMP
        && packet.kind.part() != Fragment::Later
        && essential::is_essential(F::IS_IP4, [message, code], hop_limit)
}
