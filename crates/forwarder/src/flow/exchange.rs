//! The tracker of protocols without connections: UDP, ICMP queries, and all others. A flow is new until the other side
//! answers.

use stoa_wire::protocol;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::timeouts::Class;

/// Bit of [`Exchange`]: the other side has answered.
const REPLIED: u8 = 1;
/// Bits of the kind of protocol.
const UDP: u8 = 2;
const ICMP: u8 = 4;

/// The state of a flow without connection: one byte, of which each value is valid, so that it can lie in memory that
/// several workers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Exchange(u8);

impl Exchange {
    /// The state after the first packet of a flow of this protocol (IPv4 protocol or IPv6 next header).
    #[inline]
    pub const fn open(protocol: u8) -> Self {
        Self(match protocol {
            // UDP-Lite has the timeouts of UDP.
            protocol::UDP | protocol::UDP_LITE => UDP,
            protocol::ICMP4 | protocol::ICMP6 => ICMP,
            _ => 0,
        })
    }

    /// The state after a further packet; `is_reply`: it comes from the side that did not send the first one.
    #[inline(always)]
    #[must_use]
    pub const fn step(self, is_reply: bool) -> Self {
        Self(self.0 | if is_reply { REPLIED } else { 0 })
    }

    /// Whether the other side has answered.
    #[inline(always)]
    pub const fn is_replied(self) -> bool {
        self.0 & REPLIED != 0
    }

    /// The class of its timeout.
    #[inline(always)]
    pub const fn class(self) -> Class {
        match (self.0 & (UDP | ICMP), self.is_replied()) {
            (0, false) => Class::OtherNew,
            (0, true) => Class::OtherReplied,
            (UDP, false) => Class::UdpNew,
            (UDP, true) => Class::UdpReplied,
            _ => Class::Icmp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_new_until_the_other_side_answers() {
        for (protocol, new, replied) in [
            (17, Class::UdpNew, Class::UdpReplied),
            (136, Class::UdpNew, Class::UdpReplied),
            (1, Class::Icmp, Class::Icmp),
            (58, Class::Icmp, Class::Icmp),
            (47, Class::OtherNew, Class::OtherReplied),
        ] {
            let flow = Exchange::open(protocol);
            assert_eq!(flow.class(), new);
            let flow = flow.step(false);
            assert_eq!((flow.class(), flow.is_replied()), (new, false));
            let flow = flow.step(true);
            assert_eq!((flow.class(), flow.is_replied()), (replied, true));
            assert_eq!(flow.step(false), flow, "a reply is not forgotten");
        }
        // Each value of the byte has a class.
        (0..=255).for_each(|value| assert!(Class::ALL.contains(&Exchange(value).class())));
    }
}
