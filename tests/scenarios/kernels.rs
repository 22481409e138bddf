//! Forwarding with each vector kernel: reachability, VLAN tags, traceroute, multipath, unreachable destinations, large
//! packets, TCP, and malformed frames. A kernel that the processor does not support is skipped.

use serde_json::json;

use stoa_lab::measure::{Load, iperf, ping, traceroute};
use stoa_lab::{Configuration, NextHop, Result, Side, Tag};
use stoa_scenarios::{Scenario, run_ping, scapy, side};

/// Kernels, and the processor flag that each requires.
const KERNELS: [(&str, &str); 3] = [("scalar", ""), ("avx2", "avx2"), ("avx512", "avx512vl")];

const FLOWS: &str = r#"
socket = conf.L2socket(iface=IFACE)
for flow in range(200):
    packet = IP(src='198.18.1.2', dst='198.18.99.9') / UDP(sport=2000 + flow, dport=9) / (b'x' * 26)
    socket.send(Ether(dst=MAC) / packet)
"#;

const REASONS: [&str; 7] = [
    "ip4-checksum",
    "ip4-total-length",
    "ip4-version",
    "ip4-ttl-expired",
    "ip4-martian-source",
    "ip6-payload-length",
    "ip6-hop-limit",
];

/// Sends five frames for each drop reason and prints the reasons.
const WRONG: &str = r#"
socket = conf.L2socket(iface=IFACE)
UD = UDP(sport=7, dport=9) / (b'x' * 26)
four = lambda **more: Ether(dst=MAC) / IP(**{'src': '198.18.1.2', 'dst': '198.18.3.2', **more}) / UD
six = lambda **more: Ether(dst=MAC) / IPv6(**{'src': '2001:db8:1::2', 'dst': '2001:db8:3::2', **more}) / UD
wrong = {
    'ip4-checksum': four(chksum=0x1234),
    'ip4-total-length': four(len=1400),
    'ip4-version': four(version=5),
    'ip4-ttl-expired': four(ttl=1),
    'ip4-martian-source': four(src='127.0.0.1'),
    'ip6-payload-length': six(plen=1400),
    'ip6-hop-limit': six(hlim=1),
}
for reason, frame in wrong.items():
    for _ in range(5):
        for good in (four(), six(), four(), frame):
            socket.send(good)
    print(reason)
"#;

/// Whether this processor has a flag.
fn is_supported(flag: &str) -> bool {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    flag.is_empty() || cpuinfo.split_whitespace().any(|word| word == flag)
}

fn sides() -> Result<[Side; 3]> {
    Ok([side("host-a", 1)?, side("host-b", 2)?.tagged(&[Tag::customer(100)]), side("host-c", 3)?])
}

fn begin(kernel: &str) -> Result<Scenario> {
    let sides = sides()?;
    let configuration = Configuration::new(&sides)
        .workers(json!({ "kernel": kernel }))
        .route("198.18.99.0/24", NextHop::Among(&[("198.18.2.2", 1), ("198.18.3.2", 1)]))
        .route("2001:db8:99::/48", NextHop::Among(&[("2001:db8:2::2", 1), ("2001:db8:3::2", 1)]))
        .route("198.18.12.0/24", NextHop::Special("unreachable"))
        .route("2001:db8:12::/48", NextHop::Special("unreachable"));
    Scenario::with(&sides, &configuration)
}

fn check(kernel: &str) -> Result<()> {
    let scenario = begin(kernel)?;
    let (a, b, c) = (scenario.host("host-a"), scenario.host("host-b"), scenario.host("host-c"));
    scenario.hosts_reach_each_other()?;
    for six in [false, true] {
        for to in [b, c] {
            // Also packets that need fragmentation.
            for size in ["56", "1400", "3000"] {
                let pings = ping(a, to.address(six)?, 2, &["-s", size, "-i", "0.05"])?;
                assert!(pings.all(), "{kernel}, {size} bytes to {}: {pings:?}", to.label());
            }
        }
        let hops = traceroute(a, b.address(six)?, &[])?;
        let seen: Vec<_> = hops.iter().map(|hop| hop.address).collect();
        assert_eq!(seen, [Some(a.gateway(six)?), Some(b.address(six)?)], "{kernel}");
        let rate = iperf(a, b, six, Load::Tcp, 1)?;
        assert!(rate.bits_per_second > 1e7, "{kernel}: {rate:?}");
    }
    for (to, words) in [
        ("198.18.12.9", "Destination Host Unreachable"),
        ("2001:db8:12::9", "code 6"),
        ("203.0.113.9", "Destination Net Unreachable"),
    ] {
        let printed = run_ping(a, &["-c", "1", "-W", "3", to])?.stdout;
        assert!(printed.contains(words), "{kernel}: expected `{words}`: {printed}");
    }
    paths(&scenario, kernel)?;
    malformed(&scenario, kernel)?;
    scenario.hosts_reach_each_other()?;
    scenario.end()
}

/// Flows use both paths.
fn paths(scenario: &Scenario, kernel: &str) -> Result<()> {
    let sent = || -> Result<[u64; 2]> {
        let list = scenario.router.interfaces()?;
        let of = |name| list.iter().find(|one| one.name == name).map_or(0, |one| one.tx_packets);
        Ok([of("host-b.100"), of("host-c")])
    };
    let before = sent()?;
    let mac = scenario.topology.router_mac("host-a")?;
    scapy(scenario.host("host-a"), FLOWS, &[("MAC", &mac)])?;
    // Counters are complete when the router is idle.
    scenario.router.wait_idle()?;
    let now = sent()?;
    let [b, c] = [now[0] - before[0], now[1] - before[1]];
    assert!(b > 50 && c > 50, "{kernel}: about half each: {b} and {c}");
    Ok(())
}

/// Malformed packets among valid ones: each is dropped with its reason.
fn malformed(scenario: &Scenario, kernel: &str) -> Result<()> {
    let mac = scenario.topology.router_mac("host-a")?;
    let dropped = || -> Result<Vec<u64>> {
        REASONS.iter().map(|reason| scenario.router.dropped(reason)).collect()
    };
    let before = dropped()?;
    let sent = scapy(scenario.host("host-a"), WRONG, &[("MAC", &mac)])?;
    assert_eq!(sent.lines().collect::<Vec<_>>(), REASONS);
    scenario.router.wait_idle()?;
    for ((reason, before), after) in REASONS.iter().zip(before).zip(dropped()?) {
        assert!(after - before >= 5, "{kernel}: {reason}: {before} before, {after} after");
    }
    Ok(())
}

fn run(index: usize) -> Result<()> {
    let (kernel, flag) = KERNELS[index];
    if !is_supported(flag) {
        println!("SKIPPED {kernel}: this processor has no {flag}");
        return Ok(());
    }
    check(kernel)
}

#[test]
fn scalar() -> Result<()> {
    run(0)
}

#[test]
fn avx2() -> Result<()> {
    run(1)
}

#[test]
fn avx512() -> Result<()> {
    run(2)
}
