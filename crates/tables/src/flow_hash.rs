//! The hash of a flow: 32 well-mixed bits of addresses, ports and protocol.
//!
//! Built of 32-bit multiplications, shifts and exclusive-ors only, so that 8 or 16 flows are
//! hashed at once in vector registers. Each end (address and port) is mixed alone and the two are
//! joined: by a sum in the symmetric hash (both directions of a flow give the same value, for
//! distributing flows over workers), with one of them turned in the directed one (for ECMP). The seed
//! makes routers along a path choose independently.

/// The first factor of [`mix`]. This and the other factors are for kernels, which hash many flows at
/// once.
pub const FIRST: u32 = 0x85eb_ca6b;
/// The second factor of [`mix`].
pub const SECOND: u32 = 0xc2b2_ae35;
/// What a port is multiplied by.
pub const PORT: u32 = 0x9e37_79b1;
/// What the protocol is multiplied by.
pub const PROTOCOL: u32 = 0x27d4_eb2f;

/// Both halves of a product, mixed: for hashes by two secret words, of what attackers choose.
#[inline(always)]
pub const fn fold_product(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    (product >> 64) as u64 ^ product as u64
}

/// A bijection of 32 bits in which every input bit moves about half of the output bits.
#[inline(always)]
pub const fn mix(mut word: u32) -> u32 {
    word ^= word >> 16;
    word = word.wrapping_mul(FIRST);
    word ^= word >> 13;
    word = word.wrapping_mul(SECOND);
    word ^ (word >> 16)
}

/// One end of a flow; 0 for the port of a protocol without ports.
#[inline(always)]
const fn end(seed: u32, address: u32, port: u16) -> u32 {
    mix(address ^ seed).wrapping_add((port as u32).wrapping_mul(PORT))
}

/// An IPv6 address folded to 32 bits, each word weighed differently.
#[inline(always)]
const fn fold(address: u128) -> u32 {
    let mut hash = address as u32;
    hash = mix(hash).wrapping_add((address >> 32) as u32);
    hash = mix(hash).wrapping_add((address >> 64) as u32);
    mix(hash).wrapping_add((address >> 96) as u32)
}

#[inline(always)]
const fn directed(source: u32, destination: u32, protocol: u8) -> u32 {
    let joined = mix(source).rotate_left(13) ^ mix(destination);
    mix(joined ^ (protocol as u32).wrapping_mul(PROTOCOL))
}

#[inline(always)]
const fn symmetric(source: u32, destination: u32, protocol: u8) -> u32 {
    let joined = mix(source).wrapping_add(mix(destination));
    mix(joined ^ (protocol as u32).wrapping_mul(PROTOCOL))
}

/// What identifies a flow; addresses and ports in host byte order, ports 0 when there are none
/// (other protocols, and every fragment of a fragmented packet).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow<Address> {
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol or next header number.
    pub protocol: u8,
}

impl<Address: Copy> Flow<Address> {
    /// The other direction: both ends exchanged.
    pub const fn reversed(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            protocol: self.protocol,
        }
    }
}

impl Flow<u32> {
    /// Hash in which direction matters.
    #[inline(always)]
    pub const fn hash(&self, seed: u32) -> u32 {
        directed(
            end(seed, self.source, self.source_port),
            end(seed, self.destination, self.destination_port),
            self.protocol,
        )
    }

    /// Hash that both directions share.
    #[inline(always)]
    pub const fn symmetric_hash(&self, seed: u32) -> u32 {
        symmetric(
            end(seed, self.source, self.source_port),
            end(seed, self.destination, self.destination_port),
            self.protocol,
        )
    }
}

impl Flow<u128> {
    /// Hash in which direction matters.
    #[inline(always)]
    pub const fn hash(&self, seed: u32) -> u32 {
        directed(
            end(seed, fold(self.source), self.source_port),
            end(seed, fold(self.destination), self.destination_port),
            self.protocol,
        )
    }

