//! Our own addresses on their links: asked about before they are trusted (RFC 4862 5.4,
//! RFC 5227 2.1), announced (RFC 5227 3, RFC 4861 7.2.6), defended (RFC 5227 2.4), and
//! given up when somebody else has them. An address is in use from the first moment, as
//! RFC 4429 has it: a router that is started anew must not wait (decision 13).

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};

use stoa_wire::ethernet::Mac;

use crate::control::fib::host;
use crate::control::plane::Plane;
use crate::drops::Drop;
use crate::neighbor::entry::{Key, Millis};
use crate::shared::Verdict;

/// Time between two questions: RETRANS_TIMER; PROBE_MIN of RFC 5227.
const PROBE_MS: Millis = 1000;
/// Time between two defences of an address: DEFEND_INTERVAL.
const DEFEND_MS: Millis = 10_000;
/// Time between two words in the log about an address that somebody else has.
const CONFLICT_PAUSE_MS: Millis = 60_000;

/// How sure we are of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// So many more questions, the next at this time; then it is ours.
    Tentative(u8, Millis),
    /// Ours.
    Held,
    /// Somebody else has it: not used.
    Duplicate,
}

/// One of our addresses on one interface.
pub(in crate::control) struct Claim {
    standing: Standing,
    /// In our questions: whoever sends them back did not make them.
    nonce: [u8; 6],
    defended: Option<Millis>,
}

fn nonce() -> [u8; 6] {
    let [a, b, c, d, e, f, ..] = RandomState::new().hash_one("nonce").to_le_bytes();
    [a, b, c, d, e, f]
}

