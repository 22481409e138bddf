//! Two routers share their virtual addresses by VRRP, and their flows: connections through NAT44 and zones go on when
//! the one that forwards them fails, with the same external addresses and ports.

mod leases;
mod nat64;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stoa_lab::{
    Background, Command, Configuration, Namespace, NextHop, Result, Router, Scratch, Side, Tool,
    Topology, stoa_binary, wait_until,
};
use stoa_scenarios::side;

use crate::bfd_link::given;
use crate::flow_adoption::{IDLE, SERVER, external, wait_growth};
use crate::nat44::{EXTERNAL, POOL, PORT, nat};

const PATIENCE: Duration = Duration::from_secs(30);
/// When TCP has sent again for the fifth time, on a busy machine: VRRP takes 0.7 seconds of it.
const RETRANSMISSION: Duration = Duration::from_secs(7);
const GATEWAYS: [&str; 2] = ["198.18.1.254", "198.18.2.254"];
const SERVER_ADDRESS: &str = "198.18.2.20";
pub const SECRET: &str = "0123456789abcdef-lab";
const DEVICES: [&str; 2] = ["host-a", "host-b"];

/// ```text
///             ┌── first ──┐
/// client ── host-a      host-b ── server        first ── second: the link of the partners, in Linux
///             └── second ─┘
/// ```
/// host-a and host-b are switches. Both routers are at both, and share a gateway on each side.
pub struct Lab {
    routers: [Option<Router>; 2],
    pub scratch: Scratch,
    topology: Topology,
    second: Namespace,
    pub client: Namespace,
    server: Namespace,
}

fn sides() -> Result<[Side; 2]> {
    Ok([side("host-a", 1)?, side("host-b", 2)?])
}

/// Connects a device of a namespace with a switch.
fn plug(switch: &Namespace, port: &str, (of, device): (&Namespace, &str)) -> Result<()> {
    let peer = ["peer", "name", device, "netns", of.name()];
    switch.ip(&[&["link", "add", port, "type", "veth"][..], &peer].concat())?;
    switch.ip(&["link", "set", port, "master", "br0", "up"])?;
    of.ip(&["link", "set", device, "up"])?;
    Ok(())
}

fn ip_all(namespace: &Namespace, commands: &[&str]) -> Result<()> {
    for command in commands {
        namespace.ip(&command.split(' ').collect::<Vec<_>>())?;
    }
    Ok(())
}

impl Lab {
    pub fn new() -> Result<Self> {
        let topology = Topology::new(&sides()?)?;
        let [second, client, server] = ["second", "client", "server"].map(Namespace::new);
        let (second, client, server) = (second?, client?, server?);
        for (device, host) in DEVICES.into_iter().zip([&client, &server]) {
            let switch = topology.host(device).namespace();
            ip_all(
                switch,
                &[
                    "addr flush dev eth0",
                    "link add br0 type bridge",
                    "link set br0 up",
                    "link set eth0 master br0",
                ],
            )?;
            plug(switch, "second", (&second, device))?;
            plug(switch, "host", (host, "eth0"))?;
        }
        let first = topology.router();
        let peer = ["peer", "name", "sync0", "netns", second.name()];
        first.ip(&[&["link", "add", "sync0", "type", "veth"][..], &peer].concat())?;
        ip_all(first, &["addr add 192.0.2.1/24 dev sync0", "link set sync0 up"])?;
        ip_all(&second, &["addr add 192.0.2.2/24 dev sync0", "link set sync0 up"])?;
        ip_all(
            &client,
            &["addr add 198.18.1.20/24 dev eth0", "route add default via 198.18.1.254"],
        )?;
        let to_pool = format!("route add {EXTERNAL} via {}", GATEWAYS[1]);
        ip_all(&server, &["addr add 198.18.2.20/24 dev eth0", &to_pool])?;
        let (routers, scratch) = ([None, None], Scratch::new()?);
        Ok(Self { routers, scratch, topology, second, client, server })
    }

    pub fn start(&mut self, number: usize, configuration: &Value) -> Result<()> {
        let namespace = if number == 0 { self.topology.router() } else { &self.second };
        let router = Router::start(&stoa_binary()?, Some(namespace), configuration)?;
        router.wait_up(&DEVICES)?;
        self.routers[number] = Some(router);
        Ok(())
    }

