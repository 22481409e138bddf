//! What SYNs agree on by options (RFC 9293 section 3.2, RFC 7323, RFC 2018), and segments whose numbers are changed on
//! their way: options have numbers, too.

use core::ops::Range;

use crate::checksum;
use crate::tcp::{LENGTH, LONGEST, View, flag};

/// Kinds of options.
mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const NONE: u8 = 1;
    pub(super) const SEGMENT_SIZE: u8 = 2;
    pub(super) const SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
}

/// The timestamps option (RFC 7323 section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// The clock of the sender.
    pub value: u32,
    /// The value that the sender has received; it means something only with ACK.
    pub echo: u32,
}

impl Timestamps {
    /// Those of a segment; `None`: it has none, or a malformed option before them.
    #[inline]
    pub fn of(view: &View<'_>) -> Option<Self> {
        SynOptions::of(view).timestamps
    }
}

/// The options of a SYN that a connection depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynOptions {
    /// The largest segment that the sender takes, in bytes.
    pub segment_size: Option<u16>,
    /// The window scale, 0..=255 as received; above 14 it counts as 14.
    pub scale: Option<u8>,
    /// Selective acknowledgements are permitted.
    pub sack: bool,
    /// The timestamps.
    pub timestamps: Option<Timestamps>,
}

/// Bytes of the options of [`SynOptions::write`], at most.
pub const SYN_OPTIONS: usize = 20;
const SYN_WORDS: usize = SYN_OPTIONS / 4;
/// Bytes of timestamps, padded.
const PADDED_TIMESTAMPS: usize = 12;

impl SynOptions {
    /// Those of a segment: well-formed ones, up to the first one that is not.
    #[inline]
    pub fn of(view: &View<'_>) -> Self {
        // As most floods have it.
        if let [kind::SEGMENT_SIZE, 4, high, low] = view.option_bytes() {
            let segment_size = Some(u16::from_be_bytes([*high, *low]));
            return Self { segment_size, ..Self::default() };
        }
        Self::of_any(view)
    }

    fn of_any(view: &View<'_>) -> Self {
        let mut all = Self::default();
        for option in view.options().map_while(Result::ok) {
            match (option.kind, option.data) {
                (kind::SEGMENT_SIZE, [high, low]) => {
                    all.segment_size = Some(u16::from_be_bytes([*high, *low]));
                }
                (kind::SCALE, [scale]) => all.scale = Some(*scale),
                (kind::SACK_PERMITTED, []) => all.sack = true,
                (kind::TIMESTAMPS, [a, b, c, d, e, f, g, h]) => {
                    let value = u32::from_be_bytes([*a, *b, *c, *d]);
                    let echo = u32::from_be_bytes([*e, *f, *g, *h]);
                    all.timestamps = Some(Timestamps { value, echo });
                }
                _ => {}
            }
        }
        all
    }

    /// Writes them in whole words; returns how many bytes: at most [`SYN_OPTIONS`].
    pub fn write(&self, out: &mut [u8; SYN_OPTIONS]) -> usize {
        let (words, count) = self.words();
        for (to, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(words).take(count) {
            *to = word.to_be_bytes();
        }
        4 * count
    }

    /// The same as words, and how many of them there are. The others are 0.
    #[inline(always)]
    pub(crate) fn words(&self) -> ([u32; SYN_WORDS], usize) {
        let (mut words, mut count) = ([0; SYN_WORDS], 0);
        let mut put = |bytes: [u8; 4]| {
            if let Some(word) = words.get_mut(count) {
                *word = u32::from_be_bytes(bytes);
                count += 1;
            }
        };
        if let Some(size) = self.segment_size {
            let [high, low] = size.to_be_bytes();
            put([kind::SEGMENT_SIZE, 4, high, low]);
        }
        let sack = if self.sack { [kind::SACK_PERMITTED, 2] } else { [kind::NONE; 2] };
        if let Some(Timestamps { value, echo }) = self.timestamps {
            put([sack[0], sack[1], kind::TIMESTAMPS, 10]);
            put(value.to_be_bytes());
            put(echo.to_be_bytes());
        } else if self.sack {
            put([kind::NONE, kind::NONE, sack[0], sack[1]]);
        }
        if let Some(scale) = self.scale {
            put([kind::NONE, kind::SCALE, 3, scale]);
        }
        (words, count)
    }
}

/// How numbers of a segment change on its way, modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shift {
    /// Is added to the sequence number.
    pub sequence: u32,
    /// Is added to the acknowledgement number, and to the edges of SACK blocks.
    pub acknowledgement: u32,
    /// Is added to the value of timestamps.
    pub value: u32,
    /// Is added to the echo of timestamps.
    pub echo: u32,
    /// The window becomes so many bits longer, cut to 65,535, or shorter if negative. That of a SYN has no scale and
    /// stays.
    pub window: i8,
}

/// The window of a header in units that are `by` bits shorter, or longer if negative.
#[inline]
pub const fn scaled(window: u16, by: i8) -> u16 {
    let bits = if by.unsigned_abs() > 16 { 16 } else { by.unsigned_abs() as u32 };
    let wide = if by < 0 { window as u64 >> bits } else { (window as u64) << bits };
    if wide > u16::MAX as u64 { u16::MAX } else { wide as u16 }
}

