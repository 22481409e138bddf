//! The testbed: three hosts on packet sockets around the first router, and behind a memif the second router
//! with a host of its own.

use serde_json::{Value, json};
use stoa_lab::{Address, Configuration, NextHop, Result, Router, Side, Topology, stoa_binary};
use stoa_scenarios::side;

use super::firewall;
use super::random::Random;
use super::subscribers::{NETWORKS, Size, Subscribers};
use super::traffic::Flow;

/// Both routers, the hosts, the traffic. Fields are dropped in this order.
pub struct Testbed {
    /// Traffic that recovers from every event.
    pub flows: Vec<Flow>,
    /// Traffic to and from host-c, whose namespace is replaced.
    pub host_c_flows: Vec<Flow>,
    /// Many flows from behind host-a to host-b; `None`: they have not begun, or have ended.
    pub subscribers: Option<Subscribers>,
    /// The router under test.
    pub first: Router,
    /// The memif peer, which is killed as well.
    pub second: Router,
    /// Host-a, host-b and host-c around the first router.
    pub hosts: Topology,
    /// Host-d of the second router.
    pub far: Topology,
    /// When the first router's forwarder was last killed, initially the start.
    pub killed: std::time::Instant,
    /// What all configurations of the first router have in common.
    pub shape: Shape,
}

/// What is the same in all variants of a configuration.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The memif control socket.
    pub socket: std::path::PathBuf,
    /// Flows of subscribers.
    pub size: Size,
    /// Whether all variants follow flows with short timeouts.
    pub keeps_flows: bool,
}

fn sides() -> Result<[Side; 3]> {
    Ok([side("host-a", 1)?, side("host-b", 2)?, side("host-c", 3)?])
}

/// The network between the routers.
fn between(last: u8) -> Result<[Address; 2]> {
    Ok([format!("198.18.9.{last}/24").parse()?, format!("2001:db8:9::{last}/64").parse()?])
}

fn memif(socket: &std::path::Path, role: &str) -> Value {
    json!({ "memif": { "socket": socket.to_string_lossy(), "id": 0, "role": role } })
}

/// The configuration of the first router. Variants (`which`) differ in parts that the traffic does not use.
fn first(socket: &std::path::Path, which: u64) -> Result<Configuration> {
    let mut made = Configuration::new(&sides()?)
        .port("peer", memif(socket, "master"))
        .addresses("peer", &between(1)?)
        .route("198.18.4.0/24", NextHop::Via("198.18.9.2"))
        .route("2001:db8:4::/64", NextHop::Via("2001:db8:9::2"))
        .route(NETWORKS[0], NextHop::Via("198.18.1.2"))
        .route(NETWORKS[1], NextHop::Via("2001:db8:1::2"));
    for number in 0..which % 4 * 50 {
        made = made.route(&format!("10.{}.{number}.0/24", which % 250), NextHop::Via("198.18.2.2"));
    }
    if which % 3 == 1 {
        made = made.port("spare", json!({ "tap": {} }));
    }
    if which % 5 == 1 {
        made.interface("host-c")["ietf-ip:ipv4"]["mtu"] = json!(1400);
    }
    // Host-c uses AF_XDP in half of the variants, including the first and last one.
    if which.is_multiple_of(2) {
        made.interface("host-c")["stoa-interfaces:port"] =
            json!({ "af-xdp": { "device": "host-c" } });
    }
    Ok(made)
}

impl Shape {
    /// The same as JSON; some variants have VRFs, and one of them contains host-c. Rules and NAT are those of a variant
    /// of their own (`rules`).
    ///
    /// # Errors
    /// None for these addresses.
    pub fn json(&self, which: u64, rules: u64) -> Result<Value> {
        let mut made = first(&self.socket, which)?;
        if which % 6 == 2 {
            made.interface("host-c")["stoa-vrf:vrf"] = json!("red");
        }
        let mut made = made.json();
        if which % 3 == 2 {
            made["stoa-vrf:vrfs"] = json!({ "vrf": [{ "name": "red" }, { "name": "blue" }] });
        }
        firewall::add(&mut made, rules, self.size, self.keeps_flows);
        Ok(made)
    }

