//! Where requests leave, and from which address: as the router's own packets do, by the route to the destination.

use std::net::IpAddr;

use ipnet::IpNet;
use stoa_api::v1;
use stoa_api::v1::route::Action;
use stoa_api::{text, v1::RouteState};
use tonic::Status;

/// What the operator asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query<'a> {
    pub(super) destination: IpAddr,
    /// "": the default one.
    pub(super) vrf: &'a str,
    /// The source, if one was named.
    pub(super) source: Option<IpAddr>,
    /// The interface of the source; "": not named.
    pub(super) interface: &'a str,
}

/// Where requests leave.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) source: IpAddr,
    /// Has the source; its VRF routes the requests.
    pub(super) interface: String,
    /// That of the outgoing interface for packets of the destination's family, by name; `None`: the destination is the
    /// router.
    pub(super) mtu: Option<(String, u32)>,
}

/// The VRF of a request: "default" is the default one, and a packet uses the routes of one.
pub(crate) fn one_vrf(name: String) -> Result<String, Status> {
    match name.as_str() {
        "default" => Ok(String::new()),
        "all" => Err(Status::invalid_argument("a packet uses the routes of one VRF: name it")),
        _ => Ok(name),
    }
}

/// Whether the route to an address decides about its source.
pub(super) fn needs_route(destination: IpAddr) -> bool {
    !is_link_local(destination)
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// The interface with a name.
///
/// # Errors
/// `NotFound`: there is none.
pub(super) fn named<'a>(
    interfaces: &'a [v1::InterfaceState],
    name: &str,
) -> Result<&'a v1::InterfaceState, Status> {
    let found = interfaces.iter().find(|interface| interface.name == name);
    found.ok_or_else(|| {
        Status::not_found(format!("there is no interface {name:?}: see `stoa show interfaces`"))
    })
}

/// Chooses source and interface; `route` is the best one to the destination, if [`needs_route`] says so.
///
/// # Errors
/// There is no route or no address of the router for it, or what was named does not exist.
pub(super) fn choose(
    query: &Query<'_>,
    interfaces: &[v1::InterfaceState],
    route: Option<&RouteState>,
) -> Result<Origin, Status> {
    let leaves = outgoing(query, interfaces, route)?;
    let of_family = |interface: &v1::InterfaceState| match query.destination {
        IpAddr::V4(_) => interface.ip4_mtu,
        IpAddr::V6(_) => interface.ip6_mtu,
    };
    let mtu = leaves.as_ref().map(|(it, _)| (it.name.clone(), of_family(it)));
    let (source, interface) = match (query.source, query.interface) {
        (Some(source), _) => (source, owner(query, interfaces, source)?),
        (None, "") => match &leaves {
            None => (query.destination, owner(query, interfaces, query.destination)?),
            Some((interface, gateway)) => by_route(query, interfaces, interface, *gateway)?,
        },
        (None, name) => {
            let interface = named(interfaces, name)?;
            let source = best(interface, query.destination, query.destination);
            (source.ok_or_else(|| no_address(query.destination, name))?, interface)
        }
    };
    Ok(Origin { source, interface: interface.name.clone(), mtu })
}

/// The outgoing interface and the next hop; `None`: the destination is an address of the router.
fn outgoing<'a>(
    query: &Query<'_>,
    interfaces: &'a [v1::InterfaceState],
    route: Option<&RouteState>,
) -> Result<Option<(&'a v1::InterfaceState, IpAddr)>, Status> {
    let destination = query.destination;
    if is_link_local(destination) {
        if query.interface.is_empty() {
            return Err(Status::invalid_argument(format!(
                "{destination} is a link-local address: name its interface, such as `interface eth0`"
            )));
        }
        return Ok(Some((named(interfaces, query.interface)?, destination)));
    }
    let vrf = if query.vrf.is_empty() { "the default VRF" } else { query.vrf };
    let none = |what: &str| {
        Status::failed_precondition(format!(
            "{what} to {destination} in {vrf}: see `stoa show routes`"
        ))
    };
    let route = route.and_then(|state| state.route.as_ref());
    match route.and_then(|route| route.action.as_ref()) {
        Some(Action::Special(special)) => match v1::Special::try_from(*special) {
            Ok(v1::Special::Local) => Ok(None),
            _ => Err(none("the route discards packets")),
        },
        Some(Action::Paths(paths)) => {
            let path = paths.paths.first().ok_or_else(|| none("the route has no usable path"))?;
            let gateway = text::ip(&path.next_hop).unwrap_or(destination);
            Ok(Some((named(interfaces, &path.interface)?, gateway)))
        }
        None => Err(none("there is no route")),
    }
}

