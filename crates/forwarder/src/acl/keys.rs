//! The keys of access lists: the header fields of packets in the columns that the classifier compares.

use stoa_engine::VECTOR;
use stoa_engine::column::Column;
use stoa_engine::vector::Fields;
use stoa_tables::classifier::{
    ClassifierReader, FlowState, Fragment, Ip4Columns, Ip6Columns, LANES, NO_RULE, RecentIp4Keys,
    RecentIp6Keys, attributes,
};
use stoa_wire::protocol::{ICMP4, ICMP6, TCP};
use stoa_wire::tcp::flag::SYN;

use super::Classifier;
use super::flow_keys::FlowKeys;
use super::interfaces::Ends;
use crate::flow::column::Packets;
use crate::flow::fields::{Kind, PacketFields, of_ip4, of_ip6};

/// The bits of [`Kind::malformed`].
const MALFORMED: u32 = 7 * Kind::MALFORMED;

/// What differs between the families.
pub trait Family: FlowKeys + 'static {
    /// Whether it is IPv4.
    const IS_IP4: bool;
    /// The packets of its arcs.
    const PACKETS: Packets;
    /// The protocol number of its ICMP.
    const ICMP: u8;
    /// Where the IP header has TTL or hop limit.
    const HOP_LIMIT: usize;
    /// The columns of addresses, the most significant word first.
    const SOURCE: &'static [usize];
    /// The same of destinations.
    const DESTINATION: &'static [usize];
    /// The column of ports; attributes are in the next one.
    const PORTS: usize;
    /// The column of interfaces.
    const INTERFACES: usize;
    /// The column of lengths.
    const LENGTH: usize;
    /// Keys of up to [`LANES`] packets.
    type Keys: Default + Send;
    /// Results of recent look-ups.
    type Recent: Default + Send;

    /// Their columns.
    fn columns(keys: &mut Self::Keys) -> &mut [[u32; LANES]];
    /// Classifies the first `lanes` packets.
    fn look_up(reader: &ClassifierReader, keys: &Self::Keys, lanes: usize, ids: &mut [u32; LANES]);
    /// The same, with recent results of the classifier.
    fn look_up_recent(
        recent: &mut Self::Recent,
        classifier: &Classifier,
        keys: (&Self::Keys, usize),
        ids: &mut [u32; LANES],
    );
    /// The fields of one packet.
    fn fields(packet: &[u8]) -> PacketFields;
}

/// IPv4.
pub struct Ip4;

impl Family for Ip4 {
    const IS_IP4: bool = true;
    const PACKETS: Packets = Packets::Ip4;
    const ICMP: u8 = ICMP4;
    const HOP_LIMIT: usize = 8;
    const SOURCE: &'static [usize] = &[0];
    const DESTINATION: &'static [usize] = &[1];
    const PORTS: usize = 2;
    const INTERFACES: usize = 4;
    const LENGTH: usize = 5;
    type Keys = Ip4Columns;
    type Recent = RecentIp4Keys;

    #[inline(always)]
    fn columns(keys: &mut Ip4Columns) -> &mut [[u32; LANES]] {
        &mut keys.0
    }

    #[inline(always)]
    fn look_up(reader: &ClassifierReader, keys: &Ip4Columns, lanes: usize, ids: &mut [u32; LANES]) {
        reader.lookup_ip4(keys, lanes, ids);
    }

    #[inline(always)]
    fn look_up_recent(
        recent: &mut RecentIp4Keys,
        classifier: &Classifier,
        keys: (&Ip4Columns, usize),
        ids: &mut [u32; LANES],
    ) {
        recent.look_up(classifier.owner::<Self>(), keys, ids, |keys, lanes, ids| {
            classifier.reader.lookup_ip4(keys, lanes, ids);
        });
    }

    fn fields(packet: &[u8]) -> PacketFields {
        of_ip4(packet)
    }
}

/// IPv6.
pub struct Ip6;

impl Family for Ip6 {
    const IS_IP4: bool = false;
    const PACKETS: Packets = Packets::Ip6;
    const ICMP: u8 = ICMP6;
    const HOP_LIMIT: usize = 7;
    const SOURCE: &'static [usize] = &[0, 1, 6, 7];
    const DESTINATION: &'static [usize] = &[2, 3, 8, 9];
    const PORTS: usize = 4;
    const INTERFACES: usize = 10;
    const LENGTH: usize = 11;
    type Keys = Ip6Columns;
    type Recent = RecentIp6Keys;

