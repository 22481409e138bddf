//! The states of flows of stateful rules, and how flows are followed unless a profile says otherwise.

use crate::v1;

/// The states of flows, as [`v1::FlowState::state`] has them. Each has a timeout of its own.
pub const STATES: [&str; 11] = [
    "tcp-opening",
    "tcp-established",
    "tcp-half-closed",
    "tcp-closing",
    "tcp-time-wait",
    "tcp-reset",
    "udp-new",
    "udp-replied",
    "icmp",
    "other-new",
    "other-replied",
];

/// What selects suspended flows, whatever their state, in [`v1::FlowFilter::states`].
pub const SUSPENDED: &str = "suspended";

/// The profile of rules without one: the shortest timeouts that the RFCs allow, or recommend.
pub const fn default_profile() -> v1::FlowProfile {
    v1::FlowProfile {
        // RFC 7857 section 2.1 for both transitory phases, section 2.2 for resets.
        tcp_opening_s: 240,
        // RFC 5382 REQ-5.
        tcp_established_s: 7_440,
        tcp_half_closed_s: 7_440,
        tcp_closing_s: 240,
        tcp_time_wait_s: 240,
        tcp_reset_s: 240,
        // RFC 4787 REQ-5.
        udp_new_s: 300,
        udp_replied_s: 300,
        // RFC 5508 REQ-2.
        icmp_s: 60,
        other_new_s: 300,
        other_replied_s: 300,
        tcp_loose: false,
        tcp_liberal: false,
    }
}
