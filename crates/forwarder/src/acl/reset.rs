//! TCP resets in answer to segments that access lists reject (RFC 9293 3.10.7.1).

use stoa_wire::checksum::Pseudo;
use stoa_wire::tcp::{self, flag};
use stoa_wire::{ipv4, ipv6, protocol};

/// Bytes of a reset over IPv4.
pub const LENGTH4: usize = ipv4::LENGTH + tcp::LENGTH;
/// Bytes of a reset over IPv6.
pub const LENGTH6: usize = ipv6::LENGTH + tcp::LENGTH;

/// The reset that answers a whole IPv4 packet. `None`: it gets none, because it is a reset itself or its checksum is
/// wrong.
pub fn reset4(view: &ipv4::View<'_>) -> Option<[u8; LENGTH4]> {
    let (source, destination) = (view.destination(), view.source());
    let mut packet = [0; LENGTH4];
    let (head, body) = packet.split_at_mut(ipv4::LENGTH);
    let pseudo = Pseudo::Ip4 { source, destination };
    let length = reset(body, view.payload(), [&view.pseudo(), &pseudo])?;
    ipv4::Builder::new(source, destination, protocol::TCP).build(head, length).ok()?;
    Some(packet)
}

/// The same for IPv6; `segment` is what is behind the extension headers.
pub fn reset6(view: &ipv6::View<'_>, segment: &[u8]) -> Option<[u8; LENGTH6]> {
    let (source, destination) = (view.destination(), view.source());
    let mut packet = [0; LENGTH6];
    let (head, body) = packet.split_at_mut(ipv6::LENGTH);
    let pseudo = Pseudo::Ip6 { source, destination };
    let length = reset(body, segment, [&view.pseudo(), &pseudo])?;
    ipv6::Builder::new(source, destination, protocol::TCP).build(head, length).ok()?;
    Some(packet)
}

/// Writes the reset that answers a segment; returns its length.
fn reset(out: &mut [u8], segment: &[u8], [of_segment, of_reset]: [&Pseudo; 2]) -> Option<usize> {
    let view = tcp::check(segment, of_segment).ok()?;
    if view.has(flag::RST) {
        return None;
    }
    let header = view.header();
    let builder = tcp::Builder {
        source_port: view.destination_port(),
        destination_port: view.source_port(),
        ..tcp::Builder::default()
    };
    let builder = if view.has(flag::ACK) {
        tcp::Builder { sequence: header.acknowledgement.get(), flags: flag::RST, ..builder }
    } else {
        // SYN and FIN count as one byte each.
        let controls = u32::from(view.has(flag::SYN)) + u32::from(view.has(flag::FIN));
        let length = view.payload().len() as u32 + controls;
        let acknowledgement = header.sequence.get().wrapping_add(length);
        tcp::Builder { acknowledgement, flags: flag::RST | flag::ACK, ..builder }
    };
    builder.build(out, of_reset, &[]).ok()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn segment(flags: u8, data: &[u8]) -> Vec<u8> {
        let pseudo = Pseudo::Ip4 { source: CLIENT, destination: SERVER };
        let builder = tcp::Builder {
            source_port: 40_000,
            destination_port: 80,
            sequence: 1_000,
            acknowledgement: 7_000,
            flags,
            ..tcp::Builder::default()
        };
        let mut packet = vec![0; LENGTH4 + data.len()];
        let (head, body) = packet.split_at_mut(ipv4::LENGTH);
        let length = builder.build(body, &pseudo, data).unwrap();
        ipv4::Builder::new(CLIENT, SERVER, protocol::TCP).build(head, length).unwrap();
        packet
    }

    fn answer(packet: &[u8]) -> Option<(u8, u32, u32)> {
        let answer = reset4(&ipv4::check(packet).unwrap())?;
        let view = ipv4::check(&answer).unwrap();
        assert_eq!((view.source(), view.destination()), (SERVER, CLIENT));
        let tcp = tcp::check(view.payload(), &view.pseudo()).unwrap();
        assert_eq!((tcp.source_port(), tcp.destination_port()), (80, 40_000));
        let header = tcp.header();
        Some((header.flags, header.sequence.get(), header.acknowledgement.get()))
    }

    #[test]
    fn resets_have_the_numbers_that_the_sender_accepts() {
        let syn = segment(flag::SYN, &[]);
        assert_eq!(answer(&syn), Some((flag::RST | flag::ACK, 0, 1_001)));
        let data = segment(flag::FIN, &[1, 2, 3]);
        assert_eq!(answer(&data), Some((flag::RST | flag::ACK, 0, 1_004)));
        let established = segment(flag::ACK, &[1]);
        assert_eq!(answer(&established), Some((flag::RST, 7_000, 0)));
        assert_eq!(answer(&segment(flag::RST, &[])), None);
        let mut wrong = segment(flag::SYN, &[]);
        wrong[36] ^= 1;
        assert_eq!(answer(&wrong), None);
    }
}
