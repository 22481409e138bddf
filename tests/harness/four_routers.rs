//! Four routers: two providers, one inside, and Stoa between them with a daemon beside it.
//!
//! ```text
//!  provider-1 ──┐                     192.0.2.1, 2001:db8:1192::1: at both providers, the first is the better one
//!  (BGP)        ├── Stoa ── inside    192.0.2.129, 2001:db8:1193::1: at both, one as good as the other
//!  provider-2 ──┘    │      (OSPF)    203.0.113.1, 2001:db8:1203::1: inside
//!                  local: the daemon
//! ```
//!
//! No host has a default route: whoever reaches another has learned how.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stoa_lab::{
    Background, Command, Configuration, Namespace, Result, Router, Tool, Topology, stoa_binary,
    wait_until,
};

use crate::{Scenario, side};

/// The routers around Stoa. Providers are peers .1.2 and .2.2 of 198.18.0.0/16 and 2001:db8:1::2 and 2001:db8:2::2, inside is .3.2.
pub const AROUND: [&str; 3] = ["provider-1", "provider-2", "inside"];

/// What only routing daemons tell: at each router, of each family.
const BEHIND: [(&str, [&str; 2]); 5] = [
    ("provider-1", INTERNET),
    ("provider-2", INTERNET),
    ("provider-1", SHARED),
    ("provider-2", SHARED),
    ("inside", INSIDE),
];
const INTERNET: [&str; 2] = ["192.0.2.1", "2001:db8:1192::1"];
/// Behind both providers, which share what goes there.
pub const SHARED: [&str; 2] = ["192.0.2.129", "2001:db8:1193::1"];
const INSIDE: [&str; 2] = ["203.0.113.1", "2001:db8:1203::1"];

/// How long the host interfaces may take.
const HOST_INTERFACES: Duration = Duration::from_secs(20);
/// Flows to what providers share, and packets that each of them has to carry at least: a quarter.
const FLOWS: u16 = 200;
const QUARTER: u64 = 50;
/// Pings that tell by which provider packets leave: more than daemons send meanwhile.
const PINGS: u64 = 40;

/// The routers, and the namespace of Stoa's daemon. The daemons are the scenario's; they have to end before it.
#[derive(Debug)]
pub struct FourRouters {
    /// Stoa and its peers.
    pub scenario: Scenario,
    /// Where the host interfaces are, and the daemon belongs.
    pub local: Namespace,
}

impl FourRouters {
    /// All but the daemons. `route_sources` are control-plane protocols of the configuration, made for the namespace of the daemon.
    ///
    /// # Errors
    /// What the lab says.
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

    /// The namespace of a router around.
    pub fn around(&self, label: &str) -> &Namespace {
        self.scenario.host(label).namespace()
    }

    fn ping(&self, six: bool, arguments: &[&str]) -> Result<Command> {
        let (to, own) = (INTERNET[usize::from(six)], INSIDE[usize::from(six)]);
        let command = self.around("inside").command(Tool::PING)?;
        Ok(command.args(["-n", "-I", own]).args(arguments).args([to]))
    }

    /// Waits until pings from behind the inner router to the Internet, and back, pass by this provider; both families.
    ///
    /// # Errors
    /// When they do not in time.
    pub fn wait_passes(&self, provider: &str, deadline: Duration) -> Result<()> {
        for six in [false, true] {
            let family = if six { "IPv6" } else { "IPv4" };
            wait_until(&format!("{family} passes {provider}"), deadline, || {
                self.passes(six, provider).map_err(|error| error.to_string())?
            })?;
        }
        Ok(())
    }

    /// `Ok` when all pings were answered and left by this provider; what was seen else.
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

    /// Waits until both providers carry packets to the addresses that they share: at least a quarter of 200 flows each, in both families.
    ///
    /// # Errors
    /// When they do not in time.
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

