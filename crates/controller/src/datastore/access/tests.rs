//! Changes that cut off their author.

use serde_json::{Value, json};

use super::*;
use std::path::Path;

/// A router that ann manages over one of its interfaces.
fn before() -> Value {
    json!({
        "ietf-interfaces:interfaces": { "interface": [
            { "name": "lan", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": { "null": {} },
              "ietf-ip:ipv4": { "address": [
                { "ip": "192.0.2.1", "prefix-length": 24 }, { "ip": "198.51.100.1", "prefix-length": 24 }] } },
            { "name": "wan", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": { "null": {} } },
        ]},
        "stoa-management:management": {
            "https": { "address": ["192.0.2.1", "127.0.0.1"], "certificate": "/c", "key": "/k", "client-ca": "/ca" },
            "user": [
                { "name": "ann", "admin": true,
                  "password-hash": "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA" },
                { "name": "bob", "group": ["noc"] },
            ],
        },
        "ietf-netconf-acm:nacm": { "rule-list": [{ "name": "noc", "group": ["noc"], "rule": [
            { "name": "texts", "module-name": "*", "access-operations": "update", "action": "permit" }] }] },
    })
}

fn read(value: &Value) -> Configuration {
    Configuration::parse(Path::new("test.json"), value.to_string()).unwrap()
}

fn paths(
    name: &str,
    credential: Option<Credential>,
    change: impl FnOnce(&mut Value),
) -> Vec<String> {
    let (old, mut new) = (before(), before());
    change(&mut new);
    let peer = Some("192.0.2.77".parse().unwrap());
    let path = AccessPath { local: "192.0.2.1:8443".parse().unwrap(), peer, credential };
    let (old, new) = (read(&old), read(&new));
    let lost = lost(name, &path, AccessSettings::of(&old), AccessSettings::of(&new));
    assert!(lost.iter().all(|it| it.fix.contains("confirm-within")), "{lost:?}");
    lost.into_iter().map(|error| error.path).collect()
}

const HTTPS: &str = "/stoa-management:management/https";
const ANN: &str = "/stoa-management:management/user[name='ann']";
const LAN: &str = "/ietf-interfaces:interfaces/interface[name='lan']";

#[test]
fn losing_the_server_is_refused() {
    let by_password = |change: fn(&mut Value)| {
        paths("ann", Some(Credential::Password), |all| {
            change(&mut all["stoa-management:management"]["https"])
        })
    };
    assert_eq!(by_password(|https| https["enabled"] = json!(false)), [format!("{HTTPS}/enabled")]);
    assert_eq!(by_password(|https| https["port"] = json!(443)), [format!("{HTTPS}/port")]);
    assert_eq!(by_password(|https| https["address"] = json!([])), [format!("{HTTPS}/address")]);
    let none: [&str; 0] = [];
    assert_eq!(by_password(|https| https["address"] = json!(["0.0.0.0"])), none);
    assert_eq!(by_password(|https| https["address"] = json!(["::", "192.0.2.1"])), none);
    assert_eq!(by_password(|https| https["client-ca"] = json!("/other")), none);
    // An SSH connection does not need the server.
    assert_eq!(
        paths("ann", None, |all| {
            all["stoa-management:management"]["https"]["enabled"] = json!(false);
            all["stoa-management:management"]["user"] = json!([]);
        }),
        none
    );
}

#[test]
fn losing_the_session_to_an_access_list_is_refused() {
    let with = |source: &str| {
        paths("ann", Some(Credential::Password), |all| {
            let module = "ietf-access-control-list";
            all[format!("{module}:acls")] = json!({
                "acl": [{ "name": "edge", "type": format!("{module}:ipv4-acl-type"), "aces": { "ace": [{
                    "name": "noc",
                    "matches": {
                        "ipv4": { "source-ipv4-network": source },
                        "tcp": { "destination-port": { "port": 8443 } },
                    },
                    "actions": { "forwarding": format!("{module}:accept") },
                }] } }],
                "attachment-points": { "interface": [{
                    "interface-id": "lan",
                    "ingress": { "acl-sets": { "acl-set": [{ "name": "edge" }] } },
                }] },
            });
        })
    };
    assert_eq!(with("192.0.2.0/24"), [""; 0]);
    let point = "/ietf-access-control-list:acls/attachment-points/interface[interface-id='lan']";
    assert_eq!(with("203.0.113.0/24"), [format!("{point}/ingress")]);
}

#[test]
fn losing_the_session_to_a_pair_of_zones_is_refused() {
    let with = |from: &str, port: u16| {
        paths("ann", Some(Credential::Password), |all| {
            let module = "ietf-access-control-list";
            all[format!("{module}:acls")] = json!({
                "acl": [{ "name": "edge", "aces": { "ace": [{
                    "name": "noc",
                    "matches": { "tcp": { "destination-port": { "port": port } } },
                    "actions": { "forwarding": format!("{module}:accept") },
                }] } }],
                "stoa-acl:zones": { "zone": [
                    { "name": "inside", "interface": ["lan"] }, { "name": "outside", "interface": ["wan"] },
                ] },
                "stoa-acl:zone-pairs": { "zone-pair": [
                    { "from": from, "to": "router", "acl-sets": { "acl-set": [{ "name": "edge" }] } },
                ] },
            });
        })
    };
    assert_eq!(with("inside", 8443), [""; 0]);
    assert_eq!(with("outside", 22), [""; 0], "a pair of another zone");
    let pair =
        "/ietf-access-control-list:acls/stoa-acl:zone-pairs/zone-pair[from='inside'][to='router']";
    assert_eq!(with("inside", 22), [pair]);
}

#[test]
fn losing_the_session_to_a_port_forward_is_refused() {
    let with = |external: &str, port: u16| {
        paths("ann", Some(Credential::Password), |all| {
            all["ietf-nat:nat"] = json!({ "instances": { "instance": [{
                "id": 1,
                "policy": [{ "id": 1, "external-realm": { "external-interface": "lan" } }],
                "mapping-table": { "mapping-entry": [{
                    "index": 7, "transport-protocol": 6,
                    "external-src-address": format!("{external}/32"),
                    "external-src-port": { "start-port-number": port },
                    "internal-src-address": "10.0.0.8/32",
                    "internal-src-port": { "start-port-number": 443 },
                }] },
            }] } });
        })
    };
    let mapping = "/ietf-nat:nat/instances/instance[id='1']/mapping-table/mapping-entry[index='7']";
    assert_eq!(with("192.0.2.1", 8443), [mapping]);
    assert_eq!(with("192.0.2.1", 8444), [""; 0]);
    assert_eq!(with("192.0.2.99", 8443), [""; 0]);
}

#[test]
fn losing_the_user_or_the_credential_is_refused() {
    let of_user = |credential, change: fn(&mut Value)| {
        paths("ann", Some(credential), |all| change(&mut all["stoa-management:management"]["user"]))
    };
    let none: [&str; 0] = [];
    assert_eq!(of_user(Credential::Token, |all| *all = json!([{ "name": "bob" }])), [ANN]);
    assert_eq!(
        of_user(Credential::Token, |all| all[0]["admin"] = json!(false)),
        [format!("{ANN}/admin")]
    );
    let no_hash = |all: &mut Value| {
        all[0].as_object_mut().unwrap().remove("password-hash");
    };
    assert_eq!(of_user(Credential::Password, no_hash), [format!("{ANN}/password-hash")]);
    assert_eq!(of_user(Credential::Token, no_hash), none);
    assert_eq!(
        of_user(Credential::Password, |all| all[1]["group"] = json!([])),
        none,
        "another user"
    );
    let ca = |file: Option<&'static str>| {
        paths("ann", Some(Credential::Certificate), |all| {
            let https = all["stoa-management:management"]["https"].as_object_mut().unwrap();
            https.remove("client-ca");
            https.extend(file.map(|file| ("client-ca".to_owned(), json!(file))));
        })
    };
    assert_eq!(ca(None), [format!("{HTTPS}/client-ca")]);
    assert_eq!(ca(Some("/other")), [format!("{HTTPS}/client-ca")]);
    assert_eq!(ca(Some("/ca")), none);
}

