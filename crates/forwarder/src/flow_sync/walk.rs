//! Reads flows of one kind from their table, in turns, and puts what the partner does not know yet into frames.

mod due;

use std::sync::atomic::{Ordering, fence};

use stoa_api::v1;
use stoa_tables::flow_table::{
    ANSWERED, ASSURED, Direction, FlowEntry, FlowKey, FormerFlow, Kind, Past,
};

use super::message::{self, Record, SentKey, key_bytes, key_of};
use super::standby::{LEAST, Work};
use crate::flow::flows::Flows;
use crate::flow::tracker::{SENT_FLAGS, SPLICED};
use crate::nat::is_never_vouched;
use crate::nat64::hosts::Hosts;
use crate::nat64::keys::{has_stand_in, is_crossed};
use due::Due;

/// Turns that a walk over all flows takes: at 100 a second, one second.
const TURNS: u32 = 100;
/// Ids of a turn, at least; and at most: some milliseconds of this thread, for the lines of flows are rarely in its
/// cache. Workers pay nothing but the bandwidth of the memory, and 16 million flows take 10 seconds.
const TURN: u32 = 256;
const SLICE: u32 = 16_384;
/// Times that a flow is read while its worker writes a record.
const TRIES: u32 = 4;

/// What the partner knows of a flow.
#[derive(Clone, Copy, Default)]
struct Sent {
    /// The bulk, by its number, or the walks behind it, that have looked at it first; 0: the partner knows nothing.
    round: u8,
    /// It is one of the partner by now: when it ends here, it may go on there.
    is_standby: bool,
    class: u8,
    flags: u8,
    start: u32,
    seen: u32,
    /// When it was sent.
    at: u32,
    /// Lower bits of what had passed.
    bytes: u32,
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
    /// Whether standby flows are sent in it: to a partner that lacks them, as it has started since it had them. Another
    /// one has ended what it does not have any more.
    pub has_standby: bool,
    /// The number of the connection.
    pub connection: u32,
    /// Whether the partner has named all flows that it has, so that others have ended there.
    pub is_swept: bool,
    /// The timeouts of classes.
    pub timeouts: &'a [u32; 256],
}

/// The walk over the flows of a kind.
pub struct Walk {
    kind: Kind,
    next: u32,
    /// The number of the bulk, which is not 0.
    round: u8,
    sent: Vec<Sent>,
    /// Keys of this router, for ends.
    keys: Vec<u8>,
    /// A key that is written there.
    key: Vec<u8>,
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

/// Whether no partner takes a flow: it is one of those that are never vouched for. A partner that refused them would
/// ask for them.
fn is_never_taken(flow: &FormerFlow) -> bool {
    flow.reply_key.map_or(is_crossed(flow), |it| is_never_vouched(flow, &it))
}

/// A key as a partner knows it; `None`: it has a stand-in of this router, and no partner knows it.
fn sent_key(hosts: &Hosts, key: &FlowKey) -> Option<SentKey> {
    Some(SentKey { key: hosts.key6(key)?, is_nat64: has_stand_in(key) })
}

impl Walk {
    /// Of a kind.
    pub fn new(kind: Kind) -> Self {
        Self { kind, next: 0, round: 1, sent: Vec::new(), keys: Vec::new(), key: Vec::new() }
    }

    /// The partner knows nothing.
    pub fn restart(&mut self) {
        *self = Self::new(self.kind);
    }

    /// All flows are to be sent once more, by another bulk. What the partner knows stays known: ends are sent.
    pub fn begin_again(&mut self) {
        (self.next, self.round) = (0, self.round % u8::MAX + 1);
    }

