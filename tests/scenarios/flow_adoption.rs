//! Connections through NAT44 and zones go on when the forwarder or the controller is killed.

use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{
    Background, Command, Configuration, Result, Router, Tool, Topology, stoa_binary, wait_until,
};
use stoa_scenarios::{Scenario, side};

use crate::nat44::{EXTERNAL, POOL, PORT, nat};

const DEADLINE: Duration = Duration::from_secs(30);
/// Bytes of a number in the download.
const NUMBER: usize = 8;

/// Sends the numbers from 0 on to whoever asks by HTTP, until a file exists, and echoes what others send.
pub const SERVER: &str = "
import os, socket, struct, sys, threading, time
def serve(client):
    asked = client.recv(65536)
    if not asked.startswith(b'GET'):
        while asked:
            client.sendall(asked)
            asked = client.recv(65536)
        return
    client.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\n')
    number = 0
    while not os.path.exists(sys.argv[2]):
        client.sendall(b''.join(struct.pack('>Q', number + more) for more in range(2048)))
        number += 2048
        time.sleep(0.01)
    client.close()
listener = socket.create_server(('', int(sys.argv[1])))
print('ready', flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
";

/// Opens a connection that is idle until a file exists.
pub const IDLE: &str = "
import os, socket, sys, time
server = socket.create_connection((sys.argv[1], int(sys.argv[2])))
server.sendall(b'one')
assert server.recv(9) == b'one'
print('open', flush=True)
while not os.path.exists(sys.argv[3]):
    time.sleep(0.01)
server.sendall(b'two')
assert server.recv(9) == b'two'
print('echo', flush=True)
";

/// Hosts behind host-a may connect to those behind host-b, which see addresses of the pool.
fn configuration(topology: &[stoa_lab::Side]) -> Value {
    const MODULE: &str = "ietf-access-control-list";
    let actions = json!({ "forwarding": format!("{MODULE}:accept"), "stoa-acl:stateful": true });
    let ace = json!({ "name": "any", "matches": {}, "actions": actions });
    let zone = |name: &str, interface: &str| json!({ "name": name, "interface": [interface] });
    let pair = json!({
        "from": "inside", "to": "outside", "acl-sets": { "acl-set": [{ "name": "any" }] },
    });
    let mut whole = Configuration::new(topology).json();
    let pool = json!({ "pool-id": 1, "external-ip-pool": POOL });
    whole["ietf-nat:nat"] = nat(&json!({ "external-ip-address-pool": [pool] }), &[]);
    whole[format!("{MODULE}:acls")] = json!({
        "acl": [{ "name": "any", "aces": { "ace": [ace] } }],
        "stoa-acl:zones": { "zone": [zone("inside", "host-a"), zone("outside", "host-b")] },
        "stoa-acl:zone-pairs": { "zone-pair": [pair] },
    });
    whole["stoa-system:system"] = json!({ "workers": { "count": 2 } });
    whole
}

fn pid(status: &Value, half: &str) -> u64 {
    status[format!("{half}_pid")].as_u64().unwrap_or(0)
}

fn kill(router: &Router, half: &str) -> Result<()> {
    let old = pid(&router.status()?, half);
    Command::program("/bin/kill").args(["-KILL", &old.to_string()]).run()?.ok()?;
    wait_until(&format!("another {half} is in sync"), DEADLINE, || {
        let status = router.status().map_err(|error| error.to_string())?;
        let now = pid(&status, half);
        let done = now != 0 && now != old && status["in_sync"] == true;
        if done { Ok(()) } else { Err(status.to_string()) }
    })
}

/// The external ends of connections to the server, by the port inside.
pub fn external(router: &Router) -> Result<Vec<(Value, Value, Value)>> {
    let all = router.json(&["show", "flows", "--port", &PORT.to_string(), "--json"])?;
    let flows = all["flows"].as_array().cloned().unwrap_or_default();
    let of = |it: &Value| {
        let external = (&it["translated_source"], &it["translated_source_port"]);
        (it["source_port"].clone(), external.0.clone(), external.1.clone())
    };
    let mut all: Vec<_> = flows.iter().map(of).collect();
    all.sort_by_key(|it| it.0.as_u64());
    Ok(all)
}

/// Waits until a file has grown, so that the download goes on.
pub fn wait_growth(file: &std::path::Path, download: &Background) -> Result<()> {
    let size = || std::fs::metadata(file).map_or(0, |file| file.len());
    let before = size();
    wait_until("the download goes on", DEADLINE, || {
        if size() > before + 100_000 { Ok(()) } else { Err(download.log()) }
    })
}

#[test]
fn a_download_and_an_idle_connection_survive_kills() -> Result<()> {
    let sides = [side("host-a", 1)?, side("host-b", 2)?];
    let topology = Topology::new(&sides)?;
    topology.host("host-b").namespace().ip(&["route", "add", EXTERNAL, "via", "198.18.2.1"])?;
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration(&sides))?;
    router.wait_up(&["host-a", "host-b"])?;
    let scenario = Scenario { router, topology };
    let (router, scratch) = (&scenario.router, scenario.router.scratch());
    let [done, body] = ["done", "body"].map(|name| scratch.file(name));
    let (done_text, body_text) = (done.to_string_lossy(), body.to_string_lossy());
    let port = PORT.to_string();
    let server = scenario.host("host-b").command(Tool::PYTHON)?;
    let server = server.args(["-c", SERVER, &port, &done_text]).spawn()?;
    server.wait_for("ready", DEADLINE)?;
    let inside = scenario.host("host-a");
    let idle = inside.command(Tool::PYTHON)?;
    let idle = idle.args(["-c", IDLE, "198.18.2.2", &port, &done_text]).spawn()?;
    idle.wait_for("open", DEADLINE)?;
    let url = format!("http://198.18.2.2:{PORT}/");
    let arguments = ["-sS", "--noproxy", "*", "-o", &body_text, &url];
    let download = inside.command(Tool::CURL)?.args(arguments).spawn()?;
    wait_growth(&body, &download)?;
    let before = external(router)?;
    assert_eq!(before.len(), 2, "{before:?}");
    assert!(
        before
            .iter()
            .all(|(_, address, _)| address.as_str().is_some_and(|it| it.starts_with("203.0.113."))),
        "{before:?}"
    );
    for half in ["forwarder", "forwarder", "controller", "forwarder", "forwarder", "forwarder"] {
        kill(router, half)?;
        wait_growth(&body, &download)?;
        assert_eq!(external(router)?, before);
        let summary = router.json(&["show", "flows", "--summary", "--json"])?;
        let four = &summary["families"][0];
        assert_eq!((&four["adopted"], &four["left_out"]), (&json!(2), &json!(0)), "{summary}");
    }
    scratch.write("done", "")?;
    let (_, log, is_well) = download.finish(DEADLINE)?;
    assert!(is_well, "{log}");
    let (printed, log, is_well) = idle.finish(DEADLINE)?;
    assert!(is_well && printed.contains("echo"), "{printed}{log}");
    let body = std::fs::read(&body).unwrap_or_default();
    let (numbers, rest) = body.as_chunks::<NUMBER>();
    assert!(rest.is_empty() && !numbers.is_empty());
    let is_right = |(at, number): (usize, &[u8; NUMBER])| u64::from_be_bytes(*number) == at as u64;
    assert!(numbers.iter().enumerate().all(is_right), "nothing is missing, nothing comes twice");
    scenario.end()
}
