//! Many flows through rules and NAT: programs on two hosts open them, and say how many get answers.

use std::time::Duration;

use serde_json::Value;
use stoa_lab::{Background, Host, Result, Tool, wait_until};

/// Echo of the server, for datagrams and connections.
const PORT: u16 = 7;
/// Where subscribers are, and where their IPv6 hosts are.
pub const NETWORKS: [&str; 2] = ["198.19.0.0/16", "2001:db8:a::/64"];
/// host-b as IPv6 hosts see it, by NAT64.
const SERVER6: &str = "2001:db8:64::c612:202";
/// Of each 100 flows, those that must have answers; others may just have lost a packet on a busy machine.
const ANSWERED: u64 = 95;

/// Flows of datagrams that subscribers keep open.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Of IPv4. A twentieth as many come by NAT64, a fiftieth are connections.
    pub flows: u64,
}

impl Size {
    /// The time in which each flow sends once: no more than 5,000 datagrams a second.
    pub fn period(self) -> Duration {
        Duration::from_secs(self.flows.div_ceil(5_000).max(1))
    }

    /// How long a flow lives without packets, seconds.
    pub fn timeout_s(self) -> u64 {
        (3 * self.period().as_secs()).max(4)
    }

    /// Flows that the tables of the router hold: with room for hash buckets that fill unevenly, for flows of
    /// connections that have ended, and for a sixteenth of them of one source.
    pub fn capacity(self) -> u64 {
        (2 * self.flows).max(65_536)
    }
}

/// The programs. Dropping it ends them.
pub struct Subscribers {
    size: Size,
    clients: Background,
    _servers: Background,
}

impl Subscribers {
    /// Begins servers on one host and subscribers behind the other one.
    ///
    /// # Errors
    /// When a program cannot be started.
    pub fn start(inside: &Host, outside: &Host, size: Size, seed: u64) -> Result<Self> {
        for network in NETWORKS {
            let family = if network.contains(':') { "-6" } else { "-4" };
            inside.namespace().ip(&[family, "route", "replace", "local", network, "dev", "lo"])?;
        }
        let (server, port) = (outside.address(false)?.to_string(), PORT.to_string());
        let script = include_str!("servers.py");
        let servers =
            outside.command(Tool::PYTHON)?.args(["-c", script, &server, &port]).spawn()?;
        servers.wait_for("ready", Duration::from_secs(20))?;
        let script = include_str!("subscribers.py");
        let (flows, seed) = (size.flows.to_string(), seed.to_string());
        let period = size.period().as_secs().to_string();
        let arguments = ["-c", script, &server, SERVER6, &port, &flows, &period, &seed];
        let clients = inside.command(Tool::PYTHON)?.args(arguments).spawn()?;
        Ok(Self { size, clients, _servers: servers })
    }

    /// The last line of the subscribers; `Null`: there is none yet.
    pub fn report(&self) -> Value {
        last_report(&self.clients.stdout())
    }

    /// Waits until flows of all kinds get answers again.
    ///
    /// # Errors
    /// They do not in time.
    pub fn all_flow(&self, deadline: Duration) -> Result<()> {
        let before = self.report();
        wait_until("subscribers get answers", deadline + 5 * self.size.period(), || {
            let now = self.report();
            let of = |report: &Value, key: &str| report[key].as_u64().unwrap_or(0);
            // The round of now is on its way, and the last one began after this was called.
            let has_round = |round: &str, answered: &str, flows: u64| {
                of(&now, round) >= of(&before, round) + 2
                    && of(&now, answered) * 100 >= flows * ANSWERED
            };
            let has_flows = has_round("round4", "ip4", self.size.flows)
                && has_round("round6", "ip6", self.size.flows / 20);
            let is_new = ["echoed", "files"].iter().all(|key| of(&now, key) > of(&before, key));
            if has_flows && is_new {
                return Ok(());
            }
            Err(format!("{now}, before: {before}"))
        })
    }

    /// Ends the subscribers in order; what they have counted.
    ///
    /// # Errors
    /// The system does not say how they have ended.
    pub fn end(self) -> Result<Value> {
        let (printed, log, status) = self.clients.stop()?;
        assert!(status.success(), "{log}");
        Ok(last_report(&printed))
    }
}

fn last_report(printed: &str) -> Value {
    let whole = printed.rfind('\n').map_or("", |end| &printed[..end]);
    whole.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
}
