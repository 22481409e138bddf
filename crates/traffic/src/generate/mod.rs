//! Transmit side: streams of packets with varying fields, at their rates.

mod pace;
mod sender;
mod stream;
pub mod template;
pub mod values;

pub(crate) use pace::Pace;
pub(crate) use sender::Sender;
pub use stream::{Sent, Shape};
pub(crate) use stream::{StreamConfig, TxStream};
