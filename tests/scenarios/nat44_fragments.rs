//! Fragments through NAT44 with two workers, of which software RSS sends fragments to one and whole packets of the same
//! flow to the other: long pings, and datagrams of which the last fragment comes first, in both directions.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::measure::ping;
use stoa_lab::{Configuration, Result, Router, Tool, Topology, stoa_binary};
use stoa_scenarios::{Scenario, side};

use crate::nat44::nat;

/// Sends a datagram in fragments, from behind. It uses a raw socket: the kernel sends them in order.
const REVERSED: &str = "\
import socket, struct, sys\n\
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)\n\
def send(source, destination, number, data):\n\
\x20   (a, sport), (b, dport) = source, destination\n\
\x20   body = struct.pack('!HHHH', sport, dport, 8 + len(data), 0) + data\n\
\x20   for at in reversed(range(0, len(body), 1000)):\n\
\x20       part = body[at:at + 1000]\n\
\x20       word = at // 8 | (0x2000 if at + 1000 < len(body) else 0)\n\
\x20       head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(part), number, word, 64, 17, 0,\n\
\x20           socket.inet_aton(a), socket.inet_aton(b))\n\
\x20       raw.sendto(head + part, (b, 0))\n";

/// Answers each datagram with one of the same length, from behind.
const SERVER: &str = "\
it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
it.bind(('198.18.2.2', 9000))\n\
print('ready', flush=True)\n\
number = 100\n\
while True:\n\
\x20   data, peer = it.recvfrom(65535)\n\
\x20   number += 1\n\
\x20   print(peer[0], len(data), flush=True)\n\
\x20   send(('198.18.2.2', 9000), peer, number, data)\n";

/// Asks from eight ports with long datagrams, and once before with a short one from every other port.
const CLIENT: &str = "\
for port in range(5000, 5008):\n\
\x20   it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
\x20   it.bind(('198.18.1.2', port))\n\
\x20   it.settimeout(10)\n\
\x20   if port % 2:\n\
\x20       it.sendto(b'short', ('198.18.2.2', 9000))\n\
\x20       assert it.recv(65535) == b'short'\n\
\x20   data = bytes(range(250)) * 16\n\
\x20   send(('198.18.1.2', port), ('198.18.2.2', 9000), port, data)\n\
\x20   assert it.recv(65535) == data, port\n\
print('all answered')\n";

#[test]
fn fragments_pass_from_behind_with_two_workers() -> Result<()> {
    let sides = [side("host-a", 1)?, side("host-b", 2)?];
    let mut configuration = Configuration::new(&sides).workers(json!({ "count": 2 }));
    for side in &sides {
        let port = &mut configuration.interface(&side.label)["stoa-interfaces:port"];
        port["rx-queues"] = json!(1);
        port["software-rss"] = json!(true);
    }
    let mut whole: Value = configuration.json();
    whole["ietf-nat:nat"] = nat(&json!({}), &[]);
    let topology = Topology::new(&sides)?;
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &whole)?;
    router.wait_up(&["host-a", "host-b"])?;
    let scenario = Scenario { router, topology };
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    let pings = ping(a, b.address(false)?, 5, &["-s", "4000"])?;
    assert!(pings.all(), "{pings:?}");
    let python = |text: &str| format!("{REVERSED}{text}");
    let server = b.command(Tool::PYTHON)?.args(["-c", &python(SERVER)]).spawn()?;
    server.wait_for("ready", Duration::from_secs(20))?;
    let client = a.command(Tool::PYTHON)?.args(["-c", &python(CLIENT)]).run()?.ok()?;
    assert!(client.stdout.contains("all answered"), "{}", client.stdout);
    server.wait_for("198.18.2.1 4000", Duration::from_secs(20))?;
    // A keyed hash of identifications selects the home of each of these 26 packets: it is one worker for all of them
    // once in 33 million runs.
    let nodes = scenario.router.show("nodes")?;
    let list = nodes["nodes"].as_array().into_iter().flatten();
    let orders = list.filter(|node| node["name"] == "ip4-fragment-order");
    let busy = orders.filter(|node| node["packets"].as_u64() > Some(0));
    let workers: BTreeSet<_> = busy.filter_map(|node| node["worker"].as_u64()).collect();
    assert_eq!(workers.len(), 2, "{nodes}");
    let limits = scenario.router.show("limits")?;
    let rows = limits["limits"].as_array().cloned().unwrap_or_default();
    let row = rows.iter().find(|row| row["name"] == "waiting-fragments");
    assert_eq!(row.map(|row| &row["used"]), Some(&json!(0)), "{limits}");
    scenario.end()
}
