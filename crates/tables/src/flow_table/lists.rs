//! Circular lists of flows: the ticks of the wheel, the free ids, and the removed ones that wait for a grace
//! period.
//!
//! Each id that an owner has is in one list at most. The links are in the records, which all owners share;
//! the heads belong to the owner. A link is the number of a head, or that of a flow behind all heads.

use core::sync::atomic::Ordering::Relaxed;

use super::memory::RECORD_WORDS;
use crate::sync::AtomicU32;

const NEXT: usize = 0;
const PREVIOUS: usize = 1;

/// The heads of the lists of one owner.
#[derive(Debug)]
pub(super) struct Heads(Box<[[u32; 2]]>);

/// The records of all flows.
type Records = [[AtomicU32; RECORD_WORDS]];

impl Heads {
    /// So many empty lists.
    pub(super) fn new(count: u32) -> Self {
        Self((0..count).map(|head| [head, head]).collect())
    }

    #[inline(always)]
    fn link_of(&self, id: u32) -> u32 {
        self.0.len() as u32 + id
    }

    #[inline(always)]
    fn get(&self, records: &Records, link: u32, side: usize) -> u32 {
        match self.0.get(link as usize) {
            Some(head) => head[side],
            None => records[link as usize - self.0.len()][side].load(Relaxed),
        }
    }

    #[inline(always)]
    fn set(&mut self, records: &Records, link: u32, side: usize, to: u32) {
        let heads = self.0.len();
        match self.0.get_mut(link as usize) {
            Some(head) => head[side] = to,
            None => records[link as usize - heads][side].store(to, Relaxed),
        }
    }

    /// The first flow of a list.
    #[inline(always)]
    pub(super) fn first(&self, list: u32) -> Option<u32> {
        let link = self.0[list as usize][NEXT];
        (link != list).then(|| link - self.0.len() as u32)
    }

    /// The last flow of a list.
    #[inline(always)]
    pub(super) fn last(&self, list: u32) -> Option<u32> {
        let link = self.0[list as usize][PREVIOUS];
        (link != list).then(|| link - self.0.len() as u32)
    }

    /// Appends a flow that is in no list.
    #[inline(always)]
    pub(super) fn append(&mut self, records: &Records, list: u32, id: u32) {
        let (link, last) = (self.link_of(id), self.0[list as usize][PREVIOUS]);
        self.set(records, last, NEXT, link);
        self.0[list as usize][PREVIOUS] = link;
        self.set(records, link, NEXT, list);
        self.set(records, link, PREVIOUS, last);
    }

    /// Puts a flow that is in no list in front.
    #[inline(always)]
    pub(super) fn prepend(&mut self, records: &Records, list: u32, id: u32) {
        let (link, first) = (self.link_of(id), self.0[list as usize][NEXT]);
        self.set(records, first, PREVIOUS, link);
        self.0[list as usize][NEXT] = link;
        self.set(records, link, NEXT, first);
        self.set(records, link, PREVIOUS, list);
    }

    /// Takes a flow out of its list; returns the list when it is empty now.
    #[inline(always)]
    pub(super) fn unlink(&mut self, records: &Records, id: u32) -> Option<u32> {
        let link = self.link_of(id);
        let next = self.get(records, link, NEXT);
        let previous = self.get(records, link, PREVIOUS);
        self.set(records, previous, NEXT, next);
        self.set(records, next, PREVIOUS, previous);
        // Both neighbours are the head.
        (next == previous).then_some(next).filter(|head| (*head as usize) < self.0.len())
    }

    /// Moves the flows of one list up to and with `last` to the front of another one.
    pub(super) fn splice(&mut self, records: &Records, from: u32, last: u32, to: u32) {
        let last = self.link_of(last);
        let first = self.0[from as usize][NEXT];
        let rest = self.get(records, last, NEXT);
        self.0[from as usize][NEXT] = rest;
        self.set(records, rest, PREVIOUS, from);
        let after = self.0[to as usize][NEXT];
        self.set(records, last, NEXT, after);
        self.set(records, after, PREVIOUS, last);
        self.set(records, first, PREVIOUS, to);
        self.0[to as usize][NEXT] = first;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const IDS: u32 = 20;
    const LISTS: u32 = 3;

    fn content(heads: &Heads, records: &Records, list: u32) -> Vec<u32> {
        let mut all = Vec::new();
        let mut link = heads.get(records, list, NEXT);
        while link != list {
            all.push(link - LISTS);
            let next = heads.get(records, link, NEXT);
            assert_eq!(heads.get(records, next, PREVIOUS), link);
            link = next;
        }
        all
    }

    proptest! {
        #[test]
        fn lists_hold_what_a_naive_model_holds(
            steps in prop::collection::vec((0..IDS, 0..LISTS, 0..4_u8), 1..200),
        ) {
            let records: Box<Records> = crate::sync::zeroed(IDS as usize).unwrap();
            let mut heads = Heads::new(LISTS);
            let mut model = vec![VecDeque::new(); LISTS as usize];
            for (id, list, step) in steps {
                let holder = model.iter().position(|all| all.contains(&id));
                match (step, holder) {
                    (0, None) => {
                        heads.append(&records, list, id);
                        model[list as usize].push_back(id);
                    }
                    (1, None) => {
                        heads.prepend(&records, list, id);
                        model[list as usize].push_front(id);
                    }
                    (2, Some(holder)) => {
                        model[holder].retain(|other| *other != id);
                        let emptied = model[holder].is_empty().then_some(holder as u32);
                        prop_assert_eq!(heads.unlink(&records, id), emptied);
                    }
                    (3, Some(holder)) if holder != list as usize => {
                        heads.splice(&records, holder as u32, id, list);
                        let end = model[holder].iter().position(|other| *other == id).unwrap();
                        let moved: Vec<u32> = model[holder].drain(..=end).collect();
                        for id in moved.into_iter().rev() {
                            model[list as usize].push_front(id);
                        }
                    }
                    _ => {}
                }
                for list in 0..LISTS {
                    let expected: Vec<u32> = model[list as usize].iter().copied().collect();
                    prop_assert_eq!(content(&heads, &records, list), expected);
                    prop_assert_eq!(heads.first(list), model[list as usize].front().copied());
                    prop_assert_eq!(heads.last(list), model[list as usize].back().copied());
                }
            }
        }
    }
}
