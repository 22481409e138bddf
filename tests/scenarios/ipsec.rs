//! IPsec tunnels with manual keys: two routers that tshark reads with their keys, and a router beside another
//! implementation of ESP, scapy's.

use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::measure::{Load, iperf, ping};
use stoa_lab::{
    Address, Command, Configuration, NextHop, Result, Router, Scratch, Side, Tool, Topology,
    stoa_binary, wait_until,
};
use stoa_scenarios::{Scenario, run_ping, scapy, side, two_sides};

const DEADLINE: Duration = Duration::from_secs(20);

/// A key of so many bytes as YANG has it.
fn key(byte: u8, bytes: usize) -> String {
    vec![format!("{byte:02x}"); bytes].join(":")
}

/// The same as digits, for other tools.
fn digits(byte: u8, bytes: usize) -> String {
    format!("{byte:02x}").repeat(bytes)
}

/// An algorithm: its numbers, and the bytes of its keys and salt.
#[derive(Clone, Copy)]
struct Suite {
    encryption: u16,
    integrity: Option<u16>,
    lengths: (usize, usize, usize),
}

const GCM: Suite = Suite { encryption: 20, integrity: None, lengths: (16, 4, 0) };
const CBC: Suite = Suite { encryption: 12, integrity: Some(12), lengths: (32, 0, 32) };
const CHACHA: Suite = Suite { encryption: 28, integrity: None, lengths: (32, 4, 0) };

impl Suite {
    /// An entry of the tunnel "tun" whose keys are of these bytes.
    fn entry(self, (name, direction): (&str, &str), spi: u32, bytes: u8) -> Value {
        let (encryption, salt, integrity) = self.lengths;
        let mut of_encryption =
            json!({ "encryption-algorithm": self.encryption, "key": key(bytes, encryption) });
        if salt > 0 {
            of_encryption["iv"] = json!(key(bytes ^ 0xff, salt));
        }
        let mut sa = json!({ "encryption": of_encryption });
        if let Some(number) = self.integrity {
            sa["integrity"] =
                json!({ "integrity-algorithm": number, "key": key(bytes ^ 0x55, integrity) });
        }
        let config = json!({ "spi": spi, "esp-sa": sa });
        json!({ "name": name, "interface": "tun", "direction": direction, "ipsec-sa-config": config })
    }
}

/// The associations of the router of side 0 or 1. Each direction has an SPI and a key.
fn associations(suite: Suite, which: u8, round: u8) -> Vec<Value> {
    let of =
        |from: u8| (0x1000 + u32::from(from) + 16 * u32::from(round), 0x10 * (round + 1) + from);
    let ((out, out_key), (own, own_key)) = (of(which), of(1 - which));
    vec![
        suite.entry(("out", "outbound"), out, out_key),
        suite.entry((&format!("in-{round}"), "inbound"), own, own_key),
    ]
}

/// The configuration of the router of a side, with a tunnel over a memif link.
fn end(side: &Side, which: u8, sad: &[Value], socket: &str) -> Result<Value> {
    let (own, far) = (which + 1, 2 - which);
    let role = ["master", "slave"][usize::from(which)];
    let address = |text: String| -> Result<Address> { text.parse() };
    let (local, remote) = (format!("192.0.2.{own}"), format!("192.0.2.{far}"));
    let tunnel = json!({ "encapsulation": "esp", "local": local, "remote": remote });
    let mut made = Configuration::new(std::slice::from_ref(side))
        .port("underlay", json!({ "memif": { "socket": socket, "role": role } }))
        .addresses("underlay", &[address(format!("{local}/24"))?])
        .port("tun", json!({ "tunnel": tunnel }))
        .addresses("tun", &[address(format!("10.9.0.{own}/30"))?]);
    made.interface("tun")["type"] = json!("iana-if-type:tunnel");
    made.interface("tun")["ietf-ip:ipv6"] = json!({ "forwarding": true });
    let made = made
        .route(&format!("198.18.{far}.0/24"), NextHop::Link("tun"))
        .route(&format!("2001:db8:{far}::/64"), NextHop::Link("tun"));
    let mut whole = made.json();
    whole["stoa-ipsec:ipsec"] = json!({ "sad": { "sad-entry": sad } });
    Ok(whole)
}

