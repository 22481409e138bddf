//! The regions of this process: what an earlier process left is adopted, everything else is made anew.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use crate::arrays::{self, Arrays, FormerArrays, Kept};
use crate::header::{self, Unusable};
use crate::holder::{Holder, Inherited};
use crate::message::is_name;
use crate::probe::Journal;
use crate::record::State;
use crate::region::{Adopted, Region, Slot, Use};

/// The memory of this process that outlives it.
#[derive(Debug)]
pub struct Regions {
    holder: Arc<Holder>,
    /// What no capability has asked for yet.
    inherited: Inherited,
    /// The regions that this process has opened, by name.
    opened: BTreeMap<&'static str, Last>,
    /// What is held of arrays, by name.
    arrays: BTreeMap<&'static str, Arc<Mutex<Kept>>>,
    boot: u128,
    journal: Option<Journal>,
}

/// The region that this process has opened last under a name.
#[derive(Debug)]
struct Last {
    serial: u64,
    /// `None` once it was discarded.
    memory: Option<(OwnedFd, Use)>,
}

/// Entries of an earlier process: the right to write each of them, and its value.
pub type Entries<S> = Vec<(Slot<S>, <S as State>::Value)>;

/// A region, and the entries that an earlier process left in it.
pub struct Opened<S: State> {
    /// Where entries are inserted and removed.
    pub region: Region<S>,
    /// Entries of the earlier process. Remove those that are no longer needed, and keep the slots of the others.
    pub entries: Entries<S>,
    /// What became of the memory of the earlier process.
    pub report: Report,
}

/// What became of the memory of an earlier process.
#[derive(Debug, Default)]
pub struct Report {
    /// Entries that are there again.
    pub adopted: usize,
    /// Unfinished writes that were discarded. Their entries have the values from before.
    pub torn: usize,
    /// Entries that were not believed.
    pub left_out: usize,
    /// Entries for which the new capacity is too small.
    pub without_room: usize,
    /// Regions that could not be used.
    pub discarded: Vec<Unusable>,
}

/// The memory that outlives this process. Whoever started it holds the memory: `stoa run`, or systemd if the unit has
/// `FileDescriptorStoreMax=`. Otherwise the memory ends with the process. To be called once, at the start.
#[must_use]
pub fn regions() -> Regions {
    let (holder, inherited) = Holder::find(|name| parse(name).is_some());
    Regions::with(holder, inherited)
}

/// The name of a capability's region and its serial number, by which the newest one is known.
fn parse(name: &str) -> Option<(&str, u64)> {
    let (name, serial) = name.rsplit_once('.')?;
    Some((name, serial.parse().ok()?))
}

/// The newest memory that is usable: its serial number, its file, and what it has.
type Newest<S> = (u64, OwnedFd, Adopted<S>);

impl Regions {
    /// Memory that ends with this process, for tests of capabilities.
    #[must_use]
    pub fn in_this_process() -> Self {
        Self::with(Holder::nobody(), Vec::new())
    }

    /// The memory of a process whose supervisor has the other end of this socket
    /// ([`DescriptorStore::connect`](crate::DescriptorStore::connect)).
    #[must_use]
    pub fn of_child(socket: OwnedFd) -> Self {
        let (holder, inherited) = Holder::child(socket);
        Self::with(holder, inherited)
    }

    fn with(holder: Holder, inherited: Inherited) -> Self {
        let boot = header::boot_id();
        let (holder, opened, arrays) = (Arc::new(holder), BTreeMap::new(), BTreeMap::new());
        Self { holder, inherited, opened, arrays, boot, journal: None }
    }

    /// The same for a process whose test capability ([`crate::probe`]) writes a journal.
    #[must_use]
    pub fn with_journal(self, journal: Option<Journal>) -> Self {
        Self { journal, ..self }
    }

