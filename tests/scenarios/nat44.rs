//! NAT44 with the tools that people use: what hosts outside see of those inside, and whom they reach.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::measure::{Load, iperf, ping};
use stoa_lab::{
    Background, Configuration, Host, Result, Router, Tool, Topology, stoa_binary, wait_until,
};
use stoa_scenarios::{Scenario, side, tcpdump};

pub const PORT: u16 = 8000;
/// External addresses: hosts outside have a route to them.
pub const EXTERNAL: &str = "203.0.113.0/24";
pub const POOL: &str = "203.0.113.16/28";
/// Stands for the server inside, at port 8080.
const FORWARDED: &str = "203.0.113.5";
/// Stands for the server inside, at all ports.
const ALONE: &str = "203.0.113.40";

/// host-a is inside, host-b outside, host-c a server inside. Each answers with the address and port that it sees.
pub struct Lab {
    pub scenario: Scenario,
    pub configuration: Value,
    _servers: Vec<Background>,
}

/// A web server whose answer is who has asked.
pub fn serve(host: &Host) -> Result<Background> {
    let program = "\
        import http.server, sys\n\
        class Answer(http.server.BaseHTTPRequestHandler):\n\
        \x20   def do_GET(self):\n\
        \x20       body = ('%s %d' % self.client_address[:2]).encode()\n\
        \x20       self.send_response(200)\n\
        \x20       self.send_header('Content-Length', str(len(body)))\n\
        \x20       self.end_headers()\n\
        \x20       self.wfile.write(body)\n\
        http.server.ThreadingHTTPServer.request_queue_size = 128\n\
        server = http.server.ThreadingHTTPServer(('', int(sys.argv[1])), Answer)\n\
        print('ready', flush=True)\n\
        server.serve_forever()\n";
    let server = host.command(Tool::PYTHON)?.args(["-c", program, &PORT.to_string()]).spawn()?;
    server.wait_for("ready", Duration::from_secs(20))?;
    Ok(server)
}

/// Who a server sees: address and port. An error without an answer.
pub fn seen_by(host: &Host, address: &str, port: u16) -> Result<(Ipv4Addr, u16)> {
    let url = format!("http://{address}:{port}/");
    let arguments = ["-sS", "--max-time", "5", "--noproxy", "*", &url];
    let answer = host.command(Tool::CURL)?.args(arguments).run()?.ok()?.stdout;
    let (address, port) = answer.trim().split_once(' ').unwrap_or_default();
    let of = |text: &str| text.parse().unwrap_or_else(|_| panic!("{answer:?} of {url}"));
    Ok((of(address), port.parse().unwrap_or_else(|_| panic!("{answer:?} of {url}"))))
}

/// The exit code of curl: 0, 7 (refused or unreachable) or 28 (no answer).
fn curl(host: &Host, address: &str, port: u16) -> Result<Option<i32>> {
    let url = format!("http://{address}:{port}/");
    let arguments = ["-s", "-o", "/dev/null", "--max-time", "2", "--noproxy", "*", &url];
    Ok(host.command(Tool::CURL)?.args(arguments).run()?.status.code())
}

impl Lab {
    /// Everything that goes to host-b is translated by this policy, with these mappings.
    pub fn begin(policy: &Value, mappings: &[Value]) -> Result<Lab> {
        let sides = [side("host-a", 1)?, side("host-b", 2)?, side("host-c", 3)?];
        let topology = Topology::new(&sides)?;
        topology.host("host-b").namespace().ip(&["route", "add", EXTERNAL, "via", "198.18.2.1"])?;
        let mut configuration = Configuration::new(&sides).json();
        configuration["ietf-nat:nat"] = nat(policy, mappings);
        let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
        router.wait_up(&["host-a", "host-b", "host-c"])?;
        let hosts = topology.hosts().iter().map(serve).collect::<Result<Vec<_>>>();
        Ok(Lab { _servers: hosts?, configuration, scenario: Scenario { router, topology } })
    }

    pub fn host(&self, label: &str) -> &Host {
        self.scenario.host(label)
    }

