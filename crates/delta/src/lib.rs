//! Keyed delta streams: how one process keeps the rows of another process equal to its own.
//!
//! ```text
//! capability ─ set, remove ─► Sender ─ messages ─► Receiver ─ set, remove ─► Store of the capability
//!                                    ◄─ replies ──
//! ```
//!
//! A *row* is what a capability wants in force under a *key*: a session, a security association, a flow. Only changes
//! cross the stream, each key at most once in a message. The first message of a connection *begins* a generation: all
//! rows of the receiver become *stale* and stay in force. The sender then sends all its rows, and *completes*: the
//! receiver sweeps what is still stale. So neither half loses a row when the other one dies.
//!
//! - Changes of a key that waits are coalesced: the queue never has more entries than there are keys.
//! - A limited number of messages and bytes is unacknowledged: the sender produces no more (back-pressure).
//! - The receiver works in batches, between which its thread serves others.
//! - A refused row is not in force. The sender remembers it and sends it again when the receiver has room.
//! - Both sides keep sums of hashes ([`digest`]); an audit compares them and repairs only slices that differ.
//!
//! This crate does no I/O and reads no clock: who drives it moves the messages.
#![forbid(unsafe_code)]

pub mod audit;
pub mod codec;
pub mod digest;
mod in_flight;
mod message;
mod receiver;
mod sender;
mod slots;

pub use audit::{Audit, Audited};
pub use codec::{Encode, Malformed};
pub use digest::Digests;
pub use in_flight::{InFlight, UnexpectedReply};
pub use message::{Message, Refusal, RefusedKeys, Reply};
pub use receiver::{BATCH_ROWS, Receiver, Store, Summary, Superseded, Table, Update};
pub use sender::{ReplyError, Sender, TooLong, Window};