    pub fn router(&self, number: usize) -> &Router {
        self.routers[number].as_ref().expect("it runs")
    }

    /// Both virtual routers of a router have this state.
    pub fn wait_for(&self, number: usize, state: &str) -> Result<()> {
        wait_until(&format!("router {number} is {state}"), PATIENCE, || {
            let all = self.states(number).map_err(|error| error.to_string())?;
            let is_so = all.len() == 2 && all.iter().all(|it| it == state);
            if is_so { Ok(()) } else { Err(format!("{all:?}")) }
        })
    }

    fn states(&self, number: usize) -> Result<Vec<String>> {
        let all = self.router(number).json(&["show", "state", "/ietf-interfaces:interfaces"])?;
        let interfaces = all["ietf-interfaces:interfaces"]["interface"].as_array().cloned();
        let of = |it: &Value| {
            let found = &it["ietf-ip:ipv4"]["ietf-vrrp:vrrp"]["vrrp-instance"][0]["state"];
            found.as_str().map(str::to_owned)
        };
        Ok(interfaces.iter().flatten().filter_map(of).collect())
    }

    /// Waits until the state of the synchronization is as desired.
    pub fn wait_sync(&self, number: usize, what: &str, is: impl Fn(&Value) -> bool) -> Result<()> {
        wait_until(what, PATIENCE, || {
            let shown = self.router(number).show("flow-sync").map_err(|error| error.to_string())?;
            if is(&shown) { Ok(()) } else { Err(shown.to_string()) }
        })
    }

    /// Kills all of a router, and does not let it come back.
    pub fn kill(&mut self, number: usize) -> Result<Instant> {
        let router = self.routers[number].take().expect("it runs");
        let status = router.status()?;
        let halves = ["forwarder_pid", "controller_pid"].map(|half| status[half].to_string());
        let supervisor = router.pid().to_string();
        let kill =
            |signal: &str, pid: &str| Command::program("/bin/kill").args([signal, pid]).run();
        // Whoever would start them again is stopped first.
        kill("-STOP", &supervisor)?.ok()?;
        for half in &halves {
            kill("-KILL", half)?.ok()?;
        }
        let killed = Instant::now();
        kill("-KILL", &supervisor)?.ok()?;
        drop(router);
        Ok(killed)
    }
}

/// Hosts behind host-a may connect to those behind host-b, which see addresses of the pool.
pub fn configuration(number: usize, priority: u8, secret: &str) -> Result<Value> {
    const MODULE: &str = "ietf-access-control-list";
    let own = [format!("198.18.1.{}", 1 + 2 * number), format!("198.18.2.{}", 1 + 2 * number)];
    let mut made = Configuration::new(&sides()?).route("0.0.0.0/0", NextHop::Special("blackhole"));
    for (device, (own, gateway)) in DEVICES.into_iter().zip(own.iter().zip(GATEWAYS)) {
        let interface = made.interface(device);
        interface["ietf-ip:ipv6"] = Value::Null;
        interface["ietf-ip:ipv4"]["address"] = json!([{ "ip": own, "prefix-length": 24 }]);
        interface["ietf-ip:ipv4"]["ietf-vrrp:vrrp"] = json!({ "vrrp-instance": [{
            "vrid": 51,
            "version": "ietf-vrrp:vrrp-v3",
            "priority": priority,
            "advertise-interval-centi-sec": given("STOA_VRRP_CENTISECONDS", 20),
            "track": { "interfaces": { "interface": DEVICES
                .into_iter()
                .filter(|it| *it != device)
                .map(|it| json!({ "interface": it, "priority-decrement": 100 }))
                .collect::<Vec<_>>() } },
            "virtual-ipv4-addresses": { "virtual-ipv4-address": [{ "ipv4-address": gateway }] },
        }] });
        interface.as_object_mut().expect("an object").remove("ietf-ip:ipv6");
    }
    let mut whole = made.json();
    let actions = json!({ "forwarding": format!("{MODULE}:accept"), "stoa-acl:stateful": true });
    let ace = json!({ "name": "any", "matches": {}, "actions": actions });
    let zone = |name: &str, interface: &str| json!({ "name": name, "interface": [interface] });
    let pair = json!({
        "from": "inside", "to": "outside", "acl-sets": { "acl-set": [{ "name": "any" }] },
    });
    let pool = json!({ "pool-id": 1, "external-ip-pool": POOL });
    whole["ietf-nat:nat"] = nat(&json!({ "external-ip-address-pool": [pool] }), &[]);
    whole[format!("{MODULE}:acls")] = json!({
        "acl": [{ "name": "any", "aces": { "ace": [ace] } }],
        "stoa-acl:zones": { "zone": [zone("inside", "host-a"), zone("outside", "host-b")] },
        "stoa-acl:zone-pairs": { "zone-pair": [pair] },
    });
    whole["stoa-flow-sync:flow-sync"] = json!({
        "local-address": format!("192.0.2.{}", number + 1),
        "partner-address": format!("192.0.2.{}", 2 - number),
        "secret": secret,
        "minimum-age": 1,
    });
    Ok(whole)
}

