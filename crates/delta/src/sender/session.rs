//! One connection: the transfer of all rows, then changes, no more at a time than the receiver acknowledges.

use std::hash::Hash;

use super::Sender;
use crate::codec::{Encode, Malformed, Reader};
use crate::in_flight::{InFlight, UnexpectedReply};
use crate::message::{Message, Reply};

/// One connection.
#[derive(Debug)]
pub(super) struct Session {
    /// The first number of its messages.
    first: u64,
    in_flight: InFlight,
    /// Slots below have been sent; `u32::MAX`: all.
    pub(super) cursor: u32,
    /// Changes put into the queue and taken out of it.
    pub(super) pushed: u64,
    taken: u64,
    /// Completes when this many changes have left the queue: those that waited when the last row was sent.
    complete_after: Option<u64>,
    is_completed: bool,
    /// The receiver's number of this session.
    pub(super) generation: u64,
}

impl Session {
    /// Whether a message is of this session.
    pub(super) fn has(&self, number: u64) -> bool {
        number >= self.first
    }
}

/// A reply that is not one to the oldest message: the stream must be opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// It has another number, or there is no connection.
    #[error(transparent)]
    Unexpected(#[from] UnexpectedReply),
    /// The refused keys are malformed.
    #[error("the refused keys are {0}")]
    Malformed(#[from] Malformed),
}

impl<K: Encode + Clone + Eq + Hash, R: Encode + PartialEq> Sender<K, R> {
    /// A connection is open: everything is sent again.
    pub fn connect(&mut self) {
        self.disconnect();
        self.session = Some(Session {
            first: self.number + 1,
            in_flight: InFlight::after(self.number),
            cursor: 0,
            pushed: 0,
            taken: 0,
            complete_after: None,
            is_completed: false,
            generation: 0,
        });
    }

    /// The connection broke: nothing that was sent counts.
    pub fn disconnect(&mut self) {
        self.session = None;
        for slot in std::mem::take(&mut self.queue) {
            let Some((_, entry)) = self.entries.get_mut(slot) else { continue };
            entry.is_queued = false;
            if entry.row.is_none() {
                self.release(slot);
            }
        }
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        self.session.is_some()
    }

    /// Whether the receiver has acknowledged everything, and swept.
    pub fn is_synced(&self) -> bool {
        let session = self.session.as_ref();
        session
            .is_some_and(|it| it.is_completed && it.in_flight.is_empty() && self.queue.is_empty())
    }

    /// The receiver's number of this session, once it replied.
    pub fn generation(&self) -> Option<u64> {
        self.session.as_ref().map(|session| session.generation).filter(|number| *number > 0)
    }

    /// The next message; `None` while the window is full or nothing waits.
    pub fn next_message(&mut self) -> Option<Message> {
        let window = self.window;
        let session = self.session.as_ref()?;
        if !session.in_flight.has_room(window.messages, window.bytes) {
            return None;
        }
        let number = self.number + 1;
        let begins = number == session.first;
        let mut message = Message { number, begins, ..Message::default() };
        self.fill(&mut message);
        let is_whole = self.is_whole;
        let session = self.session.as_mut()?;
        if session.cursor == u32::MAX {
            let after = *session.complete_after.get_or_insert(session.pushed);
            if is_whole && !session.is_completed && session.taken >= after {
                (message.completes, session.is_completed) = (true, true);
            }
        }
        if message.changes.is_empty() && !message.begins && !message.completes {
            return None;
        }
        self.number = session.in_flight.send(message.changes.len());
        Some(message)
    }

    /// Changes first, but at most half of a message while the transfer of all rows lasts: both go on.
    fn fill(&mut self, message: &mut Message) {
        let rows = self.window.message_rows;
        let is_transferring = self.session.as_ref().is_some_and(|it| it.cursor != u32::MAX);
        let of_queue = if is_transferring { rows.div_ceil(2) } else { rows };
        let mut packed = self.fill_from_queue(of_queue, message);
        if is_transferring {
            packed += self.fill_from_rows(rows - packed.min(rows), message);
            self.fill_from_queue(rows - packed.min(rows), message);
        }
    }

    fn fill_from_queue(&mut self, most: usize, message: &mut Message) -> usize {
        let mut packed = 0;
        while packed < most && message.changes.len() < self.window.message_bytes {
            let Some(slot) = self.queue.pop_front() else { break };
            self.pack(slot, message);
            packed += 1;
        }
        if let Some(session) = &mut self.session {
            session.taken += packed as u64;
        }
        packed
    }

    fn fill_from_rows(&mut self, most: usize, message: &mut Message) -> usize {
        let Some(session) = &self.session else { return 0 };
        let (mut slot, first) = (session.cursor, session.first);
        let mut packed = 0;
        while packed < most && message.changes.len() < self.window.message_bytes {
            if slot >= self.entries.end() {
                slot = u32::MAX;
                break;
            }
            // Waiting changes are in the queue, and a key that was sent in this session need not be sent again.
            let is_due = self
                .entries
                .get(slot)
                .is_some_and(|(_, entry)| !entry.is_queued && entry.sent_in < first);
            if is_due {
                self.pack(slot, message);
                packed += 1;
            }
            slot += 1;
        }
        if let Some(session) = &mut self.session {
            session.cursor = slot;
        }
        packed
    }

    /// The receiver has processed the oldest unacknowledged message.
    ///
    /// # Errors
    /// The reply is not one to that message.
    pub fn acknowledge(&mut self, reply: &Reply) -> Result<(), ReplyError> {
        let session = self.session.as_mut().ok_or(UnexpectedReply(reply.number))?;
        session.in_flight.acknowledge(reply.number)?;
        session.generation = reply.generation;
        let mut was_full = false;
        for refused in &reply.refused {
            was_full |= refused.refusal.is_full;
            let mut keys = Reader::new(&refused.keys, 0);
            while let Some(key) = keys.key()? {
                self.refuse(key, reply.number, refused.refusal.is_full);
            }
        }
        if reply.room > 0 && !was_full {
            self.retry(reply.room as usize);
        }
        Ok(())
    }

    fn refuse(&mut self, key: &[u8], number: u64, is_full: bool) {
        let Some(slot) = K::decode(key).and_then(|key| self.entries.find(&key)) else { return };
        // A later message with the key has a reply of its own.
        let is_latest = self.entries.get(slot).is_some_and(|(_, it)| it.sent_in == number);
        if !is_latest {
            return;
        }
        self.set_refused(slot, true);
        if is_full {
            self.without_room.insert(slot);
        }
    }

    /// Sends rows again that had no room.
    fn retry(&mut self, room: usize) {
        let slots: Vec<u32> = self.without_room.iter().take(room).copied().collect();
        for slot in slots {
            self.without_room.remove(&slot);
            self.push(slot);
        }
    }

    /// Sends rows again that had no room: there may be room now, for example by a higher limit.
    pub fn retry_refused(&mut self) {
        if self.session.is_some() {
            self.retry(usize::MAX);
        }
    }
}
