//! ESP (RFC 4303): the header in front of what is encrypted, and the trailer at its end, which is encrypted, too.
//!
//! ```text
//! SPI (4) | sequence number (4) | IV (by algorithm) | payload | padding 1, 2, 3 ... | pad length | next header | ICV
//! ```

use crate::BuildError;
use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header.
pub const LENGTH: usize = 8;
/// Bytes of the trailer behind the padding: pad length and next header.
pub const TRAILER: usize = 2;
/// SPIs below this one are reserved (RFC 4303 section 2.1).
pub const FIRST_SPI: u32 = 256;
/// The UDP port of ESP in UDP, and of IKE beside it (RFC 3948).
pub const UDP_PORT: u16 = 4500;
/// The most bytes of padding.
const LONGEST: usize = u8::MAX as usize;

causes! {
    /// Why an ESP packet is refused.
    EspError {
        Truncated = "esp-truncated", "the packet is shorter than its ESP header, IV, trailer and ICV";
        BadSpi = "esp-bad-spi", "the SPI is one of those that are reserved";
        BadPadLength = "esp-bad-pad-length", "the padding is longer than what was encrypted";
        BadPadding = "esp-bad-padding", "the padding is not 1, 2, 3 and so on";
    }
}

/// The ESP header as it lies in the packet.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// The number of the security association at the receiver.
    pub spi: U32,
    /// The sequence number, or its lower half (ESN).
    pub sequence: U32,
}

/// Checks the header of a packet that has a header, `rest` more bytes at least, and what lies between.
///
/// # Errors
/// The packet is too short, or its SPI is reserved. SPI 0 is not ESP: in UDP it begins a message of IKE.
#[inline]
pub fn check(bytes: &[u8], rest: usize) -> Result<&Header, EspError> {
    let (header, behind) = Header::ref_from_prefix(bytes).map_err(|_| EspError::Truncated)?;
    if header.spi.get() < FIRST_SPI {
        return Err(EspError::BadSpi);
    }
    if behind.len() < rest { Err(EspError::Truncated) } else { Ok(header) }
}

/// Bytes of padding behind a payload, so that it ends with the trailer at a multiple of `block`, which is 4 or 16 (RFC
/// 4303 section 2.4).
#[inline]
#[must_use]
pub const fn pad_length(payload: usize, block: usize) -> usize {
    (payload + TRAILER).next_multiple_of(block) - payload - TRAILER
}

/// Writes padding and trailer, which take the whole of `out`.
///
/// # Errors
/// `out` has no place for a trailer, or more than padding can be.
#[inline]
pub fn build_trailer(out: &mut [u8], next_header: u8) -> Result<(), BuildError> {
    let length = out.len();
    let no_space = BuildError::NoSpace { needed: TRAILER, available: length };
    let (padding, trailer) = out.split_last_chunk_mut::<TRAILER>().ok_or(no_space)?;
    if padding.len() > LONGEST {
        return Err(BuildError::TooLong { length, limit: LONGEST + TRAILER });
    }
    *trailer = [padding.len() as u8, next_header];
    // Blocks of four bytes are the usual ones.
    match padding {
        [] => {}
        [one] => *one = 1,
        [one, two] => (*one, *two) = (1, 2),
        [one, two, three] => (*one, *two, *three) = (1, 2, 3),
        _ => (1..=u8::MAX).zip(padding).for_each(|(number, byte)| *byte = number),
    }
    Ok(())
}

/// Takes the trailer off a decrypted text; returns the payload and its protocol.
///
/// # Errors
/// There is no trailer, or the padding is not what a sender writes (RFC 4303 section 2.4).
#[inline]
pub fn check_trailer(text: &[u8]) -> Result<(&[u8], u8), EspError> {
    let (rest, [length, next_header]) = text.split_last_chunk().ok_or(EspError::Truncated)?;
    let payload = rest.len().checked_sub(usize::from(*length)).ok_or(EspError::BadPadLength)?;
    let (payload, padding) = rest.split_at(payload);
    let is_wrong =
        (1..=u8::MAX).zip(padding).fold(false, |is, (number, byte)| is | (number != *byte));
    if is_wrong { Err(EspError::BadPadding) } else { Ok((payload, *next_header)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_esp_is_refused_by_name() {
        let packet = |spi: u32, behind: usize| [&spi.to_be_bytes()[..], &vec![0; behind]].concat();
        assert_eq!(check(&packet(256, 3), 0).err(), Some(EspError::Truncated));
        assert_eq!(check(&packet(0, 30), 0).err(), Some(EspError::BadSpi), "IKE in UDP");
        assert_eq!(check(&packet(255, 30), 0).err(), Some(EspError::BadSpi));
        assert_eq!(check(&packet(256, 29), 26).err(), Some(EspError::Truncated));
        assert!(check(&packet(256, 30), 26).is_ok());
        assert_eq!(check_trailer(&[4]), Err(EspError::Truncated));
        assert_eq!(check_trailer(&[1, 4]), Err(EspError::BadPadLength));
        assert_eq!(check_trailer(&[2, 1, 4]), Err(EspError::BadPadding), "RFC 4303 section 2.4");
        assert_eq!(check_trailer(&[9, 1, 1, 4]), Ok((&[9][..], 4)));
    }

    proptest! {
        #[test]
        fn what_was_built_is_read(spi in FIRST_SPI.., sequence: u32, payload: Vec<u8>, is_wide: bool, next: u8) {
            let block = if is_wide { 16 } else { 4 };
            let padding = pad_length(payload.len(), block);
            prop_assert!(padding < block && (payload.len() + padding + TRAILER).is_multiple_of(block));
            let mut text = [&payload[..], &vec![0xee; padding + TRAILER]].concat();
            build_trailer(&mut text[payload.len()..], next).unwrap();
            prop_assert_eq!(check_trailer(&text), Ok((&payload[..], next)));
            let header = Header { spi: U32::new(spi), sequence: U32::new(sequence) };
            let read = check(header.as_bytes(), 0).unwrap();
            prop_assert_eq!((read.spi.get(), read.sequence.get()), (spi, sequence));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, rest in 0..64_usize) {
            let _ = check(&bytes, rest);
            if let Ok((payload, _)) = check_trailer(&bytes) {
                prop_assert!(payload.len() + TRAILER <= bytes.len());
            }
        }
    }
}