fn add(word: &mut [u8], by: u32) {
    if let Some(word) = word.first_chunk_mut::<4>() {
        *word = u32::from_be_bytes(*word).wrapping_add(by).to_be_bytes();
    }
}

/// Changes the numbers of a segment and updates its checksum (RFC 1624 section 3), whether that was right or not. The
/// data is not read, so that the first fragment of a segment can be changed, too. `false`, and nothing has changed: the
/// header is cut.
#[inline]
pub fn shift(segment: &mut [u8], shift: &Shift) -> bool {
    shift_edges(segment, shift, |_| shift.acknowledgement)
}

/// As [`shift`]. `by`: what is added to an edge of a SACK block, in place of what is added to the acknowledgement
/// number: data in front of an edge may have changed by more or less than what is acknowledged.
#[inline]
pub fn shift_edges(segment: &mut [u8], shift: &Shift, by: impl Fn(u32) -> u32) -> bool {
    let length = segment.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4);
    let Some(header) = segment.get_mut(..length).filter(|_| length >= LENGTH) else { return false };
    let before = checksum::fold(checksum::sum(header));
    add(&mut header[4..], shift.sequence);
    let flags = header[13];
    let has_ack = flags & flag::ACK != 0;
    if has_ack {
        add(&mut header[8..], shift.acknowledgement);
    }
    if shift.window != 0 && flags & flag::SYN == 0 {
        let window = scaled(u16::from_be_bytes([header[14], header[15]]), shift.window);
        header[14..16].copy_from_slice(&window.to_be_bytes());
    }
    shift_options(&mut header[LENGTH..], (shift, by), has_ack);
    let after = checksum::fold(checksum::sum(header));
    let old = u16::from_be_bytes([header[16], header[17]]);
    header[16..18].copy_from_slice(&checksum::update16(old, before, after).to_be_bytes());
    true
}

/// Changes the numbers of options. They are at any place: even an odd one.
fn shift_options(options: &mut [u8], (shift, by): (&Shift, impl Fn(u32) -> u32), has_ack: bool) {
    let mut at = 0;
    while let Some((kind, data)) = next_option(options, &mut at) {
        let data = &mut options[data];
        match kind {
            kind::TIMESTAMPS if data.len() == 8 => {
                add(data, shift.value);
                if has_ack {
                    add(&mut data[4..], shift.echo);
                }
            }
            kind::SACK if has_ack => {
                for edge in data.as_chunks_mut::<4>().0 {
                    let by = by(u32::from_be_bytes(*edge));
                    add(edge, by);
                }
            }
            _ => {}
        }
    }
}

/// The next option at `at`, which moves behind it: its kind, and where its data is. `None`: there is none, or it is
/// malformed.
#[inline]
fn next_option(options: &[u8], at: &mut usize) -> Option<(u8, Range<usize>)> {
    while *options.get(*at)? == kind::NONE {
        *at += 1;
    }
    let (begin, kind) = (*at, options[*at]);
    let length = usize::from(*options.get(begin + 1)?);
    if kind == kind::END || length < 2 || options.len() - begin < length {
        return None;
    }
    *at = begin + length;
    Some((kind, begin + 2..*at))
}

/// Lowers the maximum segment size that a SYN announces (RFC 9293 section 3.7.1) to `most` bytes, and updates its
/// checksum (RFC 1624 section 3), whether that was right or not. The data is not read. Whether it has changed: other
/// segments, SYNs that announce less or nothing, and those with a cut header stay as they are.
pub fn lower_segment_size(segment: &mut [u8], most: u16) -> bool {
    let length = segment.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4);
    let Some(header) = segment.get_mut(..length).filter(|_| length >= LENGTH) else { return false };
    if header[13] & flag::SYN == 0 {
        return false;
    }
    let (mut at, mut is_lower) = (LENGTH, false);
    while let Some((kind, data)) = next_option(header, &mut at) {
        if kind == kind::SEGMENT_SIZE && data.len() == 2 {
            is_lower |= lower(header, data.start, most);
        }
    }
    is_lower
}

/// Lowers a number of a header, at any place: at an odd one, its bytes are those of two words.
fn lower(header: &mut [u8], at: usize, most: u16) -> bool {
    let Some(size) = header.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<2>) else {
        return false;
    };
    let old = u16::from_be_bytes(*size);
    if old <= most {
        return false;
    }
    *size = most.to_be_bytes();
    let in_words = |number: u16| if at.is_multiple_of(2) { number } else { number.swap_bytes() };
    let checksum = u16::from_be_bytes([header[16], header[17]]);
    let checksum = checksum::update16(checksum, in_words(old), in_words(most));
    header[16..18].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// The options of a segment without data, in whole words: timestamps if there are some.
pub fn write_timestamps(timestamps: Option<Timestamps>, out: &mut [u8; SYN_OPTIONS]) -> usize {
    SynOptions { timestamps, ..SynOptions::default() }.write(out)
}

// All options of a SYN fit: segment size, SACK and timestamps, scale.
const _: () = assert!(4 + PADDED_TIMESTAMPS + 4 == SYN_OPTIONS && LENGTH + SYN_OPTIONS <= LONGEST);

#[cfg(test)]
mod tests;
