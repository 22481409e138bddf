//! IPv6 router advertisements (RFC 4861 6.2) and IPv4 router discovery (RFC 1256): what is advertised and
//! when, and the final advertisement before the router stops.

mod receive;
mod schedule;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, Ipv6Addr};

use stoa_api::audit::{self, Tally};
use stoa_api::v1;
use stoa_wire::checksum::Pseudo;
use stoa_wire::ethernet::{Mac, ethertype};
use stoa_wire::{ipv4, ipv6, irdp, ndp, protocol};

use super::capability::{Capability, Punted, Start, Step, Verbs};
use super::desired::{self, message};
use super::forwarder_state::ForwarderState;
use super::punts::is_ip4;
use crate::ethernet::interface_flags::{ADVERTISE6, DISCOVERY4};
use crate::neighbor::entry::Millis;
use crate::punt::Class;
use schedule::{Intervals, Schedule};

/// Longest delay of an answer, IPv4 and IPv6: MAX_RESPONSE_DELAY, MAX_RA_DELAY_TIME.
const MAX_RESPONSE_DELAY_MS: [Millis; 2] = [2000, 500];
/// Shortest interval between two advertisements, IPv4 and IPv6: RFC 1256 has none; MIN_DELAY_BETWEEN_RAS.
const MIN_GAP_MS: [Millis; 2] = [1000, 3000];

/// How often a tentative source address is checked again.
const RECHECK_MS: Millis = 100;

/// The advertisement of an interface and family.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AdvertisementConfig {
    Ip6(desired::Advertisement),
    Ip4(desired::Discovery),
}

impl AdvertisementConfig {
    fn intervals(&self) -> Intervals {
        let (at, interval_ms) = match self {
            Self::Ip4(config) => (0, config.interval_ms),
            Self::Ip6(config) => (1, config.interval_ms),
        };
        Intervals {
            interval_ms,
            max_response_delay_ms: MAX_RESPONSE_DELAY_MS[at],
            min_gap_ms: MIN_GAP_MS[at],
        }
    }
}

/// One interface and family that advertises.
struct Advertiser {
    config: AdvertisementConfig,
    schedule: Schedule,
    sent: u64,
    solicitations: u64,
    inconsistent: u64,
    /// When an inconsistency was last logged.
    logged_at: Option<Millis>,
}

/// An interface, and whether it is IPv6.
type Key = (u32, bool);

/// All that advertise.
#[derive(Default)]
pub(super) struct Advertisers {
    by_key: BTreeMap<Key, Advertiser>,
    /// When each is due: the loop of the control thread asks for the first in every iteration.
    by_due: BTreeSet<(Millis, Key)>,
}

impl Advertisers {
    fn get(&self, key: Key) -> Option<&Advertiser> {
        self.by_key.get(&key)
    }

    /// Changes an advertiser; `None`: there is none.
    fn change<T>(&mut self, key: Key, change: impl FnOnce(&mut Advertiser) -> T) -> Option<T> {
        let advertiser = self.by_key.get_mut(&key)?;
        let before = advertiser.schedule.due();
        let result = change(advertiser);
        let due = advertiser.schedule.due();
        if due != before {
            self.by_due.remove(&(before, key));
            self.by_due.insert((due, key));
        }
        Some(result)
    }

    fn insert(&mut self, key: Key, advertiser: Advertiser) {
        self.remove(key);
        self.by_due.insert((advertiser.schedule.due(), key));
        self.by_key.insert(key, advertiser);
    }

    fn remove(&mut self, key: Key) {
        if let Some(advertiser) = self.by_key.remove(&key) {
            self.by_due.remove(&(advertiser.schedule.due(), key));
        }
    }

    /// Those that are due.
    fn due(&self, now: Millis) -> Vec<Key> {
        self.by_due.iter().take_while(|(at, _)| *at <= now).map(|(_, key)| *key).collect()
    }
}

