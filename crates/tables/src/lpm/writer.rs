//! The writer of a longest-prefix match: checks, bookkeeping, and queries.

use core::marker::PhantomData;
use std::sync::Arc;

use super::fib::{Fib, LpmReader, MAX_LOOKUP_WORDS};
use super::iter::{Occupied, Routes};
use super::key::{Key, STRIDE};
use super::rib::{NO_NODE, Rib, SLOTS, prefix_index};
use super::update::Step;
use super::{Limit, LpmCapacity, LpmError, MAX_VALUE};
use crate::aligned::Region;
use crate::grace::{Reclaim, Retired};
use crate::pages::Pages;

/// Share of the look-up arena that only removals may use: they can need a little space when routes
/// of equal value shared a run, and should not be refused.
const RESERVE_DIVISOR: usize = 64;
/// Nodes between the root and the last bit of an address, at most.
const LEVELS: usize = 18;

/// Bytes that a table has touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LpmMemory {
    /// Root array and chunks: what look-ups read, shared by all workers.
    pub lookup_bytes: usize,
    /// What only the writer has.
    pub bookkeeping_bytes: usize,
}

/// The routes of one VRF and family: the writer's side.
#[derive(Debug)]
pub struct Lpm<K> {
    pub(super) fib: Arc<Fib>,
    pub(super) pages: Pages,
    /// Untouched pages that insertions leave to removals.
    pub(super) reserve: usize,
    /// (position, words) of chunks that readers may still be in.
    pub(super) retired: Retired<(u32, u8)>,
    /// Values of prefixes no longer than the root's bits, as a binary heap: cell
    /// `(1 << len) + bits`; 0 is none.
    pub(super) short: Vec<u32>,
    /// The node of each root slot.
    pub(super) blocks: Vec<u32>,
    pub(super) occupied: Occupied,
    pub(super) rib: Rib,
    /// The change in hand; empty between calls.
    pub(super) plan: Vec<Step>,
    /// The slots of the node that was planned last.
    pub(super) last_slots: [u32; SLOTS],
    pub(super) routes: usize,
    pub(super) route_limit: usize,
    key: PhantomData<K>,
}

/// The nodes from the root down to the one where a prefix ends.
pub(super) struct Path {
    ids: [u32; LEVELS],
    levels: usize,
}

impl Path {
    pub(super) fn ids(&self) -> &[u32] {
        &self.ids[..self.levels]
    }

    fn push(&mut self, id: u32) {
        self.ids[self.levels] = id;
        self.levels += 1;
    }
}

impl<K: Key> Lpm<K> {
    /// An empty table with these limits. `None` when the system has not the address space.
    pub fn new(capacity: LpmCapacity) -> Option<Self> {
        let words = capacity.lookup_words.min(MAX_LOOKUP_WORDS);
        let fib = Fib::new(K::ROOT_BITS, words)?;
        let pages = Pages::new(words);
        Some(Self {
            fib: Arc::new(fib),
            reserve: words / crate::pages::PAGE_WORDS / RESERVE_DIVISOR,
            pages,
            retired: Retired::new(),
            short: vec![0; 2 << K::ROOT_BITS],
            blocks: vec![NO_NODE; 1 << K::ROOT_BITS],
            occupied: Occupied::new(1 << K::ROOT_BITS),
            rib: Rib::new(capacity.nodes, capacity.bookkeeping_words),
            plan: Vec::new(),
            last_slots: [0; SLOTS],
            routes: 0,
            route_limit: capacity.routes,
            key: PhantomData,
        })
    }

    /// A reader for a worker. As soon as one exists, freed memory waits for grace periods.
    pub fn reader(&self) -> LpmReader<K> {
        LpmReader::new(Arc::clone(&self.fib))
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.routes
    }

    /// Whether there is no prefix.
    pub fn is_empty(&self) -> bool {
        self.routes == 0
    }

    /// The greatest number of prefixes.
    pub fn capacity(&self) -> usize {
        self.route_limit
    }

    /// Points `prefix/len` to `value`; gives back the value that it had before.
    ///
    /// # Errors
    /// [`LpmError::HostBitsSet`], [`LpmError::LengthOutOfRange`], [`LpmError::ValueOutOfRange`],
    /// [`LpmError::Full`]; nothing was changed.
    pub fn insert(&mut self, prefix: K, len: u8, value: u32) -> Result<Option<u32>, LpmError> {
        check(prefix, len)?;
        check_value(value)?;
        let old = self.exact(prefix, len);
        if old == Some(value) {
            return Ok(old);
        }
        if old.is_none() && self.routes == self.route_limit {
            return Err(LpmError::Full(Limit::Routes));
        }
        if len <= K::ROOT_BITS {
            self.set_short(prefix, len, value)?;
        } else if old.is_some() {
            self.set_long(prefix, len, value, self.reserve)?;
        } else {
            self.add_long(prefix, len, value)?;
        }
        self.routes += usize::from(old.is_none());
        Ok(old)
    }

