//! Resets (RFC 5961 section 3, RFC 7857 section 2.2).

use super::window::is_after;
use super::{
    CLOSING, Direction, ESTABLISHED, Events, Options, RESET, Refusal, SYN_CROSSED, SYN_RECEIVED,
    SYN_SENT, Segment, Step, TIME_WAIT, Tcp, pending,
};
use stoa_wire::tcp::flag::ACK;

impl Tcp {
    /// A reset. It ends the connection if its sequence number is one that the receiver may await: from the highest
    /// acknowledgement that has passed up to the end of the data that has passed. Elsewhere in the window it is for
    /// the receiver to challenge, and beyond it is refused.
    pub(super) fn reset(&self, from: Direction, segment: &Segment, options: Options) -> Step {
        let (sender, receiver) = (&self.sides[from as usize], &self.sides[from.reverse() as usize]);
        let sequence = segment.sequence;
        let is_early = matches!(self.phase, SYN_SENT | SYN_CROSSED | SYN_RECEIVED);
        if self.answers_pending_syn(from, segment) {
            let mut state = *self;
            // Whoever answers the SYN so has no connection.
            state.pending |= if is_early { 0 } else { pending::ANSWERED };
            return state.challenge();
        }
        if is_early && self.refuses_syn(from, segment) {
            return self.end_by(pending::FINAL, 0);
        }
        let is_known = self.phase != SYN_SENT || from == Direction::Original;
        let is_exact = !is_after(sender.acked, sequence) && !is_after(sequence, sender.end);
        if is_known && is_exact {
            return self.end_at(from, sequence);
        }
        // While a connection opens, resets also answer segments of older ones (RFC 9293 section 3.5.1); after its end,
        // those of hosts that have forgotten it.
        let is_over = self.phase == RESET || self.phase > TIME_WAIT;
        let is_lax = options.liberal || is_early || is_over;
        if is_lax || sender.may_send(receiver, sequence, sequence) {
            return self.expect_reset(from, sequence).challenge();
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
    fn end_at(&self, from: Direction, sequence: u32) -> Step {
        match self.phase {
            // The time counts from the last segment, whichever it is (RFC 1337).
            TIME_WAIT => self.accept(Events::default()),
            SYN_SENT..TIME_WAIT => self.end_by(pending::RESET | from as u8, sequence),
            _ => {
                let mut state = *self;
                if self.pending == pending::RESET | from as u8 {
                    if is_after(sequence, self.mark) {
                        state.mark = sequence;
                    }
                } else {
                    // Both sides.
                    state.pending = pending::FINAL;
                }
                state.accept(Events::default())
            }
        }
    }

    /// Remembers a reset beyond the data that has passed: it may have overtaken this data, twice.
    fn expect_reset(&self, from: Direction, sequence: u32) -> Self {
        let mut state = *self;
        let is_ahead = is_after(sequence, self.sides[from as usize].end);
        if is_ahead && matches!(self.phase, ESTABLISHED | CLOSING) {
            (state.pending, state.mark) = (pending::RESET | from as u8, sequence);
        }
        state
    }

    /// After a segment has passed: what becomes of a reset that came early. `true`: the data before it has passed now,
    /// so that it counts.
    pub(super) fn is_expected_reset(&mut self) -> bool {
        let is_waiting = self.pending & !1 == pending::RESET;
        if !is_waiting || !matches!(self.phase, ESTABLISHED | CLOSING) {
            return false;
        }
        let sender = &self.sides[usize::from(self.pending & 1)];
        if is_after(sender.acked, self.mark) {
            self.pending = pending::NONE;
            return false;
        }
        !is_after(self.mark, sender.end)
    }

    fn end_by(&self, pending: u8, mark: u32) -> Step {
        let mut state = *self;
        (state.phase, state.pending, state.mark) = (RESET, pending, mark);
        state.accept(Events::RESET)
    }

    /// Whether the receiver of a reset acknowledges data beyond it. No host that takes a reset has done so: it takes
    /// one only at or beyond the number that it awaits, and acknowledges nothing afterwards.
    pub(super) fn has_refused_reset(&self, from: Direction, segment: &Segment) -> bool {
        self.pending == pending::RESET | from.reverse() as u8
            && is_after(segment.acknowledgement, self.mark)
    }
}
