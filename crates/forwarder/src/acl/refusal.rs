//! Why access lists refuse a packet, and where it goes then.

use stoa_engine::Vector;
use stoa_engine::vector::flags;

use super::node::CUT;
use super::{Action, Classifier};
use crate::drops::Drop;
use crate::icmp::IcmpCause;

/// Why a packet is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Its upper header is cut, so that rules cannot decide about it.
    Cut,
    /// Without an answer.
    Silent,
    /// With an answer.
    Answered,
    /// Without an answer: the rule accepts no more of them now.
    Limited,
}

impl Refusal {
    /// The next node of a lane; an answer goes along the edge `error`.
    #[inline]
    pub(super) fn next(
        self,
        (vector, lane): (&mut Vector, usize),
        cause: IcmpCause,
        is_ip4: bool,
        error: u16,
    ) -> u16 {
        match self {
            Self::Cut => Drop::AclTruncated.next(),
            Self::Limited => Drop::AclRateLimit.next(),
            // The router does not answer itself.
            Self::Answered if vector.flags[lane] & flags::OWN == 0 => {
                vector.arg[lane] = cause.code();
                error
            }
            Self::Silent | Self::Answered => cause.drop(is_ip4).next(),
        }
    }
}

/// Why a packet is refused that matches this rule; `None`: it passes. `passes` decides without a rule. `now`: the time
/// stamp counter; `None`: the rule has accepted the flow of the packet, which counts once.
#[inline]
pub(super) fn refusal_of(
    classifier: &Classifier,
    found: u32,
    now: Option<u64>,
    passes: impl FnOnce() -> bool,
) -> Option<Refusal> {
    match classifier.rules.get(found as usize).map(|rule| (rule.action, &rule.limit)) {
        Some((Action::Accept, None)) => None,
        Some((Action::Accept, Some(limit))) => {
            now.is_some_and(|now| !limit.take(now)).then_some(Refusal::Limited)
        }
        Some((Action::Drop, _)) => Some(Refusal::Silent),
        Some((Action::Reject, _)) => Some(Refusal::Answered),
        None if found == CUT => Some(Refusal::Cut),
        None if passes() => None,
        None => Some(Refusal::Silent),
    }
}
