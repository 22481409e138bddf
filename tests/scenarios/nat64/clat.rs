//! 464XLAT (RFC 6877): tayga translates without state on the host, so that a program with IPv4 alone reaches an IPv4
//! server by the IPv6 network and NAT64.

use std::time::Duration;

use stoa_lab::{NextHop, Scratch, wait_until};
use stoa_scenarios::PATIENT;

use super::*;

/// What stands for the IPv4 address of the program, and that address (RFC 7335).
const CLAT6: &str = "2001:db8:c1a7::4";
const CLAT4: &str = "192.0.0.4";

/// tayga on a host, for IPv4 hosts in a prefix. It has made its device when this returns.
pub fn tayga(host: &Host, scratch: &Scratch, prefix: &str) -> Result<Background> {
    let configuration = format!(
        "tun-device clat\nipv4-addr 192.0.0.1\nipv6-addr 2001:db8:c1a7::1\nprefix {prefix}\nmap {CLAT4} {CLAT6}\n\
         data-dir {}\n",
        scratch.path().display()
    );
    let file = scratch.write("tayga.conf", configuration)?.display().to_string();
    host.command(Tool::TAYGA)?.args(["--mktun", "-c", &file]).run()?.ok()?;
    let namespace = host.namespace();
    namespace.ip(&["link", "set", "clat", "up"])?;
    namespace.ip(&["addr", "add", CLAT4, "dev", "clat"])?;
    namespace.ip(&["route", "add", "default", "dev", "clat", "src", CLAT4, "mtu", "1260"])?;
    namespace.ip(&["-6", "route", "add", "2001:db8:c1a7::/64", "dev", "clat"])?;
    namespace.sysctl("ipv6/conf/all/forwarding", "1")?;
    namespace.sysctl("ipv4/ip_forward", "1")?;
    host.command(Tool::TAYGA)?.args(["-d", "-c", &file]).spawn()
}

#[test]
fn a_program_with_ip4_alone_reaches_an_ip4_server_by_464xlat() -> Result<()> {
    let sides = [side("host-a", 1)?, side("host-b", 2)?];
    let network = ("2001:db8:c1a7::/64", NextHop::Via("2001:db8:1::2"));
    let (scenario, _server) = begin_with(1500, &sides, |it| it.route(network.0, network.1))?;
    let (inside, scratch) = (scenario.host("host-a"), Scratch::new()?);
    let _tayga = tayga(inside, &scratch, PREFIX)?;
    let server = "198.18.2.2".parse().expect("an address");
    // tayga loses packets until it is ready.
    wait_until("tayga translates", Duration::from_secs(20), || {
        match ping(inside, server, 1, &["-W", "1"]) {
            Ok(pings) if pings.all() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })?;
    let pings = ping(inside, server, 3, PATIENT)?;
    assert!(pings.all(), "{pings:?}");
    let get = |path: &str, more: &[&str]| -> Result<String> {
        let url = format!("http://198.18.2.2:{PORT}{path}");
        let arguments = ["-sS", "-4", "--max-time", "60", "--noproxy", "*"];
        let command = inside.command(Tool::CURL)?.args(arguments).args(more.iter().copied());
        Ok(command.args([&url]).deadline(Duration::from_secs(70)).run()?.ok()?.stdout)
    };
    let seen = get("/", &[])?;
    assert!(seen.starts_with("198.18.2.1 "), "{seen}");
    let size = get("/large", &["-o", "/dev/null", "-w", "%{size_download}"])?;
    assert_eq!(size, LARGE.to_string());
    scenario.end()
}
