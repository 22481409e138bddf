//! One packet in reassembly: which of its bytes have been received. The hole list of RFC 815 as a
//! bitmap with a bit for each eight bytes, the unit of all fragments but the last.

use super::FragmentView;
use super::table::Key;

/// The longest data of a reassembled packet, in bytes: a jumbo buffer without headers.
pub const MAX_DATA: usize = 10_240;
/// The longest headers of a fragment, including the fragment header.
pub const MAX_HEADERS: usize = 256;

/// The state of a packet except its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Its key.
    pub key: Key,
    /// When its first fragment was received.
    pub born: u64,
    /// The receiving interface of its first fragment.
    pub rx_if: u32,
    units: [u64; MAX_DATA / 8 / 64],
    /// Bytes received.
    received: usize,
    /// The length of the data, once the last fragment is received.
    end: Option<usize>,
    /// Lengths of headers and data of the fragment at offset 0, once it is received.
    first: Option<(usize, usize)>,
    fragments: u32,
    /// Fragments contradict each other: all further fragments are dropped (RFC 5722).
    poisoned: bool,
}

/// The relation of a fragment to the received ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It fills a hole.
    New,
    /// All its bytes have been received; the caller compares them.
    Duplicate,
    /// It overlaps or contradicts received fragments.
    Overlap,
}

impl Context {
    /// An empty one.
    pub fn new(key: Key, born: u64, rx_if: u32) -> Self {
        Self {
            key,
            born,
            rx_if,
            units: [0; MAX_DATA / 8 / 64],
            received: 0,
            end: None,
            first: None,
            fragments: 0,
            poisoned: false,
        }
    }

    /// Number of fragments received.
    pub fn fragments(&self) -> u32 {
        self.fragments
    }

    /// Lengths of headers and data of the fragment at offset 0, once it is received.
    pub fn first(&self) -> Option<(usize, usize)> {
        self.first
    }

    /// Whether its fragments contradict each other.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Poisons the packet: all further fragments are dropped. Returns the number of fragments received
    /// so far, which the caller counts as dropped.
    pub fn poison(&mut self) -> u64 {
        (self.poisoned, self.first) = (true, None);
        u64::from(std::mem::take(&mut self.fragments))
    }

    /// The length of the data when the packet is complete.
    pub fn whole(&self) -> Option<usize> {
        self.end.filter(|end| *end == self.received && self.first.is_some() && !self.poisoned)
    }

    fn range(piece: &FragmentView<'_>) -> std::ops::Range<usize> {
        piece.offset / 8..(piece.offset + piece.data.len()).div_ceil(8)
    }

    fn has(&self, unit: usize) -> bool {
        self.units[unit / 64] & 1 << (unit % 64) != 0
    }

    /// The relation of a fragment that ends within [`MAX_DATA`] to the received ones.
    pub fn fit(&self, piece: &FragmentView<'_>) -> Fit {
        let end = piece.offset + piece.data.len();
        let contradicts = match self.end {
            // Only the last fragment ends at the end of the packet.
            Some(known) if piece.more => end >= known,
            Some(known) => end != known,
            None => !piece.more && self.reaches_beyond(end),
        };
        let there = Self::range(piece).filter(|unit| self.has(*unit)).count();
        match there {
            _ if contradicts => Fit::Overlap,
            0 => Fit::New,
            _ if there == Self::range(piece).len() => Fit::Duplicate,
            _ => Fit::Overlap,
        }
    }

    /// Whether data behind `end` has been received.
    fn reaches_beyond(&self, end: usize) -> bool {
        let first = end.div_ceil(8);
        (first..MAX_DATA / 8).any(|unit| self.has(unit))
            // The last unit is partial, but another fragment filled it completely.
            || (!end.is_multiple_of(8) && self.has(end / 8))
    }

    /// Records a fragment that is [`Fit::New`].
    pub fn insert(&mut self, piece: &FragmentView<'_>) {
        for unit in Self::range(piece) {
            self.units[unit / 64] |= 1 << (unit % 64);
        }
        self.received += piece.data.len();
        self.fragments += 1;
        if !piece.more {
            self.end = Some(piece.offset + piece.data.len());
        }
        if piece.offset == 0 {
            self.first = Some((piece.head.len(), piece.data.len()));
        }
    }
}
