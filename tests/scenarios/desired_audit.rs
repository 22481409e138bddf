//! The audit of the desired state with both halves: equal within five seconds after either of them was killed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stoa_lab::{Background, Command, Result, Scratch, stoa_binary, wait_until};

/// The bar of a restart of either half, on an idle machine; a test machine may be busy.
const BAR: Duration = Duration::from_secs(5);
const DEADLINE: Duration = Duration::from_secs(30);

/// Interfaces without devices, with entries of all kinds but plugins.
fn configuration() -> Value {
    let virtual_router = json!({ "vrrp-instance": [{
        "vrid": 1, "version": "ietf-vrrp:vrrp-v3",
        "virtual-ipv4-addresses": { "virtual-ipv4-address": [{ "ipv4-address": "192.0.2.100" }] }
    }] });
    let lan = json!({
        "name": "lan", "type": "iana-if-type:ethernetCsmacd",
        "stoa-interfaces:port": { "null": {} },
        "stoa-bfd:bfd": { "session": [{ "dest-addr": "192.0.2.9" }] },
        "stoa-login:login": { "garden": ["203.0.113.0/24", "2001:db8:9::/48"] },
        "ietf-ip:ipv4": {
            "forwarding": true,
            "address": [{ "ip": "192.0.2.2", "prefix-length": 24 }],
            "neighbor": [{ "ip": "192.0.2.7", "link-layer-address": "02:00:00:00:00:07" }],
            "ietf-vrrp:vrrp": virtual_router,
        },
        "ietf-ip:ipv6": {
            "forwarding": true,
            "address": [{ "ip": "2001:db8:1::1", "prefix-length": 64 }],
            "ietf-ipv6-unicast-routing:ipv6-router-advertisements": { "send-advertisements": true },
        },
    });
    let tunnel = json!({
        "name": "gre0", "type": "iana-if-type:tunnel",
        "stoa-interfaces:port": {
            "tunnel": { "encapsulation": "gre", "local": "192.0.2.2", "remote": "198.51.100.1" }
        },
        "ietf-ip:ipv4": {
            "forwarding": true, "address": [{ "ip": "10.9.0.1", "prefix-length": 30 }]
        },
    });
    let protected = json!({
        "name": "esp0", "type": "iana-if-type:tunnel",
        "stoa-interfaces:port": {
            "tunnel": { "encapsulation": "esp", "local": "192.0.2.2", "remote": "198.51.100.2" }
        },
    });
    let key = |bytes: usize, byte: &str| vec![byte; bytes].join(":");
    // A key of CBC: those of counter modes are for one process of the forwarder.
    let association = json!({
        "name": "out", "interface": "esp0", "direction": "outbound",
        "ipsec-sa-config": {
            "spi": 4097,
            "esp-sa": { "encryption": { "key": key(16, "01") }, "integrity": { "key": key(32, "02") } },
        },
    });
    let route = json!({
        "destination-prefix": "10.20.0.0/16", "next-hop": { "outgoing-interface": "gre0" }
    });
    let rule = json!({
        "vrf": "default", "address-family": "ipv4", "priority": 100,
        "match": { "source-prefix": "10.1.0.0/16" }, "table": "second"
    });
    let lists = json!({
        "acl": [{ "name": "web", "aces": { "ace": [{
            "name": "https", "matches": { "tcp": { "destination-port": { "port": 443 } } },
            "actions": { "forwarding": "ietf-access-control-list:accept" },
        }] } }],
        "attachment-points": { "interface": [{
            "interface-id": "gre0",
            "ingress": { "acl-sets": { "acl-set": [{ "name": "web" }] } },
        }] },
        "stoa-acl:flow-limits": { "host": { "live": 100 } },
        "stoa-acl:existing-flows": "keep",
        "stoa-acl:zones": { "zone": [
            { "name": "inside", "interface": ["gre0"] }, { "name": "outside", "interface": ["lan"] },
        ] },
        "stoa-acl:zone-pairs": { "zone-pair": [
            { "from": "inside", "to": "outside", "acl-sets": { "acl-set": [{ "name": "web" }] } },
        ] },
    });
    let ports = |port: u16| json!({ "start-port-number": port });
    let forward = json!({
        "index": 1, "type": "static", "transport-protocol": 6,
        "internal-src-address": "10.9.0.2/32", "internal-src-port": ports(8443),
        "external-src-address": "192.0.2.2/32", "external-src-port": ports(8443),
    });
    let realm = json!({ "external-interface": "lan" });
    let prefixes = json!({
        "internal-ipv6-prefix": "fd12:3456:789a::/48", "external-ipv6-prefix": "2001:db8:2::/48"
    });
    let mapping = json!({ "ipv4-prefix": "203.0.113.77/32", "ipv6-prefix": "2001:db8:1::80/128" });
    let nat = json!({ "instances": { "instance": [
        {
            "id": 1, "policy": [{ "id": 1, "external-realm": realm }],
            "mapping-table": { "mapping-entry": [forward] },
        },
        {
            "id": 6, "type": "ietf-nat:nptv6",
            "policy": [{ "id": 1, "external-realm": realm, "nptv6-prefixes": [prefixes] }],
        },
        {
            "id": 46, "type": "ietf-nat:siit",
            "policy": [{
                "id": 1, "nat64-prefixes": [{ "nat64-prefix": "2001:db8:46::/96" }], "eam": [mapping],
            }],
        },
    ] } });
    json!({
        "ietf-access-control-list:acls": lists,
        "ietf-nat:nat": nat,
        "stoa-login:login": {
            "portal": { "address": ["192.0.2.2"], "url": "https://portal.example.net:8444/" },
        },
        "stoa-flow-sync:flow-sync": {
            "local-address": "127.0.0.1", "partner-address": "127.0.0.2",
            "secret": "a secret of sixteen",
        },
        "stoa-ipfix:ipfix": { "collector": [{ "name": "nobody", "address": "192.0.2.9" }] },
        "stoa-vrf:vrfs": { "vrf": [{ "name": "second" }] },
        "stoa-system:system": { "punt": { "class": [{ "name": "arp", "rate": 200 }] } },
        "ietf-interfaces:interfaces": { "interface": [lan, tunnel, protected] },
        "stoa-ipsec:ipsec": { "sad": { "sad-entry": [association] } },
        "ietf-routing:routing": {
            "stoa-policy:policy": { "rule": [rule] },
            "control-plane-protocols": { "control-plane-protocol": [{
                "type": "ietf-routing:static", "name": "static",
                "static-routes": { "ietf-ipv4-unicast-routing:ipv4": { "route": [route] } }
            }] },
        },
    })
}

