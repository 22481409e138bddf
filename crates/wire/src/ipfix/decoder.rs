//! A small decoder of its own, for tests: it knows RFC 7011 and nothing of the encoder.

use std::collections::HashMap;

/// A record: the number of its template, and its values by enterprise and element.
pub(super) type Record = (u16, HashMap<(u32, u16), Vec<u8>>);
/// Enterprise, element and length.
type Field = (u32, u16, usize);

/// What a collector keeps of a stream.
#[derive(Default)]
pub(super) struct Collector {
    templates: HashMap<u16, Vec<Field>>,
}

/// What a message says.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub(super) time: u32,
    pub(super) sequence: u32,
    pub(super) domain: u32,
    pub(super) templates: Vec<u16>,
    pub(super) records: Vec<Record>,
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (first, rest) = bytes.split_at(length);
    *bytes = rest;
    first
}

fn number(bytes: &mut &[u8], length: usize) -> u32 {
    take(bytes, length).iter().fold(0, |all, byte| all << 8 | u32::from(*byte))
}

impl Collector {
    /// Decodes a message.
    ///
    /// # Panics
    /// It is malformed, or uses a template that was not sent.
    pub(super) fn decode(&mut self, mut message: &[u8]) -> Decoded {
        let whole = message.len();
        assert_eq!(number(&mut message, 2), 10, "version");
        assert_eq!(number(&mut message, 2) as usize, whole, "length");
        let mut decoded = Decoded {
            time: number(&mut message, 4),
            sequence: number(&mut message, 4),
            domain: number(&mut message, 4),
            ..Decoded::default()
        };
        while !message.is_empty() {
            let (id, length) = (number(&mut message, 2) as u16, number(&mut message, 2) as usize);
            let set = take(&mut message, length - 4);
            match id {
                2 | 3 => self.templates(set, id == 3, &mut decoded),
                256.. => self.records(set, id, &mut decoded),
                _ => panic!("set {id}"),
            }
        }
        decoded
    }

    fn templates(&mut self, mut set: &[u8], is_options: bool, decoded: &mut Decoded) {
        while set.len() >= 4 {
            let (id, count) = (number(&mut set, 2) as u16, number(&mut set, 2));
            if is_options {
                let scope = number(&mut set, 2);
                assert!((1..=count).contains(&scope), "scope {scope} of {count}");
            }
            let mut field = || {
                let (id, length) = (number(&mut set, 2) as u16, number(&mut set, 2) as usize);
                let enterprise = if id & 0x8000 != 0 { number(&mut set, 4) } else { 0 };
                (enterprise, id & 0x7fff, length)
            };
            let fields: Vec<Field> = (0..count).map(|_| field()).collect();
            self.templates.insert(id, fields);
            decoded.templates.push(id);
        }
        assert!(set.is_empty(), "{} bytes behind templates", set.len());
    }

    fn records(&self, mut set: &[u8], id: u16, decoded: &mut Decoded) {
        let fields = self.templates.get(&id).expect("a template before its records");
        let length: usize = fields.iter().map(|(.., length)| length).sum();
        assert_eq!(set.len() % length, 0, "whole records");
        while !set.is_empty() {
            let value = |(enterprise, id, length): &Field| {
                ((*enterprise, *id), take(&mut set, *length).to_vec())
            };
            decoded.records.push((id, fields.iter().map(value).collect()));
        }
    }
}
