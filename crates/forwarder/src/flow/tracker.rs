//! The flows of one worker: follows and creates them by packets, and ends them. No packet waits for another worker.
//!
//! A flow that nobody has answered yet admits nothing but replies: its packets in the original direction meet output
//! lists each. So a flow whose first packet does not leave the router opens no way for others.

mod pieces;
mod seen;
#[cfg(test)]
mod tests;
mod upkeep;

use std::sync::Arc;

use stoa_tables::flow_table::{
    ASSURED, Created, FlowError, FlowKey, FlowOwner, FlowReader, Match, NewFlow, OwnedFlow,
    TCP_WORDS,
};
use stoa_wire::protocol;

use super::exchange::Exchange;
use super::fields::Kind;
use super::flows::{FlowCounts, Flows, Now};
use super::profiles::{Copied, profile_of, with_profile, without_profile};
use super::tcp::{Direction, Options, Tcp, Verdict};
use super::timeouts::Class;
use crate::drops::Drop;
pub use pieces::Later;
use pieces::Pieces;
pub use seen::{Seen, about, fits};

/// The flag of a flow that the other side has answered.
pub const REPLIED: u8 = 1;
/// The flag of a flow that the policy of now does not admit: its packets meet rules in both directions.
pub const SUSPENDED: u8 = 2;

/// The rule that admits a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The epoch of the rules.
    pub epoch: u16,
    /// The number of the rule, below 2^24.
    pub rule: u32,
    /// The profile that the rule gives its flows, below [`PROFILES`](super::profiles::PROFILES).
    pub profile: u8,
}

/// What became of a packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// It passes input lists, and output lists too if it is admitted.
    Pass {
        /// The flow has replies, or this is one.
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
    /// It must be dropped.
    Drop(Drop),
}

/// The flows of one worker.
pub struct FlowTracker {
    four: Side,
    six: Side,
}

impl FlowTracker {
    pub(super) fn new(flows: &Arc<Flows>, worker: usize, [four, six]: [FlowOwner; 2]) -> Self {
        Self {
            four: Side::new(flows, worker, four, true),
            six: Side::new(flows, worker, six, false),
        }
    }

