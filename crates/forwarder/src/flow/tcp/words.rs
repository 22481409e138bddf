//! The state as words of a flow entry, of which each value is valid: so it can lie in memory that outlives the process.
//!
//! ```text
//! word 0, 1   end and acknowledged number of the original side; 2, 3: of the other side
//! word 4      window (12 bits) and scale (4) of the other side, of the original one
//! word 5      number (6), since (6), pending (4), phase (4), flags of the other side (6), of the original one (6)
//! ```

use stoa_tables::flow_table::TCP_WORDS;

use super::Tcp;
use super::window::Side;

// What a flow entry has room for.
const _: () = assert!(TCP_WORDS * size_of::<u32>() == 24);

/// Bits of a field of the last word.
const fn field(word: u32, at: u32, bits: u32) -> u8 {
    (word >> at & ((1 << bits) - 1)) as u8
}

impl Tcp {
    /// What a flow entry holds.
    #[inline(always)]
    pub fn words(&self) -> [u32; TCP_WORDS] {
        let [original, reply] = &self.sides;
        let windows = u32::from(original.window) | u32::from(reply.window) << 16;
        let flags = u32::from(original.flags & 0x3f) | u32::from(reply.flags & 0x3f) << 6;
        let rest = u32::from(self.phase & 0xf) << 12
            | u32::from(self.pending & 0xf) << 16
            | u32::from(self.since & 0x3f) << 20
            | u32::from(self.number) << 26;
        [original.end, original.acked, reply.end, reply.acked, windows, flags | rest]
    }

    /// The state that a flow entry holds.
    #[inline(always)]
    pub const fn from_words(words: [u32; TCP_WORDS]) -> Self {
        let [end, acked, reply_end, reply_acked, windows, rest] = words;
        let (window, reply_window) = (windows as u16, (windows >> 16) as u16);
        let original = Side { end, acked, window, flags: field(rest, 0, 6) };
        let reply = Side {
            end: reply_end,
            acked: reply_acked,
            window: reply_window,
            flags: field(rest, 6, 6),
        };
        Self {
            sides: [original, reply],
            phase: field(rest, 12, 4),
            pending: field(rest, 16, 4),
            since: field(rest, 20, 6),
            number: field(rest, 26, 6),
        }
    }
}
