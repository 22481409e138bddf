//! Real tools between hosts, with their output as numbers: ping, traceroute, iperf3; and the resource usage of
//! processes.

mod iperf;
mod ping;
mod round_trips;
mod traceroute;
pub mod usage;

pub use iperf::{Load, Rate, iperf};
pub use ping::{Pings, ping};
pub use round_trips::{RoundTrips, round_trips};
pub use traceroute::{Hop, traceroute};
