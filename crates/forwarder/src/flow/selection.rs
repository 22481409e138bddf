//! Which flows an operator means: conditions on keys and states. The control thread lists the flows that meet them, and
//! workers clear them between packets.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use stoa_tables::flow_table::{FlowEntry, FlowKey, Tuple};
use stoa_wire::protocol::has_ports;

use super::profiles::without_profile;
use super::timeouts::Class;
use super::tracker::SUSPENDED;

/// The lower bits of a VRF in keys of flows, which are its slot.
pub const VRF_SLOT: u16 = (1 << 8) - 1;

/// The bit of suspended flows in [`Selection::states`], behind those of [`Class::ALL`].
const SUSPENDED_STATE: u16 = 1 << Class::ALL.len();

/// Bits of the first word of a [`SharedSelection`], which say what is given.
const FAMILY: u64 = 1;
const IS_IP4: u64 = 2;
const PROTOCOL: u64 = 4;
const VRF: u64 = 8;

/// Conditions, all of which a flow must meet; the default is met by all flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Whether IPv4; `None`: both families.
    pub is_ip4: Option<bool>,
    /// The protocol.
    pub protocol: Option<u8>,
    /// The port of either end, before or behind translation; 0: any. Protocols without ports have none.
    pub port: u16,
    /// The slot of the VRF.
    pub vrf: Option<u16>,
    states: u16,
    network: u128,
    mask: u128,
    /// The IPv4 address by which flows know the IPv6 host that is meant; 0: none.
    stand_in: u32,
}

impl Selection {
    /// Of these, those with an address of the prefix at either end, before or behind translation.
    #[must_use]
    pub fn with_prefix(self, address: IpAddr, length: u8) -> Self {
        let (network, bits) = match address {
            IpAddr::V4(it) => (it.to_bits().into(), 32),
            IpAddr::V6(it) => (it.to_bits(), 128),
        };
        let host_bits = u32::from(bits - length.min(bits));
        let mask = u128::MAX.checked_shl(host_bits).unwrap_or_default();
        let is_ip4 = Some(address.is_ipv4());
        Self { is_ip4, network: network & mask, mask, ..self }
    }

    /// Of these, also those of this IPv4 address, by which flows know the IPv6 host of the prefix.
    #[must_use]
    pub fn or_stand_in(self, stand_in: u32) -> Self {
        Self { stand_in, ..self }
    }

    /// Of these, those in one of these states: names of [`Class`], or "suspended". `None`: there is no such state.
    #[must_use]
    pub fn with_states<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let bit = |name| {
            if name == stoa_api::flow::SUSPENDED {
                return Some(SUSPENDED_STATE);
            }
            let class = Class::ALL.into_iter().find(|class| class.name() == name)?;
            Some(1 << class as u16)
        };
        let states = names.into_iter().try_fold(0, |bits, name| Some(bits | bit(name)?))?;
        Some(Self { states, ..self })
    }

    /// Whether flows of a family can meet it.
    pub fn has_family(&self, is_ip4: bool) -> bool {
        self.is_ip4.is_none_or(|it| it == is_ip4) || is_ip4 && self.stand_in != 0
    }

    /// Whether a live flow meets all conditions.
    pub fn contains(&self, flow: &FlowEntry<'_>) -> bool {
        if *self == Self::default() {
            return true;
        }
        let is_suspended = flow.flags() & SUSPENDED != 0;
        let state =
            1 << without_profile(flow.class()) | if is_suspended { SUSPENDED_STATE } else { 0 };
        if self.states != 0 && self.states & state == 0 {
            return false;
        }
        let (key, translated) = (flow.key(), flow.has_second().then(|| flow.reply_key()));
        let (is_ip4, protocol) = match key.tuple {
            Tuple::Ip4(it) => (true, it.protocol),
            Tuple::Ip6(it) => (false, it.protocol),
        };
        let ends = || [Some(key), translated].into_iter().flatten().flat_map(|key| ends_of(&key));
        let is_stand_in = |end| is_ip4 && self.stand_in != 0 && end == u128::from(self.stand_in);
        let is_port = self.port == 0
            || has_ports(protocol) && ends().any(|(_, end_port)| end_port == self.port);
        self.has_family(is_ip4)
            && self.protocol.is_none_or(|it| it == protocol)
            && self.vrf.is_none_or(|it| it == key.vrf & VRF_SLOT)
            && ends().any(|(end, _)| end & self.mask == self.network || is_stand_in(end))
            && is_port
    }

    fn to_words(self) -> [u64; 6] {
        let given = [
            (self.is_ip4.is_some(), FAMILY),
            (self.is_ip4 == Some(true), IS_IP4),
            (self.protocol.is_some(), PROTOCOL),
            (self.vrf.is_some(), VRF),
        ];
        let flags: u64 = given.into_iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum();
        let numbers = u64::from(self.protocol.unwrap_or(0)) << 8
            | u64::from(self.port) << 16
            | u64::from(self.vrf.unwrap_or(0)) << 32
            | u64::from(self.states) << 48;
        let halves = |it: u128| [(it >> 64) as u64, it as u64];
        let ([network, network_low], [mask, mask_low]) = (halves(self.network), halves(self.mask));
        [flags | numbers, network, network_low, mask, mask_low, self.stand_in.into()]
    }

    fn of_words([first, network, network_low, mask, mask_low, stand_in]: [u64; 6]) -> Self {
        let is = |bit| first & bit != 0;
        let whole = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        Self {
            is_ip4: is(FAMILY).then_some(is(IS_IP4)),
            protocol: is(PROTOCOL).then_some((first >> 8) as u8),
            port: (first >> 16) as u16,
            vrf: is(VRF).then_some((first >> 32) as u16),
            states: (first >> 48) as u16,
            network: whole(network, network_low),
            mask: whole(mask, mask_low),
            stand_in: stand_in as u32,
        }
    }
}

