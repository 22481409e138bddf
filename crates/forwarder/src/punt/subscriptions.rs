//! What the controller has subscribed to: the class of each UDP port, IP protocol, ethertype and identifier of echo
//! requests, as workers read it. Only the slow path does: packets for local addresses, and frames of ethertypes without
//! a node.

use std::collections::{BTreeMap, BTreeSet};

use stoa_api::punts::{KEYS, Key, WINDOW};
use stoa_api::v1;
use stoa_engine::protocol::NumberTable;
use stoa_wire::{echo, icmp4, icmp6, protocol};

use super::Class;
use super::streamed::{self, STREAMED};
use crate::protocols;

/// IP protocols that a subscription cannot take, besides those of the protocol tables: they have demultiplexers of
/// their own, or are extension headers.
const RESERVED_PROTOCOLS: [u8; 9] =
    [protocol::TCP, protocol::UDP, protocol::IGMP, protocol::ICMP4, protocol::ICMP6, 0, 43, 44, 60];
/// Below, an ethertype is a length (IEEE 802.3 3.2.6).
const ETHERTYPE_MIN: u16 = 0x600;
/// Ethertypes of VLAN tags.
const TAGS: [u16; 2] = [0x8100, 0x88a8];
/// The length of a UDP header.
const UDP_HEADER: usize = 8;

/// The classes by key.
#[derive(Clone)]
pub struct Subscriptions {
    udp: NumberTable<Class>,
    protocols: NumberTable<Class>,
    ethertypes: NumberTable<Class>,
    echoes: NumberTable<Class>,
    has_echoes: bool,
    is_empty: bool,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self::new(&BTreeMap::new())
    }
}

impl Subscriptions {
    /// The tables of these keys, of which there are at most [`KEYS`] of one kind.
    pub fn new(keys: &BTreeMap<Key, Class>) -> Self {
        let of = |number: fn(Key) -> Option<u16>| {
            NumberTable::new(keys.iter().filter_map(|(key, class)| Some((number(*key)?, *class))))
        };
        Self {
            udp: of(|key| if let Key::UdpPort(port) = key { Some(port) } else { None }),
            protocols: of(|key| match key {
                Key::IpProtocol(number) => Some(number.into()),
                _ => None,
            }),
            ethertypes: of(
                |key| if let Key::Ethertype(number) = key { Some(number) } else { None },
            ),
            echoes: of(|key| match key {
                Key::EchoIdentifier(number) => Some(number),
                _ => None,
            }),
            has_echoes: keys.keys().any(|key| matches!(key, Key::EchoIdentifier(_))),
            is_empty: keys.is_empty(),
        }
    }

    /// The class of an unfragmented packet for a local address, with its protocol and what follows the IP header.
    #[inline]
    pub fn of_packet(&self, protocol: u8, payload: &[u8]) -> Option<Class> {
        if self.is_empty {
            return None;
        }
        if protocol == protocol::ICMP4 {
            return self.of_echo(|| echo::of_icmp4(&icmp4::check(payload).ok()?));
        }
        if protocol != protocol::UDP {
            return self.protocols.get(protocol.into());
        }
        let header = payload.first_chunk::<UDP_HEADER>()?;
        self.udp.get(u16::from_be_bytes([header[2], header[3]]))
    }

    /// The class of an ICMPv6 message for a local address.
    #[inline]
    pub fn of_icmp6(&self, message: &icmp6::View<'_>) -> Option<Class> {
        self.of_echo(|| echo::of_icmp6(message))
    }

    fn of_echo(&self, answer: impl FnOnce() -> Option<echo::Answer>) -> Option<Class> {
        if self.has_echoes { self.echoes.get(answer()?.identifier) } else { None }
    }

    /// Whether fragments for local addresses may be those of an answer that [`Self::of_packet`] or [`Self::of_icmp6`]
    /// finds once it is whole.
    #[inline]
    pub fn wants_fragments(&self, protocol: u8) -> bool {
        self.has_echoes && matches!(protocol, protocol::ICMP4 | protocol::ICMP6)
    }

    /// The class of a validated IPv4 packet.
    pub fn of_ip4(&self, packet: &[u8]) -> Option<Class> {
        let (first, fragment) = (packet.first()?, packet.get(6..8)?);
        if self.is_empty || (fragment[0] & 0x3f, fragment[1]) != (0, 0) {
            return None;
        }
        self.of_packet(*packet.get(9)?, packet.get(usize::from(first & 0xf) * 4..)?)
    }

