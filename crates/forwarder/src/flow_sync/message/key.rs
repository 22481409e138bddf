//! Keys of flows as two routers name them to each other.

use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{FlowKey, Tuple};

use super::{Bytes, Malformed};
const IP4: u8 = 4;
const IP6: u8 = 6;
const NAT64: u8 = 64;

/// A key that both routers know. A stand-in (NAT64) is known to its router only: in place of a key that has one as
/// source, there is the key that packets of the host have, with IPv6 addresses and the protocol of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentKey {
    /// The key.
    pub key: FlowKey,
    /// Whether it is that of packets of a host of NAT64.
    pub is_nat64: bool,
}

impl From<FlowKey> for SentKey {
    fn from(key: FlowKey) -> Self {
        Self { key, is_nat64: false }
    }
}

impl SentKey {
    /// Whether its flow is one of the table of IPv4.
    pub fn is_ip4(&self) -> bool {
        self.is_nat64 || !self.key.is_ip6()
    }

    /// The key of its flow here; `None`: its host has no stand-in, so that there is no such flow. `key4`: the key with
    /// the stand-in of the host. To look for it counts as no packet of the host.
    pub(in crate::flow_sync) fn here(
        &self,
        key4: impl FnOnce(&FlowKey) -> Option<FlowKey>,
    ) -> Option<FlowKey> {
        if self.is_nat64 { key4(&self.key) } else { Some(self.key) }
    }

    /// Appends the key.
    pub(in crate::flow_sync) fn put(&self, to: &mut Vec<u8>) {
        let mut head = |family: u8, protocol: u8, ports: [u16; 2]| {
            to.extend_from_slice(&[family, protocol]);
            let words = [self.key.vrf, ports[0], ports[1]];
            words.iter().for_each(|it| to.extend_from_slice(&it.to_be_bytes()));
        };
        match self.key.tuple {
            Tuple::Ip4(it) => {
                head(IP4, it.protocol, [it.source_port, it.destination_port]);
                to.extend_from_slice(&it.source.to_be_bytes());
                to.extend_from_slice(&it.destination.to_be_bytes());
            }
            Tuple::Ip6(it) => {
                let family = if self.is_nat64 { NAT64 } else { IP6 };
                head(family, it.protocol, [it.source_port, it.destination_port]);
                to.extend_from_slice(&it.source.to_be_bytes());
                to.extend_from_slice(&it.destination.to_be_bytes());
            }
        }
    }
}

/// Bytes of a key of this router, as [`SentKey::put`] writes it.
pub(in crate::flow_sync) const fn key_bytes(is_ip4: bool) -> usize {
    if is_ip4 { 16 } else { 40 }
}

/// The key of this router that [`SentKey::put`] has written; `None`: it has written nothing.
pub(in crate::flow_sync) fn key_of(bytes: &[u8]) -> Option<FlowKey> {
    Bytes(bytes).key().ok().filter(|it| !it.is_nat64).map(|it| it.key)
}

impl Bytes<'_> {
    pub(super) fn key(&mut self) -> Result<SentKey, Malformed> {
        let [family, protocol] = self.take()?;
        let (vrf, source_port, destination_port) = (self.port()?, self.port()?, self.port()?);
        match family {
            IP4 => {
                let (source, destination) = (self.word()?, self.word()?);
                let flow = Flow { source, destination, source_port, destination_port, protocol };
                Ok(FlowKey::ip4(flow, vrf).into())
            }
            IP6 | NAT64 => {
                let source = self.take().map(u128::from_be_bytes)?;
                let destination = self.take().map(u128::from_be_bytes)?;
                let flow = Flow { source, destination, source_port, destination_port, protocol };
                Ok(SentKey { key: FlowKey::ip6(flow, vrf), is_nat64: family == NAT64 })
            }
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_by_itself_is_read_again() {
        let (source_port, destination_port, protocol) = (3, 4, 5);
        let four = Flow { source: 1, destination: 2, source_port, destination_port, protocol };
        let six = Flow { source: 1, destination: 2, source_port, destination_port, protocol };
        for key in [FlowKey::ip4(four, 6), FlowKey::ip6(six, 6)] {
            let mut bytes = Vec::new();
            SentKey::from(key).put(&mut bytes);
            assert_eq!((bytes.len(), key_of(&bytes)), (key_bytes(!key.is_ip6()), Some(key)));
            assert_eq!(SentKey::from(key).is_ip4(), !key.is_ip6());
            bytes.fill(0);
            assert_eq!(key_of(&bytes), None);
        }
        // One of a host of NAT64 is no key of a table.
        let crossed = SentKey { key: FlowKey::ip6(six, 6), is_nat64: true };
        let mut bytes = Vec::new();
        crossed.put(&mut bytes);
        assert!(crossed.is_ip4() && key_of(&bytes).is_none());
        assert_eq!(Bytes(&bytes).key(), Ok(crossed));
    }
}
