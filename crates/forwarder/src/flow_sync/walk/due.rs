//! What is due about a live flow.

use stoa_tables::flow_table::FlowEntry;

use super::{Moment, Sent, Walk, passed};
use crate::flow::profiles::without_profile;
use crate::flow::time::ticks;
use crate::flow::timeouts::Class;
use crate::flow::tracker::SENT_FLAGS;

/// A flow with packets is sent again after a part of its timeout, and after so many seconds at most.
pub(super) const REFRESH_PART: u32 = 4;
pub(super) const REFRESH_S: u32 = 30;
/// And after so many bytes: what a record says of sequence numbers is good for 1 GiB.
const REFRESH_BYTES: u32 = 64 << 20;
/// A flow that has come from the partner is sent once more when it has had no packets for so many seconds: as long as
/// the partner has had some lately, it believes no record.
pub(super) const REPEAT_S: u32 = 8;

/// What is due about a live flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// Nothing is sent: the partner has it.
    Note,
    /// The partner keeps what it has of the flow.
    Known,
    /// The same, of a flow of which nothing was sent, as far as this walk knows: its first record is due as before.
    Name,
    /// A record.
    Record,
}

/// Whether the first record of a flow in this state is worth its bytes: others are over soon.
fn is_lasting(class: u8) -> bool {
    Class::ALL.get(usize::from(without_profile(class))).is_none_or(|it| it.is_lasting())
}

/// Whether it is of a connection that is not open yet.
fn is_opening(class: u8) -> bool {
    without_profile(class) == Class::TcpOpening as u8
}

impl Walk {
    /// What is due about a standby flow, which the partner has, or had. `sent`: what was sent of it; `is_theirs`: the
    /// partner has packets of it. If all that it has said is that the flow is there, it may be standby at both: then
    /// each must name it, or the other one ends it.
    pub(super) fn due_of_standby(
        &self,
        flow: &FlowEntry<'_>,
        sent: Option<Sent>,
        is_theirs: bool,
        moment: Moment<'_>,
    ) -> Due {
        let is_new = sent.is_none_or(|it| moment.is_bulk && it.round != self.round);
        if is_new && moment.is_bulk && moment.has_standby && is_lasting(flow.class()) {
            return Due::Record;
        }
        if is_new && moment.is_bulk && !is_theirs {
            return Due::Known;
        }
        if is_new || sent.is_some_and(|it| !it.is_standby) { Due::Note } else { Due::Nothing }
    }

    /// What is due about a flow of this router. `is_from_partner`: the partner had it.
    pub(super) fn due(
        &self,
        flow: &FlowEntry<'_>,
        sent: Option<Sent>,
        is_from_partner: bool,
        moment: Moment<'_>,
    ) -> Due {
        let (class, seen) = (flow.class(), flow.seen());
        let Some(sent) = sent else {
            let is_young = ticks(flow.start(), moment.now) < moment.age_s;
            return match (is_from_partner, is_lasting(class)) {
                (true, _) => Due::Record,
                (_, true) if !is_young => Due::Record,
                // The partner may have it from a former connection, with another `minimum-age`.
                _ if moment.is_bulk && (is_young || is_opening(class)) => Due::Name,
                _ if moment.is_bulk => Due::Known,
                _ => Due::Nothing,
            };
        };
        let is_again = moment.is_bulk && sent.round != self.round;
        let is_changed = (sent.class, sent.flags) != (class, flow.flags() & SENT_FLAGS);
        let timeout = moment.timeouts.get(usize::from(class)).copied().unwrap_or(REFRESH_S);
        let after = (timeout / REFRESH_PART).clamp(1, REFRESH_S);
        let is_old = || {
            ticks(sent.at, moment.now) >= after
                || passed(flow).wrapping_sub(sent.bytes) >= REFRESH_BYTES
        };
        let is_repeated = || {
            let was_early = ticks(seen, sent.at) < REPEAT_S;
            is_from_partner && was_early && ticks(seen, moment.now) >= REPEAT_S
        };
        let is_due = is_again
            || sent.is_standby
            || is_changed
            || seen != sent.seen && is_old()
            || is_repeated();
        if is_due { Due::Record } else { Due::Nothing }
    }
}
