//! The states of flows of stateful rules, how flows are followed unless a profile says otherwise, and which flows of a
//! list come first.

use std::cmp::Reverse;

use crate::acl::protocol_number;
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

/// Keeps the first `at_most` flows of an order.
pub fn keep_first(flows: &mut Vec<v1::FlowState>, at_most: usize, order: v1::FlowOrder) {
    let key = |flow: &v1::FlowState| {
        let bytes = flow.bytes.saturating_add(flow.reply_bytes);
        Reverse(match order {
            v1::FlowOrder::FlowByBytes => bytes,
            // Ages are whole seconds: one of 0 is less than a second.
            v1::FlowOrder::FlowByRate => bytes / u64::from(flow.age_s.max(1)),
        })
    };
    flows.sort_by_key(key);
    flows.truncate(at_most);
}

/// The filters that together mean the flows of `filter` that have the protocol of a name: one, or one for each family,
/// as "icmp" has a number in each. `None`: there is no such protocol.
pub fn with_protocol(filter: &v1::FlowFilter, name: &str) -> Option<Vec<v1::FlowFilter>> {
    let families: &[u32] = match (filter.family, filter.prefix.as_ref().map(|it| it.address.len()))
    {
        (0, None) => &[4, 6],
        (4, _) | (0, Some(4)) => &[4],
        _ => &[6],
    };
    let of = |family: &u32| {
        let protocol = Some(protocol_number(name, *family == 4)?);
        Some(v1::FlowFilter { family: *family, protocol, ..filter.clone() })
    };
    let mut filters = families.iter().map(of).collect::<Option<Vec<_>>>()?;
    if let [four, six] = filters.as_slice()
        && four.protocol == six.protocol
    {
        let both = v1::FlowFilter { family: 0, ..four.clone() };
        filters = vec![both];
    }
    Some(filters)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_with_the_most_bytes_or_the_highest_rate_come_first() {
        let flow = |bytes, reply_bytes, age_s| v1::FlowState {
            bytes,
            reply_bytes,
            age_s,
            ..v1::FlowState::default()
        };
        let all = vec![flow(50, 0, 100), flow(10, 90, 50), flow(0, 70, 0), flow(2, 2, 1)];
        let kept = |at_most, order| {
            let mut flows = all.clone();
            keep_first(&mut flows, at_most, order);
            flows
        };
        let [first, second, third, fourth] = [&all[0], &all[1], &all[2], &all[3]].map(Clone::clone);
        let by_bytes = kept(2, v1::FlowOrder::FlowByBytes);
        assert_eq!(by_bytes, [second.clone(), third.clone()]);
        let by_rate = kept(9, v1::FlowOrder::FlowByRate);
        assert_eq!(by_rate, [third, fourth, second, first]);
    }

    #[test]
    fn icmp_has_a_number_in_each_family() {
        let of = |filter: &v1::FlowFilter, name| {
            let filters = with_protocol(filter, name);
            filters.map(|all| all.iter().map(|it| (it.family, it.protocol)).collect::<Vec<_>>())
        };
        let all = v1::FlowFilter::default();
        assert_eq!(of(&all, "tcp"), Some(vec![(0, Some(6))]));
        assert_eq!(of(&all, "icmp"), Some(vec![(4, Some(1)), (6, Some(58))]));
        assert_eq!(of(&all, "none"), None);
        let four = v1::FlowFilter { family: 4, ..v1::FlowFilter::default() };
        assert_eq!(of(&four, "icmp"), Some(vec![(4, Some(1))]));
        let prefix = Some(v1::Prefix { address: vec![0; 16], length: 0 });
        let six = v1::FlowFilter { prefix, ..v1::FlowFilter::default() };
        assert_eq!(of(&six, "icmp"), Some(vec![(6, Some(58))]));
    }
}
