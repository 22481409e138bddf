//! Virtual routers (VRRP, RFC 9568): addresses that several routers of a link share.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value, json};
use stoa_api::counters::VIRTUAL_ROUTERS;
use stoa_api::text::{ip_bytes, ip_text};
use stoa_api::{date, v1};
use stoa_yang::error::ValidationErrors;

use crate::capability::{
    Capability, Facts, InterfaceChange, Others, Settings, Translated, interface_path,
};
use crate::config::host_addresses::is_link_local;
use crate::config::model::{Family, Interface, VirtualRouter};
use crate::config::others::families;
use crate::json::{number, object, text, with_counters};

/// The priority of the address owner (RFC 9568 section 5.2.4).
const OWNER: u32 = 255;

/// The capability.
pub(crate) struct Vrrp;

impl Capability for Vrrp {
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        translated: &mut Translated,
        errors: &mut ValidationErrors,
    ) {
        let has_any = |interface: &&Interface| {
            interface.families().any(|(family, ..)| !family.vrrp.vrrp_instance.is_empty())
        };
        let with_routers = settings.model.interfaces.interface.iter().filter(has_any);
        for (given, desired) in translated.interfaces_of(with_routers) {
            let place = interface_path(&given.name);
            if given.is_tunnel() {
                // Nobody shares the other end.
                errors.add(
                    &place,
                    "VRRP is not possible on a tunnel",
                    "Remove vrrp, or configure it on the interface that the routers share.",
                );
            }
            for (family, name, is_ip6) in given.families() {
                let place = format!("{place}/ietf-ip:{name}");
                let desired = if is_ip6 { &mut desired.ip6 } else { &mut desired.ip4 };
                if let Some(desired) = desired {
                    desired.virtual_routers = routers(&place, is_ip6, family, errors);
                }
            }
        }
    }

    /// A tracked interface decides about the priority.
    fn is_independent(&self, others: &Others<'_>, change: &InterfaceChange<'_>) -> bool {
        let is_tracked = |name: &str| {
            let tracks = |it: &v1::Interface| {
                let mut routers = families(it).flat_map(|it| &it.virtual_routers);
                routers.any(|router| router.tracked.iter().any(|on| on.interface == name))
            };
            others.find(tracks).is_some()
        };
        !change.name_of_another_kind().is_some_and(is_tracked)
    }

    fn family_state(
        &self,
        state: &v1::InterfaceState,
        is_ip4: bool,
    ) -> Option<(&'static str, Value)> {
        let of_family = state.virtual_routers.iter().filter(|router| router.ip6 != is_ip4);
        let instances: Vec<Value> = of_family.map(instance).collect();
        (!instances.is_empty()).then(|| ("ietf-vrrp:vrrp", json!({ "vrrp-instance": instances })))
    }

    /// `/ietf-vrrp:vrrp`: totals, if there is a virtual router. The request of one interface does not select them: it
    /// has no drops.
    fn state(&self, facts: &Facts<'_>, state: &mut Map<String, Value>) {
        let of_each = facts.interfaces.iter().map(|state| state.virtual_routers.len());
        let (interfaces, routers) = of_each
            .filter(|routers| *routers > 0)
            .fold((0, 0), |(interfaces, routers), more| (interfaces + 1, routers + more));
        let Some(drops) = facts.drops.filter(|_| routers > 0) else { return };
        let dropped = |reason: &str| {
            let found = drops.iter().find(|drop| drop.reason == reason);
            number(found.map_or(0, |drop| drop.packets))
        };
        let totals = json!({
            "virtual-routers": routers,
            "interfaces": interfaces,
            "statistics": {
                "checksum-errors": dropped("vrrp-checksum"),
                "version-errors": dropped("vrrp-version"),
                "vrid-errors": dropped("vrrp-unknown"),
                "ip-ttl-errors": dropped("vrrp-hop-limit"),
            },
        });
        state.insert("ietf-vrrp:vrrp".to_owned(), totals);
    }
}

/// The virtual routers of a family at `place`.
fn routers(
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
                errors.add_about(
                    &place,
                    format!("{address} already belongs to virtual router {other}"),
                    "Use each address in one virtual router only.",
                    &[address],
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
            errors.add_about(
                place,
                format!("{address} is in no subnet of the interface"),
                "Use an address of one of its subnets.",
                &[address],
            );
        }
    }
}

fn instance(router: &v1::VirtualRouterState) -> Value {
    let time = |unix_s: u64| match unix_s {
        0 => Value::Null,
        unix_s => json!(date::of_unix_s(unix_s)),
    };
    let last_advertisement_source = match router.last_advertisement_source.as_slice() {
        [] => Value::Null,
        address => json!(ip_text(address)),
    };
    object([
        ("vrid", json!(router.vrid)),
        ("state", json!(format!("ietf-vrrp:{}", router.state))),
        ("is-owner", json!(router.owner)),
        ("last-adv-source", last_advertisement_source),
        ("up-datetime", time(router.up_unix_s)),
        ("master-down-interval", json!(router.down_cs)),
        ("skew-time", json!(router.skew_us)),
        ("last-event", json!(format!("ietf-vrrp:{}", router.event))),
        ("new-master-reason", text(&router.reason)),
        (
            "statistics",
            with_counters(
                object([("discontinuity-datetime", time(router.created_unix_s))]),
                VIRTUAL_ROUTERS,
                router,
            ),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operational_state::OperationalState;
    use crate::state::{StateRequest, render, tree};

    #[test]
    fn the_state_is_valid_by_the_standard_module() {
        let router = |ip6: bool, state: &str| v1::VirtualRouterState {
            vrid: 51,
            ip6,
            state: state.into(),
            last_advertisement_source: if ip6 { vec![0xfe; 16] } else { Vec::new() },
            up_unix_s: 951_782_400,
            created_unix_s: 951_782_400,
            event: "vrrp-event-master-timeout".into(),
            reason: "no-response".into(),
            transitions: 2,
            received: 1 << 40,
            ..v1::VirtualRouterState::default()
        };
        let advertising = v1::AdvertisingState { sent: 7, inconsistent: 1, ..Default::default() };
        let interface = v1::InterfaceState {
            name: "lan".into(),
            virtual_routers: vec![router(false, "master"), router(true, "backup")],
            advertising: Some(advertising),
            discovery: Some(advertising),
            ..v1::InterfaceState::default()
        };
        let dropped =
            v1::DropState { reason: "vrrp-unknown".into(), packets: 3, ..Default::default() };
        let operational = OperationalState {
            interfaces: vec![interface],
            drops: vec![dropped],
            ..OperationalState::default()
        };
        for path in ["/", "/ietf-vrrp:vrrp", "/ietf-interfaces:interfaces/interface[name='lan']"] {
            tree(&operational, &StateRequest::at(path)).unwrap();
        }
        let all = render(&operational, &StateRequest::at("/ietf-vrrp:vrrp"));
        let sum = &all["ietf-vrrp:vrrp"];
        assert_eq!((&sum["virtual-routers"], &sum["interfaces"]), (&json!(2), &json!(1)));
        assert_eq!(sum["statistics"]["vrid-errors"], "3");
        let lan = &all["ietf-interfaces:interfaces"]["interface"][0];
        let six = &lan["ietf-ip:ipv6"]["ietf-vrrp:vrrp"]["vrrp-instance"][0];
        assert_eq!(six["state"], "ietf-vrrp:backup");
        assert_eq!(six["statistics"]["advertisement-rcvd"], (1_u64 << 40).to_string());
    }
}
