//! UPDATE messages (RFC 4271, section 4.3; RFC 4760 for IPv6) for many prefixes, packed as densely as routers do.

use std::net::IpAddr;

/// The marker at the start of every message (RFC 4271, section 4.1).
pub(super) const MARKER: [u8; 16] = [0xff; 16];
/// The longest message in bytes.
const MESSAGE: usize = 4096;
/// Bytes of the header: marker, length, type.
pub(super) const HEADER: usize = 19;
const UPDATE: u8 = 2;
/// IPv6 unicast (RFC 4760): address family 2, subsequent family 1.
const IP6_UNICAST: [u8; 3] = [0, 2, 1];

/// A prefix in NLRI encoding: its length and the necessary octets.
pub trait Nlri: Copy {
    /// Whether it is IPv6.
    const SIX: bool;
    /// Appends the prefix to a message.
    fn put(self, message: &mut Vec<u8>);
}

/// An IPv4 prefix: address in host byte order without host bits, length 0 to 32.
impl Nlri for (u32, u8) {
    const SIX: bool = false;

    fn put(self, message: &mut Vec<u8>) {
        let (address, length) = self;
        message.push(length);
        message.extend(&address.to_be_bytes()[..usize::from(length.min(32)).div_ceil(8)]);
    }
}

/// An IPv6 prefix: address in host byte order without host bits, length 0 to 128.
impl Nlri for (u128, u8) {
    const SIX: bool = true;

    fn put(self, message: &mut Vec<u8>) {
        let (address, length) = self;
        message.push(length);
        message.extend(&address.to_be_bytes()[..usize::from(length.min(128)).div_ceil(8)]);
    }
}

/// Path attributes of announced prefixes.
#[derive(Clone, Copy, Debug)]
pub struct Paths {
    /// Local autonomous system, the first of each path.
    pub asn: u32,
    /// How often the AS path repeats it, 1 to 200: a longer path is less preferred.
    pub times: u8,
    /// The next hop, of the same family as the prefixes.
    pub next_hop: IpAddr,
    /// How many prefixes share a set of attributes, at least 1; about ten in the Internet's table.
    pub per_attribute: usize,
}

/// UPDATE messages that announce these prefixes. Consecutive sets of attributes differ in path, MED and communities.
#[must_use]
pub fn announce<P: Nlri>(prefixes: &[P], paths: &Paths) -> Vec<u8> {
    let mut messages = Vec::with_capacity(prefixes.len() * 12);
    for (number, sharing) in prefixes.chunks(paths.per_attribute.max(1)).enumerate() {
        let common = common_attributes(paths, number);
        // The longest prefix of each family in octets, including the length octet.
        let longest = if P::SIX { 17 } else { 5 };
        let head = HEADER + 4 + common.len() + 4 + 21 + 4;
        for part in sharing.chunks((MESSAGE - head) / longest) {
            let mut list = Vec::with_capacity(part.len() * longest);
            part.iter().for_each(|prefix| prefix.put(&mut list));
            let mut attributes = common.clone();
            match paths.next_hop {
                IpAddr::V6(next_hop) if P::SIX => {
                    // Optional, extended length, MP_REACH_NLRI: family, next hop, a reserved octet, prefixes.
                    let length = 3 + 1 + 16 + 1 + list.len();
                    attributes.extend([0x90, 14]);
                    attributes.extend((length as u16).to_be_bytes());
                    attributes.extend(IP6_UNICAST);
                    attributes.push(16);
                    attributes.extend(next_hop.octets());
                    attributes.push(0);
                    attributes.append(&mut list);
                }
                IpAddr::V4(next_hop) => {
                    attributes.extend([0x40, 3, 4]);
                    attributes.extend(next_hop.octets());
                }
                // IPv4 prefixes with an IPv6 next hop (RFC 8950) are not supported: without a next hop, the peer
                // reports an error.
                IpAddr::V6(_) => {}
            }
            put_update(&mut messages, &[], &attributes, &list);
        }
    }
    messages
}

/// Origin, path, MED and communities of the set with this number.
fn common_attributes(paths: &Paths, number: usize) -> Vec<u8> {
    let k = u32::try_from(number).unwrap_or(u32::MAX);
    let times = paths.times.clamp(1, 200);
    let mut attributes = vec![0x40, 1, 1, 0];
    let path = std::iter::repeat_n(paths.asn, times.into());
    let path = path.chain([70_000 + k % 997, 100_000 + k % 7_919, 200_000 + k % 60_013]);
    let path: Vec<u8> = path.flat_map(u32::to_be_bytes).collect();
    // Extended length; one AS_SEQUENCE of four-octet AS numbers (RFC 6793).
    attributes.extend([0x50, 2]);
    attributes.extend((2 + path.len() as u16).to_be_bytes());
    attributes.extend([2, times + 3]);
    attributes.extend(path);
    attributes.extend([0x80, 4, 4]);
    attributes.extend((k % 101).to_be_bytes());
    attributes.extend([0xc0, 8, 4]);
    attributes.extend((paths.asn as u16).to_be_bytes());
    attributes.extend(((k % 211) as u16).to_be_bytes());
    attributes
}

