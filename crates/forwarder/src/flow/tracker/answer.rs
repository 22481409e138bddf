//! Answers: what they change in the order in which flows give way.

use stoa_tables::flow_table::Eviction;

use crate::flow::profiles::without_profile;
use crate::flow::tcp::Direction;
use crate::flow::timeouts::Class;

/// Whether a packet gives a flow of this class and with these flags another class, or is the first answer to a query of
/// ICMP, which has one class all the time.
#[inline(always)]
pub(super) fn changes(next: Class, (class, flags): (u8, u8), direction: Direction) -> bool {
    let is_first_answer = || {
        let is_answer = matches!(next, Class::Icmp) && direction == Direction::Reply;
        is_answer && Eviction::of(flags) == Eviction::Unanswered
    };
    next as u8 != without_profile(class) || is_first_answer()
}