    #[inline(always)]
    fn columns(keys: &mut Ip6Columns) -> &mut [[u32; LANES]] {
        &mut keys.0
    }

    #[inline(always)]
    fn look_up(reader: &ClassifierReader, keys: &Ip6Columns, lanes: usize, ids: &mut [u32; LANES]) {
        reader.lookup_ip6(keys, lanes, ids);
    }

    #[inline(always)]
    fn look_up_recent(
        recent: &mut RecentIp6Keys,
        classifier: &Classifier,
        keys: (&Ip6Columns, usize),
        ids: &mut [u32; LANES],
    ) {
        recent.look_up(classifier.owner::<Self>(), keys, ids, |keys, lanes, ids| {
            classifier.reader.lookup_ip6(keys, lanes, ids);
        });
    }

    fn fields(packet: &[u8]) -> PacketFields {
        of_ip6(packet)
    }
}

/// The word of attributes. Both words begin with protocol and TCP flags; DSCP and the bits of fragments are two bits
/// lower than in [`Kind`]. There is no flow tracking.
#[inline(always)]
fn attributes_of(kind: u32) -> u32 {
    const SAME: u32 = 0xffff;
    const MOVED: u32 = (0x3f << 18 | Kind::FIRST | Kind::LATER) >> 2;
    const WHOLE: u32 = attributes(0, 0, 0, Fragment::No, FlowState::Untracked);
    const PART: u32 = WHOLE & !((Fragment::No.bit() as u32) << 22);
    let rest = if kind & (Kind::FIRST | Kind::LATER) == 0 { WHOLE } else { PART };
    kind & SAME | kind >> 2 & MOVED | rest
}

/// Writes the keys of these lanes, at most [`LANES`], one behind the other; whether any of their packets is malformed.
#[inline]
pub fn load<F: Family>(keys: &mut F::Keys, fields: &Fields, lanes: &[u8]) -> bool {
    let lanes = &lanes[..lanes.len().min(LANES)];
    let (Some(first), Some(last)) = (lanes.first(), lanes.last()) else { return false };
    let (first, last) = (usize::from(*first), usize::from(*last));
    let is_row = last - first + 1 == lanes.len();
    let copy = |from: &Column<u32>, to: &mut [u32; LANES]| {
        if is_row {
            to[..lanes.len()].copy_from_slice(&from[first..=last]);
        } else {
            to.iter_mut().zip(lanes).for_each(|(to, lane)| *to = from[usize::from(*lane)]);
        }
    };
    let columns = F::columns(keys);
    for (word, to) in F::SOURCE.iter().enumerate() {
        copy(&fields.source[word], &mut columns[*to]);
    }
    for (word, to) in F::DESTINATION.iter().enumerate() {
        copy(&fields.destination[word], &mut columns[*to]);
    }
    copy(&fields.ports, &mut columns[F::PORTS]);
    copy(&fields.kind, &mut columns[F::PORTS + 1]);
    copy(&fields.place, &mut columns[F::LENGTH]);
    let (before, behind) = columns.split_at_mut(F::PORTS + 1);
    let words = before[F::PORTS].iter_mut().zip(&mut behind[0]);
    let mut all = 0;
    for (word, kind) in words.take(lanes.len()) {
        all |= *kind;
        *word = Kind(*kind).rule_ports(*word);
        *kind = attributes_of(*kind);
    }
    let lengths = &mut F::columns(keys)[F::LENGTH][..lanes.len()];
    lengths.iter_mut().for_each(|length| *length &= 0xffff);
    all & MALFORMED != 0
}

/// Has lanes whose flow is judged anew meet rules as its first packet did: TCP with the flags of a SYN.
pub fn begin<F: Family>(keys: &mut F::Keys, lanes: &[u8], is_anew: &[bool; VECTOR]) {
    const FLAGS: u32 = 0xff00;
    let words = F::columns(keys)[F::PORTS + 1].iter_mut().zip(lanes);
    for (word, _) in words.filter(|(_, lane)| is_anew[usize::from(**lane)]) {
        if *word & 0xff == u32::from(TCP) {
            *word = *word & !FLAGS | u32::from(SYN) << 8;
        }
    }
}

