//! Router advertisements to hosts: IPv6 (RFC 4861 6.2) and IPv4 router discovery (RFC 1256).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv6Net};
use serde_json::{Value, json};
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use crate::capability::{Capability, Settings, Translated, interface_path};
use crate::config::model::{AdvertisedNat64, Advertisements, Family, Interface};
use crate::json::{number, object};
use crate::prefix::{prefix_from_proto, prefix_to_proto};

/// Maximum lifetime of a default router, seconds (RFC 8319 section 4).
const LIFETIME_MAX_S: u32 = 65_535;
/// Default hop limit for hosts: IANA's default.
const HOP_LIMIT: u32 = 64;
/// Minimum IPv6 MTU (RFC 8200 section 5).
const LEAST_MTU: u32 = 1280;
/// Default lifetimes of a prefix, seconds: valid and preferred (RFC 4861 section 6.2.1).
const LIFETIMES_S: (u32, u32) = (2_592_000, 604_800);

/// Longest lifetime of a NAT64 prefix, seconds: 13 bits of units of 8 (RFC 8781 section 4).
const NAT64_LIFETIME_MAX_S: u32 = 65_528;
/// Lengths of a NAT64 prefix (RFC 6052 section 2.2).
const NAT64_LENGTHS: [u8; 6] = [96, 64, 56, 48, 40, 32];

/// The capability.
pub(crate) struct RouterAdvertisements;

impl Capability for RouterAdvertisements {
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        translated: &mut Translated,
        errors: &mut ValidationErrors,
    ) {
        let is_given = |interface: &&Interface| {
            let has_any =
                |family: &Family| family.advertisements.is_some() || family.discovery.is_some();
            interface.families().any(|(family, ..)| has_any(family))
        };
        let advertising = settings.model.interfaces.interface.iter().filter(is_given);
        for (given, desired) in translated.interfaces_of(advertising) {
            let place = interface_path(&given.name);
            check(given, &place, errors);
            if let (Some(family), Some(desired)) = (&given.ip4, &mut desired.ip4) {
                desired.discovery = discovery(&format!("{place}/ietf-ip:ipv4"), family, errors);
            }
            if let (Some(family), Some(desired)) = (&given.ip6, &mut desired.ip6) {
                desired.advertising =
                    advertisement(&format!("{place}/ietf-ip:ipv6"), family, errors);
            }
        }
    }

    fn family_state(
        &self,
        state: &v1::InterfaceState,
        is_ip4: bool,
    ) -> Option<(&'static str, Value)> {
        if is_ip4 {
            let members = advertising_state(state.discovery.as_ref()?);
            return Some(("stoa-ip:router-discovery", json!({ "advertising-state": members })));
        }
        let state = state.advertising.as_ref()?;
        let mut members = advertising_state(state);
        members["inconsistent"] = number(state.inconsistent);
        let name = "ietf-ipv6-unicast-routing:ipv6-router-advertisements";
        Some((name, json!({ "stoa-ip:advertising-state": members })))
    }
}

fn advertising_state(state: &v1::AdvertisingState) -> Value {
    object([
        ("sent", number(state.sent)),
        ("solicitations", number(state.solicitations)),
        ("next", number(state.next_ms)),
    ])
}

/// Tunnels have no router advertisements: there are no hosts.
fn check(interface: &Interface, place: &str, errors: &mut ValidationErrors) {
    if !interface.is_tunnel() {
        return;
    }
    let six = interface.ip6.as_ref().and_then(|family| family.advertisements.as_ref());
    let four = interface.ip4.as_ref().is_some_and(|family| family.discovery.is_some());
    if four || six.is_some_and(|given| given.send_advertisements) {
        errors.add(
            place,
            "router advertisements are not possible on a tunnel",
            "Remove them, or configure them on the interface with the hosts.",
        );
    }
}

/// IPv6 router advertisements of a family at `place`; `None`: disabled.
fn advertisement(
    place: &str,
    family: &Family,
    errors: &mut ValidationErrors,
) -> Option<v1::RouterAdvertising> {
    let given = family.advertisements.as_ref().filter(|given| given.send_advertisements)?;
    let place = format!("{place}/ietf-ipv6-unicast-routing:ipv6-router-advertisements");
    let most = given.of.max_interval_s;
    let usual_s = most.saturating_mul(3).min(LIFETIME_MAX_S);
    let lifetime_s = given.default_lifetime.unwrap_or(usual_s);
    if lifetime_s != 0 && lifetime_s < most {
        errors.add(
            format!("{place}/default-lifetime"),
            format!(
                "the lifetime of {lifetime_s} s is shorter than the interval of advertisements, {most} s"
            ),
            format!("Set 0, or at least {most} (max-rtr-adv-interval)."),
        );
    }
    if lifetime_s != 0 && !family.forwarding {
        errors.add(
            format!("{place}/send-advertisements"),
            "hosts would use this router as default router, but forwarding is disabled",
            "Set forwarding to true, or default-lifetime to 0.",
        );
    }
    let mtu = given.of.mtu;
    if (1..LEAST_MTU).contains(&mtu) {
        errors.add(
            format!("{place}/link-mtu"),
            format!("the MTU {mtu} is below the IPv6 minimum of 1280"),
            "Set 0, or at least 1280.",
        );
    }
    // RFC 4861 6.2.1.
    let least = if most >= 9 { most * 33 / 100 } else { most * 3 / 4 };
    let servers = given.dns.server.iter().filter_map(|it| it.parse::<Ipv6Addr>().ok());
    Some(v1::RouterAdvertising {
        min_interval_s: given.min_rtr_adv_interval.unwrap_or(least),
        hop_limit: given.cur_hop_limit.unwrap_or(HOP_LIMIT),
        lifetime_s,
        prefixes: prefixes(given, family).collect(),
        name_servers: servers.map(|server| server.octets().to_vec()).collect(),
        name_servers_s: given.dns.server_lifetime.unwrap_or(usual_s),
        search: given.dns.search.clone(),
        search_s: given.dns.search_lifetime.unwrap_or(usual_s),
        nat64_prefixes: nat64_prefixes(given, &place, errors),
        ..given.of.clone()
    })
}

