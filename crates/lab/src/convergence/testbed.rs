//! The testbed around the router: the peers behind a veth port, the daemon in a namespace with the host interfaces,
//! test packets over memif.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::daemon_texts::{BGP_PORT, BGP_ROUTE_SOURCE};
use super::frames::Arrival;
use super::hops::{
    ASN, Hop, IN_MAC, OutPort, hops_length, own, own_in, peer_address, peers_length, warm,
};
use super::links::{self, Links};
use super::{Target, Workload};
use crate::{
    Address, Configuration, Namespace, NextHop, Result, Router, Scratch, Side, Topology, wait_until,
};

/// Timeout for the host interfaces to come up.
const HOST_INTERFACES: Duration = Duration::from_secs(30);
/// Packets that touch buffers and rings before memory is measured.
const WARM_PACKETS: u32 = 60_000;
/// Default route limits, IPv4 and IPv6.
const ROUTES_USUAL: [usize; 2] = [2_000_000, 1_000_000];

/// Everything around the daemon. The declaration order is the drop order.
pub(super) struct Testbed {
    pub(super) links: Links,
    pub(super) router: Router,
    pub(super) local: Namespace,
    pub(super) topology: Topology,
    // The sockets of the memif ports.
    _scratch: Scratch,
}

impl Testbed {
    pub(super) fn new(binary: &Path, workload: &Workload) -> Result<Self> {
        let six = workload.table.is_six();
        let length = peers_length(six);
        let own = format!("{}/{length}", own(six));
        let theirs = |peer: u8| format!("{}/{length}", peer_address(peer, six));
        let side = Side::new("peers", &[(&theirs(0), &own)])?;
        let topology = Topology::new(std::slice::from_ref(&side))?;
        for peer in 1..workload.peers {
            let namespace = topology.host("peers").namespace();
            namespace.ip(&["addr", "add", &theirs(peer), "dev", "eth0"])?;
        }
        let local = Namespace::new("local")?;
        let scratch = Scratch::new()?;
        let configuration = configuration(&side, local.name(), scratch.path(), workload)?;
        let router = Router::start(binary, Some(topology.router()), &configuration)?;
        let links = Links::open(scratch.path(), six)?;
        router.wait_up(&["peers", "in", "out", "out2"])?;
        let mut testbed = Self { links, router, local, topology, _scratch: scratch };
        testbed.wait_host_interfaces(six)?;
        testbed.warm(six)?;
        Ok(testbed)
    }

    /// The namespace of the peers.
    pub(super) fn peers(&self) -> &Namespace {
        self.topology.host("peers").namespace()
    }

    fn wait_host_interfaces(&self, six: bool) -> Result<()> {
        let family = if six { "-6" } else { "-4" };
        wait_until("the host interfaces are up with their addresses", HOST_INTERFACES, || {
            let shown = self.local.ip(&["-o", family, "addr", "show", "up"]);
            let links = self.local.ip(&["-o", "link", "show", "up"]);
            let (shown, links) = match (shown, links) {
                (Ok(shown), Ok(links)) => (shown, links),
                (Err(error), _) | (_, Err(error)) => return Err(error.to_string()),
            };
            let addresses = [own(six), OutPort::First.own(six), OutPort::Second.own(six)];
            let is_there = addresses.iter().all(|one| shown.contains(&format!(" {one}/")));
            let carriers = links.matches("LOWER_UP").count() >= 4;
            if is_there && carriers { Ok(()) } else { Err(format!("{shown}{links}")) }
        })
    }

