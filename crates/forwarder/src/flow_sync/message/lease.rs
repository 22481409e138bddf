//! Leases of mappings as bytes.

use stoa_wire::pcp::MOST_FILTERS;

use super::{Bytes, KNOWN_LEASE, LEASE, LEASE_END, Malformed, SECONDS_MAX};
use crate::flow::time::ticks;
use crate::nat::mappings::{End, RemotePeer};
use crate::pcp::lease::{Holder, Key, Origin, Terms};

/// The fewest bytes of an item about a lease.
pub const LEASE_MIN: usize = 15;

/// A lease at a moment, with times in ticks of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its internal end.
    pub key: Key,
    /// What it is.
    pub terms: Terms,
    /// The host has not asked the router that sends it.
    pub is_standby: bool,
}

/// Appends the end of a lease.
pub fn put_lease_end(key: &Key, to: &mut Vec<u8>) {
    to.push(LEASE_END);
    put_key(key, to);
}

/// Appends that there is a lease which the bulk does not send.
pub fn put_known_lease(key: &Key, to: &mut Vec<u8>) {
    to.push(KNOWN_LEASE);
    put_key(key, to);
}

fn put_key(key: &Key, to: &mut Vec<u8>) {
    to.extend_from_slice(&key.policy.to_be_bytes());
    to.extend_from_slice(&key.vrf.to_be_bytes());
    to.extend_from_slice(&key.address.to_be_bytes());
    to.push(key.protocol);
    to.extend_from_slice(&key.port.to_be_bytes());
    to.push(key.remote.is_some().into());
    if let Some((address, port)) = key.remote {
        to.extend_from_slice(&address.to_be_bytes());
        to.extend_from_slice(&port.to_be_bytes());
    }
}

/// Appends a lease at tick `now`.
pub fn put_lease(lease: &Lease, now: u32, to: &mut Vec<u8>) {
    let Lease { key, terms, is_standby } = lease;
    let Terms { holder, origin, external, end, renewed, peers } = terms;
    to.push(LEASE);
    put_key(key, to);
    match holder {
        Holder::NatPmp => to.push(0),
        Holder::Nonce(nonce) => {
            to.push(1);
            to.extend_from_slice(nonce);
        }
    }
    to.extend_from_slice(&origin.interface.to_be_bytes());
    to.extend_from_slice(&origin.vrf.to_be_bytes());
    to.extend_from_slice(&origin.address.to_be_bytes());
    to.extend_from_slice(&external.vrf.to_be_bytes());
    to.extend_from_slice(&external.address.to_be_bytes());
    to.extend_from_slice(&external.port.to_be_bytes());
    to.push((*is_standby).into());
    let left = ticks(now, *end).min(SECONDS_MAX - 1);
    let ago = ticks(*renewed, now).min(SECONDS_MAX - 1);
    [left, ago].iter().for_each(|it| to.extend_from_slice(&it.to_be_bytes()));
    // Leases have no more.
    let peers = peers.get(..MOST_FILTERS).unwrap_or(peers);
    to.push(peers.len() as u8);
    for RemotePeer { network, length, port } in peers {
        to.extend_from_slice(&network.to_be_bytes());
        to.push(*length);
        to.extend_from_slice(&port.to_be_bytes());
    }
}

const _: () = assert!(MOST_FILTERS <= u8::MAX as usize);

