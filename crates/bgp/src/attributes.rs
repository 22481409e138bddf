//! Path attributes (RFC 4271, section 4.3): what selection needs of them, and what is wrong with them (RFC 7606).
//!
//! Our own reader, because the codec crate cannot go on behind an attribute that is wrong (decision 35).

use std::net::{IpAddr, Ipv4Addr};

use crate::message::Fault;

/// What is known of a path: as much as it takes to choose between paths and to send packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attributes {
    /// NEXT_HOP, or the global address in MP_REACH_NLRI.
    pub next_hop: IpAddr,
    /// LOCAL_PREF.
    pub local_preference: u32,
    /// MULTI_EXIT_DISC; 0 when there is none, as FRR and BIRD have it.
    pub med: u32,
    /// The first AS of AS_PATH; 0 when the path begins in our own AS.
    pub neighbor_as: u32,
    /// ORIGINATOR_ID: who brought the path into the AS. 0: the daemon itself, by a session with another AS or by its configuration.
    pub originator: u32,
    /// Length of AS_PATH: a set counts as one, a confederation as none.
    pub path_length: u16,
    /// Length of CLUSTER_LIST.
    pub cluster_length: u16,
    /// ORIGIN: 0 IGP, 1 EGP, 2 incomplete.
    pub origin: u8,
}

impl Attributes {
    /// Whether packets can be sent to the next hop: the daemon's own routes lead to addresses of the session, which are
    /// nowhere from Stoa's side.
    #[must_use]
    pub fn has_gateway(&self) -> bool {
        let is_nowhere = match self.next_hop {
            IpAddr::V4(ip) => ip.is_broadcast() || ip.octets()[0] == 0,
            // A link-local address does not say on which link.
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

/// All attributes of a message.
#[derive(Debug, Default)]
pub(crate) struct Found<'a> {
    origin: Option<u8>,
    path: Option<(u16, u32)>,
    pub next_hop: Option<Ipv4Addr>,
    med: Option<u32>,
    local_preference: Option<u32>,
    originator: Option<u32>,
    cluster_length: u16,
    pub reach: Option<Multiprotocol<'a>>,
    pub unreach: Option<Multiprotocol<'a>>,
    /// What is wrong: the routes are to be taken as withdrawn.
    pub wrong: Option<&'static str>,
    /// No attribute can be read behind what is wrong.
    pub is_cut: bool,
}

impl Found<'_> {
    /// What routes with that next hop have; `Err` when something is missing that has to be there (RFC 7606, section 3 d).
    pub fn with(&self, next_hop: IpAddr) -> Result<Attributes, &'static str> {
        let origin = self.origin.ok_or("no ORIGIN")?;
        let (path_length, neighbor_as) = self.path.ok_or("no AS_PATH")?;
        let local_preference =
            self.local_preference.ok_or("no LOCAL_PREF, which internal sessions have")?;
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

    fn take(&mut self, kind: u8, flags: u8, value: &[u8]) -> Result<(), &'static str> {
        if let Some(wanted) = flags_of(kind)
            && flags & 0xc0 != wanted
        {
            return Err("an attribute with wrong flags");
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
            // ATOMIC_AGGREGATE and AGGREGATOR change nothing here, right or wrong (RFC 7606, section 7.6).
            6 | 7 => {}
            _ if flags & 0x80 == 0 => return Err("a well-known attribute that nobody knows"),
            _ => {}
        }
        Ok(())
    }
}

/// The optional and the transitive bit of attributes that have to have them so.
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

/// Length and first AS of an AS_PATH with numbers of 4 octets (RFC 4271, section 9.1.2.2 a; RFC 5065, section 5.3).
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

/// Reads all attributes of a message.
///
/// # Errors
/// When prefixes cannot be found in them: the session cannot go on.
pub(crate) fn read(mut bytes: &[u8]) -> Result<Found<'_>, Fault> {
    let mut found = Found::default();
    let mut seen = [0_u64; 4];
    while !bytes.is_empty() {
        let Some((kind, flags, value, rest)) = next(bytes) else {
            found.wrong = Some("the attributes are longer than their field");
            found.is_cut = true;
            break;
        };
        bytes = rest;
        let (word, bit) = (usize::from(kind / 64), 1 << (kind % 64));
        let is_again = seen[word] & bit != 0;
        seen[word] |= bit;
        match (kind, is_again) {
            // RFC 7606, section 3 g.
            (14 | 15, true) => {
                return Err(Fault::new(3, 1, "MP_REACH_NLRI or MP_UNREACH_NLRI twice"));
            }
            (_, true) => continue,
            (14, _) => found.reach = Some(reach(value)?),
            (15, _) => found.unreach = Some(unreach(value)?),
            _ => {}
        }
        if let Err(reason) = found.take(kind, flags, value) {
            found.wrong = Some(reason);
        }
    }
    Ok(found)
}

