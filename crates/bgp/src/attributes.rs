//! Path attributes (RFC 4271, section 4.3) that best-path selection uses, and their error handling (RFC 7606).
//!
//! Stoa has its own parser because the codec crate cannot continue after a malformed attribute (decision 35).

use std::net::{IpAddr, Ipv4Addr};

use crate::message::ProtocolError;

/// The attributes of a path that best-path selection and forwarding need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attributes {
    /// NEXT_HOP, or the global address in MP_REACH_NLRI.
    pub next_hop: IpAddr,
    /// LOCAL_PREF.
    pub local_preference: u32,
    /// MULTI_EXIT_DISC; 0 when absent, as in FRR and BIRD.
    pub med: u32,
    /// The first AS of AS_PATH; 0 when the path begins in our own AS.
    pub neighbor_as: u32,
    /// ORIGINATOR_ID: the router that brought the path into the AS. 0: the daemon itself, over eBGP or from its
    /// configuration.
    pub originator: u32,
    /// Length of AS_PATH: an AS_SET counts 1, confederation segments count 0.
    pub path_length: u16,
    /// Length of CLUSTER_LIST.
    pub cluster_length: u16,
    /// ORIGIN: 0 IGP, 1 EGP, 2 incomplete.
    pub origin: u8,
}

impl Attributes {
    /// Whether the next hop is usable as a gateway. The daemon's own routes have a next hop of the session's
    /// addresses, which is unreachable from Stoa.
    #[must_use]
    pub fn has_gateway(&self) -> bool {
        let is_nowhere = match self.next_hop {
            IpAddr::V4(ip) => ip.is_broadcast() || ip.octets()[0] == 0,
            // A link-local address needs an interface, which BGP does not carry.
            IpAddr::V6(ip) => ip.is_unspecified() || ip.is_unicast_link_local(),
        };
        !is_nowhere && !self.next_hop.is_loopback() && !self.next_hop.is_multicast()
    }
}

/// Prefixes of MP_REACH_NLRI or MP_UNREACH_NLRI (RFC 4760).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Multiprotocol<'a> {
    pub afi: u16,
    pub safi: u8,
    /// Empty in MP_UNREACH_NLRI.
    pub next_hop: &'a [u8],
    pub nlri: &'a [u8],
}

/// All path attributes of an UPDATE message.
#[derive(Debug, Default)]
pub(crate) struct ParsedAttributes<'a> {
    origin: Option<u8>,
    path: Option<(u16, u32)>,
    pub next_hop: Option<Ipv4Addr>,
    med: Option<u32>,
    local_preference: Option<u32>,
    originator: Option<u32>,
    cluster_length: u16,
    pub reach: Option<Multiprotocol<'a>>,
    pub unreach: Option<Multiprotocol<'a>>,
    /// The first error that applies: its routes are treated as withdrawn (RFC 7606).
    pub error: Option<&'static str>,
    /// The attribute list is truncated: nothing after the error can be read.
    pub is_truncated: bool,
}