    /// One datagram of each flow, from behind the inner router to what the providers share.
    fn send_flows(&self, six: bool) -> Result<()> {
        let own: IpAddr = INSIDE[usize::from(six)].parse().expect("an address");
        let to: IpAddr = SHARED[usize::from(six)].parse().expect("an address");
        self.around("inside").enter(|| {
            for port in 0..FLOWS {
                let socket = UdpSocket::bind(SocketAddr::new(own, 20_000 + port));
                // There is no route yet, or an answer came that nobody listens there.
                let _ = socket.map(|socket| socket.send_to(b"flow", SocketAddr::new(to, 9_999)));
            }
        })
    }

    /// Nothing gets into a router around or out of it any more, though its link stays up: only those who listen for it notice.
    ///
    /// # Errors
    /// When its Linux refuses.
    pub fn silence(&self, label: &str) -> Result<()> {
        for family in ["-4", "-6"] {
            let rule = |words: &[&str]| self.around(label).ip(&[&[family, "rule"], words].concat());
            rule(&["add", "pref", "100", "lookup", "local"])?;
            rule(&["add", "pref", "1", "blackhole"])?;
            rule(&["del", "pref", "0"])?;
        }
        Ok(())
    }

    /// Ends [`FourRouters::silence`].
    ///
    /// # Errors
    /// When its Linux refuses.
    pub fn end_silence(&self, label: &str) -> Result<()> {
        for family in ["-4", "-6"] {
            let rule = |words: &[&str]| self.around(label).ip(&[&[family, "rule"], words].concat());
            rule(&["add", "pref", "0", "lookup", "local"])?;
            rule(&["del", "pref", "1"])?;
            rule(&["del", "pref", "100"])?;
        }
        Ok(())
    }

    /// Pings fifty times a second, in both families, until it is asked what was lost.
    ///
    /// # Errors
    /// When ping cannot be started.
    pub fn stream(&self) -> Result<Stream> {
        let start = |six| self.ping(six, &["-i", "0.02", "-O"])?.spawn();
        Ok(Stream { pings: [start(false)?, start(true)?], begun: Instant::now() })
    }

    /// The link to the better provider goes, and comes back; says how many pings that cost.
    ///
    /// # Errors
    /// When packets do not pass by the other one in time, or not by the first again.
    pub fn fail_over_and_back(&self, fail_over: Duration, patience: Duration) -> Result<()> {
        // The link to the better provider goes: all see it, and the other one takes over.
        let stream = self.stream()?;
        self.around("provider-1").ip(&["link", "set", "eth0", "down"])?;
        self.wait_passes("provider-2", fail_over)?;
        println!("the link went: {:?} pings of 50 a second were lost", stream.lost()?);
        let stream = self.stream()?;
        self.around("provider-1").ip(&["link", "set", "eth0", "up"])?;
        // What else the kernel took away with the link.
        let six = ["-6", "addr", "replace", "2001:db8:1::2/64", "dev", "eth0", "nodad"];
        self.around("provider-1").ip(&six)?;
        self.wait_passes("provider-1", patience)?;
        println!("the link came: {:?} were lost", stream.lost()?);
        Ok(())
    }

    /// Checks that packets were conserved and that the router ends well; the daemons have ended before.
    ///
    /// # Errors
    /// When they were not, or it does not.
    pub fn end(self) -> Result<()> {
        self.scenario.end()
    }
}

/// Pings of both families that go on.
#[derive(Debug)]
pub struct Stream {
    pings: [Background; 2],
    begun: Instant,
}

impl Stream {
    /// Ends it and says how many pings had no answer when the next one was sent, by family.
    ///
    /// # Errors
    /// When ping does not end.
    pub fn lost(self) -> Result<[usize; 2]> {
        // At least a second of it.
        std::thread::sleep(Duration::from_secs(1).saturating_sub(self.begun.elapsed()));
        let mut lost = [0; 2];
        for (ping, lost) in self.pings.into_iter().zip(&mut lost) {
            Command::program("/bin/kill").args(["-INT", &ping.pid().to_string()]).run()?.ok()?;
            let (printed, errors, _) = ping.finish(Duration::from_secs(10))?;
            let answers = printed.matches(" bytes from ").count();
            assert!(answers > 0, "{printed}{errors}");
            *lost = printed.matches("no answer yet").count() + errors.lines().count();
        }
        Ok(lost)
    }
}
