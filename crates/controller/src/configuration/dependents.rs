//! Whether the interfaces that a part leaves out stay valid, and stay as they are, when those of the part change. The
//! translation has compared the part with them as far as it could (`config::others`); these are the other ways round.
//! Each capability knows its own (`Capability::is_independent`).

use std::net::IpAddr;

use ipnet::IpNet;
use stoa_api::v1;
use stoa_api::v1::port::Driver;

use crate::capability::list;
use crate::config::others::{InterfaceChange, Others, WithPort, families};
use crate::prefix::net_from_proto;

/// The addresses of an interface whose families are enabled, with their prefix lengths.
pub(super) fn addresses(interface: &v1::Interface) -> impl Iterator<Item = IpNet> {
    let enabled = families(interface).filter(|family| family.enabled);
    enabled.flat_map(|family| &family.addresses).filter_map(net_from_proto)
}

fn is_generator(port: &v1::Port) -> bool {
    matches!(port.driver, Some(Driver::Generator(_)))
}

/// Whether nothing of the others depends on what changes.
pub(super) fn are_independent(others: &Others<'_>, changes: &[InterfaceChange<'_>]) -> bool {
    others.is_empty()
        || changes.iter().all(|change| {
            is_independent(others, change)
                && list::all().all(|capability| capability.is_independent(others, change))
        })
}

/// The same for what capabilities stand on: sub-interfaces and generators.
fn is_independent(others: &Others<'_>, change: &InterfaceChange<'_>) -> bool {
    if change.name_of_another_kind().is_some_and(|name| others.have_parent(name)) {
        return false;
    }
    // A generator has the MAC address of an interface.
    if change.both().any(|(_, port)| port.is_some_and(is_generator))
        || others.ports().any(|port| {
            is_generator(port)
                && change.both().any(|(interface, _)| interface.parent == port.interface)
        })
    {
        return false;
    }
    let tags = |(it, _): WithPort<'_>| (it.parent.clone(), it.outer, it.inner);
    change.keeps(tags) || change.new.is_none_or(|(it, _)| has_tags_alone(others, it))
}

/// Whether no other has the tags of an interface.
fn has_tags_alone(others: &Others<'_>, interface: &v1::Interface) -> bool {
    let has_tags = |it: &v1::Interface| {
        it.outer == interface.outer && it.inner == interface.inner && it.parent == interface.parent
    };
    interface.parent.is_empty() || others.find(has_tags).is_none()
}

/// Whether an address is in one of these subnets.
pub(super) fn is_in(nets: &[IpNet], address: &IpAddr) -> bool {
    nets.iter().any(|net| net.contains(address))
}
