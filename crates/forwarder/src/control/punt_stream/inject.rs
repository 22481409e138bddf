//! Packets that the controller sends: each is checked, and refused with a reason or sent, whatever becomes of the
//! others.

use std::net::IpAddr;

use stoa_api::punts::BATCH_PACKETS;
use stoa_api::v1;
use stoa_api::v1::injected_packet::Data;
use stoa_engine::Packet;
use stoa_wire::{ipv4, ipv6};

use crate::control::desired::{Action, bits};
use crate::control::forwarder_state::ForwarderState;
use crate::control::listing::unix_us;
use crate::control::punts::is_ip4;
use crate::punt::Class;
use crate::punt::streamed::{self, STREAMED};
use crate::shared::SpecialNextHop;

/// The length of an Ethernet header, and where its tags go.
const HEADER: usize = 14;
const TAGS: usize = 12;

/// Why a packet is refused, and the fix.
type Refusal = (String, &'static str);

impl ForwarderState {
    /// Sends packets of a caller. What it costs is bounded: a message has at most [`BATCH_PACKETS`].
    pub fn inject_punts(&mut self, caller: u64, message: &v1::PuntInjections) -> v1::PuntsInjected {
        let streamed = Class::named(&message.class).and_then(streamed::index_of);
        let mut reply = v1::PuntsInjected { number: message.number, ..Default::default() };
        for (index, injected) in message.packets.iter().enumerate() {
            match self.inject_punt((caller, index), streamed, injected) {
                Ok(()) => reply.sent += 1,
                Err((reason, fix)) => {
                    let (index, fix) = (index as u32, fix.to_owned());
                    reply.refused.push(v1::RefusedInjection { index, reason, fix });
                }
            }
        }
        reply.sent_unix_us = unix_us();
        if let Some(at) = streamed {
            let refused = reply.refused.len() as u64;
            let mut contents = self.capabilities.punt_stream.outbox.lock();
            contents.queues.count_injected(at, reply.sent.into(), refused);
        }
        reply
    }

    fn inject_punt(
        &mut self,
        (caller, index): (u64, usize),
        streamed: Option<usize>,
        injected: &v1::InjectedPacket,
    ) -> Result<(), Refusal> {
        if index >= BATCH_PACKETS {
            let reason = format!("the message has more than {BATCH_PACKETS} packets");
            return Err((reason, "Send several messages."));
        }
        self.may_inject(caller, streamed)?;
        let name = &injected.interface;
        let interface = self.index_of(name).ok_or_else(|| {
            (format!("there is no interface {name:?}"), "Name one of the configuration.")
        })?;
        match &injected.data {
            Some(Data::Frame(frame)) => self.inject_frame(interface, frame),
            Some(Data::Packet(packet)) => self.inject_packet(interface, packet),
            None => Err(("it has neither a frame nor a packet".to_owned(), "Add one.")),
        }
    }

    fn may_inject(&mut self, caller: u64, streamed: Option<usize>) -> Result<(), Refusal> {
        let now_us = self.micros();
        let mut contents = self.capabilities.punt_stream.outbox.lock();
        let is_subscribed = contents.is_subscriber(caller);
        let at = streamed.filter(|at| is_subscribed && contents.queues.state(*at).is_subscribed);
        let at = at.ok_or_else(|| {
            let reason = "the call has not subscribed to the class of the packet".to_owned();
            (reason, "Subscribe to it first.")
        })?;
        if contents.queues.may_inject(at, now_us) {
            return Ok(());
        }
        let rate = STREAMED[at].budget.inject_rate;
        Err((format!("the class may send {rate} packets per second"), "Send fewer."))
    }

    /// Sends an Ethernet frame without tags, to which those of a sub-interface are added.
    fn inject_frame(&mut self, interface: u32, frame: &[u8]) -> Result<(), Refusal> {
        let is_tunnel = self.is_tunnel(interface);
        let Some(state) = self.interface(interface) else {
            return Err(("its interface was removed".to_owned(), "Send it from another one."));
        };
        let name = &state.name;
        if is_tunnel {
            return Err((format!("{name} is a tunnel: it has no frames"), "Send an IP packet."));
        }
        if !state.is_up || !state.desired.enabled {
            return Err((format!("{name} is down"), "Wait until it is up."));
        }
        if frame.len() < HEADER {
            let reason = format!("a frame of {} bytes has no Ethernet header", frame.len());
            return Err((reason, "Add the header."));
        }
        let (most, length) = (state.mtu.0.max(state.mtu.1), frame.len() - HEADER);
        if length > most.into() {
            return Err((format!("{length} bytes are more than the MTU {most}"), "Send less."));
        }
        let tags = state.link.tags.iter().flat_map(|(tpid, id)| [*tpid, *id]);
        let tags: Vec<u8> = tags.flat_map(u16::to_be_bytes).collect();
        let packet = self.filled(&[&frame[..TAGS], &tags, &frame[TAGS..]].concat())?;
        if self.transmit(interface, packet) { Ok(()) } else { Err(full()) }
    }

    /// Routes an IP packet from a local address.
    fn inject_packet(&mut self, interface: u32, bytes: &[u8]) -> Result<(), Refusal> {
        let (source, length) = match is_ip4(bytes) {
            true => ipv4::check(bytes)
                .map(|view| (IpAddr::V4(view.source()), view.packet().len()))
                .map_err(|error| format!("not an IPv4 packet: {error}")),
            false => ipv6::check(bytes)
                .map(|view| (IpAddr::V6(view.source()), view.packet().len()))
                .map_err(|error| format!("not an IPv6 packet: {error}")),
        }
        .map_err(|reason| (reason, "Correct the header."))?;
        if length != bytes.len() {
            let reason = format!("{} bytes follow the packet", bytes.len() - length);
            return Err((reason, "Send the packet alone."));
        }
        if !self.is_local_source(interface, source) {
            let reason = format!("{source} is not a local address in the VRF of the interface");
            return Err((reason, "Send from an address of the router."));
        }
        let mut packet = self.filled(bytes)?;
        packet.set_own();
        packet.rx_if = interface;
        let node = if source.is_ipv4() { "ip4-origin" } else { "ip6-origin" };
        if self.inject(packet, node) { Ok(()) } else { Err(full()) }
    }

    /// Whether the router has the address in the VRF of the interface; a link-local one: on the interface.
    fn is_local_source(&self, interface: u32, source: IpAddr) -> bool {
        if let IpAddr::V6(ip) = source
            && ip.is_unicast_link_local()
        {
            let own = self.addresses.of(interface);
            return own.is_some_and(|own| own.link_local == Some(ip));
        }
        let Some(state) = self.interface(interface) else { return false };
        let installed = self.vrfs.route(state.vrf, &(source, bits(source)));
        let action = installed.map(|installed| &installed.route.action);
        matches!(action, Some(Action::Special(SpecialNextHop::Local)))
    }

    /// A buffer with these bytes.
    fn filled(&self, bytes: &[u8]) -> Result<Packet, Refusal> {
        let fill = |mut packet: Packet| if packet.set_bytes(bytes) { Some(packet) } else { None };
        let packet = self.pool().packet().and_then(fill);
        let packet = packet.or_else(|| self.pool().jumbo_packet().and_then(fill));
        packet.ok_or_else(|| {
            ("no buffer is free for it".to_owned(), "Try again, or send a shorter packet.")
        })
    }
}

fn full() -> Refusal {
    ("the ring to the worker is full".to_owned(), "Try again.")
}