/// The prefixes by which hosts reach IPv4. RFC 8781 section 4.1 gives the usual lifetime, and rounds others up.
fn nat64_prefixes(
    given: &Advertisements,
    place: &str,
    errors: &mut ValidationErrors,
) -> Vec<v1::AdvertisedNat64> {
    let usual_s = given.of.max_interval_s.saturating_mul(3);
    let mut of = |it: &AdvertisedNat64| {
        let net = it.prefix.parse::<Ipv6Net>().ok()?.trunc();
        let path = format!("{place}/stoa-ip:nat64-prefix[prefix='{}']", it.prefix);
        if !NAT64_LENGTHS.contains(&net.prefix_len()) {
            errors.add(
                format!("{path}/prefix"),
                format!("{net} has {} bits, which no NAT64 prefix has", net.prefix_len()),
                "Use a prefix of 96, 64, 56, 48, 40 or 32 bits, for example 64:ff9b::/96.",
            );
            return None;
        }
        if net.network().octets()[8] != 0 {
            errors.add(
                format!("{path}/prefix"),
                format!("the bits 64 to 71 of {net} are not 0"),
                "Use a prefix with zeros there (RFC 6052 section 2.2).",
            );
            return None;
        }
        let prefix = Some(prefix_to_proto(&IpNet::V6(net)));
        let asked_s = it.lifetime.unwrap_or(usual_s).min(NAT64_LIFETIME_MAX_S);
        Some(v1::AdvertisedNat64 { prefix, lifetime_s: asked_s.next_multiple_of(8) })
    };
    given.nat64_prefix.iter().filter_map(&mut of).collect()
}

/// The prefixes of the interface's addresses and the configured ones, without those not to be advertised.
fn prefixes(
    given: &Advertisements,
    family: &Family,
) -> impl Iterator<Item = v1::AdvertisedPrefix> + use<> {
    let mut advertised: BTreeMap<Ipv6Net, v1::AdvertisedPrefix> = BTreeMap::new();
    for address in &family.address {
        let Ok(IpAddr::V6(ip)) = address.ip.parse() else { continue };
        let Ok(net) = Ipv6Net::new(ip, address.prefix_length) else { continue };
        if !ip.is_unicast_link_local() && net.prefix_len() < 128 {
            let (valid_s, preferred_s) = LIFETIMES_S;
            // Hosts combine 64 bits with 64 bits of their own (RFC 4862 5.5.3, RFC 2464 4).
            let autonomous = net.prefix_len() == 64;
            let net = net.trunc();
            advertised.insert(net, prefix(net, (true, autonomous), (valid_s, preferred_s)));
        }
    }
    for named in &given.prefix_list.prefix {
        let Some(net) = named.of.prefix.as_ref().and_then(prefix_from_proto) else { continue };
        let IpNet::V6(net) = net else { continue };
        if named.no_advertise.is_some() {
            advertised.remove(&net);
            continue;
        }
        advertised.insert(net, named.of.clone());
    }
    advertised.into_values()
}

fn prefix(
    net: Ipv6Net,
    (on_link, autonomous): (bool, bool),
    (valid_s, preferred_s): (u32, u32),
) -> v1::AdvertisedPrefix {
    let address = net.network().octets().to_vec();
    let prefix = Some(v1::Prefix { address, length: net.prefix_len().into() });
    v1::AdvertisedPrefix { prefix, on_link, autonomous, valid_s, preferred_s }
}

/// IPv4 router discovery of a family at `place`; `None`: disabled.
fn discovery(
    place: &str,
    family: &Family,
    errors: &mut ValidationErrors,
) -> Option<v1::RouterDiscovery> {
    let given = family.discovery.as_ref()?;
    if !family.forwarding {
        errors.add(
            format!("{place}/stoa-ip:router-discovery"),
            "hosts would use this router, but forwarding is disabled",
            "Set forwarding to true, or remove router-discovery.",
        );
    }
    Some(v1::RouterDiscovery {
        min_interval_s: given.min_interval.unwrap_or(given.of.max_interval_s * 3 / 4),
        lifetime_s: given.lifetime.unwrap_or(given.of.max_interval_s * 3),
        ..given.of
    })
}
