//! Queues of login attempts: one attempt at a time per address, so that each sees the result of the one before.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use crate::server::source::{Source, client, sources};

/// Pending attempts of one address.
pub const ADDRESS_LIMIT: usize = 16;
/// Pending attempts of all addresses.
const LIMIT: usize = 256;
/// Pending attempts of a site: an IPv4 /24, an IPv6 /48, which has many /64.
const SITE_LIMIT: usize = LIMIT / 4;
/// Pending attempts that are left for known clients of users, and this machine, when others have filled the queues.
const RESERVE: usize = LIMIT / 8;

#[derive(Debug)]
struct Queue {
    turn: Arc<Semaphore>,
    tries: usize,
}

/// The queues of all addresses with pending attempts.
#[derive(Debug, Default)]
pub struct AttemptQueues {
    queues: Mutex<HashMap<IpAddr, Queue>>,
}

/// A slot in the queue of an address, released on drop.
#[derive(Debug)]
pub struct QueueSlot<'a> {
    attempts: &'a AttemptQueues,
    from: IpAddr,
    /// Its permit belongs to the running attempt.
    pub turn: Arc<Semaphore>,
}

impl AttemptQueues {
    fn queues(&self) -> MutexGuard<'_, HashMap<IpAddr, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot in the queue; `None`: the queue is full. The reserve is for users at clients of theirs.
    pub fn slot(&self, from: IpAddr, has_reserve: bool) -> Option<QueueSlot<'_>> {
        let from = client(from);
        let mut queues = self.queues();
        let tries = |is_meant: &dyn Fn(&IpAddr) -> bool| -> usize {
            let meant = queues.iter().filter(|(other, _)| is_meant(other));
            meant.map(|(_, queue)| queue.tries).sum()
        };
        let of_site = tries(&|other| site(*other) == site(from));
        let limit = if has_reserve { LIMIT + RESERVE } else { LIMIT };
        if tries(&|_| true) >= limit || !has_reserve && of_site >= SITE_LIMIT {
            return None;
        }
        let fresh = || Queue { turn: Arc::new(Semaphore::new(1)), tries: 0 };
        let queue = queues.entry(from).or_insert_with(fresh);
        if queue.tries >= ADDRESS_LIMIT {
            return None;
        }
        queue.tries += 1;
        Some(QueueSlot { attempts: self, from, turn: Arc::clone(&queue.turn) })
    }
}

/// The largest source of an address.
fn site(from: IpAddr) -> Option<Source> {
    sources(from).last()
}

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        let mut queues = self.attempts.queues();
        if let Some(queue) = queues.get_mut(&self.from) {
            queue.tries -= 1;
            if queue.tries == 0 {
                queues.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_bounded_and_removed_when_empty() {
        let attempts = AttemptQueues::default();
        let [here, there] = ["192.0.2.1", "192.0.2.2"].map(|it| it.parse().unwrap());
        let places: Vec<_> =
            (0..ADDRESS_LIMIT).map(|_| attempts.slot(here, false).unwrap()).collect();
        assert!(attempts.slot(here, false).is_none());
        assert!(attempts.slot(there, false).is_some());
        assert_eq!(places[0].turn.available_permits(), 1);
        drop(places);
        assert!(attempts.queues().is_empty() && attempts.slot(here, false).is_some());
        let many: Vec<_> = (0..2 * LIMIT)
            .map(|site| IpAddr::from(std::net::Ipv4Addr::from(u32::try_from(site << 8).unwrap())))
            .filter_map(|from| attempts.slot(from, false))
            .collect();
        assert_eq!(many.len(), LIMIT);
        // Who was there before still gets a slot.
        let known: Vec<_> = (0..2 * LIMIT)
            .map(|host| IpAddr::from([198, 51, 100, u8::try_from(host & 0xff).unwrap()]))
            .filter_map(|from| attempts.slot(from, true))
            .collect();
        assert_eq!(known.len(), RESERVE);
    }

    #[test]
    fn a_site_with_many_networks_leaves_slots_to_others() {
        let attempts = AttemptQueues::default();
        let from = |site: u16, net: u16| {
            IpAddr::from(std::net::Ipv6Addr::new(0x2001, 0xdb8, site, net, 0, 0, 0, 1))
        };
        let many: Vec<_> =
            (0..1_000).filter_map(|net| attempts.slot(from(1, net), false)).collect();
        assert_eq!(many.len(), SITE_LIMIT);
        let of_24 = |host: u8| IpAddr::from([203, 0, 113, host]);
        let four: Vec<_> = (0..=255).filter_map(|host| attempts.slot(of_24(host), false)).collect();
        assert_eq!(four.len(), SITE_LIMIT);
        assert!(attempts.slot(of_24(7), true).is_some());
        assert!(attempts.slot(from(2, 0), false).is_some());
        assert!(attempts.slot("192.0.2.1".parse().unwrap(), false).is_some());
    }
}
