//! Searches of flows and of what address translation has in use, and the counters of access lists beside them.

use serde_json::{Value, json};

use crate::https::{Answer, Router, hash};
use crate::testbed::{ANN, AS_XML, JSON, ROOT};

const ACLS: &str = "/restconf/data/ietf-access-control-list:acls";

/// A router with a generator whose packets a stateful rule admits and NAT44 translates.
fn router() -> Router {
    let interface = |name: &str, port: Value, address: &str| {
        json!({
            "name": name, "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": port,
            "ietf-ip:ipv4": { "forwarding": true, "address": [{ "ip": address, "prefix-length": 24 }] },
        })
    };
    let generator = json!({ "generator": {
        "rate": "500", "source": "198.18.1.2", "destination": "198.18.2.2" } });
    let mut out = interface("out", json!({ "null": {} }), "198.18.2.1");
    out["ietf-ip:ipv4"]["neighbor"] =
        json!([{ "ip": "198.18.2.2", "link-layer-address": "02:00:00:00:02:02" }]);
    let rule = json!({ "name": "all", "actions": {
        "forwarding": "ietf-access-control-list:accept", "stoa-acl:stateful": true } });
    let policy = json!({
        "id": 10, "external-realm": { "external-interface": "out" },
        "external-ip-address-pool": [{ "pool-id": 1, "external-ip-pool": "203.0.113.16/28" }],
        "port-allocation-type": "port-range-allocation", "port-set": { "port-set-size": 512 },
    });
    let mapping = json!({
        "index": 3, "transport-protocol": 6,
        "external-src-address": "203.0.113.40/32", "external-src-port": { "start-port-number": 80 },
        "stoa-nat:backend": [{ "id": 1, "address": "198.18.1.80", "start-port-number": 8080 }],
    });
    let instance =
        json!({ "id": 1, "policy": [policy], "mapping-table": { "mapping-entry": [mapping] } });
    let configuration = json!({
        "ietf-interfaces:interfaces": { "interface": [interface("in", generator, "198.18.1.1"), out] },
        "ietf-access-control-list:acls": {
            "acl": [{ "name": "edge", "aces": { "ace": [rule] } }],
            "stoa-acl:zones": { "zone": [
                { "name": "inside", "interface": ["in"] },
                { "name": "outside", "interface": ["out"], "syn-cookies": {} },
            ] },
            "stoa-acl:zone-pairs": { "zone-pair": [
                { "from": "inside", "to": "outside", "acl-sets": { "acl-set": [{ "name": "edge" }] } },
            ] },
            "attachment-points": { "interface": [{
                "interface-id": "in", "ingress": { "acl-sets": { "acl-set": [{ "name": "edge" }] } },
            }] },
        },
        "ietf-nat:nat": { "instances": { "instance": [instance] } },
    });
    let hash = hash();
    let users = json!([
        { "name": "root", "password-hash": hash, "admin": true },
        { "name": "ann", "password-hash": hash },
    ]);
    Router::start(configuration, users)
}

impl Router {
    fn search(&self, who: &str, operation: &str, input: Value) -> Answer {
        let module = operation.split(':').next().unwrap();
        let body = json!({ format!("{module}:input"): input }).to_string();
        self.ask(who, "POST", &format!("/restconf/operations/{operation}"), &[JSON], &body)
    }

    fn flows(&self, input: Value) -> Value {
        let answer = self.search(ANN, "stoa-acl:find-flows", input);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["stoa-acl:output"].clone()
    }

    fn translations(&self, input: Value) -> Value {
        let answer = self.search(ANN, "stoa-nat:find-translations", input);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["stoa-nat:output"].clone()
    }
}