struct Router {
    scratch: Scratch,
    process: Background,
}

impl Router {
    fn begin() -> Result<Self> {
        let scratch = Scratch::new()?;
        let config = scratch.write("stoa.json", configuration().to_string())?;
        let process = Command::program(stoa_binary()?)
            .args(["run", "--config", &config.to_string_lossy()])
            .args(["--socket", &scratch.file("stoa.sock").to_string_lossy()])
            .spawn()?;
        Ok(Self { scratch, process })
    }

    fn json(&self, words: &[&str]) -> std::result::Result<Value, String> {
        let socket = self.scratch.file("stoa.sock");
        let command = Command::program(stoa_binary().map_err(|error| error.to_string())?);
        let command = command.args(words).args(["--json", "--socket", &socket.to_string_lossy()]);
        let output = command.run().and_then(stoa_lab::Output::ok).map_err(|it| it.to_string())?;
        serde_json::from_str(&output.stdout).map_err(|error| error.to_string())
    }

    /// Waits until both sides are equal; returns the tables of the desired state with their entries.
    fn wait_equal(&self) -> Result<Vec<(String, u64)>> {
        wait_until("the audit is equal", DEADLINE, || {
            let audit = self.json(&["show", "audit"])?;
            let tables = audit["tables"].as_array().cloned().unwrap_or_default();
            // Those of the desired state are there only when the forwarder was audited.
            let of_state: Vec<_> = tables.iter().filter(|it| it["table"] != "routes").collect();
            if audit["audit"] != "equal" || of_state.len() < 20 {
                return Err(format!("{audit} {}", self.process.log()));
            }
            let row = |it: &&Value| {
                let name = it["table"].as_str().unwrap_or_default().to_owned();
                (name, it["held"].as_u64().unwrap_or_default())
            };
            Ok(of_state.iter().map(row).collect())
        })
    }
}

#[test]
fn both_sides_are_equal_after_either_half_was_killed() -> Result<()> {
    let router = Router::begin()?;
    let before = router.wait_equal()?;
    for (kind, entries) in &before {
        // Nobody has logged in.
        let is_empty = matches!(kind.as_str(), "plugin-settings" | "logins");
        assert_eq!(*entries == 0, is_empty, "{kind}: {entries} entries");
    }
    for half in ["forwarder", "controller", "forwarder", "controller"] {
        let pid = || -> std::result::Result<String, String> {
            Ok(router.json(&["status"])?[format!("{half}_pid")].to_string())
        };
        let old = pid().unwrap_or_else(|error| panic!("{error}"));
        let killed = Instant::now();
        Command::program("/bin/kill").args(["-KILL", &old]).run()?.ok()?;
        wait_until(&format!("another {half}"), DEADLINE, || {
            let now = pid()?;
            if now != old && now != "0" { Ok(()) } else { Err(now) }
        })?;
        assert_eq!(router.wait_equal()?, before, "after kill -9 of the {half}");
        let took = killed.elapsed();
        println!("audit equal {:.1} s after kill -9 of the {half}", took.as_secs_f64());
        assert!(took < 2 * BAR, "{took:?}");
    }
    let log = router.process.log();
    assert!(!log.contains("were not in force"), "nothing was lost: {log}");
    let (_, _, status) = router.process.stop()?;
    assert!(status.success(), "{log}");
    Ok(())
}
