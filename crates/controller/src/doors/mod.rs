//! Doors for routing daemons: as they are configured, checked, and kept open while the configuration says so.
//!
//! `keeper` opens and shuts them, `state` is how each of them does, `asked` who waits for an answer of one. What a door hears is the business of `linux` and of the
//! session with BGP; what becomes of it that of `learned`.

mod asked;
mod keeper;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use stoa_api::v1;

use crate::finding::Findings;
use crate::learned::Source;
use crate::linux::inside::identity;
use crate::model::{self, Interface, Routing};

pub use asked::{Asked, Compared, Questions};
pub use keeper::Keeper;
pub use state::{DoorState, Figures, States};

/// The module of the doors' types.
const MODULE: &str = "stoa-routing:";
/// Doors at most: each has a task and buffers of its own.
const DOOR_LIMIT: usize = 64;

/// A door as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorConfig {
    /// Its name, VRF, preference and patience.
    pub source: Source,
    /// The network namespace of the daemon; "" is our own.
    pub netns: String,
    /// How it is gone through.
    pub kind: Kind,
}

impl DoorConfig {
    /// Whether a door that was opened as `self` can stay open as `other`: only how its routes count, and for how long, may differ.
    fn may_become(&self, other: &DoorConfig) -> bool {
        let Source { name, vrf, preference: _, stale_time: _ } = &self.source;
        (name, vrf) == (&other.source.name, &other.source.vrf)
            && (&self.netns, &self.kind) == (&other.netns, &other.kind)
    }
}

/// How a door is gone through.
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
    Linux {
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
            Kind::Linux { .. } => "stoa-routing:linux",
            Kind::Bgp { .. } => "stoa-routing:bgp-session",
        }
    }

    /// The same without the name of the module.
    pub fn word(&self) -> &'static str {
        self.name().trim_start_matches(MODULE)
    }

    /// Where it listens, if it does.
    fn listens(&self) -> Option<(IpAddr, u16)> {
        match self {
            Kind::Fpm { address, port } | Kind::Bgp { address, port, .. } => {
                Some((*address, *port))
            }
            Kind::Linux { .. } => None,
        }
    }
}

/// What doors and mirrors lack on this machine now. It may come before the router begins, which tries again and again; a router
/// that runs refuses mirrors without their namespace. For who checks a configuration.
pub fn lacking(doors: &[DoorConfig], desired: &v1::Desired) -> Vec<String> {
    let of_door = |door: &DoorConfig| (door.netns.clone(), format!("door {}", door.source.name));
    let of_mirror = |interface: &v1::Interface| {
        let netns = interface.mirror.as_ref()?.netns.clone();
        Some((netns, format!("mirror of {}", interface.name)))
    };
    let all = doors.iter().map(of_door).chain(desired.interfaces.iter().filter_map(of_mirror));
    let mut by_netns: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (netns, who) in all.filter(|(netns, _)| identity(netns).is_none()) {
        by_netns.entry(netns).or_default().push(who);
    }
    let words = |(netns, who): (String, Vec<String>)| {
        let need = if who.len() == 1 { "needs" } else { "need" };
        let who = who.join(", ");
        format!("no network namespace \"{netns}\" here, which {who} {need}: ip netns add {netns}")
    };
    by_netns.into_iter().map(words).collect()
}

/// Whether a protocol of this type is a door.
pub(crate) fn is_door(kind: &str) -> bool {
    matches!(kind.strip_prefix(MODULE), Some("fpm" | "linux" | "bgp-session"))
}

/// The doors that are configured, by name.
pub(crate) fn wanted(
    routing: &Routing,
    interfaces: &[Interface],
    findings: &mut Findings,
) -> Vec<DoorConfig> {
    let mirrors: BTreeSet<&str> =
        interfaces.iter().filter_map(|it| Some(it.mirror.as_ref()?.netns.as_str())).collect();
    let mut doors: BTreeMap<&str, DoorConfig> = BTreeMap::new();
    for protocol in &routing.control_plane_protocols.control_plane_protocol {
        if !is_door(&protocol.kind) {
            continue;
        }
        let place = format!(
            "/ietf-routing:routing/control-plane-protocols\
             /control-plane-protocol[type='{}'][name='{}']",
            protocol.kind, protocol.name
        );
        let Some(door) = one(protocol, &place, findings) else { continue };
        check(&door, &place, &mirrors, findings);
        doors.values().for_each(|other| check_both(&door, other, &place, findings));
        if doors.len() == DOOR_LIMIT {
            findings.add(
                &place,
                format!("there are more than {DOOR_LIMIT} doors"),
                "Remove some: one daemon needs one door.",
            );
            break;
        }
        if doors.insert(&protocol.name, door).is_some() {
            findings.add(
                format!("{place}/name"),
                format!("another door is named \"{}\" already", protocol.name),
                "Give each door a name of its own: its routes are told by it.",
            );
        }
    }
    doors.into_values().collect()
}

