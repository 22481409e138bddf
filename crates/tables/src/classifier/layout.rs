//! Words of the tree, and what they lead to, bit by bit: all that a kernel depends on.
//!
//! ```text
//! 0                                    nothing
//! bit 62: a leaf    bits 0..30: its first line; bit 30: all words; bits 32..52: blocks
//! bit 63: a node    bits 0..30: its first line; bit 30: with a spill;
//!                   bits 32..37, 37..42, 42..46: shift, bits and word of its first field;
//!                   bits 46..51, 51..56, 56..60: those of its second one
//! ```
//!
//! A *line* is 64 bytes of the arena. A block has one line for each word of its rules: eight values,
//! then eight masks, of 32 bits each; and one line of eight entries of 64 bits: the rank of a rule
//! above its id. Rules are in ascending order of entries; what is left of the last block is filled with
//! patterns that no packet matches.
//!
//! A node is an array of words, one for each value of its first field and, above these bits, of its
//! second one. A line before it leads to its spill if there is one: the word of the spill, the smallest
//! entry in it (or a smaller one), and how many [visits](super::build::VISITS) it may take.

use super::BLOCK;
use super::pattern::Family;

/// 64-bit words of a line.
pub(super) const LINE: usize = 8;
/// The greatest line that a word can name.
pub(super) const MAX_LINES: usize = 1 << 30;
/// The most bits of the two fields of a node.
pub(super) const MAX_BITS: u32 = 14;
/// The entry of nothing.
pub(super) const NO_ENTRY: u64 = u64::MAX;

const LEAF: u64 = 1 << 62;
const NODE: u64 = 1 << 63;
const FLAG: u64 = 1 << 30;

/// A run of bits in a word of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    /// Which word.
    pub(super) word: u8,
    /// Bits of the word below the field.
    pub(super) shift: u8,
    /// Bits of the field; 0: there is none.
    pub(super) bits: u8,
}

/// A word of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Word(pub(super) u64);

impl Word {
    /// No rule is below it.
    pub(super) const EMPTY: Self = Self(0);

    pub(super) fn leaf(line: u32, blocks: usize, is_extended: bool) -> Self {
        debug_assert!(blocks < 1 << 20);
        Self(LEAF | u64::from(line) | if is_extended { FLAG } else { 0 } | (blocks as u64) << 32)
    }

    pub(super) fn node(line: u32, fields: [Field; 2], has_spill: bool) -> Self {
        let [first, second] = fields.map(|field| {
            u64::from(field.shift) | u64::from(field.bits) << 5 | u64::from(field.word) << 10
        });
        let flag = if has_spill { FLAG } else { 0 };
        Self(NODE | u64::from(line) | flag | first << 32 | second << 46)
    }

    #[inline(always)]
    pub(super) fn is_node(self) -> bool {
        self.0 & NODE != 0
    }

    #[inline(always)]
    pub(super) fn is_leaf(self) -> bool {
        self.0 & LEAF != 0
    }

    /// The position of its first word in the arena.
    #[inline(always)]
    pub(super) fn position(self) -> usize {
        (self.0 as u32 & (MAX_LINES as u32 - 1)) as usize * LINE
    }

    /// Its first line.
    pub(super) fn line(self) -> u32 {
        self.0 as u32 & (MAX_LINES as u32 - 1)
    }

    /// Of a leaf: whether its blocks have all words of the family.
    #[inline(always)]
    pub(super) fn is_extended(self) -> bool {
        self.0 & FLAG != 0
    }

    /// Of a node: whether a line for the spill is before its children.
    #[inline(always)]
    pub(super) fn has_spill(self) -> bool {
        self.0 & FLAG != 0
    }

    /// Blocks of a leaf.
    #[inline(always)]
    pub(super) fn blocks(self) -> usize {
        (self.0 >> 32) as usize & ((1 << 20) - 1)
    }

    /// The leaf without its first block, whose lines are given; empty after the last one.
    #[inline(always)]
    pub(super) fn after_block(self, lines: usize) -> Self {
        if self.blocks() > 1 { Self(self.0 + lines as u64 - (1 << 32)) } else { Self::EMPTY }
    }

    /// The fields of a node.
    #[inline(always)]
    pub(super) fn fields(self) -> [Field; 2] {
        [32, 46].map(|from| {
            let bits = (self.0 >> from) as u32;
            Field {
                shift: (bits & 31) as u8,
                bits: (bits >> 5 & 31) as u8,
                word: (bits >> 10 & 15) as u8,
            }
        })
    }

    /// Children of a node.
    pub(super) fn children(self) -> usize {
        let [first, second] = self.fields();
        1 << (first.bits + second.bits)
    }

    /// The position of a node's first child.
    #[inline(always)]
    pub(super) fn first_child(self) -> usize {
        self.position() + if self.has_spill() { LINE } else { 0 }
    }

    /// The position of the child of a node that a key leads to.
    #[inline(always)]
    pub(super) fn child(self, key: impl Fn(usize) -> u32) -> usize {
        let part = |from: u32| {
            let bits = (self.0 >> from) as u32;
            // Shifts count modulo 32.
            let word = key((bits >> 10 & 15) as usize).wrapping_shr(bits);
            word & !u32::MAX.wrapping_shl(bits >> 5)
        };
        let first_bits = (self.0 >> 37) as u32;
        self.first_child() + (part(32) | part(46).wrapping_shl(first_bits)) as usize
    }
}

/// Lines of a block.
#[inline(always)]
pub(super) fn block_lines(family: &Family, is_extended: bool) -> usize {
    1 + if is_extended { family.words } else { family.basic }
}

/// Lines of what a word leads to.
pub(super) fn lines(family: &Family, word: Word) -> usize {
    if word.is_leaf() {
        word.blocks() * block_lines(family, word.is_extended())
    } else {
        word.children().div_ceil(LINE) + usize::from(word.has_spill())
    }
}

/// Blocks of a leaf with so many rules.
pub(super) fn blocks(rules: usize) -> usize {
    rules.div_ceil(BLOCK)
}
