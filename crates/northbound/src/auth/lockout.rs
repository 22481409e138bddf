//! Lockout after failed logins: a delay that doubles, per user and source, and per source alone.
//!
//! A source is the client (an IPv4 address, an IPv6 /64), and in growing limits the networks around it that one
//! attacker may have: a /56, a /48, an IPv4 /24. Other sources are unaffected. Who has logged in from a client before
//! is not delayed by its neighbours: guessing cannot lock an operator out.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::server::source::{self, Scope, Source, client, is_host};

/// The longest delay of a client.
const DELAY_LIMIT: Duration = Duration::from_secs(15 * 60);
/// The longest delay of a network, in which others may be.
const DELAY_LIMIT_OF_NETWORK: Duration = Duration::from_secs(60);
/// Failures older than this are forgotten.
const FORGET: Duration = Duration::from_secs(60 * 60);
/// Maximum number of entries of each scope: a flood of small sources does not push out the large ones.
const ENTRIES_LIMIT: usize = 8_192;
/// Maximum length of the name of a user. Longer ones, which nobody has, count together: anybody chooses what is
/// stored.
const NAME_BYTES: usize = 64;
/// How long a client of a user is known, and how many are.
const KNOWN: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const KNOWN_LIMIT: usize = 1_024;
/// The same of one user.
const KNOWN_LIMIT_OF_USER: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
    until: Instant,
}

/// A user at a source; without a user, the source alone.
type Key = (Option<String>, IpAddr);

#[derive(Debug, Default)]
struct Tables {
    /// Failures of the last hour by scope.
    failures: HashMap<Scope, HashMap<Key, Failures>>,
    /// Clients from which a user has logged in, with the time of the last login.
    known: HashMap<(String, IpAddr), Instant>,
}

/// Failures of the last hour, and where users log in from.
#[derive(Debug, Default)]
pub struct Lockout {
    tables: Mutex<Tables>,
}

/// Failures without a delay: of one user, which may be typing errors, and of all users.
fn free(scope: Scope) -> [u32; 2] {
    match scope {
        Scope::Client => [3, 20],
        Scope::Customer => [12, 80],
        Scope::Site => [48, 320],
        // Whoever changes its MAC address is another host; what one guesses does not concern other users.
        Scope::Hosts => [20, u32::MAX],
    }
}

/// The sources where failures from an address count: for a host that logs in, all hosts too.
fn sources(from: IpAddr) -> impl Iterator<Item = Source> {
    let all = is_host(from).then_some((Scope::Hosts, IpAddr::V6(Ipv6Addr::UNSPECIFIED)));
    source::sources(from).chain(all)
}

impl Lockout {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The remaining delay of the user from this address.
    pub fn wait(&self, user: &str, from: IpAddr, now: Instant) -> Option<Duration> {
        let tables = self.tables();
        let is_known = tables.is_known(user, from, now);
        let counted = sources(from).filter(|(scope, _)| !is_known || *scope == Scope::Client);
        let waits = counted.flat_map(|(scope, source)| {
            let table = tables.failures.get(&scope);
            let of = |key: Key| Some(table?.get(&key)?.until);
            [of(key(user, source)), of((None, source))].into_iter().flatten()
        });
        waits.max().and_then(|until| until.checked_duration_since(now)).filter(|it| !it.is_zero())
    }

    /// Counts a failure. Returns the delay that follows, zero for the first few.
    pub fn failed(&self, user: &str, from: IpAddr, now: Instant) -> Duration {
        let mut tables = self.tables();
        for (scope, source) in sources(from) {
            let table = tables.failures.entry(scope).or_default();
            make_room(table, now);
            let keys = [key(user, source), (None, source)];
            for (key, free) in keys.into_iter().zip(free(scope)) {
                count(table, key, (scope, source), free, now);
            }
        }
        drop(tables);
        self.wait(user, from, now).unwrap_or_default()
    }

    /// The user logged in from there, so earlier failures were typing errors.
    pub fn succeeded(&self, user: &str, from: IpAddr, now: Instant) {
        let mut tables = self.tables();
        let own = client(from);
        if let Some(table) = tables.failures.get_mut(&Scope::Client) {
            table.remove(&key(user, own));
        }
        tables.know(user, own, now);
    }

    /// Whether the user has logged in from this client.
    pub fn is_known(&self, user: &str, from: IpAddr, now: Instant) -> bool {
        self.tables().is_known(user, from, now)
    }
}

impl Tables {
    fn is_known(&self, user: &str, from: IpAddr, now: Instant) -> bool {
        let known = self.known.get(&(user.to_owned(), client(from)));
        known.is_some_and(|last| now.saturating_duration_since(*last) < KNOWN)
    }

    /// Stores a client of a user. Only users get this far, and none of them displaces the clients of all others.
    fn know(&mut self, user: &str, client: IpAddr, now: Instant) {
        if self.known.insert((user.to_owned(), client), now).is_some() {
            return;
        }
        let of_user = |key: &(String, IpAddr)| key.0 == user;
        if self.known.keys().filter(|key| of_user(key)).count() > KNOWN_LIMIT_OF_USER {
            self.forget_oldest(of_user);
        }
        if self.known.len() > KNOWN_LIMIT {
            self.forget_oldest(|_| true);
        }
    }

    fn forget_oldest(&mut self, is_meant: impl Fn(&(String, IpAddr)) -> bool) {
        let meant = self.known.iter().filter(|(key, _)| is_meant(key));
        if let Some(oldest) = meant.min_by_key(|(_, last)| **last).map(|(key, _)| key.clone()) {
            self.known.remove(&oldest);
        }
    }
}

/// Makes room for the entries of one more failure.
fn make_room(table: &mut HashMap<Key, Failures>, now: Instant) {
    if table.len() + 2 > ENTRIES_LIMIT {
        table.retain(|_, one| now.saturating_duration_since(one.last) < FORGET);
    }
    if table.len() + 2 > ENTRIES_LIMIT {
        // Under a flood of names, the older half is dropped.
        let mut moments: Vec<Instant> = table.values().map(|one| one.last).collect();
        moments.sort_unstable();
        let middle = moments[moments.len() / 2];
        table.retain(|_, one| one.last > middle);
    }
}

/// Counts a failure, of which `free` have no delay.
fn count(
    table: &mut HashMap<Key, Failures>,
    key: Key,
    (scope, _): Source,
    free: u32,
    now: Instant,
) {
    let entry = table.entry(key).or_insert(Failures { count: 0, last: now, until: now });
    if now.saturating_duration_since(entry.last) >= FORGET {
        entry.count = 0;
    }
    entry.count = entry.count.saturating_add(1);
    entry.last = now;
    if entry.count > free {
        let doublings = (entry.count - free - 1).min(20);
        let limit = match scope {
            Scope::Client => DELAY_LIMIT,
            Scope::Customer | Scope::Site | Scope::Hosts => DELAY_LIMIT_OF_NETWORK,
        };
        entry.until = now + Duration::from_secs(1 << doublings).min(limit);
    }
}

/// The entry of a user at a source.
fn key(user: &str, source: IpAddr) -> Key {
    let name = if user.len() <= NAME_BYTES { user } else { "" };
    (Some(name.to_owned()), source)
}

#[cfg(test)]
mod tests;
