//! Reads flows of one kind from their table, in turns, and puts what the partner does not know yet into frames.

use std::sync::atomic::{Ordering, fence};

use stoa_api::v1;
use stoa_tables::flow_table::{
    ANSWERED, ASSURED, Direction, FlowEntry, FlowKey, FormerFlow, Kind, Past, Tuple,
};

use super::message::{self, Record};
use crate::flow::flows::Flows;
use crate::flow::profiles::without_profile;
use crate::flow::timeouts::Class;
use crate::flow::tracker::{SENT_FLAGS, SPLICED};
use crate::nat64::hosts::is_stand_in;

/// Turns that a walk over all flows takes: at 100 a second, one second.
const TURNS: u32 = 100;
/// Ids of a turn, at least; and at most, about a millisecond.
const TURN: u32 = 256;
const SLICE: u32 = 4_096;
/// A flow with packets is sent again after a part of its timeout, and after so many seconds at most.
const REFRESH_PART: u32 = 4;
const REFRESH_S: u32 = 30;
/// And after so many bytes: what a record says of sequence numbers is good for 1 GiB.
const REFRESH_BYTES: u32 = 64 << 20;

/// What the partner knows of a flow.
#[derive(Clone, Copy, Default)]
struct Sent {
    is_sent: bool,
    /// It is one of the partner by now: when it ends here, it may go on there.
    is_standby: bool,
    start: u32,
    seen: u32,
    /// When it was sent.
    at: u32,
    /// Lower bits of what had passed.
    bytes: u32,
    class: u8,
    flags: u8,
}

/// What a turn has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Records of flows, and of ends.
    pub flows: u64,
    /// As above.
    pub ends: u64,
    /// Flows that the partner cannot have: what they have beside the table is not sent.
    pub left_out: u64,
    /// Whether a walk over all flows has ended.
    pub is_done: bool,
}

impl Turn {
    /// Adds it to the state.
    pub fn add_to(self, state: &mut v1::FlowSyncState) {
        state.sent_records += self.flows;
        state.sent_ends += self.ends;
        state.left_out_flows += self.left_out;
    }
}

/// Where a turn is, and by what it decides.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// The tick.
    pub now: u32,
    /// Seconds that a flow must last.
    pub age_s: u32,
    /// Whether it is the bulk.
    pub is_bulk: bool,
    /// Whether standby flows are sent in it: to a partner that has started since it had them. Another one has ended
    /// what it does not have any more.
    pub has_standby: bool,
    /// The timeouts of classes.
    pub timeouts: &'a [u32; 256],
}

/// The walk over the flows of a kind.
pub struct Walk {
    kind: Kind,
    next: u32,
    sent: Vec<Sent>,
    keys: Vec<u32>,
}

/// Ticks from one to another; the clock of a worker may be ahead.
fn ticks(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from).cast_signed().max(0).cast_unsigned()
}

/// A copy of a flow, if that is live and whole: its worker may end it, and use its memory again, at any time.
fn copy(flow: &FlowEntry<'_>) -> Option<FormerFlow> {
    let key = flow.key();
    let copy = FormerFlow {
        key,
        reply_key: flow.has_second().then(|| flow.reply_key()),
        class: flow.class(),
        flags: flow.flags() & SENT_FLAGS,
        owner: flow.owner(),
        zone_pair: flow.zone_pair(),
        tcp: flow.tcp(),
        past: Past { start: flow.start(), seen: flow.seen(), ..Past::default() },
        spare: [0, 1].map(|at| flow.spare(at).unwrap_or(0)),
    };
    fence(Ordering::Acquire);
    (flow.is_live() && (flow.start(), flow.key()) == (copy.past.start, key)).then_some(copy)
}

/// Whether the first record of a flow in this state is worth its bytes: others are over soon.
fn is_lasting(class: u8) -> bool {
    const SHORT: [Class; 4] =
        [Class::TcpOpening, Class::TcpClosing, Class::TcpTimeWait, Class::TcpReset];
    let class = without_profile(class);
    !SHORT.iter().any(|it| *it as u8 == class)
}

