//! What the control thread and the call of the controller share: the queues, and who takes from them. Workers never see
//! it; the lock is held for a few instructions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stoa_api::v1;
use tokio::sync::Notify;

use crate::punt::stream_queues::StreamQueues;

/// The queues to the controller.
pub(super) struct Outbox(Mutex<Contents>);

/// What an [`Outbox`] has.
pub(super) struct Contents {
    pub(super) queues: StreamQueues,
    subscriber: Option<Subscriber>,
    /// The newest caller that ever subscribed.
    newest: u64,
}

/// The call that takes packets.
struct Subscriber {
    caller: u64,
    ready: Arc<Notify>,
}

impl Outbox {
    pub(super) fn new() -> Arc<Self> {
        let (queues, subscriber, newest) = (StreamQueues::new(0), None, 0);
        Arc::new(Self(Mutex::new(Contents { queues, subscriber, newest })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next packets for a caller, when there are some; `None`: it is not the subscriber any more.
    pub(super) async fn next(&self, caller: u64) -> Option<(usize, Vec<v1::PuntedPacket>)> {
        loop {
            let ready = {
                let mut contents = self.lock();
                let subscriber = contents.subscriber.as_ref().filter(|it| it.caller == caller)?;
                let ready = subscriber.ready.clone();
                if let Some(next) = contents.queues.take() {
                    return Some(next);
                }
                ready
            };
            // A wakeup since then is not lost.
            ready.notified().await;
        }
    }
}

impl Contents {
    /// Makes a caller the subscriber. Returns how many packets have waited in vain; `None`: there is a newer caller.
    pub(super) fn subscribe(&mut self, caller: u64, windows: &BTreeMap<usize, u32>) -> Option<u64> {
        if caller < self.newest {
            return None;
        }
        let mut dropped = 0;
        self.newest = caller;
        if !self.is_subscriber(caller) {
            dropped += self.unsubscribe();
            self.subscriber = Some(Subscriber { caller, ready: Arc::default() });
        }
        Some(dropped + self.queues.subscribe(windows))
    }

    /// Nobody takes packets any more. Returns how many have waited in vain.
    pub(super) fn unsubscribe(&mut self) -> u64 {
        self.wake();
        self.subscriber = None;
        self.queues.unsubscribe()
    }

    pub(super) fn is_subscriber(&self, caller: u64) -> bool {
        self.subscriber.as_ref().is_some_and(|subscriber| subscriber.caller == caller)
    }

    /// Wakes the call: there may be packets that it can take.
    pub(super) fn wake(&self) {
        if let Some(subscriber) = &self.subscriber {
            subscriber.ready.notify_one();
        }
    }
}
