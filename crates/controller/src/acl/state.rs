//! Counters of rules and flows as YANG data, and those of rules as metrics.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};
use stoa_api::{date, v1};

use crate::capability::{FlowFacts, Page};
use crate::json::{list, number, object, text};
use crate::metrics::page::one;

/// Rules with metrics, at most: the first ones by list. All have counters in the operational state.
const METRICS: usize = 10_000;

const ACLS: &str = "ietf-access-control-list:acls";

/// Adds `/ietf-access-control-list:acls` with the statistics of rules, and what matched none.
pub(super) fn add(rules: &[v1::AclRuleState], state: &mut Map<String, Value>) {
    let mut lists: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (rule, it) in rules.iter().filter_map(|it| Some((it.rule.as_ref()?, it))) {
        let mut statistics =
            object([("matched-packets", number(it.packets)), ("matched-octets", number(it.bytes))]);
        if it.last_hit_unix_s > 0 {
            statistics["stoa-acl:last-hit"] = text(&date::of_unix_s(it.last_hit_unix_s));
        }
        let entry = object([("name", text(&rule.name)), ("statistics", statistics)]);
        lists.entry(&rule.acl).or_default().push(entry);
    }
    let unmatched = rules.iter().filter_map(|it| Some((it.row.as_ref()?, it))).map(|(row, it)| {
        object([
            ("family", json!(format!("ipv{}", row.family))),
            ("acls", json!(row.acls.join(" "))),
            ("packets", number(it.packets)),
            ("octets", number(it.bytes)),
        ])
    });
    let unmatched: Vec<Value> = unmatched.collect();
    if lists.is_empty() && unmatched.is_empty() {
        return;
    }
    let list = |(name, aces): (&str, Vec<Value>)| json!({ "name": name, "aces": { "ace": aces } });
    let lists: Vec<Value> = lists.into_iter().map(list).collect();
    let mut acls = json!({ "acl": lists });
    if !unmatched.is_empty() {
        acls["stoa-acl:unmatched"] = unmatched.into();
    }
    state.insert(ACLS.to_owned(), acls);
}

/// Adds what pairs of zones drop, and what SYN cookies of zones do.
pub(super) fn add_zones(listed: &v1::ListZonePairsReply, state: &mut Map<String, Value>) {
    if listed.pairs.is_empty() && listed.unpaired_packets == 0 && listed.syn_cookies.is_empty() {
        return;
    }
    let dropped = |packets, bytes| {
        object([("dropped-packets", number(packets)), ("dropped-octets", number(bytes))])
    };
    let pairs = listed.pairs.iter().filter_map(|it| Some((it.pair.as_ref()?, it)));
    let pairs = pairs.map(|(pair, it)| {
        let statistics = dropped(it.dropped_packets, it.dropped_bytes);
        json!({ "from": pair.from, "to": pair.to, "statistics": statistics })
    });
    let zones = listed.syn_cookies.iter().map(|it| {
        let cookies = object([
            ("active", json!(it.is_on)),
            ("half-open", json!(it.half_open)),
            ("sent", number(it.sent)),
            ("accepted", number(it.accepted)),
        ]);
        json!({ "name": it.zone, "syn-cookies-state": cookies })
    });
    let unpaired = dropped(listed.unpaired_packets, listed.unpaired_bytes);
    let acls = state.entry(ACLS).or_insert_with(|| json!({}));
    acls["stoa-acl:zone-pairs"] = object([("zone-pair", list(pairs)), ("unpaired", unpaired)]);
    let zones: Vec<Value> = zones.collect();
    if !zones.is_empty() {
        acls["stoa-acl:zones"] = json!({ "zone": zones });
    }
}

/// Adds `/ietf-access-control-list:acls/stoa-acl:flows`.
pub(super) fn add_flows(flows: &FlowFacts<'_>, state: &mut Map<String, Value>) {
    let family = |it: &v1::FlowCounts| {
        let name = format!("ipv{}", it.family);
        let states = flows.states.iter().filter(|count| count.family == it.family);
        let states = states.map(|count| {
            object([
                ("name", text(&count.state)),
                ("active-flows", number(count.flows)),
                ("suspended-flows", number(count.suspended)),
            ])
        });
        let limit = flows.limits.iter().find(|limit| limit.name == format!("{name}-flows"));
        let (used, capacity) = limit.map_or((0, 0), |it| (it.used.unwrap_or(0), it.limit));
        object([
            ("name", text(&name)),
            ("active-flows", number(used)),
            ("capacity", number(capacity)),
            ("created-flows", number(it.created)),
            ("expired-flows", number(it.expired)),
            ("evicted-flows", number(it.evicted)),
            ("refused-packets", number(it.refused)),
            ("source-limited-packets", number(it.source_limited)),
            ("adopted-flows", number(it.adopted)),
            ("left-out-flows", number(it.left_out)),
            ("state", list(states)),
        ])
    };
    let families: Vec<Value> = flows.counts.iter().map(family).collect();
    let acls = state.entry(ACLS).or_insert_with(|| json!({}));
    let mut of_flows = json!({ "family": families });
    if let Some(it) = flows.algs {
        of_flows["algs"] = algs(it);
    }
    acls["stoa-acl:flows"] = of_flows;
}

