//! What comes back: recognized by its signature and counted by stream.

mod receiver;
mod seen;
mod sequence;

pub(crate) use receiver::{Expected, Receiver};
pub use seen::Seen;
