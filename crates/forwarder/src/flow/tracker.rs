//! The flows of one worker: follows and creates them by packets, and ends them. No packet waits for another worker.
//!
//! A flow admits replies and passes output lists only once one of its packets has passed them ([`verdict`]). So a flow
//! whose first packet does not leave the router opens no way for others.

mod adopted;
mod alg;
mod answer;
mod calls;
mod create;
mod limited;
mod pieces;
mod seen;
mod spliced;
mod standby;
mod steady;
mod step;
#[cfg(test)]
mod tests;
mod translated;
mod upkeep;
mod verdict;

use std::sync::Arc;

use stoa_tables::flow_table::{
    Created, FlowEntry, FlowError, FlowKey, FlowOwner, FlowReader, Match, NewFlow, TCP_WORDS,
};
use stoa_wire::protocol;

use super::alg::AlgFlow;
use super::exchange::Exchange;
use super::fields::Kind;
use super::flows::{FlowCounts, Flows, Now};
use super::profiles::{Copied, profile_of, with_profile};
use super::selection::Selection;
use super::tcp::Direction;
use super::timeouts::Class;
use crate::drops::Drop;
use crate::flow_sync::Intake;
use crate::ipfix::ring::Writer;
pub use alg::Listener;
pub use calls::Said;
pub use pieces::{Later, part};
use pieces::{Passed, Pieces};
pub use seen::{Seen, about, fits};
pub use spliced::SPLICED;
pub use standby::{SENT_FLAGS, standby_rule};
pub use steady::{SEGMENT, Steady, SteadyFlows};
pub use translated::{Translation, Uses};
pub use verdict::{Admission, SUSPENDED};
use verdict::{admits_replies, is_paired, is_settled};

/// What became of a packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// It passes input lists, and output lists too if it is admitted.
    Pass {
        /// The flow has passed output lists, as far as they concern this direction.
        is_admitted: bool,
    },
    /// It cannot belong to the connection.
    Drop(Drop),
    /// It is a SYN that begins another connection: rules decide whether it replaces the flow.
    Replace,
}

/// What became of the first packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// There is a new flow.
    New,
    /// There is one already.
    Existing(Match),
    /// A packet that begins no flow, and that the rule accepts without.
    Untracked,
    /// Another flow has the external port towards the same end.
    PortTaken,
    /// It must be dropped.
    Drop(Drop),
}

/// The flows of one worker.
pub struct FlowTracker {
    four: Side,
    six: Side,
    /// Whether it has adopted what it should of a former process.
    has_adopted: bool,
    /// What a partner sends.
    intake: Intake,
}

impl FlowTracker {
    pub(super) fn new(flows: &Arc<Flows>, worker: usize, [four, six]: [FlowOwner; 2]) -> Self {
        Self {
            four: Side::new(flows, worker, four, true),
            six: Side::new(flows, worker, six, false),
            has_adopted: false,
            intake: flows.standby().intake(worker),
        }
    }

    /// Those of a family.
    #[inline(always)]
    pub fn of(&mut self, is_ip4: bool) -> &mut Side {
        if is_ip4 { &mut self.four } else { &mut self.six }
    }

    /// Whether it has not yet adopted flows of a former process: asked once.
    pub fn begins_adoption(&mut self) -> bool {
        !std::mem::replace(&mut self.has_adopted, true)
    }

    /// What a partner sends for this worker.
    #[inline(always)]
    pub fn intake(&mut self) -> &mut Intake {
        &mut self.intake
    }

    /// Ends flows that are due, some of them; whether more are left for another call.
    pub fn maintain(&mut self, now: Now) -> bool {
        let four = self.four.maintain(now);
        self.six.maintain(now) || four
    }
}

/// The flows of one worker and family.
pub struct Side {
    flows: Arc<Flows>,
    reader: FlowReader,
    owner: FlowOwner,
    is_ip4: bool,
    worker: usize,
    profiles: Copied,
    pieces: Pieces,
    /// Its end of the export.
    export: Writer,
    /// Free ids that creations keep, of flows with one key and of translated ones: removed ones are free only after a
    /// grace period.
    reserves: [u32; 2],
    /// Which clearing of flows this side has seen, which flows it concerns, and where it goes on.
    cleared: u32,
    selection: Selection,
    sweep: Option<u32>,
    /// Which limits this side counts flows by, and where it goes on to count them anew.
    limited: u32,
    uncounted: Option<u32>,
    /// Whether the vector that is being processed has created flows, and has asked for free ids.
    has_created: bool,
    has_reclaimed: bool,
    /// What the gateway of a flow keeps that was taken.
    carried: Option<AlgFlow>,
}

