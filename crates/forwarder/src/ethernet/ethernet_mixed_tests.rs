//! Tests of the mixed kernels against a model that reads each frame byte by byte.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use proptest::prelude::*;
use stoa_engine::pool::{HEADROOM, HugePages, Pool};
use stoa_engine::{PoolCache, VECTOR};

use super::*;
use crate::ethernet::vlan_table::{TagKey, VlanWriter};

/// The 802.1ad bit of a tag.
const AD: TagKey = 1 << 12;
/// Sub-interfaces by port and tags: single and double tags on the same outer tag, an interface that
/// is down (13), one with another MAC address (14), and one of a port that is down.
const SUB_INTERFACES: [(u32, u32, &[TagKey]); 8] = [
    (10, 1, &[100]),
    (11, 1, &[100, 200]),
    (12, 1, &[AD | 5, 7]),
    (13, 1, &[300]),
    (14, 1, &[400]),
    (15, 3, &[100]),
    (16, 4, &[AD | 100]),
    (17, 4, &[100, AD | 200]),
];
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OTHER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// What `next` and `rx_if` hold before.
const BEFORE: u16 = 77;

fn pool() -> &'static Pool {
    static POOL: OnceLock<&'static Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool::leak(1024, HugePages::Never).unwrap())
}

fn mac(interface: u32) -> [u8; 6] {
    if interface == 14 { OTHER_MAC } else { MAC }
}

/// Port 2 and interfaces 12 and 17 have features, port 3 and interface 13 are down.
fn flags(interface: u32) -> u32 {
    match interface {
        2 => UP | FEATURES_ETHERNET,
        12 | 17 => UP | FEATURES_ETHERNET | SUB_INTERFACE,
        3 | 13 => 0,
        10.. => UP | SUB_INTERFACE,
        _ => UP,
    }
}

fn attributes() -> &'static Attributes {
    static ATTRIBUTES: OnceLock<Attributes> = OnceLock::new();
    ATTRIBUTES.get_or_init(|| {
        let attributes = Attributes::new().unwrap();
        for interface in [1, 2, 3, 4, 10, 11, 12, 13, 14, 15, 16, 17] {
            let flags = flags(interface);
            attributes.set(interface, &mac(interface), flags & !FEATURES_ETHERNET, 0);
            attributes.set_flag(interface, FEATURES_ETHERNET, flags & FEATURES_ETHERNET != 0);
        }
        attributes
    })
}

fn vlans(kernel: Kernel) -> VlanTables {
    let mut writer = VlanWriter::new(kernel.lookup());
    let all = SUB_INTERFACES.iter();
    assert!(all.copied().all(|(interface, port, tags)| writer.set(interface, port, tags)));
    writer.finish().unwrap()
}

/// A frame of a port and its offset in the buffer.
type Frame = (u32, Vec<u8>, u16);

/// Frames of all kinds, most of which match, some of which are cut or have one wrong byte.
fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let tag = prop_oneof![
        6 => prop::sample::select(&[0, 5, 7, 100, 200, 300, 400][..]),
        1 => 0..0x1000_u16,
    ];
    let tag = (tag, any::<bool>(), 0..16_u16).prop_map(|(vid, is_ad, priority)| {
        let [tpid, tci] = [if is_ad { 0x88a8 } else { 0x8100_u16 }, priority << 12 | vid];
        [tpid.to_be_bytes(), tci.to_be_bytes()].concat()
    });
    let tags = |tags: &'static [TagKey]| {
        let bytes = |tag: &TagKey| match tag & AD {
            0 => [0x81, 0x00, (tag >> 8 & 0xf) as u8, *tag as u8],
            _ => [0x88, 0xa8, (tag >> 8 & 0xf) as u8, *tag as u8],
        };
        tags.iter().flat_map(bytes).collect::<Vec<u8>>()
    };
    let known = prop::sample::select(&SUB_INTERFACES[..])
        .prop_map(move |(_, port, its_tags)| (port, tags(its_tags)));
    let random =
        (1..5_u32, prop::collection::vec(tag, 0..4)).prop_map(|(port, tags)| (port, tags.concat()));
    let lane = prop_oneof![3 => known, 2 => random];
    let mac = prop_oneof![8 => Just(MAC), 1 => Just(OTHER_MAC), 1 => Just([0xff; 6])];
    let family = prop_oneof![
        4 => Just([0x08, 0x00_u8]), 4 => Just([0x86, 0xdd]), 1 => Just([0x08, 0x06]),
    ];
    let fault = prop_oneof![8 => Just(0_u8), 1 => 1..3_u8];
    let fault = (fault, 0..40_usize, any::<u8>());
    let frame = (lane, mac, family, fault, 0..200_u16).prop_map(
        |((port, tags), mac, family, (fault, at, by), shift)| {
            let mut bytes = [&mac[..], &OTHER_MAC, &tags, &family].concat();
            bytes.resize(60, 7);
            match fault {
                1 => bytes.truncate(at),
                2 => bytes[at % 24] ^= by,
                _ => {}
            }
            (port, bytes, shift)
        },
    );
    // A multiple of a step more often than not: the last step has rules of its own.
    prop_oneof![
        prop::collection::vec(frame.clone(), 1..=VECTOR),
        prop::collection::vec(frame, VECTOR),
    ]
}

