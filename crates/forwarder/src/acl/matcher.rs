//! Finds the first rule that a packet matches.

use super::fields::{Family, Fields, Part};

/// No rule matches.
pub const MISS: u32 = u32::MAX;

/// Which parts of packets a rule matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fragments {
    /// All packets.
    #[default]
    Any,
    /// Whole packets.
    None,
    /// First fragments.
    First,
    /// Other fragments.
    Later,
    /// All fragments.
    All,
}

impl Fragments {
    /// Whether a part matches.
    #[inline]
    pub fn matches(self, part: Part) -> bool {
        match self {
            Self::Any => true,
            Self::None => part == Part::Whole,
            Self::First => part == Part::First,
            Self::Later => part == Part::Later,
            Self::All => part != Part::Whole,
        }
    }
}

/// The conditions of a rule; all of them must hold. `K` is an address in host byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions<K> {
    /// Network and mask of the source.
    pub source: (K, K),
    /// Network and mask of the destination.
    pub destination: (K, K),
    /// The code point.
    pub dscp: Option<u8>,
    /// The upper protocol.
    pub protocol: Option<u8>,
    /// First and last source port, or type of ICMP; a whole range also matches packets without ports.
    pub source_ports: (u16, u16),
    /// First and last destination port, or code of ICMP.
    pub destination_ports: (u16, u16),
    /// Flags of TCP: value and mask.
    pub tcp_flags: (u8, u8),
    /// Parts of packets.
    pub fragments: Fragments,
    /// Shortest and longest packet.
    pub length: (u16, u16),
}

impl<K: Default> Default for Conditions<K> {
    /// Matches all packets.
    fn default() -> Self {
        Self {
            source: Default::default(),
            destination: Default::default(),
            dscp: None,
            protocol: None,
            source_ports: (0, u16::MAX),
            destination_ports: (0, u16::MAX),
            tcp_flags: (0, 0),
            fragments: Fragments::Any,
            length: (0, u16::MAX),
        }
    }
}

#[inline]
fn is_within((first, last): (u16, u16), value: u16) -> bool {
    first <= value && value <= last
}

impl<K: Family> Conditions<K> {
    /// Whether it looks at the header of the upper layer.
    pub fn needs_upper(&self) -> bool {
        let all = (0, u16::MAX);
        self.source_ports != all || self.destination_ports != all || self.tcp_flags.1 != 0
    }

    /// Whether a packet matches.
    pub fn matches(&self, fields: &Fields<K>) -> bool {
        fields.source.is_in(self.source.0, self.source.1)
            && fields.destination.is_in(self.destination.0, self.destination.1)
            && self.dscp.is_none_or(|dscp| dscp == fields.dscp)
            && self.protocol.is_none_or(|protocol| u16::from(protocol) == fields.protocol)
            && self.fragments.matches(fields.part)
            && is_within(self.length, fields.length)
            && (!self.needs_upper()
                || fields.has_upper()
                    && is_within(self.source_ports, fields.ports.0)
                    && is_within(self.destination_ports, fields.ports.1)
                    && fields.tcp_flags & self.tcp_flags.1 == self.tcp_flags.0)
    }
}

/// The rules of a classifier, in order.
#[derive(Clone, Debug, Default)]
pub struct Matcher<K> {
    /// The conditions, each with the number of its rule, which rises. A rule with several ranges of ports has several.
    entries: Vec<(Conditions<K>, u32)>,
}

impl<K: Family> Matcher<K> {
    /// Of conditions, each with the number of its rule.
    pub fn new(entries: Vec<(Conditions<K>, u32)>) -> Self {
        Self { entries }
    }

    /// The number of the first rule that a packet matches, or [`MISS`].
    pub fn first(&self, fields: &Fields<K>) -> u32 {
        let found = self.entries.iter().find(|(conditions, _)| conditions.matches(fields));
        found.map_or(MISS, |(_, rule)| *rule)
    }

    /// The same for several packets, in one pass over the rules.
    pub fn classify(&self, lanes: &[u8], fields: &[Fields<K>], found: &mut [u32]) {
        for lane in lanes {
            let lane = usize::from(*lane);
            found[lane] = self.first(&fields[lane]);
        }
    }
}
