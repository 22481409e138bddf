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
use crate::shared::Shared;

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
        // Lanes that take their tokens in the other node.
        let mut others = 0;
        for lane in 0..vector.len() {
            if vector.flags[lane] & flags::CROSSED != 0 {
                let at = (&*self.shared, cx.reader);
                // It is translated back in vain if nobody is answered.
                let of = (IcmpCause::of(vector.arg[lane]).class(), vector.rx_if[lane]);
                if !self.shared.policers.may_admit(cx, of, others) {
                    vector.next[lane] = Drop::IcmpLimited.next();
                    continue;
                }
                match nat64::turn_back(at, (&mut *vector, lane), cx.now) {
                    Ok(false) => {}
                    Ok(true) => {
                        vector.next[lane] = OTHER;
                        others += 1;
                        continue;
                    }
                    Err(reason) => {
                        vector.next[lane] = reason.next();
                        continue;
                    }
                }
            }
            let cause = IcmpCause::of(vector.arg[lane]);
            let refused = Refused { vector, lane, cause };
            vector.next[lane] = match (self.answer)(cx, refused, &self.shared, addresses) {
                Ok(()) => ORIGIN,
                Err(reason) => reason.next(),
            };
        }
        Next::Lanes
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