    /// Removes `prefix/len` and gives back its value.
    ///
    /// # Errors
    /// [`LpmError::HostBitsSet`], [`LpmError::LengthOutOfRange`], [`LpmError::Absent`];
    /// [`LpmError::Full`] only when even the reserve for removals waits for a grace period.
    /// Nothing was changed.
    pub fn remove(&mut self, prefix: K, len: u8) -> Result<u32, LpmError> {
        check(prefix, len)?;
        let value = self.exact(prefix, len).ok_or(LpmError::Absent)?;
        if len <= K::ROOT_BITS {
            self.set_short(prefix, len, 0)?;
        } else {
            self.set_long(prefix, len, 0, 0)?;
            self.drop_long(prefix, len);
        }
        self.routes -= 1;
        Ok(value)
    }

    /// The value of exactly this prefix.
    ///
    /// # Errors
    /// [`LpmError::HostBitsSet`], [`LpmError::LengthOutOfRange`], [`LpmError::Absent`].
    pub fn get_exact(&self, prefix: K, len: u8) -> Result<u32, LpmError> {
        check(prefix, len)?;
        self.exact(prefix, len).ok_or(LpmError::Absent)
    }

    /// The value of the longest prefix that covers `key`; 0 when there is none.
    pub fn lookup(&self, key: K) -> u32 {
        let mut out = [0];
        let fib = &*self.fib;
        super::fib::lookup_lanes(fib.root(), fib.words(), fib.rest(), &[key], &mut out);
        out[0]
    }

