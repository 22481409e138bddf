//! The longest mapping of an address: a hash table for each mask, the longest mask first. Most tables have few lengths,
//! and most of their entries the longest ones, which a walk along the bits finds last. It never changes: the control
//! thread publishes another one.

/// Spreads the bits of addresses: the golden ratio.
const MULTIPLIER: u128 = 0x9e37_79b9_7f4a_7c15;

/// Entries with one mask.
#[derive(Debug)]
struct Group {
    mask: u128,
    /// Number of an entry and 1; 0: nothing. At most half of them are taken.
    slots: Box<[u32]>,
}

/// Networks by their masks. IPv4 networks have the lower bits alone.
#[derive(Debug, Default)]
pub struct ByMask {
    networks: Vec<u128>,
    /// Those with the longest mask first.
    groups: Vec<Group>,
}

/// Where to begin to look.
#[inline(always)]
fn hash(network: u128) -> usize {
    let word = (network >> 64) as u64 ^ (network as u64).rotate_left(29);
    let product = u128::from(word) * MULTIPLIER;
    ((product >> 64) as u64 ^ product as u64) as usize
}

impl ByMask {
    /// A table of networks and their masks, whose numbers are their places. Of equal ones, the first counts.
    pub fn new(entries: &[(u128, u128)]) -> Self {
        let mut masks: Vec<u128> = entries.iter().map(|it| it.1).collect();
        masks.sort_unstable_by_key(|it| (u32::MAX - it.count_ones(), *it));
        masks.dedup();
        let group = |mask: u128| {
            let of_group = || entries.iter().enumerate().filter(move |(_, it)| it.1 == mask);
            let places = (2 * of_group().count()).next_power_of_two();
            let mut slots = vec![0; places].into_boxed_slice();
            for (number, (network, _)) in of_group() {
                let mut at = hash(*network) & (places - 1);
                while slots[at] != 0 && entries[slots[at] as usize - 1].0 != *network {
                    at = (at + 1) & (places - 1);
                }
                if slots[at] == 0 {
                    slots[at] = number as u32 + 1;
                }
            }
            Group { mask, slots }
        };
        let groups = masks.into_iter().map(group).collect();
        Self { networks: entries.iter().map(|it| it.0).collect(), groups }
    }

    /// The number of the entry with the longest mask that has an address.
    #[inline]
    pub fn find(&self, address: u128) -> Option<usize> {
        self.groups.iter().find_map(|group| {
            let network = address & group.mask;
            let last = group.slots.len() - 1;
            let mut at = hash(network) & last;
            loop {
                let number = (*group.slots.get(at)?).checked_sub(1)? as usize;
                if self.networks.get(number) == Some(&network) {
                    return Some(number);
                }
                at = (at + 1) & last;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mask(length: u32) -> u128 {
        u128::MAX.checked_shr(length).map_or(u128::MAX, |it| !it)
    }

    proptest! {
        /// Few bits, so that networks meet and are equal.
        #[test]
        fn it_finds_what_a_search_through_all_finds(
            entries in prop::collection::vec((0..64_u128, 118..=128_u32), 0..60),
            addresses in prop::collection::vec(0..64_u128, 0..80),
            high in prop::sample::select(vec![0_u128, 0x2001_0db8 << 96]),
        ) {
            let entries: Vec<(u128, u128)> = entries
                .iter()
                .map(|(low, length)| ((high | low << 4) & mask(*length), mask(*length)))
                .collect();
            let table = ByMask::new(&entries);
            for address in addresses.into_iter().map(|it| high | it << 4) {
                let mut longest: Option<usize> = None;
                for (at, (network, mask)) in entries.iter().enumerate() {
                    let is_longer = longest.is_none_or(|it| entries[it].1.count_ones() < mask.count_ones());
                    if address & mask == *network && is_longer {
                        longest = Some(at);
                    }
                }
                prop_assert_eq!(table.find(address), longest);
            }
        }
    }

    #[test]
    fn an_empty_table_finds_nothing() {
        assert_eq!(ByMask::new(&[]).find(7), None);
        assert_eq!(ByMask::new(&[(0, 0)]).find(7), Some(0));
    }
}
