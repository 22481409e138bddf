//! The sequence numbers of keys that were in use: a key goes on where it has ended, as long as the forwarder runs, so
//! that no nonce occurs twice. The controller sees to it that a key is not used by the next forwarder
//! (`controller/src/ipsec/used_keys.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use stoa_crypto::Fingerprint;

use crate::ipsec::association::Outbound;

/// Keys whose numbers are remembered.
const KEYS: usize = 1 << 18;

/// The last sequence numbers.
#[derive(Default)]
pub(super) struct Numbers {
    last: BTreeMap<Fingerprint, u64>,
    /// Associations that workers may still use.
    parting: BTreeMap<Fingerprint, Vec<Arc<Outbound>>>,
}

impl Numbers {
    /// Whether a key is known, or may become known.
    pub(super) fn has_room(&self, key: Fingerprint) -> Result<(), usize> {
        let is_full = self.last.len() + self.parting.len() >= KEYS;
        if is_full && !self.last.contains_key(&key) { Err(KEYS) } else { Ok(()) }
    }

    /// An association is replaced or withdrawn soon.
    pub(super) fn part(&mut self, key: Fingerprint, outbound: Arc<Outbound>) {
        self.parting.entry(key).or_default().push(outbound);
    }

    /// Remembers the numbers of associations that nobody uses any more, and frees their keys.
    pub(super) fn collect(&mut self) {
        let last = &mut self.last;
        self.parting.retain(|key, all| {
            all.retain(|outbound| {
                let is_in_use = Arc::strong_count(outbound) > 1;
                if !is_in_use {
                    note(last, *key, outbound.sent().0);
                }
                is_in_use
            });
            !all.is_empty()
        });
    }

    /// The number behind which the packets of a key go on. Associations that part with it send no more.
    pub(super) fn after(&mut self, key: Fingerprint) -> u64 {
        for outbound in self.parting.remove(&key).unwrap_or_default() {
            note(&mut self.last, key, outbound.retire());
        }
        self.last.get(&key).copied().unwrap_or_default()
    }
}

/// Remembers the last number of a key. One that finds no room may begin anew: its algorithm permits it
/// ([`Numbers::has_room`]).
fn note(last: &mut BTreeMap<Fingerprint, u64>, key: Fingerprint, number: u64) {
    let is_full = last.len() >= KEYS;
    match last.get_mut(&key) {
        Some(known) => *known = number.max(*known),
        None if is_full => {}
        None => drop(last.insert(key, number)),
    }
}
