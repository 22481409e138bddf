//! The daemon's configuration: BGP or OSPF with each peer, and the route source.

use std::fmt::Write;

use super::daemons::Setting;
use super::hops::{ASN, OWN, OutPort, own, peer_address, peer_asn};
use super::{Protocol, Target};

/// Address of the BGP route source.
pub(super) const BGP_ROUTE_SOURCE: &str = "127.0.0.1";
/// bgpd's source address towards the route source; zebra must have it.
pub(super) const BGP_CALLER: &str = "198.51.100.1/32";
/// TCP port of the BGP route source.
pub(super) const BGP_PORT: u16 = 1790;
/// OSPF routes in a BIRD filter.
const OSPF: &str = "source ~ [ RTS_OSPF, RTS_OSPF_IA, RTS_OSPF_EXT1, RTS_OSPF_EXT2 ]";

/// Configuration and options of zebra.
pub(super) fn zebra_configuration(setting: &Setting) -> (&'static str, Vec<&'static str>) {
    let mut options = Vec::new();
    let is_fpm = setting.target == Target::Fpm;
    if is_fpm {
        // Without the module, zebra sends its routes to the kernel only.
        options.extend(["-M", "dplane_fpm_nl"]);
    }
    if setting.restarts {
        // Routes of an earlier zebra stay in the kernel for this many seconds.
        options.extend(["-K", "60"]);
    }
    (if is_fpm { "fpm address 127.0.0.1 port 2620\n" } else { "" }, options)
}

pub(super) fn bgpd_configuration(setting: &Setting) -> String {
    let mut text = format!(
        "router bgp {ASN}\n bgp router-id {OWN}\n no bgp ebgp-requires-policy\n \
         no bgp network import-check\n no bgp default ipv4-unicast\n"
    );
    if setting.restarts {
        // Without these, bgpd defers routes until its peers have sent End-of-RIB, and then selects 10,000 a second.
        // (If only bgpd restarted, zebra would delete old routes too early; here zebra is killed as well.)
        text += " bgp graceful-restart\n bgp graceful-restart preserve-fw-state\n \
                 bgp graceful-restart select-defer-time 0\n";
    }
    let family = if setting.six { "ipv6" } else { "ipv4" };
    let mut of_family = format!(" address-family {family} unicast\n");
    for peer in 0..setting.peers {
        let (address, asn) = (peer_address(peer, setting.six), peer_asn(peer));
        // The speakers initiate the sessions.
        let _ = writeln!(
            text,
            " neighbor {address} remote-as {asn}\n neighbor {address} passive\n \
             neighbor {address} advertisement-interval 0"
        );
        // Learned routes must not be announced back to the peers.
        let _ = writeln!(
            of_family,
            "  neighbor {address} activate\n  neighbor {address} route-map nothing out"
        );
    }
    if setting.target == Target::Bgp {
        let _ = writeln!(
            text,
            " neighbor {BGP_ROUTE_SOURCE} remote-as {ASN}\n neighbor {BGP_ROUTE_SOURCE} port {BGP_PORT}\n \
             neighbor {BGP_ROUTE_SOURCE} update-source lo\n neighbor {BGP_ROUTE_SOURCE} timers connect 1\n \
             neighbor {BGP_ROUTE_SOURCE} advertisement-interval 0"
        );
        let _ = writeln!(
            of_family,
            "  neighbor {BGP_ROUTE_SOURCE} activate\n  neighbor {BGP_ROUTE_SOURCE} addpath-tx-all-paths"
        );
    }
    text + &of_family + " exit-address-family\nroute-map nothing deny 10\n"
}

/// OSPFv2 with the neighbour; the area includes the networks of its next hops (forwarding addresses, RFC 2328, section
/// 16.4).
pub(super) fn ospfd_configuration() -> String {
    let mut text = String::from(
        "interface peers\n ip ospf area 0\n ip ospf network point-to-point\n \
         ip ospf hello-interval 1\n ip ospf dead-interval 60\n",
    );
    for out in OutPort::BOTH {
        let _ = writeln!(text, "interface {}\n ip ospf area 0\n ip ospf passive", out.name());
    }
    text + &format!("router ospf\n ospf router-id {OWN}\n")
}

