//! Changes as bytes: a message is one block, whatever number of rows it has.
//!
//! ```text
//! change = length of the key, key, 0                      the key has no row any more
//!        | length of the key, key, length of the row + 1, row
//! ```
//!
//! Lengths are LEB128 numbers of at most five bytes.

/// Greatest length of a key in bytes.
pub const KEY_BYTES: usize = 1 << 10;
/// Greatest length of a row in bytes.
pub const ROW_BYTES: usize = 1 << 16;

/// Bytes that are no changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed at byte {at}: {reason}")]
pub struct Malformed {
    /// Offset of the error.
    pub at: usize,
    /// What is wrong.
    pub reason: &'static str,
}

/// A key or a row as bytes. Equal values have equal bytes: digests are those of the bytes.
pub trait Encode: Sized {
    /// Appends the bytes.
    fn encode(&self, to: &mut Vec<u8>);
    /// The value; `None` unless the bytes are exactly those of [`encode`](Self::encode).
    fn decode(bytes: &[u8]) -> Option<Self>;
}

impl Encode for u64 {
    fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self::from_be_bytes(bytes.try_into().ok()?))
    }
}

impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
}

impl Encode for Vec<u8> {
    fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The row; `None` removes it.
    pub row: Option<&'a [u8]>,
}

impl Change<'_> {
    /// Appends the change.
    pub fn write(&self, to: &mut Vec<u8>) {
        write_bytes(self.key, to);
        match self.row {
            None => to.push(0),
            Some(row) => {
                write_number(row.len() as u32 + 1, to);
                to.extend_from_slice(row);
            }
        }
    }
}

/// Appends bytes with their length.
pub(crate) fn write_bytes(bytes: &[u8], to: &mut Vec<u8>) {
    write_number(bytes.len() as u32, to);
    to.extend_from_slice(bytes);
}

fn write_number(mut number: u32, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Reads changes one after the other, and can continue where another reader stopped.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads from an offset on.
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at: at.min(bytes.len()) }
    }

    /// The offset of the next change.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The next change; `None` at the end.
    ///
    /// # Errors
    /// The bytes are no change.
    pub fn change(&mut self) -> Result<Option<Change<'a>>, Malformed> {
        let Some(key) = self.key()? else { return Ok(None) };
        let row = match self.number()? {
            0 => None,
            length if length as usize > ROW_BYTES + 1 => return Err(self.malformed("long row")),
            length => Some(self.take(length as usize - 1)?),
        };
        Ok(Some(Change { key, row }))
    }

    /// The next key with its length; `None` at the end.
    pub(crate) fn key(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let length = self.number()? as usize;
        if length > KEY_BYTES {
            return Err(self.malformed("long key"));
        }
        self.take(length).map(Some)
    }

    /// The next eight bytes as a number.
    pub(crate) fn digest(&mut self) -> Result<u64, Malformed> {
        let bytes = self.take(8)?.first_chunk().copied();
        Ok(u64::from_be_bytes(bytes.unwrap_or_default()))
    }

    fn number(&mut self) -> Result<u32, Malformed> {
        let mut number = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = *self.bytes.get(self.at).ok_or(self.malformed("cut off"))?;
            let low = u32::from(byte & 0x7f);
            if shift == 28 && low > 0xf {
                break;
            }
            self.at += 1;
            number |= low << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.malformed("long number"))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..length).ok_or(self.malformed("cut off"))?;
        self.at += length;
        Ok(taken)
    }

    fn malformed(&self, reason: &'static str) -> Malformed {
        Malformed { at: self.at, reason }
    }
}

/// The number of changes in a block.
///
/// # Errors
/// The block is malformed: nothing of it may be applied.
pub fn check(bytes: &[u8]) -> Result<usize, Malformed> {
    let (mut reader, mut changes) = (Reader::new(bytes, 0), 0);
    while reader.change()?.is_some() {
        changes += 1;
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Changes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

    fn changes() -> impl Strategy<Value = Changes> {
        let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
        prop::collection::vec((bytes(300), prop::option::of(bytes(300))), 0..20)
    }

    proptest! {
        #[test]
        fn changes_survive_the_bytes(changes in changes()) {
            let mut bytes = Vec::new();
            for (key, row) in &changes {
                Change { key, row: row.as_deref() }.write(&mut bytes);
            }
            prop_assert_eq!(check(&bytes), Ok(changes.len()));
            let mut reader = Reader::new(&bytes, 0);
            for (key, row) in &changes {
                // A reader of its own for each change: it continues at an offset.
                let mut here = Reader::new(&bytes, reader.at());
                let change = Change { key, row: row.as_deref() };
                prop_assert_eq!(here.change(), Ok(Some(change)));
                reader = here;
            }
            prop_assert_eq!(reader.change(), Ok(None));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = check(&bytes);
        }
    }

    #[test]
    fn malformed_blocks_are_refused_with_the_place() {
        let reason = |bytes: &[u8]| check(bytes).unwrap_err();
        assert_eq!(reason(&[2, 1]), Malformed { at: 1, reason: "cut off" });
        assert_eq!(reason(&[1, 1]), Malformed { at: 2, reason: "cut off" });
        assert_eq!(reason(&[1, 1, 3, 0]), Malformed { at: 3, reason: "cut off" });
        assert_eq!(reason(&[0xff; 6]).reason, "long number");
        assert_eq!(reason(&[0x81, 0x08]).reason, "long key");
        assert_eq!(reason(&[0, 0x82, 0x80, 0x04]).reason, "long row");
    }
}
