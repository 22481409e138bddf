//! The OSPF neighbour: a BIRD with a static route for each prefix, which it originates as AS-external LSAs (RFC 2328,
//! type 5).
//!
//! The static routes use a separate link to the network of the next hops, so that each LSA has its next hop as the
//! forwarding address, which the router reaches directly.

use std::fmt::Write;
use std::time::{Duration, Instant};

use super::hops::{Hop, OutPort, peer_id, peers_length};
use super::table::Table;
use crate::{Bird, LabError, Namespace, Result, wait_until};

/// The link to the network of the next hops.
const HOPS: &str = "hops";
/// Timeout for originating all LSAs.
const MADE: Duration = Duration::from_secs(120);

/// The neighbour.
#[derive(Debug)]
pub(super) struct Neighbor {
    bird: Bird,
}

impl Neighbor {
    /// Starts it and waits until it has originated all LSAs. It has no address towards the router yet, so they are
    /// not flooded.
    ///
    /// # Errors
    ///
    /// BIRD's error.
    pub(super) fn start(namespace: &Namespace, table: &Table) -> Result<Self> {
        let own = own_address();
        namespace.ip(&["addr", "del", &own, "dev", "eth0"])?;
        namespace.ip(&["link", "add", HOPS, "type", "veth", "peer", "name", "hops-end"])?;
        for device in [HOPS, "hops-end"] {
            namespace.ip(&["link", "set", device, "up"])?;
        }
        let spare = format!("{}/{}", OutPort::First.spare(), super::hops::hops_length(false));
        namespace.ip(&["addr", "add", &spare, "dev", HOPS])?;
        let bird = Bird::start(namespace, &configuration(table))?;
        // An LSA gets a forwarding address only if the link is up when the LSA is originated.
        wait_until("the link to the next hops is up in OSPF", MADE, || {
            let printed = bird.query(&format!("show ospf interface \"{HOPS}\""));
            let printed = printed.map_err(|error| error.to_string())?;
            if printed.contains("State: PtP") { Ok(()) } else { Err(printed) }
        })?;
        bird.query("enable prefixes")?;
        let routes = table.len();
        wait_until("the OSPF neighbour has originated its LSAs", MADE, || {
            let printed = bird.query("show ospf").map_err(|error| error.to_string())?;
            let line = printed.lines().find_map(|line| line.strip_prefix("Number of LSAs in DB:"));
            let count: Option<usize> = line.and_then(|count| count.trim().parse().ok());
            if count.is_some_and(|count| count >= routes) { Ok(()) } else { Err(printed) }
        })?;
        Ok(Self { bird })
    }

    /// Adds its address, and returns when both routers began to exchange their databases (state ExStart).
    ///
    /// # Errors
    ///
    /// [`LabError::WaitDeadline`] when they do not.
    pub(super) fn begin(&self, namespace: &Namespace, deadline: Duration) -> Result<Instant> {
        namespace.ip(&["addr", "add", &own_address(), "dev", "eth0"])?;
        wait_until("the OSPF neighbours exchange their databases", deadline, || {
            let printed =
                self.bird.query("show ospf neighbors").map_err(|error| error.to_string())?;
            let states = ["ExStart", "Exchange", "Loading", "Full"];
            let begun = states.iter().any(|state| printed.contains(state));
            if begun { Ok(Instant::now()) } else { Err(printed) }
        })
    }

    /// Returns an error when it has exited.
    pub(super) fn still_runs(&self) -> Result<()> {
        if self.bird.is_running() {
            return Ok(());
        }
        Err(LabError::ParseFailed {
            what: "the OSPF neighbour".to_owned(),
            reason: self.bird.log(),
        })
    }
}

/// Its address towards the router.
fn own_address() -> String {
    format!("{}/{}", peer_id(0), peers_length(false))
}

fn configuration(table: &Table) -> String {
    let mut text = format!(
        "router id {};\nlog stderr all;\nprotocol device {{ scan time 1; }}\n\
         protocol ospf v2 {{ ipv4 {{ import none; export where source = RTS_STATIC; }}; area 0 {{ \
         interface \"eth0\" {{ type ptp; hello 1; retransmit 2; dead 60; }}; interface \"{HOPS}\" {{ stub; type ptp; }}; }}; }}\n\
         protocol static prefixes {{ disabled; ipv4;\n",
        peer_id(0)
    );
    for (address, length, depth) in table.all() {
        let hop = Hop { peer: 0, out: OutPort::First, depth }.address(false);
        let _ = writeln!(text, "route {address}/{length} via {hop};");
    }
    text + "}\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prefix_has_its_next_hop() {
        let text = configuration(&Table::four(vec![(0x1400_0000, 16), (0x1400_0000, 24)]));
        assert!(text.contains("route 20.0.0.0/16 via 198.18.16.10;\n"), "{text}");
        assert!(text.contains("route 20.0.0.0/24 via 198.18.16.11;\n"), "{text}");
    }
}
