//! Translation without state.

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::v1::SiitPolicyState;

use crate::show::{count, table};

/// Policies without state (SIIT), and what was translated.
pub(super) fn policies(policies: &[SiitPolicyState]) -> Table {
    let columns = [
        "stateless policy",
        "VRF",
        "prefix",
        ">mappings",
        ">to mapped hosts",
        ">from mapped hosts",
    ];
    let mut table = table(&columns);
    for state in policies {
        let Some(policy) = &state.policy else { continue };
        let prefix = policy.prefix.as_ref().map(ToString::to_string);
        table.add_row(vec![
            Cell::new(format!("{}/{}", policy.instance, policy.policy)),
            Cell::new(if policy.vrf.is_empty() { "default" } else { &policy.vrf }),
            Cell::new(prefix.unwrap_or_default()),
            count(state.mappings),
            count(state.in_packets),
            count(state.out_packets),
        ]);
    }
    table
}

/// The same as JSON.
pub(super) fn to_json(state: &SiitPolicyState) -> Option<Value> {
    let policy = state.policy.as_ref()?;
    let kept: Vec<String> = policy.kept.iter().map(ToString::to_string).collect();
    let direction = |packets: u64, bytes: u64| json!({ "packets": packets, "bytes": bytes });
    Some(json!({
        "instance": policy.instance, "policy": policy.policy, "vrf": policy.vrf,
        "prefix": policy.prefix.as_ref().map(ToString::to_string),
        "exempt": kept, "error_interface": policy.error_interface,
        "mappings": state.mappings,
        "in": direction(state.in_packets, state.in_bytes),
        "out": direction(state.out_packets, state.out_bytes),
    }))
}
