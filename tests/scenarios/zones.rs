//! Zones with the tools that people use: what passes between three hosts and the router.

use serde_json::{Value, json};
use stoa_lab::{Configuration, Host, Result, Router, Tool, Topology, stoa_binary};
use stoa_scenarios::{Scenario, side};

use crate::acl::serve;

const MODULE: &str = "ietf-access-control-list";
const PORT: u16 = 8000;

fn list(name: &str, matches: &Value, stateful: bool) -> Value {
    let actions =
        json!({ "forwarding": format!("{MODULE}:accept"), "stoa-acl:stateful": stateful });
    let ace = json!({ "name": format!("accept-{name}"), "matches": matches, "actions": actions });
    json!({ "name": name, "aces": { "ace": [ace] } })
}

/// host-a is inside, host-b a server, host-c outside.
fn zones() -> Value {
    let mut ping = list("ping", &json!({ "icmp": { "type": 8 } }), false);
    ping["type"] = json!(format!("{MODULE}:ipv4-acl-type"));
    let pair = |from: &str, to: &str, acl: &str| json!({ "from": from, "to": to, "acl-sets": { "acl-set": [{ "name": acl }] } });
    let zone = |name: &str, interface: &str| json!({ "name": name, "interface": [interface] });
    json!({
        "acl": [
            list("any", &json!({}), true),
            list("web", &json!({ "tcp": { "destination-port": { "port": PORT } } }), true),
            ping,
        ],
        "stoa-acl:zones": { "zone": [
            zone("inside", "host-a"), zone("servers", "host-b"), zone("outside", "host-c"),
        ] },
        "stoa-acl:zone-pairs": { "zone-pair": [
            pair("inside", "outside", "any"),
            pair("outside", "servers", "web"),
            pair("outside", "router", "ping"),
        ] },
    })
}

/// The exit code of curl to the port: 0, or 28 without an answer.
fn curl(host: &Host, address: &str) -> Result<Option<i32>> {
    let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let url = format!("http://{address}:{PORT}/");
    let arguments = ["-s", "-o", "/dev/null", "--max-time", "2", &url];
    Ok(host.command(Tool::CURL)?.args(arguments).run()?.status.code())
}

fn ping(host: &Host, address: &str) -> Result<bool> {
    let arguments = ["-n", "-c", "1", "-W", "2", address];
    host.command(Tool::PING)?.args(arguments).run().map(|output| output.success())
}

#[test]
fn pairs_of_zones_decide_what_passes() -> Result<()> {
    let sides = [side("host-a", 1)?, side("host-b", 2)?, side("host-c", 3)?];
    let topology = Topology::new(&sides)?;
    let mut configuration = Configuration::new(&sides).json();
    configuration[format!("{MODULE}:acls")] = zones();
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    router.wait_up(&["host-a", "host-b", "host-c"])?;
    let scenario = Scenario { router, topology };
    let [inside, server, outside] = ["host-a", "host-b", "host-c"].map(|name| scenario.host(name));
    let addresses = |host: &Host| -> Result<[String; 2]> {
        Ok([host.address(false)?.to_string(), host.address(true)?.to_string()])
    };
    let of_server = addresses(server)?;
    let servers = [serve(inside, PORT)?, serve(server, PORT)?, serve(outside, PORT)?];
    for (inner, outer) in addresses(inside)?.iter().zip(&addresses(outside)?) {
        assert!(ping(inside, outer)?, "{outer} replies");
        assert_eq!(curl(inside, outer)?, Some(0), "{outer} serves");
        assert!(!ping(outside, inner)?, "{inner} is asked");
    }
    for address in &of_server {
        assert_eq!(curl(outside, address)?, Some(0), "{address} serves");
    }
    // No rule for pings, and no pair of these zones.
    assert!(!ping(outside, &of_server[0])?);
    assert_eq!(curl(inside, &of_server[0])?, Some(28));
    // The router: outside, one family has a rule; inside, there is no pair.
    assert!(ping(outside, "198.18.3.1")? && !ping(outside, "2001:db8:3::1")?);
    assert!(ping(inside, "198.18.1.1")? && ping(inside, "2001:db8:1::1")?);

    let shown = scenario.router.show("zones")?;
    assert_eq!(shown["zones"][0], json!({ "name": "inside", "interfaces": ["host-a"] }), "{shown}");
    let pairs = shown["pairs"].as_array().cloned().unwrap_or_default();
    let dropped = |to: &str| {
        let of = |pair: &&Value| pair["from"] == "outside" && pair["to"] == to;
        pairs.iter().find(of).and_then(|pair| pair["dropped"]["packets"].as_u64())
    };
    assert!(dropped("servers") > Some(0) && dropped("router") > Some(0), "{shown}");
    assert!(shown["unpaired"]["packets"].as_u64() > Some(0), "{shown}");
    assert!(scenario.router.dropped("zone-pair")? > 0);
    let test = format!(
        "acl test --interface host-c --output host-b --source 198.18.3.2 --destination {} --protocol tcp \
         --destination-port {PORT} --json",
        of_server[0]
    );
    let decision = scenario.router.call(&test.split_whitespace().collect::<Vec<_>>())?.stdout;
    let decision: Value = serde_json::from_str(&decision).unwrap_or_default();
    assert_eq!(
        (&decision["action"], &decision["place"], &decision["rule"]),
        (&json!("accept"), &json!("zones outside to servers"), &json!("accept-web"))
    );
    drop(servers);
    scenario.end()
}
