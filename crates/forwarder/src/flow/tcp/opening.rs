//! SYNs and SYN-ACKs, and the acknowledgements that complete an opening (RFC 9293 sections 3.5 and 3.10.7.3).

use super::window::{ACK_SEEN, SCALED, Side, agree, is_after};
use super::{
    CLOSING, Direction, ESTABLISHED, Events, Options, Refusal, SYN_CROSSED, SYN_RECEIVED, SYN_SENT,
    Segment, Step, TIME_WAIT, Tcp, Verdict, pending,
};
use stoa_wire::tcp::flag::ACK;

/// How far SYNs have to be apart for each to count, in units of 256 ms: 0.77 s at least. A host may answer one SYN in
/// half a second only (RFC 5961 section 7 lets it limit challenge acknowledgements; Linux does so for each connection),
/// but not be silent about two of them that are so far apart.
const PATIENCE: u8 = 4;
/// Times and numbers of SYNs have so many values.
const VALUES: u8 = 64;

/// A time in milliseconds in units of 256 ms.
pub(super) fn units(now_ms: u32) -> u8 {
    (now_ms >> 8) as u8 % VALUES
}

/// What is kept of the sequence number of a SYN or SYN-ACK: enough to know a segment that answers it, which can pass
/// but proves nothing.
fn digest(sequence: u32) -> u8 {
    (sequence.wrapping_mul(0x9e37_79b1) >> 26) as u8
}

/// Whether `ack` acknowledges the SYN of a side, and not more than it has sent.
fn is_answer(ack: u32, side: &Side) -> bool {
    is_after(ack, side.acked) && !is_after(ack, side.end)
}

impl Tcp {
    /// A SYN without ACK.
    pub(super) fn syn(&self, from: Direction, segment: &Segment, now: u8) -> Step {
        let mut state = *self;
        let this = &self.sides[from as usize];
        let sequence = segment.sequence;
        match (self.phase, from) {
            (SYN_SENT, Direction::Original) if sequence == this.acked => {
                let this = &mut state.sides[0];
                this.widen(segment);
                if is_after(segment.end(), this.end) {
                    this.end = segment.end();
                }
                state.accept(Events::default())
            }
            (SYN_SENT, Direction::Original) => {
                // Another attempt, or a forged one: the SYN-ACK decides. Its side is free until then.
                state.sides[1] = Side::of_syn(segment);
                state.await_answer(from, sequence, now);
                state.accept(Events::default())
            }
            (SYN_SENT, Direction::Reply) => {
                state.sides[1] = Side::of_syn(segment);
                agree(&mut state.sides);
                (state.phase, state.pending) = (SYN_CROSSED, pending::NONE);
                state.accept(Events::default())
            }
            // A repetition; before and after an acknowledgement.
            (SYN_CROSSED | SYN_RECEIVED, _)
                if sequence == this.acked || sequence.wrapping_add(1) == this.acked =>
            {
                state.sides[from as usize].offer(segment);
                state.accept(Events::default())
            }
            // The initial sequence number is beyond all of the old connection (RFC 9293 section 3.6.1).
            (TIME_WAIT, _) if !is_after(this.end, sequence) => state.replace(),
            (SYN_CROSSED..=TIME_WAIT, _) => self.syn_again(from, sequence, now),
            _ if self.doubted().is_some() => self.syn_again(from, sequence, now),
            _ => state.replace(),
        }
    }

