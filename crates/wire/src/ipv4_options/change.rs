//! What a router writes into IPv4 options: its address and the time (RFC 791 section 3.1), and
//! which options later fragments carry.

use core::net::Ipv4Addr;

use super::{END, NO_OPERATION, RECORD_ROUTE, TIMESTAMP};
use crate::ipv4;

/// What a router knows of itself when it records.
pub struct Recorder<F> {
    /// The address by which the packet leaves.
    pub address: Ipv4Addr,
    /// Milliseconds since midnight, universal time.
    pub time: u32,
    /// Whether an address is one of the router's.
    pub is_own: F,
}

/// The next option at or behind `from`, padding skipped: its offset, kind and length; `Err` with
/// the offset when the length is wrong.
fn next(bytes: &[u8], from: usize) -> Option<Result<(usize, u8, usize), usize>> {
    let mut at = from;
    loop {
        match *bytes.get(at)? {
            END => return None,
            NO_OPERATION => at += 1,
            kind => {
                let length = bytes.get(at + 1).map_or(0, |length| usize::from(*length));
                let fits = length >= 2 && at + length <= bytes.len();
                return Some(if fits { Ok((at, kind, length)) } else { Err(at) });
            }
        }
    }
}

/// The offset of the first option whose length is wrong, from the options' first byte.
pub fn fault(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        match next(bytes, from)? {
            Ok((at, _, length)) => from = at + length,
            Err(at) => return Some(at),
        }
    }
}

/// Writes address and time into the record route and timestamp options of `bytes`. The caller
/// fixes the header checksum.
///
/// # Errors
/// The offset of the invalid byte, from the options' first byte: the pointer of a
/// parameter problem. Options before it may be changed already.
pub fn record(
    bytes: &mut [u8],
    recorder: &Recorder<impl Fn(Ipv4Addr) -> bool>,
) -> Result<(), usize> {
    let mut at = 0;
    while let Some(Ok((place, kind, length))) = next(bytes, at) {
        let option = &mut bytes[place..place + length];
        match kind {
            RECORD_ROUTE => record_route(option, recorder.address),
            TIMESTAMP => timestamp(option, recorder),
            _ => Ok(()),
        }
        .map_err(|fault| place + fault)?;
        at = place + length;
    }
    Ok(())
}

/// The free part of an option behind its pointer; nothing when it is full.
fn free(option: &mut [u8], first: usize) -> Result<Option<&mut [u8]>, usize> {
    let pointer = option.get(2).map_or(0, |pointer| usize::from(*pointer));
    if pointer < first {
        return Err(2.min(option.len() - 1));
    }
    // The pointer counts from 1.
    Ok(option.get_mut(pointer - 1..).filter(|free| !free.is_empty()))
}

fn record_route(option: &mut [u8], own: Ipv4Addr) -> Result<(), usize> {
    let Some(free) = free(option, 4)? else { return Ok(()) };
    // Some space, but not enough for an address, is an error.
    free.get_mut(..4).ok_or(2_usize)?.copy_from_slice(&own.octets());
    option[2] += 4;
    Ok(())
}

fn timestamp(
    option: &mut [u8],
    recorder: &Recorder<impl Fn(Ipv4Addr) -> bool>,
) -> Result<(), usize> {
    if option.len() < 4 {
        return Err(1);
    }
    let flag = option[3] & 0xf;
    let Some(free) = free(option, 5)? else {
        // Full: count the routers without space; the counter ends at fifteen.
        option[3] = option[3].checked_add(0x10).ok_or(3_usize)?;
        return Ok(());
    };
    let time = recorder.time.to_be_bytes();
    let written = match flag {
        0 => {
            free.get_mut(..4).ok_or(2_usize)?.copy_from_slice(&time);
            4
        }
        1 => {
            let free = free.get_mut(..8).ok_or(2_usize)?;
            free[..4].copy_from_slice(&recorder.address.octets());
            free[4..].copy_from_slice(&time);
            8
        }
        3 => {
            let free = free.get_mut(..8).ok_or(2_usize)?;
            let slot = Ipv4Addr::new(free[0], free[1], free[2], free[3]);
            if !(recorder.is_own)(slot) {
                return Ok(());
            }
            free[4..].copy_from_slice(&time);
            8
        }
        _ => return Ok(()),
    };
    option[2] += written;
    Ok(())
}

/// Makes padding of all options but record route and timestamp: what an echo reply carries
/// (RFC 1122 section 3.2.2.6).
pub fn keep_records(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(Ok((place, kind, length))) = next(bytes, at) {
        bytes[at..place].fill(NO_OPERATION);
        if !matches!(kind, RECORD_ROUTE | TIMESTAMP) {
            bytes[place..place + length].fill(NO_OPERATION);
        }
        at = place + length;
    }
    bytes[at..].fill(END);
}