/// The address of the outgoing interface, or of another one of the VRF if it has none.
fn by_route<'a>(
    query: &Query<'_>,
    interfaces: &'a [v1::InterfaceState],
    outgoing: &'a v1::InterfaceState,
    gateway: IpAddr,
) -> Result<(IpAddr, &'a v1::InterfaceState), Status> {
    let of_vrf = interfaces.iter().filter(|interface| interface.vrf == query.vrf);
    // A leaked route leaves by an interface of another VRF, from whose addresses no answer comes back.
    let first = Some(outgoing).filter(|interface| interface.vrf == query.vrf);
    let found = first.into_iter().chain(of_vrf).find_map(|interface| {
        best(interface, query.destination, gateway).map(|source| (source, interface))
    });
    found.ok_or_else(|| no_address(query.destination, &outgoing.name))
}

/// The interface of the VRF that has the address.
fn owner<'a>(
    query: &Query<'_>,
    interfaces: &'a [v1::InterfaceState],
    source: IpAddr,
) -> Result<&'a v1::InterfaceState, Status> {
    let has = |interface: &&v1::InterfaceState| {
        interface.vrf == query.vrf
            && (query.interface.is_empty() || interface.name == query.interface)
            && interface.addresses.iter().any(|it| text::ip(&it.address) == Some(source))
    };
    interfaces.iter().find(has).ok_or_else(|| {
        let place = match (query.interface, query.vrf) {
            ("", "") => "the default VRF".to_owned(),
            ("", vrf) => format!("VRF {vrf}"),
            (interface, _) => format!("interface {interface}"),
        };
        Status::invalid_argument(format!(
            "{source} is no address of the router in {place}: see `stoa show interfaces`"
        ))
    })
}

fn no_address(destination: IpAddr, interface: &str) -> Status {
    let family = if destination.is_ipv4() { "IPv4" } else { "IPv6" };
    Status::failed_precondition(format!(
        "{interface} has no {family} address to send from: name one with `source`"
    ))
}

