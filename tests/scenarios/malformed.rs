//! Malformed and forbidden packets: each is dropped with its own reason, and valid packets pass.

use std::time::Duration;

use stoa_lab::{Result, wait_until};
use stoa_scenarios::{Scenario, scapy, two_sides};

/// How many of each are sent, between valid packets.
const EACH: u64 = 5;

/// Frames by drop reason. `ETH` is an Ethernet header to the router, `A` and `B` are the hosts, `R` is the router.
const FRAMES: &str = r#"
ETH = Ether(dst=MAC)
A, B, R = '198.18.1.2', '198.18.2.2', '198.18.1.1'
A6, B6, R6 = '2001:db8:1::2', '2001:db8:2::2', '2001:db8:1::1'
UD = UDP(sport=7, dport=9) / (b'x' * 26)
def raw(packet, **patch):
    data = bytearray(bytes(packet))
    for place, value in patch.items():
        data[int(place[1:])] = value
    return Raw(bytes(data))
def cut(packet, length):
    return Raw(bytes(packet)[:length])
def optioned(options):
    head = bytearray(bytes(IP(src=A, dst=B, ihl=6, len=24 + len(UD), chksum=0, proto=17))[:20]) + options
    head[10:12] = checksum(bytes(head)).to_bytes(2, 'big')
    return Ether(dst=MAC, type=0x800) / Raw(bytes(head) + bytes(UD))
good = ETH / IP(src=A, dst=B) / UD
good6 = ETH / IPv6(src=A6, dst=B6) / UD
frames = {
    'ethernet-unknown-type': ETH / Raw(b'x' * 46),
    'ethernet-mac-mismatch': Ether(dst='02:00:00:00:99:99') / IP(src=A, dst=B) / UD,
    'vlan-unknown': ETH / Dot1Q(vlan=3999) / IP(src=A, dst=B) / UD,
    'arp-malformed': cut(Ether(dst='ff:ff:ff:ff:ff:ff') / ARP(pdst=R, psrc=A), 30),
    'ip4-truncated': cut(good, 24),
    'ip4-version': ETH / IP(version=5, src=A, dst=B) / UD,
    'ip4-header-length': raw(good, b14=0x44),
    'ip4-total-length': ETH / IP(src=A, dst=B, len=1400) / UD,
    'ip4-checksum': ETH / IP(src=A, dst=B, chksum=0x1234) / UD,
    'ip4-martian-source': ETH / IP(src='127.0.0.1', dst=B) / UD,
    'ip4-martian-destination': ETH / IP(src=A, dst='127.0.0.9') / UD,
    'ip4-link-broadcast': Ether(dst='ff:ff:ff:ff:ff:ff') / IP(src=A, dst=B) / UD,
    'ip4-multicast': Ether(dst='01:00:5e:01:02:03') / IP(src=A, dst='239.1.2.3') / UD,
    'ip4-broadcast': Ether(dst='ff:ff:ff:ff:ff:ff') / IP(src=A, dst='255.255.255.255') / UD,
    'ip4-source-route': ETH / IP(src=A, dst=B, options=IPOption_LSRR(routers=[R])) / UD,
    'ip4-options': optioned(b'\x07\x28\x04\x00'),
    'ip4-ttl-expired': ETH / IP(src=A, dst=B, ttl=1) / UD,
    'icmp4-malformed': ETH / IP(src=A, dst=R) / ICMP(chksum=0x1234) / (b'x' * 40),
    'ip6-truncated': cut(good6, 40),
    'ip6-version': raw(good6, b14=0x50),
    'ip6-payload-length': ETH / IPv6(src=A6, dst=B6, plen=1400) / UD,
    'ip6-martian-source': ETH / IPv6(src='::1', dst=B6) / UD,
    'ip6-martian-destination': ETH / IPv6(src=A6, dst='::1') / UD,
    'ip6-hop-limit': ETH / IPv6(src=A6, dst=B6, hlim=1) / UD,
    'icmp6-malformed': ETH / IPv6(src=A6, dst=R6) / ICMPv6EchoRequest(cksum=0x1234, data=b'x' * 40),
    'nd-hop-limit': ETH / IPv6(src=A6, dst=R6, hlim=64) / ICMPv6ND_NS(tgt=R6),
    'nd-malformed': ETH / IPv6(src=A6, dst=R6, hlim=255) / ICMPv6ND_NS(tgt=R6, code=1),
}
"#;

