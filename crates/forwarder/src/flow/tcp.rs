//! The tracker of TCP connections that pass through: a pure state machine without packets and without a clock (RFC
//! 9293, RFC 5382, RFC 7857, RFC 5961). It says whether a segment can belong to the connection, and what becomes of it.
//!
//! What it promises:
//! - A segment of a correct host is never refused. Limits come from what has passed before: a host can acknowledge only
//!   data that has passed, and send only as much as acknowledgements and windows that have passed allow. Estimates
//!   err to the permissive side, by less than one window.
//! - Whoever does not know sequence numbers changes nothing. A segment that the receiver will answer by a challenge
//!   acknowledgement (RFC 5961) passes ([`Verdict::Challenge`]), and the state waits for the answer.
//!   A host may limit these answers, so the state changes only after it was silent twice. Whoever makes a host silent
//!   for seconds, by a limit that all of its connections share, is not stopped.
//! - A reset counts if the receiver may take it. While data is in flight this is in doubt ([`Phase::Resetting`]): if
//!   the receiver then acknowledges data beyond the reset, the connection lives on ([`Events::REVIVED`]).
//! - After the last acknowledgement the state remains ([`Phase::TimeWait`]): a repeated FIN opens nothing.

mod opening;
mod reset;
mod segment;
#[cfg(test)]
mod tests;
mod window;
mod words;

use super::timeouts::Class;
pub use segment::Segment;
pub use stoa_tables::flow_table::Direction;
use stoa_wire::tcp::flag::{ACK, FIN, RST, SYN};
use window::Side;

/// Options of a rule for the connections that it admits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// No check of sequence and acknowledgement numbers, for paths of which one direction goes elsewhere. Resets still
    /// have to be exact to end a connection.
    pub liberal: bool,
    /// A connection whose opening was not seen may be picked up at a segment in its middle.
    pub loose: bool,
}

/// What to do with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Forward it.
    Accept,
    /// Forward it: the receiver knows better, and answers by a challenge acknowledgement or ignores it (RFC 5961
    /// sections 3 and 4). Until an answer passes, nothing has changed.
    Challenge,
    /// Drop it.
    Drop(Refusal),
    /// The connection is over or replaced, and the segment is a SYN: judge it as the first of a new flow. If that is
    /// admitted, its state ([`Tcp::open`]) replaces this one. If not, drop the segment and keep the flow.
    Replace,
}

/// Why a segment is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Flags that no host sends together: no flag, SYN with FIN, FIN without ACK ("Xmas") and others.
    ImpossibleFlags,
    /// The first segment of a flow is no SYN, and the flow may not be picked up.
    NoConnection,
    /// The sequence number is outside of the window.
    OutOfWindow,
    /// The acknowledgement number is not of data that the other side has sent lately.
    BadAcknowledgement,
    /// A reset with a sequence number outside of the window (RFC 5961 section 3).
    BlindReset,
    /// A SYN-ACK for a SYN that arrived while the old connection seemed alive: the repeated SYN will replace it.
    Reopening,
}

impl Refusal {
    /// All reasons.
    pub const ALL: [Self; 6] = [
        Self::ImpossibleFlags,
        Self::NoConnection,
        Self::OutOfWindow,
        Self::BadAcknowledgement,
        Self::BlindReset,
        Self::Reopening,
    ];

    /// The short name for counters and drop reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ImpossibleFlags => "tcp-impossible-flags",
            Self::NoConnection => "tcp-no-connection",
            Self::OutOfWindow => "tcp-out-of-window",
            Self::BadAcknowledgement => "tcp-bad-acknowledgement",
            Self::BlindReset => "tcp-blind-reset",
            Self::Reopening => "tcp-reopening",
        }
    }
}

/// What has happened to the connection, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events(pub u8);

impl Events {
    /// Both ends have acknowledged each other's SYN; or a picked-up connection was answered.
    pub const ESTABLISHED: Self = Self(1);
    /// The first FIN.
    pub const HALF_CLOSED: Self = Self(2);
    /// Both FINs are acknowledged.
    pub const CLOSED: Self = Self(4);
    /// A reset that the receiver may take. The flow is over when [`Tcp::class`] is [`Class::TcpReset`].
    pub const RESET: Self = Self(8);
    /// The receiver of a reset has not taken it: the connection lives.
    pub const REVIVED: Self = Self(16);

    /// Whether all of `events` have happened.
    pub const fn has(self, events: Self) -> bool {
        self.0 & events.0 == events.0
    }

