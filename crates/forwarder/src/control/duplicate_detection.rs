//! Duplicate address detection (RFC 4862 5.4) and IPv4 address conflict detection (RFC 5227): probes our
//! addresses, announces them (RFC 5227 3, RFC 4861 7.2.6), defends them (RFC 5227 2.4), and disables
//! duplicates. An address is usable while it is tentative, as in RFC 4429: a restarted router must not wait
//! (decision 13).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};

use stoa_wire::ethernet::Mac;

use super::capability::{Capability, Start, Verbs};
use super::fib::host;
use super::forwarder_state::ForwarderState;
use crate::drops::Drop;
use crate::neighbor::entry::{Key, Millis, keys_of};
use crate::shared::SpecialNextHop;

/// Interval between two probes: RETRANS_TIMER; PROBE_MIN of RFC 5227.
const PROBE_INTERVAL_MS: Millis = 1000;
/// Shortest interval between two defences of an address: DEFEND_INTERVAL.
const DEFEND_INTERVAL_MS: Millis = 10_000;
/// Shortest interval between two log messages about conflicts.
const CONFLICT_LOG_INTERVAL_MS: Millis = 60_000;

/// The status of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressStatus {
    /// Number of probes left and time of the next one; after the last it is preferred.
    Tentative(u8, Millis),
    /// Unique.
    Preferred,
    /// Another host has it: not used.
    Duplicate,
}

/// One of our addresses on one interface.
struct DadEntry {
    status: AddressStatus,
    /// In our probes: recognizes those that the link loops back.
    nonce: [u8; 6],
    last_defended: Option<Millis>,
}

/// Duplicate address detection of our addresses on links that are up.
#[derive(Default)]
pub(super) struct DuplicateDetection {
    entries: BTreeMap<Key, DadEntry>,
    /// Those in progress.
    tentative: BTreeSet<Key>,
    /// Addresses that are disabled as duplicates, with their interfaces: audits ask for each own address.
    duplicates: BTreeSet<(IpAddr, u32)>,
    /// When an address conflict was last logged.
    last_conflict_log: Option<Millis>,
}