/// Two routers with hosts.
struct Sites {
    scenario: Scenario,
    second: Router,
    sides: [Side; 2],
    socket: String,
    scratch: Scratch,
}

impl Sites {
    fn start(sads: [&[Value]; 2]) -> Result<Self> {
        let sides = two_sides(&[])?;
        let topology = Topology::new(&sides)?;
        let scratch = Scratch::new()?;
        let socket = scratch.file("underlay.sock").to_string_lossy().into_owned();
        let binary = stoa_binary()?;
        let start = |which: u8| {
            let at = usize::from(which);
            let configuration = end(&sides[at], which, sads[at], &socket)?;
            Router::start(&binary, Some(topology.router()), &configuration)
        };
        let (router, second) = (start(0)?, start(1)?);
        router.wait_up(&["host-a", "underlay", "tun"])?;
        second.wait_up(&["host-b", "underlay", "tun"])?;
        Ok(Self { scenario: Scenario { router, topology }, second, sides, socket, scratch })
    }

    fn router(&self, which: u8) -> &Router {
        if which == 0 { &self.scenario.router } else { &self.second }
    }

    /// Brings other associations into force at one end.
    fn set(&self, which: u8, sad: &[Value]) -> Result<()> {
        let at = usize::from(which);
        let configuration = end(&self.sides[at], which, sad, &self.socket)?;
        self.router(which).reload(&configuration)?.ok().map(drop)
    }

    fn end(self) -> Result<()> {
        self.second.wait_idle()?;
        self.second.stop()?;
        self.scenario.end()
    }
}

/// The association of this name in `stoa show ipsec sas`.
fn association(router: &Router, name: &str) -> Result<Value> {
    let shown = router.json(&["show", "ipsec", "sas", "--json"])?;
    let all = shown["associations"].as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|it| it["name"] == name).cloned();
    Ok(found.unwrap_or_else(|| panic!("{name} in {shown}")))
}

/// The packets of a capture as tshark decrypts them.
fn decrypted(file: &str, tables: &[String]) -> Result<String> {
    let mut arguments = vec!["-n", "-r", file, "-o", "esp.enable_encryption_decode:TRUE"];
    for table in tables {
        arguments.extend(["-o", table]);
    }
    let fields = ["-T", "fields", "-e", "frame.protocols"];
    Ok(Command::tool(Tool::TSHARK)?.args(arguments).args(fields).run()?.ok()?.stdout)
}

#[test]
fn two_sites_with_gcm_and_what_tshark_decrypts() -> Result<()> {
    let sads = [associations(GCM, 0, 0), associations(GCM, 1, 0)];
    let sites = Sites::start([&sads[0], &sads[1]])?;
    let binary = stoa_binary()?;
    let file = sites.scratch.file("underlay.pcapng").to_string_lossy().into_owned();
    let socket = sites.router(0).socket().to_string_lossy().into_owned();
    let arguments = ["capture", "underlay", "--write", &file, "--socket", &socket];
    let capture = Command::program(&binary).args(arguments).spawn()?;
    capture.wait_for("Capturing", DEADLINE)?;
    sites.scenario.hosts_reach_each_other()?;
    let (_, printed, status) = capture.stop()?;
    assert!(status.success(), "{printed}");
    let table = |from: u8| {
        let (key, salt) = (digits(0x10 + from, 16), digits((0x10 + from) ^ 0xff, 4));
        format!(
            "uat:esp_sa:\"IPv4\",\"192.0.2.{}\",\"192.0.2.{}\",\"0x{:08x}\",\
             \"AES-GCM with 16 octet ICV [RFC4106]\",\"0x{key}{salt}\",\"NULL\",\"\"",
            from + 1,
            2 - from,
            0x1000 + u32::from(from),
        )
    };
    let seen = decrypted(&file, &[table(0), table(1)])?;
    for inner in ["eth:ethertype:ip:esp:ip:icmp", "eth:ethertype:ip:esp:ipv6:icmpv6"] {
        assert!(seen.contains(inner), "{inner} in {seen}");
    }
    let (a, b) = (sites.scenario.host("host-a"), sites.scenario.host("host-b"));
    for six in [false, true] {
        let rate = iperf(a, b, six, Load::Tcp, 2)?;
        eprintln!(
            "iperf3 over AES-GCM, IPv{}: {:.0} Mbit/s",
            if six { 6 } else { 4 },
            rate.bits_per_second / 1e6
        );
        assert!(rate.bits_per_second > 1e6, "{rate:?}");
    }
    let (out, own) = (association(sites.router(0), "out")?, association(sites.router(1), "in-0")?);
    assert_eq!((&out["in_force"], &out["forged"]), (&json!(true), &json!(0)), "{out}");
    assert!(out["packets"].as_u64() > Some(100) && own["packets"].as_u64() > Some(100), "{own}");
    assert_eq!((&own["forged"], &own["replayed"]), (&json!(0), &json!(0)), "{own}");
    let engines = sites.router(0).json(&["show", "ipsec", "engines", "--json"])?;
    let served = engines["algorithms"].as_array().cloned().unwrap_or_default();
    assert!(served.iter().all(|it| it["engine"] != ""), "{engines}");
    sites.end()
}

