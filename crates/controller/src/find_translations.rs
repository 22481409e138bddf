//! Searches what address translation has in use: external addresses, static mappings, dynamic ones with their leases,
//! and subscribers with their port sets, as `stoa show nat` and `stoa show nat mappings` list them.

mod subscribers;

use std::cmp::Reverse;

use ipnet::IpNet;
use serde_json::{Value, json};
use stoa_api::text::{ip, ip_text};
use stoa_api::v1;
use tonic::Status;

use self::subscribers::{Subscriber, subscribers};
use crate::apply::ForwarderConnection;
use crate::find_flows::{shown_vrf, vrf_of};
use crate::json::{list, number, object};
use crate::nat_mapping_list::oldest;
use crate::prefix::{prefix_from_proto, prefix_to_proto};

/// Port sets that are read for a search at most. Of more, only a search with a prefix returns subscribers.
const PORT_SETS: u64 = 65_536;

/// A search: all given conditions must hold.
#[derive(Clone, Debug)]
pub struct Search {
    /// An address of it is the internal or external one.
    pub prefix: Option<IpNet>,
    /// The VRF of the external address: `default` or a name.
    pub vrf: Option<String>,
    /// Only mappings that hosts hold by PCP or NAT-PMP.
    pub is_leased: bool,
    /// Rows of each list, at most; 1 to 1,000.
    pub limit: usize,
}

/// Searches; returns the output of `stoa-nat:find-translations` in RFC 7951 encoding.
///
/// # Errors
/// Those of the forwarder.
pub async fn find(connection: &ForwarderConnection, search: &Search) -> Result<Value, Status> {
    if !connection.translates() {
        return Ok(json!({}));
    }
    let listed = connection.nat_client().list_nat(v1::ListNatRequest {}).await?.into_inner();
    let filter = v1::NatMappingFilter {
        prefix: search.prefix.as_ref().map(|it| prefix_to_proto(&it.trunc())),
        vrf: search.vrf.as_deref().map(vrf_of),
        leased: search.is_leased,
        ..v1::NatMappingFilter::default()
    };
    let blocks = v1::NatBlockFilter { prefix: filter.prefix.clone(), vrf: filter.vrf.clone() };
    let mappings = oldest(connection, filter, search.limit).await?;
    let in_use: u64 = listed.policies.iter().map(|it| it.used_blocks + it.unused_blocks).sum();
    let subscribers = match in_use {
        0 => Some(Vec::new()),
        1..=PORT_SETS => Some(subscribers(connection, blocks, &listed).await?),
        _ if search.prefix.is_some() => Some(subscribers(connection, blocks, &listed).await?),
        _ => None,
    };
    Ok(shown(&listed, &mappings, subscribers.as_deref(), search))
}

fn shown(
    listed: &v1::ListNatReply,
    mappings: &v1::ShowNatMappingsReply,
    subscribers: Option<&[Subscriber]>,
    search: &Search,
) -> Value {
    let mut addresses: Vec<&v1::NatAddressState> =
        listed.addresses.iter().filter(|it| is_meant(it, search)).collect();
    addresses.sort_by_key(|it| (Reverse(it.flows.max(it.dynamic_mappings)), &it.vrf, &it.address));
    let in_use = addresses.iter().filter(|it| it.flows > 0 || it.dynamic_mappings > 0).count();
    let address = |it: &&v1::NatAddressState| {
        json!({
            "vrf": shown_vrf(&it.vrf), "address": ip_text(&it.address),
            "active-flows": number(it.flows), "active-mappings": number(it.dynamic_mappings),
        })
    };
    let mut statics: Vec<&v1::NatStaticState> =
        listed.mappings.iter().filter(|it| is_meant_static(it, search)).collect();
    statics.sort_by_key(|it| Reverse(it.flows));
    let limit = search.limit;
    let leases = listed.port_control.as_ref();
    let number_of = |value: Option<u64>| value.map_or(Value::Null, number);
    object([
        ("active-flows", number(listed.flows)),
        ("flow-limit", number(listed.flow_limit)),
        ("active-mappings", number(listed.dynamic_mappings)),
        ("mapping-limit", number(listed.mapping_limit)),
        ("active-leases", number_of(leases.map(|it| it.leases))),
        ("lease-limit", number_of(leases.map(|it| it.lease_limit))),
        ("used-addresses", number(in_use as u64)),
        ("external-address", list(addresses.iter().take(limit).map(address))),
        ("matching-static-mappings", number(statics.len() as u64)),
        ("static-mapping", list(statics.iter().take(limit).filter_map(|it| static_mapping(it)))),
        ("matching-mappings", number(mappings.matching)),
        ("mapping", list(mappings.mappings.iter().map(mapping))),
        ("matching-subscribers", number_of(subscribers.map(|it| it.len() as u64))),
        ("subscriber", list(subscribers.into_iter().flatten().take(limit).map(Subscriber::shown))),
    ])
}

