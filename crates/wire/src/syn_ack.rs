//! The SYN-ACK that answers a SYN, written over it (RFC 9293 section 3.5): what a SYN flood makes a router do most.

use crate::tcp::{self, flag};
use crate::tcp_options::{SYN_OPTIONS, SynOptions};
use crate::{checksum, ipv4, protocol};

/// Bytes of the longest one over IPv4.
pub const LONGEST4: usize = ipv4::LENGTH + tcp::LENGTH + SYN_OPTIONS;
/// The words at which the segment and its options begin.
const TCP: usize = ipv4::LENGTH / 4;
const OPTIONS: usize = TCP + tcp::LENGTH / 4;

/// Turns an IPv4 packet without options, which carries a SYN, into its answer, with a window of 0. Returns its length
/// in bytes; what is behind it is 0.
#[inline]
pub fn answer4(packet: &mut [u8; LONGEST4], sequence: u32, options: &SynOptions) -> usize {
    let word = |at: usize| {
        u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
    };
    let [source, destination, ports, number] = [word(12), word(16), word(20), word(24)];
    let (options, count) = options.words();
    let length = (tcp::LENGTH + 4 * count) as u32;
    let whole = ipv4::LENGTH as u32 + length;
    let flags = u32::from(flag::SYN | flag::ACK);
    let mut words = [0; LONGEST4 / 4];
    words[..TCP].copy_from_slice(&[
        0x45 << 24 | whole,
        ipv4::DONT_FRAGMENT.into(),
        u32::from(ipv4::TIME_TO_LIVE) << 24 | u32::from(protocol::TCP) << 16,
        destination,
        source,
    ]);
    words[TCP..OPTIONS].copy_from_slice(&[
        ports.rotate_left(16),
        sequence,
        number.wrapping_add(1),
        ((length / 4) << 28) | (flags << 16),
        0,
    ]);
    words[OPTIONS..].copy_from_slice(&options);
    let halves = |words: &[u32]| words.iter().map(|it| (it >> 16) + (it & 0xffff)).sum::<u32>();
    words[2] |= u32::from(checksum::finish(halves(&words[..TCP])));
    // The pseudo-header has both addresses, the protocol and the length. Words behind the options add nothing.
    let sum = halves(&words[3..]) + u32::from(protocol::TCP) + length;
    words[TCP + 4] = u32::from(checksum::finish(sum)) << 16;
    for (to, word) in packet.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *to = word.to_be_bytes();
    }
    whole as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checksum::Pseudo;
    use crate::tcp_options::Timestamps;

    proptest! {
        /// The answer is what the builders make.
        #[test]
        fn the_answer_is_that_of_the_builders(
            ends in any::<[[u8; 4]; 2]>(),
            ports in any::<[u16; 2]>(),
            [number, sequence] in any::<[u32; 2]>(),
            behind in any::<[u8; SYN_OPTIONS]>(),
            (segment_size, scale, sack) in any::<(Option<u16>, Option<u8>, bool)>(),
            stamps in any::<Option<[u32; 2]>>(),
        ) {
            let timestamps = stamps.map(|[value, echo]| Timestamps { value, echo });
            let options = SynOptions { segment_size, scale, sack, timestamps };
            let mut packet = [0; LONGEST4];
            let [source, destination] = ends;
            packet[12..16].copy_from_slice(&source);
            packet[16..20].copy_from_slice(&destination);
            packet[20..22].copy_from_slice(&ports[0].to_be_bytes());
            packet[22..24].copy_from_slice(&ports[1].to_be_bytes());
            packet[24..28].copy_from_slice(&number.to_be_bytes());
            packet[40..].copy_from_slice(&behind);
            let length = answer4(&mut packet, sequence, &options);
            let mut written = [0; SYN_OPTIONS];
            let count = options.write(&mut written);
            let builder = tcp::Builder {
                source_port: ports[1],
                destination_port: ports[0],
                sequence,
                acknowledgement: number.wrapping_add(1),
                flags: flag::SYN | flag::ACK,
                window: 0,
                urgent: 0,
                options: &written[..count],
            };
            let mut expected = [0; LONGEST4];
            let pseudo = Pseudo::Ip4 { source: destination.into(), destination: source.into() };
            let body = builder.build(&mut expected[ipv4::LENGTH..], &pseudo, &[]).unwrap();
            let header = ipv4::Builder::new(destination.into(), source.into(), protocol::TCP);
            let header = ipv4::Builder { flags_fragment: ipv4::DONT_FRAGMENT, ..header };
            header.build(&mut expected, body).unwrap();
            prop_assert_eq!(length, ipv4::LENGTH + body);
            prop_assert_eq!(packet, expected);
        }
    }
}