    /// The class of a frame.
    #[inline]
    pub fn of_ethertype(&self, ethertype: u16) -> Option<Class> {
        if self.is_empty { None } else { self.ethertypes.get(ethertype) }
    }
}

/// A subscription, checked.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The classes of all keys.
    pub keys: BTreeMap<Key, Class>,
    /// The windows by index in [`STREAMED`].
    pub windows: BTreeMap<usize, u32>,
    /// Classes without effect.
    pub refused: Vec<v1::RefusedClass>,
}

/// Checks a subscription. A class with an error is refused, the others are not.
pub fn parse(subscription: &v1::PuntSubscription) -> Parsed {
    let mut parsed = Parsed::default();
    for asked in &subscription.classes {
        match parsed.check(asked) {
            Ok((at, keys)) => {
                let class = STREAMED[at].class;
                parsed.keys.extend(keys.into_iter().map(|key| (key, class)));
                parsed.windows.insert(at, asked.window.min(WINDOW));
            }
            Err((reason, fix)) => {
                let (class, fix) = (asked.class.clone(), fix.to_owned());
                parsed.refused.push(v1::RefusedClass { class, reason, fix });
            }
        }
    }
    parsed
}

/// Why a class is refused, and the fix.
type Refusal = (String, &'static str);

impl Parsed {
    fn check(&self, asked: &v1::SubscribedClass) -> Result<(usize, BTreeSet<Key>), Refusal> {
        let at = Class::named(&asked.class).and_then(streamed::index_of);
        let at = at.ok_or_else(|| {
            let reason =
                format!("this forwarder has no class {:?} for the controller", asked.class);
            (reason, "Update the forwarder.")
        })?;
        if self.windows.contains_key(&at) {
            return Err(("the class is named twice".to_owned(), "Name each class once."));
        }
        if asked.window == 0 {
            return Err(("its window is 0".to_owned(), "Ask for at least one packet."));
        }
        let keys: Option<BTreeSet<Key>> = asked.keys.iter().map(Key::of).collect();
        let keys = keys.filter(|keys| !keys.is_empty()).ok_or_else(|| {
            ("it has no key, or one that is out of range".to_owned(), "Correct its keys.")
        })?;
        if self.keys.len() + keys.len() > KEYS {
            return Err((format!("there are more than {KEYS} keys"), "Subscribe to fewer."));
        }
        for key in &keys {
            if let Some(owner) = self.owner(*key) {
                return Err((format!("{key} belongs to {owner}"), "Choose another key."));
            }
        }
        Ok((at, keys))
    }

    /// Whose packets these are already.
    fn owner(&self, key: Key) -> Option<String> {
        if let Some(class) = self.keys.get(&key) {
            return Some(format!("the class {}", class.name()));
        }
        let (tables, number): (&[&str], u16) = match key {
            Key::UdpPort(port) => (&[protocols::UDP_PORT], port),
            Key::IpProtocol(number) => {
                (&[protocols::IP4_PROTOCOL, protocols::IP6_PROTOCOL], number.into())
            }
            Key::Ethertype(number) => (&[protocols::ETHERTYPE], number),
            Key::EchoIdentifier(number) => (&[], number),
        };
        let is_reserved = match key {
            Key::UdpPort(port) => port == 0,
            Key::IpProtocol(number) => RESERVED_PROTOCOLS.contains(&number),
            Key::Ethertype(number) => number < ETHERTYPE_MIN || TAGS.contains(&number),
            Key::EchoIdentifier(_) => false,
        };
        let node = tables.iter().find_map(|table| protocols::owner(table, number));
        node.map(|node| format!("the node {node}"))
            .or_else(|| is_reserved.then(|| "the forwarder".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, keys: &[Key], window: u32) -> v1::SubscribedClass {
        let keys = keys.iter().map(|key| (*key).into()).collect();
        v1::SubscribedClass { class: name.to_owned(), keys, window }
    }

    fn refusal(classes: Vec<v1::SubscribedClass>) -> String {
        let parsed = parse(&v1::PuntSubscription { classes });
        assert_eq!(parsed.refused.len(), 1, "{parsed:?}");
        assert!(!parsed.refused[0].fix.is_empty());
        parsed.refused[0].reason.clone()
    }

    #[test]
    fn packets_of_the_keys_have_their_class() {
        let classes = vec![
            class("test", &[Key::UdpPort(7), Key::IpProtocol(115)], 8),
            class("test-link", &[Key::Ethertype(0x8863)], WINDOW + 1),
        ];
        let Parsed { keys, windows, refused } = parse(&v1::PuntSubscription { classes });
        assert_eq!((windows, refused), (BTreeMap::from([(0, 8), (1, WINDOW)]), vec![]));
        let subscriptions = Subscriptions::new(&keys);
        let udp = [0, 9, 0, 7, 0, 8, 0, 0];
        assert_eq!(subscriptions.of_packet(17, &udp), Some(Class::Test));
        assert_eq!(subscriptions.of_packet(17, &udp[..7]), None, "truncated");
        assert_eq!(subscriptions.of_packet(17, &[0, 7, 0, 9, 0, 8, 0, 0]), None, "source port");
        assert_eq!(subscriptions.of_packet(115, &[]), Some(Class::Test));
        assert_eq!(subscriptions.of_packet(6, &udp), None);
        assert_eq!(subscriptions.of_ethertype(0x8863), Some(Class::TestLink));
        assert_eq!(subscriptions.of_ethertype(0x8864), None);
        let mut packet = [vec![0; 20], udp.to_vec()].concat();
        (packet[0], packet[9]) = (0x45, 17);
        assert_eq!(subscriptions.of_ip4(&packet), Some(Class::Test));
        packet[7] = 1;
        assert_eq!(subscriptions.of_ip4(&packet), None, "a fragment");
        assert_eq!(Subscriptions::default().of_packet(17, &udp), None);
    }

    #[test]
    fn answers_to_own_echo_requests_have_their_class() {
        let keys = BTreeMap::from([(Key::EchoIdentifier(0x1234), Class::Probe)]);
        let subscriptions = Subscriptions::new(&keys);
        let reply = |identifier| {
            let mut message = [0; 8];
            let echo = icmp4::Echo { identifier, sequence: 1, data: &[] };
            icmp4::build_echo_reply(&mut message, &echo).unwrap();
            message
        };
        let own = reply(0x1234);
        assert_eq!(subscriptions.of_packet(protocol::ICMP4, &own), Some(Class::Probe));
        assert_eq!(subscriptions.of_packet(protocol::ICMP4, &reply(0x1235)), None, "of Linux");
        assert_eq!(subscriptions.of_packet(protocol::ICMP4, &own[..7]), None, "truncated");
        assert!(subscriptions.wants_fragments(protocol::ICMP4));
        assert!(!subscriptions.wants_fragments(protocol::UDP));
        assert!(!Subscriptions::default().wants_fragments(protocol::ICMP4));
    }

    #[test]
    fn what_the_forwarder_needs_is_refused_and_the_rest_is_not() {
        for key in [Key::UdpPort(3784), Key::UdpPort(0), Key::IpProtocol(47), Key::IpProtocol(17)] {
            assert!(refusal(vec![class("test", &[key], 1)]).contains("belongs to"), "{key}");
        }
        for number in [0x800, 0x806, 0x86dd, 0x8100, 1500] {
            let reason = refusal(vec![class("test-link", &[Key::Ethertype(number)], 1)]);
            assert!(reason.contains("belongs to"), "{reason}");
        }
        let (udp, link) = (Key::UdpPort(7), Key::Ethertype(0x8863));
        assert!(refusal(vec![class("host", &[udp], 1)]).contains("has no class"));
        assert!(refusal(vec![class("ike", &[udp], 1)]).contains("has no class \"ike\""));
        assert!(refusal(vec![class("test", &[], 1)]).contains("no key"));
        assert!(refusal(vec![class("test", &[udp], 0)]).contains("window"));
        let twice = vec![class("test", &[udp], 1), class("test-link", &[udp, link], 1)];
        assert_eq!(refusal(twice), "UDP port 7 belongs to the class test");
        let many: Vec<Key> = (1..=KEYS as u16 + 1).map(Key::UdpPort).collect();
        assert!(refusal(vec![class("test", &many, 1)]).contains("more than 64"));
        let classes = vec![class("no", &[udp], 1), class("test-link", &[link], 1)];
        let parsed = parse(&v1::PuntSubscription { classes });
        assert_eq!((parsed.refused.len(), parsed.keys.len()), (1, 1));
    }
}