/// The tags of a frame, the length of its header and its edge; `None`: it is not IP.
fn parsed(frame: &[u8]) -> Option<(Vec<TagKey>, u16, u16)> {
    let word = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    let (mut tags, mut at) = (Vec::new(), 12);
    while let tpid @ (0x8100 | 0x88a8) = word(at)? {
        let ad = if tpid == 0x88a8 { AD } else { 0 };
        tags.push(ad | word(at + 2)? & 0xfff);
        at += 4;
    }
    let edge = [0x0800, 0x86dd].iter().position(|it| word(at) == Some(*it))?;
    Some((tags, at as u16 + 2, edge as u16))
}

/// The interface of an IP frame, the length of its header and its edge.
fn located(port: u32, frame: &[u8]) -> Option<(u32, u16, u16)> {
    let known: BTreeMap<(u32, &[TagKey]), u32> =
        SUB_INTERFACES.iter().map(|(interface, port, tags)| ((*port, *tags), *interface)).collect();
    let (tags, length, edge) = parsed(frame)?;
    match (known.get(&(port, &tags)), &tags[..]) {
        (Some(interface), _) => Some((*interface, length, edge)),
        (None, [] | [0]) => Some((port, length, edge)),
        _ => None,
    }
}

/// Whether the flags under UP and FEATURES_ETHERNET are these.
fn has(interface: u32, expected: u32) -> bool {
    flags(interface) & (UP | FEATURES_ETHERNET) == expected
}

/// The same without exceptions.
fn expected(port: u32, frame: &[u8]) -> Option<(u32, u16, u16)> {
    let is_ready = |interface| has(interface, UP) && frame.starts_with(&mac(interface));
    located(port, frame).filter(|(interface, ..)| is_ready(*interface))
}

/// The same for a frame that has passed the features of its interface.
fn expected_behind(interface: u32, frame: &[u8]) -> Option<(u32, u16, u16)> {
    let (tags, length, edge) = parsed(frame)?;
    let is_sub = flags(interface) & SUB_INTERFACE != 0 && tags.len() <= 2;
    let is_here = is_sub || matches!(&tags[..], [] | [0]);
    let is_ready = has(interface, UP | FEATURES_ETHERNET) && frame.starts_with(&mac(interface));
    (is_here && is_ready).then_some((interface, length, edge))
}

/// A vector with these frames.
fn vector(cache: &mut PoolCache, frames: &[Frame]) -> Box<Vector> {
    let mut vector = Vector::new(pool());
    cache.fill(&mut vector, frames.len());
    for (lane, (interface, frame, shift)) in frames.iter().enumerate() {
        let at = HEADROOM + usize::from(*shift);
        vector.slot_mut(lane)[at..at + frame.len()].copy_from_slice(frame);
        (vector.offset[lane], vector.length[lane]) = (at as u16, frame.len() as u16);
        (vector.next[lane], vector.rx_if[lane]) = (BEFORE, *interface);
    }
    vector
}

/// Compares a kernel with a model. `is_behind`: the frames have passed their features.
fn agrees(
    kernel: Kernel,
    frames: &[Frame],
    pending: &Lanes,
    is_behind: bool,
) -> Result<(), TestCaseError> {
    let mut cache = PoolCache::new(pool());
    let mut vector = vector(&mut cache, frames);
    let (mut headers, vlans) = (Headers::default(), vlans(kernel));
    let tables = ((!is_behind).then_some(&vlans), attributes());
    let found = classify(kernel, &mut vector, pending, &mut headers, tables);
    let mut mixed = Mixed::default();
    let model = if is_behind { expected_behind } else { expected };
    for (lane, (port, frame, shift)) in frames.iter().enumerate() {
        let (step, bit) = (lane / STEP, 1 << (lane % STEP));
        let is_pending = pending[step] & bit != 0;
        let (mut interface, mut header, mut next) = (*port, 0, BEFORE);
        match model(*port, frame).filter(|_| is_pending) {
            Some(result) => {
                (interface, header, next) = result;
                mixed.families[usize::from(next)] = true;
                mixed.tagged[step] |= if interface == *port { 0 } else { bit };
            }
            None => mixed.exceptions[step] |= if is_pending { bit } else { 0 },
        }
        let before = (HEADROOM as u16 + shift, frame.len() as u16);
        prop_assert_eq!(headers.lengths[lane], before.1);
        let after = (vector.offset[lane], vector.length[lane]);
        prop_assert_eq!(after, (before.0 + header, before.1 - header), "lane {}", lane);
        prop_assert_eq!((vector.rx_if[lane], vector.next[lane]), (interface, next));
    }
    prop_assert_eq!(&found, &mixed, "{:?}", kernel);
    if !is_behind {
        features_take_theirs((&mut vector, &headers), frames, found.exceptions)?;
    }
    cache.free_from(&mut vector, 0);
    Ok(())
}

