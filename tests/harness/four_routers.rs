//! Four routers: two providers, one inside, and Stoa between them with a routing daemon.
//!
//! ```text
//!  provider-1 ──┐                     192.0.2.1, 2001:db8:1192::1: behind both providers, the first is preferred
//!  (BGP)        ├── Stoa ── inside    192.0.2.129, 2001:db8:1193::1: behind both, equal cost
//!  provider-2 ──┘    │      (OSPF)    203.0.113.1, 2001:db8:1203::1: behind inside
//!                  local: the routing daemon
//! ```
//!
//! No host has a default route: all reachability comes from routing protocols.

mod silence;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stoa_lab::{
    Background, Command, Configuration, Namespace, Result, Router, Tool, Topology, stoa_binary,
    wait_until,
};

use crate::{Scenario, side};

/// The routers around Stoa: provider N has 198.18.N.2 and 2001:db8:N::2, inside has 198.18.3.2.
pub const AROUND: [&str; 3] = ["provider-1", "provider-2", "inside"];

/// Addresses behind each router, by family, that only routing protocols advertise.
const BEHIND: [(&str, [&str; 2]); 5] = [
    ("provider-1", INTERNET),
    ("provider-2", INTERNET),
    ("provider-1", SHARED),
    ("provider-2", SHARED),
    ("inside", INSIDE),
];
const INTERNET: [&str; 2] = ["192.0.2.1", "2001:db8:1192::1"];
/// Behind both providers, with equal cost.
pub const SHARED: [&str; 2] = ["192.0.2.129", "2001:db8:1193::1"];
const INSIDE: [&str; 2] = ["203.0.113.1", "2001:db8:1203::1"];

/// Deadline for the host interfaces.
const HOST_INTERFACES: Duration = Duration::from_secs(20);
/// Flows to [`SHARED`], and the packets that each provider must carry at least: a quarter.
const FLOWS: u16 = 200;
const QUARTER: u64 = 50;
/// Pings that show which provider carries packets: more packets than daemons send meanwhile.
const PINGS: u64 = 40;

/// The routers, and the namespace of Stoa's routing daemon. The scenario owns the daemons; they must end first.
#[derive(Debug)]
pub struct FourRouters {
    /// Stoa and its peers.
    pub scenario: Scenario,
    /// The namespace of the host interfaces and of the daemon.
    pub local: Namespace,
}

impl FourRouters {
    /// Starts everything except the daemons. `route_sources` returns the control-plane protocols for the namespace of
    /// the daemon.
    ///
    /// # Errors
    /// Errors of the lab.
    pub fn begin(route_sources: impl FnOnce(&str) -> Vec<Value>) -> Result<Self> {
        let sides = [side(AROUND[0], 1)?, side(AROUND[1], 2)?, side(AROUND[2], 3)?];
        let topology = Topology::new(&sides)?;
        for (label, addresses) in BEHIND {
            let namespace = topology.host(label).namespace();
            for (address, (family, length)) in addresses.iter().zip([("-4", "32"), ("-6", "128")]) {
                namespace.ip(&["addr", "add", &format!("{address}/{length}"), "dev", "lo"])?;
                if *address != SHARED[0] && *address != SHARED[1] {
                    namespace.ip(&[family, "route", "del", "default"])?;
                }
            }
        }
        let local = Namespace::new("local")?;
        let mut configuration = Configuration::new(&sides).json();
        let list = configuration["ietf-interfaces:interfaces"]["interface"].as_array_mut();
        for interface in list.into_iter().flatten() {
            interface["stoa-host-interface:host-interface"] = json!({ "netns": local.name() });
        }
        configuration["ietf-routing:routing"]["control-plane-protocols"] =
            json!({ "control-plane-protocol": route_sources(local.name()) });
        let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
        router.wait_up(&AROUND)?;
        wait_until("the host interfaces have their addresses", HOST_INTERFACES, || {
            let shown = local.ip(&["-o", "addr", "show"]).map_err(|error| error.to_string())?;
            let expected = (1..=3).flat_map(|number| {
                [format!(" 198.18.{number}.1/24 "), format!(" 2001:db8:{number}::1/64 ")]
            });
            if expected.into_iter().all(|one| shown.contains(&one)) { Ok(()) } else { Err(shown) }
        })?;
        Ok(Self { scenario: Scenario { router, topology }, local })
    }