#[test]
fn losing_rights_is_refused() {
    let of_rules = |name: &str, change: fn(&mut Value)| {
        paths(name, Some(Credential::Token), |all| change(&mut all["ietf-netconf-acm:nacm"]))
    };
    const RULES: [&str; 1] = ["/ietf-netconf-acm:nacm"];
    let none: [&str; 0] = [];
    assert_eq!(of_rules("bob", |nacm| nacm["rule-list"] = json!([])), RULES);
    assert_eq!(of_rules("ann", |nacm| nacm["rule-list"] = json!([])), none);
    assert_eq!(of_rules("bob", |nacm| nacm["enable-external-groups"] = json!(false)), RULES);
    assert_eq!(of_rules("bob", |nacm| nacm["write-default"] = json!("permit")), none);
    assert_eq!(of_rules("bob", |nacm| nacm["enable-nacm"] = json!(false)), none);
    assert_eq!(of_rules("nobody", |nacm| nacm["rule-list"] = json!([])), none);
}

#[test]
fn losing_the_interface_with_the_address_is_refused() {
    let of_lan = |change: fn(&mut Value)| {
        paths("ann", None, |all| change(&mut all["ietf-interfaces:interfaces"]["interface"][0]))
    };
    let none: [&str; 0] = [];
    assert_eq!(of_lan(|lan| lan["enabled"] = json!(false)), [format!("{LAN}/enabled")]);
    assert_eq!(
        of_lan(|lan| lan["name"] = json!("other")),
        none,
        "another interface has the address"
    );
    assert_eq!(
        of_lan(|lan| lan["ietf-ip:ipv4"]["enabled"] = json!(false)),
        [format!("{LAN}/ietf-ip:ipv4/enabled")]
    );
    assert_eq!(
        of_lan(|lan| lan["ietf-ip:ipv4"]["address"] = json!([])),
        [format!("{LAN}/ietf-ip:ipv4/address[ip='192.0.2.1']")]
    );
    assert_eq!(of_lan(|lan| lan["description"] = json!("other")), none);
    let gone = paths("ann", None, |all| {
        all["ietf-interfaces:interfaces"]["interface"] = json!([]);
    });
    assert_eq!(gone, [LAN]);
}
