//! One packet that is being put together: which of its bytes are there. The hole list of
//! RFC 815 as a bit for each eight bytes, which all fragments but the last are made of.

use super::FragmentView;
use super::table::Key;

/// The longest data that is put together, in bytes: what a jumbo buffer holds behind headers.
pub const MAX_DATA: usize = 10_240;
/// The longest headers of a fragment, the fragment header included.
pub const MAX_HEADERS: usize = 256;

/// What the table remembers beside the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Which packet.
    pub key: Key,
    /// When the first of its fragments came.
    pub born: u64,
    /// The interface of the first of its fragments.
    pub rx_if: u32,
    units: [u64; MAX_DATA / 8 / 64],
    /// Bytes that are there.
    received: usize,
    /// Where the data ends, once the last fragment came.
    end: Option<usize>,
    /// Length of the headers of the fragment at offset 0, once it came, and of its data.
    first: Option<(usize, usize)>,
    fragments: u32,
    /// Fragments did not agree: nothing more is taken (RFC 5722).
    poisoned: bool,
}

/// How a fragment fits to those that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It fills a gap.
    New,
    /// All its bytes are there; whether they are the same is for who has them to see.
    Duplicate,
    /// It contradicts.
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

    /// Fragments that were taken.
    pub fn fragments(&self) -> u32 {
        self.fragments
    }

    /// Lengths of headers and data of the fragment at offset 0, once it came.
    pub fn first(&self) -> Option<(usize, usize)> {
        self.first
    }

    /// Whether it is given up already.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Takes nothing more. The fragments so far are out of the packet accounting; who asks for them gets 0.
    pub fn poison(&mut self) -> u64 {
        (self.poisoned, self.first) = (true, None);
        u64::from(std::mem::take(&mut self.fragments))
    }

    /// The length of the whole, when nothing is missing.
    pub fn whole(&self) -> Option<usize> {
        self.end.filter(|end| *end == self.received && self.first.is_some() && !self.poisoned)
    }

    fn range(piece: &FragmentView<'_>) -> std::ops::Range<usize> {
        piece.offset / 8..(piece.offset + piece.data.len()).div_ceil(8)
    }

    fn has(&self, unit: usize) -> bool {
        self.units[unit / 64] & 1 << (unit % 64) != 0
    }

    /// How a fragment, which ends within [`MAX_DATA`], fits.
    pub fn fit(&self, piece: &FragmentView<'_>) -> Fit {
        let end = piece.offset + piece.data.len();
        let contradicts = match self.end {
            // A middle part never ends where the whole ends.
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

    /// Whether data behind `end` is there already.
    fn reaches_beyond(&self, end: usize) -> bool {
        let first = end.div_ceil(8);
        (first..MAX_DATA / 8).any(|unit| self.has(unit))
            // The last unit is cut, but a middle part filled it whole.
            || (!end.is_multiple_of(8) && self.has(end / 8))
    }

    /// Notes a fragment that is [`Fit::New`].
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
