//! VRRP with keepalived as the other router: a host's packets through the virtual address continue when either router
//! stops, is killed or gets a lower priority. Version 3 for both families, and version 2; keepalived with its own MAC
//! address and with the virtual one.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stoa_lab::{
    Background, Command, Configuration, Namespace, NextHop, Result, Router, Scratch, Side, Tool,
    Topology, stoa_binary, wait_until,
};
use stoa_scenarios::side;

const PATIENCE: Duration = Duration::from_secs(30);
const VIRTUAL: &str = "198.18.1.254";
/// Behind both routers.
const FAR: &str = "203.0.113.7";

/// ```text
///   client ──┐
///            ├── host-a (a switch) ── Stoa ── host-b, which has FAR
///   peer   ──┘                                  │
///     └─────────────────────────────────────────┘
/// ```
/// Answers of the far host return through the peer's kernel, whichever router is active.
struct Pair {
    router: Option<Router>,
    keepalived: Option<Background>,
    scratch: Scratch,
    topology: Topology,
    client: Namespace,
    peer: Namespace,
    version: u8,
    is_virtual_mac: bool,
}

fn sides() -> Result<[Side; 2]> {
    Ok([side("host-a", 1)?, side("host-b", 2)?])
}

fn plug(switch: &Namespace, port: &str, host: &Namespace) -> Result<()> {
    let peer = ["peer", "name", "eth0", "netns", host.name()];
    switch.ip(&[&["link", "add", port, "type", "veth"][..], &peer].concat())?;
    switch.ip(&["link", "set", port, "master", "br0", "up"])?;
    host.ip(&["link", "set", "eth0", "up"])?;
    Ok(())
}

impl Pair {
    fn new(version: u8, is_virtual_mac: bool) -> Result<Self> {
        let topology = Topology::new(&sides()?)?;
        let (client, peer) = (Namespace::new("client")?, Namespace::new("peer")?);
        let switch = topology.host("host-a").namespace();
        switch.ip(&["addr", "flush", "dev", "eth0"])?;
        switch.ip(&["link", "add", "br0", "type", "bridge"])?;
        switch.ip(&["link", "set", "br0", "up"])?;
        switch.ip(&["link", "set", "eth0", "master", "br0"])?;
        plug(switch, "client", &client)?;
        plug(switch, "peer", &peer)?;
        let far = topology.host("host-b").namespace();
        let end = ["peer", "name", "eth1", "netns", far.name()];
        peer.ip(&[&["link", "add", "eth1", "type", "veth"][..], &end].concat())?;
        for namespace in [&client, &peer, far] {
            namespace.sysctl("ipv4/conf/all/rp_filter", "0")?;
            namespace.sysctl("ipv4/conf/default/rp_filter", "0")?;
            namespace.sysctl("ipv4/conf/eth0/rp_filter", "0")?;
        }
        peer.sysctl("ipv4/ip_forward", "1")?;
        for (namespace, arguments) in [
            (&client, "addr add 198.18.1.10/24 dev eth0"),
            (&client, "-6 addr add 2001:db8:1::10/64 dev eth0 nodad"),
            (&client, "route add default via 198.18.1.254"),
            (&peer, "addr add 198.18.1.3/24 dev eth0"),
            (&peer, "-6 addr add 2001:db8:1::3/64 dev eth0 nodad"),
            (&peer, "addr add 198.18.3.1/24 dev eth1"),
            (&peer, "link set eth1 up"),
            (far, "link set lo up"),
            (far, "addr add 198.18.3.2/24 dev eth1"),
            (far, "link set eth1 up"),
            (far, "addr add 203.0.113.7/32 dev lo"),
            (far, "route add 198.18.1.0/24 via 198.18.3.1"),
            (&peer, "route add 203.0.113.7/32 via 198.18.3.2"),
        ] {
            namespace.ip(&arguments.split(' ').collect::<Vec<_>>())?;
        }
        let scratch = Scratch::new()?;
        let (router, keepalived) = (None, None);
        Ok(Self { router, keepalived, scratch, topology, client, peer, version, is_virtual_mac })
    }

    fn configuration(&self, priority: u8) -> Result<Value> {
        let mut configuration =
            Configuration::new(&sides()?).route(&format!("{FAR}/32"), NextHop::Via("198.18.2.2"));
        let interface = configuration.interface("host-a");
        let mut four = json!({
            "vrid": 51,
            "version": format!("ietf-vrrp:vrrp-v{}", self.version),
            "priority": priority,
            "log-state-change": true,
            "virtual-ipv4-addresses": { "virtual-ipv4-address": [{ "ipv4-address": VIRTUAL }] },
        });
        if self.version == 3 {
            four["advertise-interval-centi-sec"] = json!(20);
            interface["ietf-ip:ipv6"]["ietf-vrrp:vrrp"] = json!({ "vrrp-instance": [{
                "vrid": 51,
                "version": "ietf-vrrp:vrrp-v3",
                "priority": priority,
                "accept-mode": true,
                "advertise-interval-centi-sec": 20,
                "virtual-ipv6-addresses": { "virtual-ipv6-address": [
                    { "ipv6-address": "fe80::51" }, { "ipv6-address": "2001:db8:1::254" }
                ] },
            }] });
        }
        interface["ietf-ip:ipv4"]["ietf-vrrp:vrrp"] = json!({ "vrrp-instance": [four] });
        Ok(configuration.json())
    }

