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