    pub fn router(&self) -> &Router {
        &self.scenario.router
    }

    fn reload(&mut self, nat: Value) -> Result<()> {
        self.configuration["ietf-nat:nat"] = nat;
        let output = self.router().reload(&self.configuration)?;
        assert!(output.success(), "{}{}", output.stdout, output.stderr);
        Ok(())
    }
}

/// The policy with the external interface host-b, and mappings.
pub fn nat(policy: &Value, mappings: &[Value]) -> Value {
    let mut whole = json!({ "id": 1, "external-realm": { "external-interface": "host-b" } });
    for (leaf, value) in policy.as_object().into_iter().flatten() {
        whole[leaf] = value.clone();
    }
    let table = json!({ "mapping-entry": mappings });
    json!({ "instances": { "instance": [{ "id": 1, "policy": [whole], "mapping-table": table }] } })
}

/// A policy with a pool of external addresses.
pub fn pool() -> Value {
    json!({ "external-ip-address-pool": [{ "pool-id": 1, "external-ip-pool": POOL }] })
}

/// Port 8080 of an external address is that of the server inside.
fn forward() -> Value {
    json!({
        "index": 1, "type": "static", "transport-protocol": 6,
        "external-src-address": format!("{FORWARDED}/32"),
        "external-src-port": { "start-port-number": 8080 },
        "internal-src-address": "198.18.3.2/32",
        "internal-src-port": { "start-port-number": PORT },
    })
}

fn is_of_pool(address: Ipv4Addr) -> bool {
    let [.., last] = address.octets();
    address.octets()[..3] == [203, 0, 113] && (16..32).contains(&last)
}

/// Packets that host-b sees while something happens, as tcpdump prints them.
fn dumped(host: &Host, doing: impl FnOnce() -> Result<()>) -> Result<String> {
    let dump = tcpdump(host.namespace(), &["-n", "-l", "-i", "any", "ip"])?;
    doing()?;
    // Its output comes a moment after the packet.
    wait_until("tcpdump prints", Duration::from_secs(10), || {
        if dump.stdout().is_empty() { Err(dump.log()) } else { Ok(()) }
    })?;
    let (stdout, ..) = dump.stop()?;
    Ok(stdout)
}

#[test]
fn hosts_inside_have_the_address_of_the_interface() -> Result<()> {
    let lab = Lab::begin(&json!({ "mapping-type": "edm" }), &[])?;
    let (inside, outside) = (lab.host("host-a"), lab.host("host-b"));
    let router = Ipv4Addr::new(198, 18, 2, 1);
    let printed = dumped(outside, || {
        assert_eq!(seen_by(inside, "198.18.2.2", PORT)?.0, router);
        let pings = ping(inside, outside.address(false)?, 3, &[])?;
        assert!(pings.all(), "{pings:?}");
        Ok(())
    })?;
    assert!(printed.contains("198.18.2.1"), "{printed}");
    assert!(!printed.contains("198.18.1."), "an inside address is outside: {printed}");
    for load in [Load::Tcp, Load::Udp { bits_per_second: 5_000_000 }] {
        let rate = iperf(inside, outside, false, load, 1)?;
        assert!(rate.bits_per_second > 1e5, "{load:?}: {rate:?}");
    }
    // Between interfaces that are not external nothing changes, and the other family passes as it is.
    let plain = Ipv4Addr::new(198, 18, 1, 2);
    assert_eq!(seen_by(inside, "198.18.3.2", PORT)?.0, plain);
    assert!(ping(inside, outside.address(true)?, 1, &[])?.all());
    // The router itself is reached as before.
    assert!(ping(outside, router.into(), 1, &[])?.all());

    let shown = lab.router().show("nat")?;
    let policy = &shown["policies"][0];
    assert_eq!(
        (&policy["interface"], &policy["mapping"]),
        (&json!("host-b"), &json!("edm")),
        "{shown}"
    );
    assert!(policy["created_flows"].as_u64() >= Some(4), "{shown}");
    assert!(shown["out"]["packets"].as_u64() > Some(10), "{shown}");
    assert!(shown["in"]["packets"].as_u64() > Some(10), "{shown}");
    let state = lab.router().json(&["show", "state", "/ietf-nat:nat"])?;
    let instance = &state["ietf-nat:nat"]["instances"]["instance"][0];
    let sent = instance["statistics"]["traffic-statistics"]["sent-packets"].as_str();
    assert!(sent.and_then(|it| it.parse().ok()) > Some(10_u64), "{state}");
    let metrics = lab.router().call(&["show", "metrics"])?.stdout;
    assert!(
        metrics.contains("stoa_nat44_created_flows_total{instance=\"1\",policy=\"1\"}"),
        "{metrics}"
    );
    let audit = lab.router().show("audit")?.to_string();
    assert!(audit.contains("nat-policies"), "{audit}");
    let flows = lab.router().show("flows")?;
    let translated = flows["flows"].as_array().into_iter().flatten();
    let of_a =
        translated.filter(|it| it["source"] == "198.18.1.2" && it["destination"] == "198.18.2.2");
    let ends: Vec<&Value> = of_a.map(|it| &it["translated_source"]).collect();
    assert!(!ends.is_empty() && ends.iter().all(|end| **end == "198.18.2.1"), "{flows}");
    lab.scenario.end()
}

