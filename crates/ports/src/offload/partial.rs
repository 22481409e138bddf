//! Checksums that Linux left unfinished without a notice: frames of a virtual link that come
//! by AF_XDP carry no offload header.
//!
//! An unfinished checksum field holds the sum of the pseudo header alone (the kernel's
//! `CHECKSUM_PARTIAL`), which is recognizable: a finished one has that value once in 65,536, and
//! finishing it again gives the very same value then. Only a frame that was damaged in transit
//! could get a wrong checksum, and memory damages none: hardware ports are not affected.

use super::{Headers, complete_checksum, fold, get, word};

/// Finishes the TCP or UDP checksum of a frame when it is unfinished; whether it was.
#[inline]
pub(crate) fn finish_silent(frame: &mut [u8]) -> bool {
    let Some(headers) = Headers::find(frame) else { return false };
    if headers.routed {
        // The last destination, which the sum is of, is in the routing header.
        return false;
    }
    let before = headers.l4 - headers.l3;
    let whole = match headers.six {
        true => usize::from(get(frame, headers.l3 + 4)) + 40,
        false => usize::from(get(frame, headers.l3 + 2)),
    };
    let end = headers.l3 + whole;
    if whole < before || end > frame.len() || end < headers.payload {
        return false;
    }
    let at = headers.l4 + headers.checksum_offset();
    let pseudo = fold(headers.pseudo(frame) + word((whole - before) as u16));
    let is_partial = u16::from_ne_bytes([frame[at], frame[at + 1]]) == pseudo;
    is_partial && complete_checksum(&mut frame[..end], headers.l4, headers.checksum_offset())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// UDP or TCP over IPv4 or IPv6 with a finished checksum, or an unfinished one.
    fn packet(six: bool, tcp: bool, tags: usize, payload: &[u8], partial: bool) -> Vec<u8> {
        let header = if tcp { 20 } else { 8 };
        let length = (header + payload.len()) as u16;
        let protocol = if tcp { 6 } else { 17 };
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for _ in 0..tags {
            frame.extend([0x81, 0, 0, 100]);
        }
        if six {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend([0x20; 32]);
        } else {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((length + 20).to_be_bytes());
            frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
        }
        let l4 = frame.len();
        frame.extend(vec![0; header]);
        if tcp {
            frame[l4 + 12] = 0x50;
        } else {
            frame[l4 + 4..l4 + 6].copy_from_slice(&length.to_be_bytes());
        }
        frame.extend(payload);
        let headers = Headers::find(&frame).unwrap();
        let at = l4 + headers.checksum_offset();
        let pseudo = fold(headers.pseudo(&frame) + word(length));
        frame[at..at + 2].copy_from_slice(&pseudo.to_ne_bytes());
        if !partial {
            assert!(complete_checksum(&mut frame, l4, headers.checksum_offset()));
        }
        frame
    }

    proptest! {
        #[test]
        fn only_unfinished_ones_are_finished(
            six: bool,
            tcp: bool,
            tags in 0..3usize,
            padding in 0..9usize,
            payload in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let whole = packet(six, tcp, tags, &payload, false);
            let mut frame = packet(six, tcp, tags, &payload, true);
            let length = frame.len();
            frame.resize(length + padding, 0xee);
            prop_assert!(finish_silent(&mut frame));
            prop_assert_eq!(&frame[..length], &whole[..]);
            let mut again = whole.clone();
            finish_silent(&mut again);
            prop_assert_eq!(again, whole, "a finished one stays as it is");
        }

        #[test]
        fn any_bytes_do_no_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            finish_silent(&mut bytes);
        }

        #[test]
        fn a_cut_packet_is_left_alone(cut in 1..100usize) {
            let mut frame = packet(false, true, 0, &[7; 100], true);
            frame.truncate(frame.len() - cut);
            let before = frame.clone();
            prop_assert!(!finish_silent(&mut frame));
            prop_assert_eq!(frame, before);
        }
    }
}