fn is_meant(it: &v1::NatAddressState, search: &Search) -> bool {
    let is_of = |prefix: &IpNet| ip(&it.address).is_some_and(|address| prefix.contains(&address));
    search.prefix.as_ref().is_none_or(is_of)
        && search.vrf.as_deref().is_none_or(|vrf| vrf_of(vrf) == it.vrf)
}

fn is_meant_static(it: &v1::NatStaticState, search: &Search) -> bool {
    let Some(mapping) = &it.mapping else { return false };
    let meets = |prefix: &IpNet| {
        let is_in = |it: &IpNet| prefix.contains(&it.network()) || it.contains(&prefix.network());
        let ends = [&mapping.external, &mapping.internal].into_iter().flatten();
        let backends = mapping.backends.iter().filter_map(|it| ip(&it.address)).map(IpNet::from);
        ends.filter_map(prefix_from_proto).chain(backends).any(|it| is_in(&it))
    };
    // What hosts hold is dynamic.
    !search.is_leased
        && search.prefix.as_ref().is_none_or(meets)
        && search.vrf.as_deref().is_none_or(|vrf| vrf_of(vrf) == mapping.vrf)
}

/// A port, or the first and the last one.
fn ports(range: Option<&v1::PortRange>) -> Value {
    range.map_or(Value::Null, |it| match it.first == it.last {
        true => json!(it.first.to_string()),
        false => json!(format!("{}-{}", it.first, it.last)),
    })
}

fn static_mapping(state: &v1::NatStaticState) -> Option<Value> {
    let it = state.mapping.as_ref()?;
    let prefix =
        |it: &Option<v1::Prefix>| it.as_ref().map_or(Value::Null, |it| json!(it.to_string()));
    let flows = state.backend_flows.iter().copied().chain(std::iter::repeat(0));
    let backends = it.backends.iter().zip(flows).map(|(backend, flows)| {
        object([
            ("address", json!(ip_text(&backend.address))),
            ("port", json!(backend.first_port)),
            ("weight", json!(backend.weight)),
            ("active-flows", number(flows)),
        ])
    });
    Some(object([
        ("instance", json!(it.instance)),
        ("index", json!(it.index)),
        ("protocol", if it.protocol == 0 { Value::Null } else { json!(it.protocol) }),
        ("external-vrf", shown_vrf(&it.vrf)),
        ("external", prefix(&it.external)),
        ("external-ports", ports(it.external_ports.as_ref())),
        ("internal-vrf", shown_vrf(it.internal_vrf.as_ref().unwrap_or(&it.vrf))),
        ("internal", prefix(&it.internal)),
        ("internal-ports", ports(it.internal_ports.as_ref())),
        ("active-flows", number(state.flows)),
        ("backend", list(backends)),
    ]))
}

