//! Segments that ICMP errors quote.

use stoa_wire::checksum::{update16, update32};

use super::fields::{Kind, Place};

/// Bytes of an ICMP error before the packet that it quotes.
const ICMP: usize = 8;

/// Bytes from the sequence number of a segment to its checksum.
const TO_CHECKSUM: usize = 12;

/// An ICMP error quotes a segment as its receiver has seen it: it gets the number that its sender knows, and the
/// checksum, if that is quoted. `by`: how much was added on the way.
#[cold]
pub fn unshift(bytes: &mut [u8], (kind, place): (Kind, Place), by: u32) {
    let Some(message) = bytes.get_mut(usize::from(place.upper())..) else { return };
    let inner = match (message.get(ICMP), kind.is_ip6()) {
        (Some(first), false) => usize::from(first & 0xf).max(5) * 4,
        // With a fragment header (RFC 8200 section 4.5), which only a first fragment has here.
        (_, true) if message.get(ICMP + 6) == Some(&stoa_wire::protocol::FRAGMENT) => 48,
        (_, true) => 40,
        (None, _) => return,
    };
    let at = ICMP + inner + 4;
    let Some(number) = message.get(at..).and_then(|it| it.first_chunk::<4>()) else { return };
    let old = u32::from_be_bytes(*number);
    let new = old.wrapping_sub(by);
    let mut checksum = update32(u16::from_be_bytes([message[2], message[3]]), old, new);
    message[at..at + 4].copy_from_slice(&new.to_be_bytes());
    let quoted = message.get_mut(at + TO_CHECKSUM..).and_then(|it| it.first_chunk_mut::<2>());
    if let Some(quoted) = quoted {
        let was = u16::from_be_bytes(*quoted);
        let is = update32(was, old, new);
        *quoted = is.to_be_bytes();
        checksum = update16(checksum, was, is);
    }
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use stoa_wire::checksum::{Pseudo, finish, sum};
    use stoa_wire::{ipv4, protocol, tcp};

    use super::*;

    /// An ICMP error about so many bytes of a segment with this number.
    fn error(sequence: u32, quoted: usize) -> Vec<u8> {
        let [source, destination] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(192, 0, 2, 1)];
        let builder = tcp::Builder {
            source_port: 40_000,
            destination_port: 21,
            sequence,
            acknowledgement: 7,
            flags: tcp::flag::ACK,
            window: 4096,
            urgent: 0,
            options: &[],
        };
        let (mut segment, mut header) = ([0; 40], [0; 20]);
        let pseudo = Pseudo::Ip4 { source, destination };
        let length = builder.build(&mut segment, &pseudo, b"odd").expect("room");
        let packet = ipv4::Builder::new(source, destination, protocol::TCP);
        packet.build(&mut header, length).expect("room");
        let mut message =
            [&[3, 4, 0, 0, 0, 0, 5, 0], &header[..], &segment[..length.min(quoted)]].concat();
        let checksum = finish(sum(&message));
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        message
    }

    #[test]
    fn a_quoted_segment_is_that_of_its_sender() {
        let of = (Kind(protocol::ICMP4.into()), Place(0));
        // The whole segment, its header, its checksum at the end, and the least that errors quote.
        for quoted in [23, 20, 18, 8] {
            let mut message = error(1_100, quoted);
            unshift(&mut message, of, 100);
            assert_eq!(message, error(1_000, quoted), "{quoted} bytes");
        }
        let mut short = error(1_100, 7);
        unshift(&mut short, of, 100);
        assert_eq!(short, error(1_100, 7), "the number is not there");
    }
}
