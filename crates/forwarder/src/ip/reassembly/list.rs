//! Places of the table in the order in which they were taken: the oldest is found and any is
//! taken out at once, however many there are.

/// No place.
const NONE: u16 = u16::MAX;

/// First and last of one chain.
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
    /// The place that was put in first of those that are in.
    pub fn first(self) -> Option<usize> {
        (self.first != NONE).then_some(usize::from(self.first))
    }
}

/// The links of chains that share no place: neighbours before and behind, by place.
pub struct ListLinks(Box<[(u16, u16)]>);

impl ListLinks {
    /// For so many places, at most 65,535.
    pub fn new(slots: usize) -> Self {
        Self(vec![(NONE, NONE); slots.min(usize::from(NONE))].into_boxed_slice())
    }

    /// Puts a place that is in no chain at the end of one.
    pub fn append(&mut self, list: &mut List, at: usize) {
        self.0[at] = (list.last, NONE);
        match list.last {
            NONE => list.first = at as u16,
            last => self.0[usize::from(last)].1 = at as u16,
        }
        list.last = at as u16;
    }

    /// Takes a place out of its chain.
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