impl Capability for DuplicateDetection {
    const VERBS: Verbs = Verbs {
        review: |state, changed| {
            for index in changed {
                state.review_dad(*index);
                state.pause(1);
            }
        },
        link_down: ForwarderState::reset_dad,
        remove_interface: ForwarderState::reset_dad,
        tick: ForwarderState::tick_dad,
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

fn nonce() -> [u8; 6] {
    let [a, b, c, d, e, f, ..] = RandomState::new().hash_one("nonce").to_le_bytes();
    [a, b, c, d, e, f]
}

impl ForwarderState {
    /// Starts detection for new addresses of an interface that is up, and ends it for removed ones.
    fn review_dad(&mut self, interface: u32) {
        let desired = self.probed_addresses(interface);
        let gone: Vec<Key> =
            self.dad_of(interface).filter(|key| !desired.contains_key(&key.1)).collect();
        for key in gone {
            self.remove_dad(key);
        }
        for (address, probes) in desired {
            let key = (interface, address);
            if !self.capabilities.duplicate_detection.entries.contains_key(&key) {
                let status = AddressStatus::Tentative(probes, self.now());
                self.capabilities
                    .duplicate_detection
                    .entries
                    .insert(key, DadEntry { status, nonce: nonce(), last_defended: None });
                self.capabilities.duplicate_detection.tentative.insert(key);
                self.send_next_probe(key);
            }
        }
    }

    /// The addresses of an interface to detect duplicates of, and the number of probes.
    fn probed_addresses(&self, interface: u32) -> BTreeMap<IpAddr, u8> {
        let mut desired = BTreeMap::new();
        let state = self.interface(interface).filter(|state| state.is_up);
        // A tunnel has no other hosts to probe.
        let Some(state) = state.filter(|_| !self.is_tunnel(interface)) else { return desired };
        for family in [&state.desired.ip4, &state.desired.ip6] {
            let probes = family.duplicate_detection;
            let own = family.addresses.iter().map(|(address, _)| *address);
            // Until we are active, another router of the same virtual router may answer for it.
            let probes =
                |address| if self.is_vrrp_address(interface, address) { 0 } else { probes };
            desired.extend(own.map(|address| (address, probes(address))));
        }
        let probes = state.desired.ip6.duplicate_detection;
        if state.desired.ip6.enabled && probes > 0 {
            desired.insert(IpAddr::V6(Mac(state.link.mac).link_local()), probes);
        }
        desired
    }

    /// The addresses of an interface in detection.
    fn dad_of(&self, interface: u32) -> impl Iterator<Item = Key> {
        self.capabilities.duplicate_detection.entries.range(keys_of(interface)).map(|(key, _)| *key)
    }

    /// The link went down, or the MAC address changed: detection starts again.
    pub(super) fn reset_dad(&mut self, interface: u32) {
        let of_it: Vec<Key> = self.dad_of(interface).collect();
        for key in of_it {
            self.remove_dad(key);
        }
    }

    fn remove_dad(&mut self, key: Key) {
        self.capabilities.duplicate_detection.entries.remove(&key);
        self.capabilities.duplicate_detection.tentative.remove(&key);
        if self.capabilities.duplicate_detection.duplicates.remove(&(key.1, key.0)) {
            self.deliver_locally(key, SpecialNextHop::Local);
            self.publish_again(key.0);
            self.publish_interfaces();
        }
    }

    /// Sends the probes that are due.
    fn tick_dad(&mut self) {
        let now = self.now();
        let is_due = |key: &&Key| {
            let status =
                self.capabilities.duplicate_detection.entries.get(key).map(|entry| entry.status);
            matches!(status, Some(AddressStatus::Tentative(_, at)) if now >= at)
        };
        let due: Vec<Key> = self
            .capabilities
            .duplicate_detection
            .tentative
            .iter()
            .filter(is_due)
            .copied()
            .collect();
        for key in due {
            self.send_next_probe(key);
        }
    }

    /// Sends the next probe of an address, or its announcement after the last.
    fn send_next_probe(&mut self, key: Key) {
        let at = self.now() + PROBE_INTERVAL_MS;
        let Some(entry) = self.capabilities.duplicate_detection.entries.get_mut(&key) else {
            return;
        };
        let AddressStatus::Tentative(left, _) = entry.status else { return };
        if left == 0 {
            entry.status = AddressStatus::Preferred;
            self.capabilities.duplicate_detection.tentative.remove(&key);
            self.announce(key);
            return self.address_confirmed(key);
        }
        entry.status = AddressStatus::Tentative(left - 1, at);
        let nonce = entry.nonce;
        let frame = self.interface(key.0).map(|state| state.link.probe(key.1, nonce));
        self.send_frame(key.0, &frame.unwrap_or_default());
    }

    /// An address is preferred now: starts virtual routers that wait for it.
    fn address_confirmed(&mut self, (interface, address): Key) {
        let local = self.addresses.of(interface).and_then(|own| own.link_local);
        if local.is_some_and(|local| address == local) && self.has_waiting_virtual_routers() {
            self.review_virtual_routers();
        }
    }

    /// Announces an address on its link (RFC 5227 3, RFC 4861 7.2.6).
    fn announce(&mut self, (interface, address): Key) {
        if self.is_inactive_vrrp_address(interface, address) {
            // Its virtual router announces it when it becomes active.
            return;
        }
        let Some(link) = self.link_for(interface, address) else { return };
        let frame = match address {
            IpAddr::V4(ip) => link.announce(ip),
            // Link-local addresses need no announcement.
            IpAddr::V6(ip) if ip.is_unicast_link_local() => return,
            IpAddr::V6(ip) => link.advertise(ip, Ipv6Addr::UNSPECIFIED, [0; 6], true),
        };
        self.send_frame(interface, &frame);
    }

    /// Whether another host has the address, so that it is not used.
    pub(super) fn is_duplicate(&self, key: Key) -> bool {
        self.capabilities.duplicate_detection.duplicates.contains(&(key.1, key.0))
    }

    /// The interfaces that have an address which is disabled there as a duplicate.
    pub(super) fn with_duplicate(&self, address: IpAddr) -> impl Iterator<Item = u32> + use<'_> {
        let all = &self.capabilities.duplicate_detection.duplicates;
        all.range((address, 0)..=(address, u32::MAX)).map(|(_, interface)| *interface)
    }

    /// Whether detection is in progress.
    pub(super) fn is_tentative(&self, key: Key) -> bool {
        let status =
            self.capabilities.duplicate_detection.entries.get(&key).map(|entry| entry.status);
        matches!(status, Some(AddressStatus::Tentative(..)))
    }

    /// The earliest time at which the link-local address of an interface can be preferred; `None`: it is, or
    /// detection is off.
    pub(super) fn tentative_until(&self, interface: u32) -> Option<Millis> {
        let asks = self.interface(interface)?.desired.ip6.duplicate_detection > 0;
        if !asks || self.is_tunnel(interface) {
            return None;
        }
        let local = self.addresses.of(interface)?.link_local?;
        match self
            .capabilities
            .duplicate_detection
            .entries
            .get(&(interface, local.into()))
            .map(|entry| entry.status)
        {
            Some(AddressStatus::Tentative(left, at)) => {
                Some(at + Millis::from(left) * PROBE_INTERVAL_MS)
            }
            Some(AddressStatus::Preferred | AddressStatus::Duplicate) => None,
            None => Some(self.now()),
        }
    }

    /// The link-local address of an interface unless it is tentative. Addresses that others store for long
    /// must not be tentative (RFC 4862 5.4).
    pub(super) fn confirmed_link_local(&self, interface: u32) -> Option<Ipv6Addr> {
        let address = self.addresses.of(interface)?.link_local?;
        self.tentative_until(interface).is_none().then_some(address)
    }

    /// Whether a probe is our own, looped back by the link.
    pub(super) fn is_own_nonce(&self, key: Key, nonce: &[u8]) -> bool {
        self.capabilities
            .duplicate_detection
            .entries
            .get(&key)
            .is_some_and(|entry| entry.nonce == *nonce)
    }

    /// The status of an address in ietf-ip.
    pub(super) fn address_status(&self, key: Key) -> &'static str {
        match self.capabilities.duplicate_detection.entries.get(&key).map(|entry| entry.status) {
            Some(AddressStatus::Tentative(..)) => "tentative",
            Some(AddressStatus::Preferred) => "preferred",
            Some(AddressStatus::Duplicate) => "duplicate",
            None => "",
        }
    }