/// The usable address of an interface for a destination: of its scope, with the subnet of the next hop if possible.
fn best(interface: &v1::InterfaceState, destination: IpAddr, gateway: IpAddr) -> Option<IpAddr> {
    let usable =
        interface.addresses.iter().filter(|it| !matches!(&*it.state, "tentative" | "duplicate"));
    let candidates = usable.filter_map(|it| {
        let ip = text::ip(&it.address)?;
        let is_same = ip.is_ipv4() == destination.is_ipv4();
        let is_right = is_same && (!is_link_local(ip) || is_link_local(destination));
        is_right.then(|| IpNet::new(ip, it.prefix_length as u8).ok()).flatten()
    });
    let mut candidates: Vec<IpNet> = candidates.collect();
    // Global addresses reach a link-local destination, too; the interface may not list its own link-local one.
    candidates.sort_by_key(|net| is_link_local(net.addr()) != is_link_local(destination));
    let near = candidates.iter().find(|net| net.contains(&gateway));
    near.or(candidates.first()).map(IpNet::addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, vrf: &str, addresses: &[&str]) -> v1::InterfaceState {
        let address = |net: &&str| {
            let net: IpNet = net.parse().unwrap();
            let address = text::ip_bytes(net.addr());
            v1::Address {
                address,
                prefix_length: net.prefix_len().into(),
                state: "preferred".into(),
            }
        };
        v1::InterfaceState {
            name: name.into(),
            vrf: vrf.into(),
            mtu: 1500,
            ip4_mtu: 1400,
            ip6_mtu: 1500,
            addresses: addresses.iter().map(address).collect(),
            ..Default::default()
        }
    }

    fn interfaces() -> Vec<v1::InterfaceState> {
        vec![
            interface("lan", "", &["10.0.0.1/24", "10.0.1.1/24", "2001:db8::1/64", "fe80::1/64"]),
            interface("bare", "", &[]),
            interface("red0", "red", &["10.0.0.1/24"]),
        ]
    }

    fn route(action: Action) -> RouteState {
        let route = v1::Route { action: Some(action), ..Default::default() };
        RouteState { route: Some(route), ..Default::default() }
    }

    fn path(interface: &str, next_hop: &str) -> RouteState {
        let next_hop = next_hop.parse().map(text::ip_bytes).unwrap_or_default();
        let path = v1::Path { interface: interface.into(), next_hop, weight: 0 };
        route(Action::Paths(v1::Paths { paths: vec![path] }))
    }

    fn query(destination: &str) -> Query<'static> {
        Query { destination: destination.parse().unwrap(), vrf: "", source: None, interface: "" }
    }

    fn chosen(query: &Query<'_>, route: Option<RouteState>) -> Result<(String, String), String> {
        let origin = choose(query, &interfaces(), route.as_ref());
        origin
            .map(|it| (it.source.to_string(), it.interface))
            .map_err(|status| status.message().to_owned())
    }

    fn is(source: &str, interface: &str) -> Result<(String, String), String> {
        Ok((source.to_owned(), interface.to_owned()))
    }

    #[test]
    fn the_source_is_that_of_the_route() {
        let far = query("198.51.100.7");
        assert_eq!(chosen(&far, Some(path("lan", "10.0.1.9"))), is("10.0.1.1", "lan"));
        assert_eq!(chosen(&far, Some(path("lan", "192.0.2.9"))), is("10.0.0.1", "lan"));
        assert_eq!(chosen(&far, Some(path("bare", ""))), is("10.0.0.1", "lan"), "unnumbered");
        let local = Some(route(Action::Special(v1::Special::Local.into())));
        assert_eq!(chosen(&query("10.0.1.1"), local), is("10.0.1.1", "lan"));
        assert_eq!(
            chosen(&query("2001:db8:9::7"), Some(path("lan", "fe80::9"))),
            is("2001:db8::1", "lan")
        );
        let red = Query { vrf: "red", ..far };
        assert_eq!(chosen(&red, Some(path("lan", ""))), is("10.0.0.1", "red0"), "a leaked route");
    }

    #[test]
    fn the_mtu_is_that_of_the_family() {
        for (destination, next_hop, mtu) in
            [("198.51.100.7", "10.0.1.9", 1400), ("2001:db8:9::7", "fe80::9", 1500)]
        {
            let route = path("lan", next_hop);
            let origin = choose(&query(destination), &interfaces(), Some(&route)).unwrap();
            assert_eq!(origin.mtu, Some(("lan".to_owned(), mtu)));
        }
        let local = route(Action::Special(v1::Special::Local.into()));
        let origin = choose(&query("10.0.1.1"), &interfaces(), Some(&local)).unwrap();
        assert_eq!(origin.mtu, None);
    }

    #[test]
    fn what_is_named_holds_or_is_refused() {
        let far = query("198.51.100.7");
        let path = || Some(path("lan", ""));
        let source = |ip: &str| Query { source: ip.parse().ok(), ..far };
        assert_eq!(chosen(&source("10.0.1.1"), path()), is("10.0.1.1", "lan"));
        let refusal = chosen(&source("10.9.9.9"), path()).unwrap_err();
        assert!(refusal.contains("10.9.9.9 is no address of the router in the default VRF"));
        assert_eq!(chosen(&Query { interface: "lan", ..far }, path()), is("10.0.0.1", "lan"));
        let refusal = chosen(&Query { interface: "bare", ..far }, path()).unwrap_err();
        assert!(refusal.contains("bare has no IPv4 address"), "{refusal}");
        let refusal = chosen(&Query { interface: "x", ..far }, path()).unwrap_err();
        assert!(refusal.contains("there is no interface \"x\""), "{refusal}");
        let near = query("fe80::9");
        assert!(chosen(&near, None).unwrap_err().contains("name its interface"));
        assert_eq!(chosen(&Query { interface: "lan", ..near }, None), is("fe80::1", "lan"));
        let global = vec![interface("wan", "", &["2001:db8:7::1/64"])];
        let origin = choose(&Query { interface: "wan", ..near }, &global, None).unwrap();
        assert_eq!(origin.source.to_string(), "2001:db8:7::1", "its link-local one is not listed");
    }

    #[test]
    fn without_a_way_the_reason_is_told() {
        let far = query("198.51.100.7");
        assert!(chosen(&far, None).unwrap_err().contains("there is no route to 198.51.100.7"));
        let blackhole = route(Action::Special(v1::Special::Blackhole.into()));
        assert!(chosen(&far, Some(blackhole)).unwrap_err().contains("the route discards packets"));
    }
}
