//! NAT64 with the tools that people use: a host with IPv6 alone reaches a server with IPv4 alone.

pub mod clat;
mod dns64;

use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::measure::ping;
use stoa_lab::{
    Background, Configuration, Host, Result, Router, Side, Tool, Topology, stoa_binary,
};
use stoa_scenarios::{Scenario, side};

const PREFIX: &str = "2001:db8:64::/96";
/// host-b (198.18.2.2) as IPv6 hosts see it.
const SERVER: &str = "2001:db8:64::c612:202";
pub const PORT: u16 = 8000;
/// Bytes of a large answer.
pub const LARGE: usize = 20_000_000;

/// Answers `/` with who has asked, `/large` with many bytes, and datagrams with themselves, in one family.
pub fn serve(host: &Host, is_ip6: bool) -> Result<Background> {
    let program = "\
        import http.server, socket, sys, threading\n\
        family = socket.AF_INET6 if sys.argv[3] == 'true' else socket.AF_INET\n\
        class Server(http.server.ThreadingHTTPServer):\n\
        \x20   address_family = family\n\
        class Answer(http.server.BaseHTTPRequestHandler):\n\
        \x20   def do_GET(self):\n\
        \x20       body = ('%s %d' % self.client_address[:2]).encode()\n\
        \x20       if self.path == '/large': body = bytes(int(sys.argv[2]))\n\
        \x20       self.send_response(200)\n\
        \x20       self.send_header('Content-Length', str(len(body)))\n\
        \x20       self.end_headers()\n\
        \x20       self.wfile.write(body)\n\
        echo = socket.socket(family, socket.SOCK_DGRAM)\n\
        # Without DF: the router cuts long answers.\n\
        if family == socket.AF_INET: echo.setsockopt(socket.IPPROTO_IP, 10, 0)\n\
        echo.bind(('', int(sys.argv[1])))\n\
        def answer():\n\
        \x20   while True:\n\
        \x20       data, sender = echo.recvfrom(65535)\n\
        \x20       echo.sendto(data, sender)\n\
        threading.Thread(target=answer, daemon=True).start()\n\
        server = Server(('', int(sys.argv[1])), Answer)\n\
        print('ready', flush=True)\n\
        server.serve_forever()\n";
    let (port, large) = (PORT.to_string(), LARGE.to_string());
    let arguments = ["-c", program, &port, &large, &is_ip6.to_string()];
    let server = host.command(Tool::PYTHON)?.args(arguments).spawn()?;
    server.wait_for("ready", Duration::from_secs(20))?;
    Ok(server)
}

/// host-a has IPv6 alone, host-b IPv4 alone.
fn begin(mtu: u32) -> Result<(Scenario, Background)> {
    begin_with(mtu, &[side("host-a", 1)?, side("host-b", 2)?], |it| it)
}

/// The same with more hosts, and what else is configured.
fn begin_with(
    mtu: u32,
    sides: &[Side],
    more: impl FnOnce(Configuration) -> Configuration,
) -> Result<(Scenario, Background)> {
    let topology = Topology::new(sides)?;
    let [inside, outside] = ["host-a", "host-b"].map(|it| topology.host(it).namespace());
    inside.ip(&["-4", "addr", "flush", "scope", "global"])?;
    inside.ip(&["-6", "route", "replace", PREFIX, "via", "2001:db8:1::1"])?;
    outside.ip(&["-6", "addr", "flush", "scope", "global"])?;
    let mut made = more(Configuration::new(sides));
    made.interface("host-a").as_object_mut().and_then(|it| it.remove("ietf-ip:ipv4"));
    made.interface("host-b")["ietf-ip:ipv4"]["mtu"] = json!(mtu);
    let mut configuration = made.json();
    let policy = json!({
        "id": 1,
        "external-realm": { "external-interface": "host-b" },
        "nat64-prefixes": [{ "nat64-prefix": PREFIX }],
    });
    let instance = json!({ "id": 6, "type": "ietf-nat:nat64", "policy": [policy] });
    configuration["ietf-nat:nat"] = json!({ "instances": { "instance": [instance] } });
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    let labels: Vec<&str> = sides.iter().map(|it| it.label.as_str()).collect();
    router.wait_up(&labels)?;
    let server = serve(topology.host("host-b"), false)?;
    Ok((Scenario { router, topology }, server))
}

