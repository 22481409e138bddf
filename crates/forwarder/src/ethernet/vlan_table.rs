//! Maps VLAN tags to sub-interfaces: directly indexed arrays, one for each port with sub-interfaces,
//! rebuilt and published as a whole when the configuration changes.

use stoa_engine::INTERFACES;

/// The index of a tag: `is_802_1ad << 12 | vid`.
pub type TagKey = u16;

const NONE: u32 = u32::MAX;
/// Marks an entry that refers to a row of inner tags.
const INNER: u32 = 1 << 31;
const ROW: usize = 1 << 13;
/// The index in a row of inner tags for the interface without an inner tag.
const UNTAGGED: usize = ROW;

/// The key of a tag; `None`: `tpid` is not a VLAN ethertype.
#[inline(always)]
pub fn tag_key(tpid: u16, tci: u16) -> Option<TagKey> {
    match tpid {
        0x8100 => Some(tci & 0xfff),
        0x88a8 => Some(0x1000 | tci & 0xfff),
        _ => None,
    }
}

/// The result of an outer tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outer {
    /// No sub-interface.
    Unknown,
    /// A sub-interface.
    Interface(u32),
    /// A row of inner tags.
    Row(usize),
}

/// All sub-interfaces of all ports.
pub struct VlanTables {
    first: Box<[u32]>,
    rows: Vec<Box<[u32]>>,
}

impl Default for VlanTables {
    fn default() -> Self {
        Self { first: vec![NONE; INTERFACES].into(), rows: Vec::new() }
    }
}

impl VlanTables {
    /// Adds a sub-interface. Its tags are unique, which the validation has checked.
    pub fn insert(&mut self, parent: u32, outer: TagKey, inner: Option<TagKey>, interface: u32) {
        let first = self.first[parent as usize];
        let row = if first == NONE { self.add_row() } else { first as usize };
        self.first[parent as usize] = row as u32;
        let entry = self.rows[row][outer as usize];
        let has_row = entry != NONE && entry & INNER != 0;
        if inner.is_none() && !has_row {
            self.rows[row][outer as usize] = interface;
            return;
        }
        let inner_row = if has_row { (entry & !INNER) as usize } else { self.add_row() };
        if !has_row {
            // Keeps an existing interface with only the outer tag.
            self.rows[inner_row][UNTAGGED] = entry;
        }
        self.rows[row][outer as usize] = INNER | inner_row as u32;
        self.rows[inner_row][inner.map_or(UNTAGGED, usize::from)] = interface;
    }

    fn add_row(&mut self) -> usize {
        self.rows.push(vec![NONE; ROW + 1].into());
        self.rows.len() - 1
    }

    /// Looks up the outer tag of a frame from `port`.
    #[inline(always)]
    pub fn outer(&self, port: u32, tag: TagKey) -> Outer {
        let Some(row) = self.first.get(port as usize).and_then(|row| self.rows.get(*row as usize))
        else {
            return Outer::Unknown;
        };
        match row[tag as usize % ROW] {
            NONE => Outer::Unknown,
            entry if entry & INNER != 0 => Outer::Row((entry & !INNER) as usize),
            interface => Outer::Interface(interface),
        }
    }

    /// The sub-interface with only the outer tag, when others also have inner tags.
    #[inline(always)]
    pub fn untagged(&self, row: usize) -> Option<u32> {
        let interface = *self.rows.get(row)?.get(UNTAGGED)?;
        (interface != NONE).then_some(interface)
    }

    /// Looks up the inner tag.
    #[inline(always)]
    pub fn inner(&self, row: usize, tag: TagKey) -> Option<u32> {
        let interface = *self.rows.get(row)?.get(tag as usize)?;
        (interface != NONE).then_some(interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_map_to_one_interface() {
        let mut tables = VlanTables::default();
        let (dot1q, dot1ad) = (tag_key(0x8100, 0x6064).unwrap(), tag_key(0x88a8, 100).unwrap());
        assert_ne!(dot1q, dot1ad);
        assert_eq!(tag_key(0x0800, 100), None);
        tables.insert(3, dot1q, None, 10);
        tables.insert(3, dot1ad, Some(7), 11);
        tables.insert(3, dot1ad, Some(8), 12);
        assert_eq!(tables.outer(3, dot1q), Outer::Interface(10));
        assert_eq!(tables.outer(4, dot1q), Outer::Unknown);
        assert_eq!(tables.outer(3, 101), Outer::Unknown);
        let Outer::Row(row) = tables.outer(3, dot1ad) else { panic!("no row") };
        assert_eq!(tables.inner(row, 7), Some(11));
        assert_eq!(tables.inner(row, 8), Some(12));
        assert_eq!(tables.inner(row, 9), None);
        assert_eq!(tables.untagged(row), None);
    }

    #[test]
    fn single_and_double_tags_coexist_in_any_order() {
        for one_first in [true, false] {
            let mut tables = VlanTables::default();
            if one_first {
                tables.insert(3, 100, None, 10);
            }
            tables.insert(3, 100, Some(200), 11);
            if !one_first {
                tables.insert(3, 100, None, 10);
            }
            let Outer::Row(row) = tables.outer(3, 100) else { panic!("no row") };
            assert_eq!((tables.untagged(row), tables.inner(row, 200)), (Some(10), Some(11)));
        }
    }
}
