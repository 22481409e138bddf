//! What the tracker reads of a TCP segment.

use stoa_wire::tcp::View;
use stoa_wire::tcp::flag::{ACK, FIN, RST, SYN};

/// What counts of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Bits of [`stoa_wire::tcp::flag`].
    pub flags: u8,
    /// Number of the first byte.
    pub sequence: u32,
    /// Number of the next byte that the sender awaits.
    pub acknowledgement: u32,
    /// The window as in the header.
    pub window: u16,
    /// Bytes of data.
    pub payload: u32,
    /// The window scale option of a SYN (RFC 7323 section 2), 0..=255.
    pub scale: Option<u8>,
    /// A SYN has the option SACK permitted (RFC 2018).
    pub sack: bool,
    /// A SYN has the timestamps option (RFC 7323 section 3).
    pub timestamps: bool,
}

/// Flags that say what kind of segment it is; the urgent pointer, PSH and ECN may come with each kind.
const KIND: u8 = SYN | FIN | RST | ACK;

/// Whether a host sends these flags of [`KIND`] together: each segment but the first, or a reset, has an ACK (RFC 9293
/// section 3.10).
pub(super) fn is_possible(kind: u8) -> bool {
    const ALL: [u8; 6] = [SYN, SYN | ACK, ACK, FIN | ACK, RST, RST | ACK];
    ALL.contains(&kind)
}

impl Segment {
    /// What counts of a segment that was read. Options matter only in SYNs; wrong ones are as none.
    pub fn of(view: &View<'_>) -> Self {
        let header = view.header();
        let mut segment = Self {
            flags: header.flags,
            sequence: header.sequence.get(),
            acknowledgement: header.acknowledgement.get(),
            window: header.window.get(),
            payload: view.payload_range().len() as u32,
            ..Self::default()
        };
        if header.flags & SYN != 0 {
            segment.read_options(view);
        }
        segment
    }

    #[cold]
    fn read_options(&mut self, view: &View<'_>) {
        for option in view.options().map_while(Result::ok) {
            match (option.kind, option.data) {
                (3, [scale]) => self.scale = Some(*scale),
                (4, []) => self.sack = true,
                (8, data) if data.len() == 8 => self.timestamps = true,
                _ => {}
            }
        }
    }

    /// The flags that say what kind of segment it is.
    #[inline(always)]
    pub(super) const fn kind(&self) -> u8 {
        self.flags & KIND
    }

    /// Number of the first byte after it: SYN and FIN count as bytes.
    #[inline(always)]
    pub(super) const fn end(&self) -> u32 {
        let control = (self.flags & SYN != 0) as u32 + (self.flags & FIN != 0) as u32;
        self.sequence.wrapping_add(self.payload).wrapping_add(control)
    }
}
