//! Maps VLAN tags to sub-interfaces: one exact-match table of all ports, changed in place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use stoa_engine::INTERFACES;
use stoa_tables::exact_match::{ExactMatch, ExactMatchReader};
use stoa_tables::lpm::Kernel;

/// A tag as a number: `is_802_1ad << 12 | vid`.
pub type TagKey = u16;

/// Where the outer tag and the port begin in a key. Below is the inner tag and a bit that says that
/// there is one.
pub(super) const OUTER: u32 = 14;
pub(super) const PORT: u32 = 27;
/// The bit of 802.1ad in a [`TagKey`].
pub(super) const IS_802_1AD: u64 = 1 << 12;
/// The bit of a key with two tags.
pub(super) const HAS_INNER: u64 = 1 << 13;
/// No sub-interface has this key.
pub(super) const NO_KEY: u64 = u64::MAX;

/// The key of a tag; `None`: `tpid` is not a VLAN ethertype.
#[inline(always)]
pub fn tag_key(tpid: u16, tci: u16) -> Option<TagKey> {
    match tpid {
        0x8100 => Some(tci & 0xfff),
        0x88a8 => Some(0x1000 | tci & 0xfff),
        _ => None,
    }
}

/// The inverse of [`tag_key`]: TPID and VLAN ID.
pub fn tag_of(key: TagKey) -> (u16, u16) {
    (if u64::from(key) & IS_802_1AD == 0 { 0x8100 } else { 0x88a8 }, key & 0xfff)
}

/// The key of a sub-interface, which are all tags of its frames.
#[inline(always)]
pub(super) fn key(port: u32, outer: TagKey, inner: Option<TagKey>) -> u64 {
    let inner = inner.map_or(0, |inner| HAS_INNER | u64::from(inner));
    u64::from(port) << PORT | u64::from(outer) << OUTER | inner
}

/// All sub-interfaces of all ports, as workers read them.
pub struct VlanTables {
    by_tags: ExactMatchReader,
    counts: Arc<Counts>,
}

impl Default for VlanTables {
    fn default() -> Self {
        Self { by_tags: ExactMatch::default().reader(), counts: Arc::default() }
    }
}

/// How many sub-interfaces each port has.
struct Counts(Box<[AtomicU32]>);

impl Default for Counts {
    fn default() -> Self {
        Self((0..INTERFACES).map(|_| AtomicU32::new(0)).collect())
    }
}

impl Counts {
    /// That of the port in a key.
    fn of(&self, key: u64) -> &AtomicU32 {
        &self.0[(key >> PORT) as usize % INTERFACES]
    }
}

impl VlanTables {
    /// The sub-interface for frames from `port` with exactly these tags.
    #[inline(always)]
    pub fn get(&self, port: u32, outer: TagKey, inner: Option<TagKey>) -> Option<u32> {
        self.by_tags.get(key(port, outer, inner))
    }

    /// Whether a port has sub-interfaces.
    #[inline(always)]
    pub fn has_any(&self, port: u32) -> bool {
        self.counts.0[port as usize % INTERFACES].load(Ordering::Relaxed) != 0
    }

    /// The sub-interfaces for many keys. Those that the control thread moves at this moment may be
    /// absent.
    #[inline(always)]
    pub(super) fn lookup_batch(&self, keys: &[u64], interfaces: &mut [u32]) {
        self.by_tags.lookup_batch(keys, interfaces);
    }
}

/// The control thread's side of [`VlanTables`].
pub struct VlanWriter {
    by_tags: ExactMatch,
    kernel: Kernel,
    /// By interface; [`NO_KEY`] if it is not a sub-interface.
    keys: Vec<u64>,
    /// Former keys and their interfaces, to be removed.
    former: Vec<(u64, u32)>,
    published: Option<ExactMatchReader>,
    counts: Arc<Counts>,
    writes: u64,
}

impl VlanWriter {
    /// No sub-interfaces, for workers with this kernel.
    pub fn new(kernel: Kernel) -> Self {
        let by_tags = ExactMatch::default();
        let (keys, former, published, counts, writes) = Default::default();
        Self { by_tags, kernel, keys, former, published, counts, writes }
    }

    /// Sets the port and the tags of an interface: none, one or two. Its tags are unique, which the
    /// validation has checked. The former ones are valid until [`Self::finish`], so that frames
    /// do not go astray while tags pass from one interface to another. `false`: the table cannot grow,
    /// and the interface has no tags.
    pub fn set(&mut self, interface: u32, port: u32, tags: &[TagKey]) -> bool {
        let new = tags
            .split_first()
            .map_or(NO_KEY, |(outer, inner)| key(port, *outer, inner.first().copied()));
        let at = interface as usize;
        if at >= self.keys.len() {
            self.keys.resize(at + 1, NO_KEY);
        }
        let former = std::mem::replace(&mut self.keys[at], new);
        if former == new {
            let is_there = new == NO_KEY || self.by_tags.get(new).is_some();
            return is_there || self.by_tags.insert(new, interface).is_ok();
        }
        self.writes += 1;
        if former != NO_KEY {
            self.former.push((former, interface));
        }
        if new == NO_KEY {
            return true;
        }
        // Before the table has the key: a worker that finds it finds the count, too.
        self.counts.of(new).fetch_add(1, Ordering::Release);
        if let Err(error) = self.by_tags.insert(new, interface) {
            self.keys[at] = NO_KEY;
            self.counts.of(new).fetch_sub(1, Ordering::Release);
            tracing::error!(interface, %error, "cannot add a sub-interface");
            return false;
        }
        true
    }

