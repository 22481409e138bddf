//! The flows of the lanes of a vector, and lanes that pass by them at once.

use stoa_engine::Vector;
use stoa_engine::vector::{Column, Fields, LaneSet};
use stoa_tables::flow_table::{FlowReader, Match};

use super::super::flow_keys::flow_vrf;
use super::super::keys::Family;
use super::super::node::AclNode;
use super::fragment::PART;
use super::{Tracking, seen};
use crate::flow::fields::{Kind, Place};
use crate::flow::quoted;
use crate::flow::tracker::{SEGMENT, Side, Steady, about};

impl<F: Family> AclNode<F> {
    /// Looks up the flows of all lanes, and notes whether any is a fragment.
    pub(super) fn look_up(&mut self, reader: &FlowReader, vector: &mut Vector) {
        let (lanes, Some(fields)) = (vector.len(), vector.known_fields()) else { return };
        let Tracking { ports, contexts, known, has_fragments, runs, .. } = &mut self.tracking;
        let vrf_of = |interface| u32::from(flow_vrf(self.shared.attributes.vrf_of(interface)));
        let kinds = fill_contexts(fields, (&vector.rx_if, vrf_of), contexts, lanes);
        *has_fragments = kinds & PART != 0;
        fill_ports::<F>(fields, ports, lanes);
        runs.find::<F>(fields, contexts, lanes);
        if runs.are_few() {
            runs.look_up::<F>(reader, fields, (ports, contexts), &mut known[..lanes]);
        } else {
            let keys = (&ports[..lanes], &contexts[..lanes]);
            F::look_up_flows(reader, fields, keys, &mut known[..lanes]);
        }
        let Some(fields) = vector.known_fields_mut().filter(|_| F::IS_IP4) else { return };
        for (flow, known) in fields.flow[..lanes].iter_mut().zip(&known[..lanes]) {
            *flow = known.word();
        }
    }

    /// Has lanes pass whose flow goes on as it did; returns the others.
    #[inline]
    pub(super) fn pass_steady(
        &mut self,
        side: &mut Side,
        vector: &mut Vector,
        of: Steady,
    ) -> LaneSet {
        let lanes = vector.len();
        let Some(fields) = vector.known_fields() else { return LaneSet::first_of(lanes) };
        let Tracking { known, steady, runs, .. } = &mut self.tracking;
        let (flows, length) = (side.steady(of), |place: &u32| u32::from(Place(*place).length()));
        if runs.are_few() {
            for run in runs.of(lanes) {
                let (packets, first) = (run.len() as u32, run.start);
                let bytes = fields.place[run.clone()].iter().map(length).sum();
                let flags = flows.pass(known[first], Kind(fields.kind[first]), (packets, bytes));
                steady[run].fill(flags);
            }
        } else {
            let columns = fields.kind[..lanes].iter().zip(&fields.place[..lanes]);
            let own = known[..lanes].iter().zip(&mut steady[..lanes]);
            for ((kind, place), (known, steady)) in columns.zip(own) {
                *steady = flows.pass(*known, Kind(*kind), (1, length(place)));
            }
        }
        let is_segment = |flags: &u16| *flags & SEGMENT;
        if steady[..lanes].iter().map(is_segment).fold(0, |any, it| any | it) != 0 {
            for (lane, flags) in steady[..lanes].iter_mut().enumerate() {
                if *flags & SEGMENT == 0 {
                    continue;
                }
                let passes = side.pass_segment(known[lane], &seen(vector, fields, lane), of);
                *flags = if passes { *flags & !SEGMENT } else { 0 };
            }
        }
        let left = LaneSet::first_of(lanes).take_equal(steady, 0);
        for (flags, steady) in vector.flags[..lanes].iter_mut().zip(&steady[..lanes]) {
            *flags |= steady;
        }
        if left.is_empty() {
            known[..lanes].fill(Match::NONE);
            self.ids[..lanes].fill(0);
            return left;
        }
        let own = known[..lanes].iter_mut().zip(&mut self.ids[..lanes]);
        for ((known, id), steady) in own.zip(&steady[..lanes]) {
            if *steady != 0 {
                (*known, *id) = (Match::NONE, 0);
            }
        }
        left
    }

    /// Whether a lane is an ICMP error about a packet of a flow. It changes nothing, so that any worker may ask.
    #[inline]
    pub(super) fn is_about_a_flow(&self, side: &Side, vector: &mut Vector, lane: usize) -> bool {
        let Some(fields) = vector.known_fields() else { return false };
        if Kind(fields.kind[lane]).protocol() != F::ICMP {
            return false;
        }
        let vrf = flow_vrf(self.shared.attributes.vrf_of(vector.rx_if[lane]));
        let about = about(&seen(vector, fields, lane), fields.ports[lane], vrf);
        let flow = about.and_then(|about| Some((side.find_about(&about)?, about.sequence)));
        let Some((flow, sequence)) = flow else { return false };
        let by = sequence.map_or(0, |it| side.shifted_by(flow, it));
        let is_translated = flow.id().is_some_and(|id| side.is_translated(id));
        if flow.is_received() && is_translated {
            // It quotes what nobody has received: packets are translated on their way.
            return false;
        }
        let is_about = side.is_about(flow, sequence.map(|it| it.wrapping_sub(by)));
        // Translation does it, for all errors that it translates.
        if is_about && by != 0 && !is_translated {
            let of = (Kind(fields.kind[lane]), Place(fields.place[lane]));
            quoted::unshift(vector.bytes_mut(lane), of, by);
        }
        is_about
    }
}

/// Writes protocols and VRFs as keys have them; returns all bits that any of the kinds has. Most lanes were received by
/// the interface of the lane before.
fn fill_contexts(
    fields: &Fields,
    (interfaces, vrf_of): (&Column<u32>, impl Fn(u32) -> u32),
    contexts: &mut Column<u32>,
    lanes: usize,
) -> u32 {
    let first = interfaces[0];
    let (mut kinds, mut differs) = (0, 0);
    let vrf = vrf_of(first);
    let columns = fields.kind[..lanes].iter().zip(&interfaces[..lanes]);
    for (context, (kind, interface)) in contexts[..lanes].iter_mut().zip(columns) {
        *context = (kind & 0xff) << 16 | vrf;
        kinds |= kind;
        differs |= interface ^ first;
    }
    if differs != 0 {
        let (mut last, mut vrf) = (first, vrf);
        for (context, interface) in contexts[..lanes].iter_mut().zip(&interfaces[..lanes]) {
            if *interface != last {
                (last, vrf) = (*interface, vrf_of(*interface));
            }
            *context = *context & 0xff_0000 | vrf;
        }
    }
    kinds
}

/// Writes ports as keys have them: those of the fields, but for ICMP.
fn fill_ports<F: Family>(fields: &Fields, ports: &mut Column<u32>, lanes: usize) {
    ports[..lanes].copy_from_slice(&fields.ports[..lanes]);
    let kinds = &fields.kind[..lanes];
    let is_icmp = |kind: &u32| u32::from(Kind(*kind).protocol() == F::ICMP);
    if kinds.iter().map(is_icmp).fold(0, |any, it| any | it) == 0 {
        return;
    }
    for (ports, kind) in ports[..lanes].iter_mut().zip(kinds) {
        *ports = Kind(*kind).flow_ports(*ports);
    }
}
