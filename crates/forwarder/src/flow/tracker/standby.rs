//! Flows of a partner ([`crate::flow_sync`]).

use stoa_tables::flow_table::{ANSWERED, FlowKey, FormerFlow, Match};

use super::Side;
use super::spliced::SPLICED;
use super::verdict::DECIDED;
use crate::flow::adoption::LeftOut;
use crate::flow::flows::Now;
use crate::flow::profiles::without_profile;
use crate::flow::timeouts::Class;
use crate::flow_sync::message::Record;
use crate::flow_sync::standby::{Given, Outcome};
use crate::nat::LEFT_PART;

/// Seconds without packets here after which a flow of this router is the partner's, if that has had packets since.
const IDLE_S: u32 = 5;
/// What a record has of the flags of a flow: what rules have decided about it, and whether it was answered.
pub const SENT_FLAGS: u8 = DECIDED | ANSWERED;

/// The bit of the rule of a standby flow, which no rule has admitted here, and those of its last tick beside it: so a
/// later process knows whether it had packets ([`crate::flow::adoption`]). Rules have lower numbers.
const STANDBY: u32 = 1 << 22;

/// What a standby flow that was last seen at this tick has in place of the number of a rule.
pub const fn standby_rule(seen: u32) -> u32 {
    STANDBY | seen & (STANDBY - 1)
}

/// Whether a connection in a class, with its profile, is nearly over.
fn is_over(class: u8) -> bool {
    let class = Class::ALL.get(usize::from(without_profile(class)));
    class.is_some_and(|it| !it.is_lasting() && *it != Class::TcpOpening)
}

/// Whether a flow that was last seen at this tick here has had its last packet at the partner. Both count seconds by
/// clocks of their own: the same one may be one less. What is over cannot be open again.
fn is_later(seen: u32, class: u8, from: &FormerFlow) -> bool {
    match from.past.seen.wrapping_sub(seen).cast_signed() {
        -1 => !is_over(class) && is_over(from.class),
        0 => !is_over(class) || is_over(from.class),
        later => later > 0,
    }
}

/// Whether a flow of this router has no packets now.
fn is_idle(seen: u32, now: Now) -> bool {
    now.tick.wrapping_sub(seen).cast_signed() >= IDLE_S as i32
}

impl Side {
    /// Whether the partner may have one more flow here: it must not keep this router from creating flows.
    pub fn has_standby_room(&self, is_translated: bool) -> bool {
        let least = self.flows.capacity_of(self.is_ip4, is_translated) / LEFT_PART;
        self.owner.available(self.kind(is_translated)) > least
    }

    /// A flow is standby from now on: a record has given it this. `epoch`: of rules that are in force no longer.
    pub fn set_standby(&mut self, id: u32, given: Given, epoch: u16) {
        self.flows.standby().note((self.is_ip4, id), given);
        // It refuses only flows that are not own or not live.
        let _ = self.owner.judge(id, epoch, standby_rule(given.seen));
    }

    /// The id of an own standby flow.
    fn find_standby(&self, key: &FlowKey) -> Option<u32> {
        let id = self.find(key).filter(|found| self.owns(*found)).and_then(Match::id)?;
        self.flows.standby().is_standby(&self.reader.entry(id)).then_some(id)
    }

    /// The partner has a standby flow still, as the connection with this number says.
    /// `is_theirs`: and has packets of it.
    fn note_known(&self, id: u32, connection: u32, is_theirs: bool) {
        let flow = self.reader.entry(id);
        let (start, seen, class) = (flow.start(), flow.seen(), flow.class());
        let given = Given { start, seen, class, connection, is_theirs };
        self.flows.standby().note((self.is_ip4, id), given);
    }

    /// The same by its key.
    pub fn know_standby(&self, key: &FlowKey, connection: u32) {
        if let Some(id) = self.find_standby(key) {
            self.note_known(id, connection, false);
        }
    }

