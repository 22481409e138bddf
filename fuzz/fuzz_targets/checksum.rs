//! Checksums: the fast sum equals the naive sum, partial sums add up, and updates equal recomputation.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::checksum;

/// RFC 1071 literally: one big-endian word after the other, with the carry added immediately.
fn naive(bytes: &[u8]) -> u32 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

fuzz_target!(|input: &[u8]| {
    assert_eq!(checksum::sum(input), naive(input));
    assert_eq!(u32::from(checksum::ones_complement(input)), 0xffff - naive(input));
    if let Some(header) = input.first_chunk::<20>() {
        assert_eq!(checksum::sum20(header), naive(header));
    }

    let Some(([at, a, b, c, d], data)) = input.split_first_chunk::<5>() else { return };
    let at = usize::from(*at) * 2;
    let (head, tail) = data.split_at(at.min(data.len() & !1));
    assert_eq!(u32::from(checksum::fold(checksum::sum(head) + checksum::sum(tail))), naive(data));

    // All-zero data has two checksums: a constant non-zero first word rules that out.
    if at < 2 || at + 4 > data.len() || data[..2] == [0, 0] {
        return;
    }
    let before = checksum::ones_complement(data);
    let mut after = data.to_vec();
    let old = [data[at], data[at + 1], data[at + 2], data[at + 3]];
    after[at..at + 2].copy_from_slice(&[*a, *b]);
    let once = checksum::update16(
        before,
        u16::from_be_bytes([old[0], old[1]]),
        u16::from_be_bytes([*a, *b]),
    );
    assert_eq!(once, checksum::ones_complement(&after));
    after[at + 2..at + 4].copy_from_slice(&[*c, *d]);
    let twice =
        checksum::update32(before, u32::from_be_bytes(old), u32::from_be_bytes([*a, *b, *c, *d]));
    assert_eq!(twice, checksum::ones_complement(&after));

    if old[0] > 0 {
        let mut hop = data.to_vec();
        hop[at] -= 1;
        assert_eq!(checksum::ttl_decremented(before), checksum::ones_complement(&hop));
    }
});
