//! Our own addresses on their links: asked about before they are trusted (RFC 4862 5.4,
//! RFC 5227 2.1), announced (RFC 5227 3, RFC 4861 7.2.6), defended (RFC 5227 2.4), and
//! given up when somebody else has them. An address is in use from the first moment, as
//! RFC 4429 has it: a router that is started anew must not wait (decision 13).

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};

use stoa_wire::ethernet::Mac;

use crate::control::fib::host;
use crate::control::forwarder_state::ForwarderState;
use crate::drops::Drop;
use crate::neighbor::entry::{Key, Millis};
use crate::shared::SpecialNextHop;

/// Time between two questions: RETRANS_TIMER; PROBE_MIN of RFC 5227.
const PROBE_INTERVAL_MS: Millis = 1000;
/// Time between two defences of an address: DEFEND_INTERVAL.
const DEFEND_INTERVAL_MS: Millis = 10_000;
/// Time between two words in the log about an address that somebody else has.
const CONFLICT_LOG_INTERVAL_MS: Millis = 60_000;

/// How sure we are of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressStatus {
    /// So many more questions, the next at this time; then it is ours.
    Tentative(u8, Millis),
    /// Ours.
    Preferred,
    /// Somebody else has it: not used.
    Duplicate,
}

/// One of our addresses on one interface.
pub(in crate::control) struct DadEntry {
    status: AddressStatus,
    /// In our questions: whoever sends them back did not make them.
    nonce: [u8; 6],
    last_defended: Option<Millis>,
}

fn nonce() -> [u8; 6] {
    let [a, b, c, d, e, f, ..] = RandomState::new().hash_one("nonce").to_le_bytes();
    [a, b, c, d, e, f]
}

impl ForwarderState {
    /// Looks at the addresses of all interfaces: those that are new on a link are asked
    /// about or announced, those that are gone are forgotten.
    pub(in crate::control) fn review_dad(&mut self) {
        let mut desired: BTreeMap<Key, u8> = BTreeMap::new();
        for (index, state) in self.interfaces.iter().enumerate() {
            let Some(state) = state.as_ref().filter(|state| state.is_up) else { continue };
            if self.is_tunnel(index as u32) {
                // Nobody else can be asked, or have the same address.
                continue;
            }
            for family in [&state.desired.ip4, &state.desired.ip6] {
                let probes = family.duplicate_detection;
                let own = family.addresses.iter().map(|(address, _)| *address);
                // Who is of the same virtual router may answer for it until we are active.
                let probes = |address| {
                    if self.is_vrrp_address(index as u32, address) { 0 } else { probes }
                };
                desired.extend(own.map(|address| ((index as u32, address), probes(address))));
            }
            let probes = state.desired.ip6.duplicate_detection;
            if state.desired.ip6.enabled && probes > 0 {
                let local = IpAddr::V6(Mac(state.link.mac).link_local());
                desired.insert((index as u32, local), probes);
            }
        }
        let gone = self.dad.keys().filter(|key| !desired.contains_key(key));
        let gone: Vec<Key> = gone.copied().collect();
        for key in gone {
            self.remove_dad(key);
        }
        for (key, probes) in desired {
            if !self.dad.contains_key(&key) {
                let status = AddressStatus::Tentative(probes, self.now());
                self.dad.insert(key, DadEntry { status, nonce: nonce(), last_defended: None });
                self.send_next_probe(key);
            }
        }
    }

    /// The link of an interface went, or its MAC address changed: nothing is sure there.
    pub(in crate::control) fn reset_dad(&mut self, interface: u32) {
        let of_it: Vec<Key> =
            self.dad.keys().filter(|key| key.0 == interface).copied().collect();
        for key in of_it {
            self.remove_dad(key);
        }
    }

    fn remove_dad(&mut self, key: Key) {
        let was_duplicate = self.is_duplicate(key);
        self.dad.remove(&key);
        if was_duplicate {
            self.deliver_locally(key, SpecialNextHop::Local);
            self.publish_interfaces();
        }
    }

    /// Asks what is due.
    pub(in crate::control) fn tick_dad(&mut self) {
        let now = self.now();
        let is_due =
            |entry: &DadEntry| matches!(entry.status, AddressStatus::Tentative(_, at) if now >= at);
        let due: Vec<Key> =
            self.dad.iter().filter(|(_, entry)| is_due(entry)).map(|(key, _)| *key).collect();
        for key in due {
            self.send_next_probe(key);
        }
    }

    /// The next question about an address, or its announcement after the last.
    fn send_next_probe(&mut self, key: Key) {
        let at = self.now() + PROBE_INTERVAL_MS;
        let Some(entry) = self.dad.get_mut(&key) else { return };
        let AddressStatus::Tentative(left, _) = entry.status else { return };
        if left == 0 {
            entry.status = AddressStatus::Preferred;
            self.announce(key);
            return self.address_confirmed(key);
        }
        entry.status = AddressStatus::Tentative(left - 1, at);
        let nonce = entry.nonce;
        let frame = self.interface(key.0).map(|state| state.link.probe(key.1, nonce));
        self.send_frame(key.0, &frame.unwrap_or_default());
    }

    /// An address is ours alone now: virtual routers that have waited for it begin.
    fn address_confirmed(&mut self, (interface, address): Key) {
        let local = self.addresses.of(interface).and_then(|own| own.link_local);
        if local.is_some_and(|local| address == local) && self.has_waiting_virtual_routers() {
            self.review_virtual_routers();
        }
    }

