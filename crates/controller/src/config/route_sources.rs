//! Route sources of routing daemons: configuration and validation.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use stoa_yang::error::ValidationErrors;

use crate::config::model::{self, Interface, Routing};
use crate::config::others::Others;
use crate::config::vrf_name::VrfName;

/// The module of the route sources' protocol types.
const MODULE: &str = "stoa-routing:";
/// Maximum route sources: each has a task and buffers.
const ROUTE_SOURCE_LIMIT: usize = 64;

/// The name of a route source and how its routes are treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name in the configuration.
    pub name: String,
    /// The VRF of its routes.
    pub vrf: VrfName,
    /// Preference of its routes against those of other route sources, lower wins; `None`: the protocol's
    /// default.
    pub preference: Option<u8>,
    /// How long routes are retained after a session ends, and how long a new session may take to announce
    /// them again.
    pub stale_time: Duration,
}

/// The configuration of a route source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSourceConfig {
    /// Its name, VRF, preference and stale time.
    pub source: Source,
    /// The network namespace of the daemon; "" is the controller's own.
    pub netns: String,
    /// Users whose processes may connect, besides root and the controller's own.
    pub peer_users: Vec<String>,
    /// Protocol and transport.
    pub kind: Kind,
}

impl RouteSourceConfig {
    /// Whether an open route source can keep running with a changed configuration: only preference and stale
    /// time may differ.
    pub fn may_become(&self, other: &RouteSourceConfig) -> bool {
        let Source { name, vrf, preference: _, stale_time: _ } = &self.source;
        (name, vrf) == (&other.source.name, &other.source.vrf)
            && (&self.netns, &self.peer_users, &self.kind)
                == (&other.netns, &other.peer_users, &other.kind)
    }
}

/// Protocol and transport of a route source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// FRR's zebra connects and sends netlink messages.
    Fpm {
        /// Address to listen on.
        address: IpAddr,
        /// TCP port.
        port: u16,
    },
    /// Routes of a kernel table.
    Netlink {
        /// Number of the table, as in `ip rule`.
        table: u32,
        /// Receive buffer for notifications, bytes.
        receive_buffer: u32,
    },
    /// An internal BGP session.
    Bgp {
        /// Address to listen on.
        address: IpAddr,
        /// TCP port.
        port: u16,
        /// The autonomous system of both ends.
        asn: u32,
        /// Our BGP identifier.
        router_id: Ipv4Addr,
        /// Whether to request all paths (RFC 7911).
        add_paths: bool,
        /// Maximum next hops of a prefix.
        multipath: u8,
    },
}

impl Kind {
    /// The identity in the configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Fpm { .. } => "stoa-routing:fpm",
            Kind::Netlink { .. } => "stoa-routing:netlink",
            Kind::Bgp { .. } => "stoa-routing:bgp",
        }
    }

    /// The identity without its module.
    pub fn short_name(&self) -> &'static str {
        self.name().trim_start_matches(MODULE)
    }

    /// The address it listens on, if any.
    pub(crate) fn listen_address(&self) -> Option<(IpAddr, u16)> {
        match self {
            Kind::Fpm { address, port } | Kind::Bgp { address, port, .. } => {
                Some((*address, *port))
            }
            Kind::Netlink { .. } => None,
        }
    }
}

/// Whether a protocol of this type is a route source.
pub(crate) fn is_route_source(kind: &str) -> bool {
    matches!(kind.strip_prefix(MODULE), Some("fpm" | "netlink" | "bgp"))
}

/// The configured route sources, by name.
pub(crate) fn desired(
    routing: &Routing,
    interfaces: &[Interface],
    others: &Others<'_>,
    errors: &mut ValidationErrors,
) -> Vec<RouteSourceConfig> {
    let host_interfaces: BTreeSet<&str> = interfaces
        .iter()
        .filter_map(|it| Some(it.host_interface.as_ref()?.netns.as_str()))
        .chain(others.host_namespaces())
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
        route_sources
            .values()
            .for_each(|other| check_conflicts(&route_source, other, &path, errors));
        if route_sources.len() == ROUTE_SOURCE_LIMIT {
            errors.add(
                &path,
                format!("there are more than {ROUTE_SOURCE_LIMIT} route sources"),
                "Remove some: one daemon needs only one.",
            );
            break;
        }
        if route_sources.insert(&protocol.name, route_source).is_some() {
            errors.add_about(
                format!("{path}/name"),
                format!("another route source is named \"{}\" already", protocol.name),
                "Give each route source a unique name: routes are listed with it.",
                &[&protocol.name],
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
                    "Set as to the daemon's AS number: the session is internal.",
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
    let (netns, peer_users) = (config.netns.clone(), config.peer_user.clone());
    Some(RouteSourceConfig { source, netns, peer_users, kind })
}

/// Validates one route source.
fn check(
    route_source: &RouteSourceConfig,
    path: &str,
    host_interfaces: &BTreeSet<&str>,
    errors: &mut ValidationErrors,
) {
    let path = format!("{path}/stoa-routing:route-source");
    // BGP provides gateways; the other route sources provide devices, which must be host interfaces.
    if !matches!(route_source.kind, Kind::Bgp { .. })
        && !host_interfaces.contains(route_source.netns.as_str())
    {
        let here = match route_source.netns.as_str() {
            "" => "the network namespace in which Stoa runs".to_owned(),
            name => format!("network namespace \"{name}\""),
        };
        errors.add_about(
            format!("{path}/netns"),
            format!(
                "no interface has a host interface in {here}: no route of the daemon could be imported"
            ),
            "Add stoa-host-interface:host-interface with that netns to interfaces, or set netns to the namespace that has them.",
            &[&route_source.netns],
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
                "Set an address of the namespace to listen on, for example 127.0.0.1.",
            );
        }
        if port == 0 {
            errors.add(leaf("port"), "0 is not a port", "Give the port that the daemon calls.");
        }
    }
    if let Kind::Bgp { router_id, .. } = route_source.kind
        && router_id.is_unspecified()
    {
        errors.add(
            format!("{path}/router-id"),
            "0.0.0.0 is not a BGP identifier (RFC 6286)",
            "Set another one than the daemon's, for example 127.0.0.1.",
        );
    }
}

/// Conflicts between two route sources.
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
        errors.add_about(
            format!("{path}/stoa-routing:route-source"),
            format!("route source \"{name}\" already listens on {theirs} port {taken}"),
            "Set a different address or port.",
            &[name, &theirs],
        );
    }
    if let (Kind::Netlink { table, .. }, Kind::Netlink { table: taken, .. }) =
        (&route_source.kind, &other.kind)
        && table == taken
    {
        errors.add_about(
            format!("{path}/stoa-routing:route-source/kernel-table"),
            format!("route source \"{name}\" already imports table {table} of that namespace"),
            "Remove one of them, or set another table or namespace.",
            &[name],
        );
    }
}
