//! Fragments that wait for the first one of their packet, by the numbers of entries of [`Fragments`](super::Fragments).

/// In place of the number of a slot: none.
const NONE: u16 = u16::MAX;

/// A place for one fragment.
struct Slot<T> {
    item: Option<T>,
    /// Where the fragment begins in its packet.
    start: u16,
    kind: u8,
    share: u32,
    /// The next one of the same packet, or the next free one.
    next: u16,
}

/// What counts of a fragment that is to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Of {
    /// The entry of its packet.
    pub entry: u32,
    /// The share of its source ([`Fragments::share`](super::Fragments::share)).
    pub share: u32,
    /// The kind of its buffer, 0 or 1.
    pub kind: usize,
    /// Where it begins in its packet, in units of 8 bytes.
    pub start: u16,
}

/// Fragments that wait. One owner; nothing is allocated after construction.
pub struct Held<T> {
    slots: Box<[Slot<T>]>,
    free: u16,
    /// The fragment of each entry that begins first.
    firsts: Box<[u16]>,
    /// How many there are of each share, and how many each may have.
    shares: Box<[u16]>,
    of_share: u16,
    /// How many there are in buffers of each kind.
    kinds: [usize; 2],
}

impl<T> Held<T> {
    /// Room for `most` fragments, below 65,535, of which each share may have `of_share`. There are so many entries, and
    /// as many shares.
    pub fn new(most: u16, of_share: u16, entries: usize) -> Self {
        let most = most.min(NONE - 1);
        let slot = |at: u16| Slot {
            item: None,
            start: 0,
            kind: 0,
            share: 0,
            next: if at + 1 < most { at + 1 } else { NONE },
        };
        Self {
            slots: (0..most).map(slot).collect(),
            free: if most > 0 { 0 } else { NONE },
            firsts: vec![NONE; entries].into_boxed_slice(),
            shares: vec![0; entries].into_boxed_slice(),
            of_share,
            kinds: [0; 2],
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.kinds.iter().sum()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether another fragment may wait, if so many may in buffers of each kind.
    pub fn has_room(&self, of: &Of, most: [usize; 2]) -> bool {
        let is_below = |kind: usize| self.kinds.get(kind) < most.get(kind);
        let used = self.shares.get(of.share as usize);
        self.free != NONE && is_below(of.kind) && used.is_some_and(|used| *used < self.of_share)
    }

    /// Has a fragment wait.
    ///
    /// # Errors
    /// It has no room ([`Self::has_room`]), and is given back.
    pub fn push(&mut self, of: &Of, item: T) -> Result<(), T> {
        let at = self.free;
        let (Some(count), Some(kind), Some(slot), Some(first)) = (
            self.shares.get_mut(of.share as usize).filter(|count| **count < self.of_share),
            self.kinds.get_mut(of.kind),
            self.slots.get_mut(usize::from(at)),
            self.firsts.get(of.entry as usize).copied(),
        ) else {
            return Err(item);
        };
        (*count, *kind, self.free) = (*count + 1, *kind + 1, slot.next);
        *slot = Slot {
            item: Some(item),
            start: of.start,
            kind: of.kind as u8,
            share: of.share,
            next: NONE,
        };
        // Behind those that begin before it.
        let (mut before, mut behind) = (NONE, first);
        while let Some(other) = self.slots.get(usize::from(behind)).filter(|it| it.start < of.start)
        {
            (before, behind) = (behind, other.next);
        }
        self.slots[usize::from(at)].next = behind;
        match self.slots.get_mut(usize::from(before)) {
            Some(slot) => slot.next = at,
            None => self.firsts[of.entry as usize] = at,
        }
        Ok(())
    }

    /// Takes the fragment of an entry that begins first.
    pub fn pop(&mut self, entry: u32) -> Option<T> {
        let first = self.firsts.get_mut(entry as usize)?;
        let at = *first;
        let slot = self.slots.get_mut(usize::from(at))?;
        *first = std::mem::replace(&mut slot.next, self.free);
        self.free = at;
        if let Some(count) = self.shares.get_mut(slot.share as usize) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = self.kinds.get_mut(usize::from(slot.kind)) {
            *count = count.saturating_sub(1);
        }
        slot.item.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    const MOST: u16 = 12;
    const OF_SHARE: u16 = 5;
    const BY_KIND: [usize; 2] = [7, 3];

    proptest! {
        #[test]
        fn fragments_leave_in_order_and_limits_hold(
            steps in prop::collection::vec((0..6_u32, 0..3_u32, 0..2_usize, 0..9_u16, any::<u8>()), 1..300),
        ) {
            let mut held = Held::new(MOST, OF_SHARE, 8);
            // By entry: those that begin at one place leave the youngest first.
            let mut model: BTreeMap<u32, Vec<(Of, usize)>> = BTreeMap::new();
            for (number, (entry, share, kind, start, chance)) in steps.into_iter().enumerate() {
                if chance < 80 {
                    let of = model.entry(entry).or_default();
                    let first = of.iter().map(|it| it.0.start).min();
                    let at = of.iter().rposition(|it| Some(it.0.start) == first);
                    let expected = at.map(|at| of.remove(at).1);
                    prop_assert_eq!(held.pop(entry), expected);
                } else {
                    let of = Of { entry, share, kind, start };
                    let all = || model.values().flatten().map(|it| it.0);
                    let fits = all().count() < MOST.into()
                        && all().filter(|it| it.share == share).count() < OF_SHARE.into()
                        && all().filter(|it| it.kind == kind).count() < BY_KIND[kind];
                    prop_assert_eq!(held.has_room(&of, BY_KIND), fits);
                    if fits {
                        prop_assert_eq!(held.push(&of, number), Ok(()));
                        model.entry(entry).or_default().push((of, number));
                    }
                }
                prop_assert_eq!(held.len(), model.values().map(Vec::len).sum::<usize>());
            }
            let left: BTreeSet<usize> = model.values().flatten().map(|it| it.1).collect();
            let popped = (0..6).flat_map(|entry| std::iter::from_fn(|| held.pop(entry)).collect::<Vec<_>>());
            prop_assert_eq!(popped.collect::<BTreeSet<_>>(), left);
            prop_assert!(held.is_empty());
        }
    }

    #[test]
    fn what_has_no_room_is_given_back() {
        let mut held = Held::new(2, 1, 8);
        let of = Of { entry: 1, share: 1, kind: 0, start: 3 };
        assert_eq!(held.push(&of, 'a'), Ok(()));
        assert_eq!(held.push(&of, 'b'), Err('b'), "of its share");
        assert_eq!(held.push(&Of { share: 2, ..of }, 'c'), Ok(()));
        assert_eq!(held.push(&Of { share: 3, ..of }, 'd'), Err('d'), "of all");
        assert_eq!(held.push(&Of { share: 99, ..of }, 'e'), Err('e'));
    }
}
