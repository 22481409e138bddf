//! The mapping of OpenConfig paths to IETF paths: the table, with one line for each leaf.

use std::sync::LazyLock;

use super::form::Form::{
    self, Capitals, Counter, Fixed, InstanceType, IsUp, KeyNumber, KeyText, Nanoseconds, Origin,
    Same, SessionState,
};
use super::source::Source;
use crate::restconf::path::Step;

/// The mapped modules, with the versions whose paths the table has.
pub const MODELS: [(&str, &str); 3] = [
    ("openconfig-interfaces", "3.5.0"),
    ("openconfig-if-ip", "2.3.0"),
    ("openconfig-network-instance", "2.0.0"),
];

/// The organization of these modules.
pub const ORGANIZATION: &str = "OpenConfig working group";

/// The lists in the OpenConfig paths with the names of their keys.
const LISTS: [(&str, &[&str]); 10] = [
    ("interface", &["name"]),
    ("subinterface", &["index"]),
    ("address", &["ip"]),
    ("network-instance", &["name"]),
    ("protocol", &["identifier", "name"]),
    ("neighbor", &["neighbor-address"]),
    ("ipv4-entry", &["prefix"]),
    ("ipv6-entry", &["prefix"]),
    ("next-hop-group", &["id"]),
    ("next-hop", &["index"]),
];

/// OpenConfig leaves below one path, from the entries of one IETF list.
struct Group {
    /// The OpenConfig path, with the module where it changes.
    path: &'static str,
    /// The entries.
    source: Source,
    /// The path of each leaf below, the IETF leaf below an entry, and how the value is converted.
    leaves: &'static [(&'static str, &'static str, Form)],
}

const INTERFACE: &str = "/openconfig-interfaces:interfaces/interface";
const SUBINTERFACE: &str = "/openconfig-interfaces:interfaces/interface/subinterfaces/subinterface";
const ADDRESS4: &str = "/openconfig-interfaces:interfaces/interface/subinterfaces/subinterface\
                        /openconfig-if-ip:ipv4/addresses/address";
const ADDRESS6: &str = "/openconfig-interfaces:interfaces/interface/subinterfaces/subinterface\
                        /openconfig-if-ip:ipv6/addresses/address";
const INSTANCE: &str = "/openconfig-network-instance:network-instances/network-instance";
const PROTOCOL: &str =
    "/openconfig-network-instance:network-instances/network-instance/protocols/protocol";
const NEIGHBOR: &str = "/openconfig-network-instance:network-instances/network-instance\
                        /protocols/protocol/bgp/neighbors/neighbor";
const ENTRY4: &str = "/openconfig-network-instance:network-instances/network-instance\
                      /afts/ipv4-unicast/ipv4-entry";
const ENTRY6: &str = "/openconfig-network-instance:network-instances/network-instance\
                      /afts/ipv6-unicast/ipv6-entry";
const NEXT_HOP_GROUP: &str = "/openconfig-network-instance:network-instances/network-instance\
                              /afts/next-hop-groups/next-hop-group";
const MEMBER: &str = "/openconfig-network-instance:network-instances/network-instance\
                      /afts/next-hop-groups/next-hop-group/next-hops/next-hop";
const NEXT_HOP: &str = "/openconfig-network-instance:network-instances/network-instance\
                        /afts/next-hops/next-hop";

/// The identity of BGP among the protocols.
const BGP: Form = Fixed("openconfig-policy-types:BGP");