/// A download, and a connection without packets, from the client to the server.
struct Connections {
    download: Background,
    idle: Background,
    _server: Background,
    body: std::path::PathBuf,
    done: std::path::PathBuf,
}

impl Connections {
    /// To the server, by this address.
    fn open(lab: &Lab, to: &str) -> Result<Self> {
        let [done, body] = ["done", "body"].map(|name| lab.scratch.file(name));
        let (done_text, body_text) = (done.to_string_lossy(), body.to_string_lossy());
        let port = PORT.to_string();
        let server = lab.server.command(Tool::PYTHON)?;
        let server = server.args(["-c", SERVER, &port, &done_text]).spawn()?;
        server.wait_for("ready", PATIENCE)?;
        let idle = lab.client.command(Tool::PYTHON)?;
        let idle = idle.args(["-c", IDLE, to, &port, &done_text]).spawn()?;
        idle.wait_for("open", PATIENCE)?;
        let url = match to.contains(':') {
            true => format!("http://[{to}]:{PORT}/"),
            false => format!("http://{to}:{PORT}/"),
        };
        let arguments = ["-sS", "--noproxy", "*", "-o", &body_text, &url];
        let download = lab.client.command(Tool::CURL)?.args(arguments).spawn()?;
        wait_growth(&body, &download)?;
        Ok(Self { download, idle, _server: server, body: body.clone(), done: done.clone() })
    }

    /// Waits until the download goes on; how long after `since`.
    fn wait_growth_since(&self, since: Instant) -> Result<Duration> {
        let size = || std::fs::metadata(&self.body).map_or(0, |file| file.len());
        // What was under way may still arrive.
        std::thread::sleep(Duration::from_millis(150));
        let before = size();
        wait_until("the download goes on", PATIENCE, || {
            if size() > before { Ok(()) } else { Err(self.download.log()) }
        })?;
        let gap = since.elapsed();
        wait_growth(&self.body, &self.download)?;
        Ok(gap)
    }

    /// Both end well, and the body has no hole.
    fn finish(self) -> Result<()> {
        std::fs::write(&self.done, "").expect("a scratch file");
        self.idle.wait_for("echo", PATIENCE)?;
        wait_until("the download ends", PATIENCE, || {
            if whole(&self.body) { Ok(()) } else { Err(self.download.log()) }
        })
    }
}

/// Whether a body has all numbers in turn.
fn whole(body: &Path) -> bool {
    let bytes = std::fs::read(body).unwrap_or_default();
    let (numbers, rest) = bytes.as_chunks::<8>();
    let in_turn = |(at, it): (usize, &[u8; 8])| u64::from_be_bytes(*it) == at as u64;
    rest.is_empty() && numbers.iter().enumerate().all(in_turn)
}

fn is_in_sync(shown: &Value) -> bool {
    shown["status"] == "connected" && shown["bulk_sent"] == true && shown["bulk_received"] == true
}

