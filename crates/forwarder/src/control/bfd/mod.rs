//! BFD sessions on the control thread: configuration, timers, packets, and the routes of a failed neighbour.

mod down;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use stoa_api::{audit, v1};
use stoa_engine::Packet;
use stoa_wire::bfd::{self, State};
use stoa_wire::checksum::Pseudo;
use stoa_wire::{ipv4, ipv6, protocol, udp};

use super::capability::{Capability, Punted, Start, Verbs};
use super::desired::{DesiredState, Prefix, Route, message, network};
use super::forwarder_state::ForwarderState;
use super::listing::{octets, unix_us};
use super::punts::protocol_of;
use super::vrfs::Slot;
use crate::bfd::Peers;
use crate::bfd::session::{Micros, Session, StateChange};
use crate::drops::Drop;
use crate::neighbor::entry::{Key, keys_of};
use crate::punt::Class;

/// Source ports have a range of their own (RFC 5881 section 4).
const SOURCE_PORTS: (u16, u32) = (49_152, 16_384);
/// Network control, as routing protocols use (RFC 2474 section 4.2.2.2).
const DSCP: u8 = 48 << 2;

/// All sessions.
#[derive(Default)]
pub(super) struct Sessions {
    by_peer: BTreeMap<Key, Session>,
    /// The last discriminator that was assigned.
    last_discriminator: u32,
    /// When the next timer of any session expires.
    due_at: Micros,
    /// A neighbour has failed or recovered: static routes need a review.
    is_review_pending: bool,
    /// Not before that: when many neighbours fail one after the other, the reviews must leave time for the
    /// timers of the sessions.
    next_review_at: Micros,
    /// Desired routes that are withdrawn while all their gateways are down.
    withdrawn: BTreeMap<(Slot, Prefix), Route>,
}

/// The pause after a review of static routes, as a multiple of its duration.
const REVIEW_PAUSE_FACTOR: Micros = 4;

