//! Static routes of two protocol instances to the same prefix.

use serde_json::json;

use super::*;

#[test]
fn an_unresolved_route_wins_over_a_floating_one() {
    let of = |name: &str, route: serde_json::Value| {
        json!({
            "type": "ietf-routing:static", "name": name,
            "static-routes": { "ietf-ipv4-unicast-routing:ipv4": { "route": [route] } },
        })
    };
    // In both orders of the names, so that the index does not decide.
    for (waits, floats) in [("a", "b"), ("b", "a")] {
        let waiting = json!({
            "destination-prefix": "10.8.0.0/16", "next-hop": { "next-hop-address": "172.16.0.9" },
        });
        let floating = json!({
            "destination-prefix": "10.8.0.0/16", "stoa-routing:preference": 1,
            "next-hop": { "next-hop-address": "10.1.0.9" },
        });
        let port = |name: &str, number: u8| {
            json!({
                "name": name, "type": "iana-if-type:ethernetCsmacd",
                "stoa-interfaces:port": { "null": {} },
                "ietf-ip:ipv4": { "address": [{ "ip": format!("10.{number}.0.1"), "prefix-length": 24 }] },
            })
        };
        let text = json!({
            "ietf-interfaces:interfaces": { "interface": [port("a", 1), port("b", 2)] },
            "ietf-routing:routing": { "control-plane-protocols": {
                "control-plane-protocol": [of(waits, waiting), of(floats, floating)],
            } },
        });
        let configuration = Configuration::parse(Path::new("test"), text.to_string()).unwrap();
        let (mut table, mut fib, frr) = (Table::default(), TestFib::default(), source("frr", ""));
        table.configure(&Arc::new(configuration));
        fib.sync(&mut table);
        assert_eq!(fib.path("", prefix("10.8.0.0/16")), "via 10.1.0.9 dev a");
        let ospf = routes(v1::Protocol::Ospf, Some(direct("b", "10.2.0.5")), &["172.16.0.0/24"]);
        table.process(&frr, vec![ospf], Instant::now());
        fib.sync(&mut table);
        assert_eq!(fib.path("", prefix("10.8.0.0/16")), "via 10.2.0.5 dev b");
    }
}
