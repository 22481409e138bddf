//! Routes that daemons have learned: what each door hears, which of them wins, and how the winners reach the forwarder.
//!
//! ```text
//! fpm ───┐
//! linux ─┼─ Door::tell ─► bounded queue ─► table (one thread) ─► stream ─► forwarder
//! bgp ───┘
//! ```
//!
//! A door is one session with one daemon. It says what it hears in batches and waits while the queue is full, so that a
//! daemon that floods is slowed down by its own socket. Static and connected routes are no business of this room: they are in the
//! wanted state, go before learned ones in the forwarder, and are looked at here to resolve gateways.

mod door;

pub use door::{Door, Event, Source, Target, Update, Way};
