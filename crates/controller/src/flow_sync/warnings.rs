//! What a commit warns about: a partner that gets nothing.

use stoa_api::v1;

use super::FLOW_SYNC;
use crate::warning::Warning;

/// The warnings about the partner.
pub(crate) fn warnings(desired: &v1::Desired) -> impl Iterator<Item = Warning> {
    let is_followed = desired.nat.is_some() || desired.acl_rules.iter().any(|it| it.stateful);
    let without_flows = desired.flow_sync.as_ref().filter(|_| !is_followed).map(|_| Warning {
        text: "The partner gets no flows: no rule is stateful and nothing is translated, so no flows are followed; remove \
               flow-sync, or use stateful rules or NAT"
            .to_owned(),
        nodes: vec![FLOW_SYNC.to_owned()],
    });
    without_flows.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_warns_of_a_partner_that_gets_nothing() {
        let desired =
            v1::Desired { flow_sync: Some(v1::FlowSync::default()), ..v1::Desired::default() };
        assert_eq!(warnings(&v1::Desired::default()).count(), 0);
        assert!(warnings(&desired).all(|it| it.text.starts_with("The partner gets no flows")));
        assert_eq!(warnings(&desired).count(), 1);
        let nat = v1::Desired { nat: Some(v1::Nat::default()), ..desired };
        assert_eq!(warnings(&nat).count(), 0);
    }
}
