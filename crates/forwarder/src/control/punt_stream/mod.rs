//! The punt stream: packets of protocols that run in the controller, there and back.
//!
//! ```text
//! worker - policer, ring -> control thread - queue of the class, budget, window -> call -> controller
//! worker <- ring - control thread <- budget of the class <- call <- controller
//! ```
//! [`crate::punt::streamed`] lists the classes. No side waits for another: what has no room is dropped and counted, and
//! without a controller all packets are.

mod call;
mod inject;
mod outbox;

use std::collections::BTreeMap;
use std::sync::Arc;

use stoa_api::punts::Key;
use stoa_api::v1;
use stoa_engine::Packet;
use stoa_engine::pool::HEADROOM;
use stoa_wire::ethernet::ethertype;

use self::outbox::Outbox;
use super::capability::{Capability, Start, Verbs};
use super::forwarder_state::ForwarderState;
use super::limit_listing::limit;
use super::listing::unix_us;
use super::punts::is_ip4;
use crate::drops::Drop;
use crate::punt::Class;
use crate::punt::stream_queues::StreamState;
use crate::punt::streamed::{STREAMED, Streamed};
use crate::punt::subscriptions::{self, Parsed, Subscriptions};

/// Bytes of Ethernet headers with 0, 1 and 2 tags.
const LINK_HEADERS: [usize; 3] = [14, 18, 22];

/// The subscription of the controller.
pub(super) struct PuntStream {
    outbox: Arc<Outbox>,
    /// What workers punt. It outlives the controller, so that packets are not refused while it restarts.
    keys: BTreeMap<Key, Class>,
}

impl Capability for PuntStream {
    const VERBS: Verbs =
        Verbs { limits: |state, rows| rows.extend(state.punt_queue_limits()), ..Verbs::NONE };

    fn start(_: &Start<'_>) -> Self {
        Self { outbox: Outbox::new(), keys: BTreeMap::new() }
    }
}

impl std::ops::Drop for PuntStream {
    /// Ends the call.
    fn drop(&mut self) {
        self.outbox.lock().unsubscribe();
    }
}

impl ForwarderState {
    /// Subscribes a caller; `None`: a newer caller has taken over.
    pub fn subscribe_punts(
        &mut self,
        caller: u64,
        subscription: &v1::PuntSubscription,
    ) -> Option<v1::PuntsSubscribed> {
        let Parsed { keys, windows, refused } = subscriptions::parse(subscription);
        let outbox = &self.capabilities.punt_stream.outbox;
        let dropped = outbox.lock().subscribe(caller, &windows)?;
        self.count_drops(Drop::PuntUnsubscribed, dropped);
        let stream = &mut self.capabilities.punt_stream;
        if stream.keys != keys {
            let subscriptions = Subscriptions::new(&keys);
            stream.keys = keys;
            self.shared.subscriptions.publish(subscriptions, &mut self.graveyard);
        }
        Some(v1::PuntsSubscribed { refused })
    }

    /// The call of a caller has ended: drops what waits for it.
    pub fn end_punts(&mut self, caller: u64) {
        let mut contents = self.capabilities.punt_stream.outbox.lock();
        let waiting = if contents.is_subscriber(caller) { contents.unsubscribe() } else { 0 };
        drop(contents);
        self.count_drops(Drop::PuntUnsubscribed, waiting);
    }

    /// The queues, for the call.
    fn punt_outbox(&self) -> Arc<Outbox> {
        self.capabilities.punt_stream.outbox.clone()
    }

    /// The next packets for the controller, without a call: for tests.
    pub fn take_punts(&mut self) -> Option<v1::PuntedPackets> {
        let taken = self.capabilities.punt_stream.outbox.lock().queues.take();
        taken.map(message)
    }

    /// Queues a packet of a worker for the controller, or drops it.
    pub(super) fn punt_to_controller(&mut self, streamed: usize, packet: Packet) {
        let now_us = self.micros();
        // At most: reassembled packets and those of tunnels have no header.
        let length = usize::from(packet.offset()).saturating_sub(HEADROOM) + packet.bytes().len();
        let outbox = self.capabilities.punt_stream.outbox.clone();
        if let Err(reason) = outbox.lock().queues.admit(streamed, length, now_us) {
            return self.count_drop(reason);
        }
        let Some(punted) = self.punted(packet) else {
            return self.count_drop(Drop::InterfaceDown);
        };
        let mut contents = outbox.lock();
        contents.queues.push(streamed, punted);
        contents.wake();
    }

