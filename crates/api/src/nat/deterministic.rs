//! Deterministic NAT (RFC 7422): subscribers and blocks of external ports stand for each other by arithmetic, so that
//! nothing has to be logged. The forwarder translates by it, and whoever asks who had a port computes the same.
//!
//! Subscribers and external addresses are taken in ascending order. The first subscriber has the first block of the
//! first address, the next one the block behind it (RFC 7422 section 2.2, sequential).

use crate::v1;

/// First and last address of a prefix.
pub type Range4 = (u32, u32);

/// Why a mapping cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There are more subscribers than blocks: so many of both.
    TooFewBlocks {
        /// Subscribers.
        subscribers: u64,
        /// Blocks of all external addresses.
        blocks: u64,
    },
    /// The range of ports has fewer ports than a block.
    NoBlocks,
}

/// A mapping of subscribers to blocks of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deterministic {
    /// Subscribers and external addresses, as disjoint ranges in ascending order, each with the number of its first
    /// one.
    subscribers: Vec<(Range4, u64)>,
    pools: Vec<(Range4, u64)>,
    /// Bits of the prefix of a subscriber.
    length: u32,
    first_port: u16,
    size: u16,
    /// Blocks of an external address.
    per_address: u64,
}

/// Disjoint ranges in ascending order, with the number of what is before each. Of two that overlap, one contains the
/// other.
fn in_order(mut ranges: Vec<Range4>) -> Vec<(Range4, u64)> {
    ranges.sort_unstable_by_key(|(first, last)| (*first, u32::MAX - last));
    let (mut all, mut before): (Vec<(Range4, u64)>, u64) = (Vec::new(), 0);
    for (first, last) in ranges {
        if all.last().is_some_and(|((_, known), _)| first <= *known) {
            continue;
        }
        all.push(((first, last), before));
        before += u64::from(last - first) + 1;
    }
    all
}

fn count(ranges: &[(Range4, u64)]) -> u64 {
    ranges.last().map_or(0, |((first, last), before)| before + u64::from(last - first) + 1)
}

/// The number of a value in ranges.
fn number_of(ranges: &[(Range4, u64)], value: u32) -> Option<u64> {
    let at = ranges.partition_point(|((_, last), _)| *last < value);
    let ((first, _), before) = ranges.get(at)?;
    Some(before + u64::from(value.checked_sub(*first)?))
}

/// The value with a number.
fn value_of(ranges: &[(Range4, u64)], number: u64) -> Option<u32> {
    let at = ranges.partition_point(|(_, before)| *before <= number).checked_sub(1)?;
    let ((first, last), before) = ranges.get(at)?;
    let value = u64::from(*first) + (number - before);
    u32::try_from(value).ok().filter(|it| it <= last)
}

impl Deterministic {
    /// Of subscribers with a prefix of this length each, external addresses, the first and the last external port,
    /// and the number of ports of a block. Lengths of 1 to 32.
    ///
    /// # Errors
    /// Why there is no such mapping.
    pub fn new(
        (subscribers, length): (&[Range4], u32),
        pools: &[Range4],
        ((first_port, last_port), size): ((u16, u16), u16),
    ) -> Result<Self, Refused> {
        let host_bits = 32 - length.clamp(1, 32);
        let numbered = |(first, last): &Range4| (first >> host_bits, last >> host_bits);
        let subscribers = in_order(subscribers.iter().map(numbered).collect());
        let pools = in_order(pools.to_vec());
        let ports = u64::from(last_port.saturating_sub(first_port)) + 1;
        let per_address = ports / u64::from(size.max(1));
        if per_address == 0 || size == 0 {
            return Err(Refused::NoBlocks);
        }
        let (wanted, blocks) = (count(&subscribers), count(&pools) * per_address);
        if wanted > blocks {
            return Err(Refused::TooFewBlocks { subscribers: wanted, blocks });
        }
        let length = 32 - host_bits;
        Ok(Self { subscribers, pools, length, first_port, size, per_address })
    }

