//! Lanes of translated flows that have been found and followed: what they become is in the lines of their flows, and
//! nothing has to be decided.

use stoa_engine::Vector;
use stoa_engine::vector::{Column, Fields, LaneSet, flags};
use stoa_tables::flow_table::{Ends, FlowReader, Translations};

use super::lanes::{header, translate};
use super::rewrite::Header;
use crate::flow::fields::Kind;
use crate::kernel::Kernel;

/// Translates the lanes of a vector.
pub(super) struct Translator {
    kernel: Kernel,
    new: Box<Translations>,
    flags: Column<u16>,
    differs: Column<u32>,
}

/// Lanes that have been translated or not.
pub(super) struct Translated {
    /// Those about which it remains to decide.
    pub(super) left: LaneSet,
    /// How many have been translated.
    pub(super) packets: u64,
    /// Bytes of these packets.
    pub(super) bytes: u64,
}

impl Translator {
    pub(super) fn new(kernel: Kernel) -> Self {
        Self { kernel, new: Box::default(), flags: Column::of(0), differs: Column::of(0) }
    }

    /// Translates lanes that [have been followed](flags::TRACKED), are of a translated flow and have none of the flags
    /// in `done`; with `is_input`, only those that get another destination. Of the other lanes, those without flags in
    /// `done` are left, unless their flow is known and keeps its destination. Columns of fields must be known.
    pub(super) fn translate(
        &mut self,
        reader: &FlowReader,
        vector: &mut Vector,
        (done, is_input): (u16, bool),
    ) -> Translated {
        let lanes = vector.len();
        for (own, flags) in self.flags[..lanes].iter_mut().zip(&vector.flags[..lanes]) {
            // What no flow has counted keeps nothing.
            let of_none = if flags & flags::TRACKED == 0 { flags::KEEPS_DESTINATION } else { 0 };
            *own = flags & !of_none & (done | flags::TRACKED);
        }
        let mut all = LaneSet::first_of(lanes);
        let mut translated = all.take_equal(&self.flags, flags::TRACKED);
        let mut left = all.take_equal(&self.flags, 0);
        let Some(fields) = vector.known_fields().filter(|_| !translated.is_empty()) else {
            left.insert_all(&translated);
            return Translated { left, packets: 0, bytes: 0 };
        };
        reader.translate(&fields.flow, lanes, &mut self.new);
        let found = LaneSet::from(self.new.lanes);
        let mut unknown = translated.clone();
        unknown.remove_all(&found);
        left.insert_all(&unknown);
        translated.retain(&found);
        if is_input {
            let stay = self.staying(fields, &translated, lanes);
            translated.remove_all(&stay);
        }
        let (packets, bytes) = sums(vector, &translated);
        self.apply(vector, &translated);
        Translated { left, packets, bytes }
    }

    /// The lanes among some that do not get another destination.
    fn staying(&mut self, fields: &Fields, some: &LaneSet, lanes: usize) -> LaneSet {
        let columns = fields.destination[0][..lanes].iter().zip(&self.new.destinations);
        for (differs, (old, new)) in self.differs[..lanes].iter_mut().zip(columns) {
            *differs = old ^ new;
        }
        let mut staying = LaneSet::first_of(0);
        for lane in some.clone().take_equal(&self.differs, 0).iter() {
            if !is_to_another(&header(fields, lane), ends_of(&self.new, lane)) {
                staying.insert(lane);
            }
        }
        staying
    }

    /// Gives lanes their other ends.
    fn apply(&self, vector: &mut Vector, lanes: &LaneSet) {
        let left = match self.kernel {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 | Kernel::Avx512 => {
                LaneSet::from(super::apply_avx2::apply(vector, &lanes.bits(), &self.new))
            }
            _ => lanes.clone(),
        };
        for lane in left.iter() {
            let Some(fields) = vector.known_fields() else { return };
            let header = header(fields, lane);
            translate(vector, lane, &header, ends_of(&self.new, lane));
        }
    }
}

/// What a lane becomes.
#[inline(always)]
fn ends_of(new: &Translations, lane: usize) -> Ends {
    let (source, destination, ports) = (new.sources[lane], new.destinations[lane], new.ports[lane]);
    Ends { source, destination, ports }
}