/// The table.
#[rustfmt::skip]
const TABLE: [Group; 12] = [
    Group { path: INTERFACE, source: Source::Interface, leaves: &[
        ("name", "name", KeyText(0)),
        ("config/name", "name", Same),
        ("config/type", "type", Same),
        ("config/description", "description", Same),
        ("config/enabled", "enabled", Same),
        ("state/name", "name", Same),
        ("state/type", "type", Same),
        ("state/description", "description", Same),
        ("state/enabled", "admin-status", IsUp),
        ("state/ifindex", "if-index", Same),
        ("state/admin-status", "admin-status", Capitals),
        ("state/oper-status", "oper-status", Capitals),
        ("state/last-change", "last-change", Nanoseconds),
        ("state/counters/in-octets", "statistics/in-octets", Counter),
        ("state/counters/in-pkts", "statistics/stoa-interfaces:in-pkts", Counter),
        ("state/counters/in-discards", "statistics/in-discards", Counter),
        ("state/counters/out-octets", "statistics/out-octets", Counter),
        ("state/counters/out-pkts", "statistics/stoa-interfaces:out-pkts", Counter),
        ("state/counters/out-discards", "statistics/out-discards", Counter),
        ("state/counters/last-clear", "statistics/discontinuity-time", Nanoseconds),
    ] },
    Group { path: SUBINTERFACE, source: Source::Subinterface, leaves: &[
        ("index", "name", KeyNumber(1)),
        ("state/index", "name", KeyNumber(1)),
        ("state/name", "name", Same),
        ("state/description", "description", Same),
        ("state/enabled", "admin-status", IsUp),
        ("state/ifindex", "if-index", Same),
        ("state/admin-status", "admin-status", Capitals),
        ("state/oper-status", "oper-status", Capitals),
        ("state/last-change", "last-change", Nanoseconds),
        ("state/counters/in-octets", "statistics/in-octets", Counter),
        ("state/counters/in-pkts", "statistics/stoa-interfaces:in-pkts", Counter),
        ("state/counters/in-discards", "statistics/in-discards", Counter),
        ("state/counters/out-octets", "statistics/out-octets", Counter),
        ("state/counters/out-pkts", "statistics/stoa-interfaces:out-pkts", Counter),
        ("state/counters/out-discards", "statistics/out-discards", Counter),
        ("state/counters/last-clear", "statistics/discontinuity-time", Nanoseconds),
    ] },
    Group { path: ADDRESS4, source: Source::Address4, leaves: &[
        ("ip", "ip", KeyText(2)),
        ("state/ip", "ip", Same),
        ("state/prefix-length", "prefix-length", Same),
    ] },
    Group { path: ADDRESS6, source: Source::Address6, leaves: &[
        ("ip", "ip", KeyText(2)),
        ("state/ip", "ip", Same),
        ("state/prefix-length", "prefix-length", Same),
    ] },
    Group { path: INSTANCE, source: Source::Instance, leaves: &[
        ("name", "name", KeyText(0)),
        ("state/name", "name", KeyText(0)),
        ("state/type", "default-rib", InstanceType),
    ] },
    Group { path: PROTOCOL, source: Source::Protocol, leaves: &[
        ("identifier", "type", BGP),
        ("name", "name", KeyText(2)),
        ("state/identifier", "type", BGP),
        ("state/name", "name", KeyText(2)),
        ("bgp/global/state/as", "stoa-routing:route-source/as", Same),
        ("bgp/global/state/router-id", "stoa-routing:route-source/router-id", Same),
    ] },
    Group { path: NEIGHBOR, source: Source::Neighbor, leaves: &[
        ("neighbor-address", "stoa-routing:route-source/bgp-address", KeyText(3)),
        ("state/neighbor-address", "stoa-routing:route-source/bgp-address", KeyText(3)),
        ("state/peer-as", "stoa-routing:route-source/as", Same),
        ("state/local-as", "stoa-routing:route-source/as", Same),
        ("state/peer-type", "stoa-routing:route-source/as", Fixed("INTERNAL")),
        ("state/session-state", "stoa-routing:route-source/session", SessionState),
        ("state/last-established", "stoa-routing:route-source/session/up-since", Nanoseconds),
        ("state/established-transitions", "stoa-routing:route-source/session/sessions", Counter),
    ] },
    Group { path: ENTRY4, source: Source::Entry4, leaves: &[
        ("prefix", "ietf-ipv4-unicast-routing:destination-prefix", KeyText(1)),
        ("state/prefix", "ietf-ipv4-unicast-routing:destination-prefix", Same),
        ("state/origin-protocol", "source-protocol", Origin),
        ("state/next-hop-group", "next-hop", Form::GroupId),
        ("state/counters/packets-forwarded", "stoa-routing:packets", Counter),
        ("state/counters/octets-forwarded", "stoa-routing:octets", Counter),
    ] },
    Group { path: ENTRY6, source: Source::Entry6, leaves: &[
        ("prefix", "ietf-ipv6-unicast-routing:destination-prefix", KeyText(1)),
        ("state/prefix", "ietf-ipv6-unicast-routing:destination-prefix", Same),
        ("state/origin-protocol", "source-protocol", Origin),
        ("state/next-hop-group", "next-hop", Form::GroupId),
        ("state/counters/packets-forwarded", "stoa-routing:packets", Counter),
        ("state/counters/octets-forwarded", "stoa-routing:octets", Counter),
    ] },
    Group { path: NEXT_HOP_GROUP, source: Source::NextHopGroup, leaves: &[
        ("id", "next-hop", KeyText(1)),
        ("state/id", "next-hop", KeyText(1)),
    ] },
    Group { path: MEMBER, source: Source::GroupMember, leaves: &[
        ("index", "next-hop", KeyText(2)),
        ("state/index", "next-hop", KeyText(2)),
        ("state/weight", "next-hop/weight", Counter),
    ] },
    Group { path: NEXT_HOP, source: Source::NextHop, leaves: &[
        ("index", "next-hop", KeyText(1)),
        ("state/index", "next-hop", KeyText(1)),
        ("state/ip-address", "next-hop/address", Same),
        ("interface-ref/state/interface", "next-hop/outgoing-interface", Same),
    ] },
];

