//! Address translation as YANG data, and as metrics.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value, json};
use stoa_api::text::{ip, ip_text};
use stoa_api::{date, v1};

use super::{nptv6, siit};
use crate::capability::{NatFacts, Page};
use crate::json::{list, number, object, text};
use crate::prefix::prefix_from_proto;

/// Policies with metrics, at most: more than there may be.
const METRICS: usize = 1_000;

/// What an instance has.
#[derive(Default)]
struct Instance<'a> {
    policies: Vec<&'a v1::NatPolicyState>,
    mappings: Vec<&'a v1::NatStaticState>,
}

fn instances(listed: &v1::ListNatReply) -> BTreeMap<u32, Instance<'_>> {
    let mut all: BTreeMap<u32, Instance<'_>> = BTreeMap::new();
    for state in &listed.policies {
        let Some(policy) = &state.policy else { continue };
        all.entry(policy.instance).or_default().policies.push(state);
    }
    for state in &listed.mappings {
        let Some(mapping) = &state.mapping else { continue };
        all.entry(mapping.instance).or_default().mappings.push(state);
    }
    all
}

/// Adds `/ietf-nat:nat/instances`.
pub(super) fn add(facts: NatFacts<'_>, state: &mut Map<String, Value>) {
    let all = instances(facts.listed);
    let has_others = !facts.listed.prefixes.is_empty() || !facts.listed.stateless.is_empty();
    if all.is_empty() && !has_others {
        return;
    }
    // The forwarder counts packets of all flows together.
    let traffic = (all.len() == 1).then_some(facts.listed);
    let since = match facts.since_unix_s {
        0 => Value::Null,
        since => text(&date::of_unix_s(since)),
    };
    let instance = |(id, it): (&u32, &Instance<'_>)| {
        let policies = it.policies.iter().filter_map(|it| policy(it));
        object([
            ("id", json!(id)),
            ("capabilities", capabilities()),
            ("policy", list(policies)),
            (
                "statistics",
                object([
                    ("discontinuity-time", since.clone()),
                    ("traffic-statistics", traffic_statistics(it, traffic)),
                    ("mappings-statistics", mapping_statistics(it)),
                    ("pools-stats", pools(it, &facts.listed.addresses)),
                ]),
            ),
        ])
    };
    let mut instances: Vec<Value> = all.iter().map(instance).collect();
    instances.extend(nptv6::instances(facts.listed, &since, &capabilities()));
    instances.extend(siit::instances(facts.listed, &since, &capabilities()));
    let server = facts.listed.port_control.as_ref().map_or(Value::Null, port_control);
    let nat = object([
        ("instances", json!({ "instance": instances })),
        ("stoa-nat:port-control", server),
    ]);
    state.insert("ietf-nat:nat".to_owned(), nat);
}

/// What the server of PCP and NAT-PMP has done. Results that were never answered are left out.
fn port_control(server: &v1::NatPortControlState) -> Value {
    let answered = server.answers.iter().filter(|it| it.count > 0);
    let answer = |it: &v1::NatPortControlCount| json!({ "protocol": it.protocol, "result": it.result, "answers": number(it.count) });
    object([
        ("active-leases", number(server.leases)),
        ("expired-leases", number(server.expired)),
        ("epoch", json!(server.epoch_s)),
        ("answer", list(answered.map(answer))),
    ])
}

/// What this implementation can do (RFC 8512, section 3).
fn capabilities() -> Value {
    let protocols = [(1, "ICMP"), (6, "TCP"), (17, "UDP")];
    let protocol = |(id, name)| json!({ "protocol-id": id, "protocol-name": name });
    json!({
        "nat-flavor": [
            "ietf-nat:napt44", "ietf-nat:basic-nat44", "ietf-nat:nat64", "ietf-nat:siit",
            "ietf-nat:eam", "ietf-nat:nptv6",
        ],
        "per-interface-binding": ["unsupported"],
        "transport-protocols": protocols.map(protocol),
        "restricted-port-support": true,
        "static-mapping-support": true,
        "port-randomization-support": true,
        "port-range-allocation-support": true,
        "port-preservation-suport": true,
        "address-roundrobin-support": false,
        "paired-address-pooling-support": true,
        "endpoint-independent-mapping-support": true,
        "address-dependent-mapping-support": false,
        "address-and-port-dependent-mapping-support": true,
        "endpoint-independent-filtering-support": true,
        "address-dependent-filtering": true,
        "address-and-port-dependent-filtering": true,
        "fragment-behavior": "in-order",
    })
}

/// Whether a policy counts by subscriber.
fn has_subscribers(state: &v1::NatPolicyState) -> bool {
    state.blocks > 0 || state.policy.as_ref().is_some_and(|it| !it.quotas.is_empty())
}