    fn is_ip4(&self) -> bool {
        matches!(self.kind, Kind::Ip4 | Kind::TranslatedIp4)
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
        self.keys.resize(self.sent.len() * key_bytes(self.is_ip4()), 0);
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
        let (flow, standby) = (flows.reader(self.is_ip4()).entry(id), flows.standby());
        let hosts = flows.nat64_hosts();
        let Some(sent) = self.sent.get(at as usize).copied() else { return };
        let is_known = sent.round != 0;
        // One that has come by a record may have begun when its predecessor had.
        let is_same = is_known && sent.start == flow.start() && self.key(at) == Some(flow.key());
        if is_known && !(flow.is_live() && is_same) {
            // What it was when it ended, unless another one has its memory.
            let is_standby = if is_same { standby.is_standby(&flow) } else { sent.is_standby };
            self.end(flows, (at, is_standby), (turn, to));
        }
        if !flow.is_live() {
            return;
        }
        if moment.is_swept
            && standby.is_standby(&flow)
            && !standby.is_named(&flow, moment.connection)
        {
            // If there is no room, the next walk does it.
            let work = Work::Sweep(flow.key(), moment.connection);
            standby.hand(flow.owner().into(), work, LEAST);
        }
        let sent = Some(sent).filter(|_| is_same);
        for _ in 0..TRIES {
            let is_standby = standby.is_standby(&flow);
            let due = if is_standby {
                let is_theirs = standby.is_theirs(&flow, moment.connection);
                self.due_of_standby(&flow, sent, is_theirs, moment)
            } else {
                self.due(&flow, sent, standby.is_from_partner(&flow), moment)
            };
            // A worker may have written one half of a record when this was read first.
            if due == Due::Nothing || standby.is_standby(&flow) == is_standby {
                let of = (hosts, &flow, at, is_standby);
                return self.put(of, due, moment, (turn, to));
            }
        }
        if moment.is_bulk
            && let Some(key) = sent_key(hosts, &flow.key())
        {
            // It is live, whatever the worker makes of it: the partner must not sweep it.
            message::put_known(&key, to);
        }
    }

    /// Sends what is due about a flow, and takes down that the partner knows it.
    fn put(
        &mut self,
        (hosts, flow, at, is_standby): (&Hosts, &FlowEntry<'_>, u32, bool),
        mut due: Due,
        moment: Moment<'_>,
        (turn, to): (&mut Turn, &mut Vec<u8>),
    ) {
        if due == Due::Nothing {
            return;
        }
        let Some(copy) = copy(flow) else { return };
        if flow.flags() & SPLICED != 0 || is_never_taken(&copy) {
            turn.left_out += u64::from(moment.is_bulk);
            due = Due::Name;
        }
        // Nobody else knows a host that has gone, or one that others reach by an external address.
        let Some(key) = sent_key(hosts, &copy.key) else { return };
        match due {
            Due::Record => {
                let Some(flow) = hosts.flow6(&copy) else { return };
                message::put_flow(&Record { flow, is_standby }, moment.now, to);
                turn.flows += 1;
            }
            Due::Name if moment.is_bulk => return message::put_known(&key, to),
            Due::Name => return,
            Due::Known => message::put_known(&key, to),
            Due::Note | Due::Nothing => {}
        }
        let Past { start, seen, .. } = copy.past;
        let sent = Sent {
            round: self.round,
            is_standby,
            start,
            seen,
            at: moment.now,
            bytes: passed(flow),
            class: copy.class,
            flags: copy.flags,
        };
        self.keep(at, sent, copy.key);
    }

    /// A flow that was sent has ended.
    fn end(
        &mut self,
        flows: &Flows,
        (at, is_standby): (u32, bool),
        (turn, to): (&mut Turn, &mut Vec<u8>),
    ) {
        let key = self.key(at);
        let Some(sent) = self.sent.get_mut(at as usize) else { return };
        sent.round = 0;
        let Some(key) = key.filter(|_| !is_standby) else { return };
        // Another flow may have its key by now.
        let reader = flows.reader(self.is_ip4());
        let found = reader.find(&key).id().filter(|id| reader.entry(*id).is_live());
        if found.is_none()
            && let Some(key) = sent_key(flows.nat64_hosts(), &key)
        {
            message::put_end(&key, to);
            turn.ends += 1;
        }
    }

    /// Takes down what was sent of a flow with this key.
    fn keep(&mut self, at: u32, sent: Sent, key: FlowKey) {
        let (at, bytes) = (at as usize, key_bytes(self.is_ip4()));
        if let Some(to) = self.sent.get_mut(at) {
            *to = sent;
        }
        self.key.clear();
        SentKey::from(key).put(&mut self.key);
        if let (Some(to), Some(key)) =
            (self.keys.get_mut(at * bytes..(at + 1) * bytes), self.key.get(..bytes))
        {
            to.copy_from_slice(key);
        }
    }

    fn key(&self, at: u32) -> Option<FlowKey> {
        let (at, bytes) = (at as usize, key_bytes(self.is_ip4()));
        key_of(self.keys.get(at * bytes..(at + 1) * bytes)?)
    }
}

/// Lower bits of the bytes that have passed.
fn passed(flow: &FlowEntry<'_>) -> u32 {
    let of = |direction| flow.counters(direction).bytes as u32;
    of(Direction::Original).wrapping_add(of(Direction::Reply))
}

/// Flags of the table that a record has: a reader must know whether a flow of ICMP was answered.
const _: () = assert!(SENT_FLAGS & ASSURED == 0 && SENT_FLAGS & ANSWERED != 0);

#[cfg(test)]
mod tests;
