//! What flows take in the router: places, ports, port sets, quotas, expectations. Nothing of it may leak.

use serde_json::Value;
use stoa_lab::{Result, Router};

/// What `stoa show limits` has, besides the rows of flows.
const LIMITS: [&str; 3] = ["nat-mappings", "nat-quotas", "nat-leases"];
const EXPECTATIONS: &str = "alg-expectations";
/// What the traffic uses in the first variant of the rules: ends of what [`of`] finds, without the values. Addresses
/// and states are in quotes.
const BUSY: [&str; 19] = [
    "flows: IPv4",
    "flows: IPv6",
    "flows: IPv4 \"udp-new\"",
    "flows: IPv6 \"udp-new\"",
    "nat: flows",
    "nat: dynamic_mappings",
    "policy 1/1 flows",
    "policy 1/1 dynamic_mappings",
    "policy 1/1 active_subscribers",
    "policy 1/1 port sets used",
    "\" flows",
    "\" dynamic_mappings",
    "limits: ipv4-flows",
    "limits: ipv6-flows",
    "limits: nat-flows",
    "limits: nat-mappings",
    "limits: host-flows-fullest",
    "limits: zone-inside-flows",
    "limits: vrf-default-flows",
];

/// What is in use, by the command that shows it; of expectations, what is more than `expected`.
///
/// # Errors
/// When the router does not answer.
pub fn of(router: &Router, expected: u64) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut note = |command: &str, what: &str, value: &Value| {
        let most = if what == EXPECTATIONS { expected } else { 0 };
        // What is not counted is not there.
        if value.as_u64().is_some_and(|it| it > most) {
            found.push(format!("{command}: {what} {value}"));
        }
    };
    let summary = router.json(&["show", "flows", "--summary", "--json"])?;
    for family in summary["families"].as_array().into_iter().flatten() {
        note("flows", &format!("IPv{}", family["family"]), &family["flows"]);
    }
    for state in summary["states"].as_array().into_iter().flatten() {
        note("flows", &format!("IPv{} {}", state["family"], state["state"]), &state["flows"]);
    }
    let nat = router.show("nat")?;
    for key in ["flows", "dynamic_mappings"] {
        note("nat", key, &nat[key]);
    }
    for policy in nat["policies"].as_array().into_iter().flatten() {
        let name = format!("policy {}/{}", policy["instance"], policy["policy"]);
        for key in ["flows", "dynamic_mappings", "active_subscribers"] {
            note("nat", &format!("{name} {key}"), &policy[key]);
        }
        for key in ["used", "unused"] {
            note("nat", &format!("{name} port sets {key}"), &policy["port_sets"][key]);
        }
    }
    for address in nat["addresses"].as_array().into_iter().flatten() {
        for key in ["flows", "dynamic_mappings"] {
            note("nat", &format!("{} {key}", address["address"]), &address[key]);
        }
    }
    for row in router.show("limits")?["limits"].as_array().into_iter().flatten() {
        let name = row["name"].as_str().unwrap_or_default();
        if name.contains("flows") || LIMITS.contains(&name) || name == EXPECTATIONS {
            note("limits", name, &row["used"]);
        }
    }
    Ok(found)
}

/// What [`of`] cannot see while traffic uses it, or does not find in the router by its name: a leak of it would pass
/// unseen.
///
/// # Errors
/// When the router does not answer.
pub fn unseen(router: &Router) -> Result<Vec<&'static str>> {
    let found = of(router, 0)?;
    let is_found = |word: &str| {
        let mut names = found.iter().filter_map(|it| it.rsplit_once(' '));
        names.any(|(name, _)| name.ends_with(word))
    };
    // These are in use for moments, or not at all: that they are counted must do.
    let limits = router.show("limits")?;
    let is_counted = |word: &str| {
        let mut rows = limits["limits"].as_array().into_iter().flatten();
        rows.any(|row| row["name"] == word && row["used"].is_u64())
    };
    let nat = router.show("nat")?;
    let mut policies = nat["policies"].as_array().into_iter().flatten();
    let has_unused = policies.any(|it| it["port_sets"]["unused"].is_u64());
    let mut unseen: Vec<_> = BUSY.into_iter().filter(|word| !is_found(word)).collect();
    let others = LIMITS.into_iter().chain([EXPECTATIONS]);
    unseen.extend(others.filter(|word| !is_counted(word)));
    unseen.extend((!has_unused).then_some("port sets unused"));
    Ok(unseen)
}
