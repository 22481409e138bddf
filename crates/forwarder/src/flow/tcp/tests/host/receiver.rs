//! What a host does with a segment that arrives (RFC 9293 section 3.10.7).

use super::State::*;
use super::{FIN, Host, LINGER, RST, RTO, SYN, Segment, is_after};
use stoa_wire::tcp::flag::ACK;

impl Host {
    pub(in super::super) fn receive(
        &mut self,
        now: u64,
        segment: &Segment,
        out: &mut Vec<Segment>,
    ) {
        match self.state {
            Closed => Self::answer_closed(segment, out),
            Listen if segment.flags & (RST | ACK | SYN) == SYN => {
                self.take_syn(segment);
                self.state = SynReceived;
                self.timer = Some(now + RTO);
                out.push(self.syn(SYN | ACK));
            }
            Listen => Self::answer_closed(segment, out),
            SynSent => self.receive_opening(now, segment, out),
            _ => self.receive_synchronized(now, segment, out),
        }
    }

    /// Section 3.10.7.1.
    fn answer_closed(segment: &Segment, out: &mut Vec<Segment>) {
        if segment.flags & RST != 0 {
            return;
        }
        out.push(if segment.flags & ACK != 0 {
            Segment { flags: RST, sequence: segment.acknowledgement, ..Segment::default() }
        } else {
            Segment { flags: RST | ACK, acknowledgement: segment.end(), ..Segment::default() }
        });
    }

    fn take_syn(&mut self, segment: &Segment) {
        self.rcv_nxt = segment.sequence.wrapping_add(1);
        self.edge = self.rcv_nxt;
        self.is_scaled = self.scale.is_some() && segment.scale.is_some();
        self.peer_scale = if self.is_scaled { segment.scale.unwrap_or(0).min(14) } else { 0 };
        self.send_window = segment.window.into();
        self.window_by = (segment.sequence, segment.acknowledgement);
        self.nxt = self.iss.wrapping_add(1);
        self.max = self.nxt;
    }

    /// Section 3.10.7.3.
    fn receive_opening(&mut self, now: u64, segment: &Segment, out: &mut Vec<Segment>) {
        let has_ack = segment.flags & ACK != 0;
        let is_good = has_ack && segment.acknowledgement == self.nxt;
        if has_ack && !is_good {
            return Self::answer_closed(segment, out);
        }
        if segment.flags & RST != 0 {
            if is_good {
                (self.state, self.was_reset) = (Closed, true);
            }
            return;
        }
        if segment.flags & SYN == 0 {
            return;
        }
        self.take_syn(segment);
        self.timer = Some(now + RTO);
        self.backoff = 0;
        if is_good {
            self.una = segment.acknowledgement;
            self.state = Established;
            out.push(self.ack());
        } else {
            self.state = SynReceived;
            out.push(self.syn(SYN | ACK));
        }
    }

    /// Section 3.10.7.4.
    fn receive_synchronized(&mut self, now: u64, segment: &Segment, out: &mut Vec<Segment>) {
        let window = self.edge.wrapping_sub(self.rcv_nxt);
        let offset = segment.sequence.wrapping_sub(self.rcv_nxt);
        let (length, last) =
            (segment.end().wrapping_sub(segment.sequence), segment.end().wrapping_sub(1));
        let is_in = |number: u32| number.wrapping_sub(self.rcv_nxt) < window;
        let is_acceptable = offset == 0 || is_in(segment.sequence) || length > 0 && is_in(last);
        if segment.flags & RST != 0 {
            if offset == 0 {
                let listens = self.is_passive && self.state == SynReceived;
                (self.state, self.was_reset) = (if listens { Listen } else { Closed }, true);
                self.una = self.iss;
            } else if is_acceptable {
                self.challenge(now, out);
            }
            return;
        }
        if segment.flags & SYN != 0 || !is_acceptable {
            if self.state == TimeWait && segment.flags & FIN != 0 {
                self.linger_until = now + LINGER;
            }
            if segment.flags & SYN != 0 || length == 0 {
                self.challenge(now, out);
            } else {
                out.push(self.ack());
            }
            return;
        }
        if segment.flags & ACK == 0 || !self.take_ack(now, segment, out) {
            return;
        }
        self.take_data(now, segment, out);
    }

    /// Whether the segment may be processed further.
    fn take_ack(&mut self, now: u64, segment: &Segment, out: &mut Vec<Segment>) -> bool {
        let ack = segment.acknowledgement;
        if self.state == SynReceived {
            if ack != self.iss.wrapping_add(1) {
                Self::answer_closed(segment, out);
                return false;
            }
            self.state = Established;
            self.send_window = u32::from(segment.window) << self.peer_scale;
        }
        if is_after(ack, self.max) || is_after(self.una.wrapping_sub(1 << 22), ack) {
            self.challenge(now, out);
            return false;
        }
        if is_after(ack, self.una) {
            self.una = ack;
            self.nxt = if is_after(ack, self.nxt) { ack } else { self.nxt };
            (self.timer, self.backoff) = (Some(now + RTO), 0);
        }
        let by = (segment.sequence, ack);
        let is_newer = is_after(by.0, self.window_by.0)
            || by.0 == self.window_by.0 && !is_after(self.window_by.1, by.1);
        if is_newer {
            self.send_window = u32::from(segment.window) << self.peer_scale;
            self.window_by = by;
        }
        if self.has_sent_fin() && self.una == self.number_of_fin().wrapping_add(1) {
            self.state = match self.state {
                FinWait1 => FinWait2,
                Closing => TimeWait,
                LastAck => Closed,
                state => state,
            };
            self.linger_until = now + LINGER;
        }
        self.state != Closed
    }

    fn take_data(&mut self, now: u64, segment: &Segment, out: &mut Vec<Segment>) {
        if segment.payload == 0 && segment.flags & FIN == 0 {
            return;
        }
        // Cut to the window.
        let data_end = segment.sequence.wrapping_add(segment.payload);
        let is_whole = !is_after(data_end, self.edge);
        let end = if is_whole { data_end } else { self.edge };
        self.early.push((segment.sequence, end, is_whole && segment.flags & FIN != 0));
        self.early.sort_by_key(|(start, ..)| start.wrapping_sub(self.rcv_nxt) as i32);
        let mut early = std::mem::take(&mut self.early);
        early.retain(|&(start, end, has_fin)| {
            if is_after(start, self.rcv_nxt) {
                return true;
            }
            if is_after(end, self.rcv_nxt) {
                let new = end.wrapping_sub(self.rcv_nxt);
                self.received += new;
                self.unread += new;
                self.rcv_nxt = end;
            }
            if has_fin && end == self.rcv_nxt {
                self.take_fin(now);
            }
            false
        });
        self.early = early;
        out.push(self.ack());
    }

    fn take_fin(&mut self, now: u64) {
        let before = self.state;
        self.state = match self.state {
            Established => CloseWait,
            FinWait1 => Closing,
            FinWait2 => TimeWait,
            state => state,
        };
        if before != self.state {
            self.rcv_nxt = self.rcv_nxt.wrapping_add(1);
            self.edge = if is_after(self.rcv_nxt, self.edge) { self.rcv_nxt } else { self.edge };
            self.linger_until = now + LINGER;
        }
    }
}
