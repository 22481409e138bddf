//! Translation without state as YANG data, and as metrics.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};
use stoa_api::v1;

use crate::capability::Page;
use crate::json::{list, number, object};

/// The instances of `/ietf-nat:nat/instances`.
pub(in crate::nat) fn instances(
    listed: &v1::ListNatReply,
    since: &Value,
    capabilities: &Value,
) -> Vec<Value> {
    let mut all: BTreeMap<u32, Vec<(u32, &v1::SiitPolicyState)>> = BTreeMap::new();
    for state in &listed.stateless {
        let Some(policy) = &state.policy else { continue };
        all.entry(policy.instance).or_default().push((policy.policy, state));
    }
    let instance = |(id, states): (u32, Vec<(u32, &v1::SiitPolicyState)>)| {
        let sum =
            |of: fn(&v1::SiitPolicyState) -> u64| states.iter().map(|(_, it)| of(it)).sum::<u64>();
        let traffic = object([
            ("sent-packets", number(sum(|it| it.out_packets))),
            ("sent-bytes", number(sum(|it| it.out_bytes))),
            ("rcvd-packets", number(sum(|it| it.in_packets))),
            ("rcvd-bytes", number(sum(|it| it.in_bytes))),
        ]);
        let mappings = u32::try_from(sum(|it| it.mappings)).unwrap_or(u32::MAX);
        object([
            ("id", json!(id)),
            ("capabilities", capabilities.clone()),
            ("policy", list(states.iter().map(|(id, _)| json!({ "id": id })))),
            (
                "statistics",
                object([
                    ("discontinuity-time", since.clone()),
                    ("traffic-statistics", traffic),
                    ("mappings-statistics", json!({ "total-address-mappings": mappings })),
                ]),
            ),
        ])
    };
    all.into_iter().map(instance).collect()
}

/// Adds what each policy has translated.
pub(in crate::nat) fn metrics(listed: &v1::ListNatReply, page: &mut Page<'_>) -> fmt::Result {
    let policies = listed.stateless.iter().filter_map(|it| Some((it.policy.as_ref()?, it)));
    let of = |it: &v1::SiitPolicy| {
        [("instance", it.instance.to_string()), ("policy", it.policy.to_string())]
    };
    let mappings = policies.clone().map(|(policy, it)| (of(policy), it.mappings as f64));
    page.gauges("siit_mappings", "", "Mappings between IPv4 and IPv6 without state", mappings)?;
    let labels = |it: &v1::SiitPolicy, direction: &str| {
        let [instance, policy] = of(it);
        [instance, policy, ("direction", direction.to_owned())]
    };
    let packets = policies.clone().flat_map(|(policy, it)| {
        [("out", it.out_packets), ("in", it.in_packets)]
            .map(|(way, count)| (labels(policy, way), count))
    });
    let help = "Packets that were translated without state: in to mapped hosts, out from them";
    page.counters("siit_translated", "packets", help, packets)?;
    let bytes = policies.flat_map(|(policy, it)| {
        [("out", it.out_bytes), ("in", it.in_bytes)]
            .map(|(way, count)| (labels(policy, way), count))
    });
    page.counters("siit_translated", "bytes", "Bytes of these IP packets as they came", bytes)
}