    /// Hash that both directions share.
    #[inline(always)]
    pub const fn symmetric_hash(&self, seed: u32) -> u32 {
        symmetric(
            end(seed, fold(self.source), self.source_port),
            end(seed, fold(self.destination), self.destination_port),
            self.protocol,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flow(at: u32) -> Flow<u32> {
        // Neighbouring hosts and neighbouring ports, as in real traffic.
        Flow {
            source: 0x0a00_0000 + at % 256,
            destination: 0xc0a8_0000 + at / 256 % 16,
            source_port: 1024 + (at / 4096) as u16,
            destination_port: 443,
            protocol: 6,
        }
    }

    /// Pearson's chi squared over `buckets`; its mean is `buckets - 1`.
    fn chi_squared(buckets: usize, flows: u32, bucket: impl Fn(u32) -> usize) -> f64 {
        let mut counts = vec![0u32; buckets];
        (0..flows).for_each(|at| counts[bucket(at)] += 1);
        let expected = f64::from(flows) / buckets as f64;
        counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum()
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn neighbouring_flows_spread_evenly() {
        let six = |at: u32| Flow {
            source: 0x2001_0db8u128 << 96 | u128::from(flow(at).source),
            destination: 0x2001_0db8u128 << 96 | 1 << 64 | u128::from(flow(at).destination),
            source_port: flow(at).source_port,
            destination_port: 443,
            protocol: 17,
        };
        for seed in [0, 1, 0xdead_beef] {
            for shift in [0, 8, 16, 24] {
                let part = |hash: u32| (hash >> shift) as usize % 256;
                let hashes: [&dyn Fn(u32) -> u32; 4] = [
                    &|at| flow(at).hash(seed),
                    &|at| flow(at).symmetric_hash(seed),
                    &|at| six(at).hash(seed),
                    &|at| six(at).symmetric_hash(seed),
                ];
                for hash in hashes {
                    let chi = chi_squared(256, 1 << 16, |at| part(hash(at)));
                    // 255 +- 22.6; eight deviations off is not chance.
                    assert!((75.0..435.0).contains(&chi), "{chi}");
                }
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn each_input_bit_moves_half_of_the_output() {
        let base = Flow {
            source: 0x0102_0304u32,
            destination: 0x0506_0708,
            source_port: 1234,
            destination_port: 80,
            protocol: 6,
        };
        for hash in [Flow::<u32>::hash as fn(&_, _) -> _, Flow::<u32>::symmetric_hash] {
            for bit in 0..64 {
                let mut moved = 0;
                for seed in 0..1000 {
                    let mut other = base;
                    if bit < 32 {
                        other.source ^= 1 << bit;
                    } else if bit < 48 {
                        other.source_port ^= 1 << (bit - 32);
                    } else {
                        other.destination_port ^= 1 << (bit - 48);
                    }
                    moved += (hash(&base, seed) ^ hash(&other, seed)).count_ones();
                }
                assert!((14_500..17_500).contains(&moved), "bit {bit}: {moved}");
            }
        }
    }

    proptest! {
        #[test]
        fn both_directions_share_the_symmetric_hash(
            source: u128, destination: u128, source_port: u16, destination_port: u16,
            protocol: u8, seed: u32,
        ) {
            let there = Flow { source, destination, source_port, destination_port, protocol };
            let back = Flow {
                source: destination,
                destination: source,
                source_port: destination_port,
                destination_port: source_port,
                protocol,
            };
            prop_assert_eq!(there.symmetric_hash(seed), back.symmetric_hash(seed));
            let there = Flow { source: source as u32, destination: destination as u32,
                source_port, destination_port, protocol };
            let back = Flow { source: destination as u32, destination: source as u32,
                source_port: destination_port, destination_port: source_port, protocol };
            prop_assert_eq!(there.symmetric_hash(seed), back.symmetric_hash(seed));
        }
    }
}
