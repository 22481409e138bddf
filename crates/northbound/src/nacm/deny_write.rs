//! Nodes marked `nacm:default-deny-write`. They name files, sockets, devices, namespaces or arguments of drivers, by
//! which the router reaches beyond its own data; or they decide who is an administrator, or who may send routes.
//! Without a rule that permits it, only administrators change them.

/// Their names from the root. A test compares this list with the modules.
pub(super) const DENY_WRITE: &[&[&str]] = &[
    &[INTERFACES, INTERFACE, PORT, "stoa-interfaces:af-packet"],
    &[INTERFACES, INTERFACE, PORT, "stoa-interfaces:af-xdp"],
    &[INTERFACES, INTERFACE, PORT, "stoa-interfaces:auto"],
    &[INTERFACES, INTERFACE, PORT, "stoa-interfaces:tap"],
    &[INTERFACES, INTERFACE, PORT, "stoa-interfaces:memif"],
    &[INTERFACES, INTERFACE, PORT, "stoa-interfaces:dpdk"],
    &[INTERFACES, INTERFACE, PORT, "stoa-interfaces:pcap"],
    &[INTERFACES, INTERFACE, "stoa-host-interface:host-interface"],
    &[ROUTING, PROTOCOLS, PROTOCOL, ROUTE_SOURCE, "stoa-routing:netns"],
    &[ROUTING, PROTOCOLS, PROTOCOL, ROUTE_SOURCE, "stoa-routing:peer-user"],
    // Collectors receive who talks to whom.
    &["stoa-ipfix:ipfix", "stoa-ipfix:collector"],
    // The partner receives who talks to whom, and opens ways through stateful rules.
    &["stoa-flow-sync:flow-sync"],
    // Keys, and whom the router trusts with them.
    &["stoa-ipsec:ipsec"],
    // Its servers receive the log, which only administrators may read.
    &["stoa-logging:logging", "stoa-logging:syslog"],
    // They decide who may use the network, and name files.
    &[INTERFACES, INTERFACE, "stoa-login:login"],
    &["stoa-login:login"],
    // Users and RADIUS servers make administrators, whom no rule restricts.
    &["stoa-management:management"],
];

const INTERFACES: &str = "ietf-interfaces:interfaces";
const INTERFACE: &str = "ietf-interfaces:interface";
const PORT: &str = "stoa-interfaces:port";
const ROUTING: &str = "ietf-routing:routing";
const PROTOCOLS: &str = "ietf-routing:control-plane-protocols";
const PROTOCOL: &str = "ietf-routing:control-plane-protocol";
const ROUTE_SOURCE: &str = "stoa-routing:route-source";
