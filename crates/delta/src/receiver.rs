//! The receiving half: applies messages in batches, marks and sweeps, and knows what the capability holds.

use std::hash::Hash;

use crate::audit::Audit;
use crate::codec::{self, Change, Encode, Malformed, Reader};
use crate::digest::{self, Digests};
use crate::message::{Message, Refusal, RefusedKeys, Reply, refuse};
use crate::slots::Slots;

/// Most rows of a batch: about a millisecond.
pub const BATCH_ROWS: usize = 1_024;
/// Most entries that a batch of an audit reads.
pub(crate) const SCAN_ENTRIES: usize = 16 * BATCH_ROWS;

/// What a capability does with rows. It keeps them; the receiver keeps only keys and digests.
pub trait Store {
    /// What rows are found by.
    type Key: Encode + Clone + Eq + Hash + Send;
    /// What is in force under a key.
    type Row: Encode;
    /// What the capability needs for its work, besides its own state.
    type Context: ?Sized;

    /// Brings a row into force, in place of the former one. The row that is in force already changes nothing.
    ///
    /// # Errors
    /// The row cannot be in force; the receiver then removes the former one.
    fn set(
        &mut self,
        context: &mut Self::Context,
        key: &Self::Key,
        row: Self::Row,
    ) -> Result<(), Refusal>;

    /// Removes a row.
    fn remove(&mut self, context: &mut Self::Context, key: &Self::Key);

    /// The row in force, read from what packets use: an audit must not trust a second record.
    fn get(&self, context: &Self::Context, key: &Self::Key) -> Option<Self::Row>;

    /// Number of rows in force.
    fn rows(&self, context: &Self::Context) -> u64;

    /// How many more rows there is room for.
    fn room(&self, context: &Self::Context) -> u64;
}

/// A newer caller has superseded this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a newer caller has taken over the rows")]
pub struct Superseded;

/// What a receiver holds, without a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Counts the messages that began.
    pub generation: u64,
    /// Whether the generation is complete: nothing is stale.
    pub is_complete: bool,
    /// Rows in force.
    pub rows: u64,
    /// Of them, not sent again since the generation began.
    pub stale: u64,
    /// The sum of all rows' digests.
    pub digest: u64,
}

/// A table of rows, whatever the types of its keys and rows.
pub trait Table<C: ?Sized>: Send {
    /// Runs the next batch of a message; true once the message has taken effect.
    ///
    /// # Errors
    /// A newer caller has superseded this one; the rest of the message is discarded.
    fn step(&mut self, context: &mut C, update: &mut Update) -> Result<bool, Superseded>;

    /// Begins an audit that lists these slices.
    fn begin_audit(&self, slices: &[u32]) -> Audit;

    /// Runs the next batch of an audit; true at its end.
    fn audit_step(&self, context: &C, audit: &mut Audit) -> bool;

    /// What is held.
    fn summary(&self) -> Summary;
}

/// A message in progress.
#[derive(Debug)]
pub struct Update {
    caller: u64,
    message: Message,
    stage: Stage,
    reply: Reply,
}

/// The next step.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The changes from this byte on.
    Changes(usize),
    /// The sweep from this slot on.
    Sweep(u32),
    Done,
}

impl Update {
    /// A message of a caller; the caller with the highest number wins.
    ///
    /// # Errors
    /// The changes are malformed; nothing is applied.
    pub fn new(caller: u64, message: Message) -> Result<Self, Malformed> {
        codec::check(&message.changes)?;
        let reply = Reply { number: message.number, ..Reply::default() };
        Ok(Self { caller, message, stage: Stage::Changes(0), reply })
    }

    /// The reply after the last step.
    pub fn into_reply(self) -> Reply {
        self.reply
    }
}

/// What the receiver knows about a row.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) digest: u64,
    pub(crate) generation: u64,
    pub(crate) slice: u8,
}

/// The receiving half of a stream.
pub struct Receiver<S: Store> {
    pub(crate) store: S,
    pub(crate) entries: Slots<S::Key, Held>,
    digests: Digests,
    generation: u64,
    /// Rows of earlier generations.
    stale: u64,
    is_complete: bool,
    /// The newest caller.
    caller: u64,
    /// Counts changes.
    pub(crate) changes: u64,
    /// Most rows of a batch.
    batch: usize,
}

impl<S: Store> Receiver<S> {
    /// The receiver of a capability without rows.
    pub fn new(store: S) -> Self {
        Self {
            store,
            entries: Slots::default(),
            digests: Digests::default(),
            generation: 0,
            stale: 0,
            is_complete: false,
            caller: 0,
            changes: 0,
            batch: BATCH_ROWS,
        }
    }

    /// Takes over rows that the store has in force already, such as those of memory that survived a restart. They are
    /// stale from the first message on: what the sender does not send again is swept. Keys without a row are ignored.
    pub fn adopt(&mut self, context: &S::Context, keys: impl IntoIterator<Item = S::Key>) {
        let (mut key_bytes, mut row_bytes) = (Vec::new(), Vec::new());
        for key in keys {
            let Some(row) = self.store.get(context, &key) else { continue };
            key_bytes.clear();
            row_bytes.clear();
            key.encode(&mut key_bytes);
            row.encode(&mut row_bytes);
            let hash = digest::key(&key_bytes);
            let (digest, slice) = (digest::row(hash, &row_bytes), digest::slice(hash));
            let held = Held { digest, generation: self.generation, slice: slice as u8 };
            let (_, is_new) = self.entries.find_or_insert(key, || held);
            if is_new {
                self.digests.add(slice, digest);
                self.changes += 1;
            }
        }
    }

