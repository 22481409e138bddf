//! Edits of the configuration of these tests: those that cost what they change, and those on which others depend.

use crate::datastore::edit::Edit;

pub(super) fn interface(name: &str) -> String {
    format!("/ietf-interfaces:interfaces/interface[name='{name}']")
}

pub(super) fn instance(name: &str) -> String {
    let all = "/ietf-routing:routing/control-plane-protocols/control-plane-protocol";
    format!("{all}[type='ietf-routing:static'][name='{name}']")
}

pub(super) fn route(name: &str, prefix: &str) -> String {
    let family = if prefix.contains(':') { "6" } else { "4" };
    let routes = format!("static-routes/ietf-ipv{family}-unicast-routing:ipv{family}/route");
    format!("{}/{routes}[destination-prefix='{prefix}']", instance(name))
}

pub(super) fn set(path: String, value: &str) -> Edit {
    Edit::Set { path, value: (!value.is_empty()).then(|| value.to_owned()) }
}

pub(super) fn gateway(name: &str, prefix: &str, gateway: &str) -> Edit {
    set(format!("{}/next-hop/next-hop-address", route(name, prefix)), gateway)
}

pub(super) fn length(name: &str, address: &str, length: &str) -> Edit {
    let family = if address.contains(':') { "6" } else { "4" };
    let list = format!("{}/ietf-ip:ipv{family}/address[ip='{address}']", interface(name));
    set(format!("{list}/prefix-length"), length)
}

pub(super) fn delete(path: String) -> Edit {
    Edit::Delete { path }
}