    /// The external address of an internal one, and its first and last external port. `None`: it is no subscriber's.
    pub fn external_of(&self, internal: u32) -> Option<(u32, u16, u16)> {
        let number = number_of(&self.subscribers, internal >> (32 - self.length))?;
        let address = value_of(&self.pools, number / self.per_address)?;
        let first = u64::from(self.first_port) + number % self.per_address * u64::from(self.size);
        let first = u16::try_from(first).ok()?;
        Some((address, first, first + (self.size - 1)))
    }

    /// First and last address of the subscriber with an external port. `None`: no subscriber has it.
    pub fn internal_of(&self, external: u32, port: u16) -> Option<Range4> {
        let at = u64::from(port.checked_sub(self.first_port)?) / u64::from(self.size);
        if at >= self.per_address {
            return None;
        }
        let number = number_of(&self.pools, external)? * self.per_address + at;
        let host_bits = 32 - self.length;
        let first = value_of(&self.subscribers, number)? << host_bits;
        Some((first, first | ((1_u64 << host_bits) - 1) as u32))
    }

    /// Subscribers, and blocks that they could have.
    pub fn counts(&self) -> (u64, u64) {
        (count(&self.subscribers), count(&self.pools) * self.per_address)
    }

    /// That of a policy of the contract; `None`: it is not deterministic, or wrong.
    pub fn of_policy(policy: &v1::NatPolicy) -> Option<Self> {
        let blocks = policy.blocks.filter(|it| it.deterministic)?;
        let or = |port: u32, default| if port == 0 { default } else { port };
        let first = or(policy.first_port, super::PORTS.0).try_into().ok()?;
        let last = or(policy.last_port, super::PORTS.1).try_into().ok()?;
        let range = |it: &v1::Prefix| -> Option<Range4> {
            let octets = <[u8; 4]>::try_from(it.address.as_slice()).ok()?;
            let first = u32::from_be_bytes(octets);
            Some((first, first | u32::MAX.checked_shr(it.length).unwrap_or(0)))
        };
        let ranges = |all: &[v1::Prefix]| all.iter().map(range).collect::<Option<Vec<_>>>();
        let (subscribers, pools) = (ranges(&policy.subscribers)?, ranges(&policy.pools)?);
        let length = if blocks.subscriber_length == 0 { 32 } else { blocks.subscriber_length };
        let size = blocks.size.try_into().ok()?;
        Self::new((&subscribers, length), &pools, ((first, last), size)).ok()
    }
}

