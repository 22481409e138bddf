//! The kernels agree with the scalar code, and the scalar code with a naive reader of its own.

use super::*;
use proptest::prelude::*;
use std::sync::OnceLock;
use stoa_engine::pool::{HugePages, Pool, SLOT};
use stoa_engine::{PoolCache, VECTOR};

fn pool() -> &'static Pool {
    static POOL: OnceLock<&'static Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool::leak(1024, HugePages::Never).unwrap())
}

/// A packet in its buffer.
#[derive(Clone, Debug)]
struct Packet {
    is_ip4: bool,
    bytes: Vec<u8>,
    offset: u16,
    is_jumbo: bool,
}

/// Headers of upper layers, mostly whole: the protocol in IPv4 and IPv6, and the bytes.
fn upper() -> impl Strategy<Value = (u8, u8, Vec<u8>)> {
    let protocol = prop_oneof![
        6 => Just((6, 6)),
        4 => Just((17, 17)),
        3 => Just((1, 58)),
        1 => prop::sample::select(vec![(132, 132), (136, 136), (33, 33), (50, 50), (47, 47), (58, 1)]),
        1 => any::<u8>().prop_map(|number| (number, number)),
    ];
    let length = prop_oneof![4 => 20..64_usize, 1 => 0..24_usize];
    let icmp = prop::sample::select(vec![0_u8, 3, 8, 11, 13, 14, 17, 42, 43, 128, 129, 135, 160]);
    (protocol, length, prop::collection::vec(any::<u8>(), 64), icmp, any::<u8>()).prop_map(
        |((four, six), length, mut bytes, icmp, odd)| {
            match four {
                // Mostly a data offset that fits.
                6 if odd % 4 != 0 => bytes[12] = 0x50 | odd & 0xf,
                1 => bytes[0] = icmp,
                _ => {}
            }
            bytes.truncate(length);
            (four, six, bytes)
        },
    )
}

/// Extension headers in front of an upper layer: number and bytes of each.
fn chain() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    let one = (prop::sample::select(vec![0_u8, 43, 44, 51, 60, 135]), any::<[u8; 24]>(), 0..3_u8)
        .prop_map(|(number, mut bytes, blocks)| {
            let length = match number {
                44 => 8,
                51 => (usize::from(blocks) + 2) * 4,
                _ => (usize::from(blocks) + 1) * 8,
            };
            bytes[1] = blocks;
            if number == 44 {
                // Often a first or atomic fragment.
                (bytes[2], bytes[3]) =
                    if blocks == 0 { (bytes[2], bytes[3]) } else { (0, blocks - 1) };
            }
            (number, bytes[..length].to_vec())
        });
    prop_oneof![
        4 => Just(Vec::new()),
        2 => prop::collection::vec(one.clone(), 1..3),
        1 => prop::collection::vec(one, 3..12),
    ]
}

fn ip4(
    header: [u8; 20],
    fragment: u16,
    odd: u8,
    (protocol, _, upper): (u8, u8, Vec<u8>),
) -> Vec<u8> {
    let mut bytes = header.to_vec();
    bytes[0] = if odd < 30 { header[0] } else { 0x45 };
    bytes[9] = protocol;
    bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
    let options = usize::from(bytes[0] & 0xf).saturating_sub(5) * 4;
    bytes.extend_from_slice(&[1; 40][..options]);
    if protocol == 51 {
        bytes.extend_from_slice(&[[6_u8, 1], [odd, 0]].concat());
        bytes.extend_from_slice(&[0; 8]);
    }
    bytes.extend(upper);
    let length = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    bytes
}

fn ip6(
    header: [u8; 40],
    chain: &[(u8, Vec<u8>)],
    (_, protocol, upper): (u8, u8, Vec<u8>),
) -> Vec<u8> {
    let mut bytes = header.to_vec();
    bytes[0] = header[0] & 0xf | 0x60;
    let mut named_at = 6;
    for (number, extension) in chain {
        bytes[named_at] = *number;
        named_at = bytes.len();
        bytes.extend_from_slice(extension);
    }
    bytes[named_at] = protocol;
    bytes.extend(upper);
    let length = (bytes.len() - 40) as u16;
    bytes[4..6].copy_from_slice(&length.to_be_bytes());
    bytes
}

fn packet() -> impl Strategy<Value = Packet> {
    let fragment = prop_oneof![4 => Just(0_u16), 2 => Just(0x4000), 1 => any::<u16>(), 1 => Just(0x2000), 1 => Just(1)];
    let four = (any::<[u8; 20]>(), fragment, any::<u8>(), upper())
        .prop_map(|(header, fragment, odd, upper)| (true, ip4(header, fragment, odd, upper)));
    let six = (any::<[u8; 40]>(), chain(), upper())
        .prop_map(|(header, chain, upper)| (false, ip6(header, &chain, upper)));
    let place = prop_oneof![8 => 100..150_u16, 1 => (SLOT as u16 - 80)..SLOT as u16];
    // Cut, or with one byte changed.
    let fault = prop_oneof![6 => Just(None), 1 => (any::<u8>(), any::<prop::sample::Index>()).prop_map(Some)];
    (prop_oneof![four, six], place, fault, 0..60_u8).prop_map(
        |((is_ip4, mut bytes), offset, fault, rare)| {
            if let Some((value, at)) = fault {
                let at = at.index(bytes.len());
                if value % 2 == 0 {
                    bytes.truncate(at);
                } else {
                    bytes[at] = value;
                }
            }
            bytes.truncate(SLOT - usize::from(offset));
            Packet { is_ip4, bytes, offset, is_jumbo: rare == 0 }
        },
    )
}

