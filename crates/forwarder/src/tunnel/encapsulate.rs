//! Adds the outer headers of all lanes of `tunnel-output`: the scalar reference and the choice of the
//! SIMD kernel, which leaves some lanes to the reference.

use stoa_engine::vector::{Column, LaneSet, flags};
use stoa_engine::{Next, VECTOR, Vector};

use super::line::{Inner, TunnelLine, may_fragment};
use crate::drops::Drop;
use crate::flow;
use crate::kernel::Kernel;

/// The edges of `tunnel-output`.
pub(crate) const LOOKUP4: u16 = 0;
pub(crate) const LOOKUP6: u16 = 1;

/// What the lanes get.
pub(super) struct Outer<'a> {
    /// Of all tunnels.
    pub(super) lines: &'a [TunnelLine],
    /// By lane: which of them is its tunnel, if that is there.
    pub(super) index: &'a Column<u32>,
    /// The first two words of the inner packets.
    pub(super) words: [&'a [u32; VECTOR]; 2],
    /// Of the first identification; those of later packets that may be fragmented follow.
    pub(super) number: u16,
    /// Of the hash of flow labels.
    pub(super) seed: u32,
}

impl Outer<'_> {
    /// Adds the outer headers to all lanes, or drops them. `ahead` is called with each lane, or with the
    /// first one of several that are processed together; `counted` with each lane, before it changes,
    /// and the bytes of its packet.
    #[inline(always)]
    pub(super) fn encapsulate(
        &self,
        kernel: Kernel,
        vector: &mut Vector,
        ahead: impl Fn(&Vector, usize),
        mut counted: impl FnMut(&Vector, usize, u16),
    ) -> Next {
        let mut left = LaneSet::first_of(vector.len());
        match kernel {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 | Kernel::Avx2 => {
                let counted = &mut counted;
                let done = super::encapsulate_avx2::encapsulate(vector, self, ahead, counted);
                left.remove(&done);
            }
            _ => (0..vector.len()).for_each(|lane| ahead(vector, lane)),
        }
        if left.is_empty() {
            return Next::All(LOOKUP4);
        }
        self.encapsulate_each(vector, &left, counted)
    }

    /// The reference.
    #[inline(never)]
    fn encapsulate_each(
        &self,
        vector: &mut Vector,
        lanes: &LaneSet,
        mut counted: impl FnMut(&Vector, usize, u16),
    ) -> Next {
        let (mut passed, mut number) = (0, self.number);
        for lane in lanes.iter() {
            number = number.wrapping_add(self.fragmentable(passed..lane));
            passed = lane;
            vector.next[lane] = self.lane(vector, (lane, number), &mut counted);
        }
        Next::Lanes
    }

    /// How many of these packets may be fragmented.
    fn fragmentable(&self, lanes: std::ops::Range<usize>) -> u16 {
        let [first, second] = self.words;
        let words = first[lanes.clone()].iter().zip(&second[lanes]);
        words.map(|(first, second)| u16::from(may_fragment([*first, *second]))).sum()
    }

    /// Adds the outer header to a lane; returns its edge.
    #[inline(always)]
    fn lane(
        &self,
        vector: &mut Vector,
        (lane, number): (usize, u16),
        counted: &mut impl FnMut(&Vector, usize, u16),
    ) -> u16 {
        let (interface, line) = (vector.tx_if[lane], self.lines.get(self.index[lane] as usize));
        let Some(line) = line.filter(|line| line.is_of(interface)) else {
            return Drop::TunnelDeleted.next();
        };
        if vector.flags[lane] & flags::TUNNELS == flags::TUNNELS {
            return Drop::TunnelLoop.next();
        }
        let words = self.words.map(|words| words[lane]);
        let inner = Inner::of(words, vector.bytes(lane).len());
        let label = if line.is_ip4() { 0 } else { flow::label(vector.bytes(lane), self.seed) };
        if !line.encapsulate(vector, lane, (inner, number, label)) {
            return Drop::TunnelHeadroom.next();
        }
        counted(vector, lane, inner.length);
        if line.is_ip4() { LOOKUP4 } else { LOOKUP6 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunnel::Tunnel;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::sync::OnceLock;
    use stoa_engine::PoolCache;
    use stoa_engine::pool::{HugePages, Pool};
    use stoa_engine::vector::flags::{ONE_TUNNEL, OWN, TRACED};
    use stoa_ports::Encapsulation;

    fn pool() -> &'static Pool {
        static POOL: OnceLock<&'static Pool> = OnceLock::new();
        POOL.get_or_init(|| Pool::leak(1024, HugePages::Never).unwrap())
    }

    /// The line of no tunnel, then tunnels of all kinds as interfaces 1 and up.
    fn lines() -> Vec<TunnelLine> {
        let of = |interface: u32| {
            let (local, remote): (IpAddr, IpAddr) = if interface.is_multiple_of(4) {
                (Ipv6Addr::from_bits(7).into(), Ipv6Addr::from_bits(interface.into()).into())
            } else {
                let far = 0xc0a8_0000 + (interface << 5);
                (Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::from_bits(far).into())
            };
            let encapsulation =
                if interface.is_multiple_of(3) { Encapsulation::Ip } else { Encapsulation::Gre };
            let hop_limit = 0xff - interface as u8;
            let tunnel = Tunnel { interface, local, remote, encapsulation, hop_limit, vrf: 0 };
            TunnelLine::of(&tunnel, (interface * 0x1111) as u16).unwrap()
        };
        [TunnelLine::default()].into_iter().chain((1..16).map(of)).collect()
    }

    /// A packet before the node.
    #[derive(Clone, Debug)]
    struct Packet {
        line: u32,
        tx_if: u32,
        flags: u16,
        place: (u16, u16),
        is_jumbo: bool,
        bytes: [u8; 8],
    }

    /// Mostly packets that the kernels process.
    fn packets() -> impl Strategy<Value = Vec<Packet>> {
        let line =
            prop_oneof![8 => (1..16_u32).prop_map(|it| (it, it)), 1 => (0..20_u32, 0..20_u32)];
        let flags = prop_oneof![
            8 => Just(0),
            1 => Just(ONE_TUNNEL | TRACED | OWN),
            1 => Just(flags::TUNNELS),
        ];
        let place = prop_oneof![
            8 => (60..200_u16, 20..1500_u16),
            1 => (0..60_u16, 0..40_u16),
            1 => (2000..2240_u16, any::<u16>()),
        ];
        let first = prop::sample::select(vec![0x45_u8, 0x45, 0x46, 0x60, 0x6f, 0]);
        let rest = (first, any::<[u8; 7]>(), 0..60_u8);
        let packet = (line, flags, place, rest).prop_map(|((line, tx_if), flags, place, rest)| {
            let mut bytes = [rest.0; 8];
            bytes[1..].copy_from_slice(&rest.1);
            Packet { line, tx_if, flags, place, is_jumbo: rest.2 == 0, bytes }
        });
        prop::collection::vec(packet, 0..=VECTOR)
    }

    /// Edge, offset, length, flags, receiving interface and buffer of a lane.
    type Lane = ([u16; 4], u32, Vec<u8>);

    /// The lanes, and what was counted by them.
    fn outcome(kernel: Kernel, packets: &[Packet], number: u16) -> (Vec<Lane>, Vec<u64>) {
        let (mut cache, mut vector) = (PoolCache::new(pool()), Vector::new(pool()));
        assert_eq!(cache.fill(&mut vector, packets.len()), packets.len());
        let (mut index, mut words) = (Column::of(0), [[0; VECTOR]; 2]);
        for (lane, packet) in packets.iter().enumerate() {
            assert!(!packet.is_jumbo || cache.enlarge(&mut vector, lane));
            vector.buffer_mut(lane).fill(0xaa);
            let offset = usize::from(packet.place.0);
            let data = vector.buffer_mut(lane).iter_mut().skip(offset);
            data.zip(packet.bytes).for_each(|(byte, value)| *byte = value);
            (vector.offset[lane], vector.length[lane]) = packet.place;
            (vector.flags[lane], vector.tx_if[lane]) = (packet.flags, packet.tx_if);
            vector.rx_if[lane] = 99;
            index[lane] = packet.line;
        }
        let [first, second] = &mut words;
        crate::ip::header_words::load(kernel, &vector, [0, 4], [first, second]);
        let (lines, mut counted) = (lines(), vec![0; 21]);
        let outer =
            Outer { lines: &lines, index: &index, words: [&words[0], &words[1]], number, seed: 7 };
        let next = outer.encapsulate(
            kernel,
            &mut vector,
            |_, _| {},
            |vector, lane, bytes| {
                counted[vector.tx_if[lane] as usize] += 1 + (u64::from(bytes) << 32);
            },
        );
        if let Next::All(next) = next {
            vector.next[..packets.len()].fill(next);
        }
        let lanes = (0..packets.len()).map(|lane| {
            let columns =
                [vector.next[lane], vector.offset[lane], vector.length[lane], vector.flags[lane]];
            (columns, vector.rx_if[lane], vector.buffer_mut(lane).to_vec())
        });
        let lanes = lanes.collect();
        cache.free_from(&mut vector, 0);
        (lanes, counted)
    }

    proptest! {
        #[test]
        fn kernels_agree_with_the_reference(packets in packets(), number: u16) {
            let expected = outcome(Kernel::Scalar, &packets, number);
            for kernel in Kernel::available().skip(1) {
                prop_assert_eq!(&expected, &outcome(kernel, &packets, number), "{:?}", kernel);
            }
        }
    }
}
