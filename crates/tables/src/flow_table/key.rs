//! Keys of flows: what packets carry, and the form in which both directions are equal.

use crate::flow_hash::Flow;

/// Words of a key without IPv6 addresses.
pub(super) const KEY_WORDS: usize = 4;
/// Words of the two addresses of an IPv6 key.
pub(super) const ADDRESS_WORDS: usize = 8;
/// The bit of [`CONTEXT`] that the packets whose source is the higher end have.
pub(super) const REVERSED: u32 = 1 << 31;
/// The bit of [`CONTEXT`] that IPv6 keys have.
pub(super) const IS_IP6: u32 = 1 << 24;
/// The word with VRF, protocol, family and direction.
pub(super) const CONTEXT: usize = 3;

/// Addresses, ports and protocol of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tuple {
    /// Of an IPv4 packet.
    Ip4(Flow<u32>),
    /// Of an IPv6 packet.
    Ip6(Flow<u128>),
}

/// What identifies the packets of one direction of a flow. Queries of ICMP have their identifier as both
/// ports, so that requests and replies belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Addresses, ports and protocol.
    pub tuple: Tuple,
    /// The VRF in which the packet is looked up.
    pub vrf: u16,
}

impl FlowKey {
    /// An IPv4 key.
    pub const fn ip4(flow: Flow<u32>, vrf: u16) -> Self {
        Self { tuple: Tuple::Ip4(flow), vrf }
    }

    /// An IPv6 key.
    pub const fn ip6(flow: Flow<u128>, vrf: u16) -> Self {
        Self { tuple: Tuple::Ip6(flow), vrf }
    }

    /// The protocol of the packets.
    pub const fn protocol(&self) -> u8 {
        match self.tuple {
            Tuple::Ip4(it) => it.protocol,
            Tuple::Ip6(it) => it.protocol,
        }
    }

    /// Whether the packets are IPv6.
    pub const fn is_ip6(&self) -> bool {
        matches!(self.tuple, Tuple::Ip6(_))
    }

    /// The key of the packets in the other direction, if nobody translates them.
    pub const fn reversed(&self) -> Self {
        let tuple = match self.tuple {
            Tuple::Ip4(flow) => Tuple::Ip4(flow.reversed()),
            Tuple::Ip6(flow) => Tuple::Ip6(flow.reversed()),
        };
        Self { tuple, vrf: self.vrf }
    }
}

/// A key with the lower end first, as entries store it and as it is hashed. An end is an address and a
/// port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Canonical {
    /// IPv4: the lower end's address, the higher end's; IPv6: zeros. The lower end's port above the higher
    /// end's. VRF, protocol above it, [`IS_IP6`] and [`REVERSED`].
    pub(super) words: [u32; KEY_WORDS],
    /// IPv6: the words of the lower end's address, the lowest first; those of the higher end's.
    pub(super) addresses: [u32; ADDRESS_WORDS],
}

impl Canonical {
    pub(super) fn new(key: &FlowKey) -> Self {
        let (is_reversed, mut words, mut addresses);
        let [source_port, destination_port];
        let protocol;
        match key.tuple {
            Tuple::Ip4(flow) => {
                is_reversed =
                    (flow.source, flow.source_port) > (flow.destination, flow.destination_port);
                words = [flow.source, flow.destination, 0, 0];
                if is_reversed {
                    words.swap(0, 1);
                }
                addresses = [0; ADDRESS_WORDS];
                [source_port, destination_port] = [flow.source_port, flow.destination_port];
                protocol = flow.protocol;
            }
            Tuple::Ip6(flow) => {
                is_reversed =
                    (flow.source, flow.source_port) > (flow.destination, flow.destination_port);
                words = [0, 0, 0, IS_IP6];
                let ends = [flow.source, flow.destination];
                addresses = [0; ADDRESS_WORDS];
                for (word, at) in addresses.iter_mut().zip(0..) {
                    let end = ends[usize::from((at >= 4) != is_reversed)];
                    *word = (end >> (at % 4 * 32)) as u32;
                }
                [source_port, destination_port] = [flow.source_port, flow.destination_port];
                protocol = flow.protocol;
            }
        }
        let ports = u32::from(source_port) << 16 | u32::from(destination_port);
        words[2] = if is_reversed { ports.rotate_left(16) } else { ports };
        words[CONTEXT] |= u32::from(key.vrf) | u32::from(protocol) << 16;
        words[CONTEXT] |= if is_reversed { REVERSED } else { 0 };
        Self { words, addresses }
    }

    /// The key of the packets for which this was made.
    pub(super) fn key(&self) -> FlowKey {
        let [low, high, ports, context] = self.words;
        let protocol = (context >> 16) as u8;
        let (source_port, destination_port) = ((ports >> 16) as u16, ports as u16);
        let address = |from: usize| {
            self.addresses[from..from + 4]
                .iter()
                .rev()
                .fold(0, |all: u128, word| all << 32 | u128::from(*word))
        };
        let tuple = if context & IS_IP6 == 0 {
            let (source, destination) = (low, high);
            Tuple::Ip4(Flow { source, destination, source_port, destination_port, protocol })
        } else {
            let (source, destination) = (address(0), address(4));
            Tuple::Ip6(Flow { source, destination, source_port, destination_port, protocol })
        };
        let key = FlowKey { tuple, vrf: context as u16 };
        if context & REVERSED == 0 { key } else { key.reversed() }
    }

    pub(super) fn is_ip6(&self) -> bool {
        self.words[CONTEXT] & IS_IP6 != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn ports()(ports in any::<[u16; 2]>(), protocol: u8, vrf: u16) -> ([u16; 2], u8, u16) {
            (ports, protocol, vrf)
        }
    }

    proptest! {
        #[test]
        fn both_directions_have_one_form_and_come_back(
            ends in any::<[u128; 2]>(), ([source_port, destination_port], protocol, vrf) in ports(),
            is_ip6: bool,
        ) {
            let [source, destination] = ends;
            let six = Flow { source, destination, source_port, destination_port, protocol };
            let [source, destination] = ends.map(|end| end as u32);
            let four = Flow { source, destination, source_port, destination_port, protocol };
            let key = if is_ip6 { FlowKey::ip6(six, vrf) } else { FlowKey::ip4(four, vrf) };
            let (there, mut back) = (Canonical::new(&key), Canonical::new(&key.reversed()));
            prop_assert_eq!(there.key(), key);
            prop_assert_eq!(back.key(), key.reversed());
            prop_assert!(key == key.reversed() || there != back);
            if key != key.reversed() {
                back.words[CONTEXT] ^= REVERSED;
            }
            prop_assert_eq!(there, back);
        }
    }
}