fn mapping(it: &v1::NatDynamicMapping) -> Value {
    let peer = |it: &v1::NatRemotePeer| {
        let prefix = it.prefix.as_ref().map(ToString::to_string).unwrap_or_default();
        if it.port == 0 {
            json!({ "prefix": prefix })
        } else {
            json!({ "prefix": prefix, "port": it.port })
        }
    };
    let lease = |it: &v1::NatLease| {
        object([
            ("kind", json!(it.kind)),
            ("remaining", json!(it.left_s)),
            ("peer", list(it.peers.iter().map(peer))),
        ])
    };
    object([
        ("protocol", json!(it.protocol)),
        ("external-vrf", shown_vrf(&it.external_vrf)),
        ("external-address", json!(ip_text(&it.external))),
        ("external-port", json!(it.external_port)),
        ("internal-vrf", shown_vrf(&it.internal_vrf)),
        ("internal-address", json!(ip_text(&it.internal))),
        ("internal-port", json!(it.internal_port)),
        ("instance", json!(it.instance)),
        ("policy", json!(it.policy)),
        ("active-flows", number(it.flows)),
        ("age", json!(it.age_s)),
        ("lease", list(it.leases.iter().map(lease))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed() -> v1::ListNatReply {
        let address = |last, flows| v1::NatAddressState {
            address: vec![203, 0, 113, last],
            flows,
            ..v1::NatAddressState::default()
        };
        v1::ListNatReply {
            addresses: vec![address(1, 4), address(2, 0), address(3, 9)],
            flows: 13,
            ..v1::ListNatReply::default()
        }
    }

    #[test]
    fn static_mappings_have_both_ends_or_backends() {
        let prefix = |last| Some(v1::Prefix { address: vec![10, 0, 0, last], length: 32 });
        let plain = v1::NatMapping {
            instance: 1,
            index: 7,
            protocol: 6,
            external: prefix(1),
            internal: prefix(2),
            external_ports: Some(v1::PortRange { first: 80, last: 81 }),
            internal_ports: Some(v1::PortRange { first: 443, last: 443 }),
            ..v1::NatMapping::default()
        };
        let backends =
            vec![v1::NatBackend { address: vec![10, 0, 0, 9], first_port: 8_080, weight: 3 }];
        let shared = v1::NatMapping { internal: None, backends, ..plain.clone() };
        let state = |mapping, flows, backend_flows| v1::NatStaticState {
            mapping: Some(mapping),
            flows,
            backend_flows,
        };
        let mappings = vec![state(plain, 1, Vec::new()), state(shared, 5, vec![5])];
        let listed = v1::ListNatReply { mappings, ..v1::ListNatReply::default() };
        let search = Search { prefix: None, vrf: None, is_leased: false, limit: 9 };
        let of = |search: &Search| {
            shown(&listed, &v1::ShowNatMappingsReply::default(), None, search)["static-mapping"]
                .clone()
        };
        let all = of(&search);
        assert_eq!(
            (&all[0]["backend"][0]["port"], &all[0]["active-flows"]),
            (&json!(8_080), &json!("5"))
        );
        assert_eq!(
            (&all[1]["internal"], &all[1]["internal-ports"]),
            (&json!("10.0.0.2/32"), &json!("443"))
        );
        assert_eq!(all[1]["external-ports"], "80-81");
        let of_prefix = |text: &str| of(&Search { prefix: text.parse().ok(), ..search.clone() });
        assert_eq!(of_prefix("10.0.0.9/32").as_array().map(Vec::len), Some(1));
        assert_eq!(of_prefix("10.0.0.0/24").as_array().map(Vec::len), Some(2));
        assert_eq!(of_prefix("10.1.0.0/24"), Value::Null);
    }

    #[test]
    fn addresses_in_use_come_first() {
        let search = Search { prefix: None, vrf: None, is_leased: false, limit: 2 };
        let output = |search: &Search| {
            shown(&listed(), &v1::ShowNatMappingsReply::default(), Some(&[]), search)
        };
        let all = output(&search);
        assert_eq!(all["external-address"][0]["address"], "203.0.113.3");
        assert_eq!(all["external-address"].as_array().unwrap().len(), 2);
        assert_eq!((&all["used-addresses"], &all["active-flows"]), (&json!("2"), &json!("13")));
        let one = Search { prefix: "203.0.113.2/32".parse().ok(), ..search.clone() };
        assert_eq!(output(&one)["used-addresses"], "0");
        let red = Search { vrf: Some("red".to_owned()), ..search };
        assert!(output(&red).get("external-address").is_none());
    }
}
