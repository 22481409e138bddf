//! How long a flow without packets stays in the flow table: the class that a tracker gives it, and the time of each
//! class.

use stoa_tables::flow_table::Eviction;

/// Classes of flows with a timeout each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// TCP, before both ends have acknowledged each other (RFC 5382 section 5: partially open).
    TcpOpening,
    /// TCP, open in both directions.
    TcpEstablished,
    /// TCP after the FIN of one end: the other one may send as long as it likes.
    TcpHalfClosed,
    /// TCP after the FIN of both ends, of which one is not yet acknowledged.
    TcpClosing,
    /// TCP after both FINs were acknowledged: the last acknowledgement may have been lost.
    TcpTimeWait,
    /// TCP after a reset.
    TcpReset,
    /// UDP and UDP-Lite in one direction only.
    UdpNew,
    /// UDP and UDP-Lite in both directions.
    UdpReplied,
    /// ICMP queries (RFC 5508).
    Icmp,
    /// Other protocols in one direction only.
    OtherNew,
    /// Other protocols in both directions.
    OtherReplied,
}

impl Class {
    /// All classes, ordered so that `ALL[class as usize] == class`.
    pub const ALL: [Self; 11] = [
        Self::TcpOpening,
        Self::TcpEstablished,
        Self::TcpHalfClosed,
        Self::TcpClosing,
        Self::TcpTimeWait,
        Self::TcpReset,
        Self::UdpNew,
        Self::UdpReplied,
        Self::Icmp,
        Self::OtherNew,
        Self::OtherReplied,
    ];

    /// Whether a connection in this state may go on: in others, it is not yet open, or nearly over.
    pub const fn is_lasting(self) -> bool {
        !matches!(self, Self::TcpOpening | Self::TcpClosing | Self::TcpTimeWait | Self::TcpReset)
    }

    /// Its name for operators.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TcpOpening => "tcp-opening",
            Self::TcpEstablished => "tcp-established",
            Self::TcpHalfClosed => "tcp-half-closed",
            Self::TcpClosing => "tcp-closing",
            Self::TcpTimeWait => "tcp-time-wait",
            Self::TcpReset => "tcp-reset",
            Self::UdpNew => "udp-new",
            Self::UdpReplied => "udp-replied",
            Self::Icmp => "icmp",
            Self::OtherNew => "other-new",
            Self::OtherReplied => "other-replied",
        }
    }

    /// When a table that is nearly full gives up such a flow. `is_replied`: the other side has answered, which only
    /// [`Class::Icmp`] does not tell.
    ///
    /// Flows that only one side has tried to open come first, the oldest of all classes before others: their timeouts
    /// differ, and a flood of one class must not end flows of another one before their answers can come. What is over
    /// after a reset is worth no more. Then comes what somebody has answered and what is ending anyway, by the time
    /// that is left: without TIME-WAIT a repeated FIN meets no flow. Live connections stay.
    pub const fn eviction(self, is_replied: bool) -> Eviction {
        match self {
            Self::Icmp if is_replied => Eviction::Answered,
            Self::Icmp | Self::TcpReset | Self::TcpOpening | Self::UdpNew | Self::OtherNew => {
                Eviction::Unanswered
            }
            Self::TcpTimeWait | Self::TcpClosing | Self::UdpReplied | Self::OtherReplied => {
                Eviction::Answered
            }
            Self::TcpEstablished | Self::TcpHalfClosed => Eviction::Never,
        }
    }

    /// The shortest timeout that the RFCs allow, in seconds; 1 where they say nothing.
    pub const fn minimum(self) -> u32 {
        match self {
            // RFC 5382 REQ-5; RFC 7857 section 2.1 for both transitory phases, section 2.2 for resets.
            Self::TcpEstablished | Self::TcpHalfClosed => 2 * 3600 + 4 * 60,
            Self::TcpOpening | Self::TcpClosing | Self::TcpTimeWait | Self::TcpReset => 4 * 60,
            // RFC 4787 REQ-5.
            Self::UdpNew | Self::UdpReplied => 2 * 60,
            // RFC 5508 REQ-2.
            Self::Icmp => 60,
            Self::OtherNew | Self::OtherReplied => 1,
        }
    }

    /// The timeout unless another one is set, in seconds: the minimum of the RFC, or what it recommends.
    pub const fn default_timeout(self) -> u32 {
        match self {
            // RFC 4787 REQ-5 recommends 5 minutes for UDP; other protocols have no RFC.
            Self::UdpNew | Self::UdpReplied | Self::OtherNew | Self::OtherReplied => 5 * 60,
            class => class.minimum(),
        }
    }
}

/// The timeout of each class, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timeouts([u32; Class::ALL.len()]);

impl Default for Timeouts {
    fn default() -> Self {
        Self(Class::ALL.map(Class::default_timeout))
    }
}

impl Timeouts {
    /// The timeout of a class, in seconds, at least 1.
    #[inline(always)]
    pub const fn of(&self, class: Class) -> u32 {
        self.0[class as usize]
    }

    /// Sets the timeout of a class, in seconds. It may be below the [minimum](Class::minimum) of the RFCs, which a
    /// caller can warn of; 0 becomes 1.
    pub const fn set(&mut self, class: Class, seconds: u32) {
        self.0[class as usize] = if seconds == 0 { 1 } else { seconds };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::exchange::Exchange;

    #[test]
    fn defaults_are_no_shorter_than_the_rfcs_allow() {
        let mut timeouts = Timeouts::default();
        for (index, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, index);
            assert!(timeouts.of(class) >= class.minimum(), "{class:?}");
        }
        assert_eq!(timeouts.of(Class::TcpEstablished), 7440);
        assert_eq!(timeouts.of(Class::TcpTimeWait), 240);
        assert_eq!(timeouts.of(Class::UdpReplied), 300);
        assert_eq!(timeouts.of(Class::Icmp), 60);
        timeouts.set(Class::Icmp, 0);
        assert_eq!(timeouts.of(Class::Icmp), 1);
    }

    #[test]
    fn only_established_connections_are_never_given_up() {
        let of = |order: Eviction, is_replied: bool| -> Vec<_> {
            Class::ALL.into_iter().filter(|class| class.eviction(is_replied) == order).collect()
        };
        for is_replied in [false, true] {
            let kept = of(Eviction::Never, is_replied);
            assert_eq!(kept, [Class::TcpEstablished, Class::TcpHalfClosed]);
            assert!(of(Eviction::Unanswered, is_replied).contains(&Class::TcpOpening));
            assert_eq!(of(Eviction::Answered, is_replied).contains(&Class::Icmp), is_replied);
        }
        // What a flow begins with.
        for protocol in 0..=255 {
            let class = Exchange::open(protocol).class();
            assert_eq!(class.eviction(false), Eviction::Unanswered);
            let class = Exchange::open(protocol).step(true).class();
            assert_eq!(class.eviction(true), Eviction::Answered);
        }
    }
}
