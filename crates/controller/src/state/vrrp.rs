//! Virtual routers: ietf-vrrp (RFC 8347).

use serde_json::{Value, json};
use stoa_api::counters::VIRTUAL_ROUTERS;
use stoa_api::date;
use stoa_api::text::ip_text;
use stoa_api::v1;

use super::request::StateRequest;
use crate::json::{list, number, object, text, with_counters};
use crate::operational_state::{OperationalState, StateSection};

/// `/ietf-vrrp:vrrp`: totals, if there is a virtual router.
pub(super) fn render(operational: &OperationalState, request: &StateRequest) -> Option<Value> {
    // The request of one interface does not select the totals.
    let is_whole = request.is(StateSection::Interfaces) && request.is(StateSection::Drops);
    let of_each = operational.interfaces.iter().map(|state| state.virtual_routers.len());
    let (interfaces, routers) = of_each
        .filter(|routers| *routers > 0)
        .fold((0, 0), |(interfaces, routers), more| (interfaces + 1, routers + more));
    (is_whole && routers > 0).then_some(())?;
    let dropped = |reason: &str| {
        let found = operational.drops.iter().find(|drop| drop.reason == reason);
        number(found.map_or(0, |drop| drop.packets))
    };
    Some(json!({
        "virtual-routers": routers,
        "interfaces": interfaces,
        "statistics": {
            "checksum-errors": dropped("vrrp-checksum"),
            "version-errors": dropped("vrrp-version"),
            "vrid-errors": dropped("vrrp-unknown"),
            "ip-ttl-errors": dropped("vrrp-hop-limit"),
        },
    }))
}

/// The virtual routers of an interface and family; null where there is none.
pub(super) fn instances(routers: &[v1::VirtualRouterState], is_ip4: bool) -> Value {
    let of_family = routers.iter().filter(|router| router.ip6 != is_ip4);
    let instances = list(of_family.map(instance));
    if instances.is_null() { Value::Null } else { json!({ "vrrp-instance": instances }) }
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
            super::super::tree(&operational, &StateRequest::at(path)).unwrap();
        }
        let all = super::super::render(&operational, &StateRequest::at("/ietf-vrrp:vrrp"));
        let sum = &all["ietf-vrrp:vrrp"];
        assert_eq!((&sum["virtual-routers"], &sum["interfaces"]), (&json!(2), &json!(1)));
        assert_eq!(sum["statistics"]["vrid-errors"], "3");
        let lan = &all["ietf-interfaces:interfaces"]["interface"][0];
        let six = &lan["ietf-ip:ipv6"]["ietf-vrrp:vrrp"]["vrrp-instance"][0];
        assert_eq!(six["state"], "ietf-vrrp:backup");
        assert_eq!(six["statistics"]["advertisement-rcvd"], (1_u64 << 40).to_string());
    }
}
