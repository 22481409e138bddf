//! `clear zones`: packets that pairs of zones drop, and what came of SYN cookies, since they were cleared.

use std::sync::{Mutex, PoisonError};

use stoa_api::v1::{ListZonePairsReply, SynCookiesState, ZonePairState};

/// The counters of zones when an operator cleared them.
#[derive(Debug, Default)]
pub struct ClearedZones(Mutex<ListZonePairsReply>);

/// Makes counters relative to others. Those that are lower than these count from 0 again, and stay.
fn subtract<const N: usize>(now: [&mut u64; N], then: [u64; N]) {
    if now.iter().zip(then).all(|(now, then)| **now >= then) {
        now.into_iter().zip(then).for_each(|(now, then)| *now -= then);
    }
}

/// Both zones of a pair.
fn key(state: &ZonePairState) -> Option<(&String, &String)> {
    state.pair.as_ref().map(|pair| (&pair.from, &pair.to))
}

impl ClearedZones {
    /// Has these counters begin at 0; returns the number of pairs.
    pub fn clear(&self, listed: ListZonePairsReply) -> u64 {
        let pairs = listed.pairs.len() as u64;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = listed;
        pairs
    }

    /// Makes counters relative to their last clear.
    pub fn subtract(&self, listed: &mut ListZonePairsReply) {
        let then = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for now in &mut listed.pairs {
            let then = then.pairs.iter().find(|then| key(then) == key(now));
            let Some(ZonePairState { dropped_packets, dropped_bytes, .. }) = then else { continue };
            let counters = [&mut now.dropped_packets, &mut now.dropped_bytes];
            subtract(counters, [*dropped_packets, *dropped_bytes]);
        }
        for now in &mut listed.syn_cookies {
            let then = then.syn_cookies.iter().find(|then| then.zone == now.zone);
            let Some(SynCookiesState { sent, accepted, .. }) = then else { continue };
            subtract([&mut now.sent, &mut now.accepted], [*sent, *accepted]);
        }
        let unpaired = [&mut listed.unpaired_packets, &mut listed.unpaired_bytes];
        subtract(unpaired, [then.unpaired_packets, then.unpaired_bytes]);
        subtract([&mut listed.syn_cookies_refused], [then.syn_cookies_refused]);
    }
}

#[cfg(test)]
mod tests {
    use stoa_api::v1::ZonePair;

    use super::*;

    fn listed(pairs: &[(&str, u64)], unpaired: u64) -> ListZonePairsReply {
        let pair = |(to, packets): &(&str, u64)| ZonePairState {
            pair: Some(ZonePair { from: "lan".into(), to: (*to).into(), ..ZonePair::default() }),
            dropped_packets: *packets,
            dropped_bytes: 100 * packets,
        };
        let cookies = SynCookiesState {
            zone: "lan".into(),
            sent: unpaired,
            half_open: 3,
            ..SynCookiesState::default()
        };
        ListZonePairsReply {
            pairs: pairs.iter().map(pair).collect(),
            unpaired_packets: unpaired,
            unpaired_bytes: 100 * unpaired,
            syn_cookies: vec![cookies],
            syn_cookies_refused: unpaired,
        }
    }

    #[test]
    fn counters_are_relative_to_the_last_clear_of_the_same_pair() {
        let cleared = ClearedZones::default();
        let seen = |mut now: ListZonePairsReply| {
            cleared.subtract(&mut now);
            now
        };
        assert_eq!(seen(listed(&[("wan", 5)], 2)), listed(&[("wan", 5)], 2), "nothing is cleared");
        assert_eq!(cleared.clear(listed(&[("wan", 5), ("dmz", 9)], 2)), 2);
        let now = seen(listed(&[("dmz", 4), ("new", 8), ("wan", 7)], 2));
        let expected = listed(&[("dmz", 4), ("new", 8), ("wan", 2)], 0);
        assert_eq!(now, expected, "a counter that is lower than before counts from 0 again");
        cleared.clear(listed(&[("wan", 7)], 3));
        assert_eq!(
            seen(listed(&[("wan", 8), ("dmz", 9)], 4)),
            listed(&[("wan", 1), ("dmz", 9)], 1)
        );
    }
}