#[test]
fn keys_are_replaced_under_traffic() -> Result<()> {
    let at = |which, round| associations(CBC, which, round);
    let sites = Sites::start([&at(0, 0), &at(1, 0)])?;
    let (a, b) = (sites.scenario.host("host-a"), sites.scenario.host("host-b"));
    let target = b.address(false)?.to_string();
    let pings = a.command(Tool::PING)?.args(["-n", "-i", "0.01", "-c", "600", "-W", "8", &target]);
    let pings = pings.deadline(Duration::from_secs(60)).spawn()?;
    for round in 1..4 {
        let both = |which: u8| -> (Vec<Value>, Vec<Value>) {
            let [old, new] = [at(which, round - 1), at(which, round)];
            // The new inbound one beside both old ones, then the new outbound one.
            let first = vec![old[0].clone(), old[1].clone(), new[1].clone()];
            (first, vec![new[0].clone(), old[1].clone(), new[1].clone()])
        };
        let (ends, last) = ([both(0), both(1)], [at(0, round), at(1, round)]);
        for which in [0, 1] {
            sites.set(which, &ends[usize::from(which)].0)?;
        }
        for which in [0, 1] {
            sites.set(which, &ends[usize::from(which)].1)?;
        }
        for which in [0, 1] {
            sites.set(which, &last[usize::from(which)])?;
        }
    }
    let (printed, log, is_good) = pings.finish(DEADLINE)?;
    assert!(is_good && printed.contains(" 0% packet loss"), "{printed}{log}");
    let own = association(sites.router(1), "in-3")?;
    assert!(own["packets"].as_u64() > Some(0), "{own}");
    // Another key at one end: nothing arrives, and all of it is counted.
    let mut wrong = at(1, 3);
    wrong[1] = CBC.entry(("in-3", "inbound"), 0x1030, 0x77);
    sites.set(1, &wrong)?;
    assert_eq!(ping(a, b.address(false)?, 3, &["-W", "1"])?.received, 0);
    let own = association(sites.router(1), "in-3")?;
    assert_eq!((&own["forged"], &own["packets"]), (&json!(3), &json!(0)), "{own}");
    let drops = sites.router(1).show("drops")?;
    assert!(drops.to_string().contains("esp-forged"), "{drops}");
    sites.set(1, &at(1, 3))?;
    sites.scenario.hosts_reach_each_other()?;
    sites.end()
}

