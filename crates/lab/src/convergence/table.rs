//! The prefixes to learn, and for each an address that no more specific one covers: a packet to it verifies this very
//! prefix.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::hops::DEPTHS;
use crate::bgp_speaker::Nlri;

/// The most synthetic IPv4 prefixes.
pub const FOUR_MAX: u32 = 7_000_000;
/// The most synthetic IPv6 prefixes: the router's default limits allow no more.
pub const SIX_MAX: u32 = 3_500_000;
/// Synthetic IPv6 prefixes per /32, a number that a provider may announce.
const OF_PROVIDER: u32 = 256;
/// Lengths of synthetic IPv6 prefixes: /48 and longer, in proportions as in provider networks.
const SIX_LENGTHS: [u8; 16] = [48, 48, 56, 48, 64, 48, 48, 52, 48, 56, 64, 48, 60, 48, 56, 64];

/// An address as a number in host byte order.
trait Number: Copy + Ord {
    /// Number of bits.
    const BITS: u8;
    /// As a number that fits either family.
    fn wide(self) -> u128;
    /// From a number that fits.
    fn of(wide: u128) -> Option<Self>;
    /// Whether the lab can announce this prefix.
    fn is_fit(prefix: (Self, u8)) -> bool;
}

impl Number for u32 {
    const BITS: u8 = 32;

    fn wide(self) -> u128 {
        self.into()
    }

    fn of(wide: u128) -> Option<Self> {
        Self::try_from(wide).ok()
    }

    /// Excludes prefixes that no router accepts (RFC 1122, section 3.2.1.3) and the lab's own (RFC 2544).
    fn is_fit((address, length): (Self, u8)) -> bool {
        length > 0
            && address < 0xe000_0000
            && !overlaps((address, length), &[(0, 8), (127 << 24, 8), (0xc612_0000, 15)])
    }
}

impl Number for u128 {
    const BITS: u8 = 128;

    fn wide(self) -> u128 {
        self
    }

    fn of(wide: u128) -> Option<Self> {
        Some(wide)
    }

    /// Allocated global unicast (2000::/3, RFC 3587), without the lab's own (2001:db8::/32).
    fn is_fit((address, length): (Self, u8)) -> bool {
        length >= 3 && address >> 125 == 1 && !overlaps((address, length), &[(OWN_SIX, 32)])
    }
}

const OWN_SIX: u128 = 0x2001_0db8 << 96;

fn overlaps<N: Number>((address, length): (N, u8), others: &[(N, u8)]) -> bool {
    others.iter().any(|(other, len)| {
        let shorter = u32::from((*len).min(length));
        let bits = u32::from(N::BITS);
        shorter == 0 || (address.wide() ^ other.wide()) >> (bits - shorter) == 0
    })
}

/// Prefixes of one family.
#[derive(Debug)]
struct List<N> {
    /// Address and length, in ascending order.
    prefixes: Vec<(N, u8)>,
    /// For each an address that only it covers; `None`: more specific ones cover all of it.
    addresses: Vec<Option<N>>,
    /// For each the number of prefixes that cover it, modulo [`DEPTHS`]: its next hop differs from that of the
    /// covering prefix, so that a packet routed by that one is detected.
    depths: Vec<u8>,
}

#[derive(Debug)]
enum Lists {
    Four(List<u32>),
    Six(List<u128>),
}

/// Prefixes with the addresses that verify them.
#[derive(Debug)]
pub struct Table(Lists);

/// Applies the same expression to the list of either family.
macro_rules! with {
    ($table:expr, $list:ident => $what:expr) => {
        match &$table.0 {
            Lists::Four($list) => $what,
            Lists::Six($list) => $what,
        }
    };
}

impl Table {
    /// Consecutive /24 prefixes from 20.0.0.0 on, at most [`FOUR_MAX`].
    #[must_use]
    pub fn synthetic(count: u32) -> Self {
        Self::four((0..count.min(FOUR_MAX)).map(|at| ((20 << 24) + (at << 8), 24)).collect())
    }

