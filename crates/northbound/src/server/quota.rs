//! Limits of what one client may use of a bounded resource: connections, event streams.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::rate::client;

/// Use by client.
#[derive(Debug, Default)]
pub struct ClientQuotas {
    held: Mutex<HashMap<IpAddr, usize>>,
}

/// One unit in use by a client, released on drop.
#[derive(Debug)]
pub struct QuotaSlot {
    of: Arc<ClientQuotas>,
    client: IpAddr,
}

/// The limit of one client: a quarter of all, so that no client can use up all.
pub fn quarter(all: usize) -> usize {
    (all / 4).max(2).min(all.saturating_sub(1)).max(1)
}

impl ClientQuotas {
    /// Units in use by all clients.
    pub fn held(&self) -> usize {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// Takes one unit for the client at an address; `None`: the client uses `most`, or all clients use `most_of_all`.
    pub fn take(
        self: &Arc<Self>,
        from: IpAddr,
        most: usize,
        most_of_all: usize,
    ) -> Option<QuotaSlot> {
        let client = client(from);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held.get(&client).copied().unwrap_or(0);
        if own >= most || held.values().sum::<usize>() >= most_of_all {
            return None;
        }
        held.insert(client, own + 1);
        Some(QuotaSlot { of: Arc::clone(self), client })
    }
}

impl Drop for QuotaSlot {
    fn drop(&mut self) {
        let mut held = self.of.held.lock().unwrap_or_else(PoisonError::into_inner);
        // Idle addresses are removed: strangers cannot make the table grow.
        match held.get_mut(&self.client) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(held.remove(&self.client)),
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
        let held: Vec<QuotaSlot> = (0..9).filter_map(|_| quotas.take(one, 4, 6)).collect();
        assert_eq!(held.len(), 4);
        assert!(quotas.take(same, 4, 6).is_none(), "the same client with another address");
        let others: Vec<QuotaSlot> = (0..9).filter_map(|_| quotas.take(other, 4, 6)).collect();
        assert_eq!(others.len(), 2, "there are no more");
        drop(held);
        assert!(quotas.take(same, 4, 6).is_some());
        drop(others);
        assert!(quotas.held.lock().unwrap().is_empty());
    }

    #[test]
    fn a_share_is_never_all_and_never_nothing() {
        assert_eq!([1, 2, 3, 8, 256].map(quarter), [1, 1, 2, 2, 64]);
    }
}