pub(super) fn bird_configuration(setting: &Setting) -> String {
    let family = if setting.six { "ipv6" } else { "ipv4" };
    let mut text = format!("router id {OWN};\nlog stderr all;\n");
    // It must receive End-of-RIB from all peers before it deletes missing routes from the kernel or sends End-of-RIB
    // itself.
    let graceful = if setting.restarts {
        text += "graceful restart wait 60;\n";
        "graceful restart yes; "
    } else {
        ""
    };
    text += "protocol device { scan time 1; }\n";
    let learned = match setting.protocol {
        Protocol::Bgp => {
            bird_peers(&mut text, setting, family, graceful);
            "source = RTS_BGP"
        }
        Protocol::Ospf => {
            let stubs =
                OutPort::BOTH.map(|out| format!("interface \"{}\" {{ stub; }};", out.name()));
            let _ = writeln!(
                text,
                "protocol ospf v2 inside {{ {graceful}{family} {{ import all; export none; }}; area 0 {{ \
                 interface \"peers\" {{ type ptp; hello 1; retransmit 2; dead 60; }}; {} }}; }}",
                stubs.join(" ")
            );
            OSPF
        }
    };
    match setting.target {
        Target::Bgp => {
            let _ = writeln!(
                text,
                "protocol bgp stoa {{ local 127.0.0.1 as {ASN}; neighbor {BGP_ROUTE_SOURCE} port {BGP_PORT} as {ASN}; \
                 connect delay time 1; connect retry time 1; error wait time 1, 2; \
                 {family} {{ import none; export where {learned}; add paths tx; next hop keep; }}; }}"
            );
        }
        Target::Netlink | Target::Kernel | Target::Fpm => {
            let graceful = if setting.restarts { "graceful restart; " } else { "" };
            let _ = writeln!(
                text,
                "protocol kernel {{ learn off; {graceful}{family} {{ import none; export where {learned}; }}; }}"
            );
        }
    }
    text
}

/// BGP with each peer.
fn bird_peers(text: &mut String, setting: &Setting, family: &str, graceful: &str) {
    // BIRD detects a next hop lost with its link only when it resolves the next hop through the route to that link.
    let gateway = if setting.target == Target::Netlink && setting.peers > 1 {
        let _ = writeln!(text, "protocol direct {{ check link yes; {family}; }}");
        "gateway recursive; "
    } else {
        ""
    };
    let own = own(setting.six);
    for peer in 0..setting.peers {
        let (address, asn) = (peer_address(peer, setting.six), peer_asn(peer));
        let _ = writeln!(
            text,
            "protocol bgp peer{peer} {{ local {own} as {ASN}; neighbor {address} as {asn}; passive; \
             {graceful}{family} {{ {gateway}import all; export none; }}; }}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::Daemon;
    use super::*;

    fn setting(daemon: Daemon, target: Target, peers: u8) -> Setting {
        Setting { daemon, target, protocol: Protocol::Bgp, six: false, peers, restarts: false }
    }

    #[test]
    fn configures_the_route_source() {
        let by_bgp = bird_configuration(&setting(Daemon::Bird, Target::Bgp, 2));
        assert!(by_bgp.contains("add paths tx") && !by_bgp.contains("protocol kernel"), "{by_bgp}");
        assert!(by_bgp.contains("neighbor 198.18.5.12 as 65102"), "{by_bgp}");
        let by_linux = bird_configuration(&setting(Daemon::Bird, Target::Netlink, 1));
        assert!(by_linux.contains("protocol kernel") && !by_linux.contains("1790"), "{by_linux}");
        let frr = bgpd_configuration(&setting(Daemon::Frr, Target::Bgp, 1));
        assert!(frr.contains("neighbor 127.0.0.1 addpath-tx-all-paths"), "{frr}");
        let by_fpm = setting(Daemon::Frr, Target::Fpm, 1);
        assert!(!bgpd_configuration(&by_fpm).contains("127.0.0.1"));
        assert_eq!(zebra_configuration(&by_fpm).1, ["-M", "dplane_fpm_nl"]);
        let killed = Setting { restarts: true, ..setting(Daemon::Frr, Target::Bgp, 1) };
        assert!(
            bgpd_configuration(&killed).contains("\n bgp graceful-restart select-defer-time 0\n")
        );
    }

    #[test]
    fn family_and_protocol_match() {
        let six = Setting { six: true, ..setting(Daemon::Bird, Target::Netlink, 1) };
        let bird = bird_configuration(&six);
        assert!(bird.contains("neighbor 2001:db8:5::b as 65101"), "{bird}");
        assert!(bird.contains("ipv6 {") && !bird.contains("ipv4"), "{bird}");
        let bgpd = bgpd_configuration(&Setting { daemon: Daemon::Frr, ..six });
        assert!(bgpd.contains("address-family ipv6") && bgpd.contains("2001:db8:5::b activate"));
        let ospf = Setting { protocol: Protocol::Ospf, six: false, restarts: true, ..six };
        let bird = bird_configuration(&ospf);
        assert!(bird.contains("ospf v2") && !bird.contains("protocol bgp"), "{bird}");
        assert!(bird.contains("graceful restart wait"), "{bird}");
    }
}
