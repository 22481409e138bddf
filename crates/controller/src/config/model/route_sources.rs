//! Route sources of routing daemons: their leaves, and what these mean.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde::Deserialize;

use super::Protocol;
use crate::config::vrf_name::VrfName;

/// The module of the route sources' protocol types.
pub(crate) const MODULE: &str = "stoa-routing:";

/// The settings of a route source depend on its type.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RouteSource {
    #[serde(default)]
    pub netns: String,
    #[serde(default)]
    pub peer_user: Vec<String>,
    pub preference: Option<u8>,
    pub stale_time: u16,
    pub fpm_address: Option<IpAddr>,
    pub fpm_port: Option<u16>,
    pub kernel_table: Option<u32>,
    pub receive_buffer: Option<u32>,
    pub bgp_address: Option<IpAddr>,
    pub bgp_port: Option<u16>,
    #[serde(rename = "as")]
    pub asn: Option<u32>,
    pub router_id: Option<Ipv4Addr>,
    #[serde(default)]
    pub add_paths: bool,
    pub multipath: Option<u8>,
}

impl Protocol {
    /// The type of a route source without its module; `None`: it is none.
    pub fn route_source_kind(&self) -> Option<&str> {
        self.kind.strip_prefix(MODULE).filter(|kind| ["fpm", "netlink", "bgp"].contains(kind))
    }
}

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
