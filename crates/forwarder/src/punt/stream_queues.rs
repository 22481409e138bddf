//! What waits for the controller: a queue for each class of the stream, with its budget and its window. Pure: the
//! caller passes the time. A class that is full does not affect the others.

use std::collections::{BTreeMap, VecDeque};

use stoa_api::punts::{BATCH_BYTES, BATCH_PACKETS};
use stoa_api::v1;
use stoa_tables::token_bucket::TokenBucket;

use super::streamed::{Budget, STREAMED};
use crate::drops::Drop;

/// Ticks of the clock: microseconds.
const TICKS_PER_SECOND: u64 = 1_000_000;
/// What a packet costs besides its bytes.
const OVERHEAD: usize = 128;

/// What a packet with so many bytes takes of the queue.
pub fn cost(bytes: usize) -> usize {
    bytes + OVERHEAD
}

fn cost_of(packet: &v1::PuntedPacket) -> usize {
    cost(packet.link_header.len() + packet.payload.len())
}

/// Counters of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounters {
    /// Packets to the controller.
    pub sent: u64,
    /// Dropped: over the rate.
    pub limited: u64,
    /// Dropped: the queue was full.
    pub queue_full: u64,
    /// Dropped: no controller takes them.
    pub unsubscribed: u64,
    /// Packets from the controller.
    pub injected: u64,
    /// Those that were refused.
    pub refused: u64,
}

/// One class.
struct Queue {
    packets: VecDeque<v1::PuntedPacket>,
    bytes: usize,
    budget: Budget,
    /// How many more packets the controller takes; `None`: it has not subscribed.
    window: Option<u32>,
    to_controller: TokenBucket,
    from_controller: TokenBucket,
    counters: StreamCounters,
}

impl Queue {
    fn new(budget: Budget, now_us: u64) -> Self {
        let bucket = |rate: u32, burst: u32| {
            TokenBucket::new(rate.into(), burst.into(), TICKS_PER_SECOND, now_us)
        };
        Self {
            packets: VecDeque::new(),
            bytes: 0,
            budget,
            window: None,
            to_controller: bucket(budget.rate, budget.burst),
            from_controller: bucket(budget.inject_rate, budget.inject_burst),
            counters: StreamCounters::default(),
        }
    }

    /// Takes what fits into a message and into the window.
    fn take(&mut self) -> Vec<v1::PuntedPacket> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let (Some(packet), Some(window)) = (self.packets.front(), self.window)
            && window > 0
            && taken.len() < BATCH_PACKETS
        {
            let cost = cost_of(packet);
            if !taken.is_empty() && bytes + cost > BATCH_BYTES {
                break;
            }
            bytes += cost;
            self.window = Some(window - 1);
            taken.extend(self.packets.pop_front());
        }
        self.bytes -= bytes;
        self.counters.sent += taken.len() as u64;
        taken
    }
}

/// A class at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamState {
    /// The counters.
    pub counters: StreamCounters,
    /// Packets that wait.
    pub queued: usize,
    /// What they cost.
    pub queued_bytes: usize,
    /// Whether a controller takes them.
    pub is_subscribed: bool,
}

/// The queues of all classes, by index in [`STREAMED`].
pub struct StreamQueues {
    queues: Vec<Queue>,
    /// The class whose turn it is.
    next: usize,
}

impl StreamQueues {
    /// Empty queues of [`STREAMED`], without a controller.
    pub fn new(now_us: u64) -> Self {
        Self::with(STREAMED.iter().map(|streamed| streamed.budget), now_us)
    }

    /// The same with these budgets: for tests.
    pub fn with(budgets: impl IntoIterator<Item = Budget>, now_us: u64) -> Self {
        let queues = budgets.into_iter().map(|budget| Queue::new(budget, now_us)).collect();
        Self { queues, next: 0 }
    }

    /// A controller takes these classes, with their windows. Those that it took already go on. Returns how many
    /// packets of other classes have waited in vain.
    pub fn subscribe(&mut self, windows: &BTreeMap<usize, u32>) -> u64 {
        let mut dropped = 0;
        for (at, queue) in self.queues.iter_mut().enumerate() {
            queue.window = match (windows.get(&at), queue.window) {
                (Some(_), Some(left)) => Some(left),
                (asked, _) => asked.copied(),
            };
            if queue.window.is_none() {
                dropped += queue.packets.len() as u64;
                queue.counters.unsubscribed += queue.packets.len() as u64;
                queue.packets.clear();
                queue.bytes = 0;
            }
        }
        dropped
    }

    /// No controller takes packets. Returns how many have waited in vain.
    pub fn unsubscribe(&mut self) -> u64 {
        self.subscribe(&BTreeMap::new())
    }

    /// Whether a packet with so many bytes may join the queue of its class.
    ///
    /// # Errors
    /// The drop reason.
    pub fn admit(&mut self, class: usize, bytes: usize, now_us: u64) -> Result<(), Drop> {
        let Some(queue) = self.queues.get_mut(class) else { return Err(Drop::PuntUnsubscribed) };
        if queue.window.is_none() {
            queue.counters.unsubscribed += 1;
            return Err(Drop::PuntUnsubscribed);
        }
        if queue.bytes + cost(bytes) > queue.budget.queue_bytes {
            queue.counters.queue_full += 1;
            return Err(Drop::PuntQueue);
        }
        if !queue.to_controller.take(now_us, 1) {
            queue.counters.limited += 1;
            return Err(Drop::PuntLimited);
        }
        Ok(())
    }

    /// Adds a packet that was admitted.
    pub fn push(&mut self, class: usize, packet: v1::PuntedPacket) {
        if let Some(queue) = self.queues.get_mut(class) {
            queue.bytes += cost_of(&packet);
            queue.packets.push_back(packet);
        }
    }

    /// The controller can take more packets of a class.
    pub fn extend_window(&mut self, class: usize, packets: u32) {
        if let Some(Some(window)) = self.queues.get_mut(class).map(|queue| &mut queue.window) {
            *window = window.saturating_add(packets).min(stoa_api::punts::WINDOW);
        }
    }

    /// The next message: packets of one class. The classes take turns.
    pub fn take(&mut self) -> Option<(usize, Vec<v1::PuntedPacket>)> {
        let count = self.queues.len();
        (0..count).find_map(|step| {
            let at = (self.next + step) % count;
            let taken = self.queues[at].take();
            if taken.is_empty() {
                return None;
            }
            self.next = at + 1;
            Some((at, taken))
        })
    }

    /// Whether the budget of a class allows one more packet from the controller.
    pub fn may_inject(&mut self, class: usize, now_us: u64) -> bool {
        let queue = self.queues.get_mut(class);
        queue.is_some_and(|queue| queue.from_controller.take(now_us, 1))
    }

    /// Counts packets from the controller.
    pub fn count_injected(&mut self, class: usize, injected: u64, refused: u64) {
        if let Some(queue) = self.queues.get_mut(class) {
            queue.counters.injected += injected;
            queue.counters.refused += refused;
        }
    }

    /// A class at this moment.
    pub fn state(&self, class: usize) -> StreamState {
        self.queues.get(class).map_or_else(StreamState::default, |queue| StreamState {
            counters: queue.counters,
            queued: queue.packets.len(),
            queued_bytes: queue.bytes,
            is_subscribed: queue.window.is_some(),
        })
    }
}

#[cfg(test)]
mod tests;