impl Side {
    fn new(flows: &Arc<Flows>, worker: usize, owner: FlowOwner, is_ip4: bool) -> Self {
        let reserve = |is_translated| {
            let capacity = flows.capacity_of(is_ip4, is_translated);
            (capacity / 64).clamp(4, 256).min(capacity / 2)
        };
        Self {
            flows: Arc::clone(flows),
            reader: flows.reader(is_ip4).clone(),
            owner,
            is_ip4,
            worker,
            profiles: flows.profiles().copy(),
            pieces: Pieces::new(),
            export: flows.exports().writer(),
            reserves: [false, true].map(reserve),
            cleared: flows.cleared(),
            selection: Selection::default(),
            sweep: None,
            limited: flows.limits().version(),
            uncounted: None,
            has_created: false,
            has_reclaimed: false,
            carried: None,
        }
    }

    /// A vector begins.
    #[inline]
    pub fn begin(&mut self) {
        (self.has_created, self.has_reclaimed) = (false, false);
        self.follow_profiles();
    }

    /// Copies the profiles if one was set.
    #[inline(always)]
    fn follow_profiles(&mut self) {
        if self.flows.profiles().version() != self.profiles.version {
            self.copy_profiles();
        }
    }

    #[cold]
    #[inline(never)]
    fn copy_profiles(&mut self) {
        self.profiles = self.flows.profiles().copy();
    }

    /// Whether flows were created since a vector began.
    #[inline]
    pub fn has_created(&self) -> bool {
        self.has_created
    }

    /// Look-ups.
    #[inline(always)]
    pub fn reader(&self) -> &FlowReader {
        &self.reader
    }

    /// The number of this owner.
    #[inline(always)]
    pub fn number(&self) -> u8 {
        self.owner.number()
    }

    /// The number of this worker.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The live flow to which packets with a key belong.
    pub fn find(&self, key: &FlowKey) -> Option<Match> {
        let found = self.reader.find(key);
        found.id().filter(|id| self.reader.entry(*id).is_live()).map(|_| found)
    }

    /// Whether this worker follows a flow.
    #[inline(always)]
    pub fn owns(&self, found: Match) -> bool {
        found.id().is_some_and(|id| self.reader.entry(id).owner() == self.number())
    }

    fn count(&self, of: impl FnOnce(&FlowCounts)) {
        if let Some(counts) = self.flows.counts(self.is_ip4, self.worker) {
            of(counts);
        }
    }

    /// A further packet of an own flow. It keeps the flow alive if the rules of `epoch` have admitted that for good.
    #[inline]
    pub fn follow(
        &mut self,
        (id, direction): (u32, Direction),
        packet: &Seen<'_>,
        (now, epoch): (Now, u16),
    ) -> Followed {
        let flow = self.owner.entry(id);
        let (flags, class) = (flow.flags(), flow.class());
        let is_settled = is_settled(flags) && flow.epoch() == epoch;
        let is_admitted = match direction {
            Direction::Original => is_settled,
            Direction::Reply => admits_replies(flags),
        };
        if packet.kind.0 & Kind::FIRST != 0
            && self.objection((id, direction), packet, now).is_none()
        {
            // What the connection refuses is followed by nothing.
            let (vrf, passed) = (flow.key().vrf, Passed { id, start: flow.start(), direction });
            self.pieces.first((packet, vrf), passed, now.tick);
        }
        let (next, is_fresh) = if packet.kind.protocol() == protocol::TCP {
            let options = self.profiles.options(class);
            match step::follow(&flow, direction, packet, (options, now)) {
                Ok(stepped) => stepped,
                Err(refused) => return refused,
            }
        } else {
            let [word, ..] = flow.tcp();
            let state: Exchange = zerocopy::transmute!(word as u8);
            let next = state.step(direction == Direction::Reply);
            if next != state {
                flow.set_tcp(exchange_words(next));
            }
            (Some(next.class()), true)
        };
        flow.count(direction, 1, packet.place.length().into());
        if is_fresh && is_settled {
            flow.refresh(now.tick);
        } else if is_fresh && is_admitted {
            self.keep_by_reply(id, (now, epoch));
        }
        if let Some(next) = next.filter(|next| answer::changes(*next, (class, flags), direction)) {
            self.set_class(id, (class, next), now);
        }
        Followed::Pass { is_admitted }
    }