    /// Handles a packet of another host that claims or probes one of our addresses.
    pub(super) fn address_conflict(&mut self, key: Key, mac: &str) {
        self.count_drop(Drop::AddressConflict);
        if self.is_tentative(key) {
            return self.mark_duplicate(key, mac);
        }
        let now = self.now();
        let Some(entry) = self.capabilities.duplicate_detection.entries.get_mut(&key) else {
            return;
        };
        // RFC 5227 2.4 (c): a router keeps its address, and defends it at most once in an interval.
        if entry.status == AddressStatus::Preferred
            && entry.last_defended.is_none_or(|at| now >= at + DEFEND_INTERVAL_MS)
        {
            entry.last_defended = Some(now);
            self.announce(key);
        }
        if self
            .capabilities
            .duplicate_detection
            .last_conflict_log
            .is_none_or(|last_log| now >= last_log + CONFLICT_LOG_INTERVAL_MS)
        {
            self.capabilities.duplicate_detection.last_conflict_log = Some(now);
            tracing::warn!(address = %key.1, mac, "address conflict: another host uses our address; change one of them");
        }
    }

    /// Disables a tentative address that another host has.
    pub(super) fn mark_duplicate(&mut self, key: Key, mac: &str) {
        if let Some(entry) = self.capabilities.duplicate_detection.entries.get_mut(&key) {
            entry.status = AddressStatus::Duplicate;
            self.capabilities.duplicate_detection.tentative.remove(&key);
            self.capabilities.duplicate_detection.duplicates.insert((key.1, key.0));
            self.publish_again(key.0);
        }
        let interface = self.interface(key.0).map(|state| state.name.clone());
        tracing::error!(
            address = %key.1,
            interface = interface.unwrap_or_default(),
            mac,
            "duplicate address: another host uses it; it is disabled until the link goes down and up"
        );
        self.deliver_locally(key, SpecialNextHop::Blackhole);
        self.publish_interfaces();
    }

    /// Sets whether packets to one of our addresses are delivered or dropped.
    fn deliver_locally(&mut self, (interface, address): Key, special: SpecialNextHop) {
        let Some(slot) = self.interface(interface).map(|state| state.vrf) else { return };
        let prefix = host(address);
        if self.vrfs.route(slot, &prefix).is_some() {
            // Replaces an existing prefix, which needs no space.
            let _ = self.fib.insert(slot, prefix, self.fib.special(special));
            self.fib.settle();
        }
    }
}
