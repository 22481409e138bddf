//! External interfaces: nobody behind them may ask for mappings.

use std::collections::BTreeMap;

use stoa_yang::error::ValidationErrors;

use super::nptv6::Pair;
use super::paths::policy_path;
use super::policies::Policy;

/// Checks that no policy answers requests for mappings at an external interface of another one: anybody outside could
/// open ports.
pub(super) fn check(policies: &[Policy<'_>], pairs: &[Pair<'_>], errors: &mut ValidationErrors) {
    let of_policies = policies.iter().map(|it| (it.interface, it.instance, it.id));
    let external: BTreeMap<&str, (u32, u32)> = of_policies
        .chain(pairs.iter().map(Pair::outside))
        .map(|(interface, instance, policy)| (interface, (instance, policy)))
        .collect();
    for policy in policies {
        let asked = policy.port_control.iter().flat_map(|it| &it.interfaces);
        for name in asked.filter(|it| *it != policy.interface) {
            let Some((instance, other)) = external.get(name.as_str()) else { continue };
            let path = policy_path(policy.instance, policy.id);
            errors.add_about(
                format!("{path}/stoa-nat:port-control/interface[.='{name}']"),
                format!(
                    "\"{name}\" is the external interface of policy {other} of instance {instance}: anybody outside \
                     could open ports"
                ),
                "Name inside interfaces alone.",
                &[&name],
            );
        }
    }
}
