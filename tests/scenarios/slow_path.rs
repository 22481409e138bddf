//! Attack packets: each is dropped with its own reason or processed as the standards require, and other traffic is not
//! affected.

use std::time::Duration;

use stoa_lab::{Result, Tool, wait_until};
use stoa_scenarios::{Scenario, run_ping, scapy, two_sides};

/// How many of each are sent.
const EACH: u64 = 5;

/// Names, drop reasons and frames.
const FRAMES: &str = r#"
ETH = Ether(dst=MAC)
A, B, R, RB = '198.18.1.2', '198.18.2.2', '198.18.1.1', '198.18.2.1'
A6, B6, R6 = '2001:db8:1::2', '2001:db8:2::2', '2001:db8:1::1'
UD = UDP(sport=7, dport=9) / (b'x' * 26)
def chain(count, header):
    packet = IPv6(src=A6, dst=B6)
    for _ in range(count):
        packet = packet / header
    return packet / UD
def frames_of(size):
    return Ether(dst=MAC) / IP(src=A, dst=B) / UDP(sport=7, dport=9) / (b'x' * size)
def tags(count):
    packet = Ether(dst=MAC)
    for at in range(count):
        packet = packet / Dot1Q(vlan=100 + at)
    return packet / IP(src=A, dst=B) / UD
frames = [
    ('land', 'land', ETH / IP(src=R, dst=R) / TCP(sport=80, dport=80)),
    ('smurf', 'ip4-broadcast', ETH / IP(src=A, dst='198.18.2.255') / ICMP()),
    ('strict source route', 'ip4-source-route', ETH / IP(src=A, dst=B, options=IPOption_SSRR(routers=[RB])) / UD),
    ('ten tags', 'vlan-unknown', tags(10)),
    ('llc', 'ethernet-unknown-type', Dot3(dst=MAC) / LLC(dsap=0x42, ssap=0x42) / (b'x' * 40)),
    ('runt', 'ip4-truncated', Raw(bytes(ETH / IP(src=A, dst=B))[:20])),
    ('christmas tree', 'tcp-no-listener', ETH / IP(src=A, dst=R) / TCP(dport=80, flags='FSRPAUEC')),
    ('bad TCP checksum', 'tcp-no-listener', ETH / IP(src=A, dst=R) / TCP(dport=80, chksum=0x1234)),
    ('routing header 0', 'ip6-header', ETH / IPv6(src=A6, dst=R6) / IPv6ExtHdrRouting(type=0, addresses=[B6], segleft=1) / UD),
    ('options for the router', 'ip6-option', ETH / IPv6(src=A6, dst=R6) / IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0x80, optdata=b'abcd')]) / UD),
    ('error for an unknown flow', 'icmp4-ignored', ETH / IP(src=A, dst=R) / ICMP(type=3, code=4) / IP(src=R, dst='203.0.113.9') / UD),
    ('error for an unknown flow, six', 'icmp6-ignored', ETH / IPv6(src=A6, dst=R6) / ICMPv6PacketTooBig(mtu=68) / IPv6(src=R6, dst='2001:db8:99::1') / UD),
    ('a redirect from a host', 'redirect-ignored', ETH / IP(src=A, dst=R) / ICMP(type=5, code=1, gw=A) / IP(src=R, dst=B) / UD),
    ('tiny fragment', 'fragment-tiny', ETH / IP(src=A, dst=R, flags='MF', id=7, proto=6) / (b'x' * 8)),
    ('last fragment beyond the end', 'fragment-overrun', ETH / IP(src=A, dst=R, frag=8189, id=8, proto=17) / (b'x' * 800)),
    ('an address conflict', 'address-conflict', Ether(dst='ff:ff:ff:ff:ff:ff') / ARP(op=2, psrc=R, hwsrc='02:00:00:00:66:66', pdst=R, hwdst='ff:ff:ff:ff:ff:ff')),
    ('arp with a group', 'arp-sender-mac', Ether(dst=MAC) / ARP(op=2, psrc='198.18.1.66', hwsrc='01:00:5e:00:00:01', pdst=R, hwdst=MAC)),
    ('nd with a lower hop limit', 'nd-hop-limit', ETH / IPv6(src=A6, dst=R6, hlim=254) / ICMPv6ND_NA(tgt=A6)),
]
quiet = [
    chain(30, IPv6ExtHdrDestOpt()), chain(60, IPv6ExtHdrHopByHop()),
    IP(src=A, dst=B, frag=0, flags='MF', id=9, proto=17) / (b'x' * 64),
    IP(src=A, dst=B, frag=4, flags='MF', id=9, proto=17) / (b'y' * 64),
    IP(src=A, dst=R, frag=0, flags='MF', id=10, proto=17) / (b'x' * 64),
    IP(src=A, dst=R, frag=4, id=10, proto=17) / (b'y' * 64),
    IPv6(src=A6, dst=R6) / IPv6ExtHdrFragment(offset=0, m=1, id=11) / (b'x' * 64),
    IPv6(src=A6, dst=R6) / IPv6ExtHdrFragment(offset=4, m=0, id=11) / (b'y' * 64),
]
"#;

/// Prints name, drop reason and bytes of each of [`FRAMES`].
const PRINT: &str = r#"
for name, reason, frame in frames:
    print(name, reason, bytes(frame).hex(), sep='|')
"#;