/// How many lanes there are, and how many bytes they have.
fn sums(vector: &Vector, lanes: &LaneSet) -> (u64, u64) {
    let (packets, length) = (lanes.count(), |lane: usize| u64::from(vector.length[lane]));
    let bytes = if packets == vector.len() {
        (0..packets).map(length).sum()
    } else {
        lanes.iter().map(length).sum()
    };
    (packets as u64, bytes)
}

/// Whether a packet goes to another end when it is translated: then it is so before its route is looked up. Others get
/// their sources when they leave.
#[inline(always)]
pub(super) fn is_to_another(header: &Header, ends: Ends) -> bool {
    let old = header.ends;
    let has_port = header.kind.0 & Kind::LATER == 0;
    old.destination != ends.destination || has_port && (old.ports ^ ends.ports) as u16 != 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::sync::{Arc, OnceLock};
    use stoa_engine::PoolCache;
    use stoa_engine::pool::{HugePages, Pool, SLOT};
    use stoa_engine::quiescence::Quiescence;
    use stoa_tables::flow_hash::Flow;
    use stoa_tables::flow_table::{FlowKey, Tuple};
    use stoa_tables::lpm;
    use stoa_wire::protocol::UDP;

    use super::*;
    use crate::flow::column::Packets;
    use crate::flow::fields::{self, Place};
    use crate::flow::flows::{Flows, Now, Sizes};
    use crate::flow::tracker::{Opened, Seen, Side, Steady, Translation, Uses};

    fn pool() -> &'static Pool {
        static POOL: OnceLock<&'static Pool> = OnceLock::new();
        POOL.get_or_init(|| Pool::leak(1024, HugePages::Never).unwrap())
    }

    /// An IPv4 packet of any protocol, mostly UDP or TCP without options, and what it becomes.
    fn packet() -> impl Strategy<Value = (Vec<u8>, u16, [u32; 3])> {
        let protocol = prop::sample::select(vec![6_u8, 6, 6, 17, 17, 17, 17, 1, 47, 136]);
        let fragment = prop::sample::select(vec![0_u16, 0, 0, 0, 0x2000, 0x2003]);
        let words = any::<([u8; 64], [u32; 3])>();
        // Some packets end where their buffer ends.
        let rest = (25..64_usize, 0..16_u8, prop_oneof![19 => Just(false), 1 => Just(true)]);
        (words, protocol, fragment, rest).prop_map(
            |((mut bytes, new), protocol, fragment, (length, rare, is_last))| {
                let offset = if is_last { (SLOT - length) as u16 } else { 128 };
                bytes[0] = if rare == 0 { 0x46 } else { 0x45 };
                bytes[2..4].copy_from_slice(&(length as u16).to_be_bytes());
                bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
                bytes[9] = protocol;
                match protocol {
                    6 => bytes[32] = 0x50,
                    1 => bytes[20] &= 8,
                    // Without a checksum, or with one that may become 0.
                    _ if rare < 4 => bytes[26..28].fill(0),
                    _ => {}
                }
                (bytes[..length].to_vec(), offset, new)
            },
        )
    }

    /// A key of UDP between ends of which each is one of two addresses and ports.
    fn key(of: [bool; 4]) -> FlowKey {
        let [source, destination, source_port, destination_port] = of.map(|it| 1 + u16::from(it));
        let [source, destination] = [source, destination].map(u32::from);
        let flow = Flow { source, destination, source_port, destination_port, protocol: UDP };
        FlowKey::ip4(flow, 0)
    }

    /// The flags of the second packet that has a key of a flow, and whether it goes to another end.
    fn of_second(side: &mut Side, key: &FlowKey, of: Steady) -> Option<(u16, bool)> {
        let found = side.find(key).filter(|found| found.is_received())?;
        let (id, direction, kind) = (found.id()?, found.direction(), Kind(UDP.into()));
        let packet = Seen { bytes: &[], kind, place: Place(28) };
        side.follow((id, direction), &packet, (of.now, of.epoch));
        let flags = side.steady(of).pass(found, kind, (1, 28));
        let Tuple::Ip4(it) = key.tuple else { return None };
        let ports = u32::from(it.source_port) << 16 | u32::from(it.destination_port);
        let ends = Ends { source: it.source, destination: it.destination, ports };
        let header = Header { kind, place: packet.place, ends };
        Some((flags, is_to_another(&header, side.reader().other_ends(found)?)))
    }

    proptest! {
        /// Packets with the flag would pass the input as they are.
        #[test]
        fn flows_keep_what_translation_keeps(
            (first, reply) in any::<([bool; 4], [bool; 4])>(),
            is_inbound in any::<bool>(),
        ) {
            let sizes = Sizes { ip4: 16, translated: 16, ..Sizes::default() };
            let flows = Flows::new(sizes, lpm::Kernel::Bits, 1, &Quiescence::new(1)).unwrap();
            let mut tracker = Arc::new(flows).tracker(0).unwrap();
            let side = tracker.of(true);
            let now = Now { tick: side.flows().now(stoa_engine::clock::tsc()).tick, ms: 0 };
            let [first, reply_key] = [first, reply].map(key);
            let uses = Uses { number: 1, is_inbound, ..Uses::default() };
            let translation = Translation { reply_key, uses, epoch: 1, has_rules: false, received: 0 };
            let packet = Seen { bytes: &[], kind: Kind(UDP.into()), place: Place(28) };
            let created = side.create_translated(first, &packet, &translation, now);
            prop_assume!(created == Opened::New);
            let of = Steady { now, epoch: 1, is_alone: true };
            for (key, is_from_inside) in [(first, !is_inbound), (reply_key, is_inbound)] {
                // Of two equal keys, only one is found.
                let Some((flags, is_to_another)) = of_second(side, &key, of) else { continue };
                prop_assert!(flags & flags::TRACKED != 0);
                let keeps = flags & flags::KEEPS_DESTINATION != 0;
                prop_assert!(!keeps || !is_to_another);
                prop_assert!(keeps || is_to_another || !is_from_inside);
            }
        }

        #[test]
        fn all_kernels_translate_alike(
            packets in prop::collection::vec(packet(), 1..70),
            bits in any::<[u8; 32]>(),
            is_one in any::<bool>(),
        ) {
            let mut cache = PoolCache::new(pool());
            let mut seen = Vec::new();
            for kernel in Kernel::available() {
                let mut translator = Translator::new(kernel);
                let mut vector = Vector::new(pool());
                prop_assert_eq!(cache.fill(&mut vector, packets.len()), packets.len());
                for (lane, (bytes, offset, new)) in packets.iter().enumerate() {
                    let start = usize::from(*offset);
                    vector.slot_mut(lane).fill(0x5a);
                    vector.slot_mut(lane)[start..start + bytes.len()].copy_from_slice(bytes);
                    (vector.offset[lane], vector.length[lane]) = (*offset, bytes.len() as u16);
                    let new = new.map(|it| if is_one { it & 1 } else { it });
                    translator.new.sources[lane] = new[0];
                    translator.new.destinations[lane] = new[1];
                    translator.new.ports[lane] = new[2];
                }
                fields::of(Kernel::Scalar, &mut vector, Packets::Ip4);
                let mut lanes = LaneSet::first_of(packets.len());
                lanes.retain(&LaneSet::from(bits));
                translator.apply(&mut vector, &lanes);
                let fields = vector.known_fields().unwrap();
                let all: Vec<_> = (0..packets.len()).map(|lane| {
                    let ends = [fields.source[0][lane], fields.destination[0][lane], fields.ports[lane]];
                    (vector.flags[lane], ends)
                }).collect();
                let slots: Vec<_> =
                    (0..packets.len()).map(|lane| vector.slot_mut(lane).to_vec()).collect();
                cache.free_from(&mut vector, 0);
                seen.push((all, slots));
            }
            for other in &seen[1..] {
                prop_assert_eq!(&other.0, &seen[0].0);
                prop_assert!(other.1 == seen[0].1, "bytes differ");
            }
        }
    }
}