impl Bytes<'_> {
    pub(super) fn lease_key(&mut self) -> Result<Key, Malformed> {
        let (policy, vrf, address) = (self.word()?, self.port()?, self.word()?);
        let (protocol, port) = (self.byte()?, self.port()?);
        let remote = match self.flag()? {
            true => Some((self.word()?, self.port()?)),
            false => None,
        };
        Ok(Key { policy, vrf, address, protocol, port, remote })
    }

    pub(super) fn lease(&mut self, now: u32) -> Result<Lease, Malformed> {
        let key = self.lease_key()?;
        let holder = if self.flag()? { Holder::Nonce(self.take()?) } else { Holder::NatPmp };
        let interface = self.take().map(u64::from_be_bytes)?;
        let origin = Origin { interface, vrf: self.port()?, address: self.word()? };
        let (vrf, address, port) = (self.port()?, self.word()?, self.port()?);
        let external = End { address, port, protocol: key.protocol, vrf };
        let is_standby = self.flag()?;
        let (left, ago) = (self.word()?, self.word()?);
        let count = usize::from(self.byte()?);
        if left >= SECONDS_MAX || ago >= SECONDS_MAX || count > MOST_FILTERS {
            return Err(Malformed);
        }
        let mut peers = Vec::with_capacity(count);
        for _ in 0..count {
            let (network, length, port) = (self.word()?, self.byte()?, self.port()?);
            if length > 32 {
                return Err(Malformed);
            }
            peers.push(RemotePeer { network, length, port });
        }
        let (end, renewed) = (now.wrapping_add(left), now.wrapping_sub(ago));
        let terms = Terms { holder, origin, external, end, renewed, peers };
        Ok(Lease { key, terms, is_standby })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Item, read};
    use super::*;

    fn key() -> impl Strategy<Value = Key> {
        any::<(u32, u16, u32, u8, u16, Option<(u32, u16)>)>().prop_map(
            |(policy, vrf, address, protocol, port, remote)| Key {
                policy,
                vrf,
                address,
                protocol,
                port,
                remote,
            },
        )
    }

    fn lease(now: u32) -> impl Strategy<Value = Lease> {
        let peers = prop::collection::vec(any::<(u32, u8, u16)>(), 0..=MOST_FILTERS);
        let rest = any::<(Option<[u8; 12]>, u64, [u16; 3], [u32; 4], bool)>();
        (key(), rest, peers).prop_map(move |(key, rest, peers)| {
            let (nonce, interface, [vrf, outer, port], words, is_standby) = rest;
            let [address, external, left, ago] = words;
            let peer = |(network, length, port)| RemotePeer { network, length: length % 33, port };
            let terms = Terms {
                holder: nonce.map_or(Holder::NatPmp, Holder::Nonce),
                origin: Origin { interface, vrf, address },
                external: End { address: external, port, protocol: key.protocol, vrf: outer },
                end: now.wrapping_add(left % SECONDS_MAX),
                renewed: now.wrapping_sub(ago % SECONDS_MAX),
                peers: peers.into_iter().map(peer).collect(),
            };
            Lease { key, terms, is_standby }
        })
    }

    proptest! {
        #[test]
        fn a_lease_that_is_written_is_read(one in lease(9), end in key(), known in key()) {
            let mut bytes = Vec::new();
            put_lease(&one, 9, &mut bytes);
            let length = bytes.len();
            put_lease_end(&end, &mut bytes);
            put_known_lease(&known, &mut bytes);
            let mut items = Vec::new();
            prop_assert_eq!(read(&bytes, 9, |it| items.push(it)), Ok(()));
            let first = Item::Lease(Box::new(one));
            prop_assert_eq!(items, [first, Item::LeaseEnd(end), Item::KnownLease(known)]);
            for cut in 1..length {
                prop_assert_eq!(read(&bytes[..cut], 9, |_| {}), Err(Malformed));
            }
        }

        #[test]
        fn any_byte_of_a_lease_is_read_without_harm(
            one in lease(9), changed: prop::sample::Index, value: u8,
        ) {
            let mut bytes = Vec::new();
            put_lease(&one, 9, &mut bytes);
            let at = changed.index(bytes.len());
            bytes[at] = value;
            let mut first = None;
            let _ = read(&bytes, 9, |item| first = first.take().or(Some(item)));
            if let Some(Item::Lease(it)) = first {
                let mut again = Vec::new();
                put_lease(&it, 9, &mut again);
                prop_assert_eq!(bytes.get(..again.len()), Some(&again[..]));
            }
        }
    }

    #[test]
    fn no_item_about_a_lease_is_shorter() {
        let key = Key { policy: 1, vrf: 0, address: 2, protocol: 6, port: 3, remote: None };
        let mut bytes = Vec::new();
        put_known_lease(&key, &mut bytes);
        assert_eq!(bytes.len(), LEASE_MIN);
    }
}
