//! What is expected: the first packet of a connection, and what it becomes.

use stoa_tables::flow_hash::mix;
use stoa_tables::flow_table::{Direction, FlowKey, Tuple};
use stoa_wire::protocol::UDP;

use super::{HOSTS, PAIRS};
use crate::flow::alg::Alg;

/// In place of the protocol of a key: UDP, and its port is the source port. No packet with this number is expected (RFC
/// 3692).
const UDP_SOURCE: u8 = 253;

/// What the first packet of an expected connection has; its source port is not known, or its destination port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedKey {
    /// The source address; of IPv4 the lowest 32 bits.
    pub source: u128,
    /// The destination address.
    pub destination: u128,
    /// Whether these are IPv6 addresses.
    pub is_ip6: bool,
    /// The destination port; the source port of what [a host is expected to send](Self::of_sender).
    pub port: u16,
    /// The protocol.
    pub protocol: u8,
    /// VRF, as in keys of flows.
    pub vrf: u16,
}

impl ExpectedKey {
    /// The one that the packet of a flow key meets.
    pub fn of(key: &FlowKey) -> Self {
        let vrf = key.vrf;
        match key.tuple {
            Tuple::Ip4(it) => Self {
                source: it.source.into(),
                destination: it.destination.into(),
                is_ip6: false,
                port: it.destination_port,
                protocol: it.protocol,
                vrf,
            },
            Tuple::Ip6(it) => Self {
                source: it.source,
                destination: it.destination,
                is_ip6: true,
                port: it.destination_port,
                protocol: it.protocol,
                vrf,
            },
        }
    }

    /// The one that a packet over UDP meets as one of its sender, whatever its destination port is.
    pub fn of_sender(key: &FlowKey) -> Option<Self> {
        let (port, protocol) = match key.tuple {
            Tuple::Ip4(it) => (it.source_port, it.protocol),
            Tuple::Ip6(it) => (it.source_port, it.protocol),
        };
        (protocol == UDP).then(|| Self { port, protocol: UDP_SOURCE, ..Self::of(key) })
    }

    /// Whether it is about the packets of a sender.
    pub fn is_of_sender(&self) -> bool {
        self.protocol == UDP_SOURCE
    }

    /// The hash of its hosts and port.
    pub(super) fn hash(&self, seed: u32) -> u32 {
        let port = mix(u32::from(self.port));
        [self.source, self.destination].into_iter().fold(seed ^ port, hash)
    }
}

/// The hash of an address, behind another one.
fn hash(seed: u32, address: u128) -> u32 {
    let words = [0, 32, 64, 96].map(|by| (address >> by) as u32);
    words.iter().fold(seed, |hash, word| mix(hash ^ word))
}

/// What an expected connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Expected {
    /// A connection with data.
    #[default]
    Data,
    /// Media, which both ends may begin to send.
    Media,
    /// Another control connection, which has the gateway.
    Control,
    /// The same as often as one begins: a registrar has bound its end.
    Bound,
}

impl Expected {
    /// All of them, by their numbers.
    pub(super) const ALL: [Self; 4] = [Self::Data, Self::Media, Self::Control, Self::Bound];
}

/// What a packet of a translated connection becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Becomes {
    /// Its source address.
    pub source: u32,
    /// Its destination address.
    pub destination: u32,
    /// Its destination port; the source port of what a host is expected to send.
    pub port: u16,
    /// The VRF of its replies, as in keys of flows.
    pub vrf: u16,
    /// The number of the policy or static mapping that translates the control connection.
    pub number: u32,
}

/// The control connection of an expectation: the id of its flow, and when that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Id.
    pub id: u32,
    /// Tick.
    pub start: u32,
}

/// A connection that is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// What its first packet has.
    pub key: ExpectedKey,
    /// What that becomes; `None`: its destination stays.
    pub becomes: Option<Becomes>,
    /// The gateway.
    pub alg: Alg,
    /// What it is.
    pub kind: Expected,
    /// The number of the rule that has admitted the control connection, and its flow profile.
    pub rule: u32,
    /// As above.
    pub profile: u8,
    /// The control connection.
    pub control: Control,
    /// The tick from which on it is expected no more.
    pub until: u32,
    /// The epoch of the rules by which it was announced. What a registrar has bound is expected only under these.
    pub epoch: u16,
    /// Whether the host that listens may not exist: nobody has answered it, and anybody can have sent its packet.
    pub is_unanswered: bool,
    /// What has announced it.
    pub origin: Origin,
    /// The mapping of address translation that it uses, as a flow does: what a registrar has bound keeps its external
    /// end. The table gives it back.
    pub mapping: Option<u32>,
}