/// Of the exceptions, IP frames go to the features of their interfaces, unchanged.
fn features_take_theirs(
    (vector, headers): (&mut Vector, &Headers),
    frames: &[Frame],
    exceptions: Lanes,
) -> Result<(), TestCaseError> {
    let edge = |interface| 1000 + interface as u16;
    let (mut left, links) = (exceptions, attributes().link());
    let [featured, tagged] = take_featured(vector, &mut left, headers, links, edge);
    for lane in set_bits(&exceptions) {
        let (port, frame, shift) = &frames[lane];
        let interface = located(*port, frame).map(|(interface, ..)| interface);
        let interface = interface.filter(|it| has(*it, UP | FEATURES_ETHERNET));
        let is_in = |lanes: &Lanes| lanes[lane / STEP] >> (lane % STEP) & 1 == 1;
        prop_assert_eq!(
            (is_in(&featured), is_in(&left)),
            (interface.is_some(), interface.is_none())
        );
        prop_assert_eq!(is_in(&tagged), interface.is_some_and(|it| it != *port));
        prop_assert_eq!(vector.rx_if[lane], interface.unwrap_or(*port));
        prop_assert_eq!(vector.next[lane], interface.map_or(BEFORE, edge));
        let span = (vector.offset[lane], vector.length[lane]);
        prop_assert_eq!(span, (HEADROOM as u16 + shift, frame.len() as u16));
    }
    Ok(())
}

/// Of these, the lanes in use.
fn in_use(lanes: Lanes, frames: &[Frame]) -> Lanes {
    std::array::from_fn(|step| match frames.len().saturating_sub(step * STEP) {
        left @ 0..STEP => lanes[step] & ((1 << left) - 1),
        _ => lanes[step],
    })
}

proptest! {
    #[test]
    fn lanes_go_to_their_interfaces(
        frames in frames(),
        some in any::<Lanes>(),
        has_all in any::<bool>(),
    ) {
        let pending = in_use(if has_all { [u8::MAX; _] } else { some }, &frames);
        for kernel in Kernel::available() {
            agrees(kernel, &frames, &pending, false)?;
            let behind = frames.iter().map(|(port, frame, shift)| {
                let interface = located(*port, frame).map_or(*port, |(interface, ..)| interface);
                (interface, frame.clone(), *shift)
            });
            agrees(kernel, &behind.collect::<Vec<_>>(), &pending, true)?;
        }
    }
}

#[test]
fn the_model_knows_the_rules() {
    let frame = |tags: &[u8]| [&MAC[..], &OTHER_MAC, tags, &[0x08, 0x00]].concat();
    assert_eq!(expected(1, &frame(&[])), Some((1, 14, 0)));
    assert_eq!(expected(1, &frame(&[0x81, 0, 0xe0, 0])), Some((1, 18, 0)), "a priority tag");
    assert_eq!(expected(1, &frame(&[0x88, 0xa8, 0, 0])), None, "VID 0 of a provider");
    assert_eq!(expected(1, &frame(&[0x81, 0, 0, 100])), Some((10, 18, 0)));
    assert_eq!(expected(1, &frame(&[0x81, 0, 0, 100, 0x81, 0, 0, 200])), Some((11, 22, 0)));
    assert_eq!(expected(1, &frame(&[0x81, 0, 0, 100, 0x81, 0, 0, 201])), None);
    assert_eq!(expected(1, &frame(&[0x88, 0xa8, 0, 5])), None, "has double tags only");
    assert_eq!(expected(2, &frame(&[])), None, "features");
    assert_eq!(expected_behind(2, &frame(&[])), Some((2, 14, 0)));
    assert_eq!(expected_behind(2, &frame(&[0x81, 0, 0, 100])), None, "no sub-interface");
    assert_eq!(expected_behind(12, &frame(&[0x81, 0, 0, 100])), Some((12, 18, 0)));
    assert_eq!(expected(3, &frame(&[])), None, "down");
    assert_eq!(expected(1, &frame(&[0x81, 0, 0x01, 0x90])), None, "another MAC address");
}

#[test]
fn set_bits_are_the_lanes() {
    let mut lanes = [0; VECTOR / STEP];
    (lanes[0], lanes[5], lanes[31]) = (0b1000_0001, 0xff, 0x80);
    let expected: Vec<_> = [0, 7].into_iter().chain(40..48).chain([255]).collect();
    assert!(set_bits(&lanes).eq(expected));
}
