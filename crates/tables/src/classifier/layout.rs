//! Words of the tree, and what they lead to, bit by bit: all that a kernel depends on.
//!
//! ```text
//! 0              nothing
//! bit 0          a node; bit 1: a leaf
//! bit 2          of a leaf: its blocks have all words
//! bits 3..31     the first line of a leaf, or that of a node's children
//! bit 31         of a node: with a spill
//! bits 32..52    of a leaf: blocks
//! bits 36..50    of a node: shift (5), bits (5) and word (4) of its first field
//! bits 50..64    of a node: those of its second field
//! ```
//!
//! A *line* is 64 bytes of the arena. A block has one line for each word of its rules: eight values,
//! then eight masks, of 32 bits each; and one line of eight entries of 64 bits: the rank of a rule
//! above its id. Rules are in ascending order of entries; what is left of the last block is filled with
//! patterns that no packet matches.
//!
//! A node is an array of words, one for each value of its first field and, above these bits, of its
//! second one. The line before it leads to its spill if there is one: the word of the spill, the
//! smallest entry in it (or a smaller one), and how many [visits](super::build::VISITS) it may take.

use super::BLOCK;
use super::pattern::Family;

/// 64-bit words of a line.
pub(super) const LINE: usize = 8;
/// The greatest line that a word can name.
pub(super) const MAX_LINES: usize = 1 << 28;
/// The most bits of the two fields of a node.
pub(super) const MAX_BITS: u32 = 14;
/// The entry of nothing.
pub(super) const NO_ENTRY: u64 = u64::MAX;

const NODE: u64 = 1;
const LEAF: u64 = 1 << 1;
const EXTENDED: u64 = 1 << 2;
const POSITION: u64 = (MAX_LINES as u64 - 1) << 3;
const SPILL: u64 = 1 << 31;
const BLOCKS: u32 = 32;
/// Where the fields begin.
const FIELDS: [u32; 2] = [36, 50];

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
        let flag = if is_extended { EXTENDED } else { 0 };
        Self(LEAF | u64::from(line) << 3 | flag | (blocks as u64) << BLOCKS)
    }

    /// A node whose memory begins at a line.
    pub(super) fn node(line: u32, fields: [Field; 2], has_spill: bool) -> Self {
        let [first, second] = fields.map(|field| {
            u64::from(field.shift) | u64::from(field.bits) << 5 | u64::from(field.word) << 10
        });
        let (flag, line) = if has_spill { (SPILL, line + 1) } else { (0, line) };
        Self(NODE | u64::from(line) << 3 | flag | first << FIELDS[0] | second << FIELDS[1])
    }

    #[inline(always)]
    pub(super) fn is_node(self) -> bool {
        self.0 & NODE != 0
    }

    #[inline(always)]
    pub(super) fn is_leaf(self) -> bool {
        self.0 & LEAF != 0
    }

    /// The position in the arena of a leaf's first block, or of a node's first child.
    #[inline(always)]
    pub(super) fn position(self) -> usize {
        (self.0 & POSITION) as usize
    }

    /// The position of the line that leads to a node's spill.
    #[inline(always)]
    pub(super) fn header(self) -> usize {
        self.position() - LINE
    }

    /// The first line of its memory.
    pub(super) fn line(self) -> u32 {
        (self.position() / LINE) as u32 - u32::from(self.has_spill())
    }

    /// Of a leaf: whether its blocks have all words of the family.
    #[inline(always)]
    pub(super) fn is_extended(self) -> bool {
        self.0 & EXTENDED != 0
    }

    /// Whether it is a node with a spill.
    #[inline(always)]
    pub(super) fn has_spill(self) -> bool {
        self.0 & SPILL != 0
    }

    /// Blocks of a leaf.
    #[inline(always)]
    pub(super) fn blocks(self) -> usize {
        (self.0 >> BLOCKS) as usize & ((1 << 20) - 1)
    }

    /// The leaf without its first block, whose lines are given; empty after the last one.
    #[inline(always)]
    pub(super) fn after_block(self, lines: usize) -> Self {
        if self.blocks() > 1 {
            Self(self.0 + ((lines as u64) << 3) - (1 << BLOCKS))
        } else {
            Self::EMPTY
        }
    }

    /// The fields of a node.
    #[inline(always)]
    pub(super) fn fields(self) -> [Field; 2] {
        FIELDS.map(|from| {
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

    /// The position of the child of a node that a key leads to; that of any word is no node is one, too.
    #[inline(always)]
    pub(super) fn child(self, key: impl Fn(usize) -> u32) -> usize {
        // Shifts count modulo 32.
        let part = |from: u32| {
            let word = key((self.0 >> (from + 10) & 15) as usize);
            word.wrapping_shr((self.0 >> from) as u32)
                & !u32::MAX.wrapping_shl((self.0 >> (from + 5)) as u32)
        };
        let first_bits = (self.0 >> (FIELDS[0] + 5)) as u32;
        let child = part(FIELDS[0]) | part(FIELDS[1]).wrapping_shl(first_bits);
        self.position() + child as usize
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