#[test]
fn flows_are_searched_as_by_the_command() {
    let router = router();
    router.wait("there is a flow", || router.flows(json!({}))["matching"] == "1");
    let found = router.flows(json!({ "order": "rate" }));
    let flow = &found["flow"][0];
    assert_eq!((&flow["source-address"], &flow["protocol"]), (&json!("198.18.1.2"), &json!(17)));
    assert_eq!((&flow["state"], &flow["ace"]), (&json!("udp-new"), &json!("all")));
    let external = flow["translated-source-address"].as_str().unwrap();
    assert!(external.starts_with("203.0.113."), "{flow}");
    let matching = |input| router.flows(input)["matching"].clone();
    let port = flow["destination-port"].clone();
    let all = json!({ "prefix": format!("{external}/32"), "port": port, "protocol": "udp",
        "vrf": "default", "state": ["udp-new", "suspended"], "limit": 1 });
    assert_eq!(matching(all), "1");
    assert_eq!(matching(json!({ "protocol": "icmp" })), "0");
    assert_eq!(matching(json!({ "prefix": "2001:db8::1" })), "0");
    assert_eq!(matching(json!({ "prefix": "198.18.0.0/16" })), "1");

    let refused = |input| {
        let answer = router.search(ANN, "stoa-acl:find-flows", input);
        (answer.status, answer.body)
    };
    for (input, words) in [
        (json!({ "protocol": "none" }), "tcp"),
        (json!({ "vrf": "red" }), "red"),
        (json!({ "state": ["open"] }), "tcp-established"),
        (json!({ "limit": 0 }), "1 to 1000"),
        (json!({ "prefix": "10.0.0.0/33" }), "10.0.0.0/33"),
    ] {
        let (status, body) = refused(input);
        assert!(status == 400 && body.contains(words), "{words}: {body}");
    }
    // The output is what the module says: libyang checks it on the way to XML.
    for operation in ["stoa-acl:find-flows", "stoa-nat:find-translations"] {
        let path = format!("/restconf/operations/{operation}");
        let answer = router.ask(ROOT, "POST", &path, &[AS_XML], "");
        assert!(answer.status == 200 && answer.body.starts_with("<output"), "{answer:?}");
    }
    let rule = json!({ "name": "flows", "module-name": "*", "access-operations": "read",
        "path": "/ietf-access-control-list:acls/stoa-acl:flows", "action": "deny" });
    let list = json!({ "name": "all", "group": ["*"], "rule": [rule] });
    let nacm = json!({ "ietf-netconf-acm:nacm": { "rule-list": [list] } }).to_string();
    let path = "/restconf/data/ietf-netconf-acm:nacm";
    assert_eq!(router.ask(ROOT, "PATCH", path, &[JSON], &nacm).status, 204);
    assert_eq!(router.search(ANN, "stoa-acl:find-flows", json!({})).status, 403);
    assert_eq!(router.search(ROOT, "stoa-acl:find-flows", json!({})).status, 200);
    assert_eq!(router.search(ANN, "stoa-nat:find-translations", json!({})).status, 200);
}

#[test]
fn translations_have_addresses_mappings_and_subscribers() {
    let router = router();
    let has_set = |found: &Value| found["matching-subscribers"] == "1";
    router.wait("a subscriber has a port set", || has_set(&router.translations(json!({}))));
    let found = router.translations(json!({}));
    assert_eq!((&found["active-flows"], &found["used-addresses"]), (&json!("1"), &json!("1")));
    let subscriber = &found["subscriber"][0];
    assert_eq!(subscriber["prefix"], "198.18.1.2/32");
    let udp = json!({ "protocol": "udp", "used": 1, "limit": 2048 });
    assert_eq!((&subscriber["ports"][1], &subscriber["port-set-limit"]), (&udp, &json!(4)));
    let mapping = &found["mapping"][0];
    assert_eq!(
        (&mapping["internal-address"], &mapping["policy"]),
        (&json!("198.18.1.2"), &json!(10))
    );
    let fixed = &found["static-mapping"][0];
    assert_eq!((&fixed["index"], &fixed["external-ports"]), (&json!(3), &json!("80")));
    assert_eq!(fixed["backend"][0]["address"], "198.18.1.80");
    let none = router.translations(json!({ "prefix": "198.18.1.9" }));
    assert_eq!(
        (&none["matching-mappings"], &none["matching-subscribers"]),
        (&json!("0"), &json!("0"))
    );
    assert_eq!(router.translations(json!({ "leased": true }))["matching-mappings"], "0");
}

#[test]
fn lists_and_zones_are_counted_without_the_number_of_flows() {
    let router = router();
    let acls = |query: &str| {
        let answer = router.ask(ANN, "GET", &format!("{ACLS}{query}"), &[], "");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["ietf-access-control-list:acls"].clone()
    };
    let fields = "?fields=acl;stoa-acl:zones;stoa-acl:zone-pairs;stoa-acl:unmatched";
    router.wait("a packet has met the rule", || {
        acls(fields)["acl"][0]["aces"]["ace"][0]["statistics"]["matched-packets"] != "0"
    });
    let found = acls(fields);
    let statistics = &found["stoa-acl:zone-pairs"]["zone-pair"][0]["statistics"];
    assert_eq!(statistics["dropped-packets"], "0", "{found}");
    assert_eq!(found["stoa-acl:zone-pairs"]["unpaired"]["dropped-packets"], "0");
    let outside = &found["stoa-acl:zones"]["zone"];
    let outside = outside.as_array().unwrap().iter().find(|zone| zone["name"] == "outside");
    assert_eq!(outside.unwrap()["syn-cookies-state"]["active"], false, "{found}");
    let rows = found["stoa-acl:unmatched"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["family"] == "ipv4" && row["acls"] == "edge"), "{found}");
    assert!(found.get("stoa-acl:flows").is_none());
    assert!(acls("")["stoa-acl:flows"]["family"].is_array());
}
