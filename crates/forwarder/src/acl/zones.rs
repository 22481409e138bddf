//! Zones of interfaces: `ip4-zone-output` and `ip6-zone-output` decide about packets from one zone to another, and
//! about those of the router itself; `ip4-zone-local` and `ip6-zone-local` about packets to the router.
//!
//! The argument of these features at an interface is the number of its zone. A matrix has what decides between two
//! numbers: nothing, or a pair with the lists of both families. What the router sends meets the output features, too:
//! before the lookup, in the arcs of origin, its zone is not known.

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::gather::gather_32;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{LaneSet, flags};
use stoa_engine::{Node, Vector};

use super::AccessLists;
use super::Classifier;
use super::hits::Hits;
use super::keys::{Family, Ip4, Ip6};
use super::node::{AclNode, argument_of};
use super::place::{LOCAL4, LOCAL6, Place, ZONES4, ZONES6};
use crate::arcs::{self, Arcs, IP_LOCAL, IP4_OUTPUT, IP6_OUTPUT};
use crate::shared::Shared;

/// The number of interfaces that are in no zone. 0, where the features are off, means the same.
pub const NO_ZONE: u8 = 1;
/// The number of the router itself.
pub const ROUTER: u8 = 2;
/// The first number of a zone; the last one is 255.
pub const FIRST: u8 = 3;

/// In place of the id of a pair: the matrix does not know a number.
const UNKNOWN: u32 = u32::MAX - 1;

/// The nodes of packets that interfaces send.
pub const OUTPUT_NODES: [&str; 2] = ["ip4-zone-output", "ip6-zone-output"];
/// The nodes of packets for the router.
pub const LOCAL_NODES: [&str; 2] = ["ip4-zone-local", "ip6-zone-local"];

/// What decides about packets from one zone to another.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Its number, never that of another one, nor of a classifier.
    pub id: u32,
    /// The lists of IPv4 packets.
    pub four: Arc<Classifier>,
    /// The lists of IPv6 packets.
    pub six: Arc<Classifier>,
    /// Packets that no rule matches, and that are dropped.
    pub unmatched: Arc<Hits>,
}

impl Pair {
    /// The lists of a family.
    pub(super) fn of<F: Family>(&self) -> &Classifier {
        if F::IS_IP4 { &self.four } else { &self.six }
    }
}

/// All pairs, and which one is between two zones.
#[derive(Clone, Debug)]
pub struct Zones {
    /// The row and the column of each number; 0: it is unknown.
    rows: [u8; 256],
    /// Ids of pairs by row and column; 0: all packets pass.
    cells: Vec<u32>,
    width: usize,
    /// By id.
    pairs: Vec<Pair>,
    /// The id of what is in place of a pair where there is none.
    unpaired: u32,
}

impl Zones {
    /// Of these zones. `between` has the pair from one number to another one, or `unpaired`.
    pub fn of<'a>(
        numbers: &[u8],
        unpaired: u32,
        mut between: impl FnMut(u8, u8) -> Option<&'a Pair>,
    ) -> Self {
        let known: Vec<u8> = [NO_ZONE, ROUTER].iter().chain(numbers).copied().collect();
        let mut rows = [0; 256];
        for (row, number) in (1..).zip(&known) {
            rows[usize::from(*number)] = row;
        }
        rows[0] = rows[usize::from(NO_ZONE)];
        let width = known.len() + 1;
        let (mut cells, mut pairs) = (vec![UNKNOWN; width * width], Vec::<Pair>::new());
        for (row, from) in (1..).zip(&known) {
            for (column, to) in (1..).zip(&known) {
                let pair = if from == to { None } else { between(*from, *to) };
                cells[row * width + column] = pair.map_or(0, |pair| pair.id);
                pairs.extend(pair.cloned());
            }
        }
        pairs.sort_by_key(|pair| pair.id);
        pairs.dedup_by_key(|pair| pair.id);
        Self { rows, cells, width, pairs, unpaired }
    }

    /// The id of the pair from one number to another; 0: all packets pass.
    #[inline(always)]
    pub fn cell(&self, from: u32, to: u32) -> u32 {
        let row = |number: u32| usize::from(self.rows[number as usize & 255]);
        self.cells.get(row(from) * self.width + row(to)).copied().unwrap_or(UNKNOWN)
    }

    /// What decides about a packet that a flow has admitted: nothing (0) where a pair of these zones may have begun the
    /// flow, in either direction. A flow has no zones: its route may change, and senders forge addresses.
    #[inline(always)]
    fn of_admitted(&self, from: u32, to: u32) -> u32 {
        let there = self.cell(from, to);
        let is_open = there != self.unpaired || self.cell(to, from) != self.unpaired;
        if is_open { 0 } else { there }
    }

    /// The pair with this id; `None`: it was removed.
    #[inline]
    pub fn pair(&self, id: u32) -> Option<&Pair> {
        let at = self.pairs.binary_search_by_key(&id, |pair| pair.id).ok()?;
        Some(&self.pairs[at])
    }
}