/// Whether hosts of NAT64 take part, whom this router alone knows.
fn is_crossed(flow: &FormerFlow) -> bool {
    [Some(flow.key), flow.reply_key].into_iter().flatten().any(|key| match key.tuple {
        Tuple::Ip4(it) => is_stand_in(it.source) || is_stand_in(it.destination),
        Tuple::Ip6(_) => false,
    })
}

impl Walk {
    /// Of a kind.
    pub fn new(kind: Kind) -> Self {
        Self { kind, next: 0, sent: Vec::new(), keys: Vec::new() }
    }

    /// The partner knows nothing.
    pub fn restart(&mut self) {
        *self = Self::new(self.kind);
    }

    fn is_ip4(&self) -> bool {
        matches!(self.kind, Kind::Ip4 | Kind::TranslatedIp4)
    }

    /// Words of a key that are kept for its end.
    fn key_words(&self) -> usize {
        if self.is_ip4() { 4 } else { 10 }
    }

    /// Looks at a slice of the flows, as long as there is room in the queue.
    pub fn turn(
        &mut self,
        flows: &Flows,
        moment: Moment<'_>,
        mut has_room: impl FnMut(&mut Vec<u8>) -> bool,
        to: &mut Vec<u8>,
    ) -> Turn {
        let mut turn = Turn::default();
        let used = flows.reader(self.is_ip4()).used(self.kind);
        let count = used.len() as u32;
        self.sent.resize(count.max(self.sent.len() as u32) as usize, Sent::default());
        self.keys.resize(self.sent.len() * self.key_words(), 0);
        let whole = if moment.is_bulk { SLICE } else { (count / TURNS).clamp(TURN, SLICE) };
        let end = self.next.saturating_add(whole).min(count);
        while self.next < end {
            if !has_room(to) {
                return turn;
            }
            self.look(flows, (self.next, used.start + self.next), moment, (&mut turn, to));
            self.next += 1;
        }
        turn.is_done = end >= count;
        self.next = if turn.is_done { 0 } else { end };
        turn
    }

    fn look(
        &mut self,
        flows: &Flows,
        (at, id): (u32, u32),
        moment: Moment<'_>,
        (turn, to): (&mut Turn, &mut Vec<u8>),
    ) {
        let flow = flows.reader(self.is_ip4()).entry(id);
        let Some(sent) = self.sent.get(at as usize).copied() else { return };
        if !flow.is_live() {
            if sent.is_sent {
                self.end(flows, at, (turn, to));
            }
            return;
        }
        if sent.is_sent && sent.start != flow.start() {
            self.end(flows, at, (turn, to));
        }
        if let Some(sent) = self.sent.get_mut(at as usize) {
            sent.is_standby = flows.standby().is_standby(&flow);
        }
        let Some(is_standby) = self.due(&flow, at, moment) else { return };
        let Some(copy) = copy(&flow) else { return };
        if flow.flags() & SPLICED != 0 || is_crossed(&copy) {
            turn.left_out += u64::from(moment.is_bulk);
            return;
        }
        message::put_flow(&Record { flow: copy, is_standby }, moment.now, to);
        turn.flows += 1;
        let Past { start, seen, .. } = copy.past;
        let sent = Sent {
            is_sent: true,
            is_standby,
            start,
            seen,
            at: moment.now,
            bytes: passed(&flow),
            class: copy.class,
            flags: copy.flags,
        };
        self.keep(at, sent, &copy.key);
    }