#[test]
fn icmp_errors_cross_the_translation() -> Result<()> {
    let sides = [side("host-a", 1)?, side("host-b", 2)?];
    let mut made = Configuration::new(&sides);
    made.interface("host-b")["ietf-ip:ipv4"]["mtu"] = json!(1400);
    let mut configuration = made.json();
    configuration["ietf-nat:nat"] = nat(&json!({}), &[]);
    let topology = Topology::new(&sides)?;
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    router.wait_up(&["host-a", "host-b"])?;
    let scenario = Scenario { router, topology };
    let (inside, to) = (scenario.host("host-a"), "198.18.2.2");
    let command = inside.command(Tool::TRACEPATH)?.args(["-n", "-m", "4", to]);
    let printed = command.deadline(Duration::from_secs(30)).run()?.stdout;
    // The router's own errors (TTL, MTU), and the port unreachable of the host outside.
    assert!(printed.contains("pmtu 1400") && printed.contains("198.18.1.1"), "{printed}");
    assert!(printed.contains("Resume: pmtu 1400 hops 2"), "{printed}");
    let command = inside.command(Tool::TRACEROUTE)?.args(["-n", "-m", "4", "-q", "1", to]);
    let printed = command.deadline(Duration::from_secs(30)).run()?.stdout;
    let last = printed.lines().last().unwrap_or_default();
    assert!(last.contains("2  198.18.2.2"), "{printed}");
    scenario.end()
}