    /// With at most so many rows in a batch.
    pub fn with_batches_of(mut self, rows: usize) -> Self {
        self.batch = rows.max(1);
        self
    }

    /// The capability's rows.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The same, for faults of tests.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    fn begin_generation(&mut self) {
        self.generation += 1;
        self.changes += 1;
        self.is_complete = false;
        // Each entry has its generation: marking them all is one addition.
        self.stale = self.entries.len() as u64;
    }

    /// Applies a batch; returns where the next one begins.
    fn apply_batch(
        &mut self,
        context: &mut S::Context,
        changes: &[u8],
        from: usize,
        refused: &mut Vec<RefusedKeys>,
    ) -> usize {
        let mut reader = Reader::new(changes, from);
        for _ in 0..self.batch {
            // The block was checked before.
            let Ok(Some(change)) = reader.change() else { return changes.len() };
            self.changes += 1;
            if let Err(refusal) = self.change(context, change) {
                refuse(refused, change.key, refusal);
            }
        }
        reader.at()
    }

    fn change(&mut self, context: &mut S::Context, change: Change<'_>) -> Result<(), Refusal> {
        let malformed = |what: &str| Refusal {
            reason: format!("the {what} is malformed"),
            fix: "Use controller and forwarder of the same version.".to_owned(),
            is_full: false,
        };
        let key = S::Key::decode(change.key).ok_or_else(|| malformed("key"))?;
        let Some(bytes) = change.row else {
            self.remove(context, &key);
            return Ok(());
        };
        let row = S::Row::decode(bytes).ok_or_else(|| malformed("row"));
        if let Err(refusal) = row.and_then(|row| self.store.set(context, &key, row)) {
            // A former row is not desired any more.
            self.remove(context, &key);
            return Err(refusal);
        }
        let hash = digest::key(change.key);
        let (digest, slice) = (digest::row(hash, bytes), digest::slice(hash));
        let held = Held { digest, generation: self.generation, slice: slice as u8 };
        let (slot, is_new) = self.entries.find_or_insert(key, || held);
        if !is_new && let Some((_, held)) = self.entries.get_mut(slot) {
            self.digests.remove(slice, held.digest);
            self.stale -= u64::from(held.generation != self.generation);
            (held.digest, held.generation) = (digest, self.generation);
        }
        self.digests.add(slice, digest);
        Ok(())
    }

    fn remove(&mut self, context: &mut S::Context, key: &S::Key) {
        let Some(slot) = self.entries.find(key) else { return };
        self.remove_slot(context, slot);
    }

    fn remove_slot(&mut self, context: &mut S::Context, slot: u32) {
        let Some((key, held)) = self.entries.remove(slot) else { return };
        self.store.remove(context, &key);
        self.digests.remove(held.slice.into(), held.digest);
        self.stale -= u64::from(held.generation != self.generation);
    }

    /// Removes stale rows; returns where to continue.
    fn sweep(&mut self, context: &mut S::Context, from: u32) -> Option<u32> {
        if self.stale == 0 {
            return None;
        }
        let end = self.entries.end().min(from.saturating_add(4 * self.batch as u32));
        let mut swept = 0;
        for slot in from..end {
            let entry = self.entries.get(slot);
            if entry.is_none_or(|(_, held)| held.generation == self.generation) {
                continue;
            }
            if swept == self.batch {
                return Some(slot);
            }
            self.remove_slot(context, slot);
            self.changes += 1;
            swept += 1;
        }
        (end < self.entries.end()).then_some(end)
    }
}

impl<S: Store + Send> Table<S::Context> for Receiver<S> {
    fn step(&mut self, context: &mut S::Context, update: &mut Update) -> Result<bool, Superseded> {
        if update.caller < self.caller {
            return Err(Superseded);
        }
        self.caller = update.caller;
        let Update { message, stage, reply, .. } = update;
        match *stage {
            Stage::Changes(from) => {
                if std::mem::take(&mut message.begins) {
                    self.begin_generation();
                }
                let next = self.apply_batch(context, &message.changes, from, &mut reply.refused);
                *stage = match next < message.changes.len() {
                    true => Stage::Changes(next),
                    false if message.completes => Stage::Sweep(0),
                    false => Stage::Done,
                };
            }
            Stage::Sweep(from) => {
                let next = self.sweep(context, from);
                self.is_complete = next.is_none();
                *stage = next.map_or(Stage::Done, Stage::Sweep);
            }
            Stage::Done => {}
        }
        let is_done = matches!(stage, Stage::Done);
        if is_done {
            (reply.generation, reply.room) = (self.generation, self.store.room(context));
        }
        Ok(is_done)
    }

    fn begin_audit(&self, slices: &[u32]) -> Audit {
        Audit::new(slices, self.changes)
    }

    fn audit_step(&self, context: &S::Context, audit: &mut Audit) -> bool {
        audit.run(self, context)
    }

    fn summary(&self) -> Summary {
        Summary {
            generation: self.generation,
            is_complete: self.is_complete,
            rows: self.digests.rows,
            stale: self.stale,
            digest: self.digests.total(),
        }
    }
}
