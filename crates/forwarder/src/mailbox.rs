//! What the control thread shares with a thread of its own, as that of an export: contents behind a lock, and a way to
//! wake whoever waits for others. No packet waits for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Contents, and a way to wake whoever waits for others.
#[derive(Debug, Default)]
pub(crate) struct Mailbox<T> {
    contents: Mutex<T>,
    wakeup: Condvar,
}

impl<T> Mailbox<T> {
    /// The contents.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whoever waits.
    pub(crate) fn wake(&self) {
        self.wakeup.notify_all();
    }

    /// Waits until somebody wakes this thread, at most for so long.
    pub(crate) fn wait<'a>(
        &self,
        contents: MutexGuard<'a, T>,
        at_most: Duration,
    ) -> MutexGuard<'a, T> {
        let waited = self.wakeup.wait_timeout(contents, at_most);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