    /// IPv6 prefixes, at most [`SIX_MAX`]: 256 per /32, with the /32 spread over 2a00::/12; half of them are /48, the
    /// others longer, each in its own /48.
    #[must_use]
    pub fn synthetic_six(count: u32) -> Self {
        // Odd factors: no two numbers collide.
        let made = (0..count.min(SIX_MAX)).map(|at| {
            let (provider, own) = (at / OF_PROVIDER, at % OF_PROVIDER);
            let network = 0x2a00_0000_u32 | (provider.wrapping_mul(0x9_e375) & 0x000f_ffff);
            let site = own.wrapping_mul(0x9e37) & 0xffff;
            let length = SIX_LENGTHS[(at % 16) as usize];
            let subnet = at.wrapping_mul(0x6d2b) & 0xffff;
            let address =
                u128::from(network) << 96 | u128::from(site) << 80 | u128::from(subnet) << 64;
            (address >> (128 - length) << (128 - length), length)
        });
        Self::six(made.collect())
    }

    /// These IPv4 prefixes, without those that no router accepts or that the lab needs (198.18.0.0/15, the default
    /// route).
    #[must_use]
    pub fn four(prefixes: Vec<(u32, u8)>) -> Self {
        Self(Lists::Four(List::new(prefixes)))
    }

    /// These IPv6 prefixes inside 2000::/3, without those of the lab (2001:db8::/32).
    #[must_use]
    pub fn six(prefixes: Vec<(u128, u8)>) -> Self {
        Self(Lists::Six(List::new(prefixes)))
    }

    /// Synthetic prefixes of the same family, at most [`FOUR_MAX`] or [`SIX_MAX`].
    #[must_use]
    pub fn made_alike(&self, count: u32) -> Self {
        if self.is_six() { Self::synthetic_six(count) } else { Self::synthetic(count) }
    }

