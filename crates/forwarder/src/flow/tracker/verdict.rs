//! What rules have decided about a flow.
//!
//! - A rule of an input admits a flow. If interfaces have lists for sent packets, the flow is *pending* until a packet
//!   in the original direction passes the output, too; then it is *confirmed*. A flow admits replies if it is
//!   confirmed, and its further packets pass output lists if it is not pending.
//! - After a change of rules ([`Admission::epoch`]), the next packet in the original direction is judged in the same
//!   way. Until then a confirmed flow admits replies, which do not keep it alive.
//! - A flow that no rule keeps any more is *suspended*: its packets meet rules in both directions.

use stoa_tables::flow_table::Match;
use stoa_wire::protocol;

use super::translated::Ended;
use super::{Followed, Seen, Side, step};
use crate::flow::flows::Now;
use crate::flow::profiles::{profile_of, with_profile, without_profile};
use crate::flow::tcp::{Direction, Tcp};
use crate::flow::timeouts::Class;
use crate::ipfix::EndReason;

/// The flag of a flow of which a packet has passed the lists of its output, by the rules of any epoch, or that none of
/// them concerns.
pub(super) const CONFIRMED: u8 = 1;
/// The flag of a flow that the rules of now do not keep.
pub const SUSPENDED: u8 = 2;
/// The flag of a flow that an input has admitted, and about which the output decides by the next packet.
const PENDING: u8 = 4;
/// The flag of a flow of which a packet has passed the pair of its zones, by the rules of its epoch.
pub(super) const PAIRED: u8 = 8;

/// All of these.
pub(super) const DECIDED: u8 = CONFIRMED | SUSPENDED | PENDING | PAIRED;

/// The flags of a settled flow, among some.
pub(super) const SETTLED: (u8, u8) = (CONFIRMED, CONFIRMED | SUSPENDED | PENDING);

/// Whether rules need not be asked about its packets in the original direction, by the rules of its epoch.
#[inline(always)]
pub(super) const fn is_settled(flags: u8) -> bool {
    flags & SETTLED.1 == SETTLED.0
}

/// Whether a packet has passed the pair of its zones, by the rules of its epoch.
#[inline(always)]
pub(super) const fn is_paired(flags: u8) -> bool {
    flags & (PAIRED | SUSPENDED) == PAIRED
}

/// Whether its replies pass.
#[inline(always)]
pub(super) const fn admits_replies(flags: u8) -> bool {
    flags & (CONFIRMED | SUSPENDED) == CONFIRMED
}

/// The rule that admits a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The epoch of the rules.
    pub epoch: u16,
    /// The number of the rule, below 2^24.
    pub rule: u32,
    /// The profile that the rule gives its flows, below [`PROFILES`](crate::flow::profiles::PROFILES).
    pub profile: u8,
    /// Whether no output decides about the packet any more.
    pub is_confirmed: bool,
    /// The interface that has received the packet, where it may begin a flow.
    pub received: u32,
}

impl Admission {
    /// The flags of a flow that had these.
    pub(super) const fn flags(self, before: u8) -> u8 {
        // What rules have let pass that kept no flow says nothing about its replies.
        let confirmed = if before & SUSPENDED != 0 { CONFIRMED } else { 0 };
        let kept = before & !(SUSPENDED | PENDING | PAIRED | confirmed);
        if self.is_confirmed { kept | CONFIRMED } else { kept | PENDING }
    }
}

impl Side {
    /// Whether an own flow admits replies now.
    #[inline(always)]
    pub fn admits_replies(&self, id: u32) -> bool {
        admits_replies(self.reader.entry(id).flags())
    }

