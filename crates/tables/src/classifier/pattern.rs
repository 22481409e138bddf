//! A rule as the words of a key are compared with it.

use super::columns::ip6_words;
use super::rule::{ALL_FRAGMENTS, ALL_STATES, Prefix, Range, Rule};

/// The most words of a key.
pub(super) const WORDS: usize = 12;

/// What differs between the families; the words are those of [`columns`](super::columns).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Family {
    /// Words of a key.
    pub(super) words: usize,
    /// Words of a leaf whose rules leave the others open.
    pub(super) basic: usize,
    /// A bit for each word that holds two numbers of 16 bits and is compared with ranges.
    pub(super) ranges: u32,
    /// The word of protocol, flags, DSCP, fragment and state.
    attributes: usize,
}

pub(super) const IP4: Family =
    Family { words: 6, basic: 4, ranges: 1 << 2 | 1 << 5, attributes: 3 };
pub(super) const IP6: Family =
    Family { words: 12, basic: 6, ranges: 1 << 4 | 1 << 11, attributes: 5 };

impl Family {
    /// Whether a word is compared with ranges.
    #[inline(always)]
    pub(super) fn is_range(&self, word: usize) -> bool {
        self.ranges >> word & 1 == 1
    }

    /// Whether a word of a key matches that of a pattern: its value and its mask.
    #[inline(always)]
    pub(super) fn matches(&self, word: usize, (value, mask): (u32, u32), key: u32) -> bool {
        if !self.is_range(word) {
            return (key ^ value) & mask == 0;
        }
        let is_within = |shift: u32| {
            let beyond = ((key >> shift) as u16).wrapping_sub((value >> shift) as u16);
            beyond <= (mask >> shift) as u16
        };
        is_within(0) && is_within(16)
    }
}

/// A rule in words. A word `key` of most kinds matches if `(key ^ values) & masks` is 0. In a word of
/// ranges, each half of `values` is the first number and that of `masks` the last one less the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) values: [u32; WORDS],
    pub(super) masks: [u32; WORDS],
}

impl Pattern {
    /// Adds the bits of a key that decide whether it matches.
    pub(super) fn add_relevant_bits(&self, family: &Family, bits: &mut [u32]) {
        for (word, bits) in bits.iter_mut().enumerate().take(family.words) {
            let mask = self.masks[word];
            *bits |= if family.is_range(word) {
                // A range of all numbers says nothing about its half.
                let half = |of: u32| if mask & of == of { 0 } else { of };
                half(0xffff) | half(0xffff << 16)
            } else {
                mask
            };
        }
    }

    /// What all keys match.
    pub(super) fn any(family: &Family) -> Self {
        let mut any = Self { values: [0; WORDS], masks: [0; WORDS] };
        for word in (0..family.words).filter(|word| family.is_range(*word)) {
            any.masks[word] = u32::MAX;
        }
        any
    }

    /// What no key matches: one whose packet is a fragment of no kind.
    pub(super) fn none(family: &Family) -> Self {
        let mut none = Self::any(family);
        none.masks[family.attributes] = u32::from(ALL_FRAGMENTS) << 22;
        none
    }

    /// A rule that was checked, for one of its families.
    pub(super) fn of(rule: &Rule, family: &Family) -> Self {
        let mut pattern = Self::any(family);
        let attributes = family.attributes;
        pattern.set(attributes - 1, ranges(rule.source_ports, rule.destination_ports));
        pattern.set(attributes, attribute_bits(rule));
        let end = |end: Option<u16>| end.map_or((0, 0), |end| (u32::from(end), 0xffff));
        let ((received, one), (sent, other)) = (end(rule.interface), end(rule.output));
        pattern.set(family.words - 2, (received << 16 | sent, one << 16 | other));
        let vlans = rule.vlan.map_or(Range::ANY, Range::one);
        pattern.set(family.words - 1, ranges(vlans, rule.lengths));
        pattern.set_prefix(rule.source, [0, 0], [0, 1, 6, 7]);
        pattern.set_prefix(rule.destination, [1, 1], [2, 3, 8, 9]);
        pattern
    }

    fn set(&mut self, word: usize, (value, mask): (u32, u32)) {
        self.values[word] = value;
        self.masks[word] = mask;
    }

    fn set_prefix(&mut self, prefix: Option<Prefix>, ip4: [usize; 2], ip6: [usize; 4]) {
        match prefix {
            None => {}
            Some(Prefix::Ip4 { address, len }) => {
                let mask = !u32::MAX.checked_shr(len.into()).unwrap_or(0);
                self.set(ip4[0], (address, mask));
            }
            Some(Prefix::Ip6 { address, len }) => {
                let mask = !u128::MAX.checked_shr(len.into()).unwrap_or(0);
                for (word, both) in
                    ip6.into_iter().zip(ip6_words(address).into_iter().zip(ip6_words(mask)))
                {
                    self.set(word, both);
                }
            }
        }
    }

    /// Whether all keys match in the words beyond the basic ones.
    pub(super) fn is_basic(&self, family: &Family) -> bool {
        let any = Self::any(family);
        (family.basic..family.words).all(|word| self.masks[word] == any.masks[word])
    }
}

fn ranges(upper: Range, lower: Range) -> (u32, u32) {
    let join = |upper: u16, lower: u16| u32::from(upper) << 16 | u32::from(lower);
    (join(upper.first, lower.first), join(upper.last - upper.first, lower.last - lower.first))
}

fn attribute_bits(rule: &Rule) -> (u32, u32) {
    let protocol = rule.protocol.map_or((0, 0), |protocol| (u32::from(protocol), 0xff));
    let dscp = rule.dscp.map_or((0, 0), |dscp| (u32::from(dscp), 63));
    let value = protocol.0 | u32::from(rule.tcp_flags) << 8 | dscp.0 << 16;
    let mask = protocol.1
        | u32::from(rule.tcp_flags_mask) << 8
        | dscp.1 << 16
        | u32::from(ALL_FRAGMENTS & !rule.possible_fragments()) << 22
        | u32::from(ALL_STATES & !rule.states) << 25;
    (value, mask)
}
