//! Grace periods: what a writer has removed waits here until no reader can still hold it.
//!
//! Workers read the tables without locks, so a freed cell may be in the hands of a worker that
//! loaded its index a moment ago. The rule for the owner of a table is four steps:
//!
//! 1. change the table any number of times;
//! 2. begin a new epoch `e` (a number that only grows) and call `retire_mark(e)`: everything freed
//!    since the last mark now belongs to `e`;
//! 3. wait until **every** worker has passed a quiescent point (it holds no index from a table)
//!    after `e` began;
//! 4. call `reclaim(e)`: what belongs to `e` or an earlier epoch may be used again.
//!
//! Forgetting step 4 is safe: the table then fills up and returns an error.

use std::collections::VecDeque;

/// A table whose freed cells wait for a grace period; see the [module](self) for the four steps.
pub trait Reclaim {
    /// Gives everything freed since the last mark to `epoch`, which must not be smaller than the
    /// epoch of the last mark.
    fn retire_mark(&mut self, epoch: u64);
    /// Makes everything that belongs to `safe_epoch` or an earlier epoch usable again.
    fn reclaim(&mut self, safe_epoch: u64);
    /// How many freed cells (runs of cells) wait, marked or not.
    fn pending(&self) -> usize;
}

/// First-in first-out list of retired items, grouped by epoch.
#[derive(Debug)]
pub(crate) struct Retired<T> {
    things: VecDeque<T>,
    /// (epoch, number of items that belong to it), oldest first.
    marks: VecDeque<(u64, usize)>,
    unmarked: usize,
}

impl<T> Retired<T> {
    pub(crate) fn new() -> Self {
        Self { things: VecDeque::new(), marks: VecDeque::new(), unmarked: 0 }
    }

    pub(crate) fn push(&mut self, thing: T) {
        self.things.push_back(thing);
        self.unmarked += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.things.len()
    }

    pub(crate) fn mark(&mut self, epoch: u64) {
        if self.unmarked == 0 {
            return;
        }
        debug_assert!(self.marks.back().is_none_or(|&(last, _)| last <= epoch));
        self.marks.push_back((epoch, self.unmarked));
        self.unmarked = 0;
    }

    /// Returns the oldest item whose epoch is safe; `None` when there is none.
    pub(crate) fn pop_safe(&mut self, safe_epoch: u64) -> Option<T> {
        let (epoch, left) = self.marks.front_mut()?;
        if *epoch > safe_epoch {
            return None;
        }
        *left -= 1;
        if *left == 0 {
            self.marks.pop_front();
        }
        self.things.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_wait_for_their_epoch() {
        let mut retired = Retired::new();
        retired.push(1);
        retired.push(2);
        retired.mark(5);
        retired.mark(6); // nothing new: no empty group
        retired.push(3);
        assert_eq!(retired.pop_safe(4), None);
        assert_eq!(retired.pop_safe(5), Some(1));
        assert_eq!(retired.pop_safe(5), Some(2));
        assert_eq!(retired.pop_safe(u64::MAX), None, "what is not marked is never safe");
        retired.mark(7);
        assert_eq!(retired.len(), 1);
        assert_eq!(retired.pop_safe(9), Some(3));
        assert_eq!(retired.len(), 0);
    }
}