    /// Sends by the static route until packets arrive, then enough to touch all buffers and rings.
    fn warm(&mut self, six: bool) -> Result<()> {
        let hop = Hop { peer: 0, out: OutPort::First, depth: 0 };
        let address = 1 + match warm(six).0 {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address),
        };
        let links = &mut self.links;
        let router = &self.router;
        wait_until("packets pass the router", HOST_INTERFACES, || {
            // A recreated port has new rings.
            links.service();
            let mut came = 0;
            let mut count = |arrival: Arrival| came += u32::from(arrival.went_by(hop));
            // Sending receives as well: a packet may already be back when the doorbell has woken a worker on this
            // processor, and one that took longer than the sleep below comes with the next attempt.
            links.send([(u32::MAX, address, 0)], &mut count);
            std::thread::sleep(Duration::from_millis(5));
            links.receive(count);
            let drops = || router.json(&["show", "drops", "--json"]);
            if came > 0 { Ok(()) } else { Err(format!("no packet left the router; {:?}", drops())) }
        })?;
        links.send((0..WARM_PACKETS).map(|number| (u32::MAX, address, number)), |_| ());
        let end = Instant::now() + Duration::from_millis(100);
        while Instant::now() < end {
            links.receive(|_| ());
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The process ids of the forwarder and the controller.
    pub(super) fn stoa_pids(&self) -> Result<[u32; 2]> {
        let status = self.router.status()?;
        let pid = |part: &str| status[part].as_u64().and_then(|pid| u32::try_from(pid).ok());
        Ok(["forwarder_pid", "controller_pid"].map(|part| pid(part).unwrap_or(0)))
    }
}

fn configuration(side: &Side, netns: &str, folder: &Path, workload: &Workload) -> Result<Value> {
    let six = workload.table.is_six();
    let memif = |name: &str| {
        let socket = links::socket(folder, name);
        json!({ "memif": { "socket": socket, "role": "master" } })
    };
    let address = |ip: IpAddr, length: u8| -> Result<Address> { format!("{ip}/{length}").parse() };
    let mut made = Configuration::new(std::slice::from_ref(side))
        .port("in", memif("in"))
        .addresses("in", &[address(own_in(six), if six { 64 } else { 24 })?]);
    made.interface("in")["stoa-interfaces:mac-address"] = json!(text(IN_MAC));
    for out in OutPort::BOTH {
        made = made
            .port(out.name(), memif(out.name()))
            .addresses(out.name(), &[address(out.own(six), hops_length(six))?]);
        let neighbors: Vec<Value> = Hop::all(out, workload.peers)
            .map(|hop| {
                let ip = hop.address(six).to_string();
                json!({ "ip": ip, "link-layer-address": text(hop.mac()) })
            })
            .collect();
        let family = if six { "ietf-ip:ipv6" } else { "ietf-ip:ipv4" };
        made.interface(out.name())[family]["neighbor"] = json!(neighbors);
    }
    for name in ["peers", "out", "out2"] {
        made.interface(name)["stoa-host-interface:host-interface"] = json!({ "netns": netns });
    }
    let hop = Hop { peer: 0, out: OutPort::First, depth: 0 }.address(six).to_string();
    let (network, length) = warm(six);
    let mut whole = made.route(&format!("{network}/{length}"), NextHop::Via(&hop)).json();
    let protocols = "control-plane-protocols";
    let list = &mut whole["ietf-routing:routing"][protocols]["control-plane-protocol"];
    if let (Some(list), Some(route_source)) =
        (list.as_array_mut(), route_source(workload.target, netns))
    {
        list.push(route_source);
    }
    let routes = workload.table.len();
    if routes > ROUTES_USUAL[usize::from(six)] {
        let limit = if six { "ipv6-routes" } else { "ipv4-routes" };
        whole["stoa-system:system"]["limits"][limit] = json!(routes + routes / 8);
    }
    Ok(whole)
}

/// The route source for this target.
fn route_source(target: Target, netns: &str) -> Option<Value> {
    let (kind, route_source) = match target {
        Target::Fpm => ("fpm", json!({ "netns": netns })),
        Target::Netlink => ("netlink", json!({ "netns": netns })),
        Target::Bgp => {
            let route_source = json!({
                "netns": netns, "bgp-address": BGP_ROUTE_SOURCE, "bgp-port": BGP_PORT, "as": ASN,
            });
            ("bgp", route_source)
        }
        Target::Kernel => return None,
    };
    Some(json!({
        "type": format!("stoa-routing:{kind}"), "name": "daemon", "stoa-routing:route-source": route_source,
    }))
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|octet| format!("{octet:02x}")).join(":")
}
