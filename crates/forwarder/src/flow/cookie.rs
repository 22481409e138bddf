//! SYN cookies (RFC 4987 section 3.6): the sequence number of a SYN-ACK says what the SYN has offered, so that nothing
//! of it need be remembered until its sender has proved by an acknowledgement that it receives what is sent to it.
//!
//! ```text
//! cookie      bit 31: which key; bits 30 to 28: segment size; rest: SipHash-2-4 of both ends, VRF, the client's number
//! timestamp   bits 31 to 6: milliseconds; bit 4: SACK; bits 3 to 0: window scale, 15: none
//! ```
//!
//! Two keys of 128 bits are valid: that of the current time step, and that of the one before. So a cookie lives for one
//! step to two, and whoever learns a key learns nothing about others. Of 2^28 guesses one is right.
//!
//! Scale and SACK are known only if the client has sent timestamps, whose echo brings them back. They are not
//! authenticated: a client may as well have offered others. ECN is not offered (RFC 3168): whether the server has it is
//! not known when the client is answered, and marks that the server ignores would be lost.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use stoa_tables::flow_table::{FlowKey, Tuple};
use stoa_wire::tcp_options::{SynOptions, Timestamps};

/// Segment sizes that a cookie can name, in bytes: usual ones over IPv4 and IPv6, with and without tunnels.
pub const SIZES: [u16; 8] = [216, 536, 1220, 1360, 1400, 1440, 1460, 8960];
/// How long a key is the current one, in seconds.
pub const STEP_S: u64 = 64;

/// The segment size of a SYN without this option (RFC 9293 section 3.7.1).
const DEFAULT4: u16 = 536;
const DEFAULT6: u16 = 1220;
/// Where the fields of a cookie are.
const KEY_BIT: u32 = 31;
const SIZE_BIT: u32 = 28;
const HASH: u32 = (1 << SIZE_BIT) - 1;
/// The fields of a timestamp.
const CLOCK: u32 = !0x3f;
const SACK: u32 = 0x10;
const SCALE: u32 = 0xf;
/// The largest scale (RFC 7323 section 2.3).
const SCALE_MAX: u8 = 14;

/// The keys, which the control thread changes and workers read.
#[derive(Debug, Default)]
pub struct Keys {
    /// The step; its lowest bit tells which key is the current one.
    step: AtomicU32,
    keys: [[AtomicU64; 2]; 2],
}

impl Keys {
    /// Two keys.
    pub fn new(secrets: [[u64; 2]; 2]) -> Self {
        Self { step: AtomicU32::new(0), keys: secrets.map(|key| key.map(AtomicU64::new)) }
    }

    /// Begins the next step with this key. The key before the current one is forgotten.
    pub fn rotate(&self, secret: [u64; 2]) {
        let step = self.step.load(Ordering::Relaxed).wrapping_add(1);
        // A worker that still uses this key has begun more than a step ago.
        for (word, value) in self.keys[step as usize & 1].iter().zip(secret) {
            word.store(value, Ordering::Relaxed);
        }
        self.step.store(step, Ordering::Release);
    }

    fn current(&self) -> u32 {
        self.step.load(Ordering::Acquire) & 1
    }

    fn key(&self, at: u32) -> [u64; 2] {
        let [first, second] = &self.keys[at as usize & 1];
        [first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)]
    }
}

/// One round of SipHash (Aumasson and Bernstein, 2012).
#[inline(always)]
fn round([a, b, c, d]: [u64; 4]) -> [u64; 4] {
    let (a, c) = (a.wrapping_add(b), c.wrapping_add(d));
    let (b, d) = (b.rotate_left(13) ^ a, d.rotate_left(16) ^ c);
    let (a, c) = (a.rotate_left(32).wrapping_add(d), c.wrapping_add(b));
    let (d, b) = (d.rotate_left(21) ^ a, b.rotate_left(17) ^ c);
    [a, b, c.rotate_left(32), d]
}

