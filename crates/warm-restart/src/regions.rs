//! The regions of this process: what an earlier process left is adopted, everything else is made anew.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use crate::header::{self, Unusable};
use crate::holder::{Holder, Inherited};
use crate::message::is_name;
use crate::record::State;
use crate::region::{Adopted, Region, Slot};

/// The memory of this process that outlives it.
#[derive(Debug)]
pub struct Regions {
    holder: Holder,
    /// What no capability has asked for yet.
    inherited: Inherited,
    /// The last serial number of each name that was opened, and whether the region is still in use.
    opened: BTreeMap<&'static str, (u64, bool)>,
    boot: u128,
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

impl Regions {
    /// Memory that ends with this process, for tests of capabilities.
    #[must_use]
    pub fn in_this_process() -> Self {
        Self::with(Holder::nobody(), Vec::new())
    }

    fn with(holder: Holder, inherited: Inherited) -> Self {
        Self { holder, inherited, opened: BTreeMap::new(), boot: header::boot_id() }
    }

    /// Opens the region of a capability: with the entries of the earlier process, and with room for `capacity`.
    ///
    /// # Errors
    /// The system has not enough memory, or the region is open already.
    pub fn open<S: State>(&mut self, capacity: usize) -> std::io::Result<Opened<S>> {
        let last = match self.opened.get(S::NAME) {
            Some((_, true)) => return Err(std::io::ErrorKind::AlreadyExists.into()),
            Some((last, false)) => *last,
            None => 0,
        };
        let mut serials = self.take(S::NAME);
        // The newest first: a process that moved its entries to new memory may have been killed before it released
        // the old one.
        serials.sort_unstable_by_key(|(serial, _)| std::cmp::Reverse(*serial));
        let next = serials.first().map_or(last, |(serial, _)| *serial).saturating_add(1);
        let mut report = Report::default();
        let mut adopted: Option<(u64, Adopted<S>)> = None;
        let mut outdated = Vec::new();
        let mut is_lost = false;
        for (serial, file) in serials {
            if adopted.is_some() || is_lost {
                outdated.push(serial);
                continue;
            }
            match Region::adopt(&file, self.boot) {
                Ok(found) => adopted = Some((serial, found)),
                Err(reason) => {
                    tracing::warn!("the state of {} is lost with its memory: {reason}", S::NAME);
                    is_lost = reason.may_be_newest();
                    report.discarded.push(reason);
                    outdated.push(serial);
                }
            }
        }
        let (serial, region, entries) = match adopted {
            Some((serial, found)) if found.left_out == 0 && found.region.capacity() == capacity => {
                report.torn = found.torn;
                (serial, found.region, found.entries)
            }
            other => {
                outdated.extend(other.as_ref().map(|(serial, _)| *serial));
                let old = other.map(|(_, found)| found);
                let (region, entries) = self.renew(capacity, next, old, &mut report)?;
                (next, region, entries)
            }
        };
        self.opened.insert(S::NAME, (serial, true));
        for serial in outdated {
            self.release(S::NAME, serial);
        }
        report.adopted = entries.len();
        report.log(S::NAME);
        Ok(Opened { region, entries, report })
    }

    /// Releases the memory of a capability that is no longer in use: nothing of it is found by the next process.
    pub fn discard<S: State>(&mut self) {
        if let Some((serial, is_open)) = self.opened.get_mut(S::NAME) {
            let serial = *serial;
            if std::mem::take(is_open) {
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
    ) -> std::io::Result<(Region<S>, Entries<S>)> {
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
        Ok((region, entries))
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
mod tests;
