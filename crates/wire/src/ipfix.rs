//! IPFIX messages (RFC 7011), for an exporter: templates, data records, and messages of a bounded size. Records that
//! have both directions of a flow follow RFC 5103.
//!
//! ```text
//! message  version (10)  length  export time (s)  sequence  observation domain
//!          set: id  length  records ...
//!          set: ...
//! ```
//!
//! A [`Message`] has a buffer of its own, which is allocated once.

pub mod element;

#[cfg(test)]
mod decoder;
#[cfg(test)]
mod tests;

pub use element::Element;

/// Version of the protocol.
pub const VERSION: u16 = 10;
/// Bytes of the header of a message.
pub const HEADER: usize = 16;
/// Bytes of the header of a set.
pub const SET_HEADER: usize = 4;
/// The port of collectors, over UDP and TCP (RFC 7011 section 10).
pub const PORT: u16 = 4_739;
/// The lowest number of a template.
pub const FIRST_TEMPLATE: u16 = 256;
/// Bytes of a message, at least: room for each template of this crate's users.
pub const LEAST: usize = 512;

/// The set of templates.
const TEMPLATES: u16 = 2;
/// The set of options templates.
const OPTIONS_TEMPLATES: u16 = 3;

/// What the records of a set have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its number, at least [`FIRST_TEMPLATE`].
    pub id: u16,
    /// How many of the elements are the scope; 0: it is not an options template.
    pub scope: u16,
    /// The elements of a record, in their order.
    pub elements: &'static [Element],
}

impl Template {
    /// Bytes of a record.
    pub const fn record_length(&self) -> usize {
        let (mut length, mut at) = (0, 0);
        while at < self.elements.len() {
            length += self.elements[at].length as usize;
            at += 1;
        }
        length
    }

    /// Bytes of the template itself.
    pub const fn length(&self) -> usize {
        let (mut length, mut at) = (if self.scope == 0 { 4 } else { 6 }, 0);
        while at < self.elements.len() {
            length += if self.elements[at].enterprise == 0 { 4 } else { 8 };
            at += 1;
        }
        length
    }
}

/// The fields of a record that is being written.
pub struct Fields<'a>(&'a mut [u8]);

impl Fields<'_> {
    /// Appends bytes. What exceeds the template is left out, which [`Message::record`] refuses while it is tested.
    #[inline]
    pub fn bytes<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some((to, rest)) = std::mem::take(&mut self.0).split_first_chunk_mut::<N>() {
            *to = bytes;
            self.0 = rest;
        }
    }

    /// Appends a number of 8 bits.
    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.bytes([value]);
    }

    /// Appends a number of 16 bits.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.bytes(value.to_be_bytes());
    }

    /// Appends a number of 32 bits.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.bytes(value.to_be_bytes());
    }

    /// Appends a number of 64 bits.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.bytes(value.to_be_bytes());
    }
}

/// A message that is being written.
#[derive(Debug)]
pub struct Message {
    bytes: Box<[u8]>,
    length: usize,
    /// Number and begin of the last set.
    set: Option<(u16, usize)>,
    records: u32,
}

impl Message {
    /// An empty message of at most `size` bytes, header included; between [`LEAST`] and 65,535.
    pub fn new(size: usize) -> Self {
        let size = size.clamp(LEAST, u16::MAX.into());
        Self { bytes: vec![0; size].into_boxed_slice(), length: HEADER, set: None, records: 0 }
    }

    /// Forgets its sets.
    pub fn clear(&mut self) {
        (self.length, self.set, self.records) = (HEADER, None, 0);
    }

    /// Whether it has no set.
    pub fn is_empty(&self) -> bool {
        self.length == HEADER
    }

    /// Data records, of options templates too: what sequence numbers count (RFC 7011 section 3.1).
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Appends a template; whether there was room.
    pub fn template(&mut self, template: &Template) -> bool {
        let set = if template.scope == 0 { TEMPLATES } else { OPTIONS_TEMPLATES };
        let Some(to) = self.append(set, template.length()) else { return false };
        let mut fields = Fields(to);
        fields.u16(template.id);
        fields.u16(template.elements.len() as u16);
        if template.scope > 0 {
            fields.u16(template.scope);
        }
        for element in template.elements {
            let is_of_enterprise = element.enterprise != 0;
            fields.u16(element.id | if is_of_enterprise { 1 << 15 } else { 0 });
            fields.u16(element.length);
            if is_of_enterprise {
                fields.u32(element.enterprise);
            }
        }
        true
    }

    /// Appends a record of a template; whether there was room.
    #[inline]
    pub fn record(&mut self, template: &Template, write: impl FnOnce(&mut Fields<'_>)) -> bool {
        let Some(to) = self.append(template.id, template.record_length()) else { return false };
        let mut fields = Fields(to);
        write(&mut fields);
        debug_assert!(
            fields.0.is_empty(),
            "template {}: {} bytes left",
            template.id,
            fields.0.len()
        );
        self.records += 1;
        true
    }

    /// Room for some bytes of a set.
    #[inline]
    fn append(&mut self, set: u16, length: usize) -> Option<&mut [u8]> {
        let is_open = self.set.is_some_and(|(open, _)| open == set);
        let header = if is_open { 0 } else { SET_HEADER };
        let end = self.length + header + length;
        if end > self.bytes.len() {
            return None;
        }
        let begin = match self.set {
            Some((_, begin)) if is_open => begin,
            _ => self.length,
        };
        self.set = Some((set, begin));
        let [high, low] = set.to_be_bytes();
        let [length_high, length_low] = ((end - begin) as u16).to_be_bytes();
        let head = self.bytes.get_mut(begin..begin + SET_HEADER)?;
        head.copy_from_slice(&[high, low, length_high, length_low]);
        let from = self.length + header;
        self.length = end;
        self.bytes.get_mut(from..end)
    }

    /// The message as bytes.
    ///
    /// `time`: seconds since 1970. `sequence`: data records of the stream before this message, modulo 2^32.
    pub fn finish(&mut self, time: u32, sequence: u32, domain: u32) -> &mut [u8] {
        let length = self.length;
        let mut fields = Fields(&mut self.bytes[..HEADER]);
        fields.u16(VERSION);
        fields.u16(length as u16);
        fields.u32(time);
        fields.u32(sequence);
        fields.u32(domain);
        &mut self.bytes[..length]
    }
}

/// Changes the sequence number of a finished message: of another stream.
pub fn set_sequence(message: &mut [u8], sequence: u32) {
    if let Some(to) = message.get_mut(8..12) {
        to.copy_from_slice(&sequence.to_be_bytes());
    }
}