    /// Tells the link that an address is ours (RFC 5227 3, RFC 4861 7.2.6).
    fn announce(&mut self, (interface, address): Key) {
        if self.is_inactive_vrrp_address(interface, address) {
            // Its virtual router says so when it is active.
            return;
        }
        let Some(link) = self.link_for(interface, address) else { return };
        let frame = match address {
            IpAddr::V4(ip) => link.announce(ip),
            // Nobody needs to be told of a link-local address.
            IpAddr::V6(ip) if ip.is_unicast_link_local() => return,
            IpAddr::V6(ip) => link.advertise(ip, Ipv6Addr::UNSPECIFIED, [0; 6], true),
        };
        self.send_frame(interface, &frame);
    }

    /// Whether somebody else has the address, so that it is not used.
    pub(in crate::control) fn is_duplicate(&self, key: Key) -> bool {
        self.dad.get(&key).is_some_and(|entry| entry.status == AddressStatus::Duplicate)
    }

    /// The addresses that are not used because somebody else has them; few, if any.
    pub(in crate::control) fn duplicates(&self) -> impl Iterator<Item = Key> {
        let is_duplicate = |entry: &DadEntry| entry.status == AddressStatus::Duplicate;
        self.dad.iter().filter(move |(_, entry)| is_duplicate(entry)).map(|(key, _)| *key)
    }

    /// Whether nobody has answered yet whether the address is free.
    pub(super) fn is_tentative(&self, key: Key) -> bool {
        let status = self.dad.get(&key).map(|entry| entry.status);
        matches!(status, Some(AddressStatus::Tentative(..)))
    }

    /// Until when, at the earliest, nobody can know whether the link-local address of an interface
    /// is ours alone; `None`: it is, or nobody asks.
    pub(in crate::control) fn tentative_until(&self, interface: u32) -> Option<Millis> {
        let asks = self.interface(interface)?.desired.ip6.duplicate_detection > 0;
        if !asks || self.is_tunnel(interface) {
            return None;
        }
        let local = self.addresses.of(interface)?.link_local?;
        match self.dad.get(&(interface, local.into())).map(|entry| entry.status) {
            Some(AddressStatus::Tentative(left, at)) => Some(at + Millis::from(left) * PROBE_INTERVAL_MS),
            Some(AddressStatus::Preferred | AddressStatus::Duplicate) => None,
            None => Some(self.now()),
        }
    }

    /// The link-local address of an interface, once it is sure that it is ours alone. What others
    /// keep for long must not come from an address that may be somebody else's (RFC 4862 5.4).
    pub(in crate::control) fn confirmed_link_local(&self, interface: u32) -> Option<Ipv6Addr> {
        let address = self.addresses.of(interface)?.link_local?;
        self.tentative_until(interface).is_none().then_some(address)
    }

    /// Whether a question about an address is our own, sent back by the link.
    pub(super) fn is_own_nonce(&self, key: Key, nonce: &[u8]) -> bool {
        self.dad.get(&key).is_some_and(|entry| entry.nonce == *nonce)
    }

    /// How an address stands, for an operator.
    pub(in crate::control) fn address_status(&self, key: Key) -> &'static str {
        match self.dad.get(&key).map(|entry| entry.status) {
            Some(AddressStatus::Tentative(..)) => "tentative",
            Some(AddressStatus::Preferred) => "preferred",
            Some(AddressStatus::Duplicate) => "duplicate",
            None => "",
        }
    }

    /// Somebody else says that it has one of our addresses, or asks for it as we do.
    pub(super) fn address_conflict(&mut self, key: Key, mac: &str) {
        self.count_drop(Drop::AddressConflict);
        if self.is_tentative(key) {
            return self.mark_duplicate(key, mac);
        }
        let now = self.now();
        let Some(entry) = self.dad.get_mut(&key) else { return };
        // RFC 5227 2.4 (c): a router must keep its address. It says so now and then.
        if entry.status == AddressStatus::Preferred && entry.last_defended.is_none_or(|at| now >= at + DEFEND_INTERVAL_MS)
        {
            entry.last_defended = Some(now);
            self.announce(key);
        }
        if self.last_conflict_log.is_none_or(|said| now >= said + CONFLICT_LOG_INTERVAL_MS) {
            self.last_conflict_log = Some(now);
            tracing::warn!(address = %key.1, mac, "somebody else has our address");
        }
    }

    /// An address turns out to be somebody else's before we were sure of it.
    fn mark_duplicate(&mut self, key: Key, mac: &str) {
        if let Some(entry) = self.dad.get_mut(&key) {
            entry.status = AddressStatus::Duplicate;
        }
        let interface = self.interface(key.0).map(|state| state.name.clone());
        tracing::error!(
            address = %key.1,
            interface = interface.unwrap_or_default(),
            mac,
            "somebody else has our address: it is not used until the link comes again"
        );
        self.deliver_locally(key, SpecialNextHop::Blackhole);
        self.publish_interfaces();
    }

    /// Whether packets to an address of ours are taken in, or dropped.
    fn deliver_locally(&mut self, (interface, address): Key, special: SpecialNextHop) {
        let Some(slot) = self.interface(interface).map(|state| state.vrf) else { return };
        let prefix = host(address);
        if self.vrfs.route(slot, &prefix).is_some() {
            // The prefix is there already: there is room for it.
            let _ = self.fib.insert(slot, prefix, self.fib.special(special));
            self.fib.settle();
        }
    }
}