/// The subscriber of a deterministic policy that has an internal address, or an external address and port: an answer to
/// who that is.
pub fn user_of(
    policy: &v1::NatPolicy,
    internal: Option<u32>,
    external: Option<(u32, u16)>,
) -> Option<v1::NatUser> {
    let all = Deterministic::of_policy(policy)?;
    let first = match (internal, external) {
        (Some(internal), _) => internal,
        (None, Some((address, port))) => all.internal_of(address, port)?.0,
        (None, None) => return None,
    };
    let (external, first_port, last_port) = all.external_of(first)?;
    let (subscriber, _) = all.internal_of(external, first_port)?;
    Some(v1::NatUser {
        kind: "deterministic".to_owned(),
        internal: subscriber.to_be_bytes().into(),
        internal_length: all.length,
        external: external.to_be_bytes().into(),
        first_port: first_port.into(),
        last_port: last_port.into(),
        instance: policy.instance,
        id: policy.policy,
        ..v1::NatUser::default()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(address: [u8; 4], length: u32) -> Range4 {
        let first = u32::from_be_bytes(address);
        (first, first | u32::MAX.checked_shr(length).unwrap_or(0))
    }

    const PORTS: (u16, u16) = (1024, 65_535);

    #[test]
    fn subscribers_have_blocks_in_order() {
        let inside = [range([10, 0, 1, 0], 24), range([10, 0, 0, 0], 24), range([10, 0, 0, 9], 32)];
        let pools = [range([192, 0, 2, 4], 30)];
        let all = Deterministic::new((&inside, 32), &pools, (PORTS, 504)).unwrap();
        assert_eq!(all.counts(), (512, 4 * 128));
        let of = |address: [u8; 4]| all.external_of(u32::from_be_bytes(address));
        let external = u32::from_be_bytes([192, 0, 2, 4]);
        assert_eq!(of([10, 0, 0, 0]), Some((external, 1024, 1527)));
        assert_eq!(of([10, 0, 0, 1]), Some((external, 1528, 2031)));
        assert_eq!(of([10, 0, 0, 128]), Some((external + 1, 1024, 1527)));
        assert_eq!(of([10, 0, 1, 255]), Some((external + 3, 65_032, 65_535)));
        assert_eq!((of([10, 0, 2, 0]), of([9, 255, 255, 255])), (None, None));
        let host = u32::from_be_bytes([10, 0, 0, 1]);
        assert_eq!(all.internal_of(external, 2_031), Some((host, host)));
        assert_eq!(
            (all.internal_of(external, 1_023), all.internal_of(external + 4, 2_000)),
            (None, None)
        );
    }

    #[test]
    fn more_subscribers_than_blocks_are_refused_with_their_numbers() {
        let inside = [range([10, 0, 0, 0], 16)];
        let pools = [range([192, 0, 2, 0], 24)];
        let of = |length, size| Deterministic::new((&inside, length), &pools, (PORTS, size));
        let refused = Refused::TooFewBlocks { subscribers: 65_536, blocks: 256 * 63 };
        assert_eq!(of(32, 1024).err(), Some(refused));
        assert_eq!(
            of(30, 1024).err(),
            Some(Refused::TooFewBlocks { subscribers: 16_384, blocks: 16_128 })
        );
        assert!(of(29, 1024).is_ok());
        let narrow = Deterministic::new((&inside, 32), &pools, ((5000, 5009), 11));
        assert_eq!(narrow.err(), Some(Refused::NoBlocks));
    }

    proptest! {
        /// Each port belongs to one subscriber at most, and each subscriber gets back what is its own.
        #[test]
        fn a_mapping_is_a_bijection(
            (lengths, of_subscriber) in (prop::collection::vec(20..32_u32, 1..4), 28..33_u32),
            (bits, size) in (24..32_u32, 32..3000_u16),
            (first, more, pick) in (1..40_000_u16, 500..25_000_u16, any::<prop::sample::Index>()),
        ) {
            let inside: Vec<Range4> = (10..).zip(&lengths).map(|(net, length)| range([net, 0, 0, 0], *length)).collect();
            let pools = [range([192, 0, 2, 0], bits), range([198, 51, 100, 0], 24)];
            let ports = (first, first + more);
            let Ok(all) = Deterministic::new((&inside, of_subscriber), &pools, (ports, size)) else { return Ok(()) };
            let hosts: Vec<u32> = inside.iter().flat_map(|(first, last)| *first..=*last).collect();
            let host = hosts[pick.index(hosts.len())];
            let (address, low, high) = all.external_of(host).unwrap();
            prop_assert!(pools.iter().any(|(first, last)| (*first..=*last).contains(&address)));
            prop_assert!(ports.0 <= low && high <= ports.1 && high - low == size - 1);
            for port in [low, high, low + size / 2] {
                let (from, to) = all.internal_of(address, port).unwrap();
                prop_assert!((from..=to).contains(&host));
                prop_assert_eq!(u64::from(to - from) + 1, 1 << (32 - of_subscriber));
            }
            let neighbors = [low.checked_sub(1), high.checked_add(1)];
            for port in neighbors.into_iter().flatten() {
                let (from, to) = all.internal_of(address, port).unwrap_or((1, 0));
                prop_assert!(!(from..=to).contains(&host));
            }
        }
    }
}