    /// A flow that is there has a record of the partner, by the connection with this number. It follows that as long as
    /// it has no packets here. `epoch`: of rules that are in force no longer.
    pub fn refresh_standby(
        &mut self,
        found: Match,
        (record, connection): (&Record, u32),
        (now, epoch): (Now, u16),
    ) -> Outcome {
        let Some(id) = found.id().filter(|_| self.owns(found)) else {
            return Outcome::Refused(LeftOut::Room);
        };
        let (flow, from) = (self.owner.entry(id), &record.flow);
        let (start, class, flags) = (flow.start(), flow.class(), flow.flags());
        let is_standby = self.flows.standby().is_standby(&flow);
        if is_standby {
            self.note_known(id, connection, !record.is_standby);
        }
        let has_packets = !is_standby && !is_idle(flow.seen(), now);
        let is_later = is_standby || is_later(flow.seen(), class, from);
        if record.is_standby || has_packets || !is_later || !is_standby && flags & SPLICED != 0 {
            return Outcome::Ignored;
        }
        let reply = flow.reply_key();
        let same = from.reply_key.unwrap_or(flow.key().reversed()) == reply;
        if !same || flow.key() != from.key {
            // It is another connection, or has another external end.
            if !is_standby {
                return Outcome::Refused(LeftOut::Translation);
            }
            // The next record creates it.
            self.remove(id);
            return Outcome::Refused(LeftOut::Room);
        }
        if let Err(why) = self.check_former(from, now) {
            return Outcome::Refused(why);
        }
        let (seen, is_theirs) = (from.past.seen, true);
        let given = Given { start, seen, class: from.class, connection, is_theirs };
        self.set_standby(id, given, epoch);
        let flow = self.owner.entry(id);
        flow.set_tcp(from.tcp);
        flow.refresh(from.past.seen);
        let timeout = self.profiles.timeouts[usize::from(from.class)];
        let look = from.past.seen.wrapping_add(timeout.min(1 << 30));
        // All of these refuse only flows that are not own or not live.
        if class != from.class {
            let _ = self.owner.set_class_until(id, from.class, look);
        }
        if let Some(state) = Class::ALL.get(usize::from(without_profile(from.class))) {
            let is_replied = *state != Class::Icmp || from.flags & ANSWERED != 0;
            let _ = self.owner.set_eviction(id, state.eviction(is_replied), look);
            if *state != Class::TcpOpening {
                self.note_opened(id);
            }
        }
        if is_standby {
            let _ = self.owner.set_flags(id, from.flags & !SPLICED);
        }
        Outcome::Refreshed
    }

    /// A reply of a flow that has come from the partner, and that no rule has judged since: it keeps the flow, as it
    /// did there. A change of rules ends that until the next record; and it does not begin it for a flow that the
    /// former rules have judged.
    #[cold]
    #[inline(never)]
    pub(super) fn keep_by_reply(&self, id: u32, (now, epoch): (Now, u16)) {
        let flow = self.owner.entry(id);
        let is_unjudged = flow.epoch() == epoch.wrapping_sub(1) && flow.rule() & STANDBY != 0;
        if is_unjudged && self.flows.standby().is_from_partner(&flow) {
            flow.refresh(now.tick);
        }
    }

    /// A flow of the partner has ended: one that is still its own here goes, too. Others stay, also while they are
    /// idle: the partner may have ended what was standby there.
    pub fn end_standby(&mut self, key: &FlowKey) -> Outcome {
        let Some(id) = self.find_standby(key) else { return Outcome::Ignored };
        self.remove(id);
        Outcome::Ended
    }

    /// The bulk of a connection is over: a standby flow that it has not named has ended at the partner.
    pub fn sweep_standby(&mut self, key: &FlowKey, connection: u32) -> Option<Outcome> {
        let standby = self.flows.standby();
        let is_named = |id: &u32| standby.is_named(&self.reader.entry(*id), connection);
        let id = self.find_standby(key).filter(|id| !is_named(id))?;
        self.remove(id);
        Some(Outcome::Ended)
    }
}

#[cfg(test)]
mod tests {
    use stoa_tables::flow_hash::Flow;
    use stoa_tables::flow_table::Past;

    use super::*;

    #[test]
    fn in_one_second_what_is_over_is_later() {
        let flow =
            Flow { source: 1, destination: 2, source_port: 3, destination_port: 4, protocol: 6 };
        let later = |seen: u32, class: Class, ours: Class| {
            let from = FormerFlow {
                key: FlowKey::ip4(flow, 0),
                reply_key: None,
                class: class as u8,
                flags: 0,
                owner: 0,
                zone_pair: 0,
                tcp: [0; _],
                past: Past { seen, ..Past::default() },
                spare: [0; 2],
            };
            is_later(5, ours as u8, &from)
        };
        let (open, over) = (Class::TcpEstablished, Class::TcpTimeWait);
        let all = |seen| {
            [(open, open), (over, open), (open, over), (over, over)]
                .map(|(theirs, ours)| later(seen, theirs, ours))
        };
        assert_eq!(all(3), [false; 4]);
        assert_eq!(all(4), [false, true, false, false]);
        assert_eq!(all(5), [true, true, false, true]);
        assert_eq!(all(6), [true; 4]);
        assert!(later(5, open, Class::TcpOpening));
    }
}