fn filled(cache: &mut PoolCache, packets: &[Packet]) -> Box<Vector> {
    let mut vector = Vector::new(pool());
    assert_eq!(cache.fill(&mut vector, packets.len()), packets.len());
    for (lane, packet) in packets.iter().enumerate() {
        assert!(!packet.is_jumbo || cache.enlarge(&mut vector, lane));
        let (start, end) = (packet.offset.into(), usize::from(packet.offset) + packet.bytes.len());
        vector.slot_mut(lane).fill(0xa5);
        vector.slot_mut(lane)[start..end].copy_from_slice(&packet.bytes);
        (vector.offset[lane], vector.length[lane]) = (packet.offset, packet.bytes.len() as u16);
    }
    vector
}

/// The columns of a lane; words of addresses that mean nothing are 0.
fn lane(fields: &Fields, lane: usize) -> PacketFields {
    let kind = Kind(fields.kind[lane]);
    let words = if kind.is_ip6() { 4 } else { 1 };
    let mut packet = PacketFields { ports: fields.ports[lane], kind, ..PacketFields::default() };
    packet.place = Place(fields.place[lane]);
    for word in 0..words {
        packet.source[word] = fields.source[word][lane];
        packet.destination[word] = fields.destination[word][lane];
    }
    packet
}

fn columns(kernel: Kernel, vector: &Vector, packets: Packets) -> (bool, Vec<PacketFields>) {
    let mut fields = Fields::new();
    let is_wide = fill(kernel, vector, packets, &mut fields);
    (is_wide, (0..vector.len()).map(|at| lane(&fields, at)).collect())
}

/// What a naive reader finds: protocol, place of the upper layer, part, mark, ports, TCP flags.
type Found = (u8, usize, Fragment, Option<Malformed>, u32, u8);

/// Walks headers one by one, without any code of the kernels.
fn read(bytes: &[u8], is_ip4: bool) -> Option<Found> {
    let be = |at: usize| Some(usize::from(*bytes.get(at)?) << 8 | usize::from(*bytes.get(at + 1)?));
    let fixed = if is_ip4 { 20 } else { 40 };
    if bytes.len() < fixed {
        return None;
    }
    let length = if is_ip4 { be(2)? } else { 40 + be(4)? };
    let (mut next, mut at) =
        if is_ip4 { (bytes[9], usize::from(bytes[0] & 15) * 4) } else { (bytes[6], 40) };
    let start = at;
    let first = next;
    let cut = |part| Some((first, start, part, Some(Malformed::Truncated), 0, 0));
    if length > bytes.len() || at < fixed || at > length || (!is_ip4 && bytes[0] >> 4 != 6) {
        return cut(Fragment::No);
    }
    let bytes = &bytes[..length];
    let mut part = Fragment::No;
    if is_ip4 {
        let (offset, more) = (be(6)? & 0x1fff, be(6)? & 0x2000 != 0);
        part = if offset != 0 {
            Fragment::Later
        } else if more {
            Fragment::First
        } else {
            Fragment::No
        };
        if part == Fragment::Later {
            let is_tiny = offset == 1 && next == 6;
            return Some((next, at, part, is_tiny.then_some(Malformed::TinyFragment), 0, 0));
        }
    }
    let mut count = 0;
    loop {
        let is_extension = next == 51 || !is_ip4 && [0, 43, 44, 60, 135, 139, 140].contains(&next);
        if part == Fragment::Later || !is_extension {
            break;
        }
        let tiny =
            if part == Fragment::First { Malformed::TinyFragment } else { Malformed::Extensions };
        let broken = Some((first, start, part, Some(tiny), 0, 0));
        if count == 8 || next == 0 && count > 0 || at + 2 > bytes.len() {
            return broken;
        }
        let units = usize::from(bytes[at + 1]);
        let size = match next {
            44 => 8,
            51 => units * 4 + 8,
            _ => units * 8 + 8,
        };
        if at + size > bytes.len() {
            return broken;
        }
        if next == 44 {
            let word = usize::from(bytes[at + 2]) << 8 | usize::from(bytes[at + 3]);
            // A fragment of a fragment stays what it is.
            part = match (word >> 3, word & 1, part) {
                (0, 0, part) => part,
                (0, _, _) => Fragment::First,
                _ => Fragment::Later,
            };
        }
        (next, at, count) = (bytes[at], at + size, count + 1);
    }
    if part == Fragment::Later {
        return Some((next, at, part, None, 0, 0));
    }
    let rest = &bytes[at.min(bytes.len())..];
    let icmp = if is_ip4 { 1 } else { 58 };
    let least = match next {
        6 => 20,
        17 | 136 => 8,
        132 | 33 => 12,
        number if number == icmp => 8,
        _ => return Some((next, at, part, None, 0, 0)),
    };
    let short = |what| if part == Fragment::First { Malformed::TinyFragment } else { what };
    let wrong = |what| Some((next, at, part, Some(what), 0, 0));
    if rest.len() < least {
        return wrong(short(Malformed::Truncated));
    }
    let data = usize::from(rest[12 % rest.len()] >> 4) * 4;
    if next == 6 && data < 20 {
        return wrong(Malformed::DataOffset);
    }
    if next == 6 && data > rest.len() {
        return wrong(short(Malformed::DataOffset));
    }
    let mut words = [rest[0], rest[1], rest[2], rest[3]];
    if next == icmp {
        let queries: &[u8] =
            if is_ip4 { &[0, 8, 13, 14, 15, 16, 17, 18, 42, 43] } else { &[128, 129, 160, 161] };
        (words[2], words[3]) = if queries.contains(&rest[0]) { (rest[4], rest[5]) } else { (0, 0) };
    }
    let flags = if next == 6 { rest[13] } else { 0 };
    Some((next, at, part, None, u32::from_be_bytes(words), flags))
}

