//! Rates by client address or by user: one token bucket each.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::source::client;

/// Maximum number of buckets. IPv6 counts by /64, the prefix of one client.
const KEYS: usize = 16_384;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    since: Instant,
}

/// The buckets of all addresses, or of all users.
#[derive(Debug)]
pub struct Rate<K = IpAddr> {
    buckets: Mutex<HashMap<K, Bucket>>,
}

impl<K> Default for Rate<K> {
    fn default() -> Self {
        Rate { buckets: Mutex::default() }
    }
}

impl<K: Eq + Hash> Rate<K> {
    /// Takes one from the bucket of a key, which holds `size` and gets `per_second`.
    fn take_of(&self, key: K, size: f64, per_second: f64, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= KEYS {
            // A full bucket needs no entry.
            let full = size / per_second;
            buckets.retain(|_, bucket| now.duration_since(bucket.since).as_secs_f64() < full);
            if buckets.len() >= KEYS {
                buckets.clear();
            }
        }
        let bucket = buckets.entry(key).or_insert(Bucket { left: size, since: now });
        let passed = now.saturating_duration_since(bucket.since).as_secs_f64();
        bucket.left = (bucket.left + passed * per_second).min(size);
        bucket.since = now;
        let is_there = bucket.left >= 1.0;
        if is_there {
            bucket.left -= 1.0;
        }
        is_there
    }
}

impl Rate {
    /// Takes one request from the bucket of an address; `false`: the bucket is empty. It holds the requests of one
    /// second.
    pub fn take(&self, from: IpAddr, per_second: u32, now: Instant) -> bool {
        let size = f64::from(per_second.max(1));
        self.take_of(client(from), size, size, now)
    }
}

impl Rate {
    /// Takes one attempt to log in from the bucket of an address: 5 in a row, one per second.
    pub fn take_attempt(&self, from: IpAddr, now: Instant) -> bool {
        self.take_of(client(from), 5.0, 1.0, now)
    }
}

impl Rate<String> {
    /// Takes one new token from the bucket of a user: 20 in a row, one per second.
    pub fn take(&self, user: String, now: Instant) -> bool {
        self.take_of(user, 20.0, 1.0, now)
    }

    /// Takes one attempt to log in from the bucket of an interface, which holds those of one second.
    pub fn take_attempt(&self, interface: String, per_second: u32, now: Instant) -> bool {
        let size = f64::from(per_second.max(1));
        self.take_of(interface, size, size, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_address_has_its_share_and_no_more() {
        let rate = Rate::<IpAddr>::default();
        let now = Instant::now();
        let [one, same, other] =
            ["2001:db8::1", "2001:db8::2", "192.0.2.1"].map(|it| it.parse().unwrap());
        let taken = (0..20).filter(|_| rate.take(one, 10, now)).count();
        assert_eq!(taken, 10);
        assert!(!rate.take(same, 10, now), "the same client with another address");
        assert!(rate.take(other, 10, now));
        let later = now + Duration::from_millis(500);
        assert_eq!((0..20).filter(|_| rate.take(one, 10, later)).count(), 5);
    }

    #[test]
    fn hosts_have_few_attempts_each() {
        let (rate, now) = (Rate::<IpAddr>::default(), Instant::now());
        let [one, other] = [1, 2].map(|last| super::super::source::of_host([2, 0, 0, 0, 0, last]));
        assert_eq!((0..50).filter(|_| rate.take_attempt(one, now)).count(), 5);
        assert!(rate.take_attempt(other, now));
        assert!(rate.take_attempt(one, now + Duration::from_secs(1)));
    }
}