/// Writes the options that each fragment repeats (RFC 791: the copied flag) to `out`, padded to
/// whole words; returns their length, 0..=40.
pub fn copied(bytes: &[u8], out: &mut [u8; ipv4::LONGEST - ipv4::LENGTH]) -> usize {
    let mut end = 0;
    let mut at = 0;
    while let Some(Ok((place, kind, length))) = next(bytes, at) {
        at = place + length;
        if kind & 0x80 != 0
            && let Some(to) = out.get_mut(end..end + length)
        {
            to.copy_from_slice(&bytes[place..place + length]);
            end += length;
        }
    }
    let whole = end.next_multiple_of(4);
    out[end..whole].fill(END);
    whole
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;
    use proptest::prelude::*;

    const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    fn recorded(bytes: &[u8]) -> Result<Vec<u8>, usize> {
        let mut bytes = bytes.to_vec();
        let recorder = Recorder { address: OWN, time: 0x0102_0304, is_own: |ip| ip == OWN };
        record(&mut bytes, &recorder).map(|()| bytes)
    }

    #[test]
    fn routes_are_recorded() {
        let taken = recorded(&[1, 7, 11, 8, 9, 9, 9, 9, 0, 0, 0, 0]);
        assert_eq!(taken, Ok(vec![1, 7, 11, 12, 9, 9, 9, 9, 10, 0, 0, 1]));
        // Full: it passes as it is.
        let full = [7, 7, 8, 9, 9, 9, 9, 0];
        assert_eq!(recorded(&full), Ok(full.to_vec()));
        // Some space, but not for an address; a pointer before the data.
        assert_eq!(recorded(&[1, 7, 7, 6, 0, 0, 0, 0]), Err(3));
        assert_eq!(recorded(&[7, 7, 3, 0, 0, 0, 0, 0]), Err(2));
    }

    #[test]
    fn times_are_recorded() {
        let taken = recorded(&[68, 8, 5, 0, 0, 0, 0, 0]);
        assert_eq!(taken, Ok(vec![68, 8, 9, 0, 1, 2, 3, 4]));
        let taken = recorded(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(taken, Ok(vec![68, 12, 13, 1, 10, 0, 0, 1, 1, 2, 3, 4]));
        let taken = recorded(&[68, 12, 5, 3, 10, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(taken, Ok(vec![68, 12, 13, 3, 10, 0, 0, 1, 1, 2, 3, 4]));
        let other = [68, 12, 5, 3, 10, 0, 0, 9, 0, 0, 0, 0];
        assert_eq!(recorded(&other), Ok(other.to_vec()));
        // Full: routers without space are counted, up to fifteen.
        assert_eq!(recorded(&[68, 4, 5, 0]), Ok(vec![68, 4, 5, 0x10]));
        assert_eq!(recorded(&[68, 4, 5, 0xf0]), Err(3));
        assert_eq!(recorded(&[68, 6, 5, 0, 0, 0]), Err(2));
    }

    #[test]
    fn fragments_repeat_what_is_marked() {
        let mut out = [0xff; 40];
        assert_eq!(copied(&[7, 7, 4, 0, 0, 0, 0, 1, 148, 4, 0, 0], &mut out), 4);
        assert_eq!(out[..4], [148, 4, 0, 0]);
        assert_eq!(copied(&[130, 3, 9, 0], &mut out), 4);
        assert_eq!(out[..4], [130, 3, 9, 0]);
        let mut bytes = [148, 4, 0, 0, 7, 3, 4, 0];
        keep_records(&mut bytes);
        assert_eq!(bytes, [1, 1, 1, 1, 7, 3, 4, 0]);
    }

    #[test]
    fn the_first_fault_is_reported() {
        assert_eq!(fault(&[1, 1, 7, 0]), Some(2));
        assert_eq!(fault(&[148, 4, 0, 0, 7]), Some(4));
        assert_eq!(fault(&[148, 4, 0, 0, 0, 7]), None);
    }

    proptest! {
        #[test]
        fn any_options_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..=40)) {
            let length = bytes.len();
            if let Ok(changed) = recorded(&bytes) {
                prop_assert_eq!(changed.len(), length);
            }
            prop_assert_eq!(fault(&bytes).is_some(), super::super::inspect(&bytes).is_err());
            let mut out = [0; 40];
            let copied = copied(&bytes, &mut out);
            prop_assert!(copied.is_multiple_of(4) && copied <= length.next_multiple_of(4));
            let mut kept = bytes.clone();
            keep_records(&mut kept);
            prop_assert!(Options::new(&kept).flatten().all(|o| matches!(o.kind, 7 | 68)));
        }
    }
}
