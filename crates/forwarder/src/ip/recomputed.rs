//! The checksum of an IPv4 header as RFC 1071 reads, for the tests of the kernels: it shares no code with
//! them, nor with `stoa_wire`.

/// The header checksum, whatever the header holds in its place.
pub(super) fn header_checksum(header: &[u8]) -> u16 {
    let words = header.chunks(2).enumerate().filter(|(at, _)| *at != 5);
    let mut sum: u32 = words.map(|(_, word)| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
