//! Router discovery: Linux by IPv6 router advertisements (RFC 4861, RFC 8106), `rdisc6` by solicitations, and a
//! client with scapy by ICMP router discovery (RFC 1256). Linux removes its route on the final advertisement.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stoa_lab::{Configuration, Host, Result, Side, Tool, wait_until};
use stoa_scenarios::{Scenario, run_ping, scapy, side};

const PATIENCE: Duration = Duration::from_secs(20);

/// A host without IPv6 address and default route.
fn unconfigured_host() -> Result<Side> {
    Side::new("host-a", &[("198.18.1.2/24", "198.18.1.1/24")])
}

fn advertising() -> Value {
    json!({
        "send-advertisements": true,
        "max-rtr-adv-interval": 4,
        "default-lifetime": 60,
        "link-mtu": 1480,
        "stoa-ip:preference": "high",
        "prefix-list": { "prefix": [
            { "prefix-spec": "2001:db8:1::/64", "valid-lifetime": 7200, "preferred-lifetime": 3600 }
        ] },
        "stoa-ip:dns": { "server": ["2001:db8:1::1"], "search": ["example.net"] },
        "stoa-ip:nat64-prefix": [{ "prefix": "64:ff9b::/96", "lifetime": 1800 }]
    })
}

fn configuration(sides: &[Side], advertises: bool) -> Configuration {
    let mut configuration = Configuration::new(sides);
    let interface = configuration.interface("host-a");
    interface["ietf-ip:ipv6"] = json!({
        "forwarding": true, "address": [{ "ip": "2001:db8:1::1", "prefix-length": 64 }]
    });
    if advertises {
        interface["ietf-ip:ipv6"]["ietf-ipv6-unicast-routing:ipv6-router-advertisements"] =
            advertising();
        interface["ietf-ip:ipv4"]["stoa-ip:router-discovery"] = json!({ "max-interval": 4 });
    }
    configuration
}

/// The state of an interface, as YANG data.
fn state(scenario: &Scenario, interface: &str) -> Result<Value> {
    let path = format!("/ietf-interfaces:interfaces/interface[name='{interface}']");
    let output = scenario.router.call(&["show", "state", &path])?.ok()?;
    let state: Value = serde_json::from_str(&output.stdout).expect("JSON");
    Ok(state["ietf-interfaces:interface"][0].clone())
}

fn default_route(host: &Host) -> Result<String> {
    host.namespace().ip(&["-6", "route", "show", "default"])
}

fn wait_for_route(host: &Host, is_there: bool) -> Result<()> {
    wait_until(&format!("a default route: {is_there}"), PATIENCE, || {
        let printed = default_route(host).map_err(|error| error.to_string())?;
        if printed.contains("via fe80::") == is_there { Ok(()) } else { Err(printed) }
    })
}

fn begin() -> Result<(Scenario, [Side; 2])> {
    let sides = [unconfigured_host()?, side("host-b", 2)?];
    let scenario = Scenario::with(&sides, &configuration(&sides, true))?;
    let host = scenario.host("host-a").namespace();
    for (setting, value) in [("accept_ra", "1"), ("autoconf", "1"), ("forwarding", "0")] {
        host.sysctl(&format!("ipv6/conf/eth0/{setting}"), value)?;
    }
    Ok((scenario, sides))
}

