//! Packets that change nothing of their flow but counters, time and, of TCP, its state: nearly all of them. What they
//! need is in the line of the flow that the look-up has read, and no rule is asked.

use stoa_engine::vector::flags::{ADMITTED, KEEPS_DESTINATION, TRACKED};
use stoa_tables::flow_table::{Judged, Match, OwnedFlows, PassedFlow};
use stoa_wire::protocol::{ICMP4, ICMP6, TCP};

use super::spliced::SPLICED;
use super::translated::keeps_destination;
use super::verdict::SETTLED;
use super::{Exchange, Followed, Seen, Side};
use crate::flow::fields::Kind;
use crate::flow::flows::Now;
use crate::flow::tcp::Direction;

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

impl Side {
    /// Flows of this worker.
    #[inline]
    pub fn steady(&self, of: Steady) -> SteadyFlows<'_> {
        let (flags, mask) = (SETTLED.0, SETTLED.1 | SPLICED);
        SteadyFlows {
            flows: self.owner.flows(of.is_alone),
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
        if kind.0 & NOT_WHOLE != 0 {
            return 0;
        }
        let direction = found.direction();
        match kind.protocol() {
            ICMP4 | ICMP6 => 0,
            TCP => SEGMENT | passing(&flow, found),
            _ if is_first_answer(&flow, direction) => 0,
            _ => {
                flow.count(direction, packets, bytes);
                flow.refresh(self.tick);
                passing(&flow, found)
            }
        }
    }
}

/// The flags of a packet that passes.
#[inline(always)]
fn passing(flow: &PassedFlow<'_>, found: Match) -> u16 {
    let keeps = flow.spare(1).is_some_and(|uses| keeps_destination(uses, found.direction()));
    TRACKED | ADMITTED | if keeps { KEEPS_DESTINATION } else { 0 }
}

/// Whether a packet in this direction is the first answer in a flow without connection.
#[inline(always)]
fn is_first_answer(flow: &PassedFlow<'_>, direction: Direction) -> bool {
    let state: Exchange = zerocopy::transmute!(flow.tcp_word() as u8);
    direction == Direction::Reply && !state.is_replied()
}