    /// Every prefix with its length and value, each once, ascending by address and then by length.
    pub fn iter(&self) -> Routes<'_, K> {
        self.range(K::from_leading(0, 0), 0)
    }

    /// The same from a prefix on, which need not be a prefix of the table, nor one at all: a length
    /// beyond the last bit selects what follows all prefixes of the address. Finding the
    /// place takes no longer than looking up an address.
    pub fn range(&self, from: K, len: u8) -> Routes<'_, K> {
        Routes::new(self, (from, len))
    }

    /// Memory in use.
    pub fn memory(&self) -> LpmMemory {
        LpmMemory {
            lookup_bytes: size_of_val(self.fib.root()) + self.pages.touched_words() * 8,
            bookkeeping_bytes: size_of_val(&*self.short)
                + size_of_val(&*self.blocks)
                + self.occupied.bytes()
                + self.pages.map_bytes()
                + self.rib.touched_bytes(),
        }
    }

    /// Words of chunks in use or waiting for a grace period, of `LpmCapacity::lookup_words`.
    pub fn lookup_words_used(&self) -> usize {
        self.pages.used_words()
    }

    /// The memory that look-ups read, for advice about huge pages.
    pub fn regions(&self) -> [Region; 2] {
        self.fib.regions()
    }

    pub(super) fn short_cell(prefix: K, len: u8) -> usize {
        (1 << len) + prefix.leading(len)
    }

    /// Where in a node at `depth` a prefix stands.
    pub(super) fn index(prefix: K, len: u8, depth: u8) -> usize {
        let relative = len - depth;
        prefix_index(relative, prefix.six(depth) >> (STRIDE - relative))
    }

    pub(super) fn exact(&self, prefix: K, len: u8) -> Option<u32> {
        if len <= K::ROOT_BITS {
            let value = self.short[Self::short_cell(prefix, len)];
            return (value != 0).then_some(value);
        }
        let (path, depth) = self.path(prefix, len)?;
        self.rib.value(*path.ids().last()?, Self::index(prefix, len, depth))
    }

    /// The nodes down to the one where the prefix ends, if they all exist, and its depth.
    pub(super) fn path(&self, prefix: K, len: u8) -> Option<(Path, u8)> {
        let mut path = Path { ids: [NO_NODE; LEVELS], levels: 0 };
        let mut depth = K::ROOT_BITS;
        let mut id = self.blocks[prefix.root()];
        while id != NO_NODE {
            path.push(id);
            if len <= depth + STRIDE {
                // Both are needed soon; fetching them together waits once.
                self.rib.prefetch_values(id);
                self.fib.prefetch(self.rib.node(id).word);
                return Some((path, depth));
            }
            id = self.rib.kid(id, prefix.six(depth));
            depth += STRIDE;
        }
        None
    }

    /// Gives an existing long prefix another value; 0 to take it out of the look-up structure.
    fn set_long(&mut self, prefix: K, len: u8, value: u32, keep: usize) -> Result<(), LpmError> {
        let (path, depth) = self.path(prefix, len).ok_or(LpmError::Absent)?;
        let id = path.ids().last().copied().unwrap_or(NO_NODE);
        let index = Self::index(prefix, len, depth);
        let cell = self.rib.value_mut(id, index).ok_or(LpmError::Absent)?;
        let old = core::mem::replace(cell, value);
        let done = self.update_path(prefix, &path, keep);
        if let (Err(_), Some(cell)) = (done, self.rib.value_mut(id, index)) {
            *cell = old;
        }
        done
    }

    fn add_long(&mut self, prefix: K, len: u8, value: u32) -> Result<(), LpmError> {
        let done = self.add_bookkeeping(prefix, len, value);
        if let Err(limit) = done {
            self.prune(prefix, len);
            return Err(LpmError::Full(limit));
        }
        let Some((path, _)) = self.path(prefix, len) else { return Err(LpmError::Absent) };
        let done = self.update_path(prefix, &path, self.reserve);
        if done.is_err() {
            self.drop_long(prefix, len);
        }
        done
    }

    fn add_bookkeeping(&mut self, prefix: K, len: u8, value: u32) -> Result<(), Limit> {
        let (id, depth) = self.make_nodes(prefix, len)?;
        self.rib.add_prefix(id, Self::index(prefix, len, depth), value)
    }

    /// The node where a long prefix ends, and its depth. It and those above it are made where they
    /// are missing.
    pub(super) fn make_nodes(&mut self, prefix: K, len: u8) -> Result<(u32, u8), Limit> {
        let block = prefix.root();
        let mut depth = K::ROOT_BITS;
        let mut id = self.blocks[block];
        if id == NO_NODE {
            id = self.rib.create(self.short_cover(block + (1 << K::ROOT_BITS)))?;
            self.blocks[block] = id;
            self.occupied.set(block, true);
        }
        while len > depth + STRIDE {
            let slot = prefix.six(depth);
            let mut kid = self.rib.kid(id, slot);
            if kid == NO_NODE {
                kid = self.rib.create(self.rib.covering(id, slot))?;
                if let Err(limit) = self.rib.add_kid(id, slot, kid) {
                    self.rib.destroy(kid);
                    return Err(limit);
                }
            }
            id = kid;
            depth += STRIDE;
        }
        Ok((id, depth))
    }

    /// Takes a long prefix that the look-up structure no longer shows out of the bookkeeping.
    pub(super) fn drop_long(&mut self, prefix: K, len: u8) {
        if let Some((path, depth)) = self.path(prefix, len)
            && let Some(&id) = path.ids().last()
        {
            self.rib.remove_prefix(id, Self::index(prefix, len, depth));
        }
        self.prune(prefix, len);
    }

    /// Removes the empty nodes on the path to a prefix, deepest first.
    pub(super) fn prune(&mut self, prefix: K, len: u8) {
        let mut path = Path { ids: [NO_NODE; LEVELS], levels: 0 };
        let mut depth = K::ROOT_BITS;
        let mut id = self.blocks[prefix.root()];
        while id != NO_NODE {
            path.push(id);
            if len <= depth + STRIDE {
                break;
            }
            id = self.rib.kid(id, prefix.six(depth));
            depth += STRIDE;
        }
        for level in (0..path.levels).rev() {
            let id = path.ids[level];
            if !self.rib.node(id).is_empty() {
                return;
            }
            debug_assert_eq!(self.rib.node(id).word, self.rib.node(id).cover);
            if level == 0 {
                self.blocks[prefix.root()] = NO_NODE;
                self.review_slot(prefix.root());
            } else {
                let depth = K::ROOT_BITS + STRIDE * (level as u8 - 1);
                self.rib.remove_kid(path.ids[level - 1], prefix.six(depth));
            }
            self.rib.destroy(id);
        }
    }

    /// The value of the longest short prefix at or above a cell of the heap. The default route,
    /// in cell 1, covers nothing: look-ups read it separately.
    pub(super) fn short_cover(&self, cell: usize) -> u32 {
        let mut cell = cell;
        while cell > 1 && self.short[cell] == 0 {
            cell >>= 1;
        }
        if cell > 1 { self.short[cell] } else { 0 }
    }
}

impl<K: Key> Reclaim for Lpm<K> {
    fn retire_mark(&mut self, epoch: u64) {
        self.retired.mark(epoch);
    }

    fn reclaim(&mut self, safe_epoch: u64) {
        while let Some((at, words)) = self.retired.pop_safe(safe_epoch) {
            self.pages.give(at, usize::from(words));
        }
    }

    fn pending(&self) -> usize {
        self.retired.len()
    }
}

pub(super) fn check<K: Key>(prefix: K, len: u8) -> Result<(), LpmError> {
    if len > K::BITS {
        return Err(LpmError::LengthOutOfRange { len, max: K::BITS });
    }
    if prefix.network(len) != prefix {
        return Err(LpmError::HostBitsSet);
    }
    Ok(())
}

pub(super) fn check_value(value: u32) -> Result<(), LpmError> {
    if value == 0 || value > MAX_VALUE {
        return Err(LpmError::ValueOutOfRange(value));
    }
    Ok(())
}