/// What curl prints.
fn curl(host: &Host, path: &str, more: &[&str]) -> Result<String> {
    let url = format!("http://[{SERVER}]:{PORT}{path}");
    let arguments = ["-sS", "--max-time", "60", "--noproxy", "*"];
    let command = host.command(Tool::CURL)?.args(arguments).args(more.iter().copied());
    Ok(command.args([&url]).deadline(Duration::from_secs(70)).run()?.ok()?.stdout)
}

/// Sends a datagram of so many bytes to a server, and gets it back. Without DF: the router cuts long ones.
pub fn echo(host: &Host, server: &str, bytes: usize) -> Result<()> {
    let program = "\
        import socket, sys\n\
        data = bytes(i % 251 for i in range(int(sys.argv[3])))\n\
        is_ip6 = ':' in sys.argv[1]\n\
        s = socket.socket(socket.AF_INET6 if is_ip6 else socket.AF_INET, socket.SOCK_DGRAM)\n\
        if not is_ip6: s.setsockopt(socket.IPPROTO_IP, 10, 0)\n\
        s.settimeout(5)\n\
        s.sendto(data, (sys.argv[1], int(sys.argv[2])))\n\
        assert s.recv(65535) == data\n";
    let arguments = ["-c", program, server, &PORT.to_string(), &bytes.to_string()];
    host.command(Tool::PYTHON)?.args(arguments).run()?.ok()?;
    Ok(())
}

/// Bits per second of TCP from the host to the server.
fn iperf(scenario: &Scenario) -> Result<f64> {
    let server =
        scenario.host("host-b").command(Tool::IPERF3)?.args(["-s", "--forceflush"]).spawn()?;
    server.wait_for("Server listening", Duration::from_secs(20))?;
    let arguments = ["-6", "-c", SERVER, "-t", "2", "-J"];
    let command = scenario.host("host-a").command(Tool::IPERF3)?.args(arguments);
    let printed = command.deadline(Duration::from_secs(40)).run()?.ok()?.stdout;
    let seen: Value = serde_json::from_str(&printed).unwrap_or_default();
    Ok(seen["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0))
}

#[test]
fn a_host_with_ip6_alone_reaches_an_ip4_server() -> Result<()> {
    let (scenario, _server) = begin(1500)?;
    let inside = scenario.host("host-a");
    let pings = ping(inside, SERVER.parse().expect("an address"), 3, &[])?;
    assert!(pings.all(), "{pings:?}");
    let seen = curl(inside, "/", &[])?;
    assert!(seen.starts_with("198.18.2.1 "), "{seen}");
    let size = curl(inside, "/large", &["-o", "/dev/null", "-w", "%{size_download}"])?;
    assert_eq!(size, LARGE.to_string());
    for bytes in [100, 1400, 3000] {
        echo(inside, SERVER, bytes)?;
    }
    assert!(iperf(&scenario)? > 0.0);
    let shown = scenario.router.show("nat")?;
    let policy = &shown["policies"][0];
    assert_eq!(policy["nat64_prefix"], PREFIX, "{shown}");
    assert!(policy["created_flows"].as_u64() > Some(4), "{shown}");
    // Listings name the host, not what stands for it.
    let flows: Value = scenario.router.show("flows")?;
    assert!(flows.to_string().contains("2001:db8:1::2"), "{flows}");
    scenario.end()
}

#[test]
fn traceroute_and_path_mtu_discovery_work_across() -> Result<()> {
    let (scenario, _server) = begin(1400)?;
    let inside = scenario.host("host-a");
    let arguments = ["-6", "-n", "-m", "4", "-q", "1", SERVER];
    let command = inside.command(Tool::TRACEROUTE)?.args(arguments);
    let printed = command.deadline(Duration::from_secs(30)).run()?.stdout;
    let hops: Vec<&str> = printed.lines().skip(1).collect();
    let [first, last] = hops.as_slice() else { panic!("{printed}") };
    assert!(first.contains("2001:db8:1::1") && last.contains(SERVER), "{printed}");
    let command = inside.command(Tool::TRACEPATH)?.args(["-6", "-n", "-m", "4", SERVER]);
    let printed = command.deadline(Duration::from_secs(30)).run()?.stdout;
    // 1,400 bytes of IPv4 are 1,420 of IPv6.
    assert!(printed.contains("Resume: pmtu 1420 hops 2"), "{printed}");
    let size = curl(inside, "/large", &["-o", "/dev/null", "-w", "%{size_download}"])?;
    assert_eq!(size, LARGE.to_string());
    scenario.end()
}
