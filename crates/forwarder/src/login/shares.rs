//! What each host may cause that has not logged in: a token bucket by interface and MAC address for what passes, and
//! another one for what is answered, so that a host leaves others their part of both. A sender that invents MAC
//! addresses has as many buckets, and no bound in all.
//!
//! Buckets are found by a keyed hash. There are so many that few hosts share one, and no more, whatever addresses
//! senders invent. They take no memory until they are used.

use stoa_api::login::{ANSWER_RATE, QUERY_RATE};
use stoa_engine::clock;
use stoa_engine::counters::OutOfMemory;
use stoa_tables::shared_bucket::{SharedBucket, SharedLimit, buckets};

/// Buckets of each kind, on all interfaces together: a power of two.
const BUCKETS: usize = 1 << 16;
/// A bucket has tokens for so many seconds.
const BURST_S: u64 = 2;

/// What takes a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A packet to a name server, to the DHCP server of the router, or to the portal.
    Query = 0,
    /// A redirect or a reset.
    Answer = 1,
}

/// How many tokens come in a second to each bucket of an interface.
pub struct Rates([SharedLimit; 2]);

impl Rates {
    /// `queries` and `answers` in a second; 0: [`QUERY_RATE`] and [`ANSWER_RATE`].
    pub fn new([queries, answers]: [u32; 2]) -> Self {
        let queries = if queries == 0 { QUERY_RATE } else { queries };
        let answers = if answers == 0 { ANSWER_RATE } else { answers };
        let of =
            |rate: u32| SharedLimit::new(rate.into(), u64::from(rate) * BURST_S, clock::tsc_hz());
        Self([of(queries), of(answers)])
    }
}

/// The buckets of all interfaces.
pub struct Shares([Box<[SharedBucket]>; 2]);

impl Shares {
    /// Full buckets.
    ///
    /// # Errors
    /// The address space is exhausted.
    pub fn new() -> Result<Self, OutOfMemory> {
        let of_kind =
            || buckets(BUCKETS).ok_or(OutOfMemory { bytes: BUCKETS * size_of::<SharedBucket>() });
        Ok(Self([of_kind()?, of_kind()?]))
    }

    /// Takes a token of a host, by its keyed hash, at a time of the time stamp counter.
    pub(super) fn take(&self, kind: Kind, rates: &Rates, (host, now): (u64, u64)) -> bool {
        let bucket = self.0[kind as usize].get(host as usize % BUCKETS);
        bucket.is_some_and(|it| it.take(&rates.0[kind as usize], now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_takes_nothing_from_others_nor_from_its_other_share() {
        let (shares, rates, now) = (Shares::new().unwrap(), Rates::new([5, 3]), clock::tsc());
        let took = |kind, host| (0..50).filter(|_| shares.take(kind, &rates, (host, now))).count();
        assert_eq!(took(Kind::Query, 7), 10);
        assert_eq!(took(Kind::Query, 8), 10);
        assert_eq!(took(Kind::Answer, 7), 6);
        // The hash is longer than the table.
        assert_eq!(took(Kind::Query, 7 + BUCKETS as u64), 0);
        // Of a controller that does not know shares.
        let unknown = Rates::new([0; 2]);
        let took = |kind| (0..500).filter(|_| shares.take(kind, &unknown, (9, now))).count();
        assert_eq!([Kind::Query, Kind::Answer].map(took), [400, 200]);
    }
}
