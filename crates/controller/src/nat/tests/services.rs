//! Ports of the router itself: what listens there by the configuration, and what Linux gives its own sockets.

use super::*;

/// The configuration with a forward of an external port, whose first interface is changed.
fn with_forward((port_number, protocol): (u32, u32), change: impl FnOnce(&mut Value)) -> Value {
    let external = ("198.51.100.2/32", port(port_number, port_number));
    let mut mapping = forward(1, external, ("10.0.0.8/32", port(1, 1)));
    mapping["transport-protocol"] = json!(protocol);
    let apart = json!({ "port-set-restrict": port(10_000, 29_999) });
    let mut value = whole(&json!([instance(&[policy(1, apart)], &[mapping])]));
    change(&mut value);
    value
}

fn wan(value: &mut Value) -> &mut Value {
    &mut value["ietf-interfaces:interfaces"]["interface"][0]
}

fn add_bfd(value: &mut Value) {
    wan(value)["stoa-bfd:bfd"] = json!({ "session": [{ "dest-addr": "198.51.100.1" }] });
}

fn add_host_interface(value: &mut Value) {
    wan(value)["stoa-host-interface:host-interface"] = json!({});
}

fn add_https(value: &mut Value) {
    let https = json!({ "address": ["198.51.100.2"], "port": 443 });
    value["stoa-management:management"] = json!({ "https": https });
}

fn add_portal(value: &mut Value) {
    let portal = json!({ "address": ["198.51.100.2"] });
    value["stoa-login:login"] = json!({ "portal": portal });
    wan(value)["stoa-login:login"] = json!({});
}

fn add_route_source(value: &mut Value) {
    let protocol =
        json!({ "type": "stoa-routing:fpm", "name": "frr", "stoa-routing:route-source": {} });
    let protocols = json!({ "control-plane-protocol": [protocol] });
    value["ietf-routing:routing"] = json!({ "control-plane-protocols": protocols });
}

#[test]
fn forwards_of_ports_of_the_router_are_refused() {
    type Change = fn(&mut Value);
    let cases: [(u32, u32, &[Change], &str); 4] = [
        (3784, 17, &[add_bfd], "BFD"),
        (443, 6, &[add_host_interface, add_https], "the HTTPS server (management)"),
        (8444, 6, &[add_host_interface, add_portal], "the login portal"),
        (179, 6, &[add_host_interface, add_route_source], "BGP of route source frr"),
    ];
    for (number, protocol, changes, name) in cases {
        let changed = |value: &mut Value| changes.iter().for_each(|change| change(value));
        let value = with_forward((number, protocol), changed);
        let errors = Configuration::parse(Path::new("test"), value.to_string()).map(drop);
        let errors = errors.unwrap_err();
        let [error] = errors.as_slice() else { panic!("{errors:#?}") };
        let mapping = format!("{ONE}/mapping-table/mapping-entry[index='1']");
        assert_eq!(error.path, format!("{mapping}/external-src-port"));
        let cause = format!("port {number} of 198.51.100.2 is that of {name} of the router");
        assert!(error.cause.starts_with(&cause), "{}", error.cause);
        assert_eq!(error.fix, "Use another external port or address.");
        // Another protocol, and another port.
        for other in [(number, 23 - protocol), (number + 1, protocol)] {
            parsed(&with_forward(other, changed)).unwrap_or_else(|errors| panic!("{errors:#?}"));
        }
    }
    // Without a host interface, Linux gets no packets to the address.
    assert!(warnings(&with_forward((443, 6), add_https))[0].contains("takes port 443 of"));
    assert_eq!(warnings(&with_forward((443, 6), add_bfd)), [] as [&str; 0]);
}

/// Stoa does not know whether Linux has such a server.
#[test]
fn a_commit_warns_about_forwards_of_ports_that_linux_may_use() {
    // In a namespace of its own, Linux has not the settings of this machine.
    let apart = |value: &mut Value| {
        wan(value)["stoa-host-interface:host-interface"] = json!({ "netns": "apart" });
    };
    let found = warnings(&with_forward((22, 6), apart));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("takes port 22 of 198.51.100.2 from SSH"), "{found:?}");
}

#[test]
fn a_commit_warns_of_ports_that_linux_gives_its_own_sockets() {
    // Of a namespace whose setting Stoa does not know.
    let with = |more: Value, netns: Option<&str>| {
        let mut value = whole(&json!([instance(&[policy(1, more)], &[])]));
        if let Some(netns) = netns {
            let host_interface = json!({ "netns": netns });
            wan(&mut value)["stoa-host-interface:host-interface"] = host_interface;
        }
        warnings(&value)
    };
    let found = with(json!({}), Some("apart"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("at 198.51.100.2 of interface wan"), "{found:?}");
    assert!(found[0].contains("its own sockets (32768 to 60999)"), "{found:?}");
    assert!(found[0].contains("other ports (1024 to 32767)"), "{found:?}");
    assert_eq!(with(json!({}), None), [] as [&str; 0]);
    let restricted = json!({ "port-set-restrict": port(1024, 32_767) });
    assert_eq!(with(restricted, Some("apart")), [] as [&str; 0]);
    assert_eq!(with(pool("198.51.100.64/28"), Some("apart")), [] as [&str; 0]);
    // An address of the router in a pool.
    let found = with(pool("198.51.100.0/29"), Some("apart"));
    assert!(found.iter().any(|it| it.contains("its own sockets")), "{found:?}");
}

#[test]
fn ports_of_the_router_are_kept_from_mappings() {
    let with = |more: Value| -> Vec<(String, u32, u32)> {
        let mut value = whole(&json!([instance(&[policy(1, more)], &[])]));
        let wan = &mut value["ietf-interfaces:interfaces"]["interface"][0];
        wan["stoa-bfd:bfd"] = json!({ "session": [{ "dest-addr": "198.51.100.1" }] });
        assert_eq!(warnings(&value), [] as [&str; 0]);
        let found = parsed(&value).unwrap().desired.nat.unwrap().policies.remove(0).own_ports;
        let of = |it: v1::NatOwnPort| {
            (stoa_api::text::ip(&it.address).unwrap().to_string(), it.protocol, it.port)
        };
        found.into_iter().map(of).collect()
    };
    assert_eq!(with(json!({})), [("198.51.100.2".to_owned(), 17, 3784)]);
    assert_eq!(with(pool("198.51.100.64/28")), []);
    // An address of the router in a pool.
    let mut value = whole(&json!([instance(&[policy(1, pool("198.51.100.0/29"))], &[])]));
    let wan = &mut value["ietf-interfaces:interfaces"]["interface"][0];
    wan["stoa-bfd:bfd"] = json!({ "session": [{ "dest-addr": "198.51.100.1" }] });
    let found = parsed(&value).unwrap().desired.nat.unwrap().policies.remove(0).own_ports;
    assert_eq!(found.len(), 1);
}
