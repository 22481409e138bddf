//! Many insertions at once.
//!
//! Prefixes that ascend within one root slot go into the bookkeeping first; then the look-up
//! structure below that slot is planned and published once for all of them. A table that is
//! loaded in order so has each chunk written once, where single insertions write most of them again
//! for each of their prefixes.

use super::key::Key;
use super::writer::{Lpm, check, check_value};
use super::{Limit, LpmError};

/// What [`Lpm::insert_all`] did not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// Routes before the refused one; all of them are in.
    pub inserted: usize,
    /// Why the next one is not.
    pub error: LpmError,
}

/// A prefix longer than the root's bits that the bookkeeping has and look-ups do not see yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted<K> {
    pub(super) prefix: K,
    pub(super) len: u8,
    value: u32,
    /// Its value before.
    old: Option<u32>,
}

impl<K: Key> Lpm<K> {
    /// Points each prefix to its value, one after the other, as [`Self::insert`] does: the result
    /// is the same in any order, and the fastest when prefixes ascend by address and length.
    ///
    /// # Errors
    /// The first refusal, as of [`Self::insert`]. What came before is in, what comes after is not
    /// looked at.
    pub fn insert_all(
        &mut self,
        routes: impl IntoIterator<Item = (K, u8, u32)>,
    ) -> Result<(), Refused> {
        let mut inserted = 0;
        let mut noted: Vec<Noted<K>> = Vec::new();
        for (prefix, len, value) in routes {
            let follows = noted.last().is_some_and(|last| {
                last.prefix.root() == prefix.root() && (last.prefix, last.len) < (prefix, len)
            });
            if !follows {
                self.publish(&mut noted, &mut inserted)?;
            }
            let done = if len <= K::ROOT_BITS {
                self.insert(prefix, len, value).map(|_| inserted += 1)
            } else {
                self.note(prefix, len, value)
                    .map(|old| noted.push(Noted { prefix, len, value, old }))
            };
            if let Err(error) = done {
                self.publish(&mut noted, &mut inserted)?;
                return Err(Refused { inserted, error });
            }
        }
        self.publish(&mut noted, &mut inserted)
    }

    /// Puts a long prefix into the bookkeeping only; gives back its value before.
    fn note(&mut self, prefix: K, len: u8, value: u32) -> Result<Option<u32>, LpmError> {
        check(prefix, len)?;
        check_value(value)?;
        let noted = self.note_new(prefix, len, value);
        noted.map_err(|limit| {
            self.prune(prefix, len);
            LpmError::Full(limit)
        })
    }

    fn note_new(&mut self, prefix: K, len: u8, value: u32) -> Result<Option<u32>, Limit> {
        if self.routes == self.route_limit && self.exact(prefix, len).is_none() {
            return Err(Limit::Routes);
        }
        let (id, depth) = self.make_nodes(prefix, len)?;
        let index = Self::index(prefix, len, depth);
        if let Some(cell) = self.rib.value_mut(id, index) {
            return Ok(Some(core::mem::replace(cell, value)));
        }
        self.rib.add_prefix(id, index, value)?;
        self.routes += 1;
        Ok(None)
    }

    /// Lets look-ups see what was noted. Where it does not fit as a whole, as much of it as fits.
    fn publish(&mut self, noted: &mut Vec<Noted<K>>, inserted: &mut usize) -> Result<(), Refused> {
        let Some(first) = noted.first() else { return Ok(()) };
        if self.update_block(first.prefix.root(), noted).is_ok() {
            *inserted += noted.len();
            noted.clear();
            return Ok(());
        }
        for route in noted.iter().rev() {
            self.forget(route);
        }
        for route in noted.drain(..) {
            self.insert(route.prefix, route.len, route.value)
                .map_err(|error| Refused { inserted: *inserted, error })?;
            *inserted += 1;
        }
        Ok(())
    }

    /// Takes a noted prefix back.
    fn forget(&mut self, route: &Noted<K>) {
        let Some(old) = route.old else {
            self.drop_long(route.prefix, route.len);
            self.routes -= 1;
            return;
        };
        if let Some((path, depth)) = self.path(route.prefix, route.len)
            && let Some(&id) = path.ids().last()
            && let Some(cell) = self.rib.value_mut(id, Self::index(route.prefix, route.len, depth))
        {
            *cell = old;
        }
    }
}
