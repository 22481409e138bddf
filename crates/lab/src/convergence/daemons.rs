//! The daemon that is measured, and what it is told: BGP with each peer, and where its routes go.

use std::fmt::Write;

use super::hops::{ASN, OWN, peer_address, peer_asn};
use super::{Daemon, Target};
use crate::{Bird, Frr, Namespace, Result, Tool};

/// Where the daemon finds the BGP door.
pub(super) const BGP_DOOR: &str = "127.0.0.1";
/// The address that bgpd calls it from: zebra has to know it.
const BGP_CALLER: &str = "198.51.100.1/32";
/// The port of the BGP door.
pub(super) const BGP_PORT: u16 = 1790;

/// The running daemon.
#[derive(Debug)]
pub(super) enum Running {
    Frr(Frr),
    Bird(Bird),
}

impl Running {
    pub(super) fn start(
        local: &Namespace,
        daemon: Daemon,
        target: Target,
        peers: u8,
    ) -> Result<Self> {
        match daemon {
            Daemon::Frr => frr(local, target, peers).map(Self::Frr),
            Daemon::Bird => Bird::start(local, &bird_configuration(target, peers)).map(Self::Bird),
        }
    }

    /// Its processes.
    pub(super) fn pids(&self) -> Vec<u32> {
        match self {
            Self::Frr(frr) => frr.pids(),
            Self::Bird(bird) => vec![bird.pid()],
        }
    }
}

fn frr(local: &Namespace, target: Target, peers: u8) -> Result<Frr> {
    // Without the module, zebra gives its routes to the kernel alone.
    let module: &[&str] = if target == Target::Fpm { &["-M", "dplane_fpm_nl"] } else { &[] };
    let zebra = if target == Target::Fpm { "fpm address 127.0.0.1 port 2620\n" } else { "" };
    let mut frr = Frr::start(local, (zebra, module), &[])?;
    if target == Target::Bgp {
        // bgpd calls a neighbour that zebra has a route to.
        local.ip(&["addr", "add", BGP_CALLER, "dev", "lo"])?;
        frr.add(Tool::STATICD, &format!("ip route {BGP_DOOR}/32 lo\n"), &[])?;
    }
    // By the BGP door routes need not go to zebra at all.
    let options: &[&str] = if target == Target::Bgp { &["-n"] } else { &[] };
    frr.add(Tool::BGPD, &bgpd_configuration(target, peers), options)?;
    Ok(frr)
}

fn bgpd_configuration(target: Target, peers: u8) -> String {
    let mut text = format!(
        "router bgp {ASN}\n bgp router-id {OWN}\n no bgp ebgp-requires-policy\n \
         no bgp network import-check\n"
    );
    for peer in 0..peers {
        let (address, asn) = (peer_address(peer), peer_asn(peer));
        // The speakers connect.
        let _ = writeln!(
            text,
            " neighbor {address} remote-as {asn}\n neighbor {address} passive\n \
             neighbor {address} advertisement-interval 0"
        );
    }
    if target == Target::Bgp {
        let _ = writeln!(
            text,
            " neighbor {BGP_DOOR} remote-as {ASN}\n neighbor {BGP_DOOR} port {BGP_PORT}\n \
             neighbor {BGP_DOOR} update-source lo\n neighbor {BGP_DOOR} timers connect 1\n neighbor {BGP_DOOR} advertisement-interval 0\n \
             address-family ipv4 unicast\n  neighbor {BGP_DOOR} addpath-tx-all-paths\n exit-address-family"
        );
    }
    // What is learned shall not be said back to the peers.
    text.push_str(" address-family ipv4 unicast\n");
    for peer in 0..peers {
        let _ = writeln!(text, "  neighbor {} route-map nothing out", peer_address(peer));
    }
    text.push_str(" exit-address-family\nroute-map nothing deny 10\n");
    text
}

fn bird_configuration(target: Target, peers: u8) -> String {
    let mut text =
        format!("router id {OWN};\nlog stderr all;\nprotocol device {{ scan time 1; }}\n");
    // BIRD sees a next hop go with its link only when it resolves it by the route to that link.
    let gateway = if target == Target::Linux && peers > 1 {
        text.push_str("protocol direct { check link yes; ipv4; }\n");
        "gateway recursive; "
    } else {
        ""
    };
    for peer in 0..peers {
        let (address, asn) = (peer_address(peer), peer_asn(peer));
        let _ = writeln!(
            text,
            "protocol bgp peer{peer} {{ local {OWN} as {ASN}; neighbor {address} as {asn}; passive; \
             ipv4 {{ {gateway}import all; export none; }}; }}"
        );
    }
    match target {
        Target::Bgp => {
            let _ = writeln!(
                text,
                "protocol bgp stoa {{ local 127.0.0.1 as {ASN}; neighbor {BGP_DOOR} port {BGP_PORT} as {ASN}; \
                 connect delay time 1; connect retry time 1; error wait time 1, 2; \
                 ipv4 {{ import none; export all; add paths tx; next hop keep; }}; }}"
            );
        }
        Target::Linux | Target::Kernel | Target::Fpm => {
            let export = "export where source = RTS_BGP";
            let _ = writeln!(
                text,
                "protocol kernel {{ learn off; ipv4 {{ import none; {export}; }}; }}"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_go_where_they_are_to() {
        let by_bgp = bird_configuration(Target::Bgp, 2);
        assert!(by_bgp.contains("add paths tx") && !by_bgp.contains("protocol kernel"), "{by_bgp}");
        assert!(by_bgp.contains("neighbor 198.18.5.12 as 65102"), "{by_bgp}");
        let by_linux = bird_configuration(Target::Linux, 1);
        assert!(by_linux.contains("protocol kernel") && !by_linux.contains("1790"), "{by_linux}");
        let frr = bgpd_configuration(Target::Bgp, 1);
        assert!(frr.contains("neighbor 127.0.0.1 addpath-tx-all-paths"), "{frr}");
        assert!(!bgpd_configuration(Target::Fpm, 1).contains("127.0.0.1"));
    }
}