#[test]
fn a_pool_a_port_forward_and_a_hairpin() -> Result<()> {
    let mut lab = Lab::begin(&pool(), &[forward()])?;
    let [inside, outside, server] = ["host-a", "host-b", "host-c"].map(|name| lab.host(name));
    // A host keeps its address of the pool.
    let (first, port) = seen_by(inside, "198.18.2.2", PORT)?;
    assert!(is_of_pool(first), "{first}");
    assert_eq!(seen_by(inside, "198.18.2.2", PORT)?.0, first);
    let port = port.to_string();
    let found = lab.router().json(&["nat", "whois", &first.to_string(), &port, "tcp", "--json"])?;
    assert_eq!(found["users"][0]["internal"], "198.18.1.2", "{found}");
    let listed =
        lab.router().json(&["show", "nat", "mappings", "--address", "198.18.1.2", "--json"])?;
    assert_eq!(listed["mappings"][0]["external"], json!(first.to_string()), "{listed}");

    // From outside: the forward, and nothing else of its address or of the pool.
    assert_eq!(seen_by(outside, FORWARDED, 8080)?.0, Ipv4Addr::new(198, 18, 2, 2));
    assert_eq!(curl(outside, FORWARDED, 8081)?, Some(28));
    assert_eq!(curl(outside, &first.to_string(), 9)?, Some(28));
    assert!(lab.router().dropped("nat44-no-mapping")? > 0);
    // A neighbor outside that routes a packet inside gets no answer.
    assert_eq!(curl(outside, "198.18.1.2", PORT)?, Some(28));
    assert!(lab.router().dropped("tcp-no-connection")? > 0);
    // From inside, another host and the server itself: their sources are translated, too.
    for host in [inside, server] {
        let (source, _) = seen_by(host, FORWARDED, 8080)?;
        assert!(is_of_pool(source), "{} is seen as {source}", host.label());
    }
    let shown = lab.router().show("nat")?;
    assert_eq!(shown["mappings"][0]["internal"], "198.18.3.2:8000", "{shown}");
    assert!(shown["mappings"][0]["flows"].as_u64() >= Some(1), "{shown}");

    // One address for another, in both directions; other hosts stay in the pool.
    let whole = json!({
        "index": 2, "external-src-address": format!("{ALONE}/32"),
        "internal-src-address": "198.18.3.2/32",
    });
    lab.reload(nat(&pool(), &[whole]))?;
    let [inside, outside, server] = ["host-a", "host-b", "host-c"].map(|name| lab.host(name));
    assert_eq!(seen_by(outside, ALONE, PORT)?.0, Ipv4Addr::new(198, 18, 2, 2));
    assert!(ping(outside, ALONE.parse().expect("an address"), 1, &[])?.all());
    assert_eq!(seen_by(server, "198.18.2.2", PORT)?.0.to_string(), ALONE);
    assert!(is_of_pool(seen_by(inside, "198.18.2.2", PORT)?.0));
    // The former forward is gone, and nothing has a route to its address.
    assert_eq!(curl(outside, FORWARDED, 8080)?, Some(7));

    // Without NAT.
    lab.reload(json!({}))?;
    let plain = seen_by(lab.host("host-a"), "198.18.2.2", PORT)?.0;
    assert_eq!(plain, Ipv4Addr::new(198, 18, 1, 2));
    lab.scenario.end()
}

#[test]
fn a_pool_in_the_subnet_outside_is_answered_by_arp() -> Result<()> {
    let pool = json!({ "external-ip-address-pool": [
        { "pool-id": 1, "external-ip-pool": "198.18.2.64/28" },
    ] });
    let lab = Lab::begin(&pool, &[])?;
    let (address, _) = seen_by(lab.host("host-a"), "198.18.2.2", PORT)?;
    let [.., last] = address.octets();
    assert!((64..80).contains(&last), "{address}");
    lab.scenario.end()
}

/// A second address of host-b.
const OTHER: &str = "198.18.2.3";

/// Sends from one socket to two ports of host-b, and prints what comes back until the answer of the first one.
const INSIDE: &str = "import socket\n\
    it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
    it.bind(('', 5000))\n\
    it.settimeout(10)\n\
    for port in [9001, 9002]:\n\
    \x20   it.sendto(b'hello', ('198.18.2.2', port))\n\
    text = b''\n\
    while text != b'same':\n\
    \x20   text, _ = it.recvfrom(100)\n\
    \x20   print(text.decode(), flush=True)\n";

/// Prints which source it sees at both ports, and answers: from another address, another port, and the port asked.
const OUTSIDE: &str = "import socket\n\
    def bound(address, port):\n\
    \x20   it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
    \x20   it.bind((address, port))\n\
    \x20   it.settimeout(20)\n\
    \x20   return it\n\
    first, second = bound('198.18.2.2', 9001), bound('198.18.2.2', 9002)\n\
    ways = [(bound('198.18.2.3', 9001), b'address'), (bound('198.18.2.2', 9003), b'port'), (first, b'same')]\n\
    print('ready', flush=True)\n\
    seen = [it.recvfrom(100)[1] for it in [first, second]]\n\
    print('seen', *seen[0], *seen[1], flush=True)\n\
    for it, text in ways:\n\
    \x20   it.sendto(text, seen[0])\n";

