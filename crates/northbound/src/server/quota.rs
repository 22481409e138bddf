//! Limits of what one client may use of a bounded resource: connections, event streams. A client is an address, and the
//! user who logged in from there: neither many addresses nor many users give anybody more.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::source::client;

/// Who uses a unit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Client {
    Address(IpAddr),
    User(String),
}

/// Use by client.
#[derive(Debug, Default)]
pub struct ClientQuotas {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    by_client: HashMap<Client, usize>,
    all: usize,
}

/// One unit in use by a client, released on drop.
#[derive(Debug)]
pub struct QuotaSlot {
    of: Arc<ClientQuotas>,
    clients: Vec<Client>,
}

/// The limit of one client: a quarter of all, so that no client can use up all.
pub fn quarter(all: usize) -> usize {
    (all / 4).max(2).min(all.saturating_sub(1)).max(1)
}

impl ClientQuotas {
    fn table(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Units in use by all clients.
    pub fn held(&self) -> usize {
        self.table().all
    }

    /// Takes one unit for the client at an address, and for its user if it is known; `None`: one of them uses `most`,
    /// or all clients use `most_of_all`.
    pub fn take(
        self: &Arc<Self>,
        from: IpAddr,
        user: Option<&str>,
        most: usize,
        most_of_all: usize,
    ) -> Option<QuotaSlot> {
        let user = user.map(|user| Client::User(user.to_owned()));
        let clients: Vec<Client> =
            [Client::Address(client(from))].into_iter().chain(user).collect();
        let mut held = self.table();
        let is_at_limit = |one| held.by_client.get(one).is_some_and(|own| *own >= most);
        if held.all >= most_of_all || clients.iter().any(is_at_limit) {
            return None;
        }
        held.all += 1;
        for one in &clients {
            *held.by_client.entry(one.clone()).or_default() += 1;
        }
        drop(held);
        Some(QuotaSlot { of: Arc::clone(self), clients })
    }
}

impl Drop for QuotaSlot {
    fn drop(&mut self) {
        let mut held = self.of.table();
        held.all -= 1;
        for one in &self.clients {
            // Idle clients are removed: strangers cannot make the table grow.
            match held.by_client.get_mut(one) {
                Some(own) if *own > 1 => *own -= 1,
                _ => drop(held.by_client.remove(one)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_has_its_share_and_gives_it_back() {
        let quotas = Arc::new(ClientQuotas::default());
        let [one, same, other] =
            ["2001:db8::1", "2001:db8::2", "192.0.2.1"].map(|it| it.parse().unwrap());
        let held: Vec<QuotaSlot> = (0..9).filter_map(|_| quotas.take(one, None, 4, 6)).collect();
        assert_eq!(held.len(), 4);
        assert!(quotas.take(same, None, 4, 6).is_none(), "the same client with another address");
        let others: Vec<QuotaSlot> =
            (0..9).filter_map(|_| quotas.take(other, None, 4, 6)).collect();
        assert_eq!(others.len(), 2, "there are no more");
        drop(held);
        assert!(quotas.take(same, None, 4, 6).is_some());
        drop(others);
        assert!(quotas.table().by_client.is_empty() && quotas.table().all == 0);
    }

    #[test]
    fn a_user_has_one_share_from_all_addresses() {
        let quotas = Arc::new(ClientQuotas::default());
        let from = |number: u32| IpAddr::from(std::net::Ipv4Addr::from(number));
        let of_eve: Vec<QuotaSlot> =
            (0..100).filter_map(|host| quotas.take(from(host), Some("eve"), 4, 16)).collect();
        assert_eq!(of_eve.len(), 4);
        assert!(quotas.take(from(0), Some("ann"), 4, 16).is_some());
        drop(of_eve);
        assert!(quotas.table().by_client.is_empty() && quotas.table().all == 0);
    }

    #[test]
    fn a_share_is_never_all_and_never_nothing() {
        assert_eq!([1, 2, 3, 8, 256].map(quarter), [1, 1, 2, 2, 64]);
    }
}
