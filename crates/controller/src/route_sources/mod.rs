//! Route sources for routing daemons: as they are configured, checked, and kept open while the configuration says so.
//!
//! `reconciler` opens and shuts them, `state` is how each of them does, `comparison` who waits for an answer of one. What a route source hears is the business of `linux` and of the
//! session with BGP; what becomes of it that of `learned`.

mod comparison;
mod reconciler;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use stoa_api::v1;

use crate::error::ValidationErrors;
use crate::learned::Source;
use crate::linux::netns::identity;
use crate::model::{self, Interface, Routing};

pub use comparison::{ComparisonRequest, ComparisonResult, ComparisonRequests};
pub use reconciler::Reconciler;
pub use state::{RouteSourceStatistics, RouteSourceState, RouteSourceStates};

/// The module of the route sources' types.
const MODULE: &str = "stoa-routing:";
/// Route sources at most: each has a task and buffers of its own.
const ROUTE_SOURCE_LIMIT: usize = 64;

/// A route source as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSourceConfig {
    /// Its name, VRF, preference and patience.
    pub source: Source,
    /// The network namespace of the daemon; "" is our own.
    pub netns: String,
    /// How it is gone through.
    pub kind: Kind,
}

impl RouteSourceConfig {
    /// Whether a route source that was opened as `self` can stay open as `other`: only how its routes count, and for how long, may differ.
    fn may_become(&self, other: &RouteSourceConfig) -> bool {
        let Source { name, vrf, preference: _, stale_time: _ } = &self.source;
        (name, vrf) == (&other.source.name, &other.source.vrf)
            && (&self.netns, &self.kind) == (&other.netns, &other.kind)
    }
}

/// How a route source is gone through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// zebra connects, and pushes netlink messages.
    Fpm {
        /// Where we listen.
        address: IpAddr,
        /// TCP port.
        port: u16,
    },
    /// Routes of the kernel.
    Netlink {
        /// Number of its table, as `ip rule` knows it.
        table: u32,
        /// Bytes of news that may wait for us.
        receive_buffer: u32,
    },
    /// An internal BGP session.
    Bgp {
        /// Where we listen.
        address: IpAddr,
        /// TCP port.
        port: u16,
        /// The autonomous system of both ends.
        asn: u32,
        /// Our BGP identifier.
        router_id: Ipv4Addr,
        /// Whether all paths are asked for (RFC 7911).
        add_paths: bool,
        /// Next hops that share the packets of a prefix at most.
        multipath: u8,
    },
}

impl Kind {
    /// As the configuration calls it.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Fpm { .. } => "stoa-routing:fpm",
            Kind::Netlink { .. } => "stoa-routing:netlink",
            Kind::Bgp { .. } => "stoa-routing:bgp",
        }
    }

    /// The same without the name of the module.
    pub fn short_name(&self) -> &'static str {
        self.name().trim_start_matches(MODULE)
    }

    /// Where it listens, if it does.
    fn listen_address(&self) -> Option<(IpAddr, u16)> {
        match self {
            Kind::Fpm { address, port } | Kind::Bgp { address, port, .. } => {
                Some((*address, *port))
            }
            Kind::Netlink { .. } => None,
        }
    }
}

/// What route sources and host interfaces lack on this machine now. It may come before the router begins, which tries again and again; a router
/// that runs refuses host interfaces without their namespace. For who checks a configuration.
pub fn missing_namespaces(route_sources: &[RouteSourceConfig], desired: &v1::Desired) -> Vec<String> {
    let of_route_source = |route_source: &RouteSourceConfig| {
        (route_source.netns.clone(), format!("route source {}", route_source.source.name))
    };
    let of_host_interface = |interface: &v1::Interface| {
        let netns = interface.host_interface.as_ref()?.netns.clone();
        Some((netns, format!("host interface of {}", interface.name)))
    };
    let all = route_sources
        .iter()
        .map(of_route_source)
        .chain(desired.interfaces.iter().filter_map(of_host_interface));
    let mut by_netns: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (netns, who) in all.filter(|(netns, _)| identity(netns).is_none()) {
        by_netns.entry(netns).or_default().push(who);
    }
    let message = |(netns, who): (String, Vec<String>)| {
        let need = if who.len() == 1 { "needs" } else { "need" };
        let who = who.join(", ");
        format!("no network namespace \"{netns}\" here, which {who} {need}: ip netns add {netns}")
    };
    by_netns.into_iter().map(message).collect()
}

/// Whether a protocol of this type is a route source.
pub(crate) fn is_route_source(kind: &str) -> bool {
    matches!(kind.strip_prefix(MODULE), Some("fpm" | "netlink" | "bgp"))
}

