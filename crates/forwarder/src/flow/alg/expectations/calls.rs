//! What calls of SIP have announced, and expect no more when they end.

use std::sync::atomic::Ordering;

use stoa_tables::flow_hash::mix;

use super::{Control, Expectations, Expected, Origin};

impl Expectations {
    /// The number of a text, for an [`Origin`]: a keyed hash. Never 0.
    pub fn number_of(&self, text: &[u8]) -> u32 {
        let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        let seed = self.seed ^ text.len() as u32;
        text.chunks(4).fold(mix(seed), |hash, bytes| mix(hash ^ word(bytes))).max(1)
    }

    /// Notes what has announced the expectation of a slot. That of a former one stays behind: it is checked.
    pub(super) fn note_origin(&self, slot: usize, origin: Origin) {
        if let Some(of_slot) = self.origins.get(slot) {
            of_slot.store(origin.name, Ordering::Relaxed);
        }
    }

    /// Expects no more of the media that a control connection has announced for a call: with any request, or with that
    /// of this number. Walks one word of each slot.
    pub fn forget_call(&self, control: Control, name: u32, request: Option<u16>) {
        if self.of_sip.load(Ordering::Relaxed) == 0 {
            return;
        }
        for (slot, origin) in self.slots.iter().zip(self.origins.iter()) {
            if origin.load(Ordering::Relaxed) != name {
                continue;
            }
            let Some(read) = slot.read() else { continue };
            let it = read.1;
            if it.kind == Expected::Media
                && it.control == control
                && it.origin.name == name
                && request.is_none_or(|request| it.origin.request == request)
            {
                self.release(slot, &read);
            }
        }
    }
}
