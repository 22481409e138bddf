//! What a commit warns about: an export that has nothing to export.

use stoa_api::text::ip_text;
use stoa_api::v1;

use super::{IPFIX, collector_path};
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
    let twice = ipfix.into_iter().flat_map(|it| twice(&it.collectors));
    without_flows.into_iter().chain(without_nat).chain(without_log).chain(twice)
}

/// Collectors at an address and port that another one has: it gets all records again, and counts them twice.
fn twice(collectors: &[v1::IpfixCollector]) -> impl Iterator<Item = Warning> {
    let key = |it: &v1::IpfixCollector| (it.address.clone(), it.port, it.transport);
    collectors.iter().enumerate().filter_map(move |(at, it)| {
        let first = collectors[..at].iter().find(|first| key(first) == key(it))?;
        let (address, port) = (ip_text(&it.address), it.port);
        Some(Warning {
            text: format!(
                "IPFIX collectors {} and {} are both {address} port {port}: it gets all records twice; remove one of them",
                first.name, it.name
            ),
            nodes: vec![collector_path(&it.name), collector_path(&first.name)],
        })
    })
}