    /// The tags by which workers find an interface of this port, the outer one first; none: they do not find it.
    pub fn tags(&self, interface: u32, port: u32) -> Vec<TagKey> {
        let key = self.keys.get(interface as usize).copied().unwrap_or(NO_KEY);
        let is_found = key != NO_KEY && self.by_tags.get(key) == Some(interface);
        if !is_found || key >> PORT != u64::from(port) {
            return Vec::new();
        }
        let tag = |key: u64| (key & (IS_802_1AD | 0xfff)) as TagKey;
        let inner = (key & HAS_INNER != 0).then(|| tag(key));
        std::iter::once(tag(key >> OUTER)).chain(inner).collect()
    }

    /// Removes an interface from the table that workers read, and from nowhere else: for tests of the audit.
    #[cfg(test)]
    pub(crate) fn lose(&mut self, interface: u32) {
        let removed = self.by_tags.remove(self.keys[interface as usize]);
        assert_eq!(removed, Some(interface));
    }

    /// The number of interfaces whose tags were written since the start: the cost of changes.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Removes the former tags. Returns the tables for the workers if they have not got them yet.
    pub fn finish(&mut self) -> Option<VlanTables> {
        for (key, interface) in self.former.drain(..) {
            // Unless another interface has these tags by now, or this one has them again.
            if self.keys[interface as usize] != key && self.by_tags.get(key) == Some(interface) {
                self.by_tags.remove(key);
            }
            self.counts.of(key).fetch_sub(1, Ordering::Release);
        }
        if self.published.as_ref().is_some_and(|reader| reader.is_current(&self.by_tags)) {
            return None;
        }
        let reader = self.by_tags.reader();
        let by_tags = reader.clone().with_kernel(self.kernel).unwrap_or(reader);
        self.published = Some(by_tags.clone());
        Some(VlanTables { by_tags, counts: self.counts.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer() -> VlanWriter {
        VlanWriter::new(Kernel::detect())
    }

    #[test]
    fn tags_map_to_one_interface() {
        let mut writer = writer();
        let (dot1q, dot1ad) = (tag_key(0x8100, 0x6064).unwrap(), tag_key(0x88a8, 100).unwrap());
        assert_ne!(dot1q, dot1ad);
        assert_eq!(tag_key(0x0800, 100), None);
        writer.set(10, 3, &[dot1q]);
        writer.set(11, 3, &[dot1ad, 7]);
        writer.set(12, 3, &[dot1ad, 8]);
        let tables = writer.finish().unwrap();
        assert_eq!(tables.get(3, dot1q, None), Some(10));
        assert_eq!(tables.get(4, dot1q, None), None);
        assert_eq!(tables.get(3, 101, None), None);
        assert_eq!(tables.get(3, dot1ad, Some(7)), Some(11));
        assert_eq!(tables.get(3, dot1ad, Some(8)), Some(12));
        assert_eq!(tables.get(3, dot1ad, Some(9)), None);
        assert_eq!(tables.get(3, dot1ad, None), None);
        assert_eq!(tables.get(3, dot1q, Some(7)), None);
    }

    #[test]
    fn an_inner_tag_0_is_a_tag() {
        let mut writer = writer();
        writer.set(10, 3, &[100]);
        writer.set(11, 3, &[100, 0]);
        let tables = writer.finish().unwrap();
        let found = [None, Some(0), Some(1)].map(|inner| tables.get(3, 100, inner));
        assert_eq!(found, [Some(10), Some(11), None]);
    }

    #[test]
    fn the_greatest_tags_of_the_last_port_fit_in_a_key() {
        let mut writer = writer();
        let last = (1 << 17) - 1;
        writer.set(last, last, &[0x1fff, 0x1fff]);
        writer.set(last - 1, last, &[0x1fff]);
        let tables = writer.finish().unwrap();
        assert_eq!(tables.get(last, 0x1fff, Some(0x1fff)), Some(last));
        assert_eq!(tables.get(last, 0x1fff, None), Some(last - 1));
    }

    #[test]
    fn tags_pass_from_one_interface_to_another() {
        let mut writer = writer();
        writer.set(10, 3, &[100]);
        writer.set(11, 3, &[200]);
        let tables = writer.finish().unwrap();
        // Exchanged; workers have the table, which changes in place.
        writer.set(10, 3, &[200]);
        writer.set(11, 3, &[100]);
        assert!(writer.finish().is_none());
        assert_eq!((tables.get(3, 100, None), tables.get(3, 200, None)), (Some(11), Some(10)));
        // The first one moves to another port; the other one is removed.
        writer.set(10, 4, &[200]);
        writer.set(11, 0, &[]);
        writer.finish();
        assert_eq!((tables.get(3, 100, None), tables.get(3, 200, None)), (None, None));
        assert_eq!(tables.get(4, 200, None), Some(10));
        assert_eq!([0, 3, 4].map(|port| tables.has_any(port)), [false, false, true]);
        // Away and back before the former tags are removed.
        writer.set(10, 4, &[300]);
        writer.set(10, 4, &[200]);
        writer.finish();
        assert!(tables.has_any(4));
        writer.set(10, 0, &[]);
        assert!(tables.has_any(4), "until it is finished");
        writer.finish();
        assert!(!tables.has_any(4));
    }

    #[test]
    fn a_table_that_grew_is_published() {
        let mut writer = writer();
        assert!(writer.finish().is_some());
        writer.set(1, 0, &[1]);
        assert!(writer.finish().is_none());
        assert!((2..1000).all(|vid| writer.set(vid.into(), 0, &[vid])));
        let tables = writer.finish().unwrap();
        assert!((1..1000).all(|vid| tables.get(0, vid, None) == Some(vid.into())));
        assert!(writer.finish().is_none());
    }
}
