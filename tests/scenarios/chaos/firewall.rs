//! Rules, zones, limits and NAT of the first router, in many variants.

use serde_json::{Value, json};

use super::subscribers::{NETWORKS, Size};

const ACCEPT: &str = "ietf-access-control-list:accept";
/// The lists: what hosts inside begin, and what comes in.
const OUT: &str = "out";
const IN: &str = "in";
/// Numbers of the instances of NAT: the one with port sets for subscribers, and NAT64.
const CGN: u64 = 1;
const NAT64: u64 = 64;

/// What differs: digits of a number, each below its base. All are 0 in the first variant, in which all traffic passes.
struct Digits(u64);

impl Digits {
    /// The next digit.
    fn next(&mut self, base: u64) -> u64 {
        let digit = self.0 % base;
        self.0 /= base;
        digit
    }
}

/// Adds rules, zones, limits and NAT to a configuration. `keeps_flows`: no variant follows flows without the short
/// timeouts, so that all of them end soon by themselves.
pub fn add(configuration: &mut Value, which: u64, size: Size, keeps_flows: bool) {
    // Other digits than those that choose ports and routes.
    let mut digits = Digits(which / 61);
    configuration["ietf-access-control-list:acls"] = rules(&mut digits, size, keeps_flows);
    configuration["ietf-nat:nat"] = nat(&mut digits);
    let capacity = size.capacity();
    // In force from the start on, so the same in all variants. Workers hand flows to each other.
    configuration["stoa-system:system"] = json!({
        "workers": { "count": 2 },
        "limits": {
            "ipv4-flows": capacity, "ipv6-flows": 65_536,
            "nat-flows": capacity, "nat-mappings": capacity,
        },
    });
}

fn rule(name: &str, matches: Value, is_stateful: bool) -> Value {
    let mut actions = json!({ "forwarding": ACCEPT });
    if is_stateful {
        actions["stoa-acl:stateful"] = json!(true);
        actions["stoa-acl:flow-profile"] = json!("short");
    }
    json!({ "name": name, "matches": matches, "actions": actions })
}

fn rules(digits: &mut Digits, size: Size, keeps_flows: bool) -> Value {
    let to_port =
        |protocol: &str, port: u64| json!({ protocol: { "destination-port": { "port": port } } });
    let mut ftp = rule("ftp", to_port("tcp", 21), true);
    ftp["actions"]["stoa-acl:alg"] = json!("ftp");
    let mut out = vec![ftp];
    // Rules that meet nothing, before the one that meets all.
    for port in 0..digits.next(4) * 20 {
        out.push(rule(
            &format!("port-{port}"),
            to_port("udp", 40_000 + port),
            port.is_multiple_of(2),
        ));
    }
    let is_stateful = digits.next(6) != 1 || keeps_flows;
    out.push(rule("any", json!({}), is_stateful));
    let inward =
        [rule("web", to_port("tcp", 80), true), rule("datagrams", json!({ "udp": {} }), true)];
    let list = |name: &str, rules: &[Value]| json!({ "name": name, "aces": { "ace": rules } });
    let mut acls = json!({
        "acl": [list(OUT, &out), list(IN, &inward)],
        "stoa-acl:flow-profile": [profile(digits, size)],
    });
    let has_zones = digits.next(6) != 1;
    if has_zones {
        zones(&mut acls, digits);
    } else {
        let sets = json!({ "acl-sets": { "acl-set": [{ "name": OUT }] } });
        let lists = json!({ "interface-id": "host-a", "ingress": sets });
        acls["attachment-points"] = json!({ "interface": [lists] });
    }
    if let Some(limits) = limits(digits, size, has_zones) {
        acls["stoa-acl:flow-limits"] = limits;
    }
    acls
}

/// Timeouts so short that flows end while the test watches.
fn profile(digits: &mut Digits, size: Size) -> Value {
    let seconds = size.timeout_s() * (1 + u64::from(digits.next(4) == 1));
    let states = [
        "tcp-opening",
        "tcp-established",
        "tcp-half-closed",
        "tcp-closing",
        "tcp-time-wait",
        "tcp-reset",
        "udp-new",
        "udp-replied",
        "icmp",
        "other-new",
        "other-replied",
    ];
    let mut timeouts = json!({});
    for state in states {
        timeouts[state] = json!(seconds);
    }
    let check = digits.next(4);
    let tcp = json!({ "loose": check == 1, "liberal": check == 2 });
    json!({ "name": "short", "timeouts": timeouts, "tcp": tcp })
}

