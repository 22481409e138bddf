//! Real tools between hosts, with their answers as numbers: ping, traceroute, iperf3.

mod iperf;
mod ping;
mod traceroute;

pub use iperf::{Load, Rate, iperf};
pub use ping::{Pings, ping};
pub use traceroute::{Hop, traceroute};
