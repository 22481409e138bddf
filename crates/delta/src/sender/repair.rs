//! Repairs differences that an audit has found.

use std::collections::HashMap;
use std::hash::Hash;

use super::{Entry, Sender};
use crate::audit;
use crate::codec::{Encode, Malformed};
use crate::digest;

impl<K: Encode + Clone + Eq + Hash, R: Encode + PartialEq> Sender<K, R> {
    /// Compares these slices with a list of the receiver's rows in them, and sends differences again. Returns their
    /// number.
    ///
    /// # Errors
    /// The list is malformed; nothing is sent.
    pub fn repair(&mut self, slices: &[u32], listed: &[u8]) -> Result<u64, Malformed> {
        let mut held: HashMap<&[u8], u64> = audit::listed(listed)?.into_iter().collect();
        let mut wrong = Vec::new();
        let mut key_bytes = Vec::new();
        for (slot, key, entry) in self.entries.iter_from(0) {
            if !slices.contains(&entry.slice.into()) {
                continue;
            }
            key_bytes.clear();
            key.encode(&mut key_bytes);
            let is_expected = entry.row.is_some() && !entry.is_refused;
            if held.remove(&key_bytes[..]) != is_expected.then_some(entry.digest) {
                wrong.push(slot);
            }
        }
        let different = wrong.len() + held.len();
        for slot in wrong {
            self.push(slot);
        }
        for bytes in held.into_keys() {
            let Some(key) = K::decode(bytes) else { continue };
            let gone = Entry {
                row: None,
                digest: 0,
                slice: digest::slice(digest::key(bytes)) as u8,
                is_queued: false,
                is_refused: false,
                sent_in: 0,
            };
            let (slot, _) = self.entries.find_or_insert(key, || gone);
            self.push(slot);
        }
        Ok(different as u64)
    }
}
