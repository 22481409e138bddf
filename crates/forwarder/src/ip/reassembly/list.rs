//! Slots of the table as linked lists in insertion order: finding the oldest slot and removing any
//! slot take constant time.

/// No slot.
const NONE: u16 = u16::MAX;

/// First and last slot of one list.
#[derive(Clone, Copy, Debug)]
pub struct List {
    first: u16,
    last: u16,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl List {
    /// The oldest slot in the list.
    pub fn first(self) -> Option<usize> {
        (self.first != NONE).then_some(usize::from(self.first))
    }
}

/// The links of disjoint lists: previous and next slot, by slot.
pub struct ListLinks(Box<[(u16, u16)]>);

impl ListLinks {
    /// For so many slots, at most 65,535.
    pub fn new(slots: usize) -> Self {
        Self(vec![(NONE, NONE); slots.min(usize::from(NONE))].into_boxed_slice())
    }

    /// Appends a slot that is in no list.
    pub fn append(&mut self, list: &mut List, at: usize) {
        self.0[at] = (list.last, NONE);
        match list.last {
            NONE => list.first = at as u16,
            last => self.0[usize::from(last)].1 = at as u16,
        }
        list.last = at as u16;
    }

    /// Removes a slot from its list.
    pub fn unlink(&mut self, list: &mut List, at: usize) {
        let (before, behind) = self.0[at];
        match before {
            NONE => list.first = behind,
            before => self.0[usize::from(before)].1 = behind,
        }
        match behind {
            NONE => list.last = before,
            behind => self.0[usize::from(behind)].0 = before,
        }
    }
}
