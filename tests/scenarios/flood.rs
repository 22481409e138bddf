//! A flood of control-plane packets on one port: neighbours, pings and new resolutions on the other ports, and the
//! operator's commands, are not affected.

use std::time::{Duration, Instant};

use stoa_lab::measure::ping;
use stoa_lab::{Result, Tool, wait_until};
use stoa_scenarios::{Scenario, side};

/// ARP requests, neighbour solicitations, packets with an expiring TTL, and packets to hosts that do not exist, as fast
/// as one socket sends them.
const FLOOD: &str = "
import logging, socket, sys, time
logging.getLogger('scapy').setLevel(logging.ERROR)
from scapy.all import *
router, seconds = sys.argv[1], float(sys.argv[2])
mine = get_if_hwaddr('eth0')
group = in6_getnsma(inet_pton(socket.AF_INET6, '2001:db8:1::1'))
frames = [Ether(src=mine, dst='ff:ff:ff:ff:ff:ff')/ARP(op=1, hwsrc=mine, psrc='198.18.1.2', pdst='198.18.1.1'),
          Ether(src=mine, dst=in6_getnsmac(group))/IPv6(src='2001:db8:1::2', dst=inet_ntop(socket.AF_INET6, group), hlim=255)
          /ICMPv6ND_NS(tgt='2001:db8:1::1')/ICMPv6NDOptSrcLLAddr(lladdr=mine),
          Ether(src=mine, dst=router)/IP(src='198.18.1.2', dst='198.18.2.2', ttl=1)/UDP(dport=9)]
frames += [Ether(src=mine, dst=router)/IP(src='198.18.1.2', dst='198.18.2.%d' % n)/UDP(dport=9) for n in range(10, 200)]
frames = [bytes(f) for f in frames[:3] * 60 + frames[3:]]
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('eth0', 0))
print('begins', flush=True)
end, sent = time.time() + seconds, 0
while time.time() < end:
    for frame in frames:
        try:
            sent += out.send(frame) > 0
        except OSError:
            pass
print('sent', sent, flush=True)
";

#[test]
fn a_flood_on_one_port_does_not_affect_the_others() -> Result<()> {
    let sides = [side("host-a", 1)?, side("host-b", 2)?, side("host-c", 3)?];
    let scenario = Scenario::begin(&sides)?;
    let (a, b, c) = (scenario.host("host-a"), scenario.host("host-b"), scenario.host("host-c"));
    assert!(ping(a, b.address(false)?, 2, &[])?.all(), "before the flood");
    let mac = scenario.topology.router_mac("host-a")?;
    let flood = a.command(Tool::PYTHON)?.args(["-c", FLOOD, &mac, "8"]).spawn()?;
    flood.wait_for("begins", Duration::from_secs(20))?;
    let dropped = |class: &str| -> Result<u64> {
        let punts = scenario.router.show("punts")?;
        let rows = punts["punts"].as_array().cloned().unwrap_or_default();
        let row = rows.iter().find(|row| row["class"] == class && row["interface"] == "host-a");
        Ok(row.and_then(|row| row["dropped"].as_u64()).unwrap_or(0))
    };
    for class in ["arp", "nd", "resolve", "icmp-error"] {
        wait_until(&format!("{class} to be limited"), Duration::from_secs(10), || {
            match dropped(class) {
                Ok(0) => Err("no packet dropped yet".to_owned()),
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            }
        })?;
    }
    // The third host is resolved during the flood.
    for six in [false, true] {
        let pings = ping(b, c.address(six)?, 3, &[])?;
        assert!(pings.all(), "{pings:?}");
        assert!(ping(b, b.gateway(six)?, 3, &[])?.all(), "the router itself");
    }
    for _ in 0..3 {
        let begun = Instant::now();
        scenario.router.show("interfaces")?;
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }
    // Neighbours that answer keep their entries, also beside the unresolved ones.
    let neighbors = scenario.router.show("neighbors")?;
    for address in ["198.18.1.2", "198.18.2.2", "198.18.3.2"] {
        let all = neighbors["neighbors"].as_array().cloned().unwrap_or_default();
        let state =
            all.iter().find(|one| one["address"] == address).map(|one| one["state"].clone());
        let state = state.unwrap_or_default();
        assert!(
            !["", "incomplete", "failed"].contains(&state.as_str().unwrap_or("")),
            "{address}: {state}"
        );
    }
    let (printed, ..) = flood.finish(Duration::from_secs(30))?;
    println!("{printed}");
    scenario.end()
}