fn policy(state: &v1::NatPolicyState) -> Option<Value> {
    let has_blocks = state.blocks > 0;
    let of_blocks = |value| if has_blocks { number(value) } else { Value::Null };
    let statistics = object([
        ("active-flows", number(state.flows)),
        ("active-mappings", number(state.dynamic_mappings)),
        ("created-flows", number(state.created_flows)),
        ("no-port-packets", number(state.out_of_ports)),
        ("no-address-packets", number(state.no_address)),
        ("over-quota-packets", number(state.over_quota)),
        ("port-sets", of_blocks(state.blocks)),
        ("used-port-sets", of_blocks(state.used_blocks)),
        ("unused-port-sets", of_blocks(state.unused_blocks)),
        (
            "active-subscribers",
            if has_subscribers(state) { number(state.subscribers) } else { Value::Null },
        ),
        ("table-full-packets", number(state.table_full)),
    ]);
    let id = state.policy.as_ref()?.policy;
    Some(json!({ "id": id, "stoa-nat:statistics": statistics }))
}

/// Packets that were translated, if those of the instance are known, and those that were dropped.
fn traffic_statistics(instance: &Instance<'_>, traffic: Option<&v1::ListNatReply>) -> Value {
    let sum = |of: fn(&v1::NatPolicyState) -> u64| -> u64 {
        instance.policies.iter().map(|state| of(state)).sum()
    };
    let dropped = [
        sum(|it| it.out_of_ports),
        sum(|it| it.no_address),
        sum(|it| it.table_full),
        sum(|it| it.over_quota),
    ];
    let count = |of: fn(&v1::ListNatReply) -> u64| traffic.map_or(Value::Null, |it| number(of(it)));
    object([
        ("sent-packets", count(|it| it.out_packets)),
        ("sent-bytes", count(|it| it.out_bytes)),
        ("rcvd-packets", count(|it| it.in_packets)),
        ("rcvd-bytes", count(|it| it.in_bytes)),
        ("dropped-packets", number(dropped.iter().sum())),
        ("dropped-port-packets", number(dropped[0])),
        ("dropped-address-packets", number(dropped[1])),
        ("dropped-port-limit-packets", number(dropped[3])),
    ])
}

/// A number of 32 bits; a greater one is the greatest.
fn gauge(value: u64) -> Value {
    json!(u32::try_from(value).unwrap_or(u32::MAX))
}

fn mapping_statistics(instance: &Instance<'_>) -> Value {
    let has_ports = |it: &&&v1::NatStaticState| {
        it.mapping.as_ref().is_some_and(|mapping| mapping.external_ports.is_some())
    };
    let with_ports = instance.mappings.iter().filter(has_ports).count();
    let dynamic: u64 = instance.policies.iter().map(|it| it.dynamic_mappings).sum();
    json!({
        "total-address-mappings": gauge((instance.mappings.len() - with_ports) as u64),
        "total-port-mappings": gauge(dynamic + with_ports as u64),
    })
}

/// How many addresses of the pools of an instance have flows, and how many have none.
fn pools(instance: &Instance<'_>, addresses: &[v1::NatAddressState]) -> Value {
    let all = instance.policies.iter().filter_map(|it| it.policy.as_ref());
    let nets: BTreeSet<IpNet> =
        all.flat_map(|it| &it.pools).filter_map(prefix_from_proto).collect();
    if nets.is_empty() {
        return Value::Null;
    }
    let used = addresses.iter().filter(|it| it.flows > 0 || it.dynamic_mappings > 0);
    let used: HashSet<IpAddr> = used.filter_map(|it| ip(&it.address)).collect();
    let is_of_pool = |address: &&IpAddr| nets.iter().any(|net| net.contains(*address));
    let used = used.iter().filter(is_of_pool).count() as u64;
    let total: u64 = nets.iter().map(|net| 1_u64 << (32 - net.prefix_len().min(32))).sum();
    json!({
        "addresses-allocated": gauge(used),
        "addresses-free": gauge(total.saturating_sub(used)),
    })
}