/// The argument of a feature at an interface: the number of its zone.
pub fn number_at(arcs: &Arcs, node: &str, interface: u32) -> u32 {
    let (name, arc) = match node {
        "ip4-zone-output" => (IP4_OUTPUT, &arcs.ip4_output),
        "ip6-zone-output" => (IP6_OUTPUT, &arcs.ip6_output),
        _ => (IP_LOCAL, &arcs.ip_local),
    };
    argument_of(arcs::hook(name, node), arc, interface)
}

/// Makes the node of sent IPv4 packets of one worker.
pub fn make_output4(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    AclNode::<Ip4>::boxed((shared, worker), ZONES4)
}

/// Makes the node of sent IPv6 packets of one worker.
pub fn make_output6(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    AclNode::<Ip6>::boxed((shared, worker), ZONES6)
}

/// Makes the node of IPv4 packets for the router of one worker.
pub fn make_local4(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    AclNode::<Ip4>::boxed((shared, worker), LOCAL4)
}

/// Makes the node of IPv6 packets for the router of one worker.
pub fn make_local6(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    AclNode::<Ip6>::boxed((shared, worker), LOCAL6)
}

impl AccessLists {
    /// The pair between zones with these numbers; `None`: all packets pass.
    pub(super) fn pair_between(&self, [from, to]: [u32; 2]) -> Option<&Pair> {
        let zones = self.zones.as_ref()?;
        zones.pair(zones.cell(from, to))
    }

    /// The pair with this id; `None`: it was removed.
    #[inline]
    pub(super) fn pair(&self, id: u32) -> Option<&Pair> {
        self.zones.as_ref()?.pair(id)
    }
}

/// What decides about a lane, by the zones of its interfaces.
#[inline(always)]
fn pair_of(zones: &Zones, place: Place, (from, to): (u32, u32), lane_flags: u16) -> u32 {
    if lane_flags & flags::ADMITTED != 0 {
        return if place.is_to_router() { 0 } else { zones.of_admitted(from, to) };
    }
    let is_own = lane_flags & flags::OWN != 0;
    if place.is_to_router() {
        // The router that talks to itself.
        return if is_own { 0 } else { zones.cell(from, ROUTER.into()) };
    }
    zones.cell(if is_own { ROUTER.into() } else { from }, to)
}