/// Sends a frame. Without scapy, which takes a second of a processor to start.
const SEND: &str = r#"
import socket, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(('eth0', 0))
for _ in range(int(sys.argv[2])):
    link.send(bytes.fromhex(sys.argv[1]))
"#;

/// The number of [`FRAMES`].
const COUNT: usize = 18;

fn dropped(scenario: &Scenario) -> Result<Vec<(String, u64)>> {
    Ok(scenario.router.drops()?.into_iter().map(|one| (one.reason, one.packets)).collect())
}

/// Drop reasons counted since `before`.
fn since(before: &[(String, u64)], scenario: &Scenario) -> Result<Vec<(String, u64)>> {
    let then = |reason: &str| before.iter().find(|one| one.0 == reason).map_or(0, |one| one.1);
    let now = dropped(scenario)?.into_iter().map(|(reason, packets)| {
        let more = packets - then(&reason);
        (reason, more)
    });
    Ok(now.filter(|(_, more)| *more >= EACH).collect())
}

#[test]
fn each_packet_is_counted_by_its_reason() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    scenario.hosts_reach_each_other()?;
    let mac = scenario.topology.router_mac("host-a")?;
    let b = scenario.host("host-b");
    let running = b.command(Tool::PING)?.args(["-n", "-i", "0.02", "-c", "500", "-W", "2"]);
    let running = running.args([&b.gateway(false)?.to_string()]).spawn()?;
    let frames = scapy(scenario.host("host-a"), &format!("{FRAMES}{PRINT}"), &[("MAC", &mac)])?;
    let frames: Vec<Vec<&str>> = frames.lines().map(|line| line.split('|').collect()).collect();
    assert_eq!(frames.len(), COUNT);
    let mut failed = Vec::new();
    for frame in &frames {
        let [name, expected, bytes] = frame[..] else { panic!("{frame:?}") };
        let before = dropped(&scenario)?;
        let python = scenario.host("host-a").command(Tool::PYTHON)?;
        python.args(["-c", SEND, bytes, &EACH.to_string()]).run()?.ok()?;
        let seen = wait_until(name, Duration::from_secs(3), || {
            let seen = since(&before, &scenario).map_err(|error| error.to_string())?;
            match seen.iter().any(|(reason, _)| reason == expected) {
                true => Ok(seen),
                false => Err(format!("{seen:?}")),
            }
        });
        match seen {
            Ok(seen) => println!("{name}: {seen:?}"),
            Err(error) => failed.push(error.to_string()),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let (printed, _, _) = running.finish(Duration::from_secs(60))?;
    assert!(printed.contains("500 received"), "a concurrent ping loses nothing: {printed}");
    assert!(scenario.router.is_running(), "{}", scenario.router.log());
    scenario.hosts_reach_each_other()?;
    scenario.end()
}

#[test]
fn long_header_chains_and_overlapping_fragments_do_no_harm() -> Result<()> {
    const FLOOD: &str = r#"
socket = conf.L2socket(iface=IFACE)
whole = [bytes(ETH / packet) for packet in quiet]
for turn in range(100):
    for frame in whole:
        socket.send(frame)
# Fragments of a thousand packets that are never complete.
for at in range(1000):
    socket.send(bytes(ETH / IP(src=A, dst=R, flags='MF', id=1000 + at, proto=17) / (b'x' * 512)))
    socket.send(bytes(ETH / IPv6(src=A6, dst=R6) / IPv6ExtHdrFragment(m=1, id=1000 + at) / (b'x' * 512)))
print('done')
"#;
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    scenario.hosts_reach_each_other()?;
    let mac = scenario.topology.router_mac("host-a")?;
    let b = scenario.host("host-b");
    let running = b.command(Tool::PING)?.args(["-n", "-i", "0.02", "-c", "200", "-W", "2"]);
    let running = running.args([&b.gateway(true)?.to_string()]).spawn()?;
    let printed = scapy(scenario.host("host-a"), &format!("{FRAMES}{FLOOD}"), &[("MAC", &mac)])?;
    assert!(printed.contains("done"));
    let (printed, _, _) = running.finish(Duration::from_secs(60))?;
    assert!(printed.contains("200 received"), "a concurrent ping loses nothing: {printed}");
    assert!(scenario.router.is_running(), "{}", scenario.router.log());
    scenario.hosts_reach_each_other()?;
    scenario.end()
}

#[test]
fn record_route_and_timestamps_are_processed() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    scenario.hosts_reach_each_other()?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    let to = b.address(false)?.to_string();
    for option in [vec!["-R"], vec!["-T", "tsandaddr"], vec!["-T", "tsonly"]] {
        let arguments = [&option[..], &["-c", "2", "-W", "2", &to]].concat();
        let printed = run_ping(a, &arguments)?.stdout;
        assert!(printed.contains("2 received"), "{option:?}: {printed}");
    }
    // The router records the address of the outgoing interface.
    let printed = run_ping(a, &["-R", "-c", "1", "-W", "2", &to])?.stdout;
    assert!(printed.contains(&b.gateway(false)?.to_string()), "{printed}");
    // Fragmented pings to the router and through it.
    for to in [a.gateway(false)?, b.address(false)?, a.gateway(true)?, b.address(true)?] {
        let pings = run_ping(a, &["-s", "6000", "-c", "2", "-W", "2", &to.to_string()])?;
        assert!(pings.stdout.contains("2 received"), "{to}: {}", pings.stdout);
    }
    scenario.end()
}
