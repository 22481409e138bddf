//! A model of a TCP host (RFC 9293 section 3.10, RFC 5961, RFC 7323): small, but with windows that close, scales,
//! retransmission, probes, out-of-order data, half close, resets, and both simultaneous open and close.

mod receiver;

use super::super::segment::Segment;
use super::super::window::is_after;
use stoa_wire::tcp::flag::{ACK, FIN, RST, SYN};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}
use State::*;

/// Twice the lifetime of segments in the model, in milliseconds: longer than any delay there.
pub(super) const LINGER: u64 = 60_000;
const RTO: u64 = 1_000;

#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) state: State,
    pub(super) is_passive: bool,
    pub(super) iss: u32,
    una: u32,
    nxt: u32,
    /// The highest that was sent.
    max: u32,
    send_window: u32,
    /// Numbers of the segment that brought the window.
    window_by: (u32, u32),
    peer_scale: u8,
    pub(super) rcv_nxt: u32,
    /// The right edge of the window offered.
    edge: u32,
    pub(super) capacity: u32,
    unread: u32,
    scale: Option<u8>,
    is_scaled: bool,
    /// Ranges received out of order; FIN at the end of one.
    early: Vec<(u32, u32, bool)>,
    mss: u32,
    /// Bytes to send in all, and whether the FIN follows them.
    pub(super) to_send: u32,
    pub(super) closes: bool,
    pub(super) received: u32,
    timer: Option<u64>,
    backoff: u32,
    pub(super) linger_until: u64,
    /// It was ended by a reset that it received.
    pub(super) was_reset: bool,
    /// It has ended the connection by a reset.
    pub(super) has_aborted: bool,
    /// When it sent the last challenge acknowledgement.
    challenged: Option<u64>,
}

impl Host {
    pub(super) fn new(iss: u32, scale: Option<u8>, capacity: u32, mss: u32) -> Self {
        let unit = scale.unwrap_or(0).min(14);
        Self {
            state: Closed,
            is_passive: false,
            iss,
            una: iss,
            nxt: iss,
            max: iss,
            send_window: 0,
            window_by: (0, 0),
            peer_scale: 0,
            rcv_nxt: 0,
            edge: 0,
            // One unit at least: less is a window that never opens.
            capacity: capacity.clamp(1 << unit, 65_535 << unit),
            unread: 0,
            scale,
            is_scaled: false,
            early: Vec::new(),
            mss,
            to_send: 0,
            closes: false,
            received: 0,
            timer: None,
            backoff: 0,
            linger_until: 0,
            was_reset: false,
            has_aborted: false,
            challenged: None,
        }
    }

    pub(super) fn connect(&mut self, now: u64, out: &mut Vec<Segment>) {
        self.state = SynSent;
        self.nxt = self.iss.wrapping_add(1);
        self.max = self.nxt;
        self.timer = Some(now + RTO);
        out.push(self.syn(SYN));
    }

    /// Ends the connection by a reset (RFC 9293 section 3.10.5).
    pub(super) fn abort(&mut self, out: &mut Vec<Segment>) {
        if !matches!(self.state, Closed | Listen | SynSent | TimeWait) {
            let sequence = self.nxt;
            out.push(Segment { flags: RST, sequence, ..Segment::default() });
        }
        (self.state, self.has_aborted) = (Closed, true);
    }

    /// Whether it takes part in a connection that can go on.
    pub(super) fn is_synchronized(&self) -> bool {
        !matches!(self.state, Closed | Listen | SynSent | SynReceived | TimeWait)
    }

    /// The application reads up to so many bytes; tells the other side if the window was shut.
    pub(super) fn read(&mut self, bytes: u32, out: &mut Vec<Segment>) {
        let shut = self.edge.wrapping_sub(self.rcv_nxt) < self.mss.min(self.capacity / 2);
        self.unread -= bytes.min(self.unread);
        let free = self.capacity - self.unread;
        if self.is_synchronized() && shut && free >= self.mss.min(self.capacity / 2) {
            out.push(self.ack());
        }
    }

    /// The window to offer: its right edge never moves back, but for what the scale cuts off.
    fn window(&mut self, is_syn: bool) -> u16 {
        let free = self.capacity - self.unread;
        let edge = self.rcv_nxt.wrapping_add(free);
        if is_after(edge, self.edge) {
            self.edge = edge;
        }
        let scale = if is_syn || !self.is_scaled { 0 } else { self.scale.unwrap_or(0).min(14) };
        (self.edge.wrapping_sub(self.rcv_nxt) >> scale).min(65_535) as u16
    }