    /// A fragment that is not the first one comes in.
    #[cold]
    pub fn follow_piece(&mut self, packet: &Seen<'_>, vrf: u16, (now, epoch): (Now, u16)) -> Later {
        match self.pieces.later((packet, vrf), now.tick) {
            pieces::Known::Nothing => Later::Rules,
            pieces::Known::Overlaps => Later::Overlaps,
            pieces::Known::Foreign(worker) => Later::Foreign(worker),
            pieces::Known::Flow(passed) => match self.admits(passed, epoch) {
                None => Later::Rules,
                Some(is_admitted) => {
                    let found = Match::of_received(passed.id, passed.direction);
                    self.count_piece(found, packet);
                    Later::Follows(found, is_admitted)
                }
            },
        }
    }

    /// Counts a fragment that follows the first one of its packet to an own flow.
    #[cold]
    pub fn count_piece(&self, found: Match, packet: &Seen<'_>) {
        if let Some(id) = found.id() {
            self.owner.entry(id).count(found.direction(), 1, packet.place.length().into());
        }
    }

    /// A first fragment goes to another worker, which has its flow. Those behind it are to follow.
    #[cold]
    pub fn note_first_goes(&mut self, packet: (&Seen<'_>, u16), worker: u8, now: Now) {
        self.pieces.first_goes(packet, worker, now.tick);
    }

    /// The worker to which the first fragment of the packet of a later one has gone.
    #[cold]
    pub fn worker_of_piece(&self, packet: (&Seen<'_>, u16), now: Now) -> Option<u8> {
        self.pieces.elsewhere(packet, now.tick)
    }

    /// Whether a fragment that is not the first one, and that has come in, passes output lists. `is_at_pair`: the pair
    /// of its zones, which comes before them.
    #[cold]
    pub fn is_piece_admitted(
        &self,
        packet: (&Seen<'_>, u16),
        (now, epoch): (Now, u16),
        is_at_pair: bool,
    ) -> bool {
        let Some(passed) = self.pieces.known(packet, now.tick) else { return false };
        let is_paired = || {
            let flow = self.entry_of(passed).filter(|flow| flow.epoch() == epoch);
            let is_original = passed.direction == Direction::Original;
            is_original && flow.is_some_and(|flow| is_paired(flow.flags()))
        };
        is_at_pair && is_paired() || self.admits(passed, epoch).unwrap_or(false)
    }

    /// The own flow of a first fragment; `None`: it is over.
    fn entry_of(&self, passed: Passed) -> Option<FlowEntry<'_>> {
        let flow = self.reader.entry(passed.id);
        let is_same = flow.is_live() && flow.start() == passed.start;
        (is_same && flow.owner() == self.number()).then_some(flow)
    }

    /// Whether the flow of a first fragment has admitted this direction by now; `None`: it is over, or admits nothing.
    fn admits(&self, passed: Passed, epoch: u16) -> Option<bool> {
        let flow = self.entry_of(passed)?;
        match passed.direction {
            Direction::Original => Some(is_settled(flow.flags()) && flow.epoch() == epoch),
            Direction::Reply => admits_replies(flow.flags()).then_some(true),
        }
    }

    /// The flow has another class now, or its first answer.
    #[cold]
    #[inline(never)]
    fn set_class(&mut self, id: u32, (before, class): (u8, Class), now: Now) {
        if class != Class::TcpOpening {
            self.note_opened(id);
        }
        let look = self.set_timeout(id, (before, with_profile(class, profile_of(before))), now);
        // It refuses only flows that are not own or not live.
        let _ = self.owner.set_eviction(id, class.eviction(true), look);
    }

    /// The class of a flow, with its profile, is another one now. Returns when it would end.
    fn set_timeout(&mut self, id: u32, (before, class): (u8, u8), now: Now) -> u32 {
        let timeout = self.profiles.timeouts[usize::from(class)];
        let look = now.tick.wrapping_add(timeout);
        // Both refuse only flows that are not own or not live.
        let _ = if timeout < self.profiles.timeouts[usize::from(before)] {
            self.owner.set_class_until(id, class, look)
        } else {
            self.owner.set_class(id, class)
        };
        look
    }
}

/// The words of a flow without connection.
fn exchange_words(state: Exchange) -> [u32; TCP_WORDS] {
    let byte: u8 = zerocopy::transmute!(state);
    let mut words = [0; TCP_WORDS];
    words[0] = byte.into();
    words
}