/// What has announced an expectation of SIP. Of others, nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The [number of a text](super::Expectations::number_of): of the Call-ID; of what a registrar has bound, of its
    /// address-of-record. 0: unknown, or several.
    pub name: u32,
    /// The lowest 14 bits of the number of the request (`CSeq`), and whether it goes in the original direction of its
    /// flow. Of what was announced again, that of the first announcement: a refusal of a later request leaves a call as
    /// it is (RFC 3261 section 14.1).
    pub request: u16,
}

/// Bits of a request.
pub(super) const REQUEST: u16 = (1 << 15) - 1;

impl Origin {
    /// A request with this number, of a call, that goes in a direction of its flow.
    pub fn of_call(name: u32, number: u32, direction: Direction) -> Self {
        let bit = if direction == Direction::Original { 1 } else { 0 };
        Self { name, request: ((number << 1) as u16 | bit) & REQUEST }
    }

    /// An address-of-record; nothing about the request.
    pub fn of_record(name: u32) -> Self {
        Self { name, request: 0 }
    }
}

/// The numbers of counters: of the host that listens, of the other one, and of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) host: usize,
    pub(super) peer: usize,
    pub(super) pair: usize,
}

impl Expectation {
    /// What it is counted by.
    pub(super) fn counters(&self, seed: u32) -> Counters {
        let (listens, other) = self.hosts();
        // Those of SIP are counted apart.
        let seed = if self.alg == Alg::Sip { mix(!seed) } else { seed };
        let host = hash(seed, listens);
        Counters {
            host: host as usize % HOSTS,
            peer: hash(seed, other) as usize % HOSTS,
            pair: hash(host, other) as usize % PAIRS,
        }
    }

    /// The same as something else.
    #[must_use]
    pub fn of(self, kind: Expected) -> Self {
        Self { kind, ..self }
    }

    /// The same up to another tick.
    #[must_use]
    pub fn until(self, until: u32) -> Self {
        Self { until, ..self }
    }

    /// What the end is expected to send to which media are expected, or the other way round: one of both begins them.
    #[must_use]
    pub fn sibling(&self) -> Self {
        let (key, it) = (self.key, self.becomes);
        let is_of_sender = key.is_of_sender();
        let (other, end) = if is_of_sender {
            (key.destination, it.map_or(key.source, |it| it.source.into()))
        } else {
            (key.source, it.map_or(key.destination, |it| it.destination.into()))
        };
        let (source, destination) = if is_of_sender { (other, end) } else { (end, other) };
        let protocol = if is_of_sender { UDP } else { UDP_SOURCE };
        let (port, vrf) = it.map_or((key.port, key.vrf), |it| (it.port, it.vrf));
        let becomes = it.map(|it| {
            let ends = if is_of_sender { (other, key.source) } else { (key.destination, other) };
            let (source, destination) = (ends.0 as u32, ends.1 as u32);
            Becomes { source, destination, port: key.port, vrf: key.vrf, ..it }
        });
        let key = ExpectedKey { source, destination, port, protocol, vrf, ..key };
        Self { key, becomes, ..*self }
    }

    /// The host that listens, or that is expected to send, as it is itself; and the other one.
    pub fn hosts(&self) -> (u128, u128) {
        let ExpectedKey { source, destination, .. } = self.key;
        match self.becomes {
            _ if self.key.is_of_sender() => (source, destination),
            Some(it) => (it.destination.into(), source),
            None => (destination, source),
        }
    }

    /// Whether a registrar has bound it under older rules than those of this epoch. Another worker may know newer ones.
    pub(super) fn is_of_former_rules(&self, epoch: Option<u16>) -> bool {
        let is_older = |epoch: u16| epoch.wrapping_sub(self.epoch).cast_signed() > 0;
        self.kind == Expected::Bound && epoch.is_none_or(is_older)
    }

    pub(super) fn is_over(&self, now: u32) -> bool {
        now.wrapping_sub(self.until).cast_signed() >= 0
    }
}
