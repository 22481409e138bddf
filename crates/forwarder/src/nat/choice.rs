//! External ports: which ones are tried for a flow or a mapping, in which order.

use stoa_tables::flow_hash::mix;

use super::rewrite::has_free_ports;

/// Random ports that are tried, and those behind the last of them: enough to find one of a few free ones in a small
/// range, and bounded.
const RANDOM: u32 = 32;
const IN_ORDER: u32 = 128;

/// The ports to try for an internal one: the same, then random ones (RFC 6056), of the same parity where the range has
/// it (RFC 4787 REQ-4). Protocols whose ports must stay have only the same.
pub(super) fn ports(
    (first, last): (u16, u16),
    (protocol, port): (u8, u16),
    mut random: impl FnMut() -> u32,
) -> impl Iterator<Item = u16> {
    let is_free = has_free_ports(protocol);
    let same = !is_free || (first..=last).contains(&port);
    let count = u32::from(last.saturating_sub(first)) + 1;
    let mut at = 0;
    // No port is tried again and again.
    let (random_ones, in_order) = (RANDOM.min(count), IN_ORDER.min(count));
    let others = (0..if is_free { random_ones + in_order } else { 0 }).map(move |number| {
        if number < random_ones {
            at = ((u64::from(random()) * u64::from(count)) >> 32) as u32;
        } else {
            at = (at + 1) % count;
            return first + at as u16;
        }
        let chosen = first + at as u16;
        let other = chosen ^ 1;
        let is_other = (chosen ^ port) & 1 == 1 && (first..=last).contains(&other);
        if is_other { other } else { chosen }
    });
    same.then_some(port).into_iter().chain(others)
}

/// All ports of a range from one on, in order.
pub(super) fn whole((first, last): (u16, u16), from: usize) -> impl Iterator<Item = u16> {
    (first..=last).skip(from)
}

/// The hash of a source by which it gets its external address.
pub(super) fn hash(source: u32, vrf: u16) -> u32 {
    mix(mix(source).wrapping_add(vrf.into()))
}

/// Ports to try, in their order.
pub(super) struct Ports {
    all: [u16; Self::MOST],
    count: usize,
}

impl Ports {
    /// More than [`ports`] has.
    pub(super) const MOST: usize = 192;

    pub(super) fn get(&self, at: usize) -> Option<u16> {
        self.all[..self.count].get(at).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u16> {
        self.all[..self.count].iter().copied()
    }
}

impl FromIterator<u16> for Ports {
    fn from_iter<I: IntoIterator<Item = u16>>(ports: I) -> Self {
        let (mut all, mut count) = ([0; Self::MOST], 0);
        for (to, port) in all.iter_mut().zip(ports) {
            *to = port;
            count += 1;
        }
        Self { all, count }
    }
}

#[cfg(test)]
mod tests {
    use stoa_wire::protocol::{TCP, UDP};

    use super::*;

    fn counting() -> impl FnMut() -> u32 {
        let mut word = 0_u32;
        move || {
            word = word.wrapping_add(0x9e37_79b9);
            word
        }
    }

    #[test]
    fn the_same_port_comes_first_and_others_have_its_parity() {
        let all: Vec<u16> = ports((1024, 2047), (UDP, 1501), counting()).collect();
        assert_eq!(all[0], 1501);
        let random = &all[1..=RANDOM as usize];
        assert!(random.iter().all(|port| port % 2 == 1 && (1024..=2047).contains(port)));
        assert!(random.iter().collect::<std::collections::BTreeSet<_>>().len() > 20);
        let low: Vec<u16> = ports((1024, 2047), (TCP, 80), counting()).collect();
        assert!(low.iter().all(|port| (1024..=2047).contains(port)));
    }

    #[test]
    fn a_small_range_is_tried_as_a_whole() {
        for range in [(5000, 5000), (5000, 5063), (65_535, 65_535), (0, 0)] {
            let all: Vec<u16> = ports(range, (TCP, 7), counting()).collect();
            assert!(
                all.len() <= 2 * usize::from(range.1 - range.0) + 3,
                "{range:?}: {}",
                all.len()
            );
            let all: std::collections::BTreeSet<u16> = all.into_iter().collect();
            assert_eq!(all, (range.0..=range.1).collect());
        }
        assert_eq!(ports((1024, 2047), (132, 7), counting()).collect::<Vec<_>>(), [7]);
        assert_eq!(ports((1024, 2047), (47, 0), counting()).collect::<Vec<_>>(), [0]);
    }
}