    fn start_router(&mut self, priority: u8) -> Result<()> {
        let configuration = self.configuration(priority)?;
        let namespace = Some(self.topology.router());
        let router = self.router.insert(Router::start(&stoa_binary()?, namespace, &configuration)?);
        router.wait_up(&["host-a", "host-b"])
    }

    fn start_keepalived(&mut self) -> Result<()> {
        let interval = if self.version == 3 { "0.2" } else { "1" };
        let with_mac = if self.is_virtual_mac { "use_vmac\n" } else { "" };
        let instance = |name: &str, addresses: &str| {
            format!(
                "vrrp_instance {name} {{\n state BACKUP\n interface eth0\n virtual_router_id 51\n \
                 priority 100\n advert_int {interval}\n {with_mac} accept\n \
                 virtual_ipaddress {{\n {addresses}\n }}\n}}\n"
            )
        };
        let mut text = format!(
            "global_defs {{\n vrrp_version {}\n script_user root\n}}\n{}",
            self.version,
            instance("four", &format!("{VIRTUAL}/24"))
        );
        if self.version == 3 {
            text += &instance("six", "fe80::51/64\n 2001:db8:1::254/64");
        }
        let file = self.scratch.write("keepalived.conf", text)?.display().to_string();
        let pid = |name: &str| self.scratch.file(name).display().to_string();
        let (pid, of_vrrp) = (pid("keepalived.pid"), pid("vrrp.pid"));
        let command = self.peer.command(Tool::KEEPALIVED)?.args(["-n", "-l", "-D", "-P"]);
        let keepalived = command.args(["-f", &file, "-p", &pid, "-r", &of_vrrp]).spawn()?;
        self.keepalived = Some(keepalived);
        Ok(())
    }

    fn router(&self) -> &Router {
        self.router.as_ref().expect("it runs")
    }

    /// The virtual routers of the first interface, IPv4 first.
    fn instances(&self) -> Result<Vec<Value>> {
        let path = "/ietf-interfaces:interfaces/interface[name='host-a']";
        let output = self.router().call(&["show", "state", path])?.ok()?;
        let state: Value = serde_json::from_str(&output.stdout).expect("JSON");
        let interface = &state["ietf-interfaces:interface"][0];
        let of =
            |family: &str| interface[family]["ietf-vrrp:vrrp"]["vrrp-instance"].as_array().cloned();
        let both = ["ietf-ip:ipv4", "ietf-ip:ipv6"].map(|it| of(it).unwrap_or_default());
        Ok(both.concat())
    }

    fn wait_for(&self, state: &str) -> Result<()> {
        wait_until(&format!("all are {state}"), PATIENCE, || {
            let printed = self.instances().map_err(|error| error.to_string())?;
            let is_so = !printed.is_empty() && printed.iter().all(|it| it["state"] == state);
            let peer = self.keepalived.as_ref().map(Background::log).unwrap_or_default();
            if is_so { Ok(()) } else { Err(format!("{printed:?}\n{peer}")) }
        })
    }

    fn wait_for_peer(&self, words: &str) -> Result<()> {
        self.keepalived.as_ref().expect("it runs").wait_for(words, PATIENCE)
    }

    /// The client's neighbour entry of the virtual address.
    fn gateway_mac(&self) -> Result<String> {
        self.client.ip(&["neigh", "show", VIRTUAL])
    }

    /// Pings the far host every 20 ms.
    fn stream(&self) -> Result<Stream> {
        let ping = self.client.command(Tool::PING)?;
        let ping = ping.args(["-n", "-D", "-i", "0.02", "-W", "1", FAR]).spawn()?;
        ping.wait_for("icmp_seq", PATIENCE)?;
        Ok(Stream { ping })
    }
}

struct Stream {
    ping: Background,
}

impl Stream {
    /// Times of all answers, in seconds.
    fn answers(&self) -> Vec<f64> {
        let printed = self.ping.stdout();
        let time = |line: &str| line.strip_prefix('[')?.split_once(']')?.0.parse().ok();
        printed.lines().filter(|line| line.contains("bytes from")).filter_map(time).collect()
    }

    /// The longest time without an answer since `first` answers, once there are a hundred more.
    fn gap_since(&self, first: usize, what: &str) -> Result<f64> {
        let first = first.saturating_sub(1);
        wait_until(&format!("packets pass after {what}"), PATIENCE, || {
            let now = self.answers().len();
            if now > first + 100 { Ok(()) } else { Err(format!("{now} answers")) }
        })?;
        let answers = self.answers();
        let gaps = answers[first..].windows(2).map(|pair| pair[1] - pair[0]);
        let longest = gaps.fold(0.0, f64::max);
        println!("{what}: {:.0} ms without an answer", longest * 1000.0);
        Ok(longest)
    }
}