    /// The namespace of a router around Stoa.
    pub fn around(&self, label: &str) -> &Namespace {
        self.scenario.host(label).namespace()
    }

    fn ping(&self, six: bool, arguments: &[&str]) -> Result<Command> {
        let (to, own) = (INTERNET[usize::from(six)], INSIDE[usize::from(six)]);
        let command = self.around("inside").command(Tool::PING)?;
        Ok(command.args(["-n", "-I", own]).args(arguments).args([to]))
    }

    /// Waits until pings from behind the inner router to the Internet pass through this provider; both families.
    ///
    /// # Errors
    /// After the deadline.
    pub fn wait_passes(&self, provider: &str, deadline: Duration) -> Result<()> {
        for six in [false, true] {
            let family = if six { "IPv6" } else { "IPv4" };
            wait_until(&format!("{family} passes through {provider}"), deadline, || {
                self.passes(six, provider).map_err(|error| error.to_string())?
            })?;
        }
        Ok(())
    }

    /// `Ok` if all pings were answered and left through this provider; otherwise the counts.
    fn passes(&self, six: bool, provider: &str) -> Result<std::result::Result<(), String>> {
        let before = self.sent_to(provider)?;
        let pings = self.ping(six, &["-c", &PINGS.to_string(), "-i", "0.01", "-W", "1"])?;
        let output = pings.deadline(Duration::from_secs(20)).run()?;
        let sent = self.sent_to(provider)? - before;
        let is_all = output.stdout.contains(&format!(" {PINGS} received"));
        Ok(if is_all && sent >= PINGS {
            Ok(())
        } else {
            Err(format!("{sent} packets to {provider}; {}{}", output.stdout, output.stderr))
        })
    }

    fn sent_to(&self, label: &str) -> Result<u64> {
        let list = self.scenario.router.interfaces()?;
        Ok(list.iter().find(|one| one.name == label).map_or(0, |one| one.tx_packets))
    }

    /// Waits until each provider carries at least a quarter of the flows to [`SHARED`], in both families.
    ///
    /// # Errors
    /// After the deadline.
    pub fn wait_shared(&self, deadline: Duration) -> Result<()> {
        for six in [false, true] {
            let family = if six { "IPv6" } else { "IPv4" };
            wait_until(&format!("both providers carry {family}"), deadline, || {
                let before = self.sent_to_providers().map_err(|error| error.to_string())?;
                self.send_flows(six).map_err(|error| error.to_string())?;
                std::thread::sleep(Duration::from_millis(200));
                let after = self.sent_to_providers().map_err(|error| error.to_string())?;
                let carried = [after[0] - before[0], after[1] - before[1]];
                let is_shared = carried.iter().all(|packets| *packets >= QUARTER);
                if is_shared { Ok(()) } else { Err(format!("{carried:?} of {FLOWS}")) }
            })?;
        }
        Ok(())
    }

    fn sent_to_providers(&self) -> Result<[u64; 2]> {
        Ok([self.sent_to("provider-1")?, self.sent_to("provider-2")?])
    }

    /// Sends one datagram of each flow from behind the inner router to [`SHARED`].
    fn send_flows(&self, six: bool) -> Result<()> {
        let own: IpAddr = INSIDE[usize::from(six)].parse().expect("an address");
        let to: IpAddr = SHARED[usize::from(six)].parse().expect("an address");
        self.around("inside").enter(|| {
            for port in 0..FLOWS {
                let socket = UdpSocket::bind(SocketAddr::new(own, 20_000 + port));
                // Fails without a route, or after an ICMP error: the port is closed.
                let _ = socket.map(|socket| socket.send_to(b"flow", SocketAddr::new(to, 9_999)));
            }
        })
    }

    /// Adds a default route at the inner router for the time when OSPF has none.
    ///
    /// # Errors
    /// When `ip` fails.
    pub fn add_static_route_inside(&self) -> Result<()> {
        for (family, gateway) in [("-4", "198.18.3.1"), ("-6", "2001:db8:3::1")] {
            let route = ["route", "add", "default", "via", gateway, "metric", "10000"];
            self.around("inside").ip(&[&[family], &route[..]].concat())?;
        }
        Ok(())
    }

