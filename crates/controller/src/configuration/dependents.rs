//! Whether the interfaces that a part leaves out stay valid, and stay as they are, when those of the part change. The
//! translation has compared the part with them as far as it could (`config::others`); these are the other ways round.

use std::net::IpAddr;

use ipnet::IpNet;
use stoa_api::v1;
use stoa_api::v1::port::Driver;

use crate::config::others::{Others, device_of, families, tunnel_of};
use crate::prefix::net_from_proto;

/// An interface with its port.
type WithPort<'a> = (&'a v1::Interface, Option<&'a v1::Port>);

/// An interface that changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    /// As it was; `None`: it is new.
    pub old: Option<WithPort<'a>>,
    /// As it is now; `None`: it is removed.
    pub new: Option<WithPort<'a>>,
}

/// The addresses of an interface whose families are enabled, with their prefix lengths.
pub(super) fn addresses(interface: &v1::Interface) -> impl Iterator<Item = IpNet> {
    let enabled = families(interface).filter(|family| family.enabled);
    enabled.flat_map(|family| &family.addresses).filter_map(net_from_proto)
}

/// What others may need an interface to have or not to have: its kind and its families.
fn shape(given: Option<WithPort<'_>>) -> Option<(bool, bool, bool, bool)> {
    given.map(|(interface, port)| {
        let is_tunnel = port.is_some_and(|port| tunnel_of(port).is_some());
        (port.is_some(), is_tunnel, interface.ip4.is_some(), interface.ip6.is_some())
    })
}

fn is_generator(port: &v1::Port) -> bool {
    matches!(port.driver, Some(Driver::Generator(_)))
}

/// Whether nothing of the others depends on what changes.
pub(super) fn are_independent(others: &Others<'_>, changes: &[Change<'_>]) -> bool {
    others.is_empty() || changes.iter().all(|change| is_independent(others, *change))
}

fn is_independent(others: &Others<'_>, change: Change<'_>) -> bool {
    let both = || [change.old, change.new].into_iter().flatten();
    if let Some((old, _)) = change.old
        && shape(change.old) != shape(change.new)
        && others.refer_to(&old.name)
    {
        return false;
    }
    // A generator has the MAC address of an interface.
    if both().any(|(_, port)| port.is_some_and(is_generator))
        || others.ports.iter().any(|port| {
            is_generator(port) && both().any(|(interface, _)| interface.parent == port.interface)
        })
    {
        return false;
    }
    addresses_are_free(others, change)
        && change.new.is_none_or(|(interface, port)| is_alone(others, interface, port))
}

/// Whether tunnels keep their endpoints, and BFD sessions are with neighbours still.
fn addresses_are_free(others: &Others<'_>, Change { old, new }: Change<'_>) -> bool {
    let own = |given: Option<WithPort<'_>>| -> Vec<(String, Vec<u8>)> {
        let interface = given.map(|(interface, _)| interface);
        let all = interface.into_iter().flat_map(|it| {
            families(it)
                .flat_map(|family| &family.addresses)
                .map(|one| (it.vrf.clone(), one.address.clone()))
        });
        all.collect()
    };
    let (before, after) = (own(old), own(new));
    let keeps_tunnels = before
        .iter()
        .filter(|it| !after.contains(it))
        .all(|(vrf, address)| !others.have_tunnel(vrf, |tunnel| tunnel.local == *address));
    keeps_tunnels && after.iter().all(|(vrf, address)| !others.have_bfd_with(vrf, address))
}

/// Whether no other has the tags, the endpoints or the device of an interface.
fn is_alone(others: &Others<'_>, interface: &v1::Interface, port: Option<&v1::Port>) -> bool {
    if !interface.cross_connect.is_empty() && others.have_parent(&interface.name) {
        return false;
    }
    let has_tags = |it: &&v1::Interface| {
        it.parent == interface.parent && it.outer == interface.outer && it.inner == interface.inner
    };
    if !interface.parent.is_empty() && others.interfaces.iter().any(has_tags) {
        return false;
    }
    if let Some(tunnel) = port.and_then(tunnel_of) {
        let has_ends = |it: &v1::Tunnel| {
            (&it.local, &it.remote, it.encapsulation)
                == (&tunnel.local, &tunnel.remote, tunnel.encapsulation)
        };
        if others.have_tunnel(&interface.vrf, has_ends) {
            return false;
        }
    }
    let host = |it: &v1::Interface| {
        it.host_interface.as_ref().map(|host| (host.netns.clone(), host.device.clone()))
    };
    let device =
        |port: &v1::Port| device_of(port).map(|(netns, name)| (netns.to_owned(), name.to_owned()));
    let (own_host, own_device) = (host(interface), port.and_then(device));
    let is_taken =
        |by: &(String, String)| Some(by) == own_host.as_ref() || Some(by) == own_device.as_ref();
    !others.interfaces.iter().filter_map(|it| host(it)).any(|by| is_taken(&by))
        && (own_host.is_none()
            || others.ports.iter().filter_map(|it| device(it)).all(|by| Some(by) != own_host))
}

/// Whether an address is in one of these subnets.
pub(super) fn is_in(nets: &[IpNet], address: &IpAddr) -> bool {
    nets.iter().any(|net| net.contains(address))
}
