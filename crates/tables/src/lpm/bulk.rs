//! Many changes at once.
//!
//! Prefixes that ascend within one root slot go into the bookkeeping first; then the look-up
//! structure below that slot is planned and published once for all of them. A table that is
//! loaded in order writes each chunk once, where single changes write most of them again
//! for each of their prefixes. Where the next changes are known, what they touch is prefetched:
//! in a large table, waiting for memory is most of the work.

use super::key::Key;
use super::writer::{Lpm, check, check_value};
use super::{Limit, LpmError};

/// How many changes ahead the root slots, their nodes, and what these point to are prefetched.
const AHEAD: [usize; 3] = [24, 16, 8];

/// What [`Lpm::insert_all`] or [`Lpm::change_all`] did not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// Routes before the refused one; all of them are done.
    pub inserted: usize,
    /// Why the next one is not.
    pub error: LpmError,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There was no such prefix; there is one now.
    Added,
    /// The prefix had this value before.
    Replaced(u32),
    /// The prefix had this value and is gone.
    Removed(u32),
    /// There was nothing to remove.
    Absent,
    /// The prefix has this value, which was not to be replaced.
    Kept(u32),
}

/// A prefix longer than the root's bits that the bookkeeping has and look-ups do not find yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted<K> {
    pub(super) prefix: K,
    pub(super) len: u8,
    /// 0: it is about to be removed.
    value: u32,
    /// Its value before.
    old: Option<u32>,
    /// Which change it is.
    at: usize,
}

impl<K: Key> Lpm<K> {
    /// Points each prefix to its value, one after the other, as [`Self::insert`] does: the result
    /// is the same in any order, and the fastest when prefixes ascend by address and length.
    ///
    /// # Errors
    /// The first refusal, as of [`Self::insert`]. What came before is applied, what comes after is not
    /// looked at.
    pub fn insert_all(
        &mut self,
        routes: impl IntoIterator<Item = (K, u8, u32)>,
    ) -> Result<(), Refused> {
        let mut noted = Vec::new();
        for (at, route) in routes.into_iter().enumerate() {
            let done = match check_value(route.2) {
                Ok(()) => self.change(&mut noted, at, route, |_| true).map(drop),
                Err(error) => Err(Refused { inserted: at, error }),
            };
            if let Err(refused) = done {
                self.publish(&mut noted)?;
                return Err(refused);
            }
        }
        self.publish(&mut noted)
    }

    /// Points each prefix to its value, or removes it where that is 0, one after the other, unless
    /// `may_replace` rejects the change of that number and the value that the prefix has. Their
    /// outcomes are written to `outcomes`, which is emptied first. The fastest when prefixes
    /// ascend by address and length.
    ///
    /// # Errors
    /// The first refusal, as of [`Self::insert`] and [`Self::remove`]. `outcomes` then has all that
    /// came before and is done; what comes after is not examined. A prefix to remove that is not
    /// there is no error.
    pub fn change_all(
        &mut self,
        changes: &[(K, u8, u32)],
        mut may_replace: impl FnMut(usize, u32) -> bool,
        outcomes: &mut Vec<Outcome>,
    ) -> Result<(), Refused> {
        outcomes.clear();
        let mut noted = Vec::new();
        for (at, &change) in changes.iter().enumerate() {
            self.look_ahead(&changes[at..]);
            match self.change(&mut noted, at, change, |old| may_replace(at, old)) {
                Ok(outcome) => outcomes.push(outcome),
                Err(refused) => {
                    let before = self.publish(&mut noted);
                    let refused = before.err().unwrap_or(refused);
                    outcomes.truncate(refused.inserted);
                    return Err(refused);
                }
            }
        }
        let done = self.publish(&mut noted);
        if let Err(refused) = done {
            outcomes.truncate(refused.inserted);
        }
        done
    }

    /// Prefetches what the changes after the next few touch.
    #[inline]
    fn look_ahead(&self, changes: &[(K, u8, u32)]) {
        let [slots, nodes, ends] = AHEAD.map(|ahead| changes.get(ahead));
        if let Some((prefix, ..)) = slots {
            self.prefetch_slot(prefix.root());
        }
        if let Some((prefix, ..)) = nodes {
            self.rib.prefetch_node(self.blocks[prefix.root()]);
        }
        if let Some((prefix, len, _)) = ends {
            let id = self.blocks[prefix.root()];
            if *len > K::ROOT_BITS + super::key::STRIDE {
                self.rib.prefetch_kids(id);
            }
            self.rib.prefetch_values(id);
            self.fib.prefetch(self.rib.node(id).word);
        }
    }

    #[inline]
    fn prefetch_slot(&self, block: usize) {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        {
            super::kernel::prefetch(&self.blocks, block);
            super::kernel::prefetch(self.fib.root(), block);
        }
        let _ = block;
    }