impl ParsedAttributes<'_> {
    /// The attributes of routes with that next hop; `Err` when a mandatory attribute is missing (RFC 7606, section 3
    /// d).
    pub fn to_attributes(&self, next_hop: IpAddr) -> Result<Attributes, &'static str> {
        let origin = self.origin.ok_or("no ORIGIN")?;
        let (path_length, neighbor_as) = self.path.ok_or("no AS_PATH")?;
        let local_preference = self
            .local_preference
            .ok_or("no LOCAL_PREF, which is mandatory on internal sessions")?;
        Ok(Attributes {
            next_hop,
            local_preference,
            med: self.med.unwrap_or(0),
            neighbor_as,
            originator: self.originator.unwrap_or(0),
            path_length,
            cluster_length: self.cluster_length,
            origin,
        })
    }

    fn parse_attribute(&mut self, kind: u8, flags: u8, value: &[u8]) -> Result<(), &'static str> {
        if let Some(expected) = flags_of(kind)
            && flags & 0xc0 != expected
        {
            return Err("attribute flags");
        }
        match kind {
            1 => match value {
                [origin @ 0..=2] => self.origin = Some(*origin),
                _ => return Err("ORIGIN"),
            },
            2 => self.path = Some(path(value).ok_or("AS_PATH")?),
            3 => self.next_hop = Some(Ipv4Addr::from(four(value).ok_or("NEXT_HOP")?)),
            4 => self.med = Some(four(value).ok_or("MULTI_EXIT_DISC")?),
            5 => self.local_preference = Some(four(value).ok_or("LOCAL_PREF")?),
            9 => self.originator = Some(four(value).ok_or("ORIGINATOR_ID")?),
            8 if value.is_empty() || !value.len().is_multiple_of(4) => return Err("COMMUNITIES"),
            10 if value.is_empty() || !value.len().is_multiple_of(4) => return Err("CLUSTER_LIST"),
            10 => self.cluster_length = u16::try_from(value.len() / 4).unwrap_or(u16::MAX),
            16 if value.is_empty() || !value.len().is_multiple_of(8) => {
                return Err("EXTENDED COMMUNITIES");
            }
            32 if value.is_empty() || !value.len().is_multiple_of(12) => {
                return Err("LARGE_COMMUNITY");
            }
            // Malformed ATOMIC_AGGREGATE and AGGREGATOR are discarded (RFC 7606, section 7.6).
            6 | 7 => {}
            _ if flags & 0x80 == 0 => return Err("an unrecognized well-known attribute"),
            _ => {}
        }
        Ok(())
    }
}

/// The Optional and Transitive flags that RFC 4271 and its extensions prescribe.
fn flags_of(kind: u8) -> Option<u8> {
    match kind {
        1..=3 | 5 => Some(0x40),
        4 | 9 | 10 | 14 | 15 => Some(0x80),
        8 | 16 | 32 => Some(0xc0),
        _ => None,
    }
}

fn four(value: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(value.try_into().ok()?))
}

/// Length and first AS of an AS_PATH with 4-octet numbers (RFC 4271, section 9.1.2.2 a; RFC 5065, section 5.3).
fn path(mut value: &[u8]) -> Option<(u16, u32)> {
    let (mut length, mut neighbor) = (0_u16, None);
    while !value.is_empty() {
        let (&[kind, count], rest) = value.split_first_chunk::<2>()?;
        let (numbers, rest) = rest.split_at_checked(usize::from(count) * 4)?;
        value = rest;
        let first = four(numbers.get(..4)?)?;
        match kind {
            1 => {
                length = length.saturating_add(1);
                neighbor.get_or_insert(0);
            }
            2 => {
                length = length.saturating_add(u16::from(count));
                neighbor.get_or_insert(first);
            }
            3 | 4 => {}
            _ => return None,
        }
    }
    Some((length, neighbor.unwrap_or(0)))
}

/// Parses all path attributes of a message.
///
/// # Errors
/// When the prefixes in them cannot be located: the session has to be reset.
pub(crate) fn read(mut bytes: &[u8]) -> Result<ParsedAttributes<'_>, ProtocolError> {
    let mut parsed = ParsedAttributes::default();
    let mut seen = [0_u64; 4];
    while !bytes.is_empty() {
        let Some((kind, flags, value, rest)) = next(bytes) else {
            parsed.error = Some("the attributes exceed the attribute field");
            parsed.is_truncated = true;
            break;
        };
        bytes = rest;
        let (word, bit) = (usize::from(kind / 64), 1 << (kind % 64));
        let is_again = seen[word] & bit != 0;
        seen[word] |= bit;
        match (kind, is_again) {
            // RFC 7606, section 3 g.
            (14 | 15, true) => {
                return Err(ProtocolError::new(
                    3,
                    1,
                    "MP_REACH_NLRI or MP_UNREACH_NLRI appears twice",
                ));
            }
            (_, true) => continue,
            (14, _) => parsed.reach = Some(reach(value)?),
            (15, _) => parsed.unreach = Some(unreach(value)?),
            _ => {}
        }
        if let Err(reason) = parsed.parse_attribute(kind, flags, value) {
            parsed.error = Some(reason);
        }
    }
    Ok(parsed)
}

