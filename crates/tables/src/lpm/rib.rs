//! The writer's bookkeeping below the root: which prefixes end in which group of six bits.
//!
//! A node stands for one group of six bits under the root, like a chunk of the shared side. The
//! prefixes that end in it (1 to 6 bits longer than the node's depth) are bits of a 126-bit set;
//! their values lie packed in the order of those bits, the children in the order of theirs.
//! Removing shrinks in place and never needs space.

use crate::pages::Pages;

use super::Limit;

/// No node; also the parent word of a block that has none.
pub(crate) const NO_NODE: u32 = 0;
/// Slots of a node.
pub(crate) const SLOTS: usize = 64;

/// One group of six bits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Node {
    /// Bit `(1 << len) - 2 + bits`: the prefix of relative length `len` (1..=6) exists.
    prefixes: [u64; 2],
    /// Bit `i`: a longer prefix begins with the six bits `i`.
    pub(crate) children: u64,
    /// What covers the whole node: the value of the longest prefix that ends above it.
    pub(crate) cover: u32,
    /// The word that leads here from above: a leaf, or the position of the chunk.
    pub(crate) word: u32,
    values: u32,
    kids: u32,
}

/// Position of a prefix in a node's set.
pub(crate) fn prefix_index(len: u8, bits: usize) -> usize {
    debug_assert!((1..=6).contains(&len) && bits < 1 << len);
    (1 << len) - 2 + bits
}

/// Relative length and bits of a position in the set.
pub(crate) fn index_prefix(index: usize) -> (u8, usize) {
    let len = (index + 2).ilog2();
    (len as u8, index + 2 - (1 << len))
}

impl Node {
    pub(crate) fn has(&self, index: usize) -> bool {
        self.prefixes[index / 64] >> (index % 64) & 1 == 1
    }

    fn rank(&self, index: usize) -> usize {
        let below = |word: u64| (word & !(u64::MAX << (index % 64))).count_ones() as usize;
        if index < 64 {
            below(self.prefixes[0])
        } else {
            self.prefixes[0].count_ones() as usize + below(self.prefixes[1])
        }
    }

    fn count(&self) -> usize {
        (self.prefixes[0].count_ones() + self.prefixes[1].count_ones()) as usize
    }

    fn kid_rank(&self, slot: usize) -> usize {
        (self.children & !(u64::MAX << slot)).count_ones() as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.prefixes == [0, 0] && self.children == 0
    }
}

/// All nodes of a table, and the runs of words that hold their values and children.
#[derive(Debug)]
pub(crate) struct Rib {
    nodes: Vec<Node>,
    free_nodes: Vec<u32>,
    node_limit: usize,
    pages: Pages,
    /// Two 32-bit cells per word of `pages`.
    cells: Vec<u32>,
}

impl Rib {
    pub(crate) fn new(node_limit: usize, words: usize) -> Self {
        let node_limit = node_limit.min(u32::MAX as usize - 1);
        let mut nodes = Vec::with_capacity(node_limit + 1);
        nodes.push(Node::default()); // NO_NODE
        let words = words.min(u32::MAX as usize / 2);
        // `vec!` of zeros maps zeroed pages and touches none.
        Self {
            nodes,
            free_nodes: Vec::new(),
            node_limit,
            pages: Pages::new(words),
            cells: vec![0; 2 * words],
        }
    }

    pub(crate) fn node(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }

    pub(crate) fn node_mut(&mut self, id: u32) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    /// Prefetches the values of a node.
    #[inline]
    pub(crate) fn prefetch_values(&self, id: u32) {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        super::kernel::prefetch(&self.cells, self.node(id).values as usize * 2);
        let _ = id;
    }

    /// Prefetches a node.
    #[inline]
    pub(crate) fn prefetch_node(&self, id: u32) {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        super::kernel::prefetch(&self.nodes, id as usize);
        let _ = id;
    }

    /// Prefetches the children of a node.
    #[inline]
    pub(crate) fn prefetch_kids(&self, id: u32) {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        super::kernel::prefetch(&self.cells, self.node(id).kids as usize * 2);
        let _ = id;
    }

    /// The slots of a node where a prefix or a child begins.
    pub(crate) fn starts(&self, id: u32) -> u64 {
        let node = self.node(id);
        // Those of six bits are the last 64 of the set's 126.
        let mut starts = node.children | node.prefixes[0] >> 62 | node.prefixes[1] << 2;
        for position in bits(node.prefixes[0] & (u64::MAX >> 2)) {
            let (len, bits) = index_prefix(position);
            starts |= 1 << (bits << (6 - len));
        }
        starts
    }