/// The maximum gap: four advertisement intervals, and a margin for a busy machine.
fn within(version: u8) -> f64 {
    if version == 3 { 0.8 + 1.2 } else { 4.0 + 1.2 }
}

fn fail_over(version: u8, is_virtual_mac: bool) -> Result<()> {
    let mut pair = Pair::new(version, is_virtual_mac)?;
    pair.start_router(150)?;
    pair.wait_for("master")?;
    pair.start_keepalived()?;
    pair.wait_for_peer("Entering BACKUP STATE")?;
    let stream = pair.stream()?;
    let mac = pair.gateway_mac()?;
    assert!(mac.contains("00:00:5e:00:01:33"), "{mac}");

    // Stoa stops and resigns.
    let before = stream.answers().len();
    pair.router.take().expect("it runs").stop()?;
    pair.wait_for_peer("Entering MASTER STATE")?;
    let gap = stream.gap_since(before, "Stoa stops")?;
    assert!(gap < within(version), "{gap}");

    // Stoa starts again, with the higher priority.
    let before = stream.answers().len();
    pair.start_router(150)?;
    pair.wait_for("master")?;
    let gap = stream.gap_since(before, "Stoa starts")?;
    assert!(gap < within(version), "{gap}");

    // The forwarder is killed without resigning, and its supervisor is stopped.
    let before = stream.answers().len();
    let log = pair.keepalived.as_ref().expect("it runs").log();
    let times = log.matches("Entering MASTER STATE").count();
    let supervisor = pair.router().pid().to_string();
    let forwarder = pair.router().status()?["forwarder_pid"].to_string();
    let signal =
        |name: &str, pid: &str| Command::program("/bin/kill").args([name, pid]).run()?.ok();
    signal("-STOP", &supervisor)?;
    signal("-KILL", &forwarder)?;
    let killed = Instant::now();
    wait_until("keepalived takes over", PATIENCE, || {
        let log = pair.keepalived.as_ref().map(Background::log).unwrap_or_default();
        let now = log.matches("Entering MASTER STATE").count();
        if now > times { Ok(()) } else { Err(log) }
    })?;
    println!("keepalived takes over {:.0} ms after kill -9", killed.elapsed().as_millis());
    let gap = stream.gap_since(before, "the forwarder is killed")?;
    assert!(gap < within(version), "{gap}");
    signal("-CONT", &supervisor)?;
    pair.wait_for("master")?;

    // Stoa gets the lower priority, and takes over again when keepalived stops.
    let before = stream.answers().len();
    let lower = pair.configuration(50)?;
    pair.router().reload(&lower)?.ok()?;
    pair.wait_for("backup")?;
    let gap = stream.gap_since(before, "Stoa has the lower priority")?;
    assert!(gap < within(version), "{gap}");
    let before = stream.answers().len();
    pair.keepalived.take().expect("it runs").stop()?;
    pair.wait_for("master")?;
    let gap = stream.gap_since(before, "keepalived stops")?;
    assert!(gap < within(version), "{gap}");
    let statistics = &pair.instances()?[0]["statistics"];
    assert_eq!(statistics["address-list-errors"], "0", "{statistics}");
    assert_ne!(statistics["priority-zero-pkts-rcvd"], "0", "{statistics}");
    pair.router.take().expect("it runs").stop()
}

#[test]
fn version_3_beside_keepalived() -> Result<()> {
    fail_over(3, false)
}

#[test]
fn version_3_beside_keepalived_with_the_virtual_mac_address() -> Result<()> {
    fail_over(3, true)
}

#[test]
fn version_2_beside_keepalived() -> Result<()> {
    fail_over(2, false)
}

#[test]
fn wireshark_accepts_the_advertisements() -> Result<()> {
    let mut pair = Pair::new(3, false)?;
    pair.start_router(150)?;
    pair.wait_for("master")?;
    let fields = ["-T", "fields", "-e", "vrrp.prio", "-e", "vrrp.checksum.status", "-e", "eth.src"];
    let tshark = pair.client.command(Tool::TSHARK)?;
    let tshark = tshark.args(["-i", "eth0", "-c", "6", "-f", "ip proto 112 or ip6 proto 112"]);
    let output = tshark.args(fields).deadline(PATIENCE).run()?.ok()?;
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines.len(), 6, "{}{}", output.stdout, output.stderr);
    for line in lines {
        let is_right = line.starts_with("150\t1\t00:00:5e:00:0") && line.ends_with(":33");
        assert!(is_right, "{line}");
    }
    // Packets to the IPv6 address are accepted (accept-mode), to the IPv4 address not.
    let ping = |address: &str| -> Result<bool> {
        let arguments = ["-n", "-c", "2", "-i", "0.2", "-W", "1", address];
        Ok(pair.client.command(Tool::PING)?.args(arguments).run()?.success())
    };
    assert!(ping("2001:db8:1::254")?);
    assert!(!ping(VIRTUAL)?);
    assert!(ping("198.18.1.1")?);
    pair.router.take().expect("it runs").stop()
}
