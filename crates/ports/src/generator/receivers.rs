//! The destinations of a generator: one, many in turn, or many in a pseudo-random order.

use std::net::IpAddr;
use std::sync::Arc;

use crate::config::{Destinations, GeneratorConfig};
use crate::error::OpenError;

/// Receivers of one family.
pub(crate) enum Receivers {
    Range4(u32),
    List4(Arc<[u32]>),
    Range6(u128),
    List6(Arc<[u128]>),
}

/// The order in which receivers are visited: numbers below `count`.
pub(crate) struct Order {
    count: u64,
    at: u64,
    /// State of the random number generator; 0: in sequence.
    random: u64,
}

impl Order {
    fn new(count: u64, random: bool, share: (u64, u64)) -> Self {
        // Every queue begins at its own place, so that together they visit all.
        let at = (u128::from(count) * u128::from(share.0) / u128::from(share.1)) as u64;
        let seed = 0x9e37_79b9_7f4a_7c15 ^ (share.0 + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Self { count, at, random: if random { seed | 1 } else { 0 } }
    }

    /// Whether there is just one receiver.
    pub(crate) fn is_single(&self) -> bool {
        self.count == 1
    }

    /// Whether receivers come in turn.
    pub(crate) fn in_turn(&self) -> bool {
        self.random == 0
    }

    /// The next number in sequence.
    #[inline(always)]
    pub(crate) fn turn(&mut self) -> u64 {
        let at = self.at;
        self.at = if at + 1 == self.count { 0 } else { at + 1 };
        at
    }

    /// The next number, whatever the order.
    pub(crate) fn next(&mut self) -> u64 {
        if self.in_turn() { self.turn() } else { self.random() }
    }

    /// The next pseudo-random number (xorshift64*; Marsaglia 2003, Vigna 2016).
    #[inline(always)]
    pub(crate) fn random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let high = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        // Multiply and shift in place of a division; count is at most 2^32.
        (high * self.count) >> 32
    }
}

/// Checks the destinations of `config`; `share` is (queue, queues).
pub(crate) fn receivers(
    config: &GeneratorConfig,
    share: (u64, u64),
) -> Result<(Receivers, Order), OpenError> {
    let refuse = |field, reason: &str| Err(OpenError::Config { field, reason: reason.into() });
    let (receivers, count) = match (config.destination, &config.destinations) {
        (IpAddr::V4(first), Destinations::Range(count)) => {
            let first = u32::from(first);
            if count.checked_sub(1).is_none_or(|more| more > u64::from(u32::MAX - first)) {
                return refuse(
                    "destinations",
                    "give 1 to as many as there are up to 255.255.255.255",
                );
            }
            (Receivers::Range4(first), *count)
        }
        (IpAddr::V6(first), Destinations::Range(count)) => {
            let first = u128::from(first);
            let fits = |more: u64| first.checked_add(more.into()).is_some();
            if *count > 1 << 32 || !count.checked_sub(1).is_some_and(fits) {
                return refuse("destinations", "give 1 to 4,294,967,296");
            }
            (Receivers::Range6(first), *count)
        }
        (_, Destinations::List4(list)) => (Receivers::List4(list.clone()), list.len() as u64),
        (_, Destinations::List6(list)) => (Receivers::List6(list.clone()), list.len() as u64),
    };
    if !(1..=1 << 32).contains(&count) {
        return refuse("destinations", "give at least one address, 4,294,967,296 at most");
    }
    let is_ip4 = matches!(receivers, Receivers::Range4(_) | Receivers::List4(_));
    if is_ip4 != config.source.is_ipv4() {
        return refuse("source", "give an address of the same family as the destination");
    }
    Ok((receivers, Order::new(count, config.random, share)))
}
