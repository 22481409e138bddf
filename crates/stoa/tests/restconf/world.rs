//! The router of these tests: two users, and rules for one of them.

use std::io::Write;

use serde_json::{Value, json};

use crate::https::Router;

pub const JSON: (&str, &str) = ("Content-Type", "application/yang-data+json");
pub const XML: (&str, &str) = ("Content-Type", "application/yang-data+xml");
pub const AS_XML: (&str, &str) = ("Accept", "application/yang-data+xml");
pub const INTERFACES: &str = "/restconf/data/ietf-interfaces:interfaces";
pub const LAN: &str = "/restconf/data/ietf-interfaces:interfaces/interface=lan";
pub const ROOT: &str = "root:correct horse";
pub const ANN: &str = "ann:correct horse";

/// The hash of the password of all users.
pub fn hash() -> String {
    // Made by the program itself, so that the test knows none.
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_stoa"));
    command.args(["user", "hash"]).stdin(std::process::Stdio::piped());
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"correct horse\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

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
