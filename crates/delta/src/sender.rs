//! The sending half: rows that a capability wants in force, and messages that bring them there.

mod repair;
mod session;

use std::collections::{BTreeSet, VecDeque};
use std::hash::Hash;

use crate::codec::{Change, Encode, KEY_BYTES, ROW_BYTES};
use crate::digest::{self, Digests};
use crate::message::Message;
use crate::slots::Slots;
pub use session::ReplyError;
use session::Session;

/// How much may be sent at a time.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Most rows of a message: some milliseconds of the receiver.
    pub message_rows: usize,
    /// Bytes after which a message is closed.
    pub message_bytes: usize,
    /// Most unacknowledged messages.
    pub messages: usize,
    /// Unacknowledged bytes after which no message follows.
    pub bytes: usize,
    /// Waiting changes from which the capability should pause.
    pub waiting: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            message_rows: 8_192,
            message_bytes: 512 << 10,
            messages: 8,
            bytes: 4 << 20,
            waiting: 128 << 10,
        }
    }
}

/// A key or a row that is longer than the receiver accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key of {key} bytes, a row of {row}: at most {KEY_BYTES} and {ROW_BYTES} can be sent")]
pub struct TooLong {
    /// Bytes of the key.
    pub key: usize,
    /// Bytes of the row.
    pub row: usize,
}

/// A key with what is known about it.
#[derive(Debug)]
struct Entry<R> {
    /// The desired row; `None`: the key is about to be removed.
    row: Option<R>,
    /// That of the desired row.
    digest: u64,
    slice: u8,
    is_queued: bool,
    /// The receiver refused the row: it is not in force.
    is_refused: bool,
    /// Number of the message that last had the key; 0: none.
    sent_in: u64,
}

/// The sending half of a stream.
#[derive(Debug)]
pub struct Sender<K, R> {
    window: Window,
    entries: Slots<K, Entry<R>>,
    /// Rows that should be in force: all that are desired and not refused.
    expected: Digests,
    /// Slots with changes. Their entries exist.
    queue: VecDeque<u32>,
    /// Slots of rows for which there was no room.
    without_room: BTreeSet<u32>,
    /// Slots of all refused rows.
    refused: usize,
    session: Option<Session>,
    /// Number of the last message, over all sessions.
    number: u64,
    /// The capability has given all its rows.
    is_whole: bool,
    /// Counts changes of desired rows.
    changes: u64,
    scratch: (Vec<u8>, Vec<u8>),
}

impl<K: Encode + Clone + Eq + Hash, R: Encode + PartialEq> Sender<K, R> {
    /// A sender without rows and connection.
    pub fn new(window: Window) -> Self {
        Self {
            window,
            entries: Slots::default(),
            expected: Digests::default(),
            queue: VecDeque::new(),
            without_room: BTreeSet::new(),
            refused: 0,
            session: None,
            number: 0,
            is_whole: false,
            changes: 0,
            scratch: Default::default(),
        }
    }

    /// Wants a row in force.
    ///
    /// # Errors
    /// The key or the row is longer than a message may carry. Nothing changes then.
    pub fn set(&mut self, key: K, row: R) -> Result<(), TooLong> {
        let (slice, digest) = self.digest_of(&key, &row)?;
        let mut row = Some(row);
        let (slot, is_new) = self.entries.find_or_insert(key, || Entry {
            row: row.take(),
            digest,
            slice: slice as u8,
            is_queued: false,
            is_refused: false,
            sent_in: 0,
        });
        let Some((_, entry)) = self.entries.get_mut(slot) else { return Ok(()) };
        if !is_new {
            if entry.row == row {
                return Ok(());
            }
            if entry.row.is_some() && !entry.is_refused {
                self.expected.remove(slice, entry.digest);
            }
            (entry.row, entry.digest, entry.slice) = (row, digest, slice as u8);
        }
        if !entry.is_refused {
            self.expected.add(slice, digest);
        }
        self.changes += 1;
        self.enqueue(slot);
        Ok(())
    }

    /// Wants no row under this key.
    pub fn remove(&mut self, key: &K) {
        let Some(slot) = self.entries.find(key) else { return };
        let Some((_, entry)) = self.entries.get_mut(slot) else { return };
        if entry.row.take().is_none() {
            return;
        }
        if !entry.is_refused {
            self.expected.remove(entry.slice.into(), entry.digest);
        }
        self.changes += 1;
        if self.session.is_some() {
            // The receiver may hold it from before this session.
            self.push(slot);
        } else {
            self.release(slot);
        }
    }

