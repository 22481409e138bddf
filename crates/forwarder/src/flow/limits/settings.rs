//! What limits of flows there are.

use std::collections::BTreeMap;

use super::NUMBERS;
use crate::drops::Drop;

/// The prefixes of which flows are counted unless others are configured.
pub const PREFIX_LENGTHS: [u8; 2] = [24, 56];

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Live flows.
    Live,
    /// TCP flows that are half open.
    HalfOpen,
    /// New flows in a second.
    New,
}

impl Measure {
    /// All of them, ordered so that `ALL[measure as usize] == measure`.
    pub const ALL: [Self; 3] = [Self::Live, Self::HalfOpen, Self::New];
}

/// Whose flows are limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Of {
    /// Each host: an IPv4 address or an IPv6 /64, in a VRF.
    Host,
    /// Each prefix, in a VRF.
    Prefix,
    /// The zone with this number.
    Zone(u8),
    /// The VRF with this slot.
    Vrf(u8),
}

impl Of {
    /// Its place among all whose refusals are counted.
    pub(super) const fn place(self) -> usize {
        match self {
            Self::Host => 0,
            Self::Prefix => 1,
            Self::Zone(number) => 2 + number as usize,
            Self::Vrf(slot) => 2 + NUMBERS + slot as usize,
        }
    }

    /// Why a first packet is dropped.
    pub const fn reason(self) -> Drop {
        match self {
            Self::Host => Drop::FlowSourceLimit,
            Self::Prefix => Drop::FlowPrefixLimit,
            Self::Zone(_) => Drop::FlowZoneLimit,
            Self::Vrf(_) => Drop::FlowVrfLimit,
        }
    }
}

/// A limit that holds up a first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Whose limit.
    pub of: Of,
    /// Which one.
    pub measure: Measure,
}

/// How many flows somebody may have, by [`Measure`]; `None`: no limit.
pub type Limit = [Option<u32>; Measure::ALL.len()];

/// All limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Of each host.
    pub host: Limit,
    /// Of each prefix.
    pub prefix: Limit,
    /// The length of these prefixes, IPv4 and IPv6.
    pub lengths: [u8; 2],
    /// Of zones by their numbers.
    pub zones: BTreeMap<u8, Limit>,
    /// Of VRFs by their slots.
    pub vrfs: BTreeMap<u8, Limit>,
    /// These VRFs as in keys of flows; without it, the slot alone.
    pub vrf_keys: BTreeMap<u8, u16>,
}

pub(super) fn is_any(limit: &Limit) -> bool {
    limit.iter().any(Option::is_some)
}

impl Limits {
    /// Whether something is limited.
    pub fn is_any(&self) -> bool {
        let mut named = self.zones.values().chain(self.vrfs.values());
        is_any(&self.host) || is_any(&self.prefix) || named.any(is_any)
    }

    /// All that have limits.
    pub fn all(&self) -> impl Iterator<Item = (Of, &Limit)> {
        let zones = self.zones.iter().map(|(number, limit)| (Of::Zone(*number), limit));
        let vrfs = self.vrfs.iter().map(|(slot, limit)| (Of::Vrf(*slot), limit));
        let each = [(Of::Host, &self.host), (Of::Prefix, &self.prefix)];
        each.into_iter().chain(zones).chain(vrfs).filter(|(_, limit)| is_any(limit))
    }

    /// Whether the same flows are counted for the same.
    pub(super) fn counts_as(&self, other: &Self) -> bool {
        self.all().map(|it| it.0).eq(other.all().map(|it| it.0))
            && self.vrf_keys == other.vrf_keys
            && (self.lengths == other.lengths || !is_any(&self.prefix))
    }
}
