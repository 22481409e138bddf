//! Serializes the Sets of each client: a client waits for its own requests, not for those of others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

use crate::server::source::client;

/// The lock of each client.
#[derive(Debug, Default)]
pub struct ClientLocks {
    held: Mutex<HashMap<IpAddr, Weak<tokio::sync::Mutex<()>>>>,
}

impl ClientLocks {
    /// Waits until the client at this address has no other request in progress, which is until the guard is dropped.
    pub async fn take(&self, from: IpAddr) -> OwnedMutexGuard<()> {
        let own = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            // Idle clients are removed: strangers cannot make the table grow.
            held.retain(|_, one| one.strong_count() > 0);
            let client = client(from);
            let known = held.get(&client).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let new = Arc::default();
                held.insert(client, Arc::downgrade(&new));
                new
            })
        };
        own.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_client_waits_for_itself_and_for_nobody_else() {
        let client_locks = ClientLocks::default();
        let [one, same, other] =
            ["2001:db8::1", "2001:db8::2", "192.0.2.1"].map(|it| it.parse().unwrap());
        let first = client_locks.take(one).await;
        assert!(
            client_locks.take(same).now_or_never().is_none(),
            "the same client with another address"
        );
        assert!(client_locks.take(other).now_or_never().is_some());
        drop(first);
        assert!(client_locks.take(same).now_or_never().is_some());
        assert!(client_locks.held.lock().unwrap().len() <= 1, "idle clients are removed");
    }
}
