//! The prefixes that are learned, and for each an address that no more specific one has: a packet to it proves that very prefix.

use super::hops::DEPTHS;

/// Prefixes with what proves them.
#[derive(Debug)]
pub struct Table {
    /// Address in host byte order and length, in ascending order.
    pub prefixes: Vec<(u32, u8)>,
    /// For each an address that only it has; `None`: more specific ones cover all of it.
    pub addresses: Vec<Option<u32>>,
    /// For each in how many others it lies, modulo [`DEPTHS`]: its next hop is another than that of the prefix around it, so that a
    /// packet which that one carried instead is told apart.
    pub depths: Vec<u8>,
}

impl Table {
    /// So many /24 side by side from 20.0.0.0 on, 7,000,000 at most.
    #[must_use]
    pub fn synthetic(count: u32) -> Self {
        Self::new((0..count.min(7_000_000)).map(|at| ((20 << 24) + (at << 8), 24)).collect())
    }

    /// These prefixes, without those that no router takes or that the lab itself needs (198.18.0.0/15, the default route).
    #[must_use]
    pub fn new(mut prefixes: Vec<(u32, u8)>) -> Self {
        prefixes.retain(|prefix| is_fit(*prefix));
        prefixes.sort_unstable();
        prefixes.dedup();
        let mut addresses = vec![None; prefixes.len()];
        let mut depths = Vec::with_capacity(prefixes.len());
        // The prefixes around the one that is looked at: number, last address, first address that no inner one has.
        let mut around: Vec<(usize, u64, u64)> = Vec::new();
        let mut close = |(at, last, free): (usize, u64, u64)| {
            addresses[at] = u32::try_from(free).ok().filter(|_| free <= last);
        };
        for (at, (address, length)) in prefixes.iter().enumerate() {
            let first = u64::from(*address);
            let last = first + (1_u64 << (32 - length)) - 1;
            while around.last().is_some_and(|(_, end, _)| *end < first) {
                around.pop().into_iter().for_each(&mut close);
            }
            depths.push((around.len() % usize::from(DEPTHS)) as u8);
            if let Some((_, _, free)) = around.last_mut().filter(|(_, _, free)| *free >= first) {
                *free = last + 1;
            }
            around.push((at, last, first));
        }
        around.into_iter().for_each(close);
        Self { prefixes, addresses, depths }
    }

    /// How many prefixes a packet can prove.
    #[must_use]
    pub fn provable(&self) -> usize {
        self.addresses.iter().flatten().count()
    }
}

fn is_fit((address, length): (u32, u8)) -> bool {
    let overlaps = |other: u32, len: u8| {
        let shorter = len.min(length);
        shorter == 0 || (address ^ other) >> (32 - shorter) == 0
    };
    // RFC 1122, section 3.2.1.3; RFC 2544's networks are those of the lab.
    length > 0
        && address < 0xe000_0000
        && ![(0, 8), (127 << 24, 8), (0xc612_0000, 15)].iter().any(|(at, len)| overlaps(*at, *len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(table: &Table) -> Vec<(Option<u32>, u8)> {
        table.addresses.iter().copied().zip(table.depths.iter().copied()).collect()
    }

    #[test]
    fn an_address_is_of_its_prefix_alone() {
        let prefixes = vec![
            (0x0a00_0000, 8),
            (0x0a00_0000, 16),
            (0x0a00_0000, 24),
            (0x0a01_0000, 16),
            (0x0b00_0000, 23),
            (0x0b00_0000, 24),
            (0x0b00_0100, 24),
            (0x0c00_0000, 32),
        ];
        let wanted = [
            (Some(0x0a02_0000), 0),
            (Some(0x0a00_0100), 1),
            (Some(0x0a00_0000), 2),
            (Some(0x0a01_0000), 1),
            (None, 0),
            (Some(0x0b00_0000), 1),
            (Some(0x0b00_0100), 1),
            (Some(0x0c00_0000), 0),
        ];
        let table = Table::new(prefixes);
        assert_eq!(seen(&table), wanted);
        assert_eq!(table.provable(), 7);
    }

    /// Against a look at all prefixes for each address.
    #[test]
    fn made_tables_agree_with_a_search_of_all() {
        let mut state = 1_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        for _ in 0..200 {
            let prefixes: Vec<_> = (0..40)
                .map(|_| {
                    let length = 8 + (random() % 25) as u8;
                    let address = 0x1400_0000 | (random() % 64);
                    (address >> (32 - length) << (32 - length), length)
                })
                .collect();
            let table = Table::new(prefixes);
            let has = |(at, length): (u32, u8), address: u32| (at ^ address) >> (32 - length) == 0;
            for (at, prefix) in table.prefixes.iter().enumerate() {
                let around = table.prefixes.iter().filter(|one| one.1 < prefix.1);
                let depth = around.filter(|one| has(**one, prefix.0)).count();
                assert_eq!(usize::from(table.depths[at]), depth % usize::from(DEPTHS));
                let longest = |address: u32| {
                    let all = table.prefixes.iter().filter(|one| has(**one, address));
                    all.max_by_key(|one| one.1) == Some(prefix)
                };
                match table.addresses[at] {
                    Some(address) => assert!(longest(address), "{prefix:?} {address:#x}"),
                    None => {
                        let last = prefix.0 | (u32::MAX >> (prefix.1 - 1) >> 1);
                        let mut all = table.prefixes.iter().flat_map(|one| {
                            let end = one.0 | (u32::MAX >> (one.1 - 1) >> 1);
                            [Some(one.0), end.checked_add(1)]
                        });
                        let free = all.any(|one| {
                            one.is_some_and(|one| (prefix.0..=last).contains(&one) && longest(one))
                        });
                        assert!(!free, "{prefix:?} has an address of its own");
                    }
                }
            }
        }
    }

    #[test]
    fn what_no_router_takes_is_left_out() {
        let unfit = [
            (0, 0),
            (0, 8),
            (0x7f00_0000, 8),
            (0xe000_0000, 4),
            (0xc612_0000, 16),
            (0xc000_0000, 3),
        ];
        assert!(Table::new(unfit.to_vec()).prefixes.is_empty());
        let most = Table::synthetic(7_000_000);
        assert_eq!((most.prefixes.len(), most.provable()), (7_000_000, 7_000_000));
    }
}