fn zones(acls: &mut Value, digits: &mut Digits) {
    let zone = |name: &str, interfaces: [&str; 2]| json!({ "name": name, "interface": interfaces });
    let mut outside = zone("outside", ["host-b", "peer"]);
    if digits.next(4) == 1 {
        outside["syn-cookies"] = json!({ "threshold": 0 });
    }
    let pair = |from: &str, to: &str, list: &str| json!({ "from": from, "to": to, "acl-sets": { "acl-set": [{ "name": list }] } });
    acls["stoa-acl:zones"] = json!({ "zone": [zone("inside", ["host-a", "host-c"]), outside] });
    acls["stoa-acl:zone-pairs"] =
        json!({ "zone-pair": [pair("inside", "outside", OUT), pair("outside", "inside", IN)] });
}

/// Limits that nobody reaches, or that refuse flows, or none.
fn limits(digits: &mut Digits, size: Size, has_zones: bool) -> Option<Value> {
    let capacity = size.capacity();
    let mut made = json!({
        "host": { "live": size.flows.max(1_000), "half-open": 1_000 },
        "prefix": { "ipv4-length": 20, "live": capacity },
        "vrf": [{ "name": "default", "live": 2 * capacity, "half-open": 20_000 }],
    });
    let mut zone = json!({ "name": "inside", "live": 2 * capacity });
    match digits.next(5) {
        1 => made["host"]["live"] = json!(20),
        2 => zone["new-per-second"] = json!(500),
        3 => made["prefix"] = json!({ "live": size.flows / 2 }),
        4 => return None,
        _ => {}
    }
    if has_zones {
        made["zone"] = json!([zone]);
    }
    Some(made)
}

fn nat(digits: &mut Digits) -> Value {
    let ftp = json!([{ "name": "ftp", "transport-protocol": 6, "status": true }]);
    let external = json!({ "external-interface": "host-b" });
    let mut cgn = json!({
        "id": 1,
        "external-realm": external,
        "subscriber-match": [{ "match-id": 1, "subnet": NETWORKS[0] }],
        "external-ip-address-pool": [{ "pool-id": 1, "external-ip-pool": "203.0.113.16/28" }],
        "port-allocation-type": "port-range-allocation",
        "port-set": { "port-set-size": 32, "port-set-timeout": 1, "stoa-nat:max-port-sets": 8 },
        "port-quota": [{ "quota-type": 0, "port-limit": 250 }],
        "algs": ftp,
    });
    let hosts = json!({
        "id": 2,
        "external-realm": external,
        "subscriber-match": [{ "match-id": 1, "subnet": "198.18.1.0/24" }],
        "mapping-type": "edm",
        "algs": ftp,
    });
    let mut instance = json!({ "id": CGN });
    match digits.next(8) {
        1 => {
            cgn["port-set"]["stoa-nat:max-port-sets"] = json!(2);
            cgn["port-quota"][0]["port-limit"] = json!(40);
        }
        2 => cgn["port-set"]["port-set-size"] = json!(64),
        3 => cgn["filtering-type"] = json!("eif"),
        4 => cgn["mapping-type"] = json!("edm"),
        5 => instance["enable"] = json!(false),
        6 => cgn["external-ip-address-pool"][0]["external-ip-pool"] = json!("203.0.113.32/28"),
        7 => cgn["algs"] = json!([]),
        _ => {}
    }
    instance["policy"] = json!([cgn, hosts]);
    match digits.next(3) {
        1 => instance["mapping-table"] = json!({ "mapping-entry": [forward()] }),
        2 => instance["mapping-table"] = json!({ "mapping-entry": [alone()] }),
        _ => {}
    }
    let mut instances = vec![instance];
    if digits.next(4) != 1 {
        let prefix = json!([{ "nat64-prefix": "2001:db8:64::/96" }]);
        let policy = json!({ "id": 1, "external-realm": external, "nat64-prefixes": prefix });
        instances.push(json!({ "id": NAT64, "type": "ietf-nat:nat64", "policy": [policy] }));
    }
    json!({ "instances": { "instance": instances } })
}

/// A forwarded port.
fn forward() -> Value {
    json!({
        "index": 1, "type": "static", "transport-protocol": 6,
        "external-src-address": "203.0.113.5/32", "external-src-port": { "start-port-number": 80 },
        "internal-src-address": "198.18.1.2/32", "internal-src-port": { "start-port-number": 80 },
    })
}

/// A subscriber with an address of its own.
fn alone() -> Value {
    json!({
        "index": 2, "type": "static",
        "external-src-address": "203.0.113.6/32", "internal-src-address": "198.19.0.1/32",
    })
}
