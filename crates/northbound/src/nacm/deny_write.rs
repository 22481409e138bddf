//! Nodes marked `nacm:default-deny-write`: they name files, sockets, devices, namespaces or arguments of drivers, by
//! which the router reaches beyond its own data. Without a rule that permits it, only administrators change them.

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
    &[
        "ietf-routing:routing",
        "ietf-routing:control-plane-protocols",
        "ietf-routing:control-plane-protocol",
        "stoa-routing:route-source",
        "stoa-routing:netns",
    ],
    &["stoa-logging:logging", "stoa-logging:syslog", "stoa-logging:unix-socket"],
    &[MANAGEMENT, HTTPS, "stoa-management:certificate"],
    &[MANAGEMENT, HTTPS, "stoa-management:key"],
    &[MANAGEMENT, HTTPS, "stoa-management:client-ca"],
];

const INTERFACES: &str = "ietf-interfaces:interfaces";
const INTERFACE: &str = "ietf-interfaces:interface";
const PORT: &str = "stoa-interfaces:port";
const MANAGEMENT: &str = "stoa-management:management";
const HTTPS: &str = "stoa-management:https";