    /// A SYN for a connection that seems alive (RFC 5961 section 4): whoever is alive answers it by a challenge
    /// acknowledgement, which takes the mark away. A host that has forgotten the connection answers it by a SYN-ACK or
    /// a reset. Both can be forged, and a host may be silent once. So the answer counts after a second SYN, which the
    /// host was free to answer, and the SYN after that replaces the connection.
    fn syn_again(&self, from: Direction, sequence: u32, now: u8) -> Step {
        let mut state = *self;
        if self.pending == pending::SYN_ACK {
            return state.challenge();
        }
        let is_same = self.pending & (pending::SYN | 1) == pending::SYN | from as u8;
        let is_answered = is_same && self.pending & pending::ANSWERED != 0;
        let is_repeated = is_same && self.number == digest(sequence);
        if !(is_answered || is_repeated) {
            state.await_answer(from, sequence, now);
            return state.challenge();
        }
        if is_answered && self.phase == TIME_WAIT {
            return state.replace();
        }
        if now.wrapping_sub(self.since) % VALUES >= PATIENCE {
            if is_answered && self.pending & pending::AGAIN != 0 {
                return state.replace();
            }
            state.pending |= pending::AGAIN;
            state.since = now;
        }
        state.number = digest(sequence);
        state.challenge()
    }

    /// Notes a SYN that waits for an answer.
    fn await_answer(&mut self, from: Direction, sequence: u32, now: u8) {
        (self.pending, self.number) = (pending::SYN | from as u8, digest(sequence));
        self.since = now;
    }

    fn replace(self) -> Step {
        Step { state: self, verdict: Verdict::Replace, events: Events::default() }
    }

    /// Whether a segment answers the SYN of the other side that is pending.
    pub(super) fn answers_pending_syn(&self, from: Direction, segment: &Segment) -> bool {
        self.pending & (pending::SYN | 1) == pending::SYN | from.reverse() as u8
            && segment.flags & ACK != 0
            && digest(segment.acknowledgement.wrapping_sub(1)) == self.number
    }

    /// A SYN with ACK.
    pub(super) fn syn_ack(&self, from: Direction, segment: &Segment, options: Options) -> Step {
        match (self.phase, from) {
            (SYN_SENT, Direction::Original) => self.refuse(Refusal::NoConnection),
            (SYN_SENT, Direction::Reply) => self.answer(segment),
            (SYN_RECEIVED, Direction::Reply) => self.answer_again(segment),
            (SYN_RECEIVED, Direction::Original) => self.complete(from, segment, options),
            (SYN_CROSSED, _) => self.answer_crossed(from, segment),
            _ if self.answers_pending_syn(from, segment) => {
                let mut state = *self;
                state.pending |= pending::ANSWERED;
                state.refuse(Refusal::Reopening)
            }
            _ if self.doubted().is_some() => self.accept(Events::default()),
            // Repeated, because the acknowledgement was lost.
            _ => match self.follow(from, segment, options) {
                Ok(state) => state.accept(Events::default()),
                Err(reason) => self.refuse(reason),
            },
        }
    }

    /// The SYN-ACK for the SYN, or for one with another sequence number that came later.
    fn answer(&self, segment: &Segment) -> Step {
        let mut state = *self;
        let ack = segment.acknowledgement;
        let [first, other] = &self.sides;
        if !is_answer(ack, first) {
            if self.pending & pending::SYN == 0 || !is_answer(ack, other) {
                // Of an old connection: the host answers it by a reset (RFC 9293 section 3.5.1).
                return state.challenge();
            }
            state.number = digest(first.acked);
            state.sides[0] = *other;
        }
        state.sides[0].acked = ack;
        state.sides[1] = Side::of_syn(segment).with(ACK_SEEN);
        agree(&mut state.sides);
        if self.pending == pending::NONE {
            // Of an acknowledgement that has overtaken this SYN-ACK.
            state.sides[1].offer_as(&self.sides[1]);
        }
        state.phase = SYN_RECEIVED;
        state.accept(Events::default())
    }

