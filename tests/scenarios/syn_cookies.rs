//! SYN cookies with the tools that people use: downloads by curl through spliced connections, while hping3 floods the
//! servers with SYNs of invented sources.

use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{Background, Configuration, Host, Result, Router, Tool, Topology, stoa_binary};
use stoa_scenarios::{Scenario, side};

const MODULE: &str = "ietf-access-control-list";
const PORT: u16 = 8000;
/// Bytes of a download.
const SIZE: usize = 8_000_000;

/// host-a is outside, host-b a server; cookies are on from `threshold` half-open connections on.
fn acls(threshold: u32) -> Value {
    let actions = json!({ "forwarding": format!("{MODULE}:accept"), "stoa-acl:stateful": true });
    let ace = json!({ "name": "web", "matches": { "tcp": { "destination-port": { "port": PORT } } }, "actions": actions });
    let zone = |name: &str, interface: &str| json!({ "name": name, "interface": [interface] });
    let mut servers = zone("servers", "host-b");
    servers["syn-cookies"] = json!({ "threshold": threshold });
    json!({
        "acl": [{ "name": "web", "aces": { "ace": [ace] } }],
        "stoa-acl:zones": { "zone": [zone("outside", "host-a"), servers] },
        "stoa-acl:zone-pairs": { "zone-pair": [
            { "from": "outside", "to": "servers", "acl-sets": { "acl-set": [{ "name": "web" }] } },
        ] },
    })
}

/// The program of the server, and of its hash: bytes that follow from their place.
const BODY: &str = "import hashlib, http.server, socket, sys\n\
    body = hashlib.shake_256(b'stoa').digest(int(sys.argv[1]))\n";

/// Serves these bytes over both families; returns their hash, too.
fn serve(host: &Host) -> Result<(Background, String)> {
    let program = "\
        class Answer(http.server.BaseHTTPRequestHandler):\n\
        \x20   protocol_version = 'HTTP/1.1'\n\
        \x20   def do_GET(self):\n\
        \x20       self.send_response(200)\n\
        \x20       self.send_header('Content-Length', str(len(body)))\n\
        \x20       self.end_headers()\n\
        \x20       self.wfile.write(body)\n\
        class Server(http.server.ThreadingHTTPServer):\n\
        \x20   address_family = socket.AF_INET6\n\
        \x20   request_queue_size = 100\n\
        server = Server(('::', int(sys.argv[2])), Answer)\n\
        print('ready', flush=True)\n\
        server.serve_forever()\n";
    let run = |program: String| -> Result<_> {
        let arguments = ["-c", &program, &SIZE.to_string(), &PORT.to_string()];
        Ok(host.command(Tool::PYTHON)?.args(arguments))
    };
    let server = run(format!("{BODY}{program}"))?.spawn()?;
    server.wait_for("ready", Duration::from_secs(20))?;
    let hash = run(format!("{BODY}print(hashlib.sha256(body).hexdigest())\n"))?.run()?.ok()?;
    Ok((server, hash.stdout.trim().to_owned()))
}

/// The hash of what curl downloads.
fn download(host: &Host, address: &str) -> Result<String> {
    let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let program = "import hashlib, subprocess, sys\n\
        body = subprocess.run(sys.argv[1:], check=True, stdout=subprocess.PIPE).stdout\n\
        print(hashlib.sha256(body).hexdigest())\n";
    let url = format!("http://{address}:{PORT}/");
    let arguments = ["-c", program, "curl", "-s", "--max-time", "60", &url];
    let output =
        host.command(Tool::PYTHON)?.args(arguments).deadline(Duration::from_secs(90)).run()?;
    Ok(output.ok()?.stdout.trim().to_owned())
}

/// What the router says of the zone.
fn zone(scenario: &Scenario) -> Result<Value> {
    Ok(scenario.router.show("zones")?["syn-cookies"]["zones"][0].clone())
}

fn begin(threshold: u32) -> Result<Scenario> {
    let sides = [side("host-a", 1)?, side("host-b", 2)?];
    let topology = Topology::new(&sides)?;
    let mut configuration = Configuration::new(&sides).json();
    configuration[format!("{MODULE}:acls")] = acls(threshold);
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    router.wait_up(&["host-a", "host-b"])?;
    Ok(Scenario { router, topology })
}

#[test]
fn downloads_through_spliced_connections_are_whole() -> Result<()> {
    let scenario = begin(0)?;
    let (client, server) = (scenario.host("host-a"), scenario.host("host-b"));
    let (serving, hash) = serve(server)?;
    for is_ip6 in [false, true] {
        let address = server.address(is_ip6)?.to_string();
        for _ in 0..3 {
            assert_eq!(
                download(client, &address)?,
                hash,
                "{address}: {}",
                scenario.router.show("zones")?
            );
        }
    }
    let shown = zone(&scenario)?;
    assert_eq!((&shown["on"], &shown["accepted"]), (&json!(true), &json!(6)), "{shown}");
    assert!(shown["sent"].as_u64() >= Some(6), "{shown}");
    // Nobody serves this port: the client hears of it, although the router has answered its SYN.
    drop(serving);
    let url = format!("http://{}:{PORT}/", server.address(false)?);
    let refused = client.command(Tool::CURL)?.args(["-s", "--max-time", "20", &url]).run()?;
    // The reset comes before curl sees the connection, before it sends (55), or after that.
    assert!([Some(7), Some(55), Some(56)].contains(&refused.status.code()), "{:?}", refused.status);
    scenario.end()
}

#[test]
fn a_flood_of_syns_keeps_nobody_out() -> Result<()> {
    let scenario = begin(100)?;
    let (client, server) = (scenario.host("host-a"), scenario.host("host-b"));
    let (_serving, hash) = serve(server)?;
    let address = server.address(false)?.to_string();
    assert_eq!(download(client, &address)?, hash);
    assert_eq!(zone(&scenario)?["on"], json!(false));
    let port = PORT.to_string();
    let flood = ["-S", "-q", "-p", &port, "--rand-source", "-i", "u200", &address];
    let flood = client.command(Tool::HPING3)?.args(flood).spawn()?;
    let begin = std::time::Instant::now();
    while zone(&scenario)?["on"] != json!(true) {
        assert!(begin.elapsed() < Duration::from_secs(60), "{}", zone(&scenario)?);
        std::thread::sleep(Duration::from_millis(100));
    }
    for is_ip6 in [false, true] {
        let address = server.address(is_ip6)?.to_string();
        for _ in 0..3 {
            assert_eq!(download(client, &address)?, hash, "{address}: {}", zone(&scenario)?);
        }
    }
    drop(flood);
    let shown = zone(&scenario)?;
    assert!(shown["half-open"].as_u64() < Some(1_000), "the flood has no flows: {shown}");
    assert!(shown["sent"].as_u64() > Some(100) && shown["accepted"].as_u64() >= Some(3), "{shown}");
    scenario.end()
}