    const fn and(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Reset: nothing but late segments will pass.
    Reset,
    /// Reset, but data was in flight, so that the receiver may have refused the reset.
    Resetting,
    /// A SYN was seen.
    SynSent,
    /// A SYN of each side was seen (simultaneous open).
    SynCrossed,
    /// A SYN and its SYN-ACK were seen.
    SynReceived,
    /// Segments in the middle of a connection were seen from one side.
    PickedUp,
    /// Open.
    Established,
    /// Open, but one side has sent its FIN.
    HalfClosed,
    /// Both sides have sent their FIN.
    Closing,
    /// Both FINs are acknowledged.
    TimeWait,
}

/// Values of [`Tcp::phase`]. All others are read as [`RESET`], so that each value is valid.
const RESET: u8 = 0;
const SYN_SENT: u8 = 1;
const SYN_CROSSED: u8 = 2;
const SYN_RECEIVED: u8 = 3;
const PICKED_UP: u8 = 4;
const ESTABLISHED: u8 = 5;
const CLOSING: u8 = 6;
const TIME_WAIT: u8 = 7;
/// With the direction of the reset in the lowest bit.
const DOUBTED: u8 = 8;

/// Values of [`Tcp::pending`].
mod pending {
    /// Nothing.
    pub(super) const NONE: u8 = 0;
    /// A SYN-ACK with another sequence number than the first one: the server has no memory (SYN cookies).
    pub(super) const SYN_ACK: u8 = 1;
    /// A SYN that may open the connection anew; the lowest bit is its direction.
    pub(super) const SYN: u8 = 8;
    /// With `SYN`: the other side has answered as one that knows no connection.
    pub(super) const ANSWERED: u8 = 2;
    /// With `SYN`: it was repeated after a while, and nobody has answered as one that knows the connection.
    pub(super) const AGAIN: u8 = 4;
}

/// The state of a connection. A flow entry holds it as [words](Tcp::words).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// The sides, by [`Direction`] of what they send. In [`SYN_SENT`] with a SYN pending, the second one is what the
    /// first one becomes if this SYN is answered.
    sides: [Side; 2],
    /// Below 2^4.
    phase: u8,
    /// What waits for an answer, below 2^4.
    pending: u8,
    /// When the last SYN came that counts, in units of 256 ms, below 2^6.
    since: u8,
    /// A digest of the sequence number of what is pending, below 2^6.
    number: u8,
}

/// What [`Tcp::step`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The state from now on.
    pub state: Tcp,
    /// What to do with the segment. Only [`Verdict::Accept`] refreshes the timeout of the flow.
    pub verdict: Verdict,
    /// What has happened.
    pub events: Events,
}

impl Tcp {
    /// The state after the first segment of a flow.
    ///
    /// # Errors
    /// The flags are impossible; or the segment is no SYN and may not be picked up. A FIN, a reset and a SYN-ACK never
    /// begin a flow: they are late segments of a flow that was here before, and would open one backwards.
    pub fn open(segment: &Segment, options: Options) -> Result<Self, Refusal> {
        let [closed, unknown] = [Side::CLOSED, Side::UNKNOWN];
        let empty = Self {
            sides: [closed, closed],
            phase: SYN_SENT,
            pending: pending::NONE,
            since: 0,
            number: 0,
        };
        match segment.kind() {
            SYN => Ok(Self { sides: [Side::of_syn(segment), closed], ..empty }),
            ACK if options.loose => {
                let (start, ack) = (segment.sequence, segment.acknowledgement);
                let sender = Side { acked: start, end: segment.end(), ..unknown };
                let other = Side { acked: ack, end: ack, ..unknown };
                Ok(Self { sides: [sender, other], phase: PICKED_UP, ..empty })
            }
            kind if segment::is_possible(kind) => Err(Refusal::NoConnection),
            _ => Err(Refusal::ImpossibleFlags),
        }
    }

    /// Judges a further segment. `now_ms` is a time in milliseconds with any origin that wraps.
    #[inline(always)]
    #[must_use]
    pub fn step(&self, from: Direction, segment: &Segment, options: Options, now_ms: u32) -> Step {
        if self.is_plain() && segment.kind() == ACK {
            let state = self.follow(from, segment, options);
            if let Ok(state) = state {
                return Step { state, verdict: Verdict::Accept, events: Events::default() };
            }
        }
        self.step_rare(from, segment, options, now_ms)
    }

