//! What a commit warns about: an export that has nothing to export.

use stoa_api::v1;

use super::IPFIX;
use crate::warning::Warning;

/// The warnings about the export.
pub(crate) fn warnings(desired: &v1::Desired) -> impl Iterator<Item = Warning> {
    let ipfix = desired.ipfix.as_ref();
    let is_followed = desired.nat.is_some() || desired.acl_rules.iter().any(|it| it.stateful);
    let has_log =
        desired.acl_rules.iter().any(|it| it.log && it.action() != v1::AclAction::AclAccept);
    let without_flows = ipfix.filter(|it| it.flows && !is_followed).map(|_| Warning {
        text: "IPFIX exports no flows: no rule is stateful and nothing is translated, so no flows are followed; attach an \
               access list with a stateful rule, which may accept everything, or set flows false"
            .to_owned(),
        nodes: vec![format!("{IPFIX}/flows")],
    });
    let without_nat = ipfix.filter(|it| it.nat_sessions && desired.nat.is_none()).map(|_| Warning {
        text: "IPFIX exports no NAT sessions: nothing is translated; configure NAT, or remove nat-sessions"
            .to_owned(),
        nodes: vec![format!("{IPFIX}/nat-sessions")],
    });
    let without_log = ipfix.filter(|it| it.denials && !has_log).map(|_| Warning {
        text: "IPFIX exports no denials: no rule with a log drops or rejects packets; set logging of such rules to \
               log-syslog, or remove denials"
            .to_owned(),
        nodes: vec![format!("{IPFIX}/denials")],
    });
    without_flows.into_iter().chain(without_nat).chain(without_log)
}
