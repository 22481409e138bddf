//! Which rule decides about a packet at an interface.

use super::walk::{Decision, Packet, walk};
use crate::config::has_address;
use crate::configuration::Configuration;
use stoa_api::v1;

/// What becomes of a packet at an interface.
///
/// # Errors
/// There is no such interface or direction.
pub fn evaluate(configuration: &Configuration, packet: &Packet) -> Result<Decision, String> {
    let v1::TestAclRequest { interface, direction, .. } = &packet.of;
    let found = configuration.interfaces.named(interface);
    let found = found.ok_or_else(|| format!("there is no interface {interface:?}"))?;
    let sets = found.acls.clone().unwrap_or_default();
    let lists = match (direction.as_str(), packet.source.is_ipv4()) {
        ("in", true) => sets.in4,
        ("in", false) => sets.in6,
        ("out", true) => sets.out4,
        ("out", false) => sets.out6,
        _ => return Err(format!("{direction:?} is no direction: use in or out")),
    };
    let family = if packet.source.is_ipv4() { 4 } else { 6 };
    if lists.is_empty() {
        let reason = format!("no list of IPv{family} is attached to {interface} in this direction");
        return Ok(Decision { action: "accept".to_owned(), reason, ..Decision::default() });
    }
    let rules = |list: &String| {
        let list = list.clone();
        configuration.desired.acl_rules.iter().filter(move |rule| rule.acl == list)
    };
    let own = |end| configuration.interfaces.iter().any(|it| has_address(it, end));
    let is_own = own(packet.source) || own(packet.destination);
    let has_flows = configuration.desired.acl_rules.iter().any(|rule| rule.stateful);
    Ok(Decision { has_flows, ..walk(lists.iter().flat_map(rules), packet, is_own) })
}