    /// The journal of the test capability; `None`: it does not run.
    #[must_use]
    pub fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// Opens the region of a capability: with the entries of the earlier process, and with room for `capacity`. A
    /// capability that starts a second time in this process finds the entries of its first start.
    ///
    /// # Errors
    /// The system has not enough memory, which loses nothing; or the region is in use: another capability has the same
    /// name, or the first start has not ended.
    pub fn open<S: State>(&mut self, capacity: usize) -> std::io::Result<Opened<S>> {
        let mut found = self.take(S::NAME);
        let mut last = 0;
        if let Some(Last { serial, memory }) = self.opened.get_mut(S::NAME) {
            if memory.as_ref().is_some_and(|(_, by)| by.is_in_use()) {
                let cause = format!("the region {:?} is in use: end its capability first", S::NAME);
                return Err(std::io::Error::new(std::io::ErrorKind::AlreadyExists, cause));
            }
            last = *serial;
            found.extend(memory.take().map(|(file, _)| (*serial, file)));
        }
        // The newest first: a process that moved its entries to new memory may have been killed before it released
        // the old one.
        found.sort_unstable_by_key(|(serial, _)| std::cmp::Reverse(*serial));
        let next = found.first().map_or(last, |(serial, _)| *serial).saturating_add(1);
        let mut report = Report::default();
        let (newest, mut outdated) = self.adopt_newest::<S>(found, &mut report);
        let (serial, file, region, entries) = match newest {
            Some((serial, file, found))
                if found.left_out == 0 && found.region.capacity() == capacity =>
            {
                report.torn = found.torn;
                (serial, file, found.region, found.entries)
            }
            other => {
                let (old_file, old) =
                    other.map(|(serial, file, found)| ((serial, file), found)).unzip();
                match self.renew(capacity, next, old, &mut report) {
                    Ok((file, region, entries)) => {
                        outdated.extend(old_file.map(|(serial, _)| serial));
                        (next, file, region, entries)
                    }
                    Err(error) => {
                        let free =
                            |(serial, file)| Last { serial, memory: Some((file, Use::none())) };
                        self.opened.extend(old_file.map(|old| (S::NAME, free(old))));
                        return Err(error);
                    }
                }
            }
        };
        let memory = Some((file, region.in_use()));
        self.opened.insert(S::NAME, Last { serial, memory });
        for serial in outdated {
            self.release(S::NAME, serial);
        }
        report.adopted = entries.len();
        report.log(S::NAME);
        Ok(Opened { region, entries, report })
    }