/// The sources that host-b sees of one socket, and whose answers come in.
fn answers(filtering: &str) -> Result<(Vec<String>, Vec<String>)> {
    let mut policy = pool();
    policy["filtering-type"] = json!(filtering);
    let lab = Lab::begin(&policy, &[])?;
    let (inside, outside) = (lab.host("host-a"), lab.host("host-b"));
    outside.namespace().ip(&["addr", "add", &format!("{OTHER}/24"), "dev", "eth0"])?;
    let answering = outside.command(Tool::PYTHON)?.args(["-c", OUTSIDE]).spawn()?;
    answering.wait_for("ready", Duration::from_secs(20))?;
    let come = inside.command(Tool::PYTHON)?.args(["-c", INSIDE]).run()?.ok()?.stdout;
    let (printed, log, _) = answering.finish(Duration::from_secs(20))?;
    let seen = printed.lines().find_map(|line| line.strip_prefix("seen ")).expect(&log);
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    lab.scenario.end()?;
    Ok((words(seen), words(&come)))
}

#[test]
fn a_mapping_depends_on_no_other_end_and_filters_decide_who_may_answer() -> Result<()> {
    let expected: [(&str, &[&str]); 3] =
        [("edf", &["same"]), ("adf", &["port", "same"]), ("eif", &["address", "port", "same"])];
    for (filtering, of) in expected {
        let (seen, come) = answers(filtering)?;
        assert_eq!(
            seen[..2],
            seen[2..],
            "{filtering}: one socket has one external address and port"
        );
        assert!(is_of_pool(seen[0].parse().expect("an address")), "{seen:?}");
        assert_eq!(come, of, "{filtering}");
    }
    Ok(())
}

/// Lists of pairs see the addresses and ports inside, also of what is forwarded, and two workers share the flows.
#[test]
fn zones_and_stateful_rules_decide_about_translated_connections() -> Result<()> {
    const MODULE: &str = "ietf-access-control-list";
    let list = |name: &str, matches: Value| {
        let actions =
            json!({ "forwarding": format!("{MODULE}:accept"), "stoa-acl:stateful": true });
        let ace = json!({ "name": name, "matches": matches, "actions": actions });
        json!({ "name": name, "aces": { "ace": [ace] } })
    };
    let zone = |name: &str, interface: &str| json!({ "name": name, "interface": [interface] });
    let pair = |from: &str, to: &str, acl: &str| json!({ "from": from, "to": to, "acl-sets": { "acl-set": [{ "name": acl }] } });
    let acls = json!({
        "acl": [
            list("any", json!({})),
            list("web", json!({ "tcp": { "destination-port": { "port": PORT } } })),
        ],
        "stoa-acl:zones": { "zone": [
            zone("inside", "host-a"), zone("outside", "host-b"), zone("servers", "host-c"),
        ] },
        "stoa-acl:zone-pairs": { "zone-pair": [
            pair("inside", "outside", "any"), pair("outside", "servers", "web"),
        ] },
    });
    let mut lab = Lab::begin(&pool(), &[forward()])?;
    lab.configuration[format!("{MODULE}:acls")] = acls;
    lab.configuration["stoa-system:system"] = json!({ "workers": { "count": 2 } });
    let (topology, configuration) = (lab.scenario.topology, lab.configuration);
    lab.scenario.router.stop()?;
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    router.wait_up(&["host-a", "host-b", "host-c"])?;
    let scenario = Scenario { router, topology };
    let [inside, outside, server] = ["host-a", "host-b", "host-c"].map(|name| scenario.host(name));
    for _ in 0..4 {
        assert!(is_of_pool(seen_by(inside, "198.18.2.2", PORT)?.0));
        assert_eq!(seen_by(outside, FORWARDED, 8080)?.0, Ipv4Addr::new(198, 18, 2, 2));
    }
    // No pair lets the server out, nor hosts inside to it.
    assert_eq!(curl(server, "198.18.2.2", PORT)?, Some(28));
    assert_eq!(curl(inside, FORWARDED, 8080)?, Some(28));
    assert!(scenario.router.dropped("zone-pair")? > 0);
    scenario.end()
}
