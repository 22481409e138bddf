//! What a capability declares: the plain types of its keys and values, and the layout that follows from them.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of the largest key or value.
const RECORD_MAX: usize = 4096;

/// A plain type without padding, whose every bit pattern is a value. [`record!`](crate::record!) declares one.
pub trait Record: FromBytes + IntoBytes + Immutable + Copy + Send + 'static {
    /// Its fields and their types. The layout of a region depends on this text.
    const FIELDS: &'static str;
}

macro_rules! plain {
    ($($type:ty),+) => { $(impl Record for $type { const FIELDS: &'static str = stringify!($type); })+ };
}
plain!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);

impl<const LENGTH: usize> Record for [u8; LENGTH] {
    // The length is part of the layout as the size.
    const FIELDS: &'static str = "bytes";
}

/// Declares a structure that can be a key or a value. Its fields are numbers and arrays of bytes, without padding
/// between them. The crate that uses this macro needs `zerocopy`.
///
/// ```
/// stoa_warm_restart::record! {
///     /// The sequence numbers of a security association.
///     pub struct Sequence {
///         pub sent: u64,
///         pub received: u64,
///     }
/// }
/// ```
#[macro_export]
macro_rules! record {
    (
        $(#[$about:meta])*
        $seen:vis struct $name:ident {
            $($(#[$detail:meta])* $field_seen:vis $field:ident: $type:ty),+ $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(
            Clone,
            Copy,
            Debug,
            PartialEq,
            Eq,
            $crate::zerocopy::FromBytes,
            $crate::zerocopy::IntoBytes,
            $crate::zerocopy::Immutable,
        )]
        #[repr(C)]
        $seen struct $name {
            $($(#[$detail])* $field_seen $field: $type),+
        }

        impl $crate::Record for $name {
            const FIELDS: &'static str =
                concat!($(stringify!($field), ": ", stringify!($type), ", "),+);
        }
    };
}

/// The state of one capability: what a region of it contains.
pub trait State: 'static {
    /// The name of its region: lower case and dashes, unique in the process.
    const NAME: &'static str;
    /// Increases when the meaning of the fields changes. A region of another version is discarded.
    const VERSION: u32;
    /// What identifies an entry. Two entries of a region never have the same key.
    type Key: Record;
    /// What changes.
    type Value: Record;

    /// Whether an entry makes sense. It comes from another process, perhaps of another version of the program: check
    /// all that later code relies on.
    fn is_valid(key: &Self::Key, value: &Self::Value) -> bool;
}

/// Sizes in words of eight bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Words of the key.
    pub(crate) key: usize,
    /// Words of one copy: two in front, the key, the value.
    pub(crate) copy: usize,
    /// Words of a slot: two copies, and up to the end of a cache line.
    pub(crate) slot: usize,
}

/// Words of a cache line.
pub(crate) const LINE: usize = 8;

impl Shape {
    pub(crate) const fn of<S: State>() -> Self {
        let (key_bytes, value_bytes) = (size_of::<S::Key>(), size_of::<S::Value>());
        assert!(key_bytes > 0 && key_bytes <= RECORD_MAX);
        assert!(value_bytes > 0 && value_bytes <= RECORD_MAX);
        let key = key_bytes.div_ceil(8);
        let copy = crate::slot::FRONT + key + value_bytes.div_ceil(8);
        Self { key, copy, slot: (2 * copy).next_multiple_of(LINE) }
    }
}

/// A digest of everything that two programs must agree about to share a region.
pub(crate) fn layout_digest<S: State>() -> u32 {
    let sizes = [size_of::<S::Key>(), size_of::<S::Value>()].map(|size| size as u64);
    let mut digest = crc32fast::Hasher::new();
    for text in [S::NAME, S::Key::FIELDS, S::Value::FIELDS] {
        digest.update(text.as_bytes());
        digest.update(&[0]);
    }
    digest.update(sizes.as_bytes());
    digest.finalize()
}
