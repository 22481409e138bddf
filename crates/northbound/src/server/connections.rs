//! Who may have a connection: shares of clients and of the networks around them, and a reserve for operators.
//!
//! Nobody knows who a connection is from before it has logged in. When the common part is full, a new connection
//! therefore replaces one that has not: the oldest one of the site that has most of these. A flood replaces its own
//! connections; whoever logs in stays.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::quota::quarter;
use super::source::{Scope, Source, client, sources};

/// How long a client is known from which somebody has logged in.
const KNOWN: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of known clients.
const KNOWN_LIMIT: usize = 1_024;

/// All connections of the server.
#[derive(Debug, Default)]
pub struct Connections {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    limit: usize,
    open: HashMap<u64, Open>,
    by_source: HashMap<Source, usize>,
    /// Connections that were admitted, which numbers them.
    admitted: u64,
    known: HashMap<IpAddr, Instant>,
}

/// An open connection.
#[derive(Debug)]
struct Open {
    from: IpAddr,
    is_trusted: bool,
    end: Arc<Notify>,
}

/// A connection, which is forgotten on drop.
#[derive(Debug)]
pub struct Connection {
    of: Arc<Connections>,
    number: u64,
    from: IpAddr,
    is_trusted: AtomicBool,
    end: Arc<Notify>,
}

/// The connections of one source.
fn share(scope: Scope, limit: usize) -> usize {
    match scope {
        Scope::Client => quarter(limit),
        Scope::Customer => (limit * 3 / 8).max(quarter(limit)),
        Scope::Site => (limit / 2).max(quarter(limit)),
    }
}

/// The connections that only loopback and known clients may take.
fn reserve(limit: usize) -> usize {
    (limit / 16).clamp(usize::from(limit > 1), 64)
}

impl Connections {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the maximum number of connections. Those above it end by themselves.
    pub fn set_limit(&self, limit: usize) {
        self.table().limit = limit;
    }

    /// Admits a connection from an address; `None`: its sources have their share, or nothing is left.
    pub fn admit(self: &Arc<Self>, from: IpAddr, now: Instant) -> Option<Connection> {
        let mut table = self.table();
        let limit = table.limit;
        let is_at_share = |source: &Source| {
            table.by_source.get(source).is_some_and(|own| *own >= share(source.0, limit))
        };
        if sources(from).any(|source| is_at_share(&source)) {
            return None;
        }
        if table.open.len() + reserve(limit) >= limit {
            // The connections of an operator do not replace each other while the reserve lasts.
            if table.open.len() >= limit || !table.is_operator(from, now) {
                let replaced = table.to_replace()?;
                table.end(replaced);
            }
        }
        table.admitted += 1;
        let (number, end) = (table.admitted, Arc::<Notify>::default());
        table.open.insert(number, Open { from, is_trusted: false, end: Arc::clone(&end) });
        for source in sources(from) {
            *table.by_source.entry(source).or_default() += 1;
        }
        drop(table);
        Some(Connection {
            of: Arc::clone(self),
            number,
            from,
            is_trusted: AtomicBool::new(false),
            end,
        })
    }
}

impl Table {
    /// The oldest connection that has not logged in, of the site that has most of them.
    fn to_replace(&self) -> Option<u64> {
        let site = |open: &Open| sources(open.from).last();
        let strangers = || self.open.iter().filter(|(_, open)| !open.is_trusted);
        let mut by_site: HashMap<Option<Source>, usize> = HashMap::new();
        strangers().for_each(|(_, open)| *by_site.entry(site(open)).or_default() += 1);
        let rank = |(number, open): &(&u64, &Open)| {
            (by_site.get(&site(open)).copied(), std::cmp::Reverse(**number))
        };
        strangers().max_by_key(rank).map(|(number, _)| *number)
    }

    /// Whether somebody is likely to be an operator: on this machine, or where somebody has logged in.
    fn is_operator(&self, from: IpAddr, now: Instant) -> bool {
        let known = self.known.get(&client(from));
        from.is_loopback() || known.is_some_and(|last| now.saturating_duration_since(*last) < KNOWN)
    }

    /// Ends a connection and forgets it.
    fn end(&mut self, number: u64) {
        let Some(open) = self.open.remove(&number) else { return };
        for source in sources(open.from) {
            // Idle sources are removed: strangers cannot make the table grow.
            match self.by_source.get_mut(&source) {
                Some(own) if *own > 1 => *own -= 1,
                _ => drop(self.by_source.remove(&source)),
            }
        }
        open.end.notify_one();
    }

    fn know(&mut self, from: IpAddr, now: Instant) {
        self.known.insert(client(from), now);
        if self.known.len() > KNOWN_LIMIT {
            let oldest = self.known.iter().min_by_key(|(_, last)| **last).map(|(from, _)| *from);
            if let Some(oldest) = oldest {
                self.known.remove(&oldest);
            }
        }
    }
}

