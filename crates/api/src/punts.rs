//! Packets of protocols that run in the controller: limits of the punt stream, its keys, and the classes for tests.

use std::fmt;

use crate::v1::{self, punt_key};

/// Most packets in a message, either way.
pub const BATCH_PACKETS: usize = 64;
/// Most bytes of packets in a message to the controller, unless a single packet is longer.
pub const BATCH_BYTES: usize = 64 << 10;
/// The class of answers to the router's own echo requests: `ping` and `traceroute`.
pub const PROBE: &str = "probe";
/// Most keys of one kind: UDP ports, IP protocols, ethertypes, echo identifiers.
pub const KEYS: usize = 64;
/// The largest window.
pub const WINDOW: u32 = 4096;

/// Two classes for tests: the controller echoes their packets. They are not listed while unused.
pub mod test {
    use super::Key;

    /// UDP datagrams to the router.
    pub const CLASS: &str = "test";
    /// The port of the echo protocol (RFC 862).
    pub const KEY: Key = Key::UdpPort(7);
    /// Frames.
    pub const LINK_CLASS: &str = "test-link";
    /// An ethertype for experiments (IEEE 802).
    pub const LINK_KEY: Key = Key::Ethertype(0x88b5);
}

/// The pages of a listing, added up: class by class, first the sum, then the interfaces.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Of each class the sum, and its interfaces.
    classes: Vec<(v1::PuntState, Vec<v1::PuntState>)>,
    /// The classes that go to the controller.
    pub streams: Vec<v1::PuntStreamState>,
}

impl Listing {
    /// Adds the next page.
    pub fn add(&mut self, page: v1::ListPuntsReply) {
        let mut place = 0;
        for row in page.punts {
            // Mostly that of the row before.
            if self.classes.get(place).is_none_or(|(sum, _)| sum.class != row.class) {
                place = self.place_of(&row);
            }
            let (sum, rows) = &mut self.classes[place];
            if row.interface.is_empty() {
                sum.passed += row.passed;
                sum.dropped += row.dropped;
            } else {
                rows.push(row);
            }
        }
        self.streams.extend(page.streams);
    }

    /// The place of the class of a row. A new one comes last, with a sum of 0.
    fn place_of(&mut self, row: &v1::PuntState) -> usize {
        let known = self.classes.iter().position(|(sum, _)| sum.class == row.class);
        known.unwrap_or_else(|| {
            let interface = String::new();
            let sum = v1::PuntState { interface, passed: 0, dropped: 0, ..row.clone() };
            self.classes.push((sum, Vec::new()));
            self.classes.len() - 1
        })
    }

    /// All rows.
    pub fn into_rows(self) -> Vec<v1::PuntState> {
        self.classes.into_iter().flat_map(|(sum, rows)| [sum].into_iter().chain(rows)).collect()
    }
}

/// Which packets a class takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// UDP datagrams for local addresses, by destination port.
    UdpPort(u16),
    /// IP packets for local addresses, by protocol.
    IpProtocol(u8),
    /// Frames for the interface or for a group.
    Ethertype(u16),
    /// Echo replies with this identifier, and ICMP errors about echo requests with it, of both families.
    EchoIdentifier(u16),
}

impl Key {
    /// A key of a message; `None`: it is missing or out of range.
    pub fn of(key: &v1::PuntKey) -> Option<Self> {
        match key.key? {
            punt_key::Key::UdpPort(port) => Some(Self::UdpPort(port.try_into().ok()?)),
            punt_key::Key::IpProtocol(number) => Some(Self::IpProtocol(number.try_into().ok()?)),
            punt_key::Key::Ethertype(number) => Some(Self::Ethertype(number.try_into().ok()?)),
            punt_key::Key::EchoIdentifier(number) => {
                Some(Self::EchoIdentifier(number.try_into().ok()?))
            }
        }
    }
}

impl From<Key> for v1::PuntKey {
    fn from(key: Key) -> Self {
        let key = match key {
            Key::UdpPort(port) => punt_key::Key::UdpPort(port.into()),
            Key::IpProtocol(number) => punt_key::Key::IpProtocol(number.into()),
            Key::Ethertype(number) => punt_key::Key::Ethertype(number.into()),
            Key::EchoIdentifier(number) => punt_key::Key::EchoIdentifier(number.into()),
        };
        Self { key: Some(key) }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UdpPort(port) => write!(f, "UDP port {port}"),
            Self::IpProtocol(number) => write!(f, "IP protocol {number}"),
            Self::Ethertype(number) => write!(f, "ethertype {number:#06x}"),
            Self::EchoIdentifier(number) => write!(f, "echo identifier {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_add_up_to_one_listing() {
        let row = |class: &str, interface: &str, passed| v1::PuntState {
            class: class.into(),
            interface: interface.into(),
            passed,
            dropped: 1,
            ..v1::PuntState::default()
        };
        let page = |passed: u64, names: &[&str], classes: &[&str]| {
            let of = |class: &&str| {
                let rows = names.iter().map(|name| row(class, name, passed));
                [row(class, "", passed)].into_iter().chain(rows).collect::<Vec<_>>()
            };
            let punts = classes.iter().flat_map(of).collect();
            v1::ListPuntsReply { punts, streams: Vec::new() }
        };
        let mut all = Listing::default();
        all.add(page(5, &["a", "b"], &["arp", "bfd"]));
        all.add(v1::ListPuntsReply {
            streams: vec![v1::PuntStreamState::default()],
            ..page(7, &["c"], &["arp", "bfd"])
        });
        assert_eq!(all.streams.len(), 1);
        let rows = all.into_rows().into_iter();
        let rows: Vec<_> = rows.map(|it| (it.class, it.interface, it.passed, it.dropped)).collect();
        let rows: Vec<_> =
            rows.iter().map(|it| (it.0.as_str(), it.1.as_str(), it.2, it.3)).collect();
        let of = |class: &'static str| {
            [(class, "", 12, 2), (class, "a", 5, 1), (class, "b", 5, 1), (class, "c", 7, 1)]
        };
        assert_eq!(rows, [of("arp"), of("bfd")].concat());
    }

    #[test]
    fn keys_survive_messages_and_wrong_ones_are_none() {
        let keys = [Key::IpProtocol(112), Key::UdpPort(u16::MAX), Key::EchoIdentifier(0)];
        for key in [test::KEY, test::LINK_KEY].into_iter().chain(keys) {
            assert_eq!(Key::of(&key.into()), Some(key));
        }
        let wrong = |key| Key::of(&v1::PuntKey { key: Some(key) });
        assert_eq!(Key::of(&v1::PuntKey::default()), None);
        assert_eq!(wrong(punt_key::Key::UdpPort(65_536)), None);
        assert_eq!(wrong(punt_key::Key::IpProtocol(256)), None);
        assert_eq!(wrong(punt_key::Key::Ethertype(u32::MAX)), None);
        assert_eq!(wrong(punt_key::Key::EchoIdentifier(65_536)), None);
        assert_eq!(test::LINK_KEY.to_string(), "ethertype 0x88b5");
    }
}
