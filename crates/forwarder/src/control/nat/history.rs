//! The last events of blocks of ports: for whoever asks who had a port, for export, and in the log.
//!
//! [`v1::NatBlockEvent`] is all that is known of an event. `ListNatBlockEvents` returns those behind a number, so that
//! an exporter misses none while it asks often enough.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use stoa_api::text::ip_text;
use stoa_api::v1;
use stoa_engine::clock;

use super::listing::octets;
use crate::control::forwarder_state::ForwarderState;
use crate::ipfix::{NatEvent, NatEventKind};
use crate::nat::block_events::{Event, EventKind};
use crate::nat::blocks::Subscriber;

/// Events that are kept.
const KEPT: usize = 65_536;
/// Events that the log gets in a tick: 200 a second.
const LOGGED: usize = 20;
/// Events of a reply, at most.
const REPLY: usize = 10_000;

/// The last events.
#[derive(Default)]
pub(super) struct History {
    events: VecDeque<v1::NatBlockEvent>,
    /// The number of the last one.
    last: u64,
    /// Events that workers could not report, and those that the log did not get.
    lost: u64,
    unlogged: u64,
}

impl History {
    fn add(&mut self, event: v1::NatBlockEvent) {
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Events behind a number.
    pub(super) fn after(&self, number: u64, at_most: u32) -> v1::ListNatBlockEventsReply {
        let at_most = if at_most == 0 { REPLY } else { REPLY.min(at_most as usize) };
        let first = self.events.partition_point(|it| it.number <= number);
        v1::ListNatBlockEventsReply {
            events: self.events.range(first..).take(at_most).cloned().collect(),
            lost: self.lost,
            oldest: self.events.front().map_or(0, |it| it.number),
        }
    }

    /// The seconds since 1970 from which on events are known; 0: none is. Those that were lost are unknown.
    pub(super) fn since_unix_s(&self) -> u64 {
        self.events.front().map_or(0, |it| it.unix_ms / 1000)
    }

    /// The blocks that meet a condition and belonged to somebody at a time: their allocation, and when they were
    /// released, in seconds since 1970. Of an allocation that is not known, the time is 0.
    pub(super) fn at(
        &self,
        unix_s: u64,
        is_meant: impl Fn(&v1::NatBlockEvent) -> bool,
    ) -> Vec<(v1::NatBlockEvent, Option<u64>)> {
        let mut found: Vec<Held> = Vec::new();
        for event in self.events.iter().filter(|it| is_meant(it)) {
            let now = event.unix_ms / 1000;
            let mut of_block = found.iter_mut().filter(|it| is_same_block(&it.event, event));
            match event.kind() {
                v1::NatBlockEventKind::NatBlockAllocated => {
                    of_block.filter(|it| it.until.is_none()).for_each(|it| it.until = Some(now));
                    found.push(Held { event: event.clone(), from: now, until: None });
                }
                v1::NatBlockEventKind::NatBlockReleased => {
                    let is_it =
                        |it: &&mut Held| it.until.is_none() && is_same_subscriber(&it.event, event);
                    if let Some(open) = of_block.find(is_it) {
                        open.until = Some(now);
                        continue;
                    }
                    // Its allocation was lost, or is not kept any more: it was behind the release before.
                    let before = found.iter().filter(|it| is_same_block(&it.event, event));
                    let from = before.filter_map(|it| it.until).max().unwrap_or(0);
                    let event = v1::NatBlockEvent { unix_ms: 0, ..event.clone() };
                    found.push(Held { event, from, until: Some(now) });
                }
                _ => {}
            }
        }
        let was = |it: &Held| it.from <= unix_s && it.until.is_none_or(|until| until >= unix_s);
        found.into_iter().filter(was).map(|it| (it.event, it.until)).collect()
    }
}

/// A block that somebody has or had, in seconds since 1970.
struct Held {
    event: v1::NatBlockEvent,
    from: u64,
    until: Option<u64>,
}

fn is_same_block(one: &v1::NatBlockEvent, other: &v1::NatBlockEvent) -> bool {
    (&one.external, &one.external_vrf, one.first_port, one.last_port)
        == (&other.external, &other.external_vrf, other.first_port, other.last_port)
}

fn is_same_subscriber(one: &v1::NatBlockEvent, other: &v1::NatBlockEvent) -> bool {
    (&one.subscriber, one.subscriber_length, &one.subscriber_vrf)
        == (&other.subscriber, other.subscriber_length, &other.subscriber_vrf)
}

fn kind(kind: EventKind) -> v1::NatBlockEventKind {
    match kind {
        EventKind::Allocated => v1::NatBlockEventKind::NatBlockAllocated,
        EventKind::Released => v1::NatBlockEventKind::NatBlockReleased,
        EventKind::OverQuota => v1::NatBlockEventKind::NatBlockOverQuota,
        EventKind::NoBlock => v1::NatBlockEventKind::NatBlockNoBlock,
    }
}

/// An event as IPFIX exports it. A packet for which no block is free is the worker's event: it has no port.
fn exported(event: &Event) -> Option<NatEvent> {
    let kind = match (event.kind, event.block) {
        (EventKind::NoBlock, _) => return None,
        (EventKind::OverQuota, _) => NatEventKind::QuotaExceeded,
        (EventKind::Allocated | EventKind::Released, block) => {
            let (external, first, last) = block?;
            let is_allocated = event.kind == EventKind::Allocated;
            NatEventKind::PortBlock { is_allocated, external, ports: (first, last) }
        }
    };
    let Subscriber { address, vrf } = event.subscriber;
    let instance = event.policy.0;
    Some(NatEvent { kind, instance, subscriber: address, protocol: 0, vrf })
}

/// Milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

impl ForwarderState {
    /// Keeps events, and writes them to the log.
    pub(super) fn note_nat_events(&mut self, events: Vec<Event>, lost: u64) {
        if events.is_empty() && lost == self.capabilities.nat.history.lost {
            return;
        }
        let (now_ms, now) = (unix_ms(), self.shared.flows.now(clock::tsc()).ms);
        self.capabilities.ipfix.report(events.iter().filter_map(exported));
        let (mut messages, mut unlogged) = (Vec::with_capacity(events.len()), 0);
        for it in &events {
            let age = now.wrapping_sub(it.ms).cast_signed().max(0).cast_unsigned();
            messages.push(self.nat_event(it, now_ms.saturating_sub(age.into())));
        }
        for (at, message) in messages.into_iter().enumerate() {
            if at < LOGGED {
                write_to_log(&message);
            } else {
                unlogged += 1;
            }
            let history = &mut self.capabilities.nat.history;
            history.last += 1;
            history.add(v1::NatBlockEvent { number: history.last, ..message });
        }
        let history = &mut self.capabilities.nat.history;
        unlogged += lost - history.lost;
        history.lost = lost;
        history.unlogged += unlogged;
        if unlogged > 0 {
            let (events, in_all) = (unlogged, history.unlogged);
            tracing::warn!(
                events,
                in_all,
                "events of NAT port sets were not logged: too many at once"
            );
        }
    }