impl Plane {
    /// Looks at the addresses of all interfaces: those that are new on a link are asked
    /// about or announced, those that are gone are forgotten.
    pub(in crate::control) fn review_claims(&mut self) {
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
                    if self.is_shared(index as u32, address) { 0 } else { probes }
                };
                desired.extend(own.map(|address| ((index as u32, address), probes(address))));
            }
            let probes = state.desired.ip6.duplicate_detection;
            if state.desired.ip6.enabled && probes > 0 {
                let local = IpAddr::V6(Mac(state.link.mac).link_local());
                desired.insert((index as u32, local), probes);
            }
        }
        let gone = self.claims.keys().filter(|key| !desired.contains_key(key));
        let gone: Vec<Key> = gone.copied().collect();
        for key in gone {
            self.unclaim(key);
        }
        for (key, probes) in desired {
            if !self.claims.contains_key(&key) {
                let standing = Standing::Tentative(probes, self.now());
                self.claims.insert(key, Claim { standing, nonce: nonce(), defended: None });
                self.next_step(key);
            }
        }
    }

    /// The link of an interface went, or its MAC address changed: nothing is sure there.
    pub(in crate::control) fn unclaim_all(&mut self, interface: u32) {
        let of_it: Vec<Key> =
            self.claims.keys().filter(|key| key.0 == interface).copied().collect();
        for key in of_it {
            self.unclaim(key);
        }
    }

    fn unclaim(&mut self, key: Key) {
        let was_duplicate = self.is_duplicate(key);
        self.claims.remove(&key);
        if was_duplicate {
            self.deliver_locally(key, Verdict::Local);
            self.publish_interfaces();
        }
    }

    /// Asks what is due.
    pub(in crate::control) fn tick_claims(&mut self) {
        let now = self.now();
        let is_due =
            |claim: &Claim| matches!(claim.standing, Standing::Tentative(_, at) if now >= at);
        let due: Vec<Key> =
            self.claims.iter().filter(|(_, claim)| is_due(claim)).map(|(key, _)| *key).collect();
        for key in due {
            self.next_step(key);
        }
    }

    /// The next question about an address, or its announcement after the last.
    fn next_step(&mut self, key: Key) {
        let at = self.now() + PROBE_MS;
        let Some(claim) = self.claims.get_mut(&key) else { return };
        let Standing::Tentative(left, _) = claim.standing else { return };
        if left == 0 {
            claim.standing = Standing::Held;
            self.announce(key);
            return self.follow_claim(key);
        }
        claim.standing = Standing::Tentative(left - 1, at);
        let nonce = claim.nonce;
        let frame = self.interface(key.0).map(|state| state.link.probe(key.1, nonce));
        self.send_frame(key.0, &frame.unwrap_or_default());
    }

    /// An address is ours alone now: virtual routers that have waited for it begin.
    fn follow_claim(&mut self, (interface, address): Key) {
        let local = self.addresses.of(interface).and_then(|own| own.link_local);
        if local.is_some_and(|local| address == local) && self.has_silent_virtual_routers() {
            self.review_virtual_routers();
        }
    }

    /// Tells the link that an address is ours (RFC 5227 3, RFC 4861 7.2.6).
    fn announce(&mut self, (interface, address): Key) {
        if self.is_shared_away(interface, address) {
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
        self.claims.get(&key).is_some_and(|claim| claim.standing == Standing::Duplicate)
    }

    /// The addresses that are not used because somebody else has them; few, if any.
    pub(in crate::control) fn duplicates(&self) -> impl Iterator<Item = Key> {
        let is_duplicate = |claim: &Claim| claim.standing == Standing::Duplicate;
        self.claims.iter().filter(move |(_, claim)| is_duplicate(claim)).map(|(key, _)| *key)
    }

    /// Whether nobody has answered yet whether the address is free.
    pub(super) fn is_tentative(&self, key: Key) -> bool {
        let standing = self.claims.get(&key).map(|claim| claim.standing);
        matches!(standing, Some(Standing::Tentative(..)))
    }

    /// Until when, at the earliest, nobody can know whether the link-local address of an interface
    /// is ours alone; `None`: it is, or nobody asks.
    pub(in crate::control) fn unsure_until(&self, interface: u32) -> Option<Millis> {
        let asks = self.interface(interface)?.desired.ip6.duplicate_detection > 0;
        if !asks || self.is_tunnel(interface) {
            return None;
        }
        let local = self.addresses.of(interface)?.link_local?;
        match self.claims.get(&(interface, local.into())).map(|claim| claim.standing) {
            Some(Standing::Tentative(left, at)) => Some(at + Millis::from(left) * PROBE_MS),
            Some(Standing::Held | Standing::Duplicate) => None,
            None => Some(self.now()),
        }
    }

    /// The link-local address of an interface, once it is sure that it is ours alone. What others
    /// keep for long must not come from an address that may be somebody else's (RFC 4862 5.4).
    pub(in crate::control) fn sure_link_local(&self, interface: u32) -> Option<Ipv6Addr> {
        let address = self.addresses.of(interface)?.link_local?;
        self.unsure_until(interface).is_none().then_some(address)
    }

    /// Whether a question about an address is our own, sent back by the link.
    pub(super) fn is_own_nonce(&self, key: Key, nonce: &[u8]) -> bool {
        self.claims.get(&key).is_some_and(|claim| claim.nonce == *nonce)
    }

    /// How an address stands, for an operator.
    pub(in crate::control) fn standing_of(&self, key: Key) -> &'static str {
        match self.claims.get(&key).map(|claim| claim.standing) {
            Some(Standing::Tentative(..)) => "tentative",
            Some(Standing::Held) => "preferred",
            Some(Standing::Duplicate) => "duplicate",
            None => "",
        }
    }

    /// Somebody else says that it has one of our addresses, or asks for it as we do.
    pub(super) fn contested(&mut self, key: Key, mac: &str) {
        self.drop_here(Drop::AddressConflict);
        if self.is_tentative(key) {
            return self.give_up(key, mac);
        }
        let now = self.now();
        let Some(claim) = self.claims.get_mut(&key) else { return };
        // RFC 5227 2.4 (c): a router must keep its address. It says so now and then.
        if claim.standing == Standing::Held && claim.defended.is_none_or(|at| now >= at + DEFEND_MS)
        {
            claim.defended = Some(now);
            self.announce(key);
        }
        if self.conflict_said.is_none_or(|said| now >= said + CONFLICT_PAUSE_MS) {
            self.conflict_said = Some(now);
            tracing::warn!(address = %key.1, mac, "somebody else has our address");
        }
    }

    /// An address turns out to be somebody else's before we were sure of it.
    fn give_up(&mut self, key: Key, mac: &str) {
        if let Some(claim) = self.claims.get_mut(&key) {
            claim.standing = Standing::Duplicate;
        }
        let interface = self.interface(key.0).map(|state| state.name.clone());
        tracing::error!(
            address = %key.1,
            interface = interface.unwrap_or_default(),
            mac,
            "somebody else has our address: it is not used until the link comes again"
        );
        self.deliver_locally(key, Verdict::Blackhole);
        self.publish_interfaces();
    }

    /// Whether packets to an address of ours are taken in, or dropped.
    fn deliver_locally(&mut self, (interface, address): Key, verdict: Verdict) {
        let Some(slot) = self.interface(interface).map(|state| state.vrf) else { return };
        let prefix = host(address);
        if self.vrfs.route(slot, &prefix).is_some() {
            // The prefix is there already: there is room for it.
            let _ = self.fib.insert(slot, prefix, self.fib.verdict(verdict));
            self.fib.settle();
        }
    }
}