    /// Whether the connection is open, and nothing waits for an answer.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        let fins = (self.sides[0].flags | self.sides[1].flags) & window::FIN_SEEN;
        self.phase == ESTABLISHED && self.pending == pending::NONE && fins == 0
    }

    #[inline(never)]
    fn step_rare(&self, from: Direction, segment: &Segment, options: Options, now: u32) -> Step {
        match segment.kind() {
            SYN => self.syn(from, segment, opening::units(now)),
            SYN_ACK => self.syn_ack(from, segment, options),
            RST | RST_ACK => self.reset(from, segment, options),
            ACK | FIN_ACK if self.is_opening() => self.complete(from, segment, options),
            ACK | FIN_ACK => self.carry(from, segment, options, Events::default()),
            _ => self.refuse(Refusal::ImpossibleFlags),
        }
    }

    /// A segment with ACK, and without SYN and RST, of a connection that was open once.
    fn carry(
        &self,
        from: Direction,
        segment: &Segment,
        options: Options,
        mut events: Events,
    ) -> Step {
        let mut state = match self.follow(from, segment, options) {
            Ok(state) => state,
            Err(reason) => return self.refuse(reason),
        };
        let before = self.fins();
        state.note_fin(from, segment, &self.sides[from as usize]);
        if state.pending & pending::SYN != 0 {
            // Whoever sends this has not forgotten the connection.
            state.pending = pending::NONE;
        }
        if let Some(by) = self.doubted() {
            if !state.refutes_reset(by, self) {
                return state.accept(events);
            }
            events = events.and(Events::REVIVED);
            state.phase = ESTABLISHED;
        }
        match state.phase {
            PICKED_UP if from == Direction::Original => return state.accept(events),
            PICKED_UP => {
                events = events.and(Events::ESTABLISHED);
                state.phase = ESTABLISHED;
            }
            ESTABLISHED | CLOSING => {}
            // Nothing follows a FIN that the other side has acknowledged.
            TIME_WAIT if window::is_after(segment.end(), self.sides[from as usize].end) => {
                return self.refuse(Refusal::OutOfWindow);
            }
            _ => return state.accept(events),
        }
        let fins = state.fins();
        if before == 0 && fins != 0 {
            events = events.and(Events::HALF_CLOSED);
        }
        state.phase = ESTABLISHED;
        if fins == 2 {
            let is_acked = |side: &Side| side.acked == side.end;
            let is_over = state.sides.iter().all(is_acked);
            state.phase = if is_over { TIME_WAIT } else { CLOSING };
            events = if is_over { events.and(Events::CLOSED) } else { events };
        }
        state.accept(events)
    }

    /// How many sides have sent their FIN.
    fn fins(&self) -> u8 {
        self.sides.iter().map(|side| u8::from(side.flags & window::FIN_SEEN != 0)).sum()
    }

    fn is_opening(&self) -> bool {
        matches!(self.phase, SYN_SENT | SYN_CROSSED | SYN_RECEIVED)
    }

    fn accept(self, events: Events) -> Step {
        Step { state: self, verdict: Verdict::Accept, events }
    }

    fn challenge(self) -> Step {
        Step { state: self, verdict: Verdict::Challenge, events: Events::default() }
    }

    fn refuse(&self, reason: Refusal) -> Step {
        Step { state: *self, verdict: Verdict::Drop(reason), events: Events::default() }
    }

    /// How far the connection is.
    pub fn phase(&self) -> Phase {
        match self.phase {
            SYN_SENT => Phase::SynSent,
            SYN_CROSSED => Phase::SynCrossed,
            SYN_RECEIVED => Phase::SynReceived,
            PICKED_UP => Phase::PickedUp,
            ESTABLISHED if self.fins() != 0 => Phase::HalfClosed,
            ESTABLISHED => Phase::Established,
            CLOSING => Phase::Closing,
            TIME_WAIT => Phase::TimeWait,
            _ if self.doubted().is_some() => Phase::Resetting,
            _ => Phase::Reset,
        }
    }

    /// The class of its timeout.
    #[inline]
    pub fn class(&self) -> Class {
        match self.phase {
            ESTABLISHED if self.fins() == 0 => Class::TcpEstablished,
            ESTABLISHED => Class::TcpHalfClosed,
            SYN_SENT | SYN_CROSSED | SYN_RECEIVED | PICKED_UP => Class::TcpOpening,
            CLOSING => Class::TcpClosing,
            TIME_WAIT => Class::TcpTimeWait,
            // It may live: it does not go before its time.
            _ if self.doubted().is_some() => Class::TcpClosing,
            _ => Class::TcpReset,
        }
    }

    /// Widens all limits, for a state that may be older than the connection: one that another router had sent, or that
    /// lay in memory while packets went another way. Up to 1 GiB may have passed meanwhile.
    pub fn relax(&mut self) {
        for side in &mut self.sides {
            *side = Side { end: side.end, acked: side.acked, ..Side::UNKNOWN.with(side.flags) };
        }
    }

    /// Whether both sides have permitted selective acknowledgements, whose numbers a translator of sequence numbers has
    /// to change, too (RFC 2018).
    pub fn has_sack(&self) -> bool {
        self.sides.iter().all(|side| side.flags & window::SACK != 0)
    }

    /// Whether both sides use timestamps (RFC 7323).
    pub fn has_timestamps(&self) -> bool {
        self.sides.iter().all(|side| side.flags & window::TIMESTAMPS != 0)
    }
}

const SYN_ACK: u8 = SYN | ACK;
const RST_ACK: u8 = RST | ACK;
const FIN_ACK: u8 = FIN | ACK;