    /// Bytes of nodes and cells that have been touched.
    pub(crate) fn touched_bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node>()
            + self.free_nodes.capacity() * size_of::<u32>()
            + self.pages.touched_words() * 8
            + self.pages.map_bytes()
    }

    /// A new node without prefixes, whose every address is covered by `cover`.
    pub(crate) fn create(&mut self, cover: u32) -> Result<u32, Limit> {
        let node = Node { cover, word: cover, ..Node::default() };
        if let Some(id) = self.free_nodes.pop() {
            self.nodes[id as usize] = node;
            return Ok(id);
        }
        if self.nodes.len() > self.node_limit {
            return Err(Limit::Nodes);
        }
        self.nodes.push(node);
        Ok(self.nodes.len() as u32 - 1)
    }

    /// Forgets an empty node.
    pub(crate) fn destroy(&mut self, id: u32) {
        debug_assert!(self.node(id).is_empty());
        self.free_nodes.push(id);
    }

    /// The child for the six bits `slot`, or `NO_NODE`.
    pub(crate) fn kid(&self, id: u32, slot: usize) -> u32 {
        let node = self.node(id);
        if node.children >> slot & 1 == 0 {
            return NO_NODE;
        }
        self.cells[node.kids as usize * 2 + node.kid_rank(slot)]
    }

    /// The children of a node with their slots, ascending.
    pub(crate) fn kids(&self, id: u32) -> impl Iterator<Item = (usize, u32)> + '_ {
        let node = self.node(id);
        let cells = &self.cells[node.kids as usize * 2..];
        bits(node.children).zip(cells.iter().copied())
    }

    pub(crate) fn add_kid(&mut self, id: u32, slot: usize, kid: u32) -> Result<(), Limit> {
        let node = self.nodes[id as usize];
        let count = node.children.count_ones() as usize;
        let kids = self.insert_cell(node.kids, count, node.kid_rank(slot), kid)?;
        let node = self.node_mut(id);
        node.kids = kids;
        node.children |= 1 << slot;
        Ok(())
    }

    pub(crate) fn remove_kid(&mut self, id: u32, slot: usize) {
        let node = self.nodes[id as usize];
        self.remove_cell(node.kids, node.children.count_ones() as usize, node.kid_rank(slot));
        self.node_mut(id).children &= !(1 << slot);
    }

    /// The value cell of a prefix that ends in the node.
    pub(crate) fn value_mut(&mut self, id: u32, index: usize) -> Option<&mut u32> {
        let node = self.nodes[id as usize];
        node.has(index).then(|| &mut self.cells[node.values as usize * 2 + node.rank(index)])
    }

    pub(crate) fn value(&self, id: u32, index: usize) -> Option<u32> {
        let node = self.node(id);
        node.has(index).then(|| self.cells[node.values as usize * 2 + node.rank(index)])
    }

    pub(crate) fn add_prefix(&mut self, id: u32, index: usize, value: u32) -> Result<(), Limit> {
        let node = self.nodes[id as usize];
        debug_assert!(!node.has(index));
        let values = self.insert_cell(node.values, node.count(), node.rank(index), value)?;
        let node = self.node_mut(id);
        node.values = values;
        node.prefixes[index / 64] |= 1 << (index % 64);
        Ok(())
    }

    pub(crate) fn remove_prefix(&mut self, id: u32, index: usize) {
        let node = self.nodes[id as usize];
        self.remove_cell(node.values, node.count(), node.rank(index));
        self.node_mut(id).prefixes[index / 64] &= !(1 << (index % 64));
    }

    /// The value of the longest prefix for the six bits `slot`, in this node only.
    pub(crate) fn covering(&self, id: u32, slot: usize) -> u32 {
        (1..=6u8)
            .rev()
            .filter_map(|len| self.value(id, prefix_index(len, slot >> (6 - len))))
            .find(|&value| value != 0)
            .unwrap_or(self.node(id).cover)
    }

    /// What each slot of the node answers under `cover`, children left aside. A prefix of value 0
    /// is one that is about to be removed.
    pub(crate) fn paint(&self, id: u32, cover: u32, slots: &mut [u32; SLOTS]) {
        let node = self.node(id);
        slots.fill(cover);
        let mut values = self.cells[node.values as usize * 2..].iter();
        // Shorter prefixes have smaller positions, so longer ones paint over them.
        for (word, &set) in node.prefixes.iter().enumerate() {
            for bit in bits(set) {
                let (len, bits) = index_prefix(word * 64 + bit);
                let Some(&value) = values.next() else { return };
                if value != 0 {
                    let width = SLOTS >> len;
                    // Most prefixes take one slot (IPv4 /24, IPv6 /32): no loop for them.
                    if width == 1 {
                        slots[bits % SLOTS] = value;
                    } else {
                        slots[bits * width..(bits + 1) * width].fill(value);
                    }
                }
            }
        }
    }

    /// Puts `cell` at `rank` of a run of `count` cells; the run may move.
    fn insert_cell(
        &mut self,
        run: u32,
        count: usize,
        rank: usize,
        cell: u32,
    ) -> Result<u32, Limit> {
        let mut run = run;
        if count.is_multiple_of(2) {
            let words = count / 2;
            let moved = self.pages.take(words + 1, 0).ok_or(Limit::BookkeepingWords)?;
            if words > 0 {
                let from = run as usize * 2;
                self.cells.copy_within(from..from + count, moved as usize * 2);
                self.pages.give(run, words);
            }
            run = moved;
        }
        let from = run as usize * 2 + rank;
        self.cells.copy_within(from..run as usize * 2 + count, from + 1);
        self.cells[from] = cell;
        Ok(run)
    }

    /// Takes the cell at `rank` out of a run of `count` cells and gives back a word that is empty.
    fn remove_cell(&mut self, run: u32, count: usize, rank: usize) {
        let from = run as usize * 2 + rank;
        self.cells.copy_within(from + 1..run as usize * 2 + count, from);
        if !count.is_multiple_of(2) {
            self.pages.give(run + (count / 2) as u32, 1);
        }
    }
}

/// Positions of the set bits, ascending.
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        (set != 0).then(|| {
            let bit = set.trailing_zeros() as usize;
            set &= set - 1;
            bit
        })
    })
}
