//! What flows take in the router: places, ports, port sets, quotas, expectations. Nothing of it may leak.

use serde_json::Value;
use stoa_lab::{Result, Router};

/// What `stoa show limits` has, besides the rows of flows.
const LIMITS: [&str; 3] = ["nat-mappings", "nat-quotas", "nat-leases"];
const EXPECTATIONS: &str = "alg-expectations";

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
