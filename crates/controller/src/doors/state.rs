//! How each door does: counted by its task, read by whoever shows it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::asked::Questions;

/// How a door does. All figures count since it was opened.
#[derive(Debug, Default)]
pub struct DoorState {
    /// Seconds since 1970 when the session began; 0: there is none.
    since_unix_s: AtomicU64,
    /// Sessions so far.
    sessions: AtomicU64,
    /// Routes that were said, again or anew.
    updates: AtomicU64,
    /// Routes that were taken back.
    withdrawals: AtomicU64,
    /// Messages that could not be read.
    malformed: AtomicU64,
    /// Routes that were left out, as they lead through no mirror or cannot be done.
    left_out: AtomicU64,
    /// How often everything was read again because something was lost.
    resyncs: AtomicU64,
    /// Differences that such a look found and mended.
    repaired: AtomicU64,
    /// Whether it is open: it listens, or follows Linux.
    is_open: AtomicBool,
    /// Why the door is not open, or the last thing that was left out.
    why: Mutex<String>,
    /// Audits that wait for the door.
    pub questions: Questions,
}

/// [`DoorState`] at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // as there
pub struct Figures {
    pub since_unix_s: u64,
    pub sessions: u64,
    pub updates: u64,
    pub withdrawals: u64,
    pub malformed: u64,
    pub left_out: u64,
    pub resyncs: u64,
    pub repaired: u64,
    pub is_open: bool,
    pub why: String,
}

impl DoorState {
    /// A session began.
    pub fn up(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.since_unix_s.store(now.as_secs().max(1), Relaxed);
        self.sessions.fetch_add(1, Relaxed);
        self.is_open.store(true, Relaxed);
        self.say("");
    }

    /// The session ended, or there is none and why: the door is open to the daemon.
    pub fn down(&self, why: &str) {
        self.since_unix_s.store(0, Relaxed);
        self.is_open.store(true, Relaxed);
        self.say(why);
    }

    /// The door is not open, and why: no daemon can come before it is tried again.
    pub fn fail(&self, why: &str) {
        self.since_unix_s.store(0, Relaxed);
        self.is_open.store(false, Relaxed);
        self.say(why);
    }

    /// Routes that were said.
    pub fn updated(&self, routes: u64) {
        self.updates.fetch_add(routes, Relaxed);
    }

    /// Routes that were taken back.
    pub fn withdrawn(&self, routes: u64) {
        self.withdrawals.fetch_add(routes, Relaxed);
    }

    /// Messages could not be read. Gives whether they are the first ones of this door.
    pub fn malformed(&self, messages: u64) -> bool {
        self.malformed.fetch_add(messages, Relaxed) == 0
    }

    /// Routes were left out: the last of them, and why.
    pub fn left_out(&self, routes: u64, why: std::fmt::Arguments<'_>) {
        self.left_out.fetch_add(routes, Relaxed);
        self.say(&why.to_string());
    }

    /// Everything is read again.
    pub fn resynced(&self) {
        self.resyncs.fetch_add(1, Relaxed);
    }

    /// Differences were found and mended.
    pub fn repaired(&self, routes: u64) {
        self.repaired.fetch_add(routes, Relaxed);
    }

    fn say(&self, why: &str) {
        let mut said = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        if *said != why {
            why.clone_into(&mut said);
        }
    }

    /// What is counted now.
    pub fn figures(&self) -> Figures {
        Figures {
            since_unix_s: self.since_unix_s.load(Relaxed),
            sessions: self.sessions.load(Relaxed),
            updates: self.updates.load(Relaxed),
            withdrawals: self.withdrawals.load(Relaxed),
            malformed: self.malformed.load(Relaxed),
            left_out: self.left_out.load(Relaxed),
            resyncs: self.resyncs.load(Relaxed),
            repaired: self.repaired.load(Relaxed),
            is_open: self.is_open.load(Relaxed),
            why: self.why.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

/// The states of all doors, by type and name.
#[derive(Debug, Default)]
pub struct States {
    doors: Mutex<BTreeMap<(&'static str, String), Arc<DoorState>>>,
}

impl States {
    /// A new one for a door that is opened.
    pub(crate) fn open(&self, kind: &'static str, name: &str) -> Arc<DoorState> {
        let state = Arc::new(DoorState::default());
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        doors.insert((kind, name.to_owned()), Arc::clone(&state));
        state
    }

    /// The door was shut. Its successor of the same name stays.
    pub(super) fn shut(&self, kind: &'static str, name: &str, state: &Arc<DoorState>) {
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind, name.to_owned());
        if doors.get(&key).is_some_and(|there| Arc::ptr_eq(there, state)) {
            doors.remove(&key);
        }
    }

    /// The one of a door, while it is open.
    pub fn of(&self, kind: &'static str, name: &str) -> Option<Arc<DoorState>> {
        let doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        doors.get(&(kind, name.to_owned())).map(Arc::clone)
    }

    /// Type, name and figures of each.
    pub fn all(&self) -> Vec<(&'static str, String, Figures)> {
        let doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        doors.iter().map(|((kind, name), it)| (*kind, name.clone(), it.figures())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_that_was_opened_anew_is_not_shut_by_the_old_one() {
        let states = States::default();
        let old = states.open("stoa-routing:fpm", "zebra");
        let new = states.open("stoa-routing:fpm", "zebra");
        new.up();
        states.shut("stoa-routing:fpm", "zebra", &old);
        let told = states.all();
        assert_eq!((told.len(), told[0].2.sessions), (1, 1));
        assert!(told[0].2.since_unix_s > 0);
        new.down("the daemon went away");
        let figures = new.figures();
        assert_eq!((figures.since_unix_s, figures.why.as_str()), (0, "the daemon went away"));
        assert!(figures.is_open);
        new.fail("cannot listen");
        assert!(!new.figures().is_open && new.figures().why == "cannot listen");
        states.shut("stoa-routing:fpm", "zebra", &new);
        assert!(states.all().is_empty());
    }
}
