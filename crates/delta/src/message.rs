//! What crosses the stream.

use crate::codec::write_bytes;

/// From the sender to the receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Repeated in the reply.
    pub number: u64,
    /// The first message of a connection: all rows become stale.
    pub begins: bool,
    /// Changes ([`codec`](crate::codec)), each key at most once.
    pub changes: Vec<u8>,
    /// Everything was sent: the receiver sweeps rows that are still stale.
    pub completes: bool,
}

/// From the receiver to the sender, once the message has taken effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// That of the message.
    pub number: u64,
    /// Counts the messages that began; the receiver's own.
    pub generation: u64,
    /// How many more rows there is room for; 0: none.
    pub room: u64,
    /// Rows that are not in force.
    pub refused: Vec<RefusedKeys>,
}

/// Why a row is refused, and how to fix it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong, with the value.
    pub reason: String,
    /// What the operator changes.
    pub fix: String,
    /// There was no room: the sender tries again when there is.
    pub is_full: bool,
}

/// Keys that were refused for the same reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedKeys {
    /// The keys, each behind its length.
    pub keys: Vec<u8>,
    /// The reason.
    pub refusal: Refusal,
}

/// Adds a refused key, to the keys before it when they have the same reason.
pub(crate) fn refuse(refused: &mut Vec<RefusedKeys>, key: &[u8], refusal: Refusal) {
    match refused.last_mut() {
        Some(last) if last.refusal == refusal => write_bytes(key, &mut last.keys),
        _ => {
            let mut keys = Vec::new();
            write_bytes(key, &mut keys);
            refused.push(RefusedKeys { keys, refusal });
        }
    }
}
