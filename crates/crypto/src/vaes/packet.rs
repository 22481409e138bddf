//! Packets on their way, and lists of lanes.

use super::key::GcmKey;
use crate::algorithm::Cipher;
use crate::lane::Prepared;
use crate::{BATCH, Lane};

/// A packet on its way.
#[derive(Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) key: &'a GcmKey,
    /// The first byte of the text.
    pub(super) text: *mut u8,
    pub(super) length: usize,
    pub(super) nonce: *const u8,
    pub(super) aad: *const u8,
    pub(super) aad_length: u8,
    pub(super) tag: *mut u8,
    pub(super) lane: usize,
}

impl Packet<'_> {
    /// Blocks of the stream.
    pub(super) fn blocks(&self) -> usize {
        self.length.div_ceil(16) + 2
    }
}

/// Lanes of a batch by what is done with them.
pub(super) struct Lanes {
    pub(super) all: [u8; BATCH],
    pub(super) count: usize,
}

impl Lanes {
    pub(super) const NONE: Self = Self { all: [0; BATCH], count: 0 };

    #[inline]
    pub(super) fn add(&mut self, lane: usize) {
        if let Some(place) = self.all.get_mut(self.count) {
            *place = lane as u8;
            self.count += 1;
        }
    }
}

/// Lanes of a batch: with keys of 128 and of 256 bits.
pub(super) struct Kinds {
    pub(super) short: [Lanes; 2],
    pub(super) long: [Lanes; 2],
    pub(super) gmac: Lanes,
}

impl Kinds {
    /// Those of `lanes` that are well-formed and have keys of this engine. A text of up to `short` bytes is short.
    #[inline]
    pub(super) fn of(lanes: &[Lane<'_>], short: usize) -> Self {
        let mut kinds = Self {
            short: [Lanes::NONE, Lanes::NONE],
            long: [Lanes::NONE, Lanes::NONE],
            gmac: Lanes::NONE,
        };
        for (at, lane) in lanes.iter().enumerate() {
            let Prepared::Vaes(key) = &lane.key.prepared else { continue };
            let Some(text) = lane.text_range() else { continue };
            let kind = usize::from(key.rounds != 10);
            let list = if lane.key.algorithm.cipher() == Cipher::Gmac {
                &mut kinds.gmac
            } else if text.len() <= short {
                &mut kinds.short[kind]
            } else {
                &mut kinds.long[kind]
            };
            list.add(at);
        }
        kinds
    }
}

/// Packets of these lanes; those that are missing at the end are empty ones, whose tag nobody sees.
#[inline]
pub(super) fn packets<'a, const N: usize>(
    lanes: &mut [Lane<'a>],
    of: &[u8],
    nobody: &mut [u8; 16],
) -> [Packet<'a>; N] {
    let mut one = |lane: u8| {
        let at = usize::from(lane);
        let Some(lane) = lanes.get_mut(at) else { unreachable!("a lane of the batch") };
        let Prepared::Vaes(key) = &lane.key.prepared else { unreachable!("a lane of this engine") };
        let Some(text) = lane.text_range() else { unreachable!("a lane that is well-formed") };
        // One borrow, so that both pointers stay valid.
        let packet = lane.packet.as_mut_ptr();
        Packet {
            key,
            text: packet.wrapping_add(text.start),
            length: text.len(),
            nonce: lane.nonce.as_ptr(),
            aad: lane.aad.as_ptr(),
            aad_length: lane.aad_length,
            tag: packet.wrapping_add(text.end),
            lane: at,
        }
    };
    let mut all = [one(of[0]); N];
    for (place, lane) in all.iter_mut().zip(of).skip(1) {
        *place = one(*lane);
    }
    // A packet is borrowed once: those that are missing have the text of the last one, of which they take no byte.
    let tag = nobody.as_mut_ptr();
    for at in of.len()..N {
        all[at] = Packet { length: 0, tag, lane: usize::MAX, ..all[of.len() - 1] };
    }
    all
}
