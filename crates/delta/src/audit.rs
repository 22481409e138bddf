//! Audits of the receiver: digests computed from the capability's rows in force, and lists of single slices.

use crate::codec::{Encode, Malformed, Reader, write_bytes};
use crate::digest::{self, Digests, SLICES};
use crate::receiver::{Receiver, SCAN_ENTRIES, Store};

/// An audit in progress.
#[derive(Debug)]
pub struct Audit {
    /// The slices whose rows are listed.
    slices: [bool; SLICES],
    /// Where to continue.
    slot: u32,
    /// The change counter when the audit began.
    changes: u64,
    result: Audited,
}

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audited {
    /// Number and digests of the rows in force.
    pub digests: Digests,
    /// Rows of the capability without a key that the receiver knows.
    pub unknown: u64,
    /// Keys and digests of the slices that were asked for.
    pub listed: Vec<u8>,
    /// Rows changed meanwhile: audit again.
    pub is_changing: bool,
}

impl Audit {
    pub(crate) fn new(requested: &[u32], changes: u64) -> Self {
        let mut slices = [false; SLICES];
        for slice in requested {
            if let Some(slice) = slices.get_mut(*slice as usize) {
                *slice = true;
            }
        }
        Self { slices, slot: 0, changes, result: Audited::default() }
    }

    /// The result after the last step.
    pub fn into_result(self) -> Audited {
        self.result
    }

    /// Reads the next rows; true at the end.
    pub(crate) fn run<S: Store>(&mut self, receiver: &Receiver<S>, context: &S::Context) -> bool {
        self.result.is_changing |= self.changes != receiver.changes;
        let (mut key_bytes, mut row_bytes) = (Vec::new(), Vec::new());
        for (read, (slot, key, _)) in receiver.entries.iter_from(self.slot).enumerate() {
            if read == SCAN_ENTRIES {
                self.slot = slot;
                return false;
            }
            let Some(row) = receiver.store.get(context, key) else { continue };
            key_bytes.clear();
            row_bytes.clear();
            key.encode(&mut key_bytes);
            row.encode(&mut row_bytes);
            let hash = digest::key(&key_bytes);
            let (slice, digest) = (digest::slice(hash), digest::row(hash, &row_bytes));
            self.result.digests.add(slice, digest);
            if self.slices[slice] {
                write_bytes(&key_bytes, &mut self.result.listed);
                self.result.listed.extend(digest.to_be_bytes());
            }
        }
        let rows = receiver.store.rows(context);
        self.result.unknown = rows.saturating_sub(self.result.digests.rows);
        true
    }
}

/// The listed keys and digests.
///
/// # Errors
/// The bytes are no such list.
pub(crate) fn listed(bytes: &[u8]) -> Result<Vec<(&[u8], u64)>, Malformed> {
    let (mut reader, mut all) = (Reader::new(bytes, 0), Vec::new());
    while let Some(key) = reader.key()? {
        all.push((key, reader.digest()?));
    }
    Ok(all)
}
