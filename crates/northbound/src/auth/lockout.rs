//! Lockout after failed logins: a delay that doubles, per user and address, and per address alone.
//!
//! An IPv6 address counts as its /64. Other addresses are unaffected: guessing cannot lock an operator out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::server::rate::client;

/// Failures of one user from one address without a delay: typing errors.
const FREE: u32 = 3;
/// Failures of all users from one address without a delay.
const FREE_ADDRESS: u32 = 20;
/// The longest delay.
const DELAY_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Failures older than this are forgotten.
const FORGET: Duration = Duration::from_secs(60 * 60);
/// Maximum number of entries.
const ENTRIES_LIMIT: usize = 8_192;
/// Maximum length of the name of a user. Longer ones, which nobody has, count together: anybody chooses what is
/// stored.
const NAME_BYTES: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
    until: Instant,
}

/// Failures of the last hour. An entry without a user counts an address alone.
#[derive(Debug, Default)]
pub struct Lockout {
    entries: Mutex<HashMap<(Option<String>, IpAddr), Failures>>,
}

impl Lockout {
    fn entries(&self) -> MutexGuard<'_, HashMap<(Option<String>, IpAddr), Failures>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The remaining delay of the user from this address.
    pub fn wait(&self, user: &str, from: IpAddr, now: Instant) -> Option<Duration> {
        let (entries, from) = (self.entries(), client(from));
        let keys = [key(user, from), (None, from)];
        let waits = keys.iter().filter_map(|key| entries.get(key)).map(|one| one.until);
        waits.max().and_then(|until| until.checked_duration_since(now)).filter(|it| !it.is_zero())
    }

    /// Counts a failure. Returns the delay that follows, zero for the first few.
    pub fn failed(&self, user: &str, from: IpAddr, now: Instant) -> Duration {
        let mut entries = self.entries();
        if entries.len() + 2 > ENTRIES_LIMIT {
            entries.retain(|_, one| now.duration_since(one.last) < FORGET);
        }
        if entries.len() + 2 > ENTRIES_LIMIT {
            // Under a flood of names, the older half is dropped.
            let mut moments: Vec<Instant> = entries.values().map(|one| one.last).collect();
            moments.sort_unstable();
            let middle = moments[moments.len() / 2];
            entries.retain(|_, one| one.last > middle);
        }
        let from = client(from);
        let keys = [(key(user, from), FREE), ((None, from), FREE_ADDRESS)];
        let mut longest = Duration::ZERO;
        for (key, free) in keys {
            let entry = entries.entry(key).or_insert(Failures { count: 0, last: now, until: now });
            if now.duration_since(entry.last) >= FORGET {
                entry.count = 0;
            }
            entry.count = entry.count.saturating_add(1);
            entry.last = now;
            if entry.count > free {
                let doublings = (entry.count - free - 1).min(20);
                let delay = Duration::from_secs(1 << doublings).min(DELAY_LIMIT);
                entry.until = now + delay;
                longest = longest.max(delay);
            }
        }
        longest
    }

    /// The user logged in from there, so earlier failures were typing errors.
    pub fn succeeded(&self, user: &str, from: IpAddr) {
        self.entries().remove(&key(user, client(from)));
    }
}

/// The entry of a user from a client.
fn key(user: &str, from: IpAddr) -> (Option<String>, IpAddr) {
    let name = if user.len() <= NAME_BYTES { user } else { "" };
    (Some(name.to_owned()), from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[test]
    fn delays_double_per_address() {
        let lockout = Lockout::default();
        let now = Instant::now();
        let delays: Vec<u64> = (0..6).map(|_| lockout.failed("ann", HERE, now).as_secs()).collect();
        assert_eq!(delays, [0, 0, 0, 1, 2, 4]);
        assert_eq!(lockout.wait("ann", HERE, now), Some(Duration::from_secs(4)));
        assert_eq!(lockout.wait("ann", THERE, now), None);
        assert_eq!(lockout.wait("bob", HERE, now), None);
        assert_eq!(lockout.wait("ann", HERE, now + Duration::from_secs(4)), None);
        lockout.succeeded("ann", HERE);
        assert_eq!(lockout.failed("ann", HERE, now), Duration::ZERO);
    }

    #[test]
    fn guessing_user_names_locks_the_address() {
        let lockout = Lockout::default();
        let now = Instant::now();
        for name in 0..FREE_ADDRESS {
            lockout.failed(&name.to_string(), HERE, now);
        }
        assert_eq!(lockout.wait("ann", HERE, now), None);
        lockout.failed("one-more", HERE, now);
        assert!(lockout.wait("ann", HERE, now).is_some());
    }

    #[test]
    fn ipv6_addresses_count_by_their_prefix() {
        let lockout = Lockout::default();
        let now = Instant::now();
        for host in 1..=5_u16 {
            let from = std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host);
            lockout.failed("ann", from.into(), now);
        }
        assert!(lockout.wait("ann", "2001:db8::99".parse().unwrap(), now).is_some());
        assert_eq!(lockout.wait("ann", "2001:db8:0:1::1".parse().unwrap(), now), None);
    }

    #[test]
    fn long_names_take_no_memory_and_are_delayed_together() {
        let lockout = Lockout::default();
        let now = Instant::now();
        let long = |number: u32| format!("{number}{}", "x".repeat(1 << 16));
        let delays: Vec<u64> =
            (0..6).map(|it| lockout.failed(&long(it), HERE, now).as_secs()).collect();
        assert_eq!(delays, [0, 0, 0, 1, 2, 4]);
        assert!(lockout.wait(&long(7), HERE, now).is_some());
        let longest = "a".repeat(NAME_BYTES);
        assert_eq!(lockout.wait(&longest, HERE, now), None, "a user may have this name");
        lockout.failed(&longest, HERE, now);
        let names = lockout.entries();
        let names: Vec<usize> =
            names.keys().flat_map(|(name, _)| name.as_ref().map(String::len)).collect();
        assert!(names.len() == 2 && names.iter().all(|length| *length <= NAME_BYTES), "{names:?}");
    }

    #[test]
    fn entries_and_delay_are_bounded() {
        let lockout = Lockout::default();
        let now = Instant::now();
        for name in 0..3 * ENTRIES_LIMIT {
            let later = now + Duration::from_micros(name as u64);
            lockout.failed(&name.to_string(), HERE, later);
        }
        assert!(lockout.entries().len() <= ENTRIES_LIMIT);
        assert_eq!(lockout.failed("x", HERE, now), DELAY_LIMIT);
    }
}