/// Address and port of both ends.
fn ends_of(key: &FlowKey) -> [(u128, u16); 2] {
    match key.tuple {
        Tuple::Ip4(it) => {
            [(it.source.into(), it.source_port), (it.destination.into(), it.destination_port)]
        }
        Tuple::Ip6(it) => [(it.source, it.source_port), (it.destination, it.destination_port)],
    }
}

/// A selection that one thread stores while no other one loads it.
#[derive(Debug, Default)]
pub(super) struct SharedSelection([AtomicU64; 6]);

impl SharedSelection {
    pub(super) fn store(&self, selection: &Selection) {
        for (word, value) in self.0.iter().zip(selection.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
    }

    pub(super) fn load(&self) -> Selection {
        Selection::of_words(self.0.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stoa_tables::flow_hash::Flow;
    use stoa_tables::flow_table::{Created, FlowCapacity, FlowTable, NewFlow, Secret};

    use super::*;

    /// Whether a selection contains a flow of UDP from port 5000 of `ends` to port 53, in VRF 3.
    fn contains(selection: Selection, ends: [&str; 2], (class, flags): (Class, u8)) -> bool {
        let capacity = FlowCapacity { ip4: 8, ip6: 8, ..FlowCapacity::default() };
        let mut table = FlowTable::new(&capacity, &Secret([7; 64])).unwrap();
        let mut owner = table.owner(0, 0).unwrap();
        let (ports, protocol) = ((5000, 53), 17);
        let key = match ends.map(|end| end.parse().unwrap()) {
            [IpAddr::V4(from), IpAddr::V4(to)] => {
                let (source, destination) = (from.to_bits(), to.to_bits());
                let (source_port, destination_port) = ports;
                FlowKey::ip4(
                    Flow { source, destination, source_port, destination_port, protocol },
                    0x703,
                )
            }
            [IpAddr::V6(from), IpAddr::V6(to)] => {
                let (source, destination) = (from.to_bits(), to.to_bits());
                let (source_port, destination_port) = ports;
                FlowKey::ip6(
                    Flow { source, destination, source_port, destination_port, protocol },
                    0x703,
                )
            }
            _ => unreachable!(),
        };
        let flow = NewFlow { class: class as u8 | 2 << 4, flags, ..NewFlow::new(key, None) };
        let Ok(Created::New(id)) = owner.create(&flow, 0, 9) else { panic!() };
        selection.contains(&table.reader().entry(id))
    }

    #[test]
    fn all_conditions_must_hold() {
        let all = Selection::default();
        let four = |of| contains(of, ["10.0.0.1", "198.51.100.7"], (Class::UdpReplied, SUSPENDED));
        let six = |of| contains(of, ["2001:db8::1", "2001:db8:1::7"], (Class::UdpNew, 0));
        let prefix = |text: &str, length| all.with_prefix(text.parse().unwrap(), length);
        let states = |names: &[&'static str]| all.with_states(names.iter().copied()).unwrap();
        let protocol = |it| Selection { protocol: Some(it), ..all };
        let port = |port| Selection { port, ..all };
        let vrf = |slot| Selection { vrf: Some(slot), ..all };
        let cases = [
            (all, true, true),
            (Selection { is_ip4: Some(true), ..all }, true, false),
            (prefix("10.0.0.1", 32), true, false),
            (prefix("198.51.100.200", 24), true, false),
            (prefix("10.0.0.0", 32), false, false),
            (prefix("0.0.0.0", 0), true, false),
            (prefix("2001:db8:1::", 48), false, true),
            (prefix("2001:db8:2::", 48), false, false),
            (prefix("::", 0), false, true),
            (port(53), true, true),
            (port(5000), true, true),
            (port(54), false, false),
            (protocol(17), true, true),
            (protocol(6), false, false),
            (vrf(3), true, true),
            (vrf(0), false, false),
            (states(&["udp-new", "icmp"]), false, true),
            (states(&["suspended"]), true, false),
            (Selection { port: 53, ..prefix("10.0.0.0", 8) }, true, false),
            (Selection { port: 54, ..prefix("10.0.0.0", 8) }, false, false),
        ];
        for (selection, is_four, is_six) in cases {
            assert_eq!((four(selection), six(selection)), (is_four, is_six), "{selection:?}");
        }
        assert!(all.with_states(["open"]).is_none());
    }

    #[test]
    fn a_translated_flow_is_selected_by_either_of_its_ends() {
        let capacity = FlowCapacity { translated_ip4: 8, ..FlowCapacity::default() };
        let mut table = FlowTable::new(&capacity, &Secret([7; 64])).unwrap();
        let mut owner = table.owner(0, 0).unwrap();
        let key = |source: [u8; 4], destination: [u8; 4], (source_port, destination_port)| {
            let [source, destination] = [source, destination].map(u32::from_be_bytes);
            let protocol = 6;
            FlowKey::ip4(Flow { source, destination, source_port, destination_port, protocol }, 0)
        };
        let inside = key([10, 0, 0, 1], [198, 51, 100, 7], (5000, 443));
        let replies = key([198, 51, 100, 7], [203, 0, 113, 9], (443, 6000));
        let Ok(Created::New(id)) = owner.create(&NewFlow::new(inside, Some(replies)), 0, 9) else {
            panic!()
        };
        let contains = |selection: Selection| selection.contains(&table.reader().entry(id));
        let host = |text: &str| Selection::default().with_prefix(text.parse().unwrap(), 32);
        for it in ["10.0.0.1", "198.51.100.7", "203.0.113.9"] {
            assert!(contains(host(it)), "{it}");
        }
        assert!(!contains(host("203.0.113.10")));
        let port = |port| contains(Selection { port, ..Selection::default() });
        assert_eq!([5000, 443, 6000, 6001].map(port), [true, true, true, false]);
    }

    #[test]
    fn the_contract_names_all_states() {
        assert_eq!(stoa_api::flow::STATES, Class::ALL.map(Class::name));
    }

    proptest! {
        #[test]
        fn workers_load_what_was_stored(
            is_ip4 in any::<Option<bool>>(),
            protocol in any::<Option<u8>>(),
            (port, vrf, states) in any::<(u16, Option<u16>, u16)>(),
            (network, mask, stand_in) in any::<(u128, u128, u32)>(),
        ) {
            let selection =
                Selection { is_ip4, protocol, port, vrf, states, network, mask, stand_in };
            let shared = SharedSelection::default();
            shared.store(&selection);
            prop_assert_eq!(shared.load(), selection);
        }
    }
}