    /// An invalid configuration, in several variants.
    ///
    /// # Errors
    /// None for these addresses.
    pub fn bad(&self, which: u64) -> Result<Value> {
        let good = first(&self.socket, which)?;
        let mut made = match which % 3 {
            0 => good.clone().route("198.18.60.0/24", NextHop::Via("198.18.1.1")).json(),
            1 => good
                .clone()
                .port("host-z", json!({ "af-packet": { "device": "not-there" } }))
                .json(),
            _ => json!("no configuration at all"),
        };
        if which.is_multiple_of(6) {
            made["ietf-interfaces:interfaces"]["interface"][0]["colour"] = json!("blue");
        }
        if which % 3 < 2 {
            firewall::add(&mut made, which, self.size, self.keeps_flows);
        }
        Ok(made)
    }
}

impl Testbed {
    /// Starts hosts and routers; no traffic yet.
    ///
    /// # Errors
    /// Errors of the lab.
    pub fn new(size: Size, keeps_flows: bool) -> Result<Self> {
        let binary = stoa_binary()?;
        let (hosts, far) = (Topology::new(&sides()?)?, Topology::new(&[side("host-d", 4)?])?);
        // Announce a changed MAC address, as most hosts do.
        for host in hosts.hosts() {
            host.namespace().sysctl("ipv4/conf/all/arp_notify", "1")?;
            host.namespace().sysctl("ipv6/conf/all/ndisc_notify", "1")?;
        }
        let scratch = stoa_lab::Scratch::new()?;
        let socket = scratch.file("memif.sock");
        let shape = Shape { socket: socket.clone(), size, keeps_flows };
        let configuration = shape.json(0, 0)?;
        let first = Router::start_in(scratch, &binary, Some(hosts.router()), &configuration)?;
        let configuration = Configuration::new(&[side("host-d", 4)?])
            .port("peer", memif(&socket, "slave"))
            .addresses("peer", &between(2)?)
            .route("0.0.0.0/0", NextHop::Via("198.18.9.1"))
            .route("::/0", NextHop::Via("2001:db8:9::1"))
            .json();
        let second = Router::start(&binary, Some(far.router()), &configuration)?;
        first.wait_up(&["host-a", "host-b", "host-c", "peer"])?;
        second.wait_up(&["host-d", "peer"])?;
        let (flows, host_c_flows) = (Vec::new(), Vec::new());
        let killed = std::time::Instant::now();
        let subscribers = None;
        Ok(Self { flows, host_c_flows, subscribers, first, second, hosts, far, killed, shape })
    }

    /// Starts all traffic. `seed`: that of the subscribers.
    ///
    /// # Errors
    /// When a socket cannot be opened.
    pub fn start_traffic(&mut self, seed: u64) -> Result<()> {
        let (a, b) = (self.hosts.host("host-a"), self.hosts.host("host-b"));
        self.subscribers = Some(Subscribers::start(a, b, self.shape.size, seed)?);
        let d = self.far.host("host-d");
        for six in [false, true] {
            for (from, to) in [(a, b), (b, a), (a, d), (d, a)] {
                self.flows.push(Flow::datagrams(from, to, six)?);
            }
        }
        self.flows.push(Flow::stream(a, b)?);
        self.flows.push(Flow::stream(d, b)?);
        self.start_host_c_flows()
    }

    fn start_host_c_flows(&mut self) -> Result<()> {
        let (a, c) = (self.hosts.host("host-a"), self.hosts.host("host-c"));
        for six in [false, true] {
            self.host_c_flows.push(Flow::datagrams(a, c, six)?);
            self.host_c_flows.push(Flow::datagrams(c, a, six)?);
        }
        Ok(())
    }

    /// Replaces host-c, its namespace and its link.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn replace_host(&mut self) -> Result<()> {
        // Sockets would keep the namespace alive.
        self.host_c_flows.clear();
        self.hosts.recreate("host-c")?;
        self.start_host_c_flows()
    }

    /// Changes the MAC address of host-b.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn replace_card(&self, random: &mut Random) -> Result<()> {
        let mac = format!("02:00:00:00:{:02x}:{:02x}", random.below(256), random.below(256));
        let namespace = self.hosts.host("host-b").namespace();
        namespace.ip(&["link", "set", "eth0", "address", &mac]).map(drop)
    }

    /// All flows.
    pub fn all(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter().chain(&self.host_c_flows)
    }
}
