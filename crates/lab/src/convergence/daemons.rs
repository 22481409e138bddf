//! The daemon under test: how it is started, killed and restarted.

use serde_json::Value;

use super::daemon_texts::{
    BGP_CALLER, BGP_ROUTE_SOURCE, bgpd_configuration, bird_configuration, ospfd_configuration,
    zebra_configuration,
};
use super::hops::peer_address;
use super::{Daemon, Protocol, Target, Workload};
use crate::{Bird, Frr, Namespace, Result, Tool};

/// The daemon's task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) daemon: Daemon,
    pub(super) target: Target,
    pub(super) protocol: Protocol,
    /// Whether the routes are IPv6.
    pub(super) six: bool,
    pub(super) peers: u8,
    /// Whether it will be killed: it and its peers then use graceful restart.
    pub(super) restarts: bool,
}

impl Setting {
    pub(super) fn of(workload: &Workload) -> Self {
        let Workload { daemon, target, protocol, peers, .. } = *workload;
        let (six, restarts) = (workload.table.is_six(), workload.kills.daemon);
        Self { daemon, target, protocol, six, peers, restarts }
    }
}

/// The running daemon.
#[derive(Debug)]
pub(super) struct Running {
    setting: Setting,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Frr(Frr),
    Bird(Bird),
}

impl Running {
    pub(super) fn start(local: &Namespace, setting: Setting) -> Result<Self> {
        let kind = match setting.daemon {
            Daemon::Frr => {
                if setting.target == Target::Bgp {
                    // bgpd connects only to a neighbour that zebra has a route to.
                    local.ip(&["addr", "add", BGP_CALLER, "dev", "lo"])?;
                }
                let (text, options) = zebra_configuration(&setting);
                let mut frr = Frr::start(local, (text, &options), &[])?;
                add_others(&mut frr, &setting)?;
                Kind::Frr(frr)
            }
            Daemon::Bird => Kind::Bird(Bird::start(local, &bird_configuration(&setting))?),
        };
        Ok(Self { setting, kind })
    }

    /// Its processes.
    pub(super) fn pids(&self) -> Vec<u32> {
        match &self.kind {
            Kind::Frr(frr) => frr.pids(),
            Kind::Bird(bird) => vec![bird.pid()],
        }
    }

    /// Kills all its processes.
    pub(super) fn kill(&mut self) {
        match &mut self.kind {
            Kind::Frr(frr) => {
                for tool in [Tool::BGPD, Tool::OSPFD, Tool::STATICD, Tool::ZEBRA] {
                    frr.kill(tool);
                }
            }
            Kind::Bird(bird) => bird.kill(),
        }
    }

    /// Starts it again after [`Running::kill`].
    pub(super) fn restart(&mut self) -> Result<()> {
        match &mut self.kind {
            Kind::Frr(frr) => {
                let (text, options) = zebra_configuration(&self.setting);
                frr.zebra(text, &options)?;
                add_others(frr, &self.setting)
            }
            Kind::Bird(bird) => bird.restart(),
        }
    }

    /// How many routes it reports from its first peer.
    pub(super) fn learned(&self) -> Result<usize> {
        let Setting { protocol, six, .. } = self.setting;
        let printed = match &self.kind {
            Kind::Bird(bird) => {
                let name = if protocol == Protocol::Bgp { "peer0" } else { "inside" };
                return Ok(imported(&bird.query(&format!("show protocols all {name}"))?));
            }
            // Not zebra, which also counts routes that it found in the kernel.
            Kind::Frr(frr) if protocol == Protocol::Bgp => {
                let family = if six { "ipv6" } else { "ipv4" };
                frr.query(&format!("show bgp {family} unicast summary json"))?
            }
            Kind::Frr(frr) => frr.query("show ip ospf json")?,
        };
        // Output that is not JSON means that it is not ready.
        let printed: Value = serde_json::from_str(&printed).unwrap_or_default();
        let count = match protocol {
            Protocol::Bgp => &printed["peers"][peer_address(0, six).to_string()]["pfxRcd"],
            Protocol::Ospf => &printed["lsaExternalCounter"],
        };
        Ok(count.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0))
    }
}

/// The routes that a protocol of BIRD has imported.
fn imported(printed: &str) -> usize {
    let line = printed.lines().find_map(|line| line.trim().strip_prefix("Routes:"));
    let count = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    count.unwrap_or(0)
}

/// Starts the daemons beside zebra.
fn add_others(frr: &mut Frr, setting: &Setting) -> Result<()> {
    if setting.protocol == Protocol::Ospf {
        return frr.add(Tool::OSPFD, &ospfd_configuration(), &[]);
    }
    if setting.target == Target::Bgp {
        frr.add(Tool::STATICD, &format!("ip route {BGP_ROUTE_SOURCE}/32 lo\n"), &[])?;
    }
    // With the BGP route source, zebra does not need the routes.
    let options: &[&str] = if setting.target == Target::Bgp { &["-n"] } else { &[] };
    frr.add(Tool::BGPD, &bgpd_configuration(setting), options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_learned_routes_of_daemons() {
        let printed = "peer0 BGP\n  Channel ipv4\n    Routes:         5000 imported, 0 exported, 12 preferred\n";
        assert_eq!((imported(printed), imported("")), (5000, 0));
    }
}