    /// Pings fifty times a second in both families until [`Stream::lost`] ends it.
    ///
    /// # Errors
    /// When ping cannot be started.
    pub fn stream(&self) -> Result<Stream> {
        let start = |six| self.ping(six, &["-i", "0.02", "-O"])?.spawn();
        Ok(Stream { pings: [start(false)?, start(true)?], begun: Instant::now() })
    }

    /// Watches the Linux routes of the local daemon and of the providers until [`RouteMonitor::deleted`] ends it.
    ///
    /// # Errors
    /// When `ip monitor` cannot be started.
    pub fn monitor_routes(&self) -> Result<RouteMonitor> {
        let watched = [&self.local, self.around(AROUND[0]), self.around(AROUND[1])];
        let start = |namespace: &&Namespace| {
            namespace.command(Tool::IP)?.args(["-o", "monitor", "route"]).spawn()
        };
        Ok(RouteMonitor(watched.iter().map(start).collect::<Result<_>>()?))
    }

    /// Sets the link to the preferred provider down and up again, and prints how many pings were lost.
    ///
    /// # Errors
    /// When packets do not move to the other provider, or back, before the deadline.
    pub fn fail_over_and_back(&self, fail_over: Duration, patience: Duration) -> Result<()> {
        let stream = self.stream()?;
        self.around("provider-1").ip(&["link", "set", "eth0", "down"])?;
        self.wait_passes("provider-2", fail_over)?;
        println!("link down: {:?} pings of 50 a second were lost", stream.lost()?);
        let stream = self.stream()?;
        self.around("provider-1").ip(&["link", "set", "eth0", "up"])?;
        // The kernel removes the IPv6 address when the link goes down.
        let six = ["-6", "addr", "replace", "2001:db8:1::2/64", "dev", "eth0", "nodad"];
        self.around("provider-1").ip(&six)?;
        self.wait_passes("provider-1", patience)?;
        println!("link up: {:?} were lost", stream.lost()?);
        Ok(())
    }

    /// Checks that packets are conserved and that the router stops cleanly. The daemons must have ended.
    ///
    /// # Errors
    /// When one of the checks fails.
    pub fn end(self) -> Result<()> {
        self.scenario.end()
    }
}

/// Running `ip monitor route`, one for each watched routing table.
#[derive(Debug)]
pub struct RouteMonitor(Vec<Background>);

impl RouteMonitor {
    /// The routes of the pings that Linux deleted, by family, as `ip monitor` printed them. A replaced route is not
    /// among them.
    #[must_use]
    pub fn deleted(self) -> [Vec<String>; 2] {
        let printed: Vec<String> = self.0.iter().map(Background::stdout).collect();
        [false, true]
            .map(|six| printed.iter().flat_map(|printed| deleted_routes(printed, six)).collect())
    }
}

/// The routes of the pings of a family among those that `ip monitor` printed as deleted.
fn deleted_routes(printed: &str, six: bool) -> Vec<String> {
    let of_pings = [INTERNET, INSIDE].map(|both| both[usize::from(six)]);
    let is_of_pings =
        |route: &&str| of_pings.contains(&route.split(' ').next().unwrap_or_default());
    let deleted = printed.lines().filter_map(|line| line.strip_prefix("Deleted "));
    deleted.filter(is_of_pings).map(str::to_owned).collect()
}

/// Whether Linux kept the routes of the pings in both families. A family whose routes it kept has lost no ping,
/// whatever happened to those of the other one.
///
/// # Errors
/// The family that lost pings although its routes were kept.
pub fn was_graceful(
    lost: [usize; 2],
    deleted: &[Vec<String>; 2],
) -> std::result::Result<bool, String> {
    for ((family, lost), deleted) in ["IPv4", "IPv6"].iter().zip(lost).zip(deleted) {
        if lost > 0 && deleted.is_empty() {
            return Err(format!("{lost} pings of {family} were lost while Linux had their routes"));
        }
    }
    Ok(deleted.iter().all(Vec::is_empty))
}

/// Running pings of both families.
#[derive(Debug)]
pub struct Stream {
    pings: [Background; 2],
    begun: Instant,
}

