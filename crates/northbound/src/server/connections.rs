//! Who may have a connection: shares of clients and of the networks around them, and a reserve for operators.
//!
//! A connection over which nobody has logged in is unauthenticated: a new one replaces it where a share, or all, is
//! used up. A flood replaces its own connections; whoever logs in stays. Clients from which somebody has logged in
//! lately, and this machine, are known: their connections are replaced last, and their neighbours' shares do not
//! count for them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
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
    by_source: HashMap<Source, Share>,
    /// The unauthenticated connections of unknown clients, by site: how many, the first of them, and where.
    sites: BTreeSet<(usize, Reverse<u64>, Source)>,
    /// The unauthenticated connections of known clients.
    of_known: BTreeSet<u64>,
    /// Connections that were admitted, which numbers them.
    admitted: u64,
    known: HashMap<IpAddr, Instant>,
}

/// The connections of a source.
#[derive(Debug, Default)]
struct Share {
    open: usize,
    /// Those that are unauthenticated, of unknown clients, the first one first.
    unauthenticated: BTreeSet<u64>,
}

/// An open connection.
#[derive(Debug)]
struct Open {
    from: IpAddr,
    state: State,
    end: Arc<Notify>,
}

/// Who has a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody has logged in, and nothing is known about the client.
    Unknown,
    /// Nobody has logged in, but the client is known.
    Known,
    /// Somebody has logged in.
    Authenticated,
}

/// A connection, which is forgotten on drop.
#[derive(Debug)]
pub struct Connection {
    of: Arc<Connections>,
    number: u64,
    from: IpAddr,
    is_authenticated: AtomicBool,
    end: Arc<Notify>,
}

/// The connections of one source.
fn share(scope: Scope, limit: usize) -> usize {
    match scope {
        Scope::Client => quarter(limit),
        Scope::Customer => (limit * 3 / 8).max(quarter(limit)),
        Scope::Site | Scope::Hosts => (limit / 2).max(quarter(limit)),
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

    /// Admits a connection from an address; `None`: its client has its share, or nothing is left, and users have logged
    /// in over all of these.
    pub fn admit(self: &Arc<Self>, from: IpAddr, now: Instant) -> Option<Connection> {
        let mut table = self.table();
        let state = match table.is_known(from, now) {
            true => State::Known,
            false => State::Unknown,
        };
        table.make_room(from, state)?;
        table.admitted += 1;
        let (number, end) = (table.admitted, Arc::<Notify>::default());
        table.insert(number, Open { from, state, end: Arc::clone(&end) });
        drop(table);
        Some(Connection {
            of: Arc::clone(self),
            number,
            from,
            is_authenticated: AtomicBool::new(false),
            end,
        })
    }
}

impl Table {
    /// Ends unauthenticated connections where the shares of an address, or all connections, are used up. `None`:
    /// there is none.
    fn make_room(&mut self, from: IpAddr, state: State) -> Option<()> {
        let limit = self.limit;
        for source in sources(from) {
            // Neighbours do not use up the share of a known client.
            if state == State::Known && source.0 != Scope::Client {
                continue;
            }
            let Some(own) = self.by_source.get(&source) else { continue };
            if own.open >= share(source.0, limit) {
                let own = own.unauthenticated.first().copied();
                let replaced =
                    own.or_else(|| self.first_of_known(from).filter(|_| state == State::Known))?;
                self.end(replaced);
            }
        }
        // The connections of a known client replace none while the reserve lasts.
        let is_known = state == State::Known;
        if self.open.len() + reserve(limit) >= limit && (!is_known || self.open.len() >= limit) {
            let unknown = self.sites.last().map(|(_, Reverse(first), _)| *first);
            let known = || self.of_known.first().copied().filter(|_| is_known);
            let replaced = unknown.or_else(known)?;
            self.end(replaced);
        }
        Some(())
    }

    /// The first unauthenticated connection of a known client.
    fn first_of_known(&self, from: IpAddr) -> Option<u64> {
        let is_own = |number: &&u64| {
            self.open.get(number).is_some_and(|open| client(open.from) == client(from))
        };
        self.of_known.iter().find(is_own).copied()
    }

    /// Whether a client is this machine, or one from which somebody has logged in lately.
    fn is_known(&self, from: IpAddr, now: Instant) -> bool {
        let known = self.known.get(&client(from));
        from.is_loopback() || known.is_some_and(|last| now.saturating_duration_since(*last) < KNOWN)
    }

    fn insert(&mut self, number: u64, open: Open) {
        for source in sources(open.from) {
            self.by_source.entry(source).or_default().open += 1;
        }
        match open.state {
            State::Unknown => self.change_unauthenticated(open.from, |all| _ = all.insert(number)),
            State::Known => _ = self.of_known.insert(number),
            State::Authenticated => {}
        }
        self.open.insert(number, open);
    }

    /// Changes the unauthenticated connections of all sources of an address, and so the rank of its site.
    fn change_unauthenticated(&mut self, from: IpAddr, change: impl Fn(&mut BTreeSet<u64>)) {
        let rank = |share: &Share, site| {
            share
                .unauthenticated
                .first()
                .map(|first| (share.unauthenticated.len(), Reverse(*first), site))
        };
        let site = sources(from).last();
        for source in sources(from) {
            let Some(share) = self.by_source.get_mut(&source) else { continue };
            let before = rank(share, source);
            change(&mut share.unauthenticated);
            if site == Some(source) {
                if let Some(before) = before {
                    self.sites.remove(&before);
                }
                self.sites.extend(rank(share, source));
            }
        }
    }

    /// A connection is no longer unauthenticated.
    fn remove_unauthenticated(&mut self, number: u64, from: IpAddr, state: State) {
        match state {
            State::Unknown => self.change_unauthenticated(from, |all| _ = all.remove(&number)),
            State::Known => _ = self.of_known.remove(&number),
            State::Authenticated => {}
        }
    }

    /// Ends a connection and forgets it.
    fn end(&mut self, number: u64) {
        let Some(open) = self.open.remove(&number) else { return };
        self.remove_unauthenticated(number, open.from, open.state);
        for source in sources(open.from) {
            // Idle sources are removed: a flood cannot make the table grow.
            match self.by_source.get_mut(&source) {
                Some(own) if own.open > 1 => own.open -= 1,
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
    pub fn authenticate(&self, now: Instant) {
        let mut table = self.of.table();
        if let Some(open) = table.open.get_mut(&self.number) {
            let state = std::mem::replace(&mut open.state, State::Authenticated);
            table.remove_unauthenticated(self.number, self.from, state);
            self.is_authenticated.store(true, Ordering::Relaxed);
        }
        table.know(self.from, now);
    }

    /// Whether somebody has logged in.
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated.load(Ordering::Relaxed)
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
mod tests;
