//! Slots of the table: expectations as words, with a generation.

use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::expected::REQUEST;
use super::{Becomes, Control, Expectation, Expected, ExpectedKey, Origin};
use crate::flow::alg::Alg;

/// Words of a slot, without its state.
const WORDS: usize = 21;
/// Parts of the state of a slot: below them, its generation.
const FREE: u32 = 0;
const BUSY: u32 = 1;
const READY: u32 = 2;
const PART: u32 = 3;
/// Bits of the first word of a slot, beside port, protocol and gateway.
const IS_IP6: u32 = 1 << 7;
const BECOMES: u32 = 1 << 6;
const KIND_SHIFT: u32 = 4;
/// A bit of the last word, above the epoch, and the place of the number of a request above that.
const UNANSWERED: u32 = 1 << 16;
const REQUEST_SHIFT: u32 = 17;
const ALG: u8 = (1 << KIND_SHIFT) - 1;

impl Expectation {
    pub(super) fn words(&self) -> [u32; WORDS] {
        let (key, it) = (&self.key, self.becomes);
        let part = |address: u128| [96, 64, 32, 0].map(|by| (address >> by) as u32);
        let flags = if key.is_ip6 { IS_IP6 } else { 0 } | if it.is_some() { BECOMES } else { 0 };
        let alg = u32::from(self.alg as u8) | (self.kind as u32) << KIND_SHIFT;
        let first = u32::from(key.port) << 16 | u32::from(key.protocol) << 8 | flags | alg;
        let [a, b, c, d] = part(key.source);
        let [e, f, g, h] = part(key.destination);
        let of = |field: fn(Becomes) -> u32| it.map_or(0, field);
        let unanswered = if self.is_unanswered { UNANSWERED } else { 0 };
        let request = u32::from(self.origin.request & REQUEST) << REQUEST_SHIFT;
        [
            first,
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            u32::from(key.vrf) | of(|it| it.port.into()) << 16,
            of(|it| it.source),
            of(|it| it.destination),
            of(|it| it.vrf.into()) | u32::from(self.profile) << 16,
            of(|it| it.number),
            self.rule,
            self.control.id,
            self.control.start,
            self.until,
            self.origin.name,
            self.mapping.map_or(0, |id| id + 1),
            u32::from(self.epoch) | unanswered | request,
        ]
    }

    pub(super) fn of_words(words: &[u32; WORDS]) -> Option<Self> {
        let [first, a, b, c, d, e, f, g, h, ports, source, destination, vrfs, number, rest @ ..] =
            *words;
        let [rule, id, start, until, name, mapping, last] = rest;
        let whole =
            |parts: [u32; 4]| parts.into_iter().fold(0, |all, it| all << 32 | u128::from(it));
        let becomes =
            Becomes { source, destination, port: (ports >> 16) as u16, vrf: vrfs as u16, number };
        Some(Self {
            key: ExpectedKey {
                source: whole([a, b, c, d]),
                destination: whole([e, f, g, h]),
                is_ip6: first & IS_IP6 != 0,
                port: (first >> 16) as u16,
                protocol: (first >> 8) as u8,
                vrf: ports as u16,
            },
            becomes: (first & BECOMES != 0).then_some(becomes),
            alg: Alg::of_number(first as u8 & ALG)?,
            kind: *Expected::ALL.get((first >> KIND_SHIFT & 3) as usize)?,
            rule,
            profile: (vrfs >> 16) as u8,
            control: Control { id, start },
            until,
            epoch: last as u16,
            is_unanswered: last & UNANSWERED != 0,
            origin: Origin { name, request: (last >> REQUEST_SHIFT) as u16 },
            mapping: mapping.checked_sub(1),
        })
    }
}

#[derive(zerocopy::FromZeros)]
#[repr(C)]
pub(super) struct Slot {
    state: AtomicU32,
    words: [AtomicU32; WORDS],
}

impl Slot {
    /// Its state, and what it has then; `None`: nothing, or somebody changes it.
    pub(super) fn read(&self) -> Option<(u32, Expectation)> {
        let state = self.state.load(Ordering::Acquire);
        if state & PART != READY {
            return None;
        }
        let words = self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let is_same = self.state.load(Ordering::Relaxed) == state;
        is_same.then(|| Expectation::of_words(&words)).flatten().map(|it| (state, it))
    }

    /// Makes it free, if it is as it was.
    pub(super) fn free(&self, state: u32) -> bool {
        let free = state & !PART | FREE;
        self.state.compare_exchange(state, free, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Writes an expectation, if it is free.
    pub(super) fn fill(&self, it: &Expectation) -> bool {
        let state = self.state.load(Ordering::Acquire);
        let busy = state & !PART | BUSY;
        if state & PART != FREE
            || self
                .state
                .compare_exchange(state, busy, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
        {
            return false;
        }
        // Who reads a slot of the former generation sees that it is another one.
        fence(Ordering::Release);
        for (word, value) in self.words.iter().zip(it.words()) {
            word.store(value, Ordering::Relaxed);
        }
        self.state.store((state & !PART).wrapping_add(PART + 1) | READY, Ordering::Release);
        true
    }
}