    /// Whether they are IPv6.
    #[must_use]
    pub fn is_six(&self) -> bool {
        matches!(self.0, Lists::Six(_))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        with!(self, list => list.prefixes.len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of prefixes that a packet can verify.
    #[must_use]
    pub fn provable(&self) -> usize {
        with!(self, list => list.addresses.iter().flatten().count())
    }

    /// The address that verifies a prefix, as a number; `None`: it has none, or does not exist.
    pub(super) fn address(&self, at: usize) -> Option<u128> {
        with!(self, list => list.addresses.get(at).copied().flatten().map(Number::wide))
    }

    /// Number of prefixes that cover a prefix, modulo [`DEPTHS`].
    pub(super) fn depth(&self, at: usize) -> Option<u8> {
        with!(self, list => list.depths.get(at).copied())
    }

    /// Passes the prefixes of a depth to a visitor of either family.
    pub(super) fn of_depth<T: PrefixVisitor>(&self, depth: u8, listener: T) {
        match &self.0 {
            Lists::Four(list) => listener.visit(&list.of_depth(depth)),
            Lists::Six(list) => listener.visit(&list.of_depth(depth)),
        }
    }

    /// All prefixes as addresses and lengths, with their depths.
    pub(super) fn all(&self) -> impl Iterator<Item = (IpAddr, u8, u8)> {
        (0..self.len()).map(|at| match &self.0 {
            Lists::Four(list) => {
                let (address, length) = list.prefixes[at];
                (IpAddr::V4(Ipv4Addr::from(address)), length, list.depths[at])
            }
            Lists::Six(list) => {
                let (address, length) = list.prefixes[at];
                (IpAddr::V6(Ipv6Addr::from(address)), length, list.depths[at])
            }
        })
    }
}

/// Visits prefixes of either family.
pub(super) trait PrefixVisitor {
    /// Visits the prefixes.
    fn visit<N>(self, prefixes: &[(N, u8)])
    where
        (N, u8): Nlri;
}

impl<N: Number> List<N> {
    fn new(mut prefixes: Vec<(N, u8)>) -> Self {
        prefixes.retain(|prefix| N::is_fit(*prefix));
        prefixes.sort_unstable();
        prefixes.dedup();
        prefixes.shrink_to_fit();
        let mut addresses = vec![None; prefixes.len()];
        let mut depths = Vec::with_capacity(prefixes.len());
        // The prefixes that cover the current one: index, last address, first address that no inner one covers;
        // `None`: no address is left.
        let mut around: Vec<(usize, u128, Option<u128>)> = Vec::new();
        let mut close = |(at, last, free): (usize, u128, Option<u128>)| {
            addresses[at] = free.filter(|free| *free <= last).and_then(N::of);
        };
        for (at, (address, length)) in prefixes.iter().enumerate() {
            let first = address.wide();
            let last = first | host_bits::<N>(*length);
            while around.last().is_some_and(|(_, end, _)| *end < first) {
                around.pop().into_iter().for_each(&mut close);
            }
            depths.push((around.len() % usize::from(DEPTHS)) as u8);
            if let Some((_, _, free)) = around.last_mut()
                && free.is_some_and(|free| free >= first)
            {
                *free = last.checked_add(1);
            }
            around.push((at, last, Some(first)));
        }
        around.into_iter().for_each(close);
        Self { prefixes, addresses, depths }
    }

    fn of_depth(&self, depth: u8) -> Vec<(N, u8)> {
        let with_depth = self.prefixes.iter().zip(&self.depths);
        with_depth.filter(|(_, one)| **one == depth).map(|(prefix, _)| *prefix).collect()
    }
}

/// A number with ones where a prefix of this length has host bits.
fn host_bits<N: Number>(length: u8) -> u128 {
    let all = u128::MAX >> (128 - u32::from(N::BITS));
    all.checked_shr(length.into()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show_output(list: &List<u32>) -> Vec<(Option<u32>, u8)> {
        list.addresses.iter().copied().zip(list.depths.iter().copied()).collect()
    }

    #[test]
    fn each_prefix_has_an_address_of_its_own() {
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
        let expected = [
            (Some(0x0a02_0000), 0),
            (Some(0x0a00_0100), 1),
            (Some(0x0a00_0000), 2),
            (Some(0x0a01_0000), 1),
            (None, 0),
            (Some(0x0b00_0000), 1),
            (Some(0x0b00_0100), 1),
            (Some(0x0c00_0000), 0),
        ];
        assert_eq!(show_output(&List::new(prefixes.clone())), expected);
        let table = Table::four(prefixes);
        assert_eq!((table.provable(), table.len()), (7, 8));
        assert_eq!((table.address(1), table.address(4)), (Some(0x0a00_0100), None));
    }

    /// Compares with an exhaustive search for each address.
    #[test]
    fn agrees_with_an_exhaustive_search() {
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
            let table = List::new(prefixes);
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
    fn excludes_unusable_prefixes() {
        let unfit = [
            (0, 0),
            (0, 8),
            (0x7f00_0000, 8),
            (0xe000_0000, 4),
            (0xc612_0000, 16),
            (0xc000_0000, 3),
        ];
        assert!(Table::four(unfit.to_vec()).is_empty());
        let most = Table::synthetic(FOUR_MAX);
        assert_eq!((most.len(), most.provable()), (7_000_000, 7_000_000));
        let unfit =
            [(0, 0), (1 << 125, 2), (OWN_SIX, 48), (0x2001 << 112, 16), (0xfe80 << 112, 64)];
        assert!(Table::six(unfit.to_vec()).is_empty());
    }

    #[test]
    fn synthetic_ipv6_prefixes_are_unique_and_provable() {
        let count = 300_000;
        let table = Table::synthetic_six(count);
        assert!(table.is_six());
        assert_eq!((table.len(), table.provable()), (count as usize, count as usize));
        let Lists::Six(list) = &table.0 else { panic!("it is IPv6") };
        let with =
            |expected: u8| list.prefixes.iter().filter(|(_, length)| *length == expected).count();
        assert_eq!([48, 52, 56, 60, 64].iter().map(|length| with(*length)).sum::<usize>(), 300_000);
        assert!(with(48) == 150_000 && with(64) == 56_250, "{} {}", with(48), with(64));
        assert!(list.depths.iter().all(|depth| *depth == 0));
    }

    #[test]
    fn each_ipv6_prefix_has_an_address_of_its_own() {
        let base = 0x2a00_u128 << 112;
        let prefixes =
            vec![(base, 32), (base, 48), (base | 1 << 80, 48), (base | u128::MAX >> 32, 128)];
        let list = List::new(prefixes);
        let expected = [Some(base | 2 << 80), Some(base), Some(base | 1 << 80)];
        assert_eq!(list.addresses[..3], expected);
        assert_eq!(list.depths, [0, 1, 1, 1]);
        let halves = vec![(base, 32), (base, 33), (base | 1 << 95, 33)];
        assert_eq!(List::new(halves).addresses[0], None, "covered");
    }
}