/// The keys of one packet, which is not malformed.
fn of_one<F: Family>(packet: &PacketFields, ends: Ends) -> F::Keys {
    let mut keys = F::Keys::default();
    let columns = F::columns(&mut keys);
    for (word, to) in F::SOURCE.iter().enumerate() {
        columns[*to][0] = packet.source[word];
    }
    for (word, to) in F::DESTINATION.iter().enumerate() {
        columns[*to][0] = packet.destination[word];
    }
    columns[F::PORTS][0] = packet.kind.rule_ports(packet.ports);
    columns[F::PORTS + 1][0] = attributes_of(packet.kind.0);
    columns[F::LENGTH][0] = packet.place.length().into();
    ends.write::<F>(columns, 0);
    keys
}

/// The entry that one packet meets first, or [`NO_RULE`].
pub fn first<F: Family>(reader: &ClassifierReader, packet: &PacketFields, ends: Ends) -> u32 {
    let mut ids = [NO_RULE; LANES];
    F::look_up(reader, &of_one::<F>(packet, ends), 1, &mut ids);
    ids[0]
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use proptest::prelude::*;
    use stoa_engine::pool::{HugePages, Pool};
    use stoa_engine::{PoolCache, Vector};

    use super::*;
    use crate::flow::fields;
    use crate::kernel::Kernel;

    fn pool() -> &'static Pool {
        static POOL: OnceLock<&'static Pool> = OnceLock::new();
        POOL.get_or_init(|| Pool::leak(1024, HugePages::Never).unwrap())
    }

    /// Packets of a family, not all whole, with protocols that have ports and with ICMP.
    fn packets(header: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
        let bytes = prop::collection::vec(any::<u8>(), header..header + 40);
        let protocol = prop::sample::select(vec![1_u8, 6, 17, 58, 132, 47]);
        let one =
            (bytes, protocol, any::<bool>()).prop_map(move |(mut bytes, protocol, is_whole)| {
                let length = bytes.len() as u16;
                if header == 20 {
                    (bytes[0], bytes[9]) = (0x45, protocol);
                    bytes[2..4].copy_from_slice(&length.to_be_bytes());
                    bytes[6] &= if is_whole { 0x40 } else { 0xff };
                    bytes[7] &= if is_whole { 0 } else { 3 };
                } else {
                    (bytes[0], bytes[6]) = (0x60, protocol);
                    bytes[4..6].copy_from_slice(&(length - 40).to_be_bytes());
                }
                bytes
            });
        prop::collection::vec(one, 1..=VECTOR)
    }

    /// Keys of some lanes are those of their packets.
    fn check<F: Family>(packets: &[Vec<u8>], some: &[u8]) {
        let (mut cache, mut vector) = (PoolCache::new(pool()), Vector::new(pool()));
        assert_eq!(cache.fill(&mut vector, packets.len()), packets.len());
        for (lane, packet) in packets.iter().enumerate() {
            let start = usize::from(vector.offset[lane]);
            vector.slot_mut(lane)[start..start + packet.len()].copy_from_slice(packet);
            vector.length[lane] = packet.len() as u16;
        }
        let fields = fields::of(Kernel::detect(), &mut vector, F::PACKETS);
        let mut keys = F::Keys::default();
        for lanes in some.chunks(LANES) {
            let is_any = load::<F>(&mut keys, fields, lanes);
            let of_lanes = lanes.iter().map(|lane| F::fields(&packets[usize::from(*lane)]));
            assert_eq!(is_any, of_lanes.clone().any(|packet| packet.kind.malformed().is_some()));
            for (at, packet) in of_lanes.enumerate() {
                let mut one = of_one::<F>(&packet, Ends::default());
                let pairs = F::columns(&mut keys).iter().zip(F::columns(&mut one));
                assert!(pairs.into_iter().all(|(all, one)| all[at] == one[0]), "{packet:x?}");
            }
        }
        cache.free_from(&mut vector, 0);
    }

    proptest! {
        #[test]
        fn keys_of_columns_are_those_of_packets(
            four in packets(20),
            six in packets(40),
            chosen in any::<[u64; 4]>(),
            are_all: bool,
        ) {
            let is_chosen = |at: &usize| are_all || chosen[at / 64] >> (at % 64) & 1 != 0;
            let some = |count: usize| (0..count).filter(is_chosen).map(|at| at as u8).collect();
            let [of4, of6]: [Vec<u8>; 2] = [four.len(), six.len()].map(some);
            check::<Ip4>(&four, &of4);
            check::<Ip6>(&six, &of6);
        }
    }
}
