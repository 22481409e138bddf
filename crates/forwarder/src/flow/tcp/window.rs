//! Limits of sequence and acknowledgement numbers, as what has passed allows them.

use super::segment::Segment;
use super::{Direction, Options, Refusal, Tcp};
use stoa_wire::tcp::flag::{FIN, SYN};

/// Bits of [`Side::flags`]: it has sent its FIN, whose end is [`Side::end`].
pub(super) const FIN_SEEN: u8 = 1;
/// It has sent an acceptable acknowledgement.
pub(super) const ACK_SEEN: u8 = 2;
/// Its SYN had the option window scale.
pub(super) const SCALED: u8 = 4;
/// Its SYN had the option SACK permitted.
pub(super) const SACK: u8 = 8;
/// Its SYN had the option timestamps.
pub(super) const TIMESTAMPS: u8 = 16;
/// More of its data may have passed than was seen.
pub(super) const UNCERTAIN: u8 = 32;

/// The largest window scale (RFC 7323 section 2.3).
const SCALE_MAX: u8 = 14;
/// How far behind late segments and acknowledgements may be, at least: the largest window without scale.
const SMALLEST: u32 = 65_535;
/// How many windows late segments may be behind. A host repeats what is one window behind; a network that reorders
/// delivers what was sent longer ago. Hosts ignore it, but some of it has data that no other segment has.
const LATE: u32 = 4;
/// The most that it is, in bytes.
const LATE_MAX: u32 = 1 << 30;
/// What a sender may have sent beyond the window: a probe of one byte (RFC 9293 section 3.8.6.1), and a FIN.
const BEYOND: u32 = 2;
/// What it may repeat before its first byte that is not acknowledged: keep-alives (RFC 9293 section 3.8.4).
const BEFORE: u32 = 1;

/// The bits of [`Side::window`] that hold the scale.
const SCALE: u16 = 0xf;

/// One side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    /// Number of the first byte that it has not sent yet. After a reset that the receiver may not have taken, the
    /// number of this reset.
    pub(super) end: u32,
    /// The highest acknowledgement that the other side has sent; before the first one, the number of its SYN.
    pub(super) acked: u32,
    /// The largest window that it has ever offered, in units of its scale, without its lowest 4 bits; and the scale in
    /// their place. They count as ones, so that the limit errs to the permissive side.
    pub(super) window: u16,
    /// Bits, below 2^6.
    pub(super) flags: u8,
}

/// Whether `a` follows `b` (RFC 9293 section 3.4).
#[inline(always)]
pub(super) const fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// The later of two.
#[inline(always)]
pub(super) const fn later(a: u32, b: u32) -> u32 {
    if is_after(a, b) { a } else { b }
}

impl Side {
    /// It has sent nothing yet.
    pub(super) const CLOSED: Self = Self { end: 0, acked: 0, window: 0, flags: 0 };
    /// Nothing is known of its windows: it may have offered the largest one.
    pub(super) const UNKNOWN: Self =
        Self { end: 0, acked: 0, window: !SCALE | SCALE_MAX as u16, flags: UNCERTAIN };

    /// It has sent this SYN or SYN-ACK.
    pub(super) fn of_syn(syn: &Segment) -> Self {
        let scale = syn.scale.unwrap_or(0).min(SCALE_MAX);
        let options =
            [(syn.scale.is_some(), SCALED), (syn.sack, SACK), (syn.timestamps, TIMESTAMPS)];
        let flags =
            options.into_iter().fold(0, |flags, (is, bit)| flags | if is { bit } else { 0 });
        let side = Self { end: syn.end(), acked: syn.sequence, window: 0, flags };
        // The window of a SYN has no scale (RFC 7323 section 2.2).
        side.with_window(syn.window.into(), scale)
    }

    /// The same with more flags.
    pub(super) const fn with(self, flags: u8) -> Self {
        Self { flags: self.flags | flags, ..self }
    }

    /// The same with another window, in bytes, and another scale.
    fn with_window(self, bytes: u32, scale: u8) -> Self {
        let units = bytes.div_ceil(1 << scale).min(u16::MAX.into()) as u16;
        Self { window: units & !SCALE | u16::from(scale), ..self }
    }

    /// Takes over the options and the window of another SYN, so that they hold for both.
    pub(super) fn widen(&mut self, syn: &Segment) {
        let other = Self::of_syn(syn);
        let (bytes, scale) =
            (self.bytes().max(other.bytes()), self.scale().max(other.scale()).min(SCALE_MAX));
        *self = self.with_window(bytes, scale).with(other.flags);
    }

    /// Takes over the window of a segment. That of a SYN has no scale (RFC 7323 section 2.2).
    #[inline(always)]
    pub(super) fn offer(&mut self, segment: &Segment) {
        let units = if segment.flags & SYN == 0 {
            segment.window
        } else {
            segment.window.div_ceil(1 << self.scale())
        };
        self.window = self.window.max(units & !SCALE | self.window & SCALE);
    }

    /// Takes over the window of a side whose scale was not known.
    pub(super) fn offer_as(&mut self, other: &Self) {
        self.window = self.window.max(other.window & !SCALE | self.window & SCALE);
    }

    /// The scale of its windows, 0..=15.
    #[inline(always)]
    fn scale(&self) -> u8 {
        (self.window & SCALE) as u8
    }

    /// The largest window that it has ever offered, in bytes, rounded up; below 2^31.
    #[inline(always)]
    fn bytes(&self) -> u32 {
        u32::from(self.window | SCALE) << self.scale()
    }

