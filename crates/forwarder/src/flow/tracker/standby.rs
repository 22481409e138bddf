//! Flows of a partner ([`crate::flow_sync`]).

use stoa_tables::flow_table::{ANSWERED, FlowKey, Match};

use super::Side;
use super::spliced::SPLICED;
use super::verdict::DECIDED;
use crate::flow::adoption::LeftOut;
use crate::flow::flows::Now;
use crate::flow::profiles::without_profile;
use crate::flow::timeouts::Class;
use crate::flow_sync::message::Record;
use crate::flow_sync::standby::Outcome;

/// Seconds without packets here after which a flow of this router is the partner's, if that has had packets since.
const IDLE_S: u32 = 5;
/// What a record has of the flags of a flow: what rules have decided about it, and whether it was answered.
pub const SENT_FLAGS: u8 = DECIDED | ANSWERED;

/// The part of a table that is left to flows of this router.
const LEFT_PART: u32 = 16;

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

    /// A flow that is there has a record of the partner. It follows that as long as it has no packets here.
    pub fn refresh_standby(&mut self, found: Match, record: &Record, now: Now) -> Outcome {
        let Some(id) = found.id().filter(|_| self.owns(found)) else {
            return Outcome::Refused(LeftOut::Room);
        };
        if record.is_standby {
            return Outcome::Ignored;
        }
        let (flow, from) = (self.owner.entry(id), &record.flow);
        let (start, class, flags) = (flow.start(), flow.class(), flow.flags());
        let is_standby = self.flows.standby().is_standby(&flow);
        let has_packets = !is_standby && !is_idle(flow.seen(), now);
        let is_later = from.past.seen.wrapping_sub(flow.seen()).cast_signed() > 1;
        if has_packets || !is_standby && (!is_later || flags & SPLICED != 0) {
            return Outcome::Ignored;
        }
        let reply = flow.reply_key();
        let same = from.reply_key.unwrap_or(flow.key().reversed()) == reply;
        if !same || flow.key() != from.key {
            // It is another connection, or has another external end: the next record creates it.
            if is_standby {
                self.remove(id);
            }
            return Outcome::Refused(LeftOut::Room);
        }
        if let Err(why) = self.check_former(from, now) {
            return Outcome::Refused(why);
        }
        self.flows.standby().note((self.is_ip4, id), (start, from.past.seen));
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

    /// A flow of the partner has ended: one that is still its own here goes, too. Others stay, also while they are
    /// idle: the partner may have ended what was standby there.
    pub fn end_standby(&mut self, key: &FlowKey) -> Outcome {
        let found = self.find(key).filter(|found| self.owns(*found));
        let Some(id) = found.and_then(Match::id) else { return Outcome::Ignored };
        if !self.flows.standby().is_standby(&self.reader.entry(id)) {
            return Outcome::Ignored;
        }
        self.remove(id);
        Outcome::Ended
    }
}