#[test]
fn a_counter_mode_key_ends_with_the_forwarder() -> Result<()> {
    let at = |which, round| associations(CHACHA, which, round);
    let sites = Sites::start([&at(0, 0), &at(1, 0)])?;
    sites.scenario.hosts_reach_each_other()?;
    let router = sites.router(0);
    let before = router.status()?["forwarder"]["boot_id"].clone();
    let pid = router.status()?["forwarder"]["pid"].as_u64().unwrap_or_default();
    Command::program("/bin/kill").args(["-KILL", &pid.to_string()]).run()?.ok()?;
    wait_until("the forwarder is in sync again", DEADLINE, || {
        let status = router.status().map_err(|error| error.to_string())?;
        let is_new = status["forwarder"]["boot_id"] != before && status["in_sync"] == true;
        if is_new { Ok(()) } else { Err(status.to_string()) }
    })?;
    let out = association(router, "out")?;
    assert_eq!(out["in_force"], false, "{out}");
    assert!(out["reason"].to_string().contains("replace the key"), "{out}");
    let (a, b) = (sites.scenario.host("host-a"), sites.scenario.host("host-b"));
    assert_eq!(ping(a, b.address(false)?, 1, &["-W", "1"])?.received, 0);
    let text = router.call(&["show", "ipsec", "sas"])?.ok()?.stdout;
    assert!(text.contains("out is not in force: an earlier process"), "{text}");
    // New keys at both ends.
    sites.set(0, &at(0, 1))?;
    sites.set(1, &at(1, 1))?;
    sites.scenario.hosts_reach_each_other()?;
    sites.end()
}

/// Answers echo requests through the tunnel, by scapy's ESP.
const PEER: &str = r#"
from scapy.layers.ipsec import SecurityAssociation, ESP
def association(spi, byte, source, destination):
    pair = bytes([byte])
    return SecurityAssociation(ESP, spi=spi, crypt_algo='AES-CBC', crypt_key=pair * 32,
        auth_algo='SHA2-256-128', auth_key=bytes([byte ^ 0x55]) * 32,
        tunnel_header=IP(src=source, dst=destination))
inbound = association(0x1000, 0x10, '198.18.2.1', '198.18.2.2')
outbound = association(0x1001, 0x11, '198.18.2.2', '198.18.2.1')
socket_of = conf.L2socket(iface=IFACE, filter='ip proto 50')
print('ready', flush=True)
answered = 0
while answered < 5:
    frame = socket_of.recv()
    if frame is None or ESP not in frame or frame[IP].src != '198.18.2.1':
        continue
    inner = inbound.decrypt(frame[IP])
    if ICMP not in inner or inner[ICMP].type != 8:
        continue
    echo = ICMP(type=0, id=inner[ICMP].id, seq=inner[ICMP].seq) / inner[ICMP].payload
    reply = IP(src=inner.dst, dst=inner.src, ttl=60) / echo
    sealed = outbound.encrypt(reply)
    socket_of.send(Ether(dst=frame.src, src=frame.dst) / sealed)
    answered += 1
print('answered', answered)
"#;

#[test]
fn another_implementation_answers() -> Result<()> {
    let sides = [side("host-a", 1)?, side("host-b", 2)?];
    let tunnel = json!({ "encapsulation": "esp", "local": "198.18.2.1", "remote": "198.18.2.2" });
    let mut made = Configuration::new(&sides)
        .port("tun", json!({ "tunnel": tunnel }))
        .addresses("tun", &["10.9.0.1/30".parse()?]);
    made.interface("tun")["type"] = json!("iana-if-type:tunnel");
    let made = made.route("203.0.113.0/24", NextHop::Link("tun"));
    let mut whole = made.json();
    let mut sad = associations(CBC, 0, 0);
    for entry in &mut sad {
        entry["ipsec-sa-config"]["ext-seq-num"] = json!(false);
    }
    whole["stoa-ipsec:ipsec"] = json!({ "sad": { "sad-entry": sad } });
    let topology = Topology::new(&sides)?;
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &whole)?;
    router.wait_up(&["host-a", "host-b", "tun"])?;
    let scenario = Scenario { router, topology };
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    let (printed, shown) = std::thread::scope(|scope| {
        let peer = scope.spawn(|| scapy(b, PEER, &[]));
        let mut shown = String::new();
        // Until the peer listens, requests are lost.
        while !peer.is_finished() {
            let once = ["-c", "1", "-W", "1", "203.0.113.9"];
            shown = run_ping(a, &once).map(|it| shown + &it.stdout).unwrap_or_default();
        }
        (peer.join().expect("the peer ends"), shown)
    });
    assert!(printed?.contains("answered 5"));
    assert!(shown.contains("1 received"), "{shown}");
    let own = association(&scenario.router, "in-0")?;
    assert!(own["packets"].as_u64() >= Some(4), "{own}");
    assert_eq!(own["forged"], 0, "{own}");
    scenario.end()
}
