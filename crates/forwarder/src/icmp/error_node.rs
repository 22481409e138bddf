//! The common part of `icmp4-error` and `icmp6-error`: replaces each packet by the ICMP error about
//! it.

use std::sync::Arc;

use stoa_engine::pool::HEADROOM;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};

use super::IcmpCause;
use crate::addresses::Addresses;
use crate::drops::Drop;
use crate::nat64;
use crate::punt::Class;
use crate::shared::Shared;
use crate::siit;

/// The edge to `ip4-origin` or `ip6-origin`.
const ORIGIN: u16 = 0;
/// The edge to the error node of the other family.
const OTHER: u16 = 1;

/// A packet that is dropped with an ICMP error.
pub(super) struct Refused<'a> {
    pub(super) vector: &'a mut Vector,
    pub(super) lane: usize,
    pub(super) cause: IcmpCause,
}

/// Replaces a packet by the error about it, or returns the drop reason if no error is allowed.
pub(super) type Answer = fn(&mut Context<'_>, Refused<'_>, &Shared, &Addresses) -> Result<(), Drop>;

/// Lanes of one policer that take their tokens in the node of the other family.
#[derive(Default)]
struct Others {
    /// Their class and interface; `None`: there was no lane so far.
    of: Option<(Class, u32)>,
    count: u32,
}

/// The node of one family, of one worker.
pub(super) struct ErrorNode {
    shared: Arc<Shared>,
    answer: Answer,
}

impl ErrorNode {
    pub(super) fn boxed(shared: &Arc<Shared>, answer: Answer) -> Box<dyn Node> {
        Box::new(Self { shared: shared.clone(), answer })
    }
}

impl Node for ErrorNode {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let addresses = self.shared.addresses.read(cx.reader);
        let mut others = Others::default();
        for lane in 0..vector.len() {
            let cause = IcmpCause::of(vector.arg[lane]);
            let next = match self.turn_back(cx, (&mut *vector, lane), &mut others) {
                Ok(true) => Ok(OTHER),
                Ok(false) => {
                    let refused = Refused { vector, lane, cause };
                    (self.answer)(cx, refused, &self.shared, addresses).map(|()| ORIGIN)
                }
                Err(reason) => Err(reason),
            };
            vector.next[lane] = next.unwrap_or_else(|reason| cause.unanswered(reason).next());
        }
        Next::Lanes
    }
}

impl ErrorNode {
    /// Gives a lane that NAT64 has translated its former family, in which its sender is answered. False: it stays in
    /// this one.
    #[inline]
    fn turn_back(
        &self,
        cx: &Context<'_>,
        (vector, lane): (&mut Vector, usize),
        others: &mut Others,
    ) -> Result<bool, Drop> {
        let flags = vector.flags[lane];
        if flags & (flags::CROSSED | flags::STATELESS) == 0 {
            return Ok(false);
        }
        let of = (IcmpCause::of(vector.arg[lane]).class(), vector.rx_if[lane]);
        // It is translated back in vain if nobody is answered.
        if !self.shared.policers.may_admit(cx, of, others.before(of)) {
            return Err(Drop::IcmpLimited);
        }
        let at = (&*self.shared, cx.reader);
        let has_turned = match flags & flags::STATELESS {
            0 => nat64::turn_back(at, (vector, lane), cx.now)?,
            _ => siit::turn_back(at, (vector, lane))?,
        };
        others.count += u32::from(has_turned);
        Ok(has_turned)
    }
}

impl Others {
    /// How many of this class and interface came last, one after the other. It may be too few: the other node has the
    /// last word.
    fn before(&mut self, of: (Class, u32)) -> u32 {
        if self.of != Some(of) {
            *self = Self { of: Some(of), count: 0 };
        }
        self.count
    }
}

impl Refused<'_> {
    /// Replaces the packet by `message`, an IP packet, and counts it as dropped for `reason`.
    pub(super) fn replace(self, cx: &mut Context<'_>, message: &[u8], reason: Drop) {
        let Self { vector, lane, .. } = self;
        cx.answered(reason.reason(), vector, lane);
        vector.slot_mut(lane)[HEADROOM..HEADROOM + message.len()].copy_from_slice(message);
        vector.offset[lane] = HEADROOM as u16;
        vector.length[lane] = message.len() as u16;
        vector.make_own(lane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_those_of_one_policer() {
        let mut others = Others::default();
        for (of, before) in [
            ((Class::Error, 1), 0),
            ((Class::Error, 1), 1),
            ((Class::Error, 2), 0),
            ((Class::Error, 2), 1),
            ((Class::TooBig, 2), 0),
        ] {
            assert_eq!(others.before(of), before, "{of:?}");
            others.count += 1;
        }
    }
}
