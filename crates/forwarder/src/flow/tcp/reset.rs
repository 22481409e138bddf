//! Resets (RFC 5961 section 3, RFC 7857 section 2.2).

use super::window::{FIN_SEEN, Side, UNCERTAIN, is_after};
use super::{
    DOUBTED, Direction, Events, Options, RESET, Refusal, SYN_CROSSED, SYN_RECEIVED, SYN_SENT,
    Segment, Step, TIME_WAIT, Tcp, pending,
};
use stoa_wire::tcp::flag::ACK;

impl Tcp {
    /// A reset. It counts if its sequence number is one that the receiver may await: from the highest acknowledgement
    /// that has passed up to the end of the data that has passed. Elsewhere in the window it is for the receiver to
    /// challenge, and beyond it is refused.
    ///
    /// One that has overtaken its data counts for nothing: the receiver challenges it, and the answer is exact.
    pub(super) fn reset(&self, from: Direction, segment: &Segment, options: Options) -> Step {
        let (sender, receiver) = (&self.sides[from as usize], &self.sides[from.reverse() as usize]);
        let sequence = segment.sequence;
        if self.answers_pending_syn(from, segment) {
            let mut state = *self;
            // Whoever answers the SYN so has no connection.
            state.pending |= if self.is_opening() { 0 } else { pending::ANSWERED };
            return state.challenge();
        }
        if self.is_opening() && self.refuses_syn(from, segment) {
            return self.end();
        }
        let is_known = self.phase != SYN_SENT || from == Direction::Original;
        let is_exact = if options.liberal {
            sequence == sender.acked || sequence == sender.end
        } else {
            !is_after(sender.acked, sequence) && !is_after(sequence, sender.end)
        };
        if is_known && is_exact {
            return self.end_at(from, sequence);
        }
        // While a connection opens, resets also answer segments of older ones (RFC 9293 section 3.5.1); after its end,
        // those of hosts that have forgotten it.
        let is_over = !matches!(self.phase, SYN_SENT..=TIME_WAIT) && self.doubted().is_none();
        let is_lax = options.liberal || self.is_opening() || is_over;
        if is_lax || sender.may_send(receiver, sequence, sequence) {
            return self.challenge();
        }
        self.refuse(Refusal::BlindReset)
    }

    /// Whether a reset answers the SYN of the other side, which may not have seen a SYN-ACK yet: by its
    /// acknowledgement, as it knows no sequence number (RFC 9293 section 3.10.7.3).
    fn refuses_syn(&self, from: Direction, segment: &Segment) -> bool {
        let (side, ack) = (&self.sides[from.reverse() as usize], segment.acknowledgement);
        // After a SYN-ACK, the acknowledgement has been seen once.
        let first =
            if self.phase == SYN_RECEIVED { side.acked.wrapping_sub(1) } else { side.acked };
        let is_opener = from == Direction::Reply || self.phase == SYN_CROSSED;
        segment.flags & ACK != 0 && is_opener && is_after(ack, first) && !is_after(ack, side.end)
    }

    /// A reset with a sequence number that the receiver may await.
    ///
    /// With data in flight, this is one number of many. Only the receiver knows whether it is the right one: the
    /// connection is over if it falls silent, and lives if it acknowledges data beyond the reset.
    fn end_at(&self, from: Direction, sequence: u32) -> Step {
        match self.phase {
            // The time counts from the last segment, whichever it is (RFC 1337).
            TIME_WAIT => self.accept(Events::default()),
            _ if self.is_opening() || self.sides[from as usize].is_idle() => self.end(),
            // One is in doubt already.
            _ if self.doubted().is_some() => self.challenge(),
            SYN_SENT..TIME_WAIT => {
                let mut state = *self;
                state.phase = DOUBTED | from as u8;
                state.sides[from as usize].cut(sequence);
                state.accept(Events::RESET)
            }
            _ => self.accept(Events::default()),
        }
    }

    /// By which side a reset has come that the receiver may not have taken.
    pub(super) fn doubted(&self) -> Option<Direction> {
        match self.phase {
            DOUBTED => Some(Direction::Original),
            phase if phase == DOUBTED | 1 => Some(Direction::Reply),
            _ => None,
        }
    }

    /// After a segment has passed: whether the receiver of a reset by `by` has not taken it. It acknowledges data
    /// beyond it then. No host that takes a reset has done so: it takes one only at the number that it awaits, and
    /// acknowledges nothing afterwards. `before` is the state before the segment.
    pub(super) fn refutes_reset(&mut self, by: Direction, before: &Self) -> bool {
        let mark = before.sides[by as usize].end;
        let side = &mut self.sides[by as usize];
        if is_after(side.acked, mark) {
            return true;
        }
        side.cut(mark);
        if side.acked == mark && side.is_idle() {
            // The receiver awaits this number and no other.
            self.phase = RESET;
        }
        false
    }

    fn end(&self) -> Step {
        let is_first = matches!(self.phase, SYN_SENT..TIME_WAIT);
        let events = if is_first { Events::RESET } else { Events::default() };
        let mut state = *self;
        (state.phase, state.pending) = (RESET, pending::NONE);
        state.accept(events)
    }
}

impl Side {
    /// The end becomes the number of a reset. More may have passed than that.
    fn cut(&mut self, at: u32) {
        if self.end != at {
            self.flags = self.flags & !FIN_SEEN | UNCERTAIN;
            self.end = at;
        }
    }
}
