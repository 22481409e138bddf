//! The differences between IPv4 and IPv6 for learned routes: the encoding of a prefix, and its table.

use std::net::IpAddr;

use stoa_tables::lpm::{Key, Lpm};

use super::hosts::Hosts;
use crate::control::desired::Prefix;
use crate::control::fib::Fib;
use crate::control::vrfs::Slot;

/// `u32` or `u128`: an address in host byte order.
pub(super) trait Family: Key {
    const IS_IP4: bool;
    /// Bytes of a packed prefix: address and length.
    const PACKED: usize;

    fn address(self) -> IpAddr;
    fn of(address: IpAddr) -> Option<Self>;
    /// The form that digests use.
    fn as_u128(self) -> u128;
    /// Decodes a prefix of [`PACKED`](Self::PACKED) bytes, with any host bits.
    fn unpack(bytes: &[u8]) -> Option<(Self, u8)>;
    fn pack(self, length: u8, to: &mut Vec<u8>);
    /// This address with all bits beyond the length cleared.
    fn mask(self, length: u8) -> Self;
    fn hosts(hosts: &Hosts) -> &[(Self, u32)];
    fn table(fib: &Fib, slot: Slot) -> Option<&Lpm<Self>>;
    fn table_mut(fib: &mut Fib, slot: Slot) -> Option<&mut Lpm<Self>>;

    fn prefix(self, length: u8) -> Prefix {
        (self.address(), length)
    }
}

impl Family for u32 {
    const IS_IP4: bool = true;
    const PACKED: usize = 5;

    fn address(self) -> IpAddr {
        IpAddr::V4(self.into())
    }
    fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(ip) => Some(ip.into()),
            IpAddr::V6(_) => None,
        }
    }
    fn as_u128(self) -> u128 {
        self.into()
    }
    fn unpack(bytes: &[u8]) -> Option<(Self, u8)> {
        let [a, b, c, d, length] = *bytes else { return None };
        Some((Self::from_be_bytes([a, b, c, d]), length))
    }
    fn pack(self, length: u8, to: &mut Vec<u8>) {
        to.extend(self.to_be_bytes());
        to.push(length);
    }
    fn mask(self, length: u8) -> Self {
        self & Self::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0)
    }
    fn hosts(hosts: &Hosts) -> &[(Self, u32)] {
        &hosts.ip4
    }
    fn table(fib: &Fib, slot: Slot) -> Option<&Lpm<Self>> {
        fib.tables(slot).map(|(ip4, _)| ip4)
    }
    fn table_mut(fib: &mut Fib, slot: Slot) -> Option<&mut Lpm<Self>> {
        fib.tables_mut(slot).map(|(ip4, _)| ip4)
    }
}

impl Family for u128 {
    const IS_IP4: bool = false;
    const PACKED: usize = 17;

    fn address(self) -> IpAddr {
        IpAddr::V6(self.into())
    }
    fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(ip) => Some(ip.into()),
        }
    }
    fn as_u128(self) -> u128 {
        self
    }
    fn unpack(bytes: &[u8]) -> Option<(Self, u8)> {
        let (address, [length]) = bytes.split_first_chunk::<16>()? else { return None };
        Some((Self::from_be_bytes(*address), *length))
    }
    fn pack(self, length: u8, to: &mut Vec<u8>) {
        to.extend(self.to_be_bytes());
        to.push(length);
    }
    fn mask(self, length: u8) -> Self {
        self & Self::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0)
    }
    fn hosts(hosts: &Hosts) -> &[(Self, u32)] {
        &hosts.ip6
    }
    fn table(fib: &Fib, slot: Slot) -> Option<&Lpm<Self>> {
        fib.tables(slot).map(|(_, ip6)| ip6)
    }
    fn table_mut(fib: &mut Fib, slot: Slot) -> Option<&mut Lpm<Self>> {
        fib.tables_mut(slot).map(|(_, ip6)| ip6)
    }
}
