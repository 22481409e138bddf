//! What a policy of NAT64 has, and what it does not.

use std::net::{IpAddr, Ipv6Addr};

use stoa_api::v1;
use stoa_wire::siit::Prefix;

use super::super::{DesiredState, ValidationErrors, address};
use super::{Wrong, policy_path};

/// The prefix of a policy, if it is one of NAT64.
pub(super) fn checked(policy: &v1::NatPolicy) -> Result<Option<Prefix>, Wrong> {
    let Some(given) = &policy.nat64_prefix else { return Ok(None) };
    let Some(IpAddr::V6(network)) = address(&given.address) else {
        return Err(("has a prefix of NAT64 that is no IPv6 prefix".to_owned(), "Use one."));
    };
    let length = u8::try_from(given.length).ok();
    let Some(prefix) = length.and_then(|it| Prefix::new(network, it)) else {
        let cause = format!("has the prefix {network}/{} of NAT64", given.length);
        let fix =
            "Use 32, 40, 48, 56, 64 or 96 bits, without host bits, and with bits 64 to 71 zero.";
        return Err((cause, fix));
    };
    let has_others = !policy.subscribers.is_empty()
        || !policy.exempt.is_empty()
        || !policy.algs.is_empty()
        || policy.blocks.is_some()
        || policy.port_control.is_some()
        || policy.static_only;
    if has_others {
        let cause = "is of NAT64, and has what only NAT44 has".to_owned();
        return Err((
            cause,
            "Remove its subscribers, exemptions, gateways, blocks, port control and static-only.",
        ));
    }
    Ok(Some(prefix))
}

/// As in the contract.
pub(super) fn message(prefix: Prefix) -> v1::Prefix {
    let network: Ipv6Addr = prefix.network();
    v1::Prefix { address: network.octets().to_vec(), length: prefix.length().into() }
}

impl DesiredState {
    /// Checks that all policies of NAT64 in a VRF have the same prefix.
    pub(super) fn check_nat64(&self, errors: &mut ValidationErrors) {
        let mut known: Vec<(&str, Prefix)> = Vec::new();
        for policy in &self.nat.policies {
            let Some(prefix) = policy.nat64 else { continue };
            let Some(interface) = self.interfaces.get(&policy.interface) else { continue };
            let vrf = interface.vrf.as_str();
            match known.iter().find(|it| it.0 == vrf) {
                Some((_, other)) if *other != prefix => {
                    let cause = format!(
                        "has the prefix {}/{} of NAT64, and another policy of its VRF has {}/{}",
                        prefix.network(),
                        prefix.length(),
                        other.network(),
                        other.length()
                    );
                    let path = policy_path(policy.instance, policy.policy);
                    errors.add(path, cause, "Use one prefix in a VRF.");
                }
                Some(_) => {}
                None => known.push((vrf, prefix)),
            }
        }
    }
}