/// SipHash-2-4 of whole words; `length` is that of the message in bytes, which counts modulo 256.
#[inline(always)]
fn sip_hash<const WORDS: usize>([k0, k1]: [u64; 2], words: [u64; WORDS], last: u64) -> u64 {
    let mut state = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    for word in words.into_iter().chain([last]) {
        state[3] ^= word;
        state = round(round(state));
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    let [a, b, c, d] = round(round(round(round(state))));
    a ^ b ^ c ^ d
}

/// The lower 28 bits of the hash of what a cookie is for. `rest`: the client's number and the size.
#[inline(always)]
fn hash(key: [u64; 2], flow: &FlowKey, number: u32, size: u32) -> u32 {
    whole_hash(key, flow, number, size.into()) as u32 & HASH
}

#[inline(always)]
fn whole_hash(key: [u64; 2], flow: &FlowKey, number: u32, size: u64) -> u64 {
    // The upper byte is the length of the message, as SipHash pads it.
    let last = |length: u64, vrf: u16| length << 56 | size << 16 | u64::from(vrf);
    match &flow.tuple {
        Tuple::Ip4(it) => {
            let ends = u64::from(it.source) << 32 | u64::from(it.destination);
            let ports = u64::from(it.source_port) << 16 | u64::from(it.destination_port);
            let words = [ends, ports << 32 | u64::from(number)];
            sip_hash(key, words, last(16 + 7, flow.vrf))
        }
        Tuple::Ip6(it) => {
            let halves = |end: u128| [(end >> 64) as u64, end as u64];
            let ([a, b], [c, d]) = (halves(it.source), halves(it.destination));
            let ports = u64::from(it.source_port) << 16 | u64::from(it.destination_port);
            let words = [a, b, c, d, ports << 32 | u64::from(number)];
            sip_hash(key, words, last(40 + 7, flow.vrf))
        }
    }
}

/// In place of the number of a size: the hash is that of a server of the router itself.
const SERVER: u64 = 8;

/// The initial sequence numbers of a server of the router for the connection of a client, by the key of its packets:
/// that of now, and that of the time step before or, once a step begins, of the one that follows.
pub fn server_numbers(keys: &Keys, flow: &FlowKey) -> [u32; 2] {
    let now = keys.current();
    [now, now ^ 1].map(|at| whole_hash(keys.key(at), flow, 0, SERVER) as u32)
}

/// The number of the largest of [`SIZES`] that a client takes.
fn size_of(options: &SynOptions, flow: &FlowKey) -> u32 {
    let default = if matches!(flow.tuple, Tuple::Ip4(_)) { DEFAULT4 } else { DEFAULT6 };
    let size = options.segment_size.unwrap_or(default);
    SIZES.iter().rposition(|at| *at <= size).unwrap_or(0) as u32
}

/// The cookie that answers a SYN of the flow with this key, and the timestamps of the answer. `number`: the sequence
/// number of the SYN; `clock`: milliseconds.
#[inline]
pub fn make(
    keys: &Keys,
    flow: &FlowKey,
    number: u32,
    options: &SynOptions,
    clock: u32,
) -> (u32, Option<Timestamps>) {
    let (at, size) = (keys.current(), size_of(options, flow));
    let cookie = at << KEY_BIT | size << SIZE_BIT | hash(keys.key(at), flow, number, size);
    let timestamps = options.timestamps.map(|theirs| {
        let scale = options.scale.map_or(SCALE, |scale| u32::from(scale.min(SCALE_MAX)));
        let sack = if options.sack { SACK } else { 0 };
        // Never ahead of the clock: what the server sends later must not look older.
        Timestamps { value: clock & CLOCK | sack | scale, echo: theirs.value }
    });
    (cookie, timestamps)
}

/// Whether a cookie is the answer to a SYN with this sequence number.
#[inline]
pub fn is_valid(keys: &Keys, flow: &FlowKey, number: u32, cookie: u32) -> bool {
    let (key, size) = (keys.key(cookie >> KEY_BIT), cookie >> SIZE_BIT & 7);
    hash(key, flow, number, size) == cookie & HASH
}

/// What the client has offered, by its cookie and the timestamps of its acknowledgement: the options of its SYN, but
/// for the echo, which is that of the acknowledgement.
pub fn options(cookie: u32, timestamps: Option<Timestamps>) -> SynOptions {
    let size = SIZES[cookie as usize >> SIZE_BIT & 7];
    let Some(Timestamps { echo, .. }) = timestamps else {
        return SynOptions { segment_size: Some(size), ..SynOptions::default() };
    };
    let scale = echo & SCALE;
    SynOptions {
        segment_size: Some(size),
        scale: (scale <= SCALE_MAX.into()).then_some(scale as u8),
        sack: echo & SACK != 0,
        timestamps,
    }
}

#[cfg(test)]
mod tests {
    use stoa_tables::flow_hash::Flow;

    use super::*;

    fn keys() -> Keys {
        Keys::new([[1, 2], [3, 4]])
    }

    fn flows() -> [FlowKey; 2] {
        let (source_port, destination_port, protocol) = (40_000, 80, 6);
        let four = Flow { source: 1, destination: 2, source_port, destination_port, protocol };
        let six = Flow { source: 1, destination: 2, source_port, destination_port, protocol };
        [FlowKey::ip4(four, 0), FlowKey::ip6(six, 0)]
    }

    #[test]
    fn the_hash_is_sip_hash() {
        // The reference vector: key 00 01 .. 0f, message 00 01 .. 0e.
        let bytes: [u8; 16] = std::array::from_fn(|at| at as u8);
        let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap());
        let last = word(8) & !(0xff << 56) | 15 << 56;
        assert_eq!(sip_hash([word(0), word(8)], [word(0)], last), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn every_segment_size_comes_back() {
        let keys = keys();
        for flow in flows() {
            for (at, size) in SIZES.into_iter().enumerate() {
                let next = SIZES.get(at + 1).copied().unwrap_or(u16::MAX);
                for offered in [size, next - 1] {
                    let syn = SynOptions { segment_size: Some(offered), ..SynOptions::default() };
                    let (cookie, timestamps) = make(&keys, &flow, 77, &syn, 5);
                    assert!(is_valid(&keys, &flow, 77, cookie) && timestamps.is_none());
                    let restored = SynOptions { segment_size: Some(size), ..syn };
                    assert_eq!(options(cookie, None), restored);
                }
            }
            let none = SynOptions::default();
            let (cookie, _) = make(&keys, &flow, 77, &none, 5);
            let default = if flow.is_ip6() { 1220 } else { 536 };
            assert_eq!(options(cookie, None).segment_size, Some(default));
        }
    }

    #[test]
    fn scale_and_sack_come_back_in_the_timestamp() {
        for (scale, kept) in
            [(None, None), (Some(0), Some(0)), (Some(14), Some(14)), (Some(200), Some(14))]
        {
            for sack in [false, true] {
                let timestamps = Some(Timestamps { value: 9, echo: 0 });
                let syn = SynOptions { segment_size: Some(1460), scale, sack, timestamps };
                for clock in [0, 63, 64, u32::MAX] {
                    let (cookie, ours) = make(&keys(), &flows()[0], 1, &syn, clock);
                    let ours = ours.unwrap();
                    assert_eq!((ours.echo, ours.value & CLOCK), (9, clock & CLOCK));
                    let theirs = Some(Timestamps { value: 10, echo: ours.value });
                    let restored = SynOptions { scale: kept, timestamps: theirs, ..syn };
                    assert_eq!(options(cookie, theirs), restored);
                }
            }
        }
    }

    #[test]
    fn cookies_live_for_two_steps() {
        let keys = keys();
        // The step wraps, and its lowest bit alone counts.
        keys.step.store(u32::MAX - 2, Ordering::Relaxed);
        for turn in 0..6 {
            let cookie = make(&keys, &flows()[0], 1, &SynOptions::default(), 0).0;
            assert!(is_valid(&keys, &flows()[0], 1, cookie));
            keys.rotate([10 + turn, 20]);
            assert!(is_valid(&keys, &flows()[0], 1, cookie), "{turn}");
            keys.rotate([10 + turn, 21]);
            assert!(!is_valid(&keys, &flows()[0], 1, cookie), "{turn}");
        }
    }

    #[test]
    fn what_differs_in_anything_is_forged() {
        let keys = keys();
        for flow in flows() {
            let cookie = make(&keys, &flow, 1, &SynOptions::default(), 0).0;
            for bit in 0..32 {
                assert!(!is_valid(&keys, &flow, 1, cookie ^ 1 << bit), "{bit}");
                assert!(!is_valid(&keys, &flow, 1 ^ 1 << bit, cookie), "{bit}");
            }
            let mut other = flow;
            other.vrf = 1;
            assert!(!is_valid(&keys, &other, 1, cookie));
            assert!(!is_valid(&keys, &flow.reversed(), 1, cookie));
            let others = |change: fn(&mut u16, &mut u16)| {
                let mut other = flow;
                match &mut other.tuple {
                    Tuple::Ip4(it) => change(&mut it.source_port, &mut it.destination_port),
                    Tuple::Ip6(it) => change(&mut it.source_port, &mut it.destination_port),
                }
                other
            };
            for other in [others(|from, _| *from += 1), others(|_, to| *to += 1)] {
                assert!(!is_valid(&keys, &other, 1, cookie));
            }
        }
        // Guesses are right as often as 28 bits say: of 2^16, hardly any.
        let guesses = (0..1 << 16).map(|at: u32| at.wrapping_mul(0x9e37_79b9));
        assert!(guesses.filter(|it| is_valid(&keys, &flows()[0], 1, *it)).count() < 3);
    }
}