/// A download and an idle connection to the server, by this address, survive that one router dies and that a link of
/// the other one fails. `configured`: by the number of a router and its priority.
fn survive(lab: Lab, to: &str, configured: impl Fn(usize, u8) -> Result<Value>) -> Result<()> {
    let mut lab = lab;
    lab.start(0, &configured(0, 150)?)?;
    lab.wait_for(0, "master")?;
    lab.start(1, &configured(1, 100)?)?;
    lab.wait_for(1, "backup")?;
    lab.wait_sync(0, "both are in sync", is_in_sync)?;
    let connections = Connections::open(&lab, to)?;
    let before = external(lab.router(0))?;
    assert_eq!(before.len(), 2, "{before:?}");
    lab.wait_sync(1, "the partner has both flows", |it| it["created_flows"] == 2)?;
    assert_eq!(external(lab.router(1))?, before, "the partner has other flows");
    let mappings = lab.router(1).json(&["show", "nat", "mappings", "--json"])?;
    assert_eq!(mappings["mappings"].as_array().map(Vec::len), Some(2), "{mappings}");

    // The first router dies.
    let killed = lab.kill(0)?;
    let gap = connections.wait_growth_since(killed)?;
    println!("the download goes on {} ms after kill -9", gap.as_millis());
    lab.wait_for(1, "master")?;
    assert!(gap < RETRANSMISSION, "{gap:?}");
    assert_eq!(external(lab.router(1))?, before);

    // It comes back without flows, gets them, and takes over when a link of the second one fails.
    lab.start(0, &configured(0, 50)?)?;
    lab.wait_for(0, "backup")?;
    lab.wait_sync(0, "both are in sync again", is_in_sync)?;
    lab.wait_sync(0, "it has both flows", |it| it["created_flows"] == 2)?;
    assert_eq!(external(lab.router(0))?, before);
    lab.second.ip(&["link", "set", "host-a", "down"])?;
    let failed = Instant::now();
    let gap = connections.wait_growth_since(failed)?;
    println!("the download goes on {} ms after a link failed", gap.as_millis());
    lab.wait_for(0, "master")?;
    assert!(gap < RETRANSMISSION, "{gap:?}");
    connections.finish()?;
    assert_eq!(external(lab.router(0))?, before);
    let metrics = lab.router(0).call(&["show", "metrics"])?.stdout;
    assert!(metrics.contains("stoa_flow_sync_created_flows_total{} 2"), "{metrics}");
    Ok(())
}

#[test]
fn a_download_and_an_idle_connection_survive_a_fail_over() -> Result<()> {
    let lab = Lab::new()?;
    survive(lab, SERVER_ADDRESS, |number, priority| configuration(number, priority, SECRET))
}

#[test]
fn a_partner_with_another_secret_gets_and_gives_nothing() -> Result<()> {
    let mut lab = Lab::new()?;
    lab.start(0, &configuration(0, 150, SECRET)?)?;
    lab.wait_for(0, "master")?;
    lab.start(1, &configuration(1, 100, "0123456789abcdef-other")?)?;
    let connections = Connections::open(&lab, SERVER_ADDRESS)?;
    for number in [0, 1] {
        lab.wait_sync(number, "it refuses the partner", |it| {
            it["refused_connections"].as_u64() > Some(0)
        })?;
        let shown = lab.router(number).show("flow-sync")?;
        let nothing = ["connections", "sent_records", "received_records", "created_flows"];
        assert!(nothing.iter().all(|it| shown[it] == 0), "{shown}");
        let error = shown["error"].as_str().unwrap_or_default();
        assert!(error.contains("secret"), "{shown}");
    }
    // With the same secret, they get along.
    lab.router(1).reload(&configuration(1, 100, SECRET)?)?.ok()?;
    lab.wait_sync(1, "the partner has both flows", |it| it["created_flows"] == 2)?;
    connections.finish()
}

/// The second router stops: its system still accepts the connection, and nobody reads it.
#[test]
fn a_partner_that_stops_reading_costs_nothing() -> Result<()> {
    let mut lab = Lab::new()?;
    lab.start(0, &configuration(0, 150, SECRET)?)?;
    lab.wait_for(0, "master")?;
    lab.start(1, &configuration(1, 100, SECRET)?)?;
    lab.wait_sync(0, "both are in sync", is_in_sync)?;
    let connections = Connections::open(&lab, SERVER_ADDRESS)?;
    let forwarder = lab.router(1).status()?["forwarder_pid"].to_string();
    let signal = |name: &str| Command::program("/bin/kill").args([name, &forwarder]).run()?.ok();
    signal("-STOP")?;
    lab.wait_sync(0, "the connection is given up", |it| it["status"] != "connected")?;
    wait_growth(&connections.body, &connections.download)?;
    signal("-CONT")?;
    lab.wait_sync(0, "both are in sync again", is_in_sync)?;
    connections.finish()
}