/// Adds an interface, or to it.
fn merge(interface: &str) -> Edit {
    let body = format!(r#"{{"ietf-interfaces:interfaces": {{"interface": [{interface}]}}}}"#);
    Edit::Merge { body }
}

/// Adds a set of ports, or to it.
fn merge_sets(set: &str) -> Edit {
    let sets = format!(r#"{{"port-sets": {{"port-set": [{set}]}}}}"#);
    let body =
        format!(r#"{{"ietf-access-control-list:acls": {{"stoa-acl:defined-sets": {sets}}}}}"#);
    Edit::Merge { body }
}

/// Edits that cost what they change: nothing else depends on them.
pub(super) fn cheap() -> Vec<Edit> {
    let daemon = "/ietf-routing:routing/control-plane-protocols\
                  /control-plane-protocol[type='stoa-routing:bgp'][name='bird']";
    let rule = "/ietf-routing:routing/stoa-policy:policy\
                /rule[vrf='default'][address-family='ipv4'][priority='100']";
    let ace = "/ietf-access-control-list:acls/acl[name='edge']/aces/ace[name='web']";
    let ports =
        "/ietf-access-control-list:acls/stoa-acl:defined-sets/port-sets/port-set[name='more']";
    let nat = "/ietf-nat:nat/instances/instance[id='1']";
    let mapping = format!("{nat}/mapping-table/mapping-entry[index='1']");
    let router =
        format!("{}/ietf-ip:ipv4/ietf-vrrp:vrrp/vrrp-instance[vrid='7']", interface("lan"));
    let new = r#"{"name": "new", "type": "iana-if-type:l2vlan", "stoa-interfaces:sub-interface":
        {"parent": "wan", "outer": {"vid": 9}}, "ietf-ip:ipv4": {"address":
        [{"ip": "10.44.0.1", "prefix-length": 24}]}}"#;
    vec![
        set(format!("{}/description", interface("lan")), "text"),
        set(format!("{}/ietf-ip:ipv4/mtu", interface("lan")), "1400"),
        set(format!("{}/stoa-interfaces:port/mtu", interface("wan")), "1600"),
        length("lan", "10.77.0.1", "24"),
        length("wan", "2001:db8:5::1", "64"),
        length("lan.2", "10.78.0.1", "24"),
        delete(format!("{}/ietf-ip:ipv4", interface("lan.1"))),
        merge(new),
        delete(interface("lan.2")),
        set(format!("{router}/priority"), "77"),
        set(
            format!(
                "{}/stoa-bfd:bfd/session[dest-addr='192.0.2.9']/local-multiplier",
                interface("lan")
            ),
            "5",
        ),
        set("/stoa-system:system/stoa-ip:reassembly/packets".to_owned(), "100"),
        set("/stoa-system:system/punt/class[name='arp']/rate".to_owned(), "77"),
        set("/stoa-logging:logging/level".to_owned(), "warn"),
        gateway("s", "10.9.0.0/16", "192.0.2.8"),
        gateway("s", "10.99.0.0/16", "192.0.2.8"),
        gateway("r", "10.99.0.0/16", "192.0.2.8"),
        gateway("s", "2001:db8:a::/48", "2001:db8::7"),
        set(format!("{}/next-hop/outgoing-interface", route("s", "10.98.0.0/16")), "lan.1"),
        delete(route("s", "10.9.0.0/16")),
        delete(route("s", "10.6.0.0/16")),
        set(format!("{}/stoa-routing:preference", route("s", "10.6.0.0/16")), "10"),
        set(format!("{daemon}/stoa-routing:route-source/stale-time"), "77"),
        set(format!("{rule}/match/dscp"), "46"),
        set(format!("{ace}/actions/forwarding"), "ietf-access-control-list:drop"),
        set(format!("{ace}/matches/tcp/destination-port/port"), "443"),
        delete(format!("{ports}/port[.='53']")),
        merge_sets(r#"{"name": "more", "port": ["853-860"]}"#),
        set(format!("{nat}/policy[id='1']/mapping-type"), "edm"),
        set(format!("{nat}/policy[id='1']/external-realm/external-interface"), "lan.1"),
        set(format!("{mapping}/internal-src-address"), "192.0.2.7/32"),
        set("/stoa-management:management/user[name='ann']/admin".to_owned(), "true"),
    ]
}

/// Edits on which other entries may depend, or that are invalid.
pub(super) fn others() -> Vec<Edit> {
    let vrf = |name: &str, vrf: &str| set(format!("{}/stoa-vrf:vrf", interface(name)), vrf);
    let sub = |name: &str| format!("{}/stoa-interfaces:sub-interface", interface(name));
    let port = |name: &str| format!("{}/stoa-interfaces:port", interface(name));
    let four = |name: &str| format!("{}/ietf-ip:ipv4", interface(name));
    let acls = "/ietf-access-control-list:acls";
    let policy = "/ietf-nat:nat/instances/instance[id='1']/policy[id='1']";
    let mut all = vec![
        delete(acls.to_owned()),
        delete(format!("{acls}/stoa-acl:defined-sets")),
        delete(format!("{acls}/stoa-acl:defined-sets/port-sets/port-set[name='more']")),
        merge_sets(r#"{"name": "more", "include": ["dns"]}"#),
        delete(format!("{acls}/attachment-points")),
        delete(format!("{acls}/attachment-points/interface[interface-id='lan']")),
        delete(format!("{acls}/stoa-acl:zones")),
        delete(format!("{acls}/stoa-acl:zone-pairs")),
        delete(format!("{acls}/stoa-acl:zones/zone[name='inside']/interface[.='lan']")),
        set(format!("{acls}/stoa-acl:zones/zone[name='inside']/interface[.='wan']"), ""),
        set(format!("{acls}/stoa-acl:zones/zone[name='outside']/interface[.='lan']"), ""),
        set(format!("{acls}/acl[name='edge']/type"), "ietf-access-control-list:ipv6-acl-type"),
        delete("/ietf-nat:nat".to_owned()),
        set(format!("{policy}/external-realm/external-interface"), "one"),
        set(format!("{policy}/external-realm/external-interface"), "red"),
        delete(format!("{policy}/external-realm/external-interface")),
        length("lan", "192.0.2.1", "25"),
        length("lan", "192.0.2.9", "24"),
        length("wan", "192.0.2.9", "32"),
        length("wan", "10.9.0.1", "16"),
        length("wan", "203.0.113.1", "24"),
        length("lan.2", "2001:db8::", "48"),
        length("wan", "2001:db8::5", "48"),
        length("wan", "fe80::1", "64"),
        length("lan.1", "198.51.100.1", "32"),
        delete(format!("{}/address[ip='192.0.2.1']", four("lan"))),
        delete(format!("{}/address[ip='198.51.100.1']", four("wan"))),
        delete(four("wan")),
        delete(four("red")),
        set(format!("{}/forwarding", four("wan")), "true"),
        set(format!("{}/ietf-ip:ipv6/forwarding", interface("wan")), "false"),
        set(format!("{}/enabled", four("wan")), "false"),
        delete(format!("{}/enabled", four("wan"))),
        vrf("lan", "red"),
        vrf("wan", "red"),
        vrf("lan.1", "blue"),
        vrf("red", "blue"),
        delete(format!("{}/stoa-vrf:vrf", interface("red"))),
        delete("/stoa-vrf:vrfs/vrf[name='blue']".to_owned()),
        delete("/stoa-vrf:vrfs/vrf[name='red']".to_owned()),
        set(format!("{}/stoa-vrf:vrf", instance("s")), "blue"),
        delete(format!("{}/stoa-vrf:vrf", instance("r"))),
        set(format!("{}/outer/vid", sub("lan.2")), "1"),
        set(format!("{}/outer/vid", sub("lan.2")), "3"),
        set(format!("{}/parent", sub("lan.2")), "one"),
        set(format!("{}/parent", sub("lan.2")), "wan"),
        set(format!("{}/parent", sub("lan.2")), "tun"),
        set(format!("{}/tap/device", port("two")), "t0"),
        set(format!("{}/tap/device", port("wan")), "h1"),
        set(format!("{}/stoa-host-interface:host-interface/device", interface("lan")), "t0"),
        set(format!("{}/stoa-host-interface:host-interface/device", interface("wan")), "h2"),
        delete(format!("{}/stoa-host-interface:host-interface", interface("host"))),
        set(format!("{}/stoa-interfaces:cross-connect", interface("lan")), "wan"),
        set(format!("{}/stoa-interfaces:cross-connect", interface("host")), "wan"),
        delete(format!("{}/stoa-interfaces:cross-connect", interface("one"))),
        set(format!("{}/tunnel/remote", port("tun")), "203.0.113.8"),
        set(format!("{}/tunnel/local", port("tun")), "192.0.2.1"),
        merge(
            r#"{"name": "tun2", "type": "iana-if-type:tunnel", "stoa-interfaces:port": {"tunnel": {
            "encapsulation": "gre", "local": "198.51.100.1", "remote": "203.0.113.9"}}}"#,
        ),
        merge(
            r#"{"name": "lan", "stoa-host-interface:host-interface":
            {"device": "h0", "netns": "space"}}"#,
        ),
        merge(
            r#"{"name": "tap2", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port":
            {"tap": {"device": "h0", "netns": "space"}}}"#,
        ),
        set(format!("{}/stoa-bfd:bfd/session[dest-addr='10.1.0.9']", interface("lan.1")), ""),
        length("lan.2", "10.1.0.9", "32"),
        set(interface("bare"), ""),
        gateway("s", "10.9.0.0/16", "10.8.0.1"),
        gateway("s", "10.5.0.0/16", "10.9.0.1"),
        gateway("s", "10.5.0.0/16", "198.51.100.1"),
        gateway("r", "10.9.0.0/16", "10.77.0.2"),
        gateway("t", "10.9.0.0/16", "192.0.2.8"),
        gateway("s", "198.51.100.0/24", "192.0.2.8"),
        gateway("s", "2001:db8::/128", "2001:db8::9"),
        gateway("s", "2001:db8:5::/128", "2001:db8::9"),
        // Hidden by the direct route of another interface.
        set(format!("{}/enabled", four("lan.2")), "true"),
        set(format!("{}/next-hop/outgoing-interface", route("s", "10.1.0.0/24")), "lan.2"),
        vrf("lan.2", "blue"),
        gateway("s", "10.77.0.0/24", "192.0.2.8"),
        gateway("s", "10.44.0.1/32", "192.0.2.8"),
        set(route("s", "10.4.0.0/16"), ""),
        set(format!("{}/stoa-routing:preference", route("s", "10.9.0.0/16")), "9"),
        delete(format!("{}/stoa-routing:preference", route("s", "10.6.0.0/16"))),
        set(format!("{}/next-hop/special-next-hop", route("s", "10.9.0.0/16")), "prohibit"),
        set(format!("{}/next-hop/special-next-hop", route("t", "10.3.0.0/16")), "unreachable"),
        delete(instance("s")),
        Edit::Remove { path: instance("t") },
        Edit::Replace {
            path: route("s", "10.8.0.0/16"),
            body:
                r#"{"ietf-routing:routing": {"control-plane-protocols": {"control-plane-protocol": [
                {"type": "ietf-routing:static", "name": "s", "static-routes":
                {"ietf-ipv4-unicast-routing:ipv4": {"route": [{"destination-prefix": "10.8.0.0/16",
                "next-hop": {"next-hop-address": "198.51.100.9"}}]}}}]}}}"#
                    .to_owned(),
        },
    ];
    let names = ["lan", "wan", "tun", "lan.1", "host", "tap", "red", "one", "two", "new"];
    all.extend(names.map(|name| delete(interface(name))));
    all
}