/// A mapped leaf.
#[derive(Debug)]
pub struct Row {
    /// The steps of the OpenConfig path; keys have names and no values.
    pub steps: Vec<Step>,
    /// The entries that have the leaf.
    pub source: Source,
    /// The IETF leaf below an entry, as members of RFC 7951 data.
    pub ietf: &'static str,
    /// How the value is converted.
    pub form: Form,
}

impl Row {
    /// The OpenConfig path.
    pub fn path(&self) -> String {
        let bare: Vec<Step> =
            self.steps.iter().map(|step| Step { keys: Vec::new(), ..step.clone() }).collect();
        crate::restconf::path::data_path(&bare)
    }

    /// The path of the IETF leaf.
    pub fn ietf_path(&self) -> String {
        format!("{}/{}", self.source.ietf(), self.ietf)
    }

    /// The steps with these values of the keys.
    pub fn steps_of(&self, keys: &[String]) -> Vec<Step> {
        let mut values = keys.iter();
        let mut steps = self.steps.clone();
        for (_, value) in steps.iter_mut().flat_map(|step| &mut step.keys) {
            *value = values.next().cloned().unwrap_or_default();
        }
        steps
    }
}

/// All rows of the table.
pub fn rows() -> &'static [Row] {
    static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
        let row = |group: &Group, (leaf, ietf, form): &(&str, &'static str, Form)| Row {
            steps: steps(&format!("{}/{leaf}", group.path)),
            source: group.source,
            ietf,
            form: *form,
        };
        TABLE.iter().flat_map(|group| group.leaves.iter().map(|leaf| row(group, leaf))).collect()
    });
    &ROWS
}

/// The steps of an OpenConfig path; the last one is a leaf.
fn steps(path: &str) -> Vec<Step> {
    let mut module = "";
    let mut steps: Vec<Step> = Vec::new();
    let names: Vec<&str> = path.split('/').skip(1).collect();
    for (at, name) in names.iter().enumerate() {
        let (of, name) = name.split_once(':').unwrap_or((module, name));
        module = of;
        let list = LISTS.iter().find(|(list, _)| *list == name && at + 1 < names.len());
        let keys = list.map_or(&[][..], |(_, keys)| keys);
        let keys = keys.iter().map(|key| ((*key).to_owned(), String::new())).collect();
        steps.push(Step { module: module.to_owned(), name: name.to_owned(), keys });
    }
    steps
}