/// The route sources that are configured, by name.
pub(crate) fn desired(
    routing: &Routing,
    interfaces: &[Interface],
    errors: &mut ValidationErrors,
) -> Vec<RouteSourceConfig> {
    let host_interfaces: BTreeSet<&str> = interfaces
        .iter()
        .filter_map(|it| Some(it.host_interface.as_ref()?.netns.as_str()))
        .collect();
    let mut route_sources: BTreeMap<&str, RouteSourceConfig> = BTreeMap::new();
    for protocol in &routing.control_plane_protocols.control_plane_protocol {
        if !is_route_source(&protocol.kind) {
            continue;
        }
        let path = format!(
            "/ietf-routing:routing/control-plane-protocols\
             /control-plane-protocol[type='{}'][name='{}']",
            protocol.kind, protocol.name
        );
        let Some(route_source) = parse(protocol, &path, errors) else { continue };
        check(&route_source, &path, &host_interfaces, errors);
        route_sources.values().for_each(|other| check_conflicts(&route_source, other, &path, errors));
        if route_sources.len() == ROUTE_SOURCE_LIMIT {
            errors.add(
                &path,
                format!("there are more than {ROUTE_SOURCE_LIMIT} route sources"),
                "Remove some: one daemon needs one route source.",
            );
            break;
        }
        if route_sources.insert(&protocol.name, route_source).is_some() {
            errors.add(
                format!("{path}/name"),
                format!("another route source is named \"{}\" already", protocol.name),
                "Give each route source a name of its own: its routes are told by it.",
            );
        }
    }
    route_sources.into_values().collect()
}

fn parse(
    protocol: &model::Protocol,
    path: &str,
    errors: &mut ValidationErrors,
) -> Option<RouteSourceConfig> {
    let config = protocol.route_source.as_ref()?;
    let kind = match protocol.kind.strip_prefix(MODULE)? {
        "fpm" => Kind::Fpm { address: config.fpm_address?, port: config.fpm_port? },
        "netlink" => {
            Kind::Netlink { table: config.kernel_table?, receive_buffer: config.receive_buffer? }
        }
        _ => {
            let Some(asn) = config.asn.filter(|asn| *asn != 0) else {
                errors.add(
                    format!("{path}/stoa-routing:route-source/as"),
                    "the autonomous system is missing",
                    "Give as: the number that the daemon has itself, for the session is internal.",
                );
                return None;
            };
            Kind::Bgp {
                address: config.bgp_address?,
                port: config.bgp_port?,
                asn,
                router_id: config.router_id?,
                add_paths: config.add_paths,
                multipath: config.multipath?,
            }
        }
    };
    let source = Source {
        name: protocol.name.clone(),
        vrf: protocol.vrf.as_str().into(),
        preference: config.preference,
        stale_time: Duration::from_secs(config.stale_time.into()),
    };
    Some(RouteSourceConfig { source, netns: config.netns.clone(), kind })
}

/// What is wrong with one route source.
fn check(
    route_source: &RouteSourceConfig,
    path: &str,
    host_interfaces: &BTreeSet<&str>,
    errors: &mut ValidationErrors,
) {
    let path = format!("{path}/stoa-routing:route-source");
    // A session hands over gateways. The other route sources hand over devices, which are host interfaces or nothing.
    if !matches!(route_source.kind, Kind::Bgp { .. })
        && !host_interfaces.contains(route_source.netns.as_str())
    {
        let here = match route_source.netns.as_str() {
            "" => "the network namespace in which Stoa runs".to_owned(),
            name => format!("network namespace \"{name}\""),
        };
        errors.add(
            format!("{path}/netns"),
            format!(
                "no interface has a host interface in {here}: no route of the daemon can lead anywhere"
            ),
            "Give interfaces stoa-host-interface:host-interface with that netns, or name the one where they are.",
        );
    }
    let leaf = |what: &str| match route_source.kind {
        Kind::Fpm { .. } => format!("{path}/fpm-{what}"),
        _ => format!("{path}/bgp-{what}"),
    };
    if let Some((address, port)) = route_source.kind.listen_address() {
        if address.is_multicast() {
            errors.add(
                leaf("address"),
                format!("{address} is a multicast address"),
                "Give an address of the namespace to listen at, for example 127.0.0.1.",
            );
        }
        if port == 0 {
            errors.add(leaf("port"), "0 is no port", "Give the port that the daemon calls.");
        }
    }
    if let Kind::Bgp { router_id, .. } = route_source.kind
        && router_id.is_unspecified()
    {
        errors.add(
            format!("{path}/router-id"),
            "0.0.0.0 is no BGP identifier (RFC 6286)",
            "Give one that is not the daemon's own, for example 127.0.0.1.",
        );
    }
}

/// What two route sources cannot share.
fn check_conflicts(
    route_source: &RouteSourceConfig,
    other: &RouteSourceConfig,
    path: &str,
    errors: &mut ValidationErrors,
) {
    if route_source.netns != other.netns {
        return;
    }
    let name = &other.source.name;
    if let (Some((mine, port)), Some((theirs, taken))) =
        (route_source.kind.listen_address(), other.kind.listen_address())
        && port == taken
        && (mine == theirs || mine.is_unspecified() || theirs.is_unspecified())
    {
        errors.add(
            format!("{path}/stoa-routing:route-source"),
            format!("route source \"{name}\" listens at {theirs} port {taken} already"),
            "Give each route source an address or port of its own.",
        );
    }
    if let (Kind::Netlink { table, .. }, Kind::Netlink { table: taken, .. }) =
        (&route_source.kind, &other.kind)
        && table == taken
    {
        errors.add(
            format!("{path}/stoa-routing:route-source/kernel-table"),
            format!("route source \"{name}\" takes over table {table} of that namespace already"),
            "Keep one of them, or name another table or namespace.",
        );
    }
}
