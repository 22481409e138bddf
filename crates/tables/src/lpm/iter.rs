//! Every route of a table, for audits.

use super::key::{Key, STRIDE};
use super::rib::{NO_NODE, bits, index_prefix};
use super::writer::Lpm;

/// Positions of prefixes in one node.
const POSITIONS: usize = 126;

/// Iterator over `(prefix, length, value)`; see [`Lpm::iter`].
#[derive(Debug)]
pub struct Routes<'a, K> {
    lpm: &'a Lpm<K>,
    short_cell: usize,
    block: usize,
    /// Nodes still to be shown.
    stack: Vec<(u32, K, u8)>,
    /// The node in hand and the next position in it.
    current: Option<(u32, K, u8)>,
    position: usize,
}

impl<'a, K: Key> Routes<'a, K> {
    pub(super) fn new(lpm: &'a Lpm<K>) -> Self {
        Self { lpm, short_cell: 1, block: 0, stack: Vec::new(), current: None, position: 0 }
    }

    fn next_short(&mut self) -> Option<(K, u8, u32)> {
        while let Some(&value) = self.lpm.short.get(self.short_cell) {
            let cell = self.short_cell;
            self.short_cell += 1;
            if value != 0 {
                let len = cell.ilog2() as u8;
                return Some((K::from_leading(cell - (1 << len), len), len, value));
            }
        }
        None
    }

    fn next_in_node(&mut self) -> Option<(K, u8, u32)> {
        let (id, prefix, depth) = self.current?;
        while self.position < POSITIONS {
            let position = self.position;
            self.position += 1;
            if let Some(value) = self.lpm.rib.value(id, position) {
                let (len, bits) = index_prefix(position);
                return Some((prefix.with_bits(depth, len, bits), depth + len, value));
            }
        }
        None
    }

    /// Goes on to the next node; false after the last.
    fn next_node(&mut self) -> bool {
        while self.stack.is_empty() {
            let Some(&id) = self.lpm.blocks.get(self.block) else { return false };
            if id != NO_NODE {
                self.stack.push((id, K::from_leading(self.block, K::ROOT_BITS), K::ROOT_BITS));
            }
            self.block += 1;
        }
        self.current = self.stack.pop();
        self.position = 0;
        if let Some((id, prefix, depth)) = self.current {
            for slot in bits(self.lpm.rib.node(id).children) {
                let kid = self.lpm.rib.kid(id, slot);
                self.stack.push((kid, prefix.with_bits(depth, STRIDE, slot), depth + STRIDE));
            }
        }
        true
    }
}

impl<K: Key> Iterator for Routes<'_, K> {
    type Item = (K, u8, u32);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(route) = self.next_short() {
            return Some(route);
        }
        loop {
            if let Some(route) = self.next_in_node() {
                return Some(route);
            }
            if !self.next_node() {
                return None;
            }
        }
    }
}