impl Stream {
    /// Ends the pings and returns how many sent until now had no answer, by family. Late answers count: on a busy
    /// machine they take longer than the interval.
    ///
    /// # Errors
    /// When ping stops sending, or does not end.
    pub fn lost(self) -> Result<[usize; 2]> {
        // At least one second of pings.
        std::thread::sleep(Duration::from_secs(1).saturating_sub(self.begun.elapsed()));
        let mut lost = [0; 2];
        for (ping, lost) in self.pings.into_iter().zip(&mut lost) {
            let last = Pings::of(&ping.stdout()).last();
            wait_until("ping sends for another second", Duration::from_secs(20), || {
                let now = Pings::of(&ping.stdout()).last();
                if now >= last + 50 { Ok(()) } else { Err(format!("{now} after {last}")) }
            })?;
            Command::program("/bin/kill").args(["-INT", &ping.pid().to_string()]).run()?.ok()?;
            let (printed, errors, _) = ping.finish(Duration::from_secs(10))?;
            let pings = Pings::of(&printed);
            assert!(!pings.answered.is_empty(), "{printed}{errors}");
            *lost = pings.lost_until(last) + errors.lines().count();
        }
        Ok(lost)
    }
}

/// What `ping -O` has printed, by sequence number.
struct Pings {
    answered: BTreeSet<u32>,
    /// Without an answer when the next one was sent.
    late: BTreeSet<u32>,
}

impl Pings {
    fn of(printed: &str) -> Pings {
        let numbers = |marker: &str| {
            let lines = printed.lines().filter(|line| line.contains(marker));
            let number = |line: &str| {
                line.split_once("icmp_seq=")?.1.split_whitespace().next()?.parse().ok()
            };
            lines.filter_map(number).collect()
        };
        Pings { answered: numbers(" bytes from "), late: numbers("no answer yet") }
    }

    /// The last sequence number that was printed.
    fn last(&self) -> u32 {
        self.answered.last().max(self.late.last()).copied().unwrap_or(0)
    }

    /// How many of those up to `last` were never answered.
    fn lost_until(&self, last: u32) -> usize {
        self.late.difference(&self.answered).filter(|number| **number <= last).count()
    }
}

#[test]
fn a_late_answer_is_not_lost() {
    let printed = "no answer yet for icmp_seq=1\n64 bytes from 192.0.2.1: icmp_seq=1 ttl=62 time=30 ms\n\
        no answer yet for icmp_seq=2\n64 bytes from 192.0.2.1: icmp_seq=3 ttl=62 time=1 ms\n\
        no answer yet for icmp_seq=4\n";
    let pings = Pings::of(printed);
    assert_eq!((pings.last(), pings.lost_until(3), pings.lost_until(4)), (4, 1, 2));
}

#[test]
fn only_deleted_routes_of_the_pings_are_found() {
    let printed = "192.0.2.1 via 198.18.2.2 dev provider-2 proto bird metric 32 \n\
        Deleted 2001:db8:3::/64 dev inside proto bird metric 32 pref medium\n\
        Deleted 192.0.2.129 proto bird metric 32 \\\tnexthop via 198.18.1.2 dev provider-1 weight 1 \n\
        Deleted 203.0.113.1 via 198.18.3.2 dev inside proto bird metric 32 \n";
    let expected = "203.0.113.1 via 198.18.3.2 dev inside proto bird metric 32 ";
    assert_eq!(deleted_routes(printed, false), [expected]);
    assert_eq!(deleted_routes(printed, true), Vec::<String>::new());
}

/// A deleted route of one family excuses no loss of the other one.
#[test]
fn lost_pings_are_judged_by_family() {
    let deleted = |numbers: [usize; 2]| numbers.map(|number| vec!["a route".to_owned(); number]);
    assert_eq!(was_graceful([0, 0], &deleted([0, 0])), Ok(true));
    assert_eq!(was_graceful([7, 0], &deleted([1, 0])), Ok(false));
    assert_eq!(was_graceful([0, 0], &deleted([0, 1])), Ok(false));
    let refused = |lost, numbers| was_graceful(lost, &deleted(numbers)).unwrap_err();
    assert!(refused([7, 3], [1, 0]).starts_with("3 pings of IPv6"));
    assert!(refused([7, 0], [0, 1]).starts_with("7 pings of IPv4"));
}