    /// A further SYN-ACK: repeated; with another sequence number, from a server without memory; or for the other one
    /// of two SYNs.
    fn answer_again(&self, segment: &Segment) -> Step {
        let mut state = *self;
        let [this, that] = &mut state.sides;
        let ack = segment.acknowledgement;
        if self.answers_pending_syn(Direction::Reply, segment) {
            state.number = digest(this.acked.wrapping_sub(1));
            // What this SYN offered was not kept.
            let scaled = if segment.scale.is_some() { SCALED } else { 0 };
            let flags = this.flags & !SCALED | scaled;
            *this = Side { acked: ack, end: ack, flags, ..Side::UNKNOWN };
            *that = Side::of_syn(segment).with(ACK_SEEN);
            agree(&mut state.sides);
            return state.accept(Events::default());
        }
        if is_after(this.acked, ack) || is_after(ack, this.end) {
            return state.challenge();
        }
        if segment.sequence != that.acked {
            (state.pending, state.number) = (pending::SYN_ACK, digest(segment.sequence));
        }
        that.offer(segment);
        this.acked = ack;
        state.accept(Events::default())
    }

    /// The SYN-ACK of one of two sides that have both sent a SYN.
    fn answer_crossed(&self, from: Direction, segment: &Segment) -> Step {
        let mut state = *self;
        let ack = segment.acknowledgement;
        let other = &mut state.sides[from.reverse() as usize];
        let has_acked = self.sides[from as usize].flags & ACK_SEEN != 0;
        let is_repeated = has_acked && ack == other.acked;
        if !is_repeated && !is_answer(ack, other) {
            return self.challenge();
        }
        other.acked = ack;
        let this = &mut state.sides[from as usize];
        let is_same = segment.sequence == this.acked || segment.end() == this.end;
        if is_same {
            this.offer(segment);
        } else {
            // An acceptable acknowledgement proves this sequence number, and no SYN can.
            *this = Side::of_syn(segment);
            agree(&mut state.sides);
        }
        state.finish(from, Events::default())
    }

    /// An acknowledgement, with or without data, before both sides have sent one; also the SYN-ACK of an opener whose
    /// SYN and that of the other side have crossed unseen.
    pub(super) fn complete(&self, from: Direction, segment: &Segment, options: Options) -> Step {
        let mut state = *self;
        let ack = segment.acknowledgement;
        if self.phase == SYN_SENT {
            return match from {
                // The SYN-ACK went another way.
                Direction::Original if options.liberal => {
                    state.sides[1] = Side { acked: ack, end: ack, ..Side::UNKNOWN };
                    state.phase = ESTABLISHED;
                    state.carry(from, segment, options, Events::ESTABLISHED)
                }
                Direction::Original => self.refuse(Refusal::NoConnection),
                // It was sent behind the SYN-ACK, which comes later.
                Direction::Reply
                    if is_answer(ack, &self.sides[0]) && self.pending == pending::NONE =>
                {
                    state.sides[1].offer(segment);
                    state.accept(Events::default())
                }
                // Of an old connection.
                Direction::Reply => self.challenge(),
            };
        }
        let other = &mut state.sides[from.reverse() as usize];
        let has_acked = self.sides[from as usize].flags & ACK_SEEN != 0;
        if !has_acked && !is_answer(ack, other) && !options.liberal {
            let sequence = ack.wrapping_sub(1);
            let is_other = self.pending == pending::SYN_ACK
                && from == Direction::Original
                && digest(sequence) == self.number;
            if !is_other {
                return self.refuse(Refusal::BadAcknowledgement);
            }
            (other.acked, other.end) = (sequence, ack);
        }
        let before = state.sides[from as usize];
        match state.follow(from, segment, options) {
            Ok(followed) => state = followed,
            Err(reason) => return self.refuse(reason),
        }
        state.note_fin(from, segment, &before);
        state.finish(from, Events::default())
    }

    /// One side has sent an acceptable acknowledgement: if both have, the connection is open.
    fn finish(mut self, from: Direction, mut events: Events) -> Step {
        self.sides[from as usize].flags |= ACK_SEEN;
        if self.sides.iter().all(|side| side.flags & ACK_SEEN != 0) {
            events = events.and(Events::ESTABLISHED);
            self.pending = pending::NONE;
            let fins = self.fins();
            self.phase = if fins == 2 { CLOSING } else { ESTABLISHED };
            events = if fins != 0 { events.and(Events::HALF_CLOSED) } else { events };
        }
        self.accept(events)
    }
}
