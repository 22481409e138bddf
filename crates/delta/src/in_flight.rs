//! Unacknowledged messages: their numbers, and how many may be on the way.

use std::collections::VecDeque;

/// A reply that no message expects: the stream must be opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reply has the number {0}, which is not that of the oldest unanswered message")]
pub struct UnexpectedReply(pub u64);

/// The messages of a connection that are not acknowledged, in their order.
#[derive(Clone, Debug, Default)]
pub struct InFlight {
    /// Number of the last message.
    last: u64,
    sizes: VecDeque<usize>,
    bytes: usize,
}

impl InFlight {
    /// None yet; the first one has the number after `last`.
    pub fn after(last: u64) -> Self {
        Self { last, ..Self::default() }
    }

    /// Whether another message may follow.
    pub fn has_room(&self, messages: usize, bytes: usize) -> bool {
        self.sizes.len() < messages && self.bytes < bytes
    }

    /// Whether all are acknowledged.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// A message is sent; returns its number.
    pub fn send(&mut self, bytes: usize) -> u64 {
        self.last += 1;
        self.sizes.push_back(bytes);
        self.bytes += bytes;
        self.last
    }

    /// The oldest message is acknowledged.
    ///
    /// # Errors
    /// It has another number, or there is none.
    pub fn acknowledge(&mut self, number: u64) -> Result<(), UnexpectedReply> {
        let oldest = self.last + 1 - self.sizes.len() as u64;
        let size = self.sizes.front().filter(|_| number == oldest);
        let size = *size.ok_or(UnexpectedReply(number))?;
        self.sizes.pop_front();
        self.bytes -= size;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_acknowledged_in_order_and_make_room() {
        let mut in_flight = InFlight::after(6);
        assert_eq!(in_flight.acknowledge(6), Err(UnexpectedReply(6)));
        assert_eq!((in_flight.send(10), in_flight.send(20)), (7, 8));
        assert!(!in_flight.has_room(2, 100) && !in_flight.has_room(3, 30));
        assert!(in_flight.has_room(3, 31));
        assert_eq!(in_flight.acknowledge(8), Err(UnexpectedReply(8)));
        assert_eq!(in_flight.acknowledge(7), Ok(()));
        assert!(in_flight.has_room(2, 21) && !in_flight.is_empty());
        assert_eq!(in_flight.acknowledge(8), Ok(()));
        assert!(in_flight.is_empty() && in_flight.acknowledge(9).is_err());
    }
}