    /// Whether a live flow is to be sent, and if so, whether it is standby.
    fn due(&self, flow: &FlowEntry<'_>, at: u32, moment: Moment<'_>) -> Option<bool> {
        let sent = self.sent.get(at as usize).filter(|it| it.is_sent && it.start == flow.start());
        let (class, seen) = (flow.class(), flow.seen());
        let is_new = sent.is_none();
        if is_new && (ticks(flow.start(), moment.now) < moment.age_s || !is_lasting(class)) {
            return None;
        }
        if self.sent.get(at as usize).is_some_and(|it| it.is_standby) {
            return (is_new && moment.is_bulk && moment.has_standby).then_some(true);
        }
        let Some(sent) = sent else { return Some(false) };
        let is_changed = (sent.class, sent.flags) != (class, flow.flags() & SENT_FLAGS);
        let timeout = moment.timeouts.get(usize::from(class)).copied().unwrap_or(REFRESH_S);
        let after = (timeout / REFRESH_PART).clamp(1, REFRESH_S);
        let is_old = || {
            ticks(sent.at, moment.now) >= after
                || passed(flow).wrapping_sub(sent.bytes) >= REFRESH_BYTES
        };
        (is_changed || seen != sent.seen && is_old()).then_some(false)
    }

    /// A flow that was sent has ended.
    fn end(&mut self, flows: &Flows, at: u32, (turn, to): (&mut Turn, &mut Vec<u8>)) {
        let key = self.key(at);
        let Some(sent) = self.sent.get_mut(at as usize) else { return };
        sent.is_sent = false;
        if sent.is_standby {
            return;
        }
        // Another flow may have its key by now.
        let reader = flows.reader(self.is_ip4());
        let found = reader.find(&key).id().filter(|id| reader.entry(*id).is_live());
        if found.is_none() {
            message::put_end(&key, to);
            turn.ends += 1;
        }
    }

    fn keep(&mut self, at: u32, sent: Sent, key: &FlowKey) {
        let words = self.key_words();
        if let Some(to) = self.sent.get_mut(at as usize) {
            *to = sent;
        }
        let to = self.keys.iter_mut().skip(at as usize * words).take(words);
        to.zip(packed(key)).for_each(|(to, word)| *to = word);
    }

    fn key(&self, at: u32) -> FlowKey {
        let words = self.key_words();
        let from = at as usize * words;
        let words = self.keys.get(from..from + words).unwrap_or_default();
        unpacked(words)
    }
}

/// Lower bits of the bytes that have passed.
fn passed(flow: &FlowEntry<'_>) -> u32 {
    let of = |direction| flow.counters(direction).bytes as u32;
    of(Direction::Original).wrapping_add(of(Direction::Reply))
}

/// A key as words: ports, protocol and VRF, and the addresses.
fn packed(key: &FlowKey) -> [u32; 10] {
    let mut words = [0; 10];
    let mut head = |source: u16, destination: u16, protocol: u8| {
        words[0] = u32::from(source) << 16 | u32::from(destination);
        words[1] = u32::from(protocol) << 16 | u32::from(key.vrf);
    };
    match key.tuple {
        Tuple::Ip4(it) => {
            head(it.source_port, it.destination_port, it.protocol);
            [words[2], words[3]] = [it.source, it.destination];
        }
        Tuple::Ip6(it) => {
            head(it.source_port, it.destination_port, it.protocol);
            for (at, address) in [it.source, it.destination].into_iter().enumerate() {
                let parts = [96, 64, 32, 0].map(|shift| (address >> shift) as u32);
                words[2 + at * 4..6 + at * 4].copy_from_slice(&parts);
            }
        }
    }
    words
}

fn unpacked(words: &[u32]) -> FlowKey {
    use stoa_tables::flow_hash::Flow;
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    let (source_port, destination_port) = ((word(0) >> 16) as u16, word(0) as u16);
    let (protocol, vrf) = ((word(1) >> 16) as u8, word(1) as u16);
    if words.len() == 4 {
        let (source, destination) = (word(2), word(3));
        let flow = Flow { source, destination, source_port, destination_port, protocol };
        return FlowKey::ip4(flow, vrf);
    }
    let address =
        |from: usize| (from..from + 4).fold(0, |all: u128, at| all << 32 | u128::from(word(at)));
    let (source, destination) = (address(2), address(6));
    FlowKey::ip6(Flow { source, destination, source_port, destination_port, protocol }, vrf)
}

/// Flags of the table that a record has: a reader must know whether a flow of ICMP was answered.
const _: () = assert!(SENT_FLAGS & ASSURED == 0 && SENT_FLAGS & ANSWERED != 0);