    fn nat_event(&self, it: &Event, unix_ms: u64) -> v1::NatBlockEvent {
        let (external, first_port, last_port) = match it.block {
            Some((address, first, last)) => (octets(address), first.into(), last.into()),
            None => (Vec::new(), 0, 0),
        };
        v1::NatBlockEvent {
            number: 0,
            unix_ms,
            kind: kind(it.kind).into(),
            subscriber: octets(it.subscriber.address),
            subscriber_length: it.length.into(),
            subscriber_vrf: self.vrf_name(it.subscriber.vrf),
            external,
            external_vrf: self.vrf_name(it.vrf),
            first_port,
            last_port,
            instance: it.policy.0,
            policy: it.policy.1,
        }
    }

    /// The events of blocks behind a number.
    pub fn nat_block_events(
        &self,
        request: v1::ListNatBlockEventsRequest,
    ) -> v1::ListNatBlockEventsReply {
        self.capabilities.nat.history.after(request.after, request.at_most)
    }
}

fn write_to_log(event: &v1::NatBlockEvent) {
    let v1::NatBlockEvent { subscriber_length, instance, policy, .. } = *event;
    let subscriber = match subscriber_length {
        32 => ip_text(&event.subscriber),
        length => format!("{}/{length}", ip_text(&event.subscriber)),
    };
    let (vrf, external) = (event.subscriber_vrf.as_str(), ip_text(&event.external));
    let (first_port, last_port) = (event.first_port, event.last_port);
    match event.kind() {
        v1::NatBlockEventKind::NatBlockAllocated => tracing::info!(
            subscriber,
            vrf,
            external,
            first_port,
            last_port,
            instance,
            policy,
            "NAT port set allocated"
        ),
        v1::NatBlockEventKind::NatBlockReleased => tracing::info!(
            subscriber,
            vrf,
            external,
            first_port,
            last_port,
            instance,
            policy,
            "NAT port set released"
        ),
        v1::NatBlockEventKind::NatBlockOverQuota => {
            tracing::warn!(subscriber, vrf, instance, policy, "NAT subscriber is at its limit");
        }
        v1::NatBlockEventKind::NatBlockNoBlock => {
            tracing::warn!(subscriber, vrf, instance, policy, "no NAT port set is free");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event of a block of ports from this one on, in seconds.
    fn event(number: u64, at: u64, kind: v1::NatBlockEventKind, last: u8) -> v1::NatBlockEvent {
        v1::NatBlockEvent {
            number,
            unix_ms: at * 1000,
            kind: kind.into(),
            subscriber: vec![10, 0, 0, last],
            external: vec![192, 0, 2, 1],
            first_port: 1024,
            last_port: 1535,
            ..v1::NatBlockEvent::default()
        }
    }

    /// Of these events: number, seconds, kind, last byte of the subscriber.
    fn history(events: &[(u64, u64, v1::NatBlockEventKind, u8)]) -> History {
        let mut history = History::default();
        events
            .iter()
            .for_each(|&(number, at, kind, last)| history.add(event(number, at, kind, last)));
        history
    }

    /// Workers may lose allocations, but no release is lost.
    #[test]
    fn a_lost_allocation_names_nobody_else() {
        use v1::NatBlockEventKind::{NatBlockAllocated as Allocated, NatBlockReleased as Released};
        let history = history(&[
            (1, 100, Allocated, 1),
            (2, 200, Released, 1),
            (3, 400, Released, 2),
            (4, 500, Allocated, 3),
            (5, 700, Allocated, 4),
        ]);
        let who = |at| {
            let found = history.at(at, |_| true);
            found.into_iter().map(|(it, end)| (it.subscriber[3], end)).collect::<Vec<_>>()
        };
        assert_eq!((who(150), who(300)), (vec![(1, Some(200))], vec![(2, Some(400))]));
        assert_eq!((who(600), who(900)), (vec![(3, Some(700))], vec![(4, None)]));
    }

    #[test]
    fn the_history_is_bounded_and_knows_who_had_a_block() {
        use v1::NatBlockEventKind::{NatBlockAllocated as Allocated, NatBlockReleased as Released};
        let mut history = history(&[
            (1, 100, Released, 1),
            (2, 200, Allocated, 2),
            (3, 300, Released, 2),
            (4, 400, Allocated, 3),
        ]);
        let who = |at| {
            let found = history.at(at, |_| true);
            found
                .into_iter()
                .map(|(it, end)| (it.subscriber[3], it.unix_ms, end))
                .collect::<Vec<_>>()
        };
        assert_eq!(who(50), [(1, 0, Some(100))]);
        assert_eq!((who(150), who(350)), (Vec::new(), Vec::new()));
        assert_eq!(who(250), [(2, 200_000, Some(300))]);
        assert_eq!(who(900), [(3, 400_000, None)]);
        assert_eq!(history.since_unix_s(), 100);
        let after = |number, at_most| {
            let reply = history.after(number, at_most);
            (reply.events.iter().map(|it| it.number).collect::<Vec<_>>(), reply.oldest)
        };
        assert_eq!(
            (after(0, 0), after(1, 2), after(4, 0)),
            ((vec![1, 2, 3, 4], 1), (vec![2, 3], 1), (Vec::new(), 1))
        );
        for number in 5..5 + KEPT as u64 {
            history.add(event(number, 500, Allocated, 4));
        }
        assert_eq!((history.events.len(), history.after(0, 1).oldest), (KEPT, 5));
    }
}
