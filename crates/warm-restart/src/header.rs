//! The header of a region: whether the memory is a region of this layout, made since this machine started.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use zerocopy::IntoBytes;

use crate::record::{LINE, Shape, State, layout_digest};

/// Words of the header: a cache line.
pub(crate) const WORDS: usize = LINE;

const MAGIC: u64 = u64::from_le_bytes(*b"stoawarm");
/// The format of header and slots.
const FORMAT: u32 = 1;
/// Most slots of a region.
pub(crate) const CAPACITY_MAX: usize = 1 << 28;

/// Why the memory of an earlier process cannot be used. Its entries are lost.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It is not a memfd that nobody can shorten.
    #[error("it is not sealed memory")]
    Unsealed,
    /// It has no header.
    #[error("it is not a region")]
    NoRegion,
    /// The header is damaged.
    #[error("its header is damaged")]
    Damaged,
    /// Another program made it.
    #[error("it has format {found}, this program knows {FORMAT}")]
    Format {
        /// The format in the header.
        found: u32,
    },
    /// Another version of the capability made it.
    #[error("it has version {found}, this program has {expected}")]
    Version {
        /// The version in the header.
        found: u32,
        /// The version of this program.
        expected: u32,
    },
    /// The fields of the entries differ.
    #[error("its entries have other fields")]
    Layout,
    /// It is from before the last start of the machine.
    #[error("it is from before this machine started")]
    Boot,
    /// The memory does not have the size that the header states.
    #[error("it has {found} bytes and should have {expected}")]
    Size {
        /// Its size.
        found: u64,
        /// The size that the header implies.
        expected: u64,
    },
    /// The system refused to map it.
    #[error("the system refused: {0}")]
    System(#[from] nix::Error),
}

impl Unusable {
    /// Whether the region may have been in use by this version of the capability: state older than it must not come
    /// back, because sequence numbers would be used again.
    pub(crate) fn may_be_newest(&self) -> bool {
        match self {
            Self::Format { .. } | Self::Version { .. } | Self::Layout | Self::Boot => false,
            Self::Unsealed | Self::NoRegion => true,
            Self::Damaged | Self::Size { .. } | Self::System(_) => true,
        }
    }
}

/// Identifies this run of the machine; 0 where /proc does not tell.
pub(crate) fn boot_id() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0)
}

/// Words of a region with this capacity.
pub(crate) fn region_words<S: State>(capacity: usize) -> usize {
    WORDS + capacity * const { Shape::of::<S>() }.slot
}

fn checksum(words: &[u64]) -> u64 {
    crc32fast::hash(words.as_bytes()).into()
}

/// The header of a region with this capacity.
pub(crate) fn header<S: State>(capacity: usize, boot: u128) -> [u64; WORDS] {
    let mut words = [
        MAGIC,
        u64::from(FORMAT) << 32 | u64::from(S::VERSION),
        u64::from(layout_digest::<S>()) << 32 | const { Shape::of::<S>() }.slot as u64,
        capacity as u64,
        (boot >> 64) as u64,
        boot as u64,
        0,
        0,
    ];
    words[WORDS - 1] = checksum(&words[..WORDS - 1]);
    words
}

/// Writes the header of a region with this capacity. Nobody else knows the memory yet.
pub(crate) fn write<S: State>(memory: &[AtomicU64], capacity: usize, boot: u128) {
    for (word, value) in memory.iter().zip(header::<S>(capacity, boot)) {
        word.store(value, Release);
    }
}

/// Checks the header against the layout of this program, and returns the capacity.
pub(crate) fn check<S: State>(memory: &[AtomicU64], boot: u128) -> Result<usize, Unusable> {
    let mut found = [0; WORDS];
    if memory.len() < WORDS {
        return Err(Unusable::NoRegion);
    }
    for (value, word) in found.iter_mut().zip(memory) {
        *value = word.load(Acquire);
    }
    if found[0] != MAGIC {
        return Err(Unusable::NoRegion);
    }
    if found[WORDS - 1] != checksum(&found[..WORDS - 1]) {
        return Err(Unusable::Damaged);
    }
    let (format, version) = ((found[1] >> 32) as u32, found[1] as u32);
    if format != FORMAT {
        return Err(Unusable::Format { found: format });
    }
    if version != S::VERSION {
        return Err(Unusable::Version { found: version, expected: S::VERSION });
    }
    let capacity = usize::try_from(found[3]).unwrap_or(usize::MAX);
    if capacity > CAPACITY_MAX {
        return Err(Unusable::Damaged);
    }
    let expected = header::<S>(capacity, boot);
    if found[2] != expected[2] {
        return Err(Unusable::Layout);
    }
    if found[4..6] != expected[4..6] {
        return Err(Unusable::Boot);
    }
    let expected = region_words::<S>(capacity);
    if memory.len() != expected {
        let bytes = |words: usize| words as u64 * 8;
        return Err(Unusable::Size { found: bytes(memory.len()), expected: bytes(expected) });
    }
    Ok(capacity)
}
