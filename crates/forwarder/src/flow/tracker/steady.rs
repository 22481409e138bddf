//! Packets that change nothing of their flow but counters, time and, of TCP, its state: nearly all of them. What they
//! need is in the line of the flow that the look-up has read, and no rule is asked.

use stoa_tables::flow_table::{FlowEntry, Match};
use stoa_wire::protocol::{ICMP4, ICMP6, TCP};

use super::spliced::SPLICED;
use super::verdict::is_settled;
use super::{Exchange, Followed, Seen, Side};
use crate::flow::fields::{Kind, Place};
use crate::flow::flows::Now;
use crate::flow::tcp::Direction;

/// Bits of [`Kind`] of packets that are malformed or parts of others.
const NOT_WHOLE: u32 = Kind::FIRST | Kind::LATER | (7 * Kind::MALFORMED);

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

impl Side {
    /// Follows a whole packet of an own flow that the rules of now have admitted for good, if it goes on as the flow
    /// did. Whether it does: then it passes all lists. Otherwise nothing has changed, and [`Self::follow`] decides.
    ///
    /// ICMP is left out: its messages have to fit the direction. So are spliced flows: their segments change.
    #[inline(always)]
    pub fn pass_steady<'a>(
        &mut self,
        found: Match,
        (kind, place): (Kind, Place),
        of: Steady,
        packet: impl FnOnce() -> Seen<'a>,
    ) -> bool {
        let Some(id) = found.id().filter(|_| kind.0 & NOT_WHOLE == 0) else { return false };
        let (flow, direction) = (self.reader.entry(id), found.direction());
        let Some((epoch, flags)) = flow.judged() else { return false };
        if epoch != of.epoch || !is_settled(flags) || flags & SPLICED != 0 {
            return false;
        }
        if !found.is_received() && flow.has_second() {
            return false;
        }
        if !of.is_alone && flow.owner() != self.number() {
            return false;
        }
        match kind.protocol() {
            ICMP4 | ICMP6 => false,
            TCP => {
                let followed = self.follow((id, direction), &packet(), (of.now, of.epoch));
                followed == Followed::Pass { is_admitted: true }
            }
            _ if is_first_answer(&flow, direction) => false,
            _ => {
                let flow = self.owner.entry(id);
                flow.count(direction, 1, place.length().into());
                flow.refresh(of.now.tick);
                true
            }
        }
    }
}

/// Whether a packet in this direction is the first answer in a flow without connection.
#[inline(always)]
fn is_first_answer(flow: &FlowEntry<'_>, direction: Direction) -> bool {
    let state: Exchange = zerocopy::transmute!(flow.tcp_word() as u8);
    direction == Direction::Reply && !state.is_replied()
}
