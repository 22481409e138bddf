//! The router of these tests: two users, and access rules for one of them.

use serde_json::{Value, json};

use crate::https::{Router, hash};

pub const JSON: (&str, &str) = ("Content-Type", "application/yang-data+json");
pub const XML: (&str, &str) = ("Content-Type", "application/yang-data+xml");
pub const AS_XML: (&str, &str) = ("Accept", "application/yang-data+xml");
pub const INTERFACES: &str = "/restconf/data/ietf-interfaces:interfaces";
pub const LAN: &str = "/restconf/data/ietf-interfaces:interfaces/interface=lan";
pub const ROOT: &str = "root:correct horse";
pub const ANN: &str = "ann:correct horse";

pub fn interface(name: &str, address: &str) -> Value {
    json!({
        "name": name, "type": "iana-if-type:ethernetCsmacd",
        "stoa-interfaces:port": { "null": {} },
        "ietf-ip:ipv4": { "address": [{ "ip": address, "prefix-length": 24 }] },
    })
}

pub fn router() -> Router {
    let hash = hash();
    let configuration = json!({
        "ietf-interfaces:interfaces": { "interface": [interface("lan", "10.0.0.1")] },
        "ietf-netconf-acm:nacm": {
            "groups": { "group": [{ "name": "ops", "user-name": ["ann"] }] },
            "rule-list": [{ "name": "ops", "group": ["ops"], "rule": [
                { "name": "texts", "module-name": "ietf-interfaces", "access-operations": "create update",
                  "action": "permit",
                  "path": "/ietf-interfaces:interfaces/interface[name='lan']/description" },
                { "name": "no-vrfs", "module-name": "stoa-vrf", "access-operations": "read",
                  "action": "deny" },
            ]}],
        },
        "stoa-vrf:vrfs": { "vrf": [{ "name": "red" }] },
    });
    let users = json!([
        { "name": "root", "password-hash": hash, "admin": true },
        { "name": "ann", "password-hash": hash },
    ]);
    Router::start(configuration, users)
}