/// Splits off the first attribute: type, flags, value, remaining bytes.
fn next(bytes: &[u8]) -> Option<(u8, u8, &[u8], &[u8])> {
    let (&[flags, kind, first], rest) = bytes.split_first_chunk::<3>()?;
    let (length, rest) = if flags & 0x10 == 0 {
        (usize::from(first), rest)
    } else {
        let (second, rest) = rest.split_first()?;
        (usize::from(u16::from_be_bytes([first, *second])), rest)
    };
    let (value, rest) = rest.split_at_checked(length)?;
    Some((kind, flags, value, rest))
}

/// RFC 4760, section 3.
fn reach(value: &[u8]) -> Result<Multiprotocol<'_>, ProtocolError> {
    let bad = || ProtocolError::new(3, 9, "MP_REACH_NLRI is truncated");
    let (&[high, low, safi, length], rest) = value.split_first_chunk::<4>().ok_or_else(bad)?;
    let (next_hop, rest) = rest.split_at_checked(usize::from(length)).ok_or_else(bad)?;
    // Reserved byte.
    let (_, nlri) = rest.split_first().ok_or_else(bad)?;
    Ok(Multiprotocol { afi: u16::from_be_bytes([high, low]), safi, next_hop, nlri })
}

/// RFC 4760, section 4.
fn unreach(value: &[u8]) -> Result<Multiprotocol<'_>, ProtocolError> {
    let bad = || ProtocolError::new(3, 9, "MP_UNREACH_NLRI is truncated");
    let (&[high, low, safi], nlri) = value.split_first_chunk::<3>().ok_or_else(bad)?;
    Ok(Multiprotocol { afi: u16::from_be_bytes([high, low]), safi, next_hop: &[], nlri })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ORIGIN: [u8; 4] = [0x40, 1, 1, 0];
    const LOCAL_PREF: [u8; 7] = [0x40, 5, 4, 0, 0, 0, 100];
    const HOP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn with_path(path: &[u8]) -> Vec<u8> {
        let length = u8::try_from(path.len()).expect("short");
        [&ORIGIN[..], &LOCAL_PREF, &[0x40, 2, length], path].concat()
    }

    #[test]
    fn reads_the_attributes_that_selection_uses() {
        let path = [2, 2, 0, 0, 0xfd, 0xe8, 0, 1, 0, 0, 1, 2, 0, 0, 0, 1, 0, 0, 0, 2];
        let mut bytes = with_path(&path);
        bytes.extend([0x80, 4, 4, 0, 0, 0, 7]);
        bytes.extend([0x80, 9, 4, 10, 0, 0, 9]);
        bytes.extend([0x90, 10, 0, 8, 1, 1, 1, 1, 2, 2, 2, 2]);
        bytes.extend([0xc0, 8, 4, 0, 1, 0, 2]);
        bytes.extend([0xe0, 99, 1, 0]);
        let parsed = read(&bytes).expect("read");
        assert_eq!(parsed.error, None);
        let expected = Attributes {
            next_hop: HOP,
            local_preference: 100,
            med: 7,
            neighbor_as: 65_000,
            originator: 0x0a00_0009,
            path_length: 3,
            cluster_length: 2,
            origin: 0,
        };
        assert_eq!(parsed.to_attributes(HOP), Ok(expected));
    }

    #[test]
    fn confederation_segments_do_not_count() {
        let path = [3, 1, 0, 0, 0, 1, 2, 1, 0, 0, 0, 9];
        let bytes = with_path(&path);
        let attributes = read(&bytes).expect("read").to_attributes(HOP).expect("valid");
        assert_eq!((attributes.path_length, attributes.neighbor_as), (1, 9));
    }

    #[test]
    fn missing_mandatory_attributes_are_errors() {
        let bytes = with_path(&[]);
        assert!(read(&bytes).expect("read").to_attributes(HOP).is_ok());
        assert!(read(&ORIGIN).expect("read").to_attributes(HOP).is_err());
        assert!(read(&bytes[4..]).expect("read").to_attributes(HOP).is_err());
        let bytes = [&ORIGIN[..], &[0x40, 2, 0]].concat();
        assert!(read(&bytes).expect("read").to_attributes(HOP).is_err());
    }

    #[test]
    fn malformed_attributes_withdraw_and_parsing_continues() {
        let malformed: [&[u8]; 14] = [
            &[0x40, 1, 1, 3],
            &[0x40, 1, 2, 0, 0],
            &[0xc0, 1, 1, 0],
            &[0x40, 2, 2, 2, 0],
            &[0x40, 2, 6, 2, 2, 0, 0, 0, 1],
            &[0x40, 2, 6, 9, 1, 0, 0, 0, 1],
            &[0x40, 3, 3, 1, 2, 3],
            &[0x80, 4, 0],
            &[0x40, 5, 5, 0, 0, 0, 0, 0],
            &[0xc0, 8, 3, 0, 0, 0],
            &[0x80, 9, 1, 0],
            &[0x80, 10, 0],
            &[0xc0, 32, 4, 0, 0, 0, 0],
            &[0x40, 77, 0],
        ];
        for bytes in malformed {
            let bytes = [bytes, &[0x80, 15, 3, 0, 2, 1]].concat();
            let parsed = read(&bytes).expect("the session continues");
            assert!(parsed.error.is_some(), "{bytes:?}");
            assert!(!parsed.is_truncated && parsed.unreach.is_some(), "{bytes:?}");
        }
        // Discarded attributes (RFC 7606, sections 7.6 and 7.7).
        let parsed = read(&[0x40, 6, 1, 0, 0xc0, 7, 1, 0]).expect("read");
        assert_eq!(parsed.error, None);
    }

    #[test]
    fn duplicate_attributes_are_ignored_except_multiprotocol_ones() {
        let bytes = [&ORIGIN[..], &[0x40, 1, 1, 2]].concat();
        assert_eq!(read(&bytes).expect("read").origin, Some(0));
        let twice = [0x80, 15, 3, 0, 2, 1, 0x80, 15, 3, 0, 2, 1];
        let fault = read(&twice).expect_err("refused");
        assert_eq!((fault.code, fault.subcode), (3, 1));
    }

    #[test]
    fn truncated_attributes_withdraw_and_truncated_prefixes_reset() {
        for bytes in [&[0x40][..], &[0x40, 1], &[0x40, 1, 2, 0], &[0x50, 1, 0]] {
            assert!(read(bytes).expect("read").is_truncated);
        }
        for bytes in [&[0x80, 14, 3, 0, 2, 1][..], &[0x80, 14, 4, 0, 2, 1, 1], &[0x80, 15, 2, 0, 2]]
        {
            let fault = read(bytes).expect_err("refused");
            assert_eq!((fault.code, fault.subcode), (3, 9));
        }
    }

    #[test]
    fn local_next_hops_are_no_gateways() {
        let bytes = with_path(&[]);
        let parsed = read(&bytes).expect("read");
        let has = |hop: &str| {
            parsed.to_attributes(hop.parse().expect("an address")).map(|it| it.has_gateway())
        };
        for hop in ["127.0.0.1", "0.0.0.0", "224.0.0.1", "::1", "::", "fe80::1", "ff02::1"] {
            assert_eq!(has(hop), Ok(false), "{hop}");
        }
        for hop in ["192.0.2.1", "10.0.0.1", "2001:db8::1"] {
            assert_eq!(has(hop), Ok(true), "{hop}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
            if let Ok(parsed) = read(&bytes) {
                let _ = parsed.to_attributes(HOP);
            }
        }
    }
}