/// What application level gateways have done.
fn algs(it: &v1::AlgState) -> Value {
    let passed = it.passed.iter();
    let passed =
        passed.map(|it| object([("cause", text(&it.cause)), ("packets", number(it.packets))]));
    object([
        ("active-expectations", number(it.expectations)),
        ("capacity", number(it.limit)),
        ("expected-connections", number(it.expected)),
        ("begun-connections", number(it.begun)),
        ("expired-connections", number(it.expired)),
        ("edited-packets", number(it.edited)),
        ("passed", list(passed)),
    ])
}

/// Adds the counters of rules.
pub(super) fn metrics(rules: &[v1::AclRuleState], page: &mut Page<'_>) -> fmt::Result {
    if rules.is_empty() {
        return Ok(());
    }
    let rows = rules.iter().filter_map(|it| Some((it.row.as_ref()?, it))).take(METRICS);
    let of =
        |row: &v1::AclRow| [("acls", row.acls.join(" ")), ("family", format!("IPv{}", row.family))];
    let help =
        "Packets that matched no rule of the attached lists of an interface, direction and family";
    let packets = rows.clone().map(|(row, it)| (of(row), it.packets));
    page.counters("acl_unmatched", "packets", help, packets)?;
    let help = "Bytes of the IP packets that matched no rule of attached lists";
    page.counters("acl_unmatched", "bytes", help, rows.map(|(row, it)| (of(row), it.bytes)))?;
    let rules = rules.iter().take(METRICS).filter_map(|it| Some((it.rule.as_ref()?, it)));
    let labels = |rule: &v1::AclRule| [("acl", rule.acl.clone()), ("rule", rule.name.clone())];
    let packets = rules.clone().map(|(rule, it)| (labels(rule), it.packets));
    page.counters("acl_rule", "packets", "Packets that matched a rule of an access list", packets)?;
    let bytes = rules.map(|(rule, it)| (labels(rule), it.bytes));
    page.counters("acl_rule", "bytes", "Bytes of the IP packets that matched a rule", bytes)
}

/// Adds what came of SYN cookies.
fn cookie_metrics(listed: &v1::ListZonePairsReply, page: &mut Page<'_>) -> fmt::Result {
    let zones = &listed.syn_cookies;
    if zones.is_empty() && listed.syn_cookies_refused == 0 {
        return Ok(());
    }
    let of = |it: &v1::SynCookiesState| [("zone", it.zone.clone())];
    let on = zones.iter().map(|it| (of(it), one(it.is_on)));
    page.gauges("syn_cookies_on", "", "Whether SYN cookies of a zone are on", on)?;
    let half_open = zones.iter().map(|it| (of(it), f64::from(it.half_open)));
    page.gauges("syn_cookies_half_open", "", "Half-open TCP connections to a zone", half_open)?;
    let sent = zones.iter().map(|it| (of(it), it.sent));
    page.counters("syn_cookies_sent", "", "SYNs that were answered with a cookie", sent)?;
    let accepted = zones.iter().map(|it| (of(it), it.accepted));
    let help = "Connections that have begun with a SYN cookie";
    page.counters("syn_cookies_accepted", "", help, accepted)?;
    let help = "TCP segments dropped because they acknowledge no valid SYN cookie";
    let refused =
        std::iter::once(([("reason", "syn-cookie".to_owned())], listed.syn_cookies_refused));
    page.counters("syn_cookies_refused", "packets", help, refused)
}

/// Adds what pairs of zones drop because no rule matches; without a pair, the labels are empty.
pub(super) fn zone_metrics(listed: &v1::ListZonePairsReply, page: &mut Page<'_>) -> fmt::Result {
    cookie_metrics(listed, page)?;
    if listed.pairs.is_empty() && listed.unpaired_packets == 0 {
        return Ok(());
    }
    let unpaired = v1::ZonePairState {
        pair: Some(v1::ZonePair::default()),
        dropped_packets: listed.unpaired_packets,
        dropped_bytes: listed.unpaired_bytes,
    };
    let pairs = listed.pairs.iter().chain([&unpaired]);
    let pairs = pairs.filter_map(|it| Some((it.pair.as_ref()?, it)));
    let labels = |pair: &v1::ZonePair| [("from", pair.from.clone()), ("to", pair.to.clone())];
    let packets = pairs.clone().map(|(pair, it)| (labels(pair), it.dropped_packets));
    let help = "Packets between zones that no rule of their pair matched";
    page.counters("zone_dropped", "packets", help, packets)?;
    let bytes = pairs.map(|(pair, it)| (labels(pair), it.dropped_bytes));
    page.counters("zone_dropped", "bytes", "Bytes of these IP packets", bytes)
}
