//! ESP (RFC 4303) in tunnel mode, over IP or in UDP (RFC 3948), with security associations as rows of a table.
//!
//! A tunnel of this kind is an interface like other tunnels: routes to it use the adjacency of its interface, and
//! `tunnel-output` gives its packets to `esp-encrypt`, which finds the outbound association by the interface. Packets
//! for local addresses with a known SPI go to `esp-decrypt`, which hands the inner packets to the input nodes as
//! packets of the tunnel. Both nodes work on whole vectors: the engine gets many packets at once ([`stoa_crypto`]).

pub mod association;
mod batch;
pub mod engines;
pub mod esp_decrypt;
pub mod esp_encrypt;
mod surround;
pub mod table;

use crate::protocols::LocalPacket;

/// The row of the inbound association of a packet for a local address, plus one: the `arg` of `esp-decrypt`; 0: there
/// is none. `None`: no association at all, so that the packet is for others.
pub fn of_packet(packet: &LocalPacket<'_>) -> Option<u32> {
    row(packet, packet.payload)
}

/// The `arg` of `esp-decrypt` for a NAT keepalive, which is one byte (RFC 3948 section 2.3).
pub const KEEPALIVE: u32 = u32::MAX;

/// The same for ESP in UDP. Messages of IKE begin with four zeros (RFC 3948 section 2.2).
pub fn of_datagram(packet: &LocalPacket<'_>) -> Option<u32> {
    let payload = packet.payload.get(stoa_wire::udp::LENGTH..)?;
    if payload == [0xff] && !packet.ipsec.is_empty() {
        return Some(KEEPALIVE);
    }
    let is_esp = payload.first_chunk::<4>().is_some_and(|spi| *spi != [0; 4]);
    if is_esp { row(packet, payload) } else { None }
}

fn row(packet: &LocalPacket<'_>, payload: &[u8]) -> Option<u32> {
    if packet.ipsec.is_empty() {
        return None;
    }
    let spi = payload.first_chunk::<4>().map(|spi| u32::from_be_bytes(*spi));
    Some(spi.and_then(|spi| packet.ipsec.row(spi)).map_or(0, |row| row + 1))
}