impl Connection {
    /// Somebody has logged in: the connection stays, and the client is known.
    pub fn trust(&self, now: Instant) {
        let mut table = self.of.table();
        if let Some(open) = table.open.get_mut(&self.number) {
            open.is_trusted = true;
            self.is_trusted.store(true, Ordering::Relaxed);
        }
        table.know(self.from, now);
    }

    /// Whether somebody has logged in.
    pub fn is_trusted(&self) -> bool {
        self.is_trusted.load(Ordering::Relaxed)
    }

    /// Waits until another connection replaces this one.
    pub async fn replaced(&self) {
        self.end.notified().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.of.table().end(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 256;

    fn all() -> Arc<Connections> {
        let all = Arc::<Connections>::default();
        all.set_limit(LIMIT);
        all
    }

    fn host(site: u16, host: u8) -> IpAddr {
        let [one, two] = site.to_be_bytes();
        IpAddr::from([10, one, two, host])
    }

    /// Connections that a source gets which tries many times.
    fn flood(all: &Arc<Connections>, from: impl Fn(u16) -> IpAddr) -> Vec<Connection> {
        (0..2_000).filter_map(|turn| all.admit(from(turn), Instant::now())).collect()
    }

    fn is_open(all: &Connections, connection: &Connection) -> bool {
        all.table().open.contains_key(&connection.number)
    }

    #[test]
    fn each_source_has_its_share_and_gives_it_back() {
        let all = all();
        let six = |net: u128| IpAddr::V6((0x2001_0db8_u128 << 96 | net << 64).into());
        assert_eq!(flood(&all, |_| host(1, 1)).len(), 64);
        assert_eq!(flood(&all, |turn| host(1, turn as u8)).len(), 128);
        assert_eq!(flood(&all, |_| six(1)).len(), 64);
        assert_eq!(flood(&all, |turn| six(u128::from(turn) & 0xff)).len(), 96);
        assert_eq!(flood(&all, |turn| six((u128::from(turn) & 0xff) << 8)).len(), 128);
        let table = all.table();
        assert!(table.by_source.is_empty() && table.open.is_empty());
    }

    #[test]
    fn an_operator_gets_in_whatever_strangers_hold() {
        for sites in [4_u16, 1_000] {
            let all = all();
            let flooding = flood(&all, |turn| host(turn % sites, 1));
            let open = || flooding.iter().filter(|one| is_open(&all, one)).count();
            assert!(open() <= LIMIT - reserve(LIMIT));
            let ann = all.admit("192.0.2.1".parse().unwrap(), Instant::now()).unwrap();
            ann.trust(Instant::now());
            // Later ones replace each other, not who has logged in.
            let more = flood(&all, |turn| host(turn % sites, 1));
            assert!(is_open(&all, &ann) && ann.is_trusted());
            assert!(all.table().open.len() <= LIMIT - reserve(LIMIT));
            drop((flooding, more));
            assert_eq!(all.table().open.len(), 1);
        }
    }

    #[test]
    fn the_largest_site_loses_its_oldest_connection() {
        let all = all();
        let now = Instant::now();
        let first = all.admit(host(9, 1), now).unwrap();
        let many = flood(&all, |turn| host(turn % 4, 1));
        assert!(is_open(&all, &first), "a site with one connection keeps it");
        assert!(!is_open(&all, &many[0]), "the oldest of the largest site is gone");
    }

    #[tokio::test]
    async fn a_replaced_connection_is_told() {
        let all = all();
        let many = flood(&all, |turn| host(turn % 8, 1));
        let lost = many.iter().find(|one| !is_open(&all, one)).unwrap();
        lost.replaced().await;
    }

    #[test]
    fn the_reserve_is_for_this_machine_and_known_clients() {
        let all = all();
        let now = Instant::now();
        let known = host(500, 1);
        all.admit(known, now).unwrap().trust(now);
        // Users hold everything else: nobody is replaced.
        let users: Vec<Connection> = (0..1_000)
            .filter_map(|turn| all.admit(host(1_000 + turn, 1), now))
            .inspect(|one| one.trust(now))
            .collect();
        assert_eq!(users.len(), LIMIT - reserve(LIMIT));
        assert!(all.admit("192.0.2.1".parse().unwrap(), now).is_none(), "a stranger");
        assert!(all.admit(known, now + KNOWN).is_none(), "no longer known");
        for operator in [known, "127.0.0.1".parse().unwrap(), "::1".parse().unwrap()] {
            assert!(all.admit(operator, now).is_some(), "{operator}");
        }
        let rest: Vec<Connection> =
            (0..100).filter_map(|_| all.admit("::1".parse().unwrap(), now)).collect();
        assert_eq!(all.table().open.len(), LIMIT, "{}", rest.len());
        assert!(rest[84..].iter().all(|one| is_open(&all, one)), "then the oldest make room");
    }

    #[test]
    fn any_limit_leaves_something_for_everybody() {
        let of = |limit| (reserve(limit), share(Scope::Client, limit), share(Scope::Site, limit));
        assert_eq!([1, 2, 8, 256].map(of), [(0, 1, 1), (1, 1, 1), (1, 2, 4), (16, 64, 128)]);
    }
}
