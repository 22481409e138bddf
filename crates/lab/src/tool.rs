//! The programs that the lab uses, and their packages.

use std::path::PathBuf;

use crate::{LabError, Result};

/// A program that the demo or a scenario needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub program: &'static str,
    /// The Debian and Ubuntu package that contains it.
    pub package: &'static str,
    /// The group of `scripts/setup` that installs it: `build`, `run` or `test`.
    pub group: &'static str,
}

impl Tool {
    /// iproute2's `ip`: namespaces, links, addresses, routes.
    pub const IP: Self = Self { program: "ip", package: "iproute2", group: "run" };
    /// iputils' `ping`, both families.
    pub const PING: Self = Self { program: "ping", package: "iputils-ping", group: "run" };
    /// `traceroute`, both families.
    pub const TRACEROUTE: Self =
        Self { program: "traceroute", package: "traceroute", group: "run" };
    /// `iperf3`, version 3.9 or newer (for `--json` on errors).
    pub const IPERF3: Self = Self { program: "iperf3", package: "iperf3", group: "run" };
    /// `ethtool`: offload settings.
    pub const ETHTOOL: Self = Self { program: "ethtool", package: "ethtool", group: "run" };
    /// iputils' `arping`.
    pub const ARPING: Self = Self { program: "arping", package: "iputils-arping", group: "test" };
    /// `tcpdump`.
    pub const TCPDUMP: Self = Self { program: "tcpdump", package: "tcpdump", group: "run" };
    /// Wireshark's `tshark`.
    pub const TSHARK: Self = Self { program: "tshark", package: "tshark", group: "test" };
    /// iputils' `tracepath`.
    pub const TRACEPATH: Self =
        Self { program: "tracepath", package: "iputils-tracepath", group: "test" };
    /// `ndisc6`: resolves a neighbour.
    pub const NDISC6: Self = Self { program: "ndisc6", package: "ndisc6", group: "test" };
    /// `rdisc6`: solicits a router.
    pub const RDISC6: Self = Self { program: "rdisc6", package: "ndisc6", group: "test" };
    /// `nmap`.
    pub const NMAP: Self = Self { program: "nmap", package: "nmap", group: "test" };
    /// `hping3`.
    pub const HPING3: Self = Self { program: "hping3", package: "hping3", group: "test" };
    /// DPDK's `dpdk-testpmd`.
    pub const TESTPMD: Self = Self { program: "dpdk-testpmd", package: "dpdk-dev", group: "test" };
    /// FRR's `zebra`: interfaces and routes of Linux for FRR's other daemons.
    pub const ZEBRA: Self = Self { program: "zebra", package: "frr", group: "test" };
    /// FRR's `ospfd`.
    pub const OSPFD: Self = Self { program: "ospfd", package: "frr", group: "test" };
    /// FRR's `bgpd`.
    pub const BGPD: Self = Self { program: "bgpd", package: "frr", group: "test" };
    /// FRR's `ospf6d`.
    pub const OSPF6D: Self = Self { program: "ospf6d", package: "frr", group: "test" };
    /// FRR's `isisd`.
    pub const ISISD: Self = Self { program: "isisd", package: "frr", group: "test" };
    /// FRR's `bfdd`.
    pub const BFDD: Self = Self { program: "bfdd", package: "frr", group: "test" };
    /// FRR's `staticd`.
    pub const STATICD: Self = Self { program: "staticd", package: "frr", group: "test" };
    /// FRR's `vtysh`: the CLI of its daemons.
    pub const VTYSH: Self = Self { program: "vtysh", package: "frr", group: "test" };
    /// BIRD 2: all protocols in one daemon.
    pub const BIRD: Self = Self { program: "bird", package: "bird2", group: "test" };
    /// BIRD's CLI.
    pub const BIRDC: Self = Self { program: "birdc", package: "bird2", group: "test" };
    /// keepalived: VRRP.
    pub const KEEPALIVED: Self =
        Self { program: "keepalived", package: "keepalived", group: "test" };
    /// Collects metrics.
    pub const PROMETHEUS: Self =
        Self { program: "prometheus", package: "prometheus", group: "test" };
    /// A browser, controlled by a script.
    pub const CHROMIUM: Self = Self { program: "chromium", package: "chromium", group: "test" };
    /// Runs the script that controls the browser.
    pub const NODE: Self = Self { program: "node", package: "nodejs", group: "build" };
    /// nftables' `nft`: the kernel's packet filter.
    pub const NFT: Self = Self { program: "nft", package: "nftables", group: "test" };
    /// The resolver `unbound`.
    pub const UNBOUND: Self = Self { program: "unbound", package: "unbound", group: "test" };
    /// The stateless translator `tayga`.
    pub const TAYGA: Self = Self { program: "tayga", package: "tayga", group: "test" };
    /// `curl`.
    pub const CURL: Self = Self { program: "curl", package: "curl", group: "test" };
    /// A server of FTP.
    pub const VSFTPD: Self = Self { program: "vsftpd", package: "vsftpd", group: "test" };
    /// A client of FTP.
    pub const LFTP: Self = Self { program: "lftp", package: "lftp", group: "test" };
    /// tftpd-hpa: a server of TFTP.
    pub const TFTPD: Self = Self { program: "in.tftpd", package: "tftpd-hpa", group: "test" };
    /// pptpd: a server of PPTP.
    pub const PPTPD: Self = Self { program: "pptpd", package: "pptpd", group: "test" };
    /// pptp-linux: a client of PPTP.
    pub const PPTP: Self = Self { program: "pptp", package: "pptp-linux", group: "test" };
    /// SIPp: both ends of SIP calls.
    pub const SIPP: Self = Self { program: "sipp", package: "sip-tester", group: "test" };
    /// FreeRADIUS: authenticates users.
    pub const FREERADIUS: Self =
        Self { program: "freeradius", package: "freeradius", group: "test" };
    /// rsyslog's daemon: receives logs.
    pub const RSYSLOGD: Self = Self { program: "rsyslogd", package: "rsyslog", group: "test" };
    /// nfdump's collector.
    pub const NFCAPD: Self = Self { program: "nfcapd", package: "nfdump", group: "run" };
    /// nfdump: prints what nfcapd has written.
    pub const NFDUMP: Self = Self { program: "nfdump", package: "nfdump", group: "run" };
    /// pmacct's collector.
    pub const NFACCTD: Self = Self { program: "nfacctd", package: "pmacct", group: "test" };
    /// libnatpmp's client of NAT-PMP.
    pub const NATPMPC: Self = Self { program: "natpmpc", package: "natpmpc", group: "test" };
    /// coturn's server of STUN.
    pub const TURNSERVER: Self = Self { program: "turnserver", package: "coturn", group: "test" };
    /// coturn's client that finds out what a NAT does.
    pub const NATDISCOVERY: Self =
        Self { program: "turnutils_natdiscovery", package: "coturn", group: "test" };
    /// mtr.
    pub const MTR: Self = Self { program: "mtr", package: "mtr-tiny", group: "test" };
    /// A load of HTTP.
    pub const WRK: Self = Self { program: "wrk", package: "wrk", group: "test" };
    /// Sends captured packets again.
    pub const TCPREPLAY: Self = Self { program: "tcpreplay", package: "tcpreplay", group: "test" };
    /// The system's Python, which has access to Debian's scapy.
    pub const PYTHON: Self = Self { program: "python3", package: "python3-scapy", group: "test" };

    /// Finds the program. System folders come before `PATH`, so that a private Python does not hide Debian's.
    ///
    /// # Errors
    ///
    /// [`LabError::ToolMissing`] names the package to install.
    pub fn find(self) -> Result<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        // FRR installs its daemons in a separate folder.
        let system = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/lib/frr"].map(PathBuf::from);
        system
            .into_iter()
            .chain(std::env::split_paths(&path))
            .map(|folder| folder.join(self.program))
            .find(|file| file.is_file())
            .ok_or(LabError::ToolMissing {
                program: self.program,
                package: self.package,
                group: self.group,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_names_its_package() {
        let tool = Tool { program: "no-such-program-here", package: "some-package", group: "run" };
        let printed = tool.find().expect_err("it is not there").to_string();
        assert!(printed.contains("apt-get install some-package"), "{printed}");
        assert!(printed.contains("scripts/setup run"), "{printed}");
    }
}