impl Capability for Advertisers {
    const VERBS: Verbs = Verbs {
        retire: ForwarderState::retire_advertising,
        review: |state, changed| {
            for index in changed {
                state.review_advertising(*index);
                state.pause(1);
            }
        },
        flags: |_, _, state| {
            let bit = |on: bool, bit: u32| if on { bit } else { 0 };
            bit(state.desired.ip4.discovery.is_some(), DISCOVERY4)
                | bit(state.desired.ip6.advertisement.is_some(), ADVERTISE6)
        },
        punts: &[Punted {
            class: Class::Solicitation,
            takes: is_ip4,
            receive: |state, _, packet| state.receive_router_discovery(&packet),
        }],
        run_due: ForwarderState::tick_advertising,
        due_in: |state| state.time_until(state.advertising_due()),
        end: ForwarderState::end_advertising,
        facts: |state, index, facts| {
            facts.advertising = state.advertising_state(index, true);
            facts.discovery = state.advertising_state(index, false);
        },
        entries_of: ForwarderState::add_advertising_entries,
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

fn random() -> u64 {
    RandomState::new().hash_one("chance")
}

/// The configured advertisements of an interface, IPv4 and IPv6.
fn configured_for(interface: &desired::Interface) -> [Option<AdvertisementConfig>; 2] {
    let four = interface.ip4.discovery.clone().filter(|_| interface.ip4.enabled);
    let is_ip6 = interface.ip6.advertisement.clone().filter(|_| interface.ip6.enabled);
    [four.map(AdvertisementConfig::Ip4), is_ip6.map(AdvertisementConfig::Ip6)]
}

impl ForwarderState {
    /// Sends final advertisements where advertising ends; runs before interfaces change.
    fn retire_advertising(&mut self, step: &Step<'_>) {
        let mut gone = Vec::new();
        for name in step.touched.interfaces.keys() {
            let Some(index) = self.index_of(name) else { continue };
            let interface =
                step.desired().interfaces.get(name).filter(|interface| interface.enabled);
            let configured = interface.map(configured_for).unwrap_or_default();
            for (config, is_ip6) in configured.into_iter().zip([false, true]) {
                if config.is_none() && self.capabilities.advertising.get((index, is_ip6)).is_some()
                {
                    gone.push((index, is_ip6));
                }
            }
        }
        for key in &gone {
            self.advertise(*key, true);
            self.capabilities.advertising.remove(*key);
        }
        if !gone.is_empty() {
            self.flush();
        }
    }

    /// Starts advertising on an interface where it is configured, and sends changes.
    fn review_advertising(&mut self, interface: u32) {
        let now = self.now();
        let state = self.interface(interface).filter(|state| state.is_up);
        let state = state.filter(|_| !self.is_tunnel(interface));
        let configured = state.map(|state| configured_for(&state.desired)).unwrap_or_default();
        for (config, is_ip6) in configured.into_iter().zip([false, true]) {
            let key = (interface, is_ip6);
            let Some(config) = config else {
                self.capabilities.advertising.remove(key);
                continue;
            };
            if self.capabilities.advertising.get(key).is_none() {
                let advertiser = Advertiser {
                    config,
                    schedule: Schedule::begin(now),
                    sent: 0,
                    solicitations: 0,
                    inconsistent: 0,
                    logged_at: None,
                };
                self.capabilities.advertising.insert(key, advertiser);
                continue;
            }
            self.capabilities.advertising.change(key, |advertiser| {
                if advertiser.config != config {
                    advertiser.schedule.renew(now, &config.intervals());
                    advertiser.config = config;
                }
            });
        }
    }

    /// Forgets the advertisers of a family, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(super) fn lose_advertiser(&mut self, is_ip6: bool) {
        let all = self.capabilities.advertising.by_key.keys().copied();
        for key in all.filter(|key| key.1 == is_ip6).collect::<Vec<_>>() {
            self.capabilities.advertising.remove(key);
        }
    }

    /// Adds what an interface advertises to an audit. While its link is down, it advertises nothing, and what is
    /// configured counts.
    fn add_advertising_entries(&self, index: u32, tally: &mut Tally) {
        let Some(interface) = self.interface(index).filter(|_| !self.is_tunnel(index)) else {
            return;
        };
        let configured = configured_for(&interface.desired);
        for (configured, is_ip6) in configured.into_iter().zip([false, true]) {
            let held = match interface.is_up {
                true => {
                    self.capabilities.advertising.get((index, is_ip6)).map(|it| it.config.clone())
                }
                false => configured,
            };
            match held {
                Some(AdvertisementConfig::Ip6(it)) => {
                    let it = message::advertisement(&it);
                    audit::router_advertisement(tally, &interface.name, it);
                }
                Some(AdvertisementConfig::Ip4(it)) => {
                    audit::router_discovery(tally, &interface.name, message::discovery(&it));
                }
                None => {}
            }
        }
    }

    /// Advertises soon again because the router of an interface has changed.
    pub(super) fn renew_advertising(&mut self, interface: u32) {
        let now = self.now();
        self.capabilities.advertising.change((interface, true), |advertiser| {
            advertiser.schedule.renew(now, &advertiser.config.intervals());
        });
    }

    /// Sends the advertisements that are due.
    fn tick_advertising(&mut self) {
        let now = self.now();
        for key in self.capabilities.advertising.due(now) {
            if let Some(until) = self.source_tentative_until(key) {
                // The initial advertisements and answers are delayed, not skipped.
                let until = until.max(now + RECHECK_MS);
                self.capabilities
                    .advertising
                    .change(key, |advertiser| advertiser.schedule.hold(until));
                continue;
            }
            let is_sent = self.advertise(key, false);
            self.capabilities.advertising.change(key, |advertiser| {
                advertiser.sent += u64::from(is_sent);
                advertiser.schedule.sent(now, &advertiser.config.intervals(), random());
            });
        }
    }

    /// Until when the link-local address of an interface is tentative: no router advertisement may use it as
    /// source (RFC 4861 6.1.2, RFC 4862 5.4).
    fn source_tentative_until(&self, (interface, is_ip6): (u32, bool)) -> Option<Millis> {
        if !is_ip6 || self.has_virtual_routers(interface, true) {
            return None;
        }
        self.tentative_until(interface)
    }

    /// When the next advertisement is due.
    fn advertising_due(&self) -> Option<Millis> {
        self.capabilities.advertising.by_due.first().map(|(at, _)| *at)
    }

    /// Sends the final advertisement on all interfaces.
    fn end_advertising(&mut self) {
        for key in self.capabilities.advertising.by_key.keys().copied().collect::<Vec<_>>() {
            self.advertise(key, true);
        }
        self.capabilities.advertising = Advertisers::default();
    }

    /// Sends one advertisement. `false`: no source address.
    fn advertise(&mut self, (interface, is_ip6): (u32, bool), is_last: bool) -> bool {
        let Some(advertiser) = self.capabilities.advertising.get((interface, is_ip6)) else {
            return false;
        };
        let frame = match &advertiser.config {
            AdvertisementConfig::Ip4(config) => self.discovery_frame(interface, config, is_last),
            AdvertisementConfig::Ip6(config) => {
                self.advertisement_frame(interface, config, is_last)
            }
        };
        let Some(frame) = frame else { return false };
        self.send_frame(interface, &frame);
        true
    }

    fn advertisement_frame(
        &self,
        interface: u32,
        config: &desired::Advertisement,
        is_last: bool,
    ) -> Option<Vec<u8>> {
        if is_last && self.has_virtual_routers(interface, true) {
            // The virtual router stays reachable through its other routers.
            return None;
        }
        let (source, link) = self.advertiser(interface)?;
        Some(frame6(&link, source, config, is_last)).filter(|frame| !frame.is_empty())
    }

    fn discovery_frame(
        &self,
        interface: u32,
        config: &desired::Discovery,
        is_last: bool,
    ) -> Option<Vec<u8>> {
        let link = &self.interface(interface)?.link;
        let own = &self.addresses.of(interface)?.ip4;
        let addresses =
            own.iter().take(irdp::MOST).map(|(address, _)| (*address, config.preference));
        let addresses: Vec<_> = addresses.collect();
        let (source, _) = addresses.first()?;
        let (to, mac) = match config.broadcast {
            true => (Ipv4Addr::BROADCAST, Mac::BROADCAST),
            false => (irdp::ALL_SYSTEMS, Mac::of_ip4_group(irdp::ALL_SYSTEMS)),
        };
        let mut packet = vec![0; ipv4::LENGTH + 8 + 8 * addresses.len()];
        let (head, body) = packet.split_at_mut(ipv4::LENGTH);
        let lifetime_s = if is_last { 0 } else { config.lifetime_s };
        let length = irdp::build_advertisement(body, lifetime_s, &addresses).ok()?;
        let header =
            ipv4::Builder { time_to_live: 1, ..ipv4::Builder::new(*source, to, protocol::ICMP4) };
        header.build(head, length).ok()?;
        Some([&link.header(mac.0, ethertype::IP4), &packet[..]].concat())
    }

    /// The operational state.
    fn advertising_state(&self, interface: u32, is_ip6: bool) -> Option<v1::AdvertisingState> {
        let advertiser = self.capabilities.advertising.get((interface, is_ip6))?;
        Some(v1::AdvertisingState {
            sent: advertiser.sent,
            solicitations: advertiser.solicitations,
            inconsistent: advertiser.inconsistent,
            next_ms: advertiser.schedule.due().saturating_sub(self.now()),
        })
    }
}

/// A router advertisement to all nodes, as a frame.
fn frame6(
    link: &crate::neighbor::messages::Link,
    source: Ipv6Addr,
    config: &desired::Advertisement,
    is_last: bool,
) -> Vec<u8> {
    let to = ipv6::ALL_NODES;
    let mut packet = [0; ipv6::LEAST_MTU];
    let (head, body) = packet.split_at_mut(ipv6::LENGTH);
    let pseudo = Pseudo::Ip6 { source, destination: to };
    let length = config.build(body, &pseudo, link.mac, is_last);
    let header = ipv6::Builder {
        hop_limit: ndp::HOP_LIMIT,
        ..ipv6::Builder::new(source, to, protocol::ICMP6)
    };
    // `DesiredState::parse` has checked that it fits.
    if length == 0 || header.build(head, length).is_err() {
        return Vec::new();
    }
    let frame = link.header(Mac::of_ip6_group(to).0, ethertype::IP6);
    [&frame, &packet[..ipv6::LENGTH + length]].concat()
}