/// Adds what policies do, and what was translated.
pub(super) fn metrics(facts: NatFacts<'_>, page: &mut Page<'_>) -> fmt::Result {
    let listed = facts.listed;
    let policies = listed.policies.iter().take(METRICS);
    let policies = policies.filter_map(|it| Some((it.policy.as_ref()?, it)));
    let labels = |it: &v1::NatPolicy| {
        [("instance", it.instance.to_string()), ("policy", it.policy.to_string())]
    };
    let flows = policies.clone().map(|(policy, it)| (labels(policy), it.flows as f64));
    page.gauges("nat44_flows", "", "Flows that a policy translates", flows)?;
    let mappings =
        policies.clone().map(|(policy, it)| (labels(policy), it.dynamic_mappings as f64));
    page.gauges("nat44_mappings", "", "Dynamic mappings of a policy", mappings)?;
    let created = policies.clone().map(|(policy, it)| (labels(policy), it.created_flows));
    page.counters("nat44_created", "flows", "Flows that a policy has translated", created)?;
    let reasons = |(policy, it): (&v1::NatPolicy, &v1::NatPolicyState)| {
        let counts = [
            ("no-port", it.out_of_ports),
            ("no-address", it.no_address),
            ("table-full", it.table_full),
            ("quota", it.over_quota),
        ];
        let [instance, policy] = labels(policy);
        counts.map(|(reason, count)| {
            ([instance.clone(), policy.clone(), ("reason", reason.to_owned())], count)
        })
    };
    let help = "Packets that a policy could not translate";
    page.counters("nat44_dropped", "packets", help, policies.flat_map(reasons))?;
    let with_blocks = listed.policies.iter().take(METRICS).filter(|it| it.blocks > 0);
    let with_blocks = with_blocks.filter_map(|it| Some((it.policy.as_ref()?, it)));
    let uses = with_blocks.flat_map(|(policy, it)| {
        let free = it.blocks.saturating_sub(it.used_blocks + it.unused_blocks);
        let states = [("used", it.used_blocks), ("unused", it.unused_blocks), ("free", free)];
        let [instance, policy] = labels(policy);
        states.map(|(state, count)| {
            let labels = [instance.clone(), policy.clone(), ("state", state.to_owned())];
            (labels, count as f64)
        })
    });
    page.gauges("nat44_port_sets", "", "Port sets of a policy", uses)?;
    let counting = listed.policies.iter().take(METRICS).filter(|it| has_subscribers(it));
    let subscribers = counting.filter_map(|it| Some((it.policy.as_ref()?, it)));
    let subscribers = subscribers.map(|(policy, it)| (labels(policy), it.subscribers as f64));
    page.gauges(
        "nat44_subscribers",
        "",
        "Subscribers with port sets or ports of a quota",
        subscribers,
    )?;
    backend_metrics(listed, page)?;
    port_control_metrics(listed, page)?;
    let ways =
        [("out", listed.out_packets, listed.out_bytes), ("in", listed.in_packets, listed.in_bytes)];
    let of = |direction: &str| [("direction", direction.to_owned())];
    let packets = ways.iter().map(|(direction, packets, _)| (of(direction), *packets));
    page.counters("nat44_translated", "packets", "Packets that were translated", packets)?;
    let bytes = ways.iter().map(|(direction, _, bytes)| (of(direction), *bytes));
    page.counters("nat44_translated", "bytes", "Bytes of these IP packets", bytes)?;
    nptv6::metrics(listed, page)?;
    siit::metrics(listed, page)
}

/// What hosts have that share a service.
fn backend_metrics(listed: &v1::ListNatReply, page: &mut Page<'_>) -> fmt::Result {
    let backends = listed.mappings.iter().filter_map(|it| Some((it.mapping.as_ref()?, it)));
    let backends = backends.filter(|(mapping, _)| !mapping.backends.is_empty());
    let backends = backends.take(METRICS).flat_map(|(mapping, it)| {
        let all = mapping.backends.iter().zip(&it.backend_flows);
        all.map(|(backend, flows)| {
            let labels = [
                ("instance", mapping.instance.to_string()),
                ("mapping", mapping.index.to_string()),
                ("backend", format!("{}:{}", ip_text(&backend.address), backend.first_port)),
            ];
            (labels, *flows as f64)
        })
    });
    page.gauges("nat44_backend_flows", "", "Flows of a host that shares a service", backends)
}

/// What hosts have asked for.
fn port_control_metrics(listed: &v1::ListNatReply, page: &mut Page<'_>) -> fmt::Result {
    let server = listed.port_control.as_ref();
    let labels = |it: &v1::NatPortControlCount| {
        [("protocol", it.protocol.clone()), ("result", it.result.clone())]
    };
    let answers = server.iter().flat_map(|it| &it.answers).map(|it| (labels(it), it.count));
    page.counters("nat44_port_control", "answers", "Answers of PCP and NAT-PMP", answers)?;
    let (leases, expired) = server.map_or((0, 0), |it| (it.leases, it.expired));
    let help = "Mappings that hosts hold by PCP or NAT-PMP";
    page.gauge("nat44_leases", "", help, leases as f64)?;
    let help = "Mappings of hosts that nobody renewed";
    page.counter("nat44_expired", "leases", help, expired)
}