#[test]
fn linux_gets_address_and_route_and_loses_the_route() -> Result<()> {
    let (scenario, sides) = begin()?;
    let host = scenario.host("host-a");
    wait_for_route(host, true)?;
    wait_until("an address of the prefix", PATIENCE, || {
        let printed =
            host.namespace().ip(&["-6", "addr", "show", "dev", "eth0", "scope", "global"]);
        let printed = printed.map_err(|error| error.to_string())?;
        let is_good = printed.contains("2001:db8:1:") && !printed.contains("tentative");
        if is_good { Ok(()) } else { Err(printed) }
    })?;
    let route = default_route(host)?;
    assert!(route.contains("pref high") && route.contains("mtu 1480"), "{route}");
    // A host behind the router, reached with discovered address and route only.
    let pings = run_ping(host, &["-c", "3", "-i", "0.2", "2001:db8:2::2"])?;
    assert!(pings.stdout.contains(" 0% packet loss"), "{}", pings.stdout);

    let output = host.command(Tool::RDISC6)?.args(["-1", "eth0"]).deadline(PATIENCE).run()?.ok()?;
    for expected in [
        "Hop limit                 :           64",
        "Router preference         :         high",
        "Router lifetime           :           60",
        "Prefix                   : 2001:db8:1::/64",
        "Valid time              :         7200",
        "Pref. time              :         3600",
        "MTU                      :         1480",
        "Recursive DNS server     : 2001:db8:1::1",
        "DNS search list          : example.net",
    ] {
        assert!(output.stdout.contains(expected), "{expected}: {}", output.stdout);
    }

    // rdisc6 does not know the option of RFC 8781: lifetime 1800 with the code of 96 bits, and the prefix.
    let printed = scapy(host, OPTIONS, &[])?;
    assert!(printed.contains("26020708 0064ff9b 00000000 00000000"), "{printed}");

    let state = &state(&scenario, "host-a")?["ietf-ip:ipv6"]["ietf-ipv6-unicast-routing:ipv6-router-advertisements"]
        ["stoa-ip:advertising-state"];
    assert_ne!(state["solicitations"], "0", "{state}");

    scenario.router.reload(&configuration(&sides, false).json())?;
    let begun = Instant::now();
    wait_for_route(host, false)?;
    println!(
        "the default route is removed {:.3} s after the reload",
        begun.elapsed().as_secs_f64()
    );
    scenario.end()
}

#[test]
fn linux_removes_a_router_that_ends() -> Result<()> {
    let (scenario, _) = begin()?;
    wait_for_route(scenario.host("host-a"), true)?;
    let Scenario { router, topology } = scenario;
    router.stop()?;
    // The advertised lifetime is a minute.
    let begun = Instant::now();
    wait_for_route(topology.host("host-a"), false)?;
    println!("the default route is removed {:.3} s after the stop", begun.elapsed().as_secs_f64());
    Ok(())
}

/// The options of an advertisement.
const OPTIONS: &str = "
packets = sniff(iface=IFACE, lfilter=lambda it: ICMPv6ND_RA in it, timeout=30, count=1)
raw = bytes(packets[0][ICMPv6ND_RA])[16:]
while raw:
    length = raw[1] * 8
    print(raw[:length].hex(' ', 4))
    raw = raw[length:]
";

const CLIENT: &str = "
def is_advertisement(packet):
    return ICMP in packet and packet[ICMP].type == 9
sniffer = AsyncSniffer(iface=IFACE, lfilter=is_advertisement, timeout=8, count=1)
sniffer.start()
import time
time.sleep(0.3)
sendp(Ether(dst='01:00:5e:00:00:02') / IP(dst='224.0.0.2', src=SOURCE, ttl=1) / ICMP(type=10), iface=IFACE)
sniffer.join()
advertisement = sniffer.results[0]
raw = bytes(advertisement[ICMP])
assert advertisement[IP].dst == '224.0.0.1' and advertisement[IP].ttl == 1, advertisement.show(dump=True)
assert in4_chksum is not None and checksum(raw) == 0, raw.hex()
count, size, lifetime = raw[4], raw[5], int.from_bytes(raw[6:8], 'big')
print(count, size, lifetime, '.'.join(map(str, raw[8:12])), int.from_bytes(raw[12:16], 'big', signed=True))
";

#[test]
fn an_icmp_router_discovery_client_receives_advertisements() -> Result<()> {
    let (scenario, sides) = begin()?;
    let host = scenario.host("host-a");
    for source in ["198.18.1.2", "0.0.0.0"] {
        let printed = scapy(host, CLIENT, &[("SOURCE", source)])?;
        assert_eq!(printed.trim(), "1 2 12 198.18.1.1 0", "solicited from {source}");
    }
    let state = &state(&scenario, "host-a")?["ietf-ip:ipv4"]["stoa-ip:router-discovery"];
    assert_eq!(state["advertising-state"]["solicitations"], "2", "{state}");
    scenario.router.reload(&configuration(&sides, false).json())?;
    scenario.end()
}