    fn syn(&mut self, flags: u8) -> Segment {
        let has_scale = flags & ACK == 0 || self.is_scaled || self.state == SynSent;
        Segment {
            flags,
            sequence: self.iss,
            acknowledgement: if flags & ACK != 0 { self.rcv_nxt } else { 0 },
            window: self.window(true),
            scale: self.scale.filter(|_| has_scale),
            ..Segment::default()
        }
    }

    fn ack(&mut self) -> Segment {
        let acknowledgement = self.rcv_nxt;
        Segment {
            flags: ACK,
            sequence: self.nxt,
            acknowledgement,
            window: self.window(false),
            ..Segment::default()
        }
    }

    /// Answers a segment that is not acceptable, but not all of them (RFC 5961 section 7; Linux: one in 500 ms).
    fn challenge(&mut self, now: u64, out: &mut Vec<Segment>) {
        if self.challenged.is_none_or(|last| now >= last + 500) {
            self.challenged = Some(now);
            out.push(self.ack());
        }
    }

    /// A probe of an idle connection: one byte that was acknowledged, or none.
    pub(super) fn keep_alive(&mut self, payload: u32) -> Segment {
        let sequence = self.nxt.wrapping_sub(1);
        Segment { sequence, payload, ..self.ack() }
    }

    fn number_of_fin(&self) -> u32 {
        self.iss.wrapping_add(1).wrapping_add(self.to_send)
    }

    fn has_sent_fin(&self) -> bool {
        is_after(self.max, self.number_of_fin())
    }

    /// Sends what the window allows, at most `burst` segments, and what timers ask for.
    pub(super) fn poll(&mut self, now: u64, burst: u32, out: &mut Vec<Segment>) {
        if self.state == TimeWait && now >= self.linger_until {
            self.state = Closed;
        }
        let is_due = self.timer.is_some_and(|due| now >= due);
        if matches!(self.state, SynSent | SynReceived) && is_due {
            self.rearm(now);
            let flags = if self.state == SynSent { SYN } else { SYN | ACK };
            let syn = self.syn(flags);
            out.push(syn);
            return;
        }
        if !matches!(self.state, Established | CloseWait | FinWait1 | Closing | LastAck) {
            return;
        }
        if is_due {
            self.rearm(now);
            self.nxt = self.una;
            if self.send_window == 0 && self.has_more() {
                // A probe, beyond the window.
                out.extend(self.next_segment(1));
            }
        }
        for _ in 0..burst {
            let room = self.una.wrapping_add(self.send_window).wrapping_sub(self.nxt) as i32;
            match self.next_segment(room.max(0) as u32) {
                Some(segment) => out.push(segment),
                None => break,
            }
        }
        let has_work = self.max != self.una || self.has_more();
        self.timer = if has_work { self.timer.or(Some(now + RTO)) } else { None };
    }

    fn rearm(&mut self, now: u64) {
        self.backoff = (self.backoff + 1).min(5);
        self.timer = Some(now + (RTO << self.backoff.min(3)));
    }

    fn has_more(&self) -> bool {
        self.nxt != self.number_of_fin().wrapping_add(u32::from(self.closes))
    }

    /// The next data, FIN included, with at most `room` numbers.
    fn next_segment(&mut self, room: u32) -> Option<Segment> {
        let fin = self.number_of_fin();
        if !self.has_more() || is_after(self.nxt, fin) || room == 0 {
            return None;
        }
        let payload = fin.wrapping_sub(self.nxt).min(self.mss).min(room);
        let is_last = self.nxt.wrapping_add(payload) == fin;
        let has_fin = self.closes && is_last && payload < room;
        if payload == 0 && !has_fin {
            return None;
        }
        let segment = self.ack();
        let flags = segment.flags | if has_fin { FIN } else { 0 };
        let segment = Segment { flags, payload, ..segment };
        self.nxt = segment.end();
        if is_after(self.nxt, self.max) {
            self.max = self.nxt;
        }
        if has_fin {
            self.state = match self.state {
                Established => FinWait1,
                CloseWait => LastAck,
                state => state,
            };
        }
        Some(segment)
    }
}