    /// The desired row.
    pub fn get(&self, key: &K) -> Option<&R> {
        self.entries.get(self.entries.find(key)?)?.1.row.as_ref()
    }

    /// All desired rows.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &R)> {
        let all = self.entries.iter_from(0);
        all.filter_map(|(_, key, entry)| Some((key, entry.row.as_ref()?)))
    }

    /// The capability has given all its rows: what the receiver holds besides may go.
    pub fn complete(&mut self) {
        self.is_whole = true;
    }

    /// Number of changes that wait.
    pub fn waiting(&self) -> usize {
        let end = self.entries.end();
        let unread = self.session.as_ref().map_or(0, |session| end - session.cursor.min(end));
        self.queue.len() + unread as usize
    }

    /// Whether the capability should pause: the receiver does not keep up.
    pub fn is_congested(&self) -> bool {
        self.queue.len() >= self.window.waiting
    }

    /// Number of refused rows, which are not in force.
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// Counts changes of desired rows.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// What the receiver should hold, once [`is_synced`](Self::is_synced).
    pub fn expected(&self) -> &Digests {
        &self.expected
    }

    fn digest_of(&mut self, key: &K, row: &R) -> Result<(usize, u64), TooLong> {
        let (key_bytes, row_bytes) = &mut self.scratch;
        key_bytes.clear();
        row_bytes.clear();
        key.encode(key_bytes);
        row.encode(row_bytes);
        let (key, row) = (key_bytes.len(), row_bytes.len());
        if key > KEY_BYTES || row > ROW_BYTES {
            return Err(TooLong { key, row });
        }
        let hash = digest::key(key_bytes);
        Ok((digest::slice(hash), digest::row(hash, row_bytes)))
    }

    /// Queues a change, unless it waits already or the transfer of all rows will come past it.
    fn enqueue(&mut self, slot: u32) {
        let Some(session) = &self.session else { return };
        let sent = self.entries.get(slot).map_or(0, |(_, entry)| entry.sent_in);
        if slot < session.cursor || session.has(sent) {
            self.push(slot);
        }
    }

    fn push(&mut self, slot: u32) {
        let Some((_, entry)) = self.entries.get_mut(slot) else { return };
        if !std::mem::replace(&mut entry.is_queued, true) {
            self.queue.push_back(slot);
            if let Some(session) = &mut self.session {
                session.pushed += 1;
            }
        }
    }

    /// Forgets a key whose removal is on its way.
    fn release(&mut self, slot: u32) {
        let Some((_, entry)) = self.entries.remove(slot) else { return };
        self.without_room.remove(&slot);
        self.refused -= usize::from(entry.is_refused);
    }

    /// Sets whether the receiver refused a row.
    fn set_refused(&mut self, slot: u32, is_refused: bool) {
        let Some((_, entry)) = self.entries.get_mut(slot) else { return };
        if entry.is_refused == is_refused {
            return;
        }
        entry.is_refused = is_refused;
        let (slice, digest, is_desired) = (entry.slice.into(), entry.digest, entry.row.is_some());
        if is_refused {
            self.refused += 1;
        } else {
            self.refused -= 1;
            self.without_room.remove(&slot);
        }
        match (is_desired, is_refused) {
            (false, _) => {}
            (true, true) => self.expected.remove(slice, digest),
            (true, false) => self.expected.add(slice, digest),
        }
    }

    /// Appends the change of a slot to a message.
    fn pack(&mut self, slot: u32, message: &mut Message) {
        self.set_refused(slot, false);
        let Some((key, entry)) = self.entries.get_mut(slot) else { return };
        entry.is_queued = false;
        entry.sent_in = message.number;
        let (key_bytes, row_bytes) = &mut self.scratch;
        key_bytes.clear();
        row_bytes.clear();
        key.encode(key_bytes);
        let Some(row) = &entry.row else {
            Change { key: key_bytes, row: None }.write(&mut message.changes);
            return self.release(slot);
        };
        row.encode(row_bytes);
        Change { key: key_bytes, row: Some(row_bytes) }.write(&mut message.changes);
    }
}
