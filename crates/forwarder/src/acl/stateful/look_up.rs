//! The flows of the lanes of a vector, and lanes that pass by them at once.

use stoa_engine::Vector;
use stoa_engine::vector::{LaneSet, flags};
use stoa_tables::flow_table::{FlowReader, Match};

use super::super::flow_keys::flow_vrf;
use super::super::keys::Family;
use super::super::node::AclNode;
use super::{Tracking, seen, spliced};
use crate::flow::fields::{self, Kind};
use crate::flow::tracker::{Seen, Side, Steady, about};

impl<F: Family> AclNode<F> {
    /// Looks up the flows of all lanes, and notes which are fragments without ports.
    pub(super) fn look_up(&mut self, reader: &FlowReader, vector: &mut Vector) {
        let (lanes, Some(fields)) = (vector.len(), vector.known_fields()) else { return };
        let Tracking { ports, contexts, known, later, .. } = &mut self.tracking;
        let mut kinds = 0;
        // Most lanes were received by the interface of the lane before.
        let (mut interface, mut vrf) = (u32::MAX, 0);
        let columns = fields.kind[..lanes].iter().zip(&fields.ports[..lanes]);
        let own = ports[..lanes].iter_mut().zip(&mut contexts[..lanes]);
        let columns = columns.zip(&vector.rx_if[..lanes]).zip(own);
        for (((kind, of_packet), rx_if), (ports, context)) in columns {
            let kind = Kind(*kind);
            kinds |= kind.0;
            if *rx_if != interface {
                (interface, vrf) = (*rx_if, flow_vrf(self.shared.attributes.vrf_of(*rx_if)));
            }
            *ports = kind.flow_ports(*of_packet);
            *context = u32::from(kind.protocol()) << 16 | u32::from(vrf);
        }
        if kinds & Kind::LATER != 0 {
            let is_later = |lane: &usize| fields.kind[*lane] & Kind::LATER != 0;
            (0..lanes).filter(is_later).for_each(|lane| later.insert(lane));
        }
        let keys = (&ports[..lanes], &contexts[..lanes]);
        F::look_up_flows(reader, fields, keys, &mut known[..lanes]);
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
        const PASSED: u16 = flags::TRACKED | flags::ADMITTED;
        let (lanes, mut left) = (vector.len(), LaneSet::first_of(0));
        let Some(fields) = vector.known_fields() else { return LaneSet::first_of(lanes) };
        let Tracking { known, steady, .. } = &mut self.tracking;
        let columns = fields.kind[..lanes].iter().zip(&fields.place[..lanes]);
        let own = known[..lanes].iter_mut().zip(&mut steady[..lanes]);
        for (lane, ((kind, place), (known, steady))) in columns.zip(own).enumerate() {
            let fields = (Kind(*kind), fields::Place(*place));
            let seen = || Seen { bytes: vector.bytes(lane), kind: fields.0, place: fields.1 };
            *steady = if side.pass_steady(*known, fields, of, seen) {
                *known = Match::NONE;
                u16::MAX
            } else {
                left.insert(lane);
                0
            };
        }
        for (flags, steady) in vector.flags[..lanes].iter_mut().zip(&steady[..lanes]) {
            *flags |= PASSED & steady;
        }
        for (id, steady) in self.ids[..lanes].iter_mut().zip(&steady[..lanes]) {
            *id = if *steady == 0 { *id } else { 0 };
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
        let flow = about.and_then(|about| Some((side.find(&about.key)?, about.sequence)));
        let Some((flow, sequence)) = flow else { return false };
        let by = side.shifted_by(flow);
        if flow.is_received() && flow.id().is_some_and(|id| side.is_translated(id)) {
            // It quotes what nobody has received: packets are translated on their way.
            return false;
        }
        let is_about = side.is_about(flow, sequence.map(|it| it.wrapping_sub(by)));
        if is_about && by != 0 {
            spliced::unshift_quoted(vector, lane, by);
        }
        is_about
    }
}