    /// Has arrays of this process lie in memory that outlives it: `cells`, which are all zero, begin and end at a
    /// multiple of [`ARRAY_ALIGN`](crate::ARRAY_ALIGN), and whose addresses are used for nothing else as long as this
    /// process runs. Also returns the arrays of the former process, or of the last start in this one. `None`: nobody
    /// would hold them.
    ///
    /// # Errors
    /// The system has not enough memory. Some of the cells may lie in new memory; they are zero.
    pub fn open_arrays<'a>(
        &mut self,
        name: &'static str,
        cells: impl FnOnce() -> Vec<&'a [AtomicU32]>,
    ) -> std::io::Result<Option<(Arrays, Option<FormerArrays>)>> {
        if !self.holder.is_somebody() {
            return Ok(None);
        }
        if !self.arrays.contains_key(name) {
            let (kept, outdated) = arrays::newest(self.take(name));
            outdated.into_iter().for_each(|serial| self.release(name, serial));
            self.arrays.insert(name, Arc::new(Mutex::new(kept)));
        }
        let kept = self.arrays.get(name).cloned().unwrap_or_default();
        let newest = {
            let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.newest.as_ref().map(|(_, file)| Arc::clone(file))
        };
        let former = newest.and_then(|file| {
            let former = FormerArrays::of(file);
            former
                .inspect_err(|reason| tracing::warn!("the state of {name} is lost: {reason}"))
                .ok()
        });
        let arrays = Arrays::new(name, &cells(), (Arc::clone(&self.holder), kept))?;
        Ok(Some((arrays, former)))
    }

    /// Adopts the newest memory that is usable; also returns the serial numbers of what nobody needs any more.
    fn adopt_newest<S: State>(
        &self,
        found: Vec<(u64, OwnedFd)>,
        report: &mut Report,
    ) -> (Option<Newest<S>>, Vec<u64>) {
        let (mut newest, mut outdated, mut is_lost) = (None, Vec::new(), false);
        for (serial, file) in found {
            if newest.is_some() || is_lost {
                outdated.push(serial);
                continue;
            }
            match Region::adopt(&file, self.boot) {
                Ok(adopted) => newest = Some((serial, file, adopted)),
                Err(reason) => {
                    tracing::warn!("the state of {} is lost with its memory: {reason}", S::NAME);
                    is_lost = reason.may_be_newest();
                    report.discarded.push(reason);
                    outdated.push(serial);
                }
            }
        }
        (newest, outdated)
    }

    /// Releases the memory of a capability that is no longer in use: nothing of it is found by the next process.
    pub fn discard<S: State>(&mut self) {
        if let Some(Last { serial, memory }) = self.opened.get_mut(S::NAME) {
            let serial = *serial;
            if memory.take().is_some() {
                self.release(S::NAME, serial);
            }
        }
        for (serial, _) in self.take(S::NAME) {
            self.release(S::NAME, serial);
        }
    }

    /// New memory, with the entries of the old one. It is complete before it is held, and the old one is released
    /// after that: whenever this process is killed, one of them is complete.
    fn renew<S: State>(
        &self,
        capacity: usize,
        serial: u64,
        old: Option<Adopted<S>>,
        report: &mut Report,
    ) -> std::io::Result<(OwnedFd, Region<S>, Entries<S>)> {
        let (mut region, file) = Region::create(capacity, self.boot)?;
        let mut entries = Vec::new();
        if let Some(old) = old {
            (report.torn, report.left_out) = (old.torn, old.left_out);
            for (slot, value) in old.entries {
                match region.insert(*slot.key(), &value) {
                    Some(slot) => entries.push((slot, value)),
                    None => report.without_room += 1,
                }
            }
        }
        self.hold(S::NAME, serial, &file);
        Ok((file, region, entries))
    }

    fn hold(&self, name: &str, serial: u64, file: &OwnedFd) {
        let full = format!("{name}.{serial}");
        debug_assert!(is_name(&full));
        if let Err(error) = self.holder.store(&full, file.as_fd()) {
            tracing::warn!("the state of {name} does not survive a restart: {error}");
        } else if !self.holder.is_somebody() {
            tracing::debug!(
                "the state of {name} does not survive a restart: no supervisor holds it"
            );
        }
    }

    fn release(&self, name: &str, serial: u64) {
        // Whoever held it is gone otherwise.
        let _ = self.holder.remove(&format!("{name}.{serial}"));
    }

    /// Takes the inherited memory of a capability.
    fn take(&mut self, name: &str) -> Vec<(u64, OwnedFd)> {
        let is_of = |full: &str| parse(full).is_some_and(|(one, _)| one == name);
        let taken = self.inherited.extract_if(.., |(full, _)| is_of(full));
        taken.filter_map(|(full, file)| Some((parse(&full)?.1, file))).collect()
    }
}

impl Report {
    fn log(&self, name: &str) {
        let Self { adopted, torn, left_out, without_room, discarded } = self;
        if left_out + without_room > 0 {
            tracing::warn!(
                "{name}: {adopted} entries of the last process adopted, {left_out} damaged ones \
                 discarded, {without_room} that do not fit, {torn} unfinished writes discarded"
            );
        } else if adopted + torn > 0 || !discarded.is_empty() {
            tracing::info!(
                "{name}: {adopted} entries of the last process adopted, {torn} unfinished writes \
                 discarded"
            );
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