    /// Makes a change that takes effect in look-ups once what is `noted` is published.
    fn change(
        &mut self,
        noted: &mut Vec<Noted<K>>,
        at: usize,
        (prefix, len, value): (K, u8, u32),
        may_replace: impl FnOnce(u32) -> bool,
    ) -> Result<Outcome, Refused> {
        let follows = noted.last().is_some_and(|last| {
            last.prefix.root() == prefix.root() && (last.prefix, last.len) < (prefix, len)
        });
        if !follows {
            self.publish(noted)?;
        }
        let refuse = |error| Refused { inserted: at, error };
        check(prefix, len).map_err(refuse)?;
        if value != 0 {
            check_value(value).map_err(refuse)?;
        }
        if len <= K::ROOT_BITS {
            let old = self.exact(prefix, len);
            if let Some(old) = old.filter(|old| !may_replace(*old)) {
                return Ok(Outcome::Kept(old));
            }
            return match (value, old) {
                (0, None) => Ok(Outcome::Absent),
                (0, Some(_)) => self.remove(prefix, len).map(Outcome::Removed),
                _ => self.insert(prefix, len, value).map(was),
            }
            .map_err(refuse);
        }
        let done = if value == 0 {
            self.note_gone(prefix, len, may_replace)
        } else {
            self.note(prefix, len, value, may_replace).map_err(|limit| {
                self.prune(prefix, len);
                refuse(LpmError::Full(limit))
            })?
        };
        let old = match done {
            Outcome::Absent | Outcome::Kept(_) => return Ok(done),
            Outcome::Added => None,
            Outcome::Replaced(old) | Outcome::Removed(old) => Some(old),
        };
        noted.push(Noted { prefix, len, value, old, at });
        Ok(done)
    }

    /// Puts a long prefix into the bookkeeping only.
    fn note(
        &mut self,
        prefix: K,
        len: u8,
        value: u32,
        may_replace: impl FnOnce(u32) -> bool,
    ) -> Result<Outcome, Limit> {
        if self.routes == self.route_limit && self.exact(prefix, len).is_none() {
            return Err(Limit::Routes);
        }
        let (id, depth) = self.make_nodes(prefix, len)?;
        let index = Self::index(prefix, len, depth);
        if let Some(cell) = self.rib.value_mut(id, index) {
            let old = *cell;
            if !may_replace(old) {
                return Ok(Outcome::Kept(old));
            }
            *cell = value;
            return Ok(Outcome::Replaced(old));
        }
        self.rib.add_prefix(id, index, value)?;
        self.routes += 1;
        Ok(Outcome::Added)
    }

    /// Marks a long prefix in the bookkeeping as one that is about to go.
    fn note_gone(&mut self, prefix: K, len: u8, may_replace: impl FnOnce(u32) -> bool) -> Outcome {
        let Some((path, depth)) = self.path(prefix, len) else { return Outcome::Absent };
        let id = path.ids().last().copied().unwrap_or(super::rib::NO_NODE);
        let Some(cell) = self.rib.value_mut(id, Self::index(prefix, len, depth)) else {
            return Outcome::Absent;
        };
        let old = *cell;
        if !may_replace(old) {
            return Outcome::Kept(old);
        }
        *cell = 0;
        self.routes -= 1;
        Outcome::Removed(old)
    }

    /// Publishes what was noted; where it does not all fit, as much as fits.
    fn publish(&mut self, noted: &mut Vec<Noted<K>>) -> Result<(), Refused> {
        let Some(first) = noted.first() else { return Ok(()) };
        // Only removals may use the reserve.
        let adds = noted.iter().any(|route| route.value != 0);
        let keep = if adds { self.reserve } else { 0 };
        if self.update_block(first.prefix.root(), noted, keep).is_ok() {
            for route in noted.drain(..).filter(|route| route.value == 0) {
                self.drop_long(route.prefix, route.len);
            }
            return Ok(());
        }
        for route in noted.iter().rev() {
            self.forget(route);
        }
        for Noted { prefix, len, value, at, .. } in noted.drain(..) {
            let done = match value {
                0 => self.remove(prefix, len).map(drop),
                _ => self.insert(prefix, len, value).map(drop),
            };
            done.map_err(|error| Refused { inserted: at, error })?;
        }
        Ok(())
    }

    /// Takes a noted change back.
    fn forget(&mut self, route: &Noted<K>) {
        let Some(old) = route.old else {
            self.drop_long(route.prefix, route.len);
            self.routes -= 1;
            return;
        };
        self.routes += usize::from(route.value == 0);
        if let Some((path, depth)) = self.path(route.prefix, route.len)
            && let Some(&id) = path.ids().last()
            && let Some(cell) = self.rib.value_mut(id, Self::index(route.prefix, route.len, depth))
        {
            *cell = old;
        }
    }
}

fn was(old: Option<u32>) -> Outcome {
    old.map_or(Outcome::Added, Outcome::Replaced)
}