impl<F: Family> AclNode<F> {
    /// Finds the pair of zones of each lane.
    pub(super) fn find_pairs(&mut self, (hook, reader): (ArcHook, &Reader), vector: &Vector) {
        let (lanes, place) = (vector.len(), self.place);
        let arguments = hook.arguments((place.of)(&self.shared.arcs));
        gather_32(arguments, &vector.rx_if, lanes, &mut self.from);
        if !place.is_to_router() {
            gather_32(arguments, &vector.tx_if, lanes, &mut self.ids);
        }
        // After the numbers: a change makes new ones known before interfaces have them.
        let Some(zones) = &self.shared.acls.read(reader).zones else {
            self.ids[..lanes].fill(0);
            return;
        };
        let numbers = self.ids.iter_mut().zip(self.from.iter()).zip(vector.flags.iter());
        for ((id, from), flags) in numbers.take(lanes) {
            *id = pair_of(zones, place, (*from, *id), *flags);
        }
        if place.is_to_router() {
            self.skip_other_family(vector);
        }
    }

    /// The arc of packets for the router has both families: those of the other one go on.
    fn skip_other_family(&mut self, vector: &Vector) {
        let version = if F::IS_IP4 { 4 } else { 6 };
        for lane in 0..vector.len() {
            if vector.bytes(lane).first().is_none_or(|first| first >> 4 != version) {
                self.ids[lane] = 0;
            }
        }
    }

    /// Finds the pairs of these lanes again: a change has withdrawn what they had, and interfaces may have other zones.
    #[cold]
    pub(super) fn find_pairs_again(
        &mut self,
        (hook, reader): (ArcHook, &Reader),
        vector: &Vector,
        lanes: &LaneSet,
    ) {
        let place = self.place;
        let arc = (place.of)(&self.shared.arcs);
        let number = |interface| argument_of(hook, arc, interface);
        for lane in lanes.iter() {
            let numbers = (number(vector.rx_if[lane]), number(vector.tx_if[lane]));
            let zones = self.shared.acls.read(reader).zones.as_ref();
            self.ids[lane] =
                zones.map_or(0, |zones| pair_of(zones, place, numbers, vector.flags[lane]));
        }
    }
}

#[cfg(test)]
mod tests {
    use stoa_tables::classifier::{Classifier as Writer, ClassifierCapacity};

    use super::super::hits::HitTable;
    use super::super::{Traits, Tree};
    use super::*;

    #[test]
    fn the_matrix_knows_its_numbers_only() {
        let writer = Writer::new(ClassifierCapacity::for_rules(1)).unwrap();
        let tree = Tree { reader: writer.reader(), relevant: writer.relevant_bits() };
        let hits = HitTable::new(1, 8).unwrap();
        let unmatched = || Arc::new(Hits::new(&hits));
        let empty = Classifier::new(1, (tree, Vec::new()), Traits::default(), unmatched());
        let empty = Arc::new(empty);
        let pair =
            |id: u32| Pair { id, four: empty.clone(), six: empty.clone(), unmatched: unmatched() };
        let (there, none) = (pair(9), pair(7));
        let zones = Zones::of(&[40, 200], 7, |from, to| match (from, to) {
            (40, 200) => Some(&there),
            (ROUTER, _) | (_, ROUTER) => None,
            _ => Some(&none),
        });
        assert_eq!([zones.cell(40, 200), zones.cell(200, 40)], [9, 7]);
        let (no_zone, router) = (u32::from(NO_ZONE), u32::from(ROUTER));
        assert_eq!([zones.cell(40, no_zone), zones.cell(no_zone, 40), zones.cell(0, 40)], [7; 3]);
        let passes =
            [(40, 40), (no_zone, no_zone), (0, no_zone), (0, 0), (40, router), (router, 0)];
        assert_eq!(passes.map(|(from, to)| zones.cell(from, to)), [0; 6]);
        assert_eq!([zones.cell(41, 40), zones.cell(40, 3)], [UNKNOWN; 2]);
        let admitted = [(40, 200), (200, 40), (40, no_zone), (200, 200)];
        assert_eq!(admitted.map(|(from, to)| zones.of_admitted(from, to)), [0, 0, 7, 0]);
        let ids = [7, 8, 9, UNKNOWN].map(|id| zones.pair(id).map(|pair| pair.id));
        assert_eq!(ids, [Some(7), None, Some(9), None]);
    }
}