fn one(protocol: &model::Protocol, place: &str, findings: &mut Findings) -> Option<DoorConfig> {
    let given = protocol.door.as_ref()?;
    let kind = match protocol.kind.strip_prefix(MODULE)? {
        "fpm" => Kind::Fpm { address: given.fpm_address?, port: given.fpm_port? },
        "linux" => {
            Kind::Linux { table: given.kernel_table?, receive_buffer: given.receive_buffer? }
        }
        _ => {
            let Some(asn) = given.asn.filter(|asn| *asn != 0) else {
                findings.add(
                    format!("{place}/stoa-routing:door/as"),
                    "the autonomous system is missing",
                    "Give as: the number that the daemon has itself, for the session is internal.",
                );
                return None;
            };
            Kind::Bgp {
                address: given.bgp_address?,
                port: given.bgp_port?,
                asn,
                router_id: given.router_id?,
                add_paths: given.add_paths,
                multipath: given.multipath?,
            }
        }
    };
    let source = Source {
        name: protocol.name.clone(),
        vrf: protocol.vrf.as_str().into(),
        preference: given.preference,
        stale_time: Duration::from_secs(given.stale_time.into()),
    };
    Some(DoorConfig { source, netns: given.netns.clone(), kind })
}

/// What is wrong with one door.
fn check(door: &DoorConfig, place: &str, mirrors: &BTreeSet<&str>, findings: &mut Findings) {
    let place = format!("{place}/stoa-routing:door");
    // A session hands over gateways. The other doors hand over devices, which are mirrors or nothing.
    if !matches!(door.kind, Kind::Bgp { .. }) && !mirrors.contains(door.netns.as_str()) {
        let here = match door.netns.as_str() {
            "" => "the network namespace in which Stoa runs".to_owned(),
            name => format!("network namespace \"{name}\""),
        };
        findings.add(
            format!("{place}/netns"),
            format!(
                "no interface has a mirror in {here}: no route of the daemon can lead anywhere"
            ),
            "Give interfaces stoa-mirror:mirror with that netns, or name the one where they are.",
        );
    }
    let leaf = |what: &str| match door.kind {
        Kind::Fpm { .. } => format!("{place}/fpm-{what}"),
        _ => format!("{place}/bgp-{what}"),
    };
    if let Some((address, port)) = door.kind.listens() {
        if address.is_multicast() {
            findings.add(
                leaf("address"),
                format!("{address} is a multicast address"),
                "Give an address of the namespace to listen at, for example 127.0.0.1.",
            );
        }
        if port == 0 {
            findings.add(leaf("port"), "0 is no port", "Give the port that the daemon calls.");
        }
    }
    if let Kind::Bgp { router_id, .. } = door.kind
        && router_id.is_unspecified()
    {
        findings.add(
            format!("{place}/router-id"),
            "0.0.0.0 is no BGP identifier (RFC 6286)",
            "Give one that is not the daemon's own, for example 127.0.0.1.",
        );
    }
}

/// What two doors cannot share.
fn check_both(door: &DoorConfig, other: &DoorConfig, place: &str, findings: &mut Findings) {
    if door.netns != other.netns {
        return;
    }
    let name = &other.source.name;
    if let (Some((mine, port)), Some((theirs, taken))) = (door.kind.listens(), other.kind.listens())
        && port == taken
        && (mine == theirs || mine.is_unspecified() || theirs.is_unspecified())
    {
        findings.add(
            format!("{place}/stoa-routing:door"),
            format!("door \"{name}\" listens at {theirs} port {taken} already"),
            "Give each door an address or port of its own.",
        );
    }
    if let (Kind::Linux { table, .. }, Kind::Linux { table: taken, .. }) = (&door.kind, &other.kind)
        && table == taken
    {
        findings.add(
            format!("{place}/stoa-routing:door/kernel-table"),
            format!("door \"{name}\" takes over table {table} of that namespace already"),
            "Keep one of them, or name another table or namespace.",
        );
    }
}
