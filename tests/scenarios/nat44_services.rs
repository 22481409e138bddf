//! What services need: several hosts behind a port, VRFs with the same addresses behind one uplink, and segments that
//! fit.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::measure::ping;
use stoa_lab::{Configuration, NextHop, Result, Router, Tool, Topology, stoa_binary};
use stoa_scenarios::{Scenario, side};

use crate::nat44::{EXTERNAL, Lab, POOL, PORT, nat, seen_by, serve};

/// Stands for hosts inside.
const SERVICE: &str = "203.0.113.5";

/// Answers with the size of the segments that it sends.
const SERVER: &str = "import socket\n\
    it = socket.create_server(('', 9100))\n\
    print('ready', flush=True)\n\
    it, _ = it.accept()\n\
    it.sendall(str(it.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)).encode())\n";

/// Prints the size of the segments that it sends, and that of the server.
const CLIENT: &str = "import socket\n\
    it = socket.create_connection(('198.18.2.2', 9100), 10)\n\
    print(it.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG), it.recv(99).decode())\n";

fn pool() -> Value {
    json!({ "external-ip-address-pool": [{ "pool-id": 1, "external-ip-pool": POOL }] })
}

/// An external port of the service.
fn mapping(index: u32, port: u16, more: Value) -> Value {
    let mut mapping = json!({
        "index": index, "transport-protocol": 6, "external-src-address": format!("{SERVICE}/32"),
        "external-src-port": { "start-port-number": port },
    });
    let of = mapping.as_object_mut().expect("an object");
    of.extend(more.as_object().expect("an object").clone());
    mapping
}

#[test]
fn two_hosts_share_the_connections_to_a_port() -> Result<()> {
    let backend = |id: u32, address: &str, weight: u32| json!({ "id": id, "address": address, "start-port-number": PORT, "weight": weight });
    let both = json!([backend(1, "198.18.1.2", 1), backend(2, "198.18.3.2", 1)]);
    let lab = Lab::begin(&pool(), &[mapping(1, 8080, json!({ "stoa-nat:backend": both }))])?;
    let outside = lab.host("host-b");
    for _ in 0..24 {
        assert_eq!(seen_by(outside, SERVICE, 8080)?.0, Ipv4Addr::new(198, 18, 2, 2));
    }
    let shown = lab.router().show("nat")?;
    let backends = &shown["mappings"][0]["backends"];
    let flows = |at: usize| backends[at]["flows"].as_u64().unwrap_or(0);
    assert_eq!(backends[0]["internal"], "198.18.1.2:8000", "{shown}");
    assert!(flows(0) > 0 && flows(1) > 0 && flows(0) + flows(1) >= 24, "{shown}");
    let metrics = lab.router().call(&["show", "metrics"])?.stdout;
    assert!(metrics.contains("stoa_nat44_backend_flows{instance=\"1\",mapping=\"1\""), "{metrics}");
    lab.scenario.end()
}

#[test]
fn two_vrfs_with_the_same_addresses_share_an_uplink() -> Result<()> {
    let sides = [side("red", 1)?, side("blue", 1)?, side("outside", 2)?];
    let topology = Topology::new(&sides)?;
    topology.host("outside").namespace().ip(&["route", "add", EXTERNAL, "via", "198.18.2.1"])?;
    let uplink = NextHop::Link("outside");
    let made = Configuration::new(&sides)
        .vrf("red", &["red"])
        .vrf("blue", &["blue"])
        .route_in("red", "198.18.2.0/24", uplink)
        .route_in("blue", "198.18.2.0/24", uplink);
    let forward = |index: u32, vrf: &str| {
        let more = json!({
            "internal-src-address": "198.18.1.2/32",
            "internal-src-port": { "start-port-number": PORT },
            "internal-dst-address": "198.18.1.1/32", "stoa-nat:internal-vrf": vrf,
        });
        mapping(index, 8080 + index as u16, more)
    };
    let mut configuration = made.json();
    let mut translated = nat(&pool(), &[forward(1, "red"), forward(2, "blue")]);
    let policy = &mut translated["instances"]["instance"][0]["policy"][0];
    policy["external-realm"]["external-interface"] = json!("outside");
    configuration["ietf-nat:nat"] = translated;
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    router.wait_up(&["red", "blue", "outside"])?;
    let servers = topology.hosts().iter().map(serve).collect::<Result<Vec<_>>>()?;
    let scenario = Scenario { router, topology };
    let outside = scenario.host("outside");
    for vrf in ["red", "blue", "red"] {
        let (seen, _) = seen_by(scenario.host(vrf), "198.18.2.2", PORT)?;
        assert!(seen.octets().starts_with(&[203, 0, 113]), "{vrf} is seen as {seen}");
        assert!(ping(scenario.host(vrf), outside.address(false)?, 2, &[])?.all(), "{vrf}");
    }
    // Each VRF has a port of the service, and sees its own gateway as the source.
    for port in [8081, 8082] {
        assert_eq!(seen_by(outside, SERVICE, port)?.0, Ipv4Addr::new(198, 18, 1, 1));
    }
    let shown = scenario.router.show("nat")?;
    let flows = |at: usize| shown["mappings"][at]["flows"].as_u64();
    assert!(flows(0) >= Some(1) && flows(1) >= Some(1), "{shown}");
    drop(servers);
    scenario.end()
}

#[test]
fn segments_fit_the_interface_in_both_directions() -> Result<()> {
    let lab = Lab::begin(&json!({}), &[])?;
    let mut configuration = lab.configuration.clone();
    let interfaces = configuration["ietf-interfaces:interfaces"]["interface"].as_array_mut();
    let outside = interfaces.into_iter().flatten().find(|it| it["name"] == "host-b");
    outside.expect("host-b")["ietf-ip:ipv4"]["stoa-ip:tcp-mss-clamp"] = json!(1000);
    lab.router().reload(&configuration)?.ok()?;
    let server = lab.host("host-b").command(Tool::PYTHON)?.args(["-c", SERVER]).spawn()?;
    server.wait_for("ready", Duration::from_secs(20))?;
    let client = lab.host("host-a").command(Tool::PYTHON)?.args(["-c", CLIENT]);
    let printed = client.run()?.ok()?.stdout;
    let sizes: Vec<u32> = printed.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    // Less timestamps, where both ends have them.
    assert!(sizes.len() == 2 && sizes.iter().all(|it| (980..=1000).contains(it)), "{printed}");
    lab.scenario.end()
}