proptest! {
    #[test]
    fn scalar_code_finds_what_a_naive_reader_finds(packet in packet()) {
        let bytes = &packet.bytes[..];
        let found = if packet.is_ip4 { of_ip4(bytes) } else { of_ip6(bytes) };
        let Some((protocol, at, part, malformed, ports, flags)) = read(bytes, packet.is_ip4) else {
            prop_assert_eq!(found.kind.malformed(), Some(Malformed::Truncated));
            return Ok(());
        };
        prop_assert_eq!(found.kind.malformed(), malformed);
        prop_assert_eq!((found.kind.protocol(), found.kind.part()), (protocol, part));
        prop_assert_eq!((usize::from(found.place.upper()), found.ports), (at, ports));
        prop_assert_eq!((found.kind.tcp_flags(), found.kind.is_ip6()), (flags, !packet.is_ip4));
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let class = if packet.is_ip4 { bytes[1] } else { (word(0) >> 20) as u8 };
        prop_assert_eq!(found.kind.dscp(), class >> 2);
        let length = if packet.is_ip4 { word(0) & 0xffff } else { (40 + (word(4) >> 16)).min(65_535) };
        prop_assert_eq!(u32::from(found.place.length()), length);
        let (start, words) = if packet.is_ip4 { (12, 1) } else { (8, 4) };
        for number in 0..words {
            prop_assert_eq!(found.source[number], word(start + 4 * number));
            prop_assert_eq!(found.destination[number], word(start + 4 * (words + number)));
        }
    }

    /// Rules see the ICMP type and code, flow tables the identifier and the type of the request.
    #[test]
    fn ports_are_converted_for_rules_and_flows(packet in packet()) {
        use stoa_tables::classifier;
        let bytes = &packet.bytes[..];
        let found = if packet.is_ip4 { of_ip4(bytes) } else { of_ip6(bytes) };
        let (rule, flow) = (found.kind.rule_ports(found.ports), found.kind.flow_ports(found.ports));
        let [message, code, rest @ ..] = found.ports.to_be_bytes();
        let identifier = u16::from_be_bytes(rest);
        if found.kind.protocol() == if packet.is_ip4 { 1 } else { 58 } {
            prop_assert_eq!(rule, classifier::ports(message.into(), code.into()));
            let expected = match icmp_query::of(!packet.is_ip4, message) {
                Some((request, false)) => classifier::ports(identifier, request.into()),
                Some((request, true)) => classifier::ports(request.into(), identifier),
                None => 0,
            };
            prop_assert_eq!(flow, expected);
        } else {
            prop_assert_eq!((rule, flow), (found.ports, found.ports));
        }
    }

    #[test]
    fn all_kernels_fill_the_same(
        packets in prop::collection::vec(packet(), 0..=VECTOR),
        family in prop::sample::select(vec![Packets::Ip4, Packets::Ip6, Packets::Both]),
    ) {
        let mut packets = packets;
        match family {
            Packets::Ip4 => packets.retain(|packet| packet.is_ip4),
            Packets::Ip6 => packets.retain(|packet| !packet.is_ip4),
            Packets::Both => {}
        }
        let mut cache = PoolCache::new(pool());
        let mut vector = filled(&mut cache, &packets);
        let expected = columns(Kernel::Scalar, &vector, family);
        for kernel in Kernel::available().skip(1) {
            prop_assert_eq!(&columns(kernel, &vector, family), &expected, "{:?}", kernel);
        }
        if family != Packets::Both {
            for (at, packet) in packets.iter().enumerate() {
                let scalar = if packet.is_ip4 { of_ip4(&packet.bytes) } else { of_ip6(&packet.bytes) };
                prop_assert_eq!(expected.1[at], scalar);
            }
        }
        of(Kernel::detect(), &mut vector, family);
        prop_assert!(vector.known_fields().is_some());
        cache.free_from(&mut vector, 0);
    }
}
