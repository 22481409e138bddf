//! Flow profiles, as the forwarder gets them with each rule, and warnings about timeouts that are too short.

use std::collections::HashMap;

use stoa_api::flow::default_profile;
use stoa_api::v1;

use super::paths::rule_path;
use crate::config::model::{Acls, FlowProfile};
use crate::warning::Warning;

/// A timeout of a profile.
type Seconds = fn(&v1::FlowProfile) -> u32;

/// States with a shortest timeout, and where it is from.
const SHORTEST: [(&str, Seconds, &str); 9] = [
    ("tcp-opening", |it| it.tcp_opening_s, "RFC 5382 REQ-5"),
    ("tcp-established", |it| it.tcp_established_s, "RFC 5382 REQ-5"),
    ("tcp-half-closed", |it| it.tcp_half_closed_s, "RFC 5382 REQ-5"),
    ("tcp-closing", |it| it.tcp_closing_s, "RFC 7857 section 2.1"),
    ("tcp-time-wait", |it| it.tcp_time_wait_s, "RFC 7857 section 2.1"),
    ("tcp-reset", |it| it.tcp_reset_s, "RFC 7857 section 2.2"),
    ("udp-new", |it| it.udp_new_s, "RFC 4787 REQ-5"),
    ("udp-replied", |it| it.udp_replied_s, "RFC 4787 REQ-5"),
    ("icmp", |it| it.icmp_s, "RFC 5508 REQ-2"),
];

/// The shortest timeouts that the RFCs allow: those of UDP are shorter than the defaults, which they recommend.
const fn shortest() -> v1::FlowProfile {
    v1::FlowProfile { udp_new_s: 120, udp_replied_s: 120, ..default_profile() }
}

/// The profiles of a configuration by name.
pub(super) fn profiles(acls: &Acls) -> HashMap<&str, v1::FlowProfile> {
    acls.flow_profile.iter().map(|it| (it.name.as_str(), profile(it))).collect()
}

fn profile(given: &FlowProfile) -> v1::FlowProfile {
    let (default, timeouts) = (default_profile(), &given.timeouts);
    v1::FlowProfile {
        tcp_opening_s: timeouts.tcp_opening.unwrap_or(default.tcp_opening_s),
        tcp_established_s: timeouts.tcp_established.unwrap_or(default.tcp_established_s),
        tcp_half_closed_s: timeouts.tcp_half_closed.unwrap_or(default.tcp_half_closed_s),
        tcp_closing_s: timeouts.tcp_closing.unwrap_or(default.tcp_closing_s),
        tcp_time_wait_s: timeouts.tcp_time_wait.unwrap_or(default.tcp_time_wait_s),
        tcp_reset_s: timeouts.tcp_reset.unwrap_or(default.tcp_reset_s),
        udp_new_s: timeouts.udp_new.unwrap_or(default.udp_new_s),
        udp_replied_s: timeouts.udp_replied.unwrap_or(default.udp_replied_s),
        icmp_s: timeouts.icmp.unwrap_or(default.icmp_s),
        other_new_s: timeouts.other_new.unwrap_or(default.other_new_s),
        other_replied_s: timeouts.other_replied.unwrap_or(default.other_replied_s),
        tcp_loose: given.tcp.loose,
        tcp_liberal: given.tcp.liberal,
    }
}

/// Warns of timeouts that end live connections of hosts which rely on the RFCs; `most` of these warnings at most.
pub(super) fn warnings(rules: &[v1::AclRule], most: usize) -> Vec<Warning> {
    let shortest = shortest();
    let short = rules.iter().filter_map(|rule| {
        let profile = rule.flow_profile.as_ref()?;
        let short = SHORTEST.iter().filter(|(_, seconds, _)| seconds(profile) < seconds(&shortest));
        let short: Vec<String> = short
            .map(|(state, seconds, source)| {
                let (given, least) = (seconds(profile), seconds(&shortest));
                format!("{state} after {given} s ({source}: no less than {least} s)")
            })
            .collect();
        let text = format!(
            "rule {} of list {} ends idle flows sooner than hosts may rely on: {}",
            rule.name,
            rule.acl,
            short.join(", ")
        );
        let warning = Warning { text, nodes: vec![rule_path(&rule.acl, &rule.name)] };
        (!short.is_empty()).then_some(warning)
    });
    short.take(most).collect()
}