/// UPDATE messages that withdraw these prefixes.
#[must_use]
pub fn withdraw<P: Nlri>(prefixes: &[P]) -> Vec<u8> {
    let longest = if P::SIX { 17 } else { 5 };
    let mut messages = Vec::with_capacity(prefixes.len() * longest);
    for part in prefixes.chunks((MESSAGE - HEADER - 4 - 7) / longest) {
        let mut list = Vec::with_capacity(part.len() * longest);
        part.iter().for_each(|prefix| prefix.put(&mut list));
        if P::SIX {
            put_update(&mut messages, &[], &unreach(&list), &[]);
        } else {
            put_update(&mut messages, &list, &[], &[]);
        }
    }
    messages
}

/// MP_UNREACH_NLRI for IPv6.
fn unreach(list: &[u8]) -> Vec<u8> {
    let length = (3 + list.len()) as u16;
    [&[0x90, 15][..], &length.to_be_bytes(), &IP6_UNICAST, list].concat()
}

/// The End-of-RIB marker of a family (RFC 4724, section 2).
#[must_use]
pub fn end_of_rib(six: bool) -> Vec<u8> {
    let mut message = Vec::new();
    let attributes = if six { unreach(&[]) } else { Vec::new() };
    put_update(&mut message, &[], &attributes, &[]);
    message
}

fn put_update(messages: &mut Vec<u8>, withdrawn: &[u8], attributes: &[u8], prefixes: &[u8]) {
    let length = HEADER + 4 + withdrawn.len() + attributes.len() + prefixes.len();
    debug_assert!(length <= MESSAGE, "{length}");
    messages.extend(MARKER);
    messages.extend((length as u16).to_be_bytes());
    messages.push(UPDATE);
    messages.extend((withdrawn.len() as u16).to_be_bytes());
    messages.extend(withdrawn);
    messages.extend((attributes.len() as u16).to_be_bytes());
    messages.extend(attributes);
    messages.extend(prefixes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths of consecutive complete messages.
    fn lengths(mut bytes: &[u8]) -> Vec<usize> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            assert_eq!(bytes[..16], MARKER);
            let length = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
            assert_eq!(bytes[18], UPDATE);
            all.push(length);
            bytes = &bytes[length..];
        }
        all
    }

    #[test]
    fn encodes_announcements_by_rfc_4271() {
        let next_hop = IpAddr::from([192, 0, 2, 1]);
        let paths = Paths { asn: 65_001, times: 1, next_hop, per_attribute: 10 };
        let message = announce(&[(0x0a00_0000_u32, 8), (0xc633_6400, 22)], &paths);
        let attributes = usize::from(u16::from_be_bytes([message[21], message[22]]));
        assert_eq!(&message[19..21], [0, 0], "nothing is withdrawn");
        assert_eq!(&message[23..27], [0x40, 1, 1, 0], "origin IGP");
        assert_eq!(&message[27..37], [0x50, 2, 0, 18, 2, 4, 0, 0, 0xfd, 0xe9]);
        let (requested, prefixes) = message[23..].split_at(attributes);
        assert!(requested.ends_with(&[0x40, 3, 4, 192, 0, 2, 1]), "the next hop");
        assert_eq!(prefixes, [8, 10, 22, 198, 51, 100]);
    }

    #[test]
    fn messages_are_full_and_within_the_limit() {
        let prefixes: Vec<(u32, u8)> = (0..5000).map(|at| (at << 8, 24)).collect();
        let six: Vec<(u128, u8)> = (0..5000_u128).map(|at| (at << 64, 64)).collect();
        let next_hop = IpAddr::from([192, 0, 2, 1]);
        for (per_attribute, messages) in [(1, 5000), (10, 500), (5000, 7)] {
            let paths = Paths { asn: 1, times: 1, next_hop, per_attribute };
            let all = lengths(&announce(&prefixes, &paths));
            assert_eq!(all.len(), messages);
            assert!(all.iter().all(|length| *length <= MESSAGE), "{all:?}");
        }
        let next_hop = "2001:db8::1".parse().unwrap();
        let paths = Paths { asn: 1, times: 200, next_hop, per_attribute: 5000 };
        assert!(lengths(&announce(&six, &paths)).iter().all(|length| *length <= MESSAGE));
        assert!(lengths(&withdraw(&prefixes)).iter().all(|length| *length <= MESSAGE));
        assert_eq!(lengths(&withdraw(&six)).len(), 21);
        assert_eq!(lengths(&end_of_rib(false)), [23]);
        assert_eq!(lengths(&end_of_rib(true)), [30]);
    }
}