    /// Windows have no scale: the other side has not offered the option.
    fn unscale(&mut self) {
        *self = self.with_window(self.bytes(), 0);
    }

    /// Whether at most one number that it has sent is not acknowledged, and nothing has passed unseen.
    pub(super) const fn is_idle(&self) -> bool {
        self.end.wrapping_sub(self.acked) <= 1 && self.flags & UNCERTAIN == 0
    }
}

/// Scales count only if both SYNs have the option (RFC 7323 section 2.2).
pub(super) fn agree(sides: &mut [Side; 2]) {
    if sides.iter().any(|side| side.flags & SCALED == 0) {
        sides.iter_mut().for_each(Side::unscale);
    }
}

impl Side {
    /// The end of what it may send.
    #[inline(always)]
    fn limit(&self, receiver: &Self) -> u32 {
        self.acked.wrapping_add(receiver.bytes())
    }

    /// Where the oldest bytes that may still come from it begin; `receiver` takes them or acknowledges them.
    #[inline(always)]
    fn oldest(&self, receiver: &Self) -> u32 {
        let late = receiver.bytes().max(SMALLEST).saturating_mul(LATE).min(LATE_MAX);
        self.end.wrapping_sub(late + BEYOND + BEFORE)
    }

    /// Whether it may send what begins and ends so: where it may send new bytes, or repeats what it has sent.
    #[inline(always)]
    pub(super) fn may_send(&self, receiver: &Self, start: u32, end: u32) -> bool {
        let is_beyond = is_after(start, self.limit(receiver)) & is_after(start, self.end);
        !is_beyond & !is_after(self.oldest(receiver), end)
    }

    /// Whether the receiver may acknowledge up to there.
    #[inline(always)]
    fn may_be_acked(&self, receiver: &Self, up_to: u32) -> bool {
        let is_beyond = is_after(up_to, self.end)
            && (self.flags & UNCERTAIN == 0 || is_after(up_to, self.limit(receiver)));
        !is_beyond & !is_after(self.oldest(receiver), up_to)
    }
}

impl Tcp {
    /// The state after a segment with ACK that is inside of all limits; FIN is not regarded yet.
    ///
    /// - It begins at most where the sender may send, and ends at least where late and repeated segments can.
    /// - It acknowledges at most what the other side has sent, and at least that less some windows (RFC 5961 5).
    ///
    /// The largest window ever offered stands for the one that came with the highest acknowledgement.
    #[inline(always)]
    pub(super) fn follow(
        &self,
        from: Direction,
        segment: &Segment,
        options: Options,
    ) -> Result<Self, Refusal> {
        let (sender, receiver) = (self.sides[from as usize], self.sides[from.reverse() as usize]);
        let (end, ack) = (segment.end(), segment.acknowledgement);
        if !options.liberal {
            if !sender.may_send(&receiver, segment.sequence, end) {
                return Err(Refusal::OutOfWindow);
            }
            if !receiver.may_be_acked(&sender, ack) {
                return Err(Refusal::BadAcknowledgement);
            }
        }
        let mut state = *self;
        let (most, most_acked) = if options.liberal {
            // Nothing was checked: what a forged segment says must not become the number that a reset needs.
            (sender.end.wrapping_add(SMALLEST), receiver.end.wrapping_add(SMALLEST))
        } else {
            (sender.limit(&receiver).wrapping_add(BEYOND), ack)
        };
        let ack = if is_after(ack, most_acked) { most_acked } else { ack };
        let this = &mut state.sides[from as usize];
        this.end = later(this.end, if is_after(end, most) { most } else { end });
        this.offer(segment);
        let that = &mut state.sides[from.reverse() as usize];
        that.acked = later(that.acked, ack);
        // Only if more has passed than was seen.
        that.end = later(that.end, ack);
        Ok(state)
    }

    /// The largest window that a side has ever offered, in units of its scale, rounded down.
    pub fn offered(&self, from: Direction) -> u16 {
        self.sides[from as usize].window & !SCALE
    }

    /// The highest acknowledgement of what a side has sent.
    pub fn acknowledged(&self, from: Direction) -> u32 {
        self.sides[from as usize].acked
    }

    /// More may have passed from there than was seen: a segment came in fragments.
    pub fn note_unseen(&mut self, from: Direction) {
        self.sides[from as usize].flags |= UNCERTAIN;
    }

    /// Whether a segment from there that begins with this number may be under way, so that an ICMP error about it may
    /// be true (RFC 5927 section 4.1).
    pub fn is_under_way(&self, from: Direction, sequence: u32) -> bool {
        let (sender, receiver) = (&self.sides[from as usize], &self.sides[from.reverse() as usize]);
        let oldest = sender.acked.wrapping_sub(BEFORE);
        let is_beyond = is_after(sequence, sender.end)
            && (sender.flags & UNCERTAIN == 0 || is_after(sequence, sender.limit(receiver)));
        !is_after(oldest, sequence) && !is_beyond
    }

    /// Regards the FIN of a segment that [`Self::follow`] has accepted; `before` is its sender as it was.
    pub(super) fn note_fin(&mut self, from: Direction, segment: &Segment, before: &Side) {
        let this = &mut self.sides[from as usize];
        if is_after(this.end, before.end) {
            // Data beyond a FIN: it was none of this host.
            this.flags &= !FIN_SEEN;
        }
        if segment.flags & FIN != 0 && segment.end() == this.end {
            this.flags |= FIN_SEEN;
        }
    }
}
