//! Reassembly compared with a naive model, a map of bytes: arbitrary fragments in arbitrary order.
#![no_main]

use std::collections::HashMap;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use stoa_forwarder::drops::Drop;
use stoa_forwarder::ip::reassembly::FragmentView;
use stoa_forwarder::ip::reassembly::context::MAX_DATA;
use stoa_forwarder::ip::reassembly::table::{Key, Outcome, Table};

#[derive(Arbitrary, Debug)]
struct Part {
    /// One of four packets, two of each source.
    packet: u8,
    /// In units of eight bytes.
    offset: u16,
    length: u16,
    more: bool,
    /// Changes the data.
    spoil: bool,
}

/// RFC 791 and RFC 5722, byte by byte.
#[derive(Default)]
struct Naive {
    bytes: HashMap<usize, u8>,
    end: Option<usize>,
    refused: bool,
}

impl Naive {
    fn insert(&mut self, offset: usize, more: bool, data: &[u8]) -> Option<Vec<u8>> {
        let end = offset + data.len();
        let known = (offset..end).filter(|at| self.bytes.contains_key(at)).count();
        let same = (offset..end).all(|at| self.bytes.get(&at) == Some(&data[at - offset]));
        let contradicts = match self.end {
            Some(known) if more => end >= known,
            Some(known) => end != known,
            None => !more && self.bytes.keys().any(|at| *at >= end),
        };
        self.refused |= contradicts || (known > 0 && !same);
        if self.refused || known > 0 {
            return None;
        }
        self.bytes.extend((offset..end).map(|at| (at, data[at - offset])));
        if !more {
            self.end = Some(end);
        }
        let end = self.end?;
        (self.bytes.len() == end).then(|| (0..end).map(|at| self.bytes[&at]).collect())
    }
}

fuzz_target!(|parts: Vec<Part>| {
    let mut table = Table::new(4);
    let mut naive: [Naive; 4] = Default::default();
    for (now, part) in parts.into_iter().take(200).enumerate() {
        let packet = usize::from(part.packet % 4);
        let offset = usize::from(part.offset % 8192) * 8;
        let length = usize::from(part.length % 1500);
        let data: Vec<u8> =
            (offset..offset + length).map(|at| at as u8 ^ u8::from(part.spoil)).collect();
        let key = Key {
            source: packet as u128 / 2,
            destination: 1,
            identification: packet as u32,
            protocol: 0,
            zone: 0,
        };
        let (head, more) = (&b"the headers"[..], part.more);
        let piece = FragmentView { key, head, offset, more, data: &data, rx_if: 0 };
        let outcome = table.insert(&piece, now as u64, (4, 4));
        let end = offset + length;
        if length == 0 || (more && length % 8 != 0) {
            assert_eq!(outcome, Outcome::Refused(Drop::FragmentMalformed));
            continue;
        }
        if end > usize::from(u16::MAX) {
            assert_eq!(outcome, Outcome::Refused(Drop::FragmentOverrun));
            continue;
        }
        if end > MAX_DATA {
            assert_eq!(outcome, Outcome::Refused(Drop::ReassemblyTooLong));
            continue;
        }
        let expected = naive[packet].insert(offset, more, &data);
        match outcome {
            Outcome::Complete(at) => {
                let (found, whole) = table.whole(at).expect("it is whole");
                assert_eq!((found, Some(whole)), (head, expected.as_deref()));
                table.remove(at);
                naive[packet] = Naive::default();
            }
            Outcome::Incomplete => assert!(expected.is_none() && !naive[packet].refused),
            Outcome::Refused(Drop::FragmentDuplicate) => assert!(!naive[packet].refused),
            Outcome::Refused(Drop::FragmentOverlap) => assert!(naive[packet].refused),
            Outcome::Refused(other) => panic!("{other:?}"),
        }
        assert!(table.len() <= 4);
    }
});
