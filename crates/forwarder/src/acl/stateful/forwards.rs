//! SYN cookies beside address translation (NAT44).
//!
//! Which zone a connection to a port forward goes to is known when its destination is translated, which its flow
//! remembers. So the last place gives up the flow of a SYN that it answers: the answer comes from the external end, and
//! the acknowledgement begins the flow anew, as one that is spliced. A connection whose source is translated gets no
//! cookie: its flow holds the external port from the SYN on.

use stoa_engine::vector::flags;
use stoa_engine::{Context, Vector};
use stoa_tables::flow_table::{Direction, FlowKey, Tuple};

use super::{Task, is_current, tracker, vrf_of};
use crate::acl::Policy;
use crate::acl::flow_keys::flow_vrf;
use crate::acl::keys::Family;
use crate::acl::node::{AclNode, ORIGIN};
use crate::acl::zones::FIRST;
use crate::drops::Drop;
use crate::flow::tracker::Uses;
use crate::nat;

/// Whether a packet that is received has an external end for its destination: a mapping may give it another one.
pub(super) fn is_to_external(task: &Task<'_>, key: &FlowKey) -> bool {
    let Tuple::Ip4(it) = key.tuple else { return false };
    task.policy.has_nat
        && task.place.is_input()
        && task.shared.nat.read(task.reader).is_external(key.vrf, it.destination)
}

/// Whether a SYN need not have a flow before its zone is known. What was translated without state has no place to
/// translate an answer. A source that is to be translated is known behind routes: there it gets its flow.
#[cold]
pub(super) fn may_be_deferred(task: &Task<'_>, (key, lane_flags): (&FlowKey, u16)) -> bool {
    lane_flags & (flags::STATELESS | flags::CROSSED) == 0 && !is_to_external(task, key)
}

impl<F: Family> AclNode<F> {
    /// A SYN of a translated flow that goes on, to a zone; its next node if that is another one now.
    #[cold]
    #[inline(never)]
    pub(super) fn open_translated(
        &mut self,
        cx: &mut Context<'_>,
        (vector, lane): (&mut Vector, usize),
        (lane_flags, zone): (u16, u32),
        policy: Policy,
    ) -> Option<u16> {
        let (worker, has_cookie) = (cx.worker, lane_flags & flags::COOKIE != 0);
        let vrf = flow_vrf(vrf_of(&self.shared, self.place, vector, lane));
        let key = F::flow_key(vector.known_fields()?, lane, vrf);
        let side = tracker(cx)?.of(F::IS_IP4);
        let found = side.find(&key).filter(|it| side.owns(*it) && !it.is_received());
        let found = found.and_then(|found| Some((found, found.id()?)));
        // One that no stateful rule has admitted asks rules about each packet: nothing of it can be spliced.
        let is_admitted =
            found.is_some_and(|(_, id)| is_current(&side.reader().entry(id), policy.epoch));
        if has_cookie {
            let id = found.filter(|_| is_admitted).map(|(_, id)| id);
            if let (Some((_, id)), None) = (found, id) {
                side.remove(id);
            }
            return self.open_spliced(cx, (vector, lane), (id, zone));
        }
        let (found, id) = found.filter(|(it, _)| it.direction() == Direction::Original)?;
        let received = side.reader().other_ends(found)?;
        let cookies = self.shared.flows.syn_cookies();
        let is_inbound = Uses::of(&side.reader().entry(id)).is_inbound;
        if !is_inbound || zone < FIRST.into() {
            return None;
        }
        if !is_admitted || !cookies.is_on(zone) || !side.is_beginning(id) {
            side.note_half_open(id, zone as u8);
            return None;
        }
        // Twice NAT: the answer would come from the port that the flow holds.
        if !nat::undo(vector, lane, received) {
            side.note_half_open(id, zone as u8);
            return None;
        }
        self.tracking.given_up.push(id);
        if !self.answer(vector, lane) {
            return Some(Drop::SynCookie.next());
        }
        self.shared.flows.syn_cookies().count_sent(worker, zone);
        Some(ORIGIN)
    }

    /// Removes the flows of SYNs that were answered: behind all lanes, as some of them may have the same one.
    #[inline]
    pub(super) fn give_up_answered(&mut self, cx: &mut Context<'_>) {
        if self.tracking.given_up.is_empty() {
            return;
        }
        let Some(tracker) = tracker(cx) else { return };
        let side = tracker.of(F::IS_IP4);
        for id in self.tracking.given_up.drain(..) {
            if side.reader().entry(id).is_live() {
                side.remove(id);
            }
        }
    }
}
