//! Fragments: the first one of a packet has the ports, and those behind it follow it to its flow. All come here behind
//! `ip4-fragment-order` or `ip6-fragment-order`, so that none is before its first one.

use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{LaneSet, flags};
use stoa_engine::{Context, Vector};
use stoa_tables::flow_table::Match;

use super::{seen, tracked, tracker};
use crate::acl::Policy;
use crate::acl::flow_keys::{changes_family, flow_vrf};
use crate::acl::keys::Family;
use crate::acl::node::{AclNode, FRAGMENT};
use crate::drops::Drop;
use crate::flow::fields::Kind;
use crate::flow::fragment_order::is_home;
use crate::flow::tracker::Later;

/// The bits of [`Kind`] of fragments.
pub(super) const PART: u32 = Kind::FIRST | Kind::LATER;

impl<F: Family> AclNode<F> {
    /// Sends fragments that have no order to the node that gives it to them, and notes the others. Columns of fields
    /// must be known, and flows looked up.
    #[cold]
    #[inline(never)]
    pub(super) fn select_fragments(&mut self, reader: &Reader, vector: &mut Vector) {
        let none = LaneSet::first_of(0);
        (self.tracking.ordered, self.tracking.unordered) = (none.clone(), none);
        for lane in 0..vector.len() {
            let Some(fields) = vector.known_fields() else { return };
            let kind = Kind(fields.kind[lane]);
            if kind.0 & PART == 0 {
                continue;
            }
            if vector.flags[lane] & flags::ORDERED != 0 {
                vector.flags[lane] &= !flags::ORDERED;
                self.tracking.ordered.insert(lane);
            } else if kind.malformed().is_none() && !self.leaves_family((&*vector, lane), reader) {
                self.tracking.unordered.insert(lane);
                (self.tracking.known[lane], self.ids[lane]) = (Match::NONE, 0);
                vector.next[lane] = FRAGMENT;
                continue;
            }
            if kind.0 & Kind::LATER != 0 {
                self.tracking.later.insert(lane);
            }
        }
    }

    /// Whether a lane becomes a packet of the other family, or is translated without state: there it needs no order, or
    /// gets it.
    fn leaves_family(&self, (vector, lane): (&Vector, usize), reader: &Reader) -> bool {
        let Some(fields) = vector.known_fields() else { return false };
        let vrf = self.shared.attributes.vrf_of(vector.rx_if[lane]);
        let key = F::flow_key(fields, lane, flow_vrf(vrf));
        changes_family(&self.shared, (vrf, reader), &key)
    }

    /// Notes the first fragments that go to other workers, so that those behind them follow. The home of their packets
    /// does it alone: nothing goes to and fro.
    #[cold]
    #[inline(never)]
    pub(super) fn note_foreign_firsts(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let (at, now) = ((cx.worker, cx.workers()), self.tracking.now);
        let Some(tracker) = tracker(cx) else { return };
        let side = tracker.of(F::IS_IP4);
        let mut noted = LaneSet::first_of(0);
        for (lane, owner) in self.tracking.foreign.iter() {
            // Once for each: another time, its packet would begin anew, without what has come behind it.
            if !self.tracking.ordered.iter().any(|it| it == lane) {
                continue;
            }
            noted.insert(lane);
            // The owner gives it no other order.
            vector.flags[lane] |= flags::ORDERED;
            let Some(fields) = vector.known_fields() else { return };
            let packet = seen(vector, fields, lane);
            let vrf = flow_vrf(self.shared.attributes.vrf_of(vector.rx_if[lane]));
            if packet.kind.0 & Kind::FIRST != 0 && is_home(&self.shared, (&packet, vrf), at) {
                side.note_first_goes((&packet, vrf), owner, now);
            }
        }
        self.tracking.ordered.remove_all(&noted);
    }

    /// Has later fragments follow the first ones of their packets; whether any does not go on along the arc.
    #[cold]
    #[inline(never)]
    pub(super) fn follow_pieces(
        &mut self,
        cx: &mut Context<'_>,
        vector: &mut Vector,
        (later, policy): (&LaneSet, Policy),
    ) -> bool {
        let Some(tracker) = tracker(cx) else { return false };
        let (side, mut is_any) = (tracker.of(F::IS_IP4), false);
        for lane in later.iter() {
            let Some(fields) = vector.known_fields() else { return false };
            let packet = seen(vector, fields, lane);
            if packet.kind.malformed().is_some() {
                continue;
            }
            let vrf = flow_vrf(self.shared.attributes.vrf_of(vector.rx_if[lane]));
            match side.follow_piece(&packet, vrf, (self.tracking.now, policy.epoch)) {
                Later::Rules => continue,
                Later::Foreign(owner) => {
                    self.tracking.foreign.push(lane, owner);
                    is_any = true;
                }
                Later::Follows(found, is_admitted) => {
                    vector.flags[lane] |= tracked(is_admitted);
                    if let Some(fields) = vector.known_fields_mut() {
                        fields.flow[lane] = found.word();
                    }
                }
                Later::Overlaps => {
                    vector.next[lane] = Drop::FragmentOverlap.next();
                    is_any = true;
                }
            }
            self.ids[lane] = 0;
        }
        is_any
    }
}
