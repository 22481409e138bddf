//! Packets that change nothing of their flow but counters, time and, of TCP, its state: nearly all of them. What they
//! need is in the line of the flow that the look-up has read, and no rule is asked.

use stoa_engine::vector::flags::{ADMITTED, KEEPS_DESTINATION, TRACKED};
use stoa_tables::flow_table::{FlowStates, Judged, LANES, Match, OwnedFlows, PassedFlow};
use stoa_wire::protocol::{ICMP4, ICMP6, TCP};

use super::spliced::SPLICED;
use super::translated::keeps_destination;
use super::verdict::SETTLED;
use super::{Exchange, Followed, Seen, Side};
use crate::flow::fields::{Kind, Place};
use crate::flow::flows::Now;

/// Bits of [`Kind`] of packets that are malformed or parts of others.
const NOT_WHOLE: u32 = Kind::FIRST | Kind::LATER | (7 * Kind::MALFORMED);

/// With the flags of a lane: they are its own if [`Side::pass_segment`] says so.
pub const SEGMENT: u16 = 1;

/// By what the flows of a vector are compared.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    /// When the vector was received.
    pub now: Now,
    /// The epoch of the rules.
    pub epoch: u16,
    /// Whether this worker owns all flows.
    pub is_alone: bool,
}

/// The flows of a worker, for packets of one vector.
#[derive(Clone, Copy)]
pub struct SteadyFlows<'a> {
    flows: OwnedFlows<'a>,
    judged: Judged,
    tick: u32,
}

/// The packets of a vector: columns of lanes.
#[derive(Clone, Copy)]
pub struct Lanes<'a> {
    /// What the look-up has found.
    pub found: &'a [Match; LANES],
    /// As in the columns of fields.
    pub kinds: &'a [u32; LANES],
    /// As in the columns of fields.
    pub places: &'a [u32; LANES],
    /// How many there are.
    pub count: usize,
}

impl Side {
    /// Flows of this worker.
    #[inline]
    pub fn steady(&self, of: Steady) -> SteadyFlows<'_> {
        let (flags, mask) = (SETTLED.0, SETTLED.1 | SPLICED);
        SteadyFlows {
            flows: self.owner.flows(of.is_alone, self.reader.kernel()),
            judged: Judged::new(of.epoch, flags, mask),
            tick: of.now.tick,
        }
    }

    /// Follows a segment of TCP for which [`SteadyFlows::pass`] has returned [`SEGMENT`]; whether it passes all lists.
    #[inline]
    pub fn pass_segment(&mut self, found: Match, packet: &Seen<'_>, of: Steady) -> bool {
        let Some(id) = found.id() else { return false };
        let passed = Followed::Pass { is_admitted: true };
        self.follow((id, found.direction()), packet, (of.now, of.epoch)) == passed
    }
}

impl SteadyFlows<'_> {
    /// Follows whole packets of an own flow that the rules of now have admitted for good, if it goes on as the flow
    /// did. Returns the flags that they get, by which they pass all lists; or these and [`SEGMENT`], or 0: nothing has
    /// changed, and [`Side::pass_segment`] or [`Side::follow`] decides. `packets`: how many there are, and their bytes.
    ///
    /// ICMP is left out: its messages have to fit the direction. So are spliced flows: their segments change.
    #[inline(always)]
    pub fn pass(&self, found: Match, kind: Kind, (packets, bytes): (u32, u32)) -> u16 {
        let Some(flow) = self.flows.get(found).filter(|flow| flow.is(self.judged)) else {
            return 0;
        };
        let flags = flags_of(found, kind, true, flow.tcp_word());
        if flags == 0 {
            return 0;
        }
        if flags & SEGMENT == 0 {
            flow.count(found.direction(), packets, bytes);
            flow.refresh(self.tick);
        }
        flags | kept(&flow, found)
    }

    /// [`Self::pass`] for each packet of a vector, one by one; writes the flags of each. What they read is read first,
    /// several at once, and compared without branches.
    pub fn pass_all(&self, of: Lanes<'_>, states: &mut FlowStates, flags: &mut [u16; LANES]) {
        let Lanes { found, kinds, places, count } = of;
        self.flows.read(found, count, states);
        let (mut stale, mut any) = (0, 0);
        let read = states.judged.iter().zip(&states.tcp).zip(&states.seen);
        let lanes = found[..count].iter().zip(kinds).zip(read).zip(&mut *flags);
        for (((found, kind), ((judged, tcp), seen)), flags) in lanes {
            *flags = flags_of(*found, Kind(*kind), self.judged.is(*judged), *tcp);
            stale |= seen ^ self.tick;
            any |= *flags;
        }
        if any == 0 {
            return;
        }
        let lanes = found[..count].iter().zip(places).zip(flags);
        for ((found, place), flags) in lanes.filter(|(_, flags)| **flags != 0) {
            let Some(flow) = self.flows.passed(*found) else {
                *flags = 0;
                continue;
            };
            if *flags & SEGMENT == 0 {
                flow.count(found.direction(), 1, Place(*place).length().into());
                if stale != 0 {
                    flow.refresh(self.tick);
                }
            }
            *flags |= kept(&flow, *found);
        }
    }
}

/// The flags of a packet, but for [`KEEPS_DESTINATION`]; 0 if it is the first answer in a flow without connection,
/// among others. Without branches, so that the compiler takes several at once.
#[inline(always)]
fn flags_of(found: Match, kind: Kind, is_judged: bool, tcp: u32) -> u16 {
    let (protocol, state): (u8, Exchange) = (kind.protocol(), zerocopy::transmute!(tcp as u8));
    let is_reply = found.direction() as u8 != 0;
    let is_tcp = protocol == TCP;
    let passes = is_judged
        & (kind.0 & NOT_WHOLE == 0)
        & (protocol != ICMP4)
        & (protocol != ICMP6)
        & (is_tcp | !is_reply | state.is_replied());
    let flags = TRACKED | ADMITTED | if is_tcp { SEGMENT } else { 0 };
    if passes { flags } else { 0 }
}

/// The flag of a packet that keeps its destination.
#[inline(always)]
fn kept(flow: &PassedFlow<'_>, found: Match) -> u16 {
    let keeps = flow.spare(1).is_some_and(|uses| keeps_destination(uses, found.direction()));
    if keeps { KEEPS_DESTINATION } else { 0 }
}