/// The attribute that begins here: type, flags, value, and what is behind it.
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
fn reach(value: &[u8]) -> Result<Multiprotocol<'_>, Fault> {
    let bad = || Fault::new(3, 9, "MP_REACH_NLRI is cut off");
    let (&[high, low, safi, length], rest) = value.split_first_chunk::<4>().ok_or_else(bad)?;
    let (next_hop, rest) = rest.split_at_checked(usize::from(length)).ok_or_else(bad)?;
    // One byte is reserved.
    let (_, nlri) = rest.split_first().ok_or_else(bad)?;
    Ok(Multiprotocol { afi: u16::from_be_bytes([high, low]), safi, next_hop, nlri })
}

/// RFC 4760, section 4.
fn unreach(value: &[u8]) -> Result<Multiprotocol<'_>, Fault> {
    let bad = || Fault::new(3, 9, "MP_UNREACH_NLRI is cut off");
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
    fn what_selection_needs_is_read() {
        let path = [2, 2, 0, 0, 0xfd, 0xe8, 0, 1, 0, 0, 1, 2, 0, 0, 0, 1, 0, 0, 0, 2];
        let mut bytes = with_path(&path);
        bytes.extend([0x80, 4, 4, 0, 0, 0, 7]);
        bytes.extend([0x80, 9, 4, 10, 0, 0, 9]);
        bytes.extend([0x90, 10, 0, 8, 1, 1, 1, 1, 2, 2, 2, 2]);
        bytes.extend([0xc0, 8, 4, 0, 1, 0, 2]);
        bytes.extend([0xe0, 99, 1, 0]);
        let found = read(&bytes).expect("read");
        assert_eq!(found.wrong, None);
        let wanted = Attributes {
            next_hop: HOP,
            local_preference: 100,
            med: 7,
            neighbor_as: 65_000,
            originator: 0x0a00_0009,
            path_length: 3,
            cluster_length: 2,
            origin: 0,
        };
        assert_eq!(found.with(HOP), Ok(wanted));
    }

    #[test]
    fn confederations_count_as_nothing() {
        let path = [3, 1, 0, 0, 0, 1, 2, 1, 0, 0, 0, 9];
        let bytes = with_path(&path);
        let attributes = read(&bytes).expect("read").with(HOP).expect("whole");
        assert_eq!((attributes.path_length, attributes.neighbor_as), (1, 9));
    }

    #[test]
    fn what_is_missing_is_named() {
        let bytes = with_path(&[]);
        assert!(read(&bytes).expect("read").with(HOP).is_ok());
        assert!(read(&ORIGIN).expect("read").with(HOP).is_err());
        assert!(read(&bytes[4..]).expect("read").with(HOP).is_err());
        let bytes = [&ORIGIN[..], &[0x40, 2, 0]].concat();
        assert!(read(&bytes).expect("read").with(HOP).is_err());
    }

    #[test]
    fn wrong_attributes_withdraw_and_the_next_ones_are_read() {
        let wrong: [&[u8]; 14] = [
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
        for bytes in wrong {
            let bytes = [bytes, &[0x80, 15, 3, 0, 2, 1]].concat();
            let found = read(&bytes).expect("the session goes on");
            assert!(found.wrong.is_some(), "{bytes:?}");
            assert!(!found.is_cut && found.unreach.is_some(), "{bytes:?}");
        }
        // These change nothing here (RFC 7606, sections 7.6 and 7.7).
        let found = read(&[0x40, 6, 1, 0, 0xc0, 7, 1, 0]).expect("read");
        assert_eq!(found.wrong, None);
    }

    #[test]
    fn the_first_of_two_counts_but_prefixes_only_once() {
        let bytes = [&ORIGIN[..], &[0x40, 1, 1, 2]].concat();
        assert_eq!(read(&bytes).expect("read").origin, Some(0));
        let twice = [0x80, 15, 3, 0, 2, 1, 0x80, 15, 3, 0, 2, 1];
        let fault = read(&twice).expect_err("ended");
        assert_eq!((fault.code, fault.subcode), (3, 1));
    }

    #[test]
    fn attributes_that_are_cut_are_wrong_and_prefixes_that_are_cut_end_it() {
        for bytes in [&[0x40][..], &[0x40, 1], &[0x40, 1, 2, 0], &[0x50, 1, 0]] {
            assert!(read(bytes).expect("read").is_cut);
        }
        for bytes in [&[0x80, 14, 3, 0, 2, 1][..], &[0x80, 14, 4, 0, 2, 1, 1], &[0x80, 15, 2, 0, 2]]
        {
            let fault = read(bytes).expect_err("ended");
            assert_eq!((fault.code, fault.subcode), (3, 9));
        }
    }

    #[test]
    fn own_routes_of_the_daemon_have_no_gateway() {
        let bytes = with_path(&[]);
        let found = read(&bytes).expect("read");
        let has =
            |hop: &str| found.with(hop.parse().expect("an address")).map(|it| it.has_gateway());
        for hop in ["127.0.0.1", "0.0.0.0", "224.0.0.1", "::1", "::", "fe80::1", "ff02::1"] {
            assert_eq!(has(hop), Ok(false), "{hop}");
        }
        for hop in ["192.0.2.1", "10.0.0.1", "2001:db8::1"] {
            assert_eq!(has(hop), Ok(true), "{hop}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            if let Ok(found) = read(&bytes) {
                let _ = found.with(HOP);
            }
        }
    }
}
