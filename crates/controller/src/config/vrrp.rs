//! Virtual routers (VRRP, RFC 9568): addresses that several routers of a link share.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use stoa_api::text::ip_bytes;
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use crate::config::host_addresses::is_link_local;
use crate::config::model::{Family, Interface, VirtualRouter};

/// The priority of the address owner (RFC 9568 section 5.2.4).
const OWNER: u32 = 255;

/// Tunnels have no VRRP: nobody shares their other end.
pub fn check(interface: &Interface, place: &str, errors: &mut ValidationErrors) {
    let has_any = |family: &Option<Family>| {
        family.as_ref().is_some_and(|family| !family.vrrp.vrrp_instance.is_empty())
    };
    let is_tunnel = interface.port.as_ref().is_some_and(|port| port.tunnel.is_some());
    if is_tunnel && (has_any(&interface.ip4) || has_any(&interface.ip6)) {
        errors.add(
            place,
            "VRRP is not possible on a tunnel",
            "Remove vrrp, or configure it on the interface that the routers share.",
        );
    }
}

/// The virtual routers of a family at `place`.
pub fn desired(
    place: &str,
    is_ip6: bool,
    family: &Family,
    errors: &mut ValidationErrors,
) -> Vec<v1::VirtualRouter> {
    let own: Vec<IpNet> = family
        .address
        .iter()
        .filter_map(|given| IpNet::new(given.ip.parse().ok()?, given.prefix_length).ok())
        .collect();
    let mut seen: HashMap<IpAddr, u32> = HashMap::new();
    let mut all = Vec::new();
    for given in &family.vrrp.vrrp_instance {
        let vrid = given.of.vrid;
        let place = format!("{place}/ietf-vrrp:vrrp/vrrp-instance[vrid='{vrid}']");
        let addresses = addresses(given, is_ip6);
        check_addresses(&place, is_ip6, &addresses, &own, errors);
        for address in &addresses {
            if let Some(other) = seen.insert(*address, vrid) {
                errors.add(
                    &place,
                    format!("{address} already belongs to virtual router {other}"),
                    "Use each address in one virtual router only.",
                );
            }
        }
        let is_ours = |address: &IpAddr| own.iter().any(|net| net.addr() == *address);
        let ours = addresses.iter().filter(|address| is_ours(address)).count();
        if ours > 0 && ours < addresses.len() {
            errors.add(
                &place,
                "only some of its addresses are addresses of the interface",
                "Use only addresses of the interface, or none.",
            );
        }
        let is_owner = ours > 0;
        let seconds = given.advertise_interval_sec.map(|seconds| seconds * 100);
        all.push(v1::VirtualRouter {
            version: if given.version.ends_with("v2") { 2 } else { 3 },
            priority: if is_owner { OWNER } else { given.of.priority },
            preempt: given.preempt.enabled,
            hold_s: given.preempt.hold_time,
            interval_cs: seconds.or(given.advertise_interval_centi_sec).unwrap_or(100),
            addresses: addresses.into_iter().map(ip_bytes).collect(),
            tracked: given.track.interfaces.interface.clone(),
            networks: given.track.networks.network.clone(),
            ..given.of.clone()
        });
    }
    all
}

fn addresses(given: &VirtualRouter, is_ip6: bool) -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = match is_ip6 {
        false => given.addresses4.list.iter().filter_map(|it| it.ip.parse().ok()).collect(),
        true => given.addresses6.list.iter().filter_map(|it| it.ip.parse().ok()).collect(),
    };
    // The YANG list is unordered (RFC 7950 7.7.7); advertisements need an order (RFC 9568 5.2.9).
    all.sort_by_key(|address| !is_link_local(*address));
    all
}

fn check_addresses(
    place: &str,
    is_ip6: bool,
    addresses: &[IpAddr],
    own: &[IpNet],
    errors: &mut ValidationErrors,
) {
    let Some(first) = addresses.first() else {
        errors.add(
            place,
            "the virtual router has no address",
            "Add the address that hosts use as their gateway.",
        );
        return;
    };
    if is_ip6 && !is_link_local(*first) {
        errors.add(
            place,
            "none of its addresses is link-local (RFC 9568 5.2.9)",
            "Add one of fe80::/10, which hosts use as their gateway.",
        );
    }
    if own.is_empty() && !is_ip6 {
        errors.add(
            place,
            "the interface has no address to send advertisements from",
            "Add an address to the interface.",
        );
        return;
    }
    for address in addresses {
        let is_near =
            is_ip6 && is_link_local(*address) || own.iter().any(|net| net.contains(address));
        if !is_near {
            errors.add(
                place,
                format!("{address} is in no subnet of the interface"),
                "Use an address of one of its subnets.",
            );
        }
    }
}