    /// An own flow was admitted anew.
    pub fn judge(&mut self, id: u32, admission: Admission, now: Now) {
        let Admission { epoch, rule, profile, .. } = admission;
        let (flags, class) = (self.owner.entry(id).flags(), self.owner.entry(id).class());
        // Both refuse only flows that are not own or not live.
        let _ = self.owner.set_flags(id, admission.flags(flags));
        let _ = self.owner.judge(id, epoch, rule);
        let state = Class::ALL.get(usize::from(without_profile(class)));
        if let Some(state) = state.filter(|_| profile_of(class) != profile) {
            self.set_timeout(id, (class, with_profile(*state, profile)), now);
        }
        if admission.is_confirmed {
            self.owner.entry(id).refresh(now.tick);
        }
    }

    /// A packet in the original direction has passed the output. An own flow of this epoch is confirmed; one of an
    /// older epoch was kept neither by the input nor by the output.
    pub fn pass_output(&mut self, found: Match, epoch: u16, now: Now) {
        let Some(id) = found.id().filter(|_| found.direction() == Direction::Original) else {
            return;
        };
        let flow = self.owner.entry(id);
        let flags = flow.flags() | CONFIRMED;
        let is_kept = flow.epoch() == epoch && flags & SUSPENDED == 0;
        if is_kept {
            flow.refresh(now.tick);
        }
        // It is own and live.
        let _ =
            self.owner.set_flags(id, if is_kept { flags & !PENDING } else { flags | SUSPENDED });
    }

    /// A packet of an own flow to the router itself has passed the pair of its zones, the last rules for it. It keeps
    /// no flow; of one that rules do not keep, it is one that has passed.
    pub fn pass_to_router(&mut self, found: Match) {
        let Some(id) = found.id().filter(|_| found.direction() == Direction::Original) else {
            return;
        };
        let flags = self.owner.entry(id).flags();
        if flags & SUSPENDED != 0 {
            let _ = self.owner.set_flags(id, flags | CONFIRMED);
        }
    }

    /// A packet in the original direction has passed the pair of its zones: of an own flow, later fragments may.
    pub fn pass_pair(&mut self, found: Match, epoch: u16) {
        let Some(id) = found.id().filter(|_| found.direction() == Direction::Original) else {
            return;
        };
        let flow = self.owner.entry(id);
        if flow.epoch() == epoch {
            let _ = self.owner.set_flags(id, flow.flags() | PAIRED);
        }
    }

    /// The rules of now accept packets of an own flow without keeping it.
    pub fn suspend(&mut self, id: u32) {
        let flags = self.owner.entry(id).flags();
        let _ = self.owner.set_flags(id, flags | SUSPENDED);
    }

    /// Removes an own flow. One whose bucket another worker holds stays until it expires, and is suspended.
    pub fn remove(&mut self, id: u32) {
        let ended = Ended::of(&self.reader.entry(id));
        if self.is_altered(id) {
            self.end_calls(id);
        }
        match self.owner.remove(id) {
            Ok(()) => {
                self.note_ended(&ended);
                self.export.ended(&self.reader.entry(id), || EndReason::Forced);
            }
            Err(_) => self.suspend(id),
        }
    }

    /// Why a packet cannot belong to the connection of an own flow, so that it says nothing about it. Nothing changes.
    pub fn objection(
        &self,
        (id, direction): (u32, Direction),
        packet: &Seen<'_>,
        now: Now,
    ) -> Option<Followed> {
        if packet.kind.protocol() != protocol::TCP {
            return None;
        }
        let options = self.profiles.options(self.reader.entry(id).class());
        step::check(&self.reader.entry(id), direction, packet, (options, now)).err()
    }

    /// Whether an ICMP error may be about a packet of a flow, of whichever worker. `sequence`: that of its segment.
    pub fn is_about(&self, found: Match, sequence: Option<u32>) -> bool {
        let Some(id) = found.id() else { return false };
        let flow = self.reader.entry(id);
        let is_under_way =
            |number| Tcp::from_words(flow.tcp()).is_under_way(found.direction(), number);
        admits_replies(flow.flags()) && sequence.is_none_or(is_under_way)
    }
}