impl Capability for Sessions {
    const VERBS: Verbs = Verbs {
        apply: |state, step| {
            state.set_bfd(step.desired(), &step.interfaces.indexes);
            Ok(())
        },
        remove_vrf: |state, gone| {
            state.capabilities.bfd.withdrawn.retain(|(slot, _), _| *slot != gone);
        },
        review: |state, _| state.review_bfd_down_routes(),
        punts: &[Punted {
            class: Class::Bfd,
            takes: |bytes| protocol_of(bytes) == Some(protocol::UDP),
            receive: |state, _, packet| state.receive_bfd(&packet),
        }],
        run_due: ForwarderState::run_bfd,
        due_in: ForwarderState::bfd_due_in,
        facts: |state, index, facts| facts.bfd = state.list_bfd(index),
        entries_of: |state, index, tally| {
            let Some(interface) = state.interface(index) else { return };
            for ((_, peer), session) in state.capabilities.bfd.by_peer.range(keys_of(index)) {
                let session = message::bfd_session(*peer, &session.config());
                audit::bfd_session(tally, &interface.name, session);
            }
        },
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl Sessions {
    /// Whether any neighbour has failed.
    pub(super) fn has_any_failed(&self) -> bool {
        self.by_peer.values().any(Session::has_failed)
    }

    /// Whether a neighbour has failed.
    pub(super) fn has_failed(&self, key: &Key) -> bool {
        !self.by_peer.is_empty() && self.by_peer.get(key).is_some_and(Session::has_failed)
    }
}

impl ForwarderState {
    /// Creates and changes the desired sessions of these interfaces; the others send admin-down and end.
    fn set_bfd(&mut self, desired: &DesiredState, indexes: &BTreeSet<u32>) {
        let now = self.micros();
        let (mut stays, mut known) = (BTreeMap::new(), Vec::new());
        for index in indexes {
            known.extend(self.capabilities.bfd.by_peer.range(keys_of(*index)).map(|(key, _)| *key));
            let Some((_, interface)) = self.desired_at(*index, desired) else { continue };
            stays.extend(interface.bfd.iter().map(|(peer, config)| ((*index, *peer), *config)));
        }
        if known.is_empty() && stays.is_empty() {
            return;
        }
        let is_same = known.iter().eq(stays.keys());
        for key in known.into_iter().filter(|key| !stays.contains_key(key)) {
            let Some(mut session) = self.capabilities.bfd.by_peer.remove(&key) else { continue };
            session.admin_down(now);
            if let Some(packet) = session.send(now) {
                self.send_bfd(key, &packet);
            }
            self.refresh_sets_of(key);
        }
        for (key, config) in stays {
            match self.capabilities.bfd.by_peer.get_mut(&key) {
                Some(session) => session.configure(config, now),
                None => {
                    self.capabilities.bfd.last_discriminator += 1;
                    // Unique within this forwarder, and most likely different from those before a restart.
                    let local_discriminator =
                        self.capabilities.bfd.last_discriminator ^ (std::process::id() << 12);
                    self.capabilities
                        .bfd
                        .by_peer
                        .insert(key, Session::new(config, local_discriminator.max(1), now));
                }
            }
        }
        self.capabilities.bfd.due_at = 0;
        if !is_same {
            let peers = Peers(self.capabilities.bfd.by_peer.keys().copied().collect());
            self.shared.bfd.publish(peers, &mut self.graveyard);
        }
    }

    /// Forgets a session, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(super) fn lose_bfd_session(&mut self, peer: &str) {
        let peer: IpAddr = peer.parse().expect("an address");
        self.capabilities.bfd.by_peer.retain(|key, _| key.1 != peer);
    }

    /// Handles a packet of a session.
    fn receive_bfd(&mut self, packet: &Packet) {
        let Some((source, control_packet)) = read(packet.bytes()) else {
            return self.count_drop(Drop::BfdMalformed);
        };
        let (key, now) = ((packet.rx_if, source), self.micros());
        let Some(session) = self.capabilities.bfd.by_peer.get_mut(&key) else {
            return self.count_drop(Drop::BfdMalformed);
        };
        let had_failed = session.has_failed();
        let change = session.receive(&control_packet, now);
        let has_flipped = had_failed != session.has_failed();
        self.capabilities.bfd.due_at = self.capabilities.bfd.due_at.min(session.due_at());
        self.handle_bfd_change(key, change, has_flipped);
    }

    /// Runs the timers of the sessions and the review of routes.
    pub fn run_bfd(&mut self) {
        if !self.capabilities.bfd.by_peer.is_empty() {
            self.run_bfd_sessions(self.micros());
            self.review_bfd_down();
        }
    }

    /// Time until [`Self::run_bfd`] has something to do.
    fn bfd_due_in(&self) -> Option<Duration> {
        let bfd = &self.capabilities.bfd;
        if bfd.by_peer.is_empty() {
            return None;
        }
        let review_at = if bfd.is_review_pending { bfd.next_review_at } else { Micros::MAX };
        Some(Duration::from_micros(bfd.due_at.min(review_at).saturating_sub(self.micros())))
    }

    /// Reviews static routes whose gateways have failed or recovered, unless the last review was just now.
    fn review_bfd_down(&mut self) {
        let started = self.micros();
        let bfd = &mut self.capabilities.bfd;
        if !bfd.is_review_pending || started < bfd.next_review_at {
            return;
        }
        bfd.is_review_pending = false;
        self.review_bfd_down_routes();
        let end = self.micros();
        let pause = REVIEW_PAUSE_FACTOR * end.saturating_sub(started);
        self.capabilities.bfd.next_review_at = end + pause;
    }

    /// Sends due packets and expires sessions.
    fn run_bfd_sessions(&mut self, now: Micros) {
        if self.capabilities.bfd.due_at <= now {
            let due: Vec<Key> = self
                .capabilities
                .bfd
                .by_peer
                .iter()
                .filter(|it| it.1.due_at() <= now)
                .map(|it| *it.0)
                .collect();
            for key in due {
                let Some(session) = self.capabilities.bfd.by_peer.get_mut(&key) else { continue };
                let had_failed = session.has_failed();
                let change = session.expire(now);
                let has_flipped = had_failed != session.has_failed();
                let packet = session.send(now);
                self.handle_bfd_change(key, change, has_flipped);
                if let Some(packet) = packet {
                    self.send_bfd(key, &packet);
                }
            }
            let due_at = self.capabilities.bfd.by_peer.values().map(Session::due_at).min();
            self.capabilities.bfd.due_at = due_at.unwrap_or(now);
        }
    }

    /// Adjusts routes to a session. `has_flipped`: its neighbour has failed, or has recovered.
    fn handle_bfd_change(&mut self, key: Key, change: Option<StateChange>, has_flipped: bool) {
        if has_flipped {
            // First every set of paths, in one word each; static routes that lose all their paths come later.
            self.refresh_sets_of(key);
            self.capabilities.bfd.is_review_pending = true;
        }
        let Some(StateChange { from, to }) = change else { return };
        let interface = self.interface(key.0).map(|state| state.name.clone()).unwrap_or_default();
        let peer = key.1;
        if from == State::Up {
            tracing::warn!(interface, %peer, "BFD session went down");
        } else if to == State::Up {
            tracing::info!(interface, %peer, "BFD session is up");
        }
    }

    fn send_bfd(&mut self, key: Key, packet: &bfd::Packet) {
        let Some((bytes, node)) = self.build_bfd(key, packet) else { return };
        let Some(mut packet) = self.pool().packet() else { return };
        if packet.set_bytes(&bytes) {
            packet.set_own();
            packet.rx_if = key.0;
            self.inject(packet, node);
        }
    }

    fn build_bfd(
        &self,
        (interface, peer): Key,
        packet: &bfd::Packet,
    ) -> Option<(Vec<u8>, &'static str)> {
        let own = self.addresses.of(interface)?;
        let mut message = vec![0; ipv6::LENGTH + udp::LENGTH + bfd::LENGTH];
        let mut control = [0; bfd::LENGTH];
        bfd::build(&mut control, packet).ok()?;
        let from = SOURCE_PORTS.0 + (packet.mine % SOURCE_PORTS.1) as u16;
        let is_same_subnet =
            |own: IpAddr, length: u8| network(own, length) == network(peer, length);
        match peer {
            IpAddr::V4(destination) => {
                let is_same_subnet =
                    |it: &&(std::net::Ipv4Addr, u8)| is_same_subnet(it.0.into(), it.1);
                let (source, _) = *own.ip4.iter().find(is_same_subnet)?;
                let (head, body) = message.split_at_mut(ipv4::LENGTH);
                let pseudo = Pseudo::Ip4 { source, destination };
                let length = udp::build(body, &pseudo, from, bfd::PORT, &control).ok()?;
                let header = ipv4::Builder {
                    dscp_ecn: DSCP,
                    time_to_live: bfd::HOP_LIMIT,
                    ..ipv4::Builder::new(source, destination, protocol::UDP)
                };
                header.build(head, length).ok()?;
                message.truncate(ipv4::LENGTH + length);
                Some((message, "ip4-origin"))
            }
            IpAddr::V6(destination) => {
                let is_same_subnet =
                    |it: &&(std::net::Ipv6Addr, u8)| is_same_subnet(it.0.into(), it.1);
                let source = match destination.is_unicast_link_local() {
                    true => self.confirmed_link_local(interface)?,
                    false => own.ip6.iter().find(is_same_subnet)?.0,
                };
                let (head, body) = message.split_at_mut(ipv6::LENGTH);
                let pseudo = Pseudo::Ip6 { source, destination };
                let length = udp::build(body, &pseudo, from, bfd::PORT, &control).ok()?;
                let header = ipv6::Builder {
                    traffic_class: DSCP,
                    hop_limit: bfd::HOP_LIMIT,
                    ..ipv6::Builder::new(source, destination, protocol::UDP)
                };
                header.build(head, length).ok()?;
                message.truncate(ipv6::LENGTH + length);
                Some((message, "ip6-origin"))
            }
        }
    }

    /// The operational state of an interface's sessions.
    fn list_bfd(&self, interface: u32) -> Vec<v1::BfdSessionState> {
        let all = self.capabilities.bfd.by_peer.range(keys_of(interface));
        let (now, now_unix_us) = (self.micros(), unix_us());
        let state = |(key, session): (&Key, &Session)| {
            let (tx_us, rx_us, multiplier) = session.negotiated().unwrap_or_default();
            let age_us = now.saturating_sub(session.changed_at());
            v1::BfdSessionState {
                address: octets(key.1),
                state: state_name(session.state()).to_owned(),
                remote_state: state_name(session.remote_state()).to_owned(),
                diagnostic: session.diagnostic().into(),
                detection_us: session.detection_time(),
                downs: session.downs,
                rx_packets: session.packets.1,
                tx_packets: session.packets.0,
                discriminator: session.local_discriminator(),
                has_failed: session.has_failed(),
                changed_unix_s: now_unix_us.saturating_sub(age_us) / 1_000_000,
                remote_diagnostic: session.remote_diagnostic().into(),
                tx_us,
                rx_us,
                remote_multiplier: multiplier.into(),
            }
        };
        all.map(state).collect()
    }
}

/// The name in RFC 9314.
fn state_name(state: State) -> &'static str {
    match state {
        State::AdminDown => "admin-down",
        State::Down => "down",
        State::Init => "init",
        State::Up => "up",
    }
}

/// Source and content of a control packet; only packets from the link itself (RFC 5881 section 5).
fn read(bytes: &[u8]) -> Option<(IpAddr, bfd::Packet)> {
    let (source, datagram, pseudo, hop_limit): (IpAddr, _, _, _) = match bytes.first()? >> 4 {
        4 => {
            let view = ipv4::check(bytes).ok()?;
            let (source, destination) = (view.source(), view.destination());
            let pseudo = Pseudo::Ip4 { source, destination };
            (source.into(), view.payload(), pseudo, view.header().time_to_live)
        }
        6 => {
            let view = ipv6::check(bytes).ok()?;
            let pseudo = view.pseudo();
            let upper = view.upper().ok()?;
            let payload = view.packet().get(upper.offset..)?;
            (view.source().into(), payload, pseudo, view.header().hop_limit)
        }
        _ => return None,
    };
    let datagram = udp::check(datagram, &pseudo).ok()?;
    let packet = bfd::check(datagram.payload()).ok()?;
    (hop_limit == bfd::HOP_LIMIT).then_some((source, packet))
}