    /// A packet as the controller gets it; `None`: its interface was removed.
    fn punted(&self, mut packet: Packet) -> Option<v1::PuntedPacket> {
        let state = self.interface(packet.rx_if)?;
        let header = usize::from(packet.offset()).saturating_sub(HEADROOM);
        let length = packet.bytes().len();
        // Drivers write frames to the start of the data of a new buffer.
        let has_header = LINK_HEADERS.contains(&header)
            && !self.is_tunnel(packet.rx_if)
            && packet.set_span(HEADROOM, header + length);
        let (link_header, payload) =
            packet.bytes().split_at_checked(if has_header { header } else { 0 })?;
        let word = |at: usize| u16::from_be_bytes([link_header[at], link_header[at + 1]]);
        let tag = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
        let tags = (12..link_header.len().saturating_sub(2)).step_by(4).map(tag).collect();
        let ethertype = match link_header.len() {
            0 if is_ip4(payload) => ethertype::IP4,
            0 => ethertype::IP6,
            length => word(length - 2),
        };
        Some(v1::PuntedPacket {
            interface: state.name.clone(),
            vrf: self.vrfs.get(state.vrf).map(|vrf| vrf.name.clone()).unwrap_or_default(),
            ethertype: ethertype.into(),
            tags,
            link_header: link_header.to_vec(),
            payload: payload.to_vec(),
            received_unix_us: unix_us(),
        })
    }

    /// The classes of the stream; those for tests only while they are used.
    pub fn list_punt_streams(&self) -> Vec<v1::PuntStreamState> {
        let stream = &self.capabilities.punt_stream;
        let shown = STREAMED.iter().enumerate().filter_map(|(at, streamed)| {
            let state = stream.outbox.lock().queues.state(at);
            let is_used = stream.keys.values().any(|class| *class == streamed.class);
            let is_shown = !streamed.is_hidden || is_used || state != StreamState::default();
            is_shown.then(|| self.punt_stream_state(streamed, &state))
        });
        shown.collect()
    }

    fn punt_stream_state(&self, streamed: &Streamed, state: &StreamState) -> v1::PuntStreamState {
        let Streamed { class, budget, .. } = streamed;
        let StreamState { counters, queued, queued_bytes, is_subscribed } = *state;
        let policed =
            self.interface_indexes().map(|it| self.shared.policers.counters(*class, it).dropped);
        let keys = self.capabilities.punt_stream.keys.iter();
        v1::PuntStreamState {
            class: class.name().to_owned(),
            description: class.description().to_owned(),
            is_subscribed,
            keys: keys.filter(|(_, of)| *of == class).map(|(key, _)| (*key).into()).collect(),
            sent: counters.sent,
            queued: queued as u64,
            queued_bytes: queued_bytes as u64,
            limited: counters.limited + policed.sum::<u64>(),
            queue_full: counters.queue_full,
            unsubscribed: counters.unsubscribed,
            injected: counters.injected,
            refused: counters.refused,
            rate: budget.rate,
            queue_bytes: budget.queue_bytes as u64,
            inject_rate: budget.inject_rate,
        }
    }

    /// The queues in `stoa show limits`.
    fn punt_queue_limits(&self) -> Vec<v1::LimitState> {
        let row = |state: v1::PuntStreamState| {
            limit(
                &format!("punt-queue-{}", state.class),
                Some(state.queued_bytes),
                state.queue_bytes,
                state.queue_full,
                "Bytes that wait for the controller. If refused: it is overloaded. See `stoa show punts`.",
            )
        };
        self.list_punt_streams().into_iter().map(row).collect()
    }
}

/// A message with packets of one class.
fn message((class, packets): (usize, Vec<v1::PuntedPacket>)) -> v1::PuntedPackets {
    let name = STREAMED.get(class).map_or("", |streamed| streamed.class.name());
    v1::PuntedPackets { class: name.to_owned(), packets }
}
