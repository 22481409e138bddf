//! The steps of the demo behind a firewall: a stateful rule, NAT44, and the record of a flow, which the router shows
//! and a collector has.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::record;
use super::report::Report;
use super::steps::{Outcome, outcome};
use crate::configuration::interface_name;
use crate::measure::ping;
use crate::{Host, LabError, Result, Router, Topology};

/// The protocol of pings.
const ICMP: u64 = 1;

/// The access lists: the first host opens flows, and from the second one only their replies pass.
fn access_lists([inside, outside]: [&str; 2]) -> Value {
    let list = |name: &str, rule: &str, actions: Value| {
        json!({
            "name": name, "type": "ietf-access-control-list:ipv4-acl-type",
            "aces": { "ace": [{ "name": rule, "actions": actions }] },
        })
    };
    let at = |interface: &str, list: &str| {
        let sets = json!({ "acl-sets": { "acl-set": [{ "name": list }] } });
        json!({ "interface-id": interface, "ingress": sets })
    };
    let accept = json!({
        "forwarding": "ietf-access-control-list:accept", "stoa-acl:stateful": true,
    });
    json!({
        "acl": [
            list("from-inside", "flows", accept),
            list("from-outside", "others", json!({ "forwarding": "ietf-access-control-list:drop" })),
        ],
        "attachment-points": {
            "interface": [at(inside, "from-inside"), at(outside, "from-outside")],
        },
    })
}

/// NAT44: what leaves by this interface has its address.
fn masquerade(outside: &str) -> Value {
    json!({ "instances": { "instance": [{
        "id": 1,
        "policy": [{ "id": 1, "external-realm": { "external-interface": outside } }],
    }] } })
}

/// Adds lists and NAT44 to the configuration of a running router, and tries both.
pub(crate) fn steps(report: &mut Report, topology: &Topology, router: &Router, mut all: Value) {
    let [a, b] = topology.hosts() else { return };
    let [inside, outside] = [a, b].map(|host| interface_name(host.side()));
    all["ietf-access-control-list:acls"] = access_lists([&inside, &outside]);
    let is_on = report.step("stateful rule", loaded(router, &all, || only_one_way(a, b)));
    all["ietf-nat:nat"] = masquerade(&outside);
    if is_on && report.step("NAT44", loaded(router, &all, || translated(router, a, b))) {
        report.step("flow of the ping", shown(router, a));
        let exported = record::exported((router, topology.router()), [a, b], &all);
        report.step("flow record by IPFIX", outcome(exported));
    }
}

/// Reloads, then checks.
fn loaded(router: &Router, all: &Value, check: impl FnOnce() -> Result<Outcome>) -> Outcome {
    let reloaded = router.reload(all).and_then(|output| {
        if output.success() { check() } else { Ok(Err(output.stderr.trim().to_owned())) }
    });
    outcome(reloaded)
}

fn only_one_way(a: &Host, b: &Host) -> Result<Outcome> {
    let out = ping(a, b.address(false)?, 3, &[])?;
    let back = ping(b, a.address(false)?, 2, &[])?;
    let printed = format!(
        "{} -> {}: {} of {} replies, {} -> {}: {} of {}",
        a.label(),
        b.label(),
        out.received,
        out.sent,
        b.label(),
        a.label(),
        back.received,
        back.sent
    );
    Ok(if out.all() && back.received == 0 { Ok(printed) } else { Err(printed) })
}

/// What the second host answers is an address of the router.
fn translated(router: &Router, a: &Host, b: &Host) -> Result<Outcome> {
    let out = ping(a, b.address(false)?, 3, &[])?;
    let own = b.gateway(false)?;
    let flow = flow_of(router, a)?;
    let seen = flow.as_ref().map_or(&Value::Null, |flow| &flow["translated_source"]);
    let is_own = seen.as_str().and_then(|text| text.parse().ok()) == Some(own);
    let printed = format!(
        "{} sees {} as {}; {} of {} replies",
        b.label(),
        a.label(),
        seen.as_str().unwrap_or("itself"),
        out.received,
        out.sent
    );
    Ok(if out.all() && is_own { Ok(printed) } else { Err(printed) })
}

/// The latest flow of a host.
fn flow_of(router: &Router, host: &Host) -> Result<Option<Value>> {
    let address: IpAddr = host.address(false)?;
    let mut found = router.json(&["show", "flows", "--address", &address.to_string(), "--json"])?;
    let flows = found["flows"].as_array_mut().map(std::mem::take).unwrap_or_default();
    Ok(flows.into_iter().min_by_key(|flow| flow["age_s"].as_u64()))
}

/// The flow of the ping, in `stoa show flows`.
fn shown(router: &Router, a: &Host) -> Outcome {
    let show = || -> Result<Outcome> {
        let flow = flow_of(router, a)?.ok_or_else(|| LabError::ParseFailed {
            what: "stoa show flows".to_owned(),
            reason: "it has no flow of the ping".to_owned(),
        })?;
        let text = |key: &str| flow[key].as_str().unwrap_or_default().to_owned();
        let number = |key: &str| flow[key].as_u64().unwrap_or_default();
        let printed = format!(
            "ICMP {} -> {}, rule {} of {}: {} packets, {} replies",
            text("source"),
            text("destination"),
            text("rule"),
            text("acl"),
            number("packets"),
            number("reply_packets")
        );
        let is_answered = number("packets") == number("reply_packets") && number("packets") > 0;
        let is_whole = number("protocol") == ICMP && is_answered;
        Ok(if is_whole { Ok(printed) } else { Err(printed) })
    };
    outcome(show())
}