    /// Those of a family.
    #[inline(always)]
    pub fn of(&mut self, is_ip4: bool) -> &mut Side {
        if is_ip4 { &mut self.four } else { &mut self.six }
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
    /// Free ids that creations keep: removed ones are free only after a grace period.
    reserve: u32,
    /// How often all flows had been cleared, and where clearing goes on.
    cleared: u32,
    sweep: Option<u32>,
    /// Whether the vector that is being processed has created flows, and has asked for free ids.
    has_created: bool,
    has_reclaimed: bool,
}

impl Side {
    fn new(flows: &Arc<Flows>, worker: usize, owner: FlowOwner, is_ip4: bool) -> Self {
        let capacity = flows.capacity(is_ip4);
        Self {
            flows: Arc::clone(flows),
            reader: flows.reader(is_ip4).clone(),
            owner,
            is_ip4,
            worker,
            profiles: flows.profiles().copy(),
            pieces: Pieces::new(),
            reserve: (capacity / 64).clamp(4, 256).min(capacity / 2),
            cleared: flows.cleared(),
            sweep: None,
            has_created: false,
            has_reclaimed: false,
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

    /// The live flow to which packets with a key belong.
    pub fn find(&self, key: &FlowKey) -> Option<Match> {
        let found = self.reader.find(key);
        found.id().filter(|id| self.reader.entry(*id).is_live()).map(|_| found)
    }

    fn count(&self, of: impl FnOnce(&FlowCounts)) {
        if let Some(counts) = self.flows.counts(self.is_ip4, self.worker) {
            of(counts);
        }
    }

    /// A further packet of an own flow. A reply keeps the flow alive only if `may_refresh`.
    #[inline]
    pub fn follow(
        &mut self,
        (id, direction): (u32, Direction),
        packet: &Seen<'_>,
        (now, may_refresh): (Now, bool),
    ) -> Followed {
        let flow = self.owner.entry(id);
        let (flags, class) = (flow.flags(), flow.class());
        let is_admitted = direction == Direction::Reply || flags & REPLIED != 0;
        if packet.kind.0 & Kind::FIRST != 0 {
            let vrf = flow.key().vrf;
            if self.pieces.first((packet, vrf), is_admitted, now.tick) {
                return Followed::Drop(Drop::FragmentOverlap);
            }
        }
        let (next, is_fresh) = if packet.kind.protocol() == protocol::TCP {
            match step(&flow, direction, packet, (self.profiles.options(class), now)) {
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
        if is_fresh && (may_refresh || direction == Direction::Original) {
            flow.refresh(now.tick);
        }
        let is_first_reply = direction == Direction::Reply && flags & REPLIED == 0;
        if is_first_reply {
            // It is own and live.
            let _ = self.owner.set_flags(id, flags | REPLIED);
        }
        if let Some(next) = next.filter(|next| *next as u8 != without_profile(class)) {
            self.set_class(id, (class, next), now);
        }
        Followed::Pass { is_admitted }
    }

    /// A fragment that is not the first one.
    #[cold]
    pub fn follow_piece(&mut self, packet: &Seen<'_>, vrf: u16, now: Now) -> Later {
        self.pieces.later((packet, vrf), now.tick)
    }

    /// The flow has another class now.
    #[cold]
    #[inline(never)]
    fn set_class(&mut self, id: u32, (before, class): (u8, Class), now: Now) {
        let look = self.set_timeout(id, (before, with_profile(class, profile_of(before))), now);
        // Both refuse only flows that are not own or not live.
        let is_assured = self.owner.entry(id).flags() & ASSURED != 0;
        let _ = match class.eviction_order() {
            None => self.owner.assure(id),
            Some(_) if is_assured => self.owner.unassure(id, look),
            Some(_) => Ok(()),
        };
    }

    /// The first packet of a flow.
    pub fn create(
        &mut self,
        key: FlowKey,
        packet: &Seen<'_>,
        admission: Admission,
        now: Now,
    ) -> Opened {
        let Admission { epoch, rule, profile } = admission;
        let mut new = NewFlow { epoch, rule, ..NewFlow::new(key, None) };
        if packet.kind.protocol() == protocol::TCP {
            // A segment with a wrong checksum, or a part of one, says nothing.
            let Some(segment) = packet.segment() else { return Opened::Untracked };
            let options = self.profiles.options(with_profile(Class::TcpOpening, profile));
            match Tcp::open(&segment, options) {
                Ok(state) => {
                    new.tcp = state.words();
                    new.class = with_profile(state.class(), profile);
                }
                Err(refusal) => return Opened::Drop(refusal.into()),
            }
        } else {
            let state = Exchange::open(packet.kind.protocol());
            new.tcp = exchange_words(state);
            new.class = with_profile(state.class(), profile);
        }
        self.make_room();
        let look = now.tick.wrapping_add(self.profiles.timeouts[usize::from(new.class)]);
        match self.owner.create(&new, now.tick, look) {
            Ok(Created::New(id)) => {
                let flow = self.owner.entry(id);
                flow.count(Direction::Original, 1, packet.place.length().into());
                self.count(|counts| counts.created.add(1));
                self.has_created = true;
                if packet.kind.0 & Kind::FIRST != 0 {
                    self.pieces.first((packet, key.vrf), false, now.tick);
                }
                Opened::New
            }
            Ok(Created::Existing(found)) => Opened::Existing(found),
            Err(FlowError::Contended) => Opened::Drop(Drop::FlowContended),
            Err(_) => {
                self.count(|counts| counts.refused.add(1));
                Opened::Drop(Drop::FlowTableFull)
            }
        }
    }

    /// An own flow was admitted anew.
    pub fn judge(&mut self, id: u32, admission: Admission, now: Now) {
        let Admission { epoch, rule, profile } = admission;
        let (flags, class) = (self.owner.entry(id).flags(), self.owner.entry(id).class());
        // Both refuse only flows that are not own or not live.
        let _ = self.owner.set_flags(id, flags & !SUSPENDED);
        let _ = self.owner.judge(id, epoch, rule);
        let state = Class::ALL.get(usize::from(without_profile(class)));
        if let Some(state) = state.filter(|_| profile_of(class) != profile) {
            self.set_timeout(id, (class, with_profile(*state, profile)), now);
        }
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

    /// The rules of now accept an own flow without keeping it.
    pub fn suspend(&mut self, id: u32) {
        let flags = self.owner.entry(id).flags();
        let _ = self.owner.set_flags(id, flags | SUSPENDED);
    }

    /// Removes an own flow. One whose bucket another worker holds stays until it expires, and is suspended.
    pub fn remove(&mut self, id: u32) {
        if self.owner.remove(id).is_err() {
            self.suspend(id);
        }
    }
}

/// The words of a flow without connection.
fn exchange_words(state: Exchange) -> [u32; TCP_WORDS] {
    let byte: u8 = zerocopy::transmute!(state);
    let mut words = [0; TCP_WORDS];
    words[0] = byte.into();
    words
}

/// The next state of a connection: its class if it may have changed, and whether the segment keeps the flow alive.
#[inline]
fn step(
    flow: &OwnedFlow<'_>,
    direction: Direction,
    packet: &Seen<'_>,
    (options, now): (Options, Now),
) -> Result<(Option<Class>, bool), Followed> {
    let Some(segment) = packet.segment() else { return Ok((None, false)) };
    let words = flow.tcp();
    let step = Tcp::from_words(words).step(direction, &segment, options, now.ms);
    match step.verdict {
        Verdict::Drop(refusal) => return Err(Followed::Drop(refusal.into())),
        Verdict::Replace => return Err(Followed::Replace),
        Verdict::Accept | Verdict::Challenge => {}
    }
    let next = step.state.words();
    if next != words {
        flow.set_tcp(next);
    }
    Ok((Some(step.state.class()), step.verdict == Verdict::Accept))
}