const SEND: &str = r#"
socket = conf.L2socket(iface=IFACE)
for reason, frame in frames.items():
    for _ in range(EACH):
        socket.send(frame)
        socket.send(good)
    print(reason)
"#;

#[test]
fn each_packet_is_dropped_with_its_own_reason() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    scenario.hosts_reach_each_other()?;
    let mac = scenario.topology.router_mac("host-a")?;
    let before = scenario.router.drops()?;
    let script = format!("{FRAMES}EACH = {EACH}\n{SEND}");
    let sent = scapy(scenario.host("host-a"), &script, &[("MAC", &mac)])?;
    let mut missing = Vec::new();
    for reason in sent.lines() {
        let then = before.iter().find(|one| one.reason == reason).map_or(0, |one| one.packets);
        let seen = wait_until(reason, Duration::from_secs(2), || {
            let now = scenario.router.dropped(reason).map_err(|error| error.to_string())?;
            if now >= then + EACH { Ok(()) } else { Err(format!("{} of {EACH}", now - then)) }
        });
        missing.extend(seen.err().map(|error| error.to_string()));
    }
    assert!(sent.lines().count() > 20, "{sent}");
    assert!(
        missing.is_empty(),
        "{}\nall drops: {:?}",
        missing.join("\n"),
        scenario.router.drops()?
    );
    scenario.hosts_reach_each_other()?;
    scenario.end()
}

#[test]
fn random_frames_do_not_disturb_a_ping() -> Result<()> {
    const NOISE: &str = r#"
import os, time
random.seed(4711)
socket = conf.L2socket(iface=IFACE)
base = [bytes(good), bytes(good6), bytes(ETH / ARP(pdst=R, psrc=A)),
        bytes(ETH / IPv6(src=A6, dst=R6, hlim=255) / ICMPv6ND_NS(tgt=R6))]
for turn in range(4000):
    data = bytearray(random.choice(base))
    for _ in range(random.randint(1, 6)):
        data[random.randrange(12, len(data))] = random.randrange(256)
    data = bytes(data[:random.randrange(14, len(data) + 1)])
    socket.send(Raw(data))
print('done')
"#;
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    scenario.hosts_reach_each_other()?;
    let mac = scenario.topology.router_mac("host-a")?;
    let (b, router) =
        (scenario.host("host-b"), scenario.host("host-b").gateway(false)?.to_string());
    let running = b
        .command(stoa_lab::Tool::PING)?
        .args(["-n", "-i", "0.01", "-c", "300", "-W", "2", &router])
        .spawn()?;
    let printed = scapy(scenario.host("host-a"), &format!("{FRAMES}{NOISE}"), &[("MAC", &mac)])?;
    assert!(printed.contains("done"));
    let (stdout, _, _) = running.finish(Duration::from_secs(60))?;
    assert!(stdout.contains("300 received"), "{stdout}");
    assert!(scenario.router.is_running(), "{}", scenario.router.log());
    // A random frame may have changed the neighbour entry of host-a, which ARP of host-a corrects.
    let a = scenario.host("host-a");
    let router = a.gateway(false)?.to_string();
    let arping = ["-I", "eth0", "-c", "1", "-w", "2", &router];
    a.command(stoa_lab::Tool::ARPING)?.args(arping).run()?;
    wait_until("host-a is answered again", Duration::from_secs(10), || {
        let pings = stoa_lab::measure::ping(
            a,
            a.gateway(false).map_err(|error| error.to_string())?,
            1,
            &[],
        );
        match pings {
            Ok(pings) if pings.all() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })?;
    scenario.end()
}
