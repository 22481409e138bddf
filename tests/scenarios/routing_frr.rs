//! FRR beside Stoa, routes over FPM: two providers by BGP, one router inside by OSPF, both families, ECMP over both
//! providers. A provider's link goes down and up, BFD detects an unreachable provider, bgpd is killed and restarted,
//! and hellos pass during a flood of packets. zebra is killed, and all views show it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stoa_lab::{Frr, Namespace, Result, Tool, wait_until};
use stoa_scenarios::{FourRouters, SHARED};

/// Deadline for sessions and routes, which usually take about ten seconds.
const PATIENCE: Duration = Duration::from_secs(90);
/// Maximum interruption after a failure that all routers detect.
const FAIL_OVER: Duration = Duration::from_secs(10);
/// Until a command has shown that a daemon is gone: a second, and the time of the commands.
const SEEN: Duration = Duration::from_secs(2);
/// Zebra's side of the route source.
const ZEBRA: (&str, &[&str]) = ("fpm address 127.0.0.1 port 2620\n", &["-M", "dplane_fpm_nl"]);

/// Transit packets, packets and connections to the router, and packets with an expiring TTL, as fast as one socket
/// sends them.
const FLOOD: &str = "
import logging, socket, sys, time
logging.getLogger('scapy').setLevel(logging.ERROR)
from scapy.all import *
router, seconds, rate = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
to_us = Ether(src=get_if_hwaddr('eth0'), dst=router)
frames = [to_us/IP(src='198.18.3.2', dst='192.0.2.1')/UDP(dport=9),
          to_us/IP(src='198.18.3.2', dst='198.18.3.1')/UDP(dport=9),
          to_us/IP(src='198.18.3.2', dst='198.18.3.1')/TCP(sport=9, dport=22, flags='S'),
          to_us/IP(src='198.18.3.2', dst='192.0.2.1', ttl=1)/UDP(dport=9)]
frames = [bytes(f) for f in frames] * 64
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('eth0', 0))
print('begins', flush=True)
begin, sent = time.time(), 0
while time.time() < begin + seconds:
    time.sleep(max(0, begin + sent / rate - time.time()))
    for frame in frames:
        try:
            sent += out.send(frame) > 0
        except OSError:
            pass
print('sent', sent, flush=True)
";

/// BGP of the router in the middle: the first provider is preferred.
fn bgp_of_middle() -> String {
    let mut text = String::from(
        "router bgp 65001\n bgp router-id 198.18.3.1\n no bgp ebgp-requires-policy\n \
         bgp graceful-restart\n bgp graceful-restart preserve-fw-state\n \
         bgp bestpath as-path multipath-relax\n",
    );
    let mut families = [String::new(), String::new()];
    for provider in [1, 2] {
        let [four, six] = [format!("198.18.{provider}.2"), format!("2001:db8:{provider}::2")];
        for (address, family) in [&four, &six].into_iter().zip(&mut families) {
            text += &format!(
                " neighbor {address} remote-as 6510{provider}\n neighbor {address} timers 3 9\n \
                 neighbor {address} timers connect 1\n neighbor {address} bfd\n"
            );
            *family += &format!(
                "  neighbor {address} activate\n  neighbor {address} route-map provider-{provider} in\n"
            );
        }
        families[0] += &format!("  no neighbor {six} activate\n");
    }
    let [four, six] = families;
    text + &format!(
        " address-family ipv4 unicast\n{four}  maximum-paths 2\n  redistribute ospf\n exit-address-family\n \
         address-family ipv6 unicast\n{six}  maximum-paths 2\n  redistribute ospf6\n exit-address-family\n\
         ip prefix-list shared permit {}/32\nipv6 prefix-list shared6 permit {}/128\n\
         route-map provider-1 permit 4\n match ip address prefix-list shared\n\
         route-map provider-1 permit 6\n match ipv6 address prefix-list shared6\n\
         route-map provider-2 permit 4\n match ip address prefix-list shared\n\
         route-map provider-2 permit 6\n match ipv6 address prefix-list shared6\n\
         route-map provider-1 permit 10\n set local-preference 200\n\
         route-map provider-2 permit 10\n set local-preference 50\n",
        SHARED[0], SHARED[1]
    )
}

fn bgp_of_provider(number: u8) -> String {
    let (four, six) = (format!("198.18.{number}.1"), format!("2001:db8:{number}::1"));
    format!(
        "router bgp 6510{number}\n bgp router-id 198.18.{number}.2\n \
         no bgp ebgp-requires-policy\n no bgp network import-check\n bgp graceful-restart\n \
         neighbor {four} remote-as 65001\n neighbor {four} timers 3 9\n neighbor {four} timers connect 1\n \
         neighbor {six} remote-as 65001\n neighbor {six} timers 3 9\n neighbor {six} timers connect 1\n \
         neighbor {four} bfd\n neighbor {six} bfd\n \
         address-family ipv4 unicast\n  no neighbor {six} activate\n  network 192.0.2.1/32\n  network {}/32\n exit-address-family\n \
         address-family ipv6 unicast\n  neighbor {six} activate\n  network 2001:db8:1192::1/128\n  network {}/128\n exit-address-family\n",
        SHARED[0], SHARED[1]
    )
}

/// OSPFv2 and OSPFv3 on these interfaces.
fn ospf(interfaces: &[&str], router_id: &str, more: &str) -> [String; 2] {
    let on = |words: &str, area: &str| -> String {
        let one = |name: &&str| {
            format!(
                "interface {name}\n {words} hello-interval 1\n {words} dead-interval 4\n {words} area {area}\n"
            )
        };
        interfaces.iter().map(one).collect()
    };
    [
        format!("{}router ospf\n ospf router-id {router_id}\n{more}", on("ip ospf", "0")),
        format!(
            "{}router ospf6\n ospf6 router-id {router_id}\n{more}",
            on("ipv6 ospf6", "0.0.0.0")
        ),
    ]
}

fn start_middle(local: &Namespace) -> Result<Frr> {
    let [ospf, ospf6] = ospf(&["inside"], "198.18.3.1", " redistribute bgp\n");
    let bgp = bgp_of_middle();
    let others = [
        (Tool::BFDD, ""),
        (Tool::BGPD, bgp.as_str()),
        (Tool::OSPFD, &ospf),
        (Tool::OSPF6D, &ospf6),
    ];
    Frr::start(local, ZEBRA, &others)
}

struct Daemons {
    middle: Frr,
    providers: [Frr; 2],
    inside: Frr,
}

fn start(routers: &FourRouters) -> Result<Daemons> {
    let middle = start_middle(&routers.local)?;
    let provider = |number: u8| {
        let namespace = routers.around(&format!("provider-{number}"));
        let others = [(Tool::BFDD, ""), (Tool::BGPD, &bgp_of_provider(number))];
        Frr::start(namespace, ("", &[]), &others)
    };
    let providers = [provider(1)?, provider(2)?];
    let [ospf, ospf6] = ospf(&["eth0", "lo"], "198.18.3.2", "");
    let own = [(Tool::OSPFD, ospf.as_str()), (Tool::OSPF6D, ospf6.as_str())];
    let inside = Frr::start(routers.around("inside"), ("", &[]), &own)?;
    Ok(Daemons { middle, providers, inside })
}

fn begin() -> Result<FourRouters> {
    FourRouters::begin(|netns| {
        vec![json!({
            "type": "stoa-routing:fpm", "name": "frr", "stoa-routing:route-source": { "netns": netns },
        })]
    })
}

/// The state changes of the OSPF neighbour inside.
fn state_changes(frr: &Frr) -> Result<String> {
    let printed = frr.query("show ip ospf neighbor detail")?;
    let line = printed.lines().find(|line| line.contains("state changes"));
    Ok(line.map(|line| line.trim().to_owned()).unwrap_or(printed))
}

/// The preferred provider becomes unreachable while its link stays up.
fn bfd_detects_an_unreachable_provider(routers: &FourRouters, daemons: &Daemons) -> Result<()> {
    let peers = |up: &str| -> Result<()> {
        wait_until(&format!("BFD with provider-1 is {up}"), PATIENCE, || {
            let printed = daemons.middle.query("show bfd peers brief json");
            let printed: String = printed.map_err(|error| error.to_string())?;
            let list: Value =
                serde_json::from_str(&printed).map_err(|error| format!("{error}: {printed}"))?;
            let of_provider = |peer: &&Value| peer["peer"] == "198.18.1.2" && peer["status"] == up;
            let found = list.as_array().and_then(|list| list.iter().find(of_provider));
            found.map(|_| ()).ok_or(printed)
        })
    };
    peers("up")?;
    routers.silence("provider-1")?;
    routers.wait_passes("provider-2", FAIL_OVER)?;
    peers("down")?;
    let printed = daemons.middle.query("show bgp neighbors 198.18.1.2")?;
    // "(Cease/BFD Down)" if bgpd notified its peer, "BFD down received" after a new attempt.
    assert!(printed.to_lowercase().contains("bfd down"), "bgpd reports the cause: {printed}");
    routers.end_silence("provider-1")?;
    routers.wait_passes("provider-1", PATIENCE)
}

/// zebra is killed: every view says so and shows how long its routes stay; packets use them.
fn a_dead_zebra_is_seen(routers: &FourRouters, daemons: &mut Daemons) -> Result<()> {
    let router = &routers.scenario.router;
    let stale = || -> Result<(usize, usize)> {
        let routes = router.show("routes")?;
        let routes = routes["routes"].as_array().cloned().unwrap_or_default();
        let of_zebra = routes.iter().filter(|route| route["route_source"] == "frr");
        Ok((of_zebra.clone().count(), of_zebra.filter(|route| route["stale"] == true).count()))
    };
    assert_eq!(router.status()?["lost_route_sources"], json!([]));
    let (all, before) = stale()?;
    assert!(all > 0 && before == 0, "{before} of {all} routes are stale while zebra runs");
    let stream = routers.stream()?;
    daemons.middle.kill(Tool::ZEBRA);
    let killed = Instant::now();
    let lost = loop {
        let lost = router.status()?["lost_route_sources"][0].clone();
        if !lost.is_null() {
            break lost;
        }
        assert!(killed.elapsed() < SEEN, "the status does not show that zebra is dead");
    };
    println!("zebra is dead: shown after {:?}", killed.elapsed());
    assert_eq!((&lost["name"], &lost["session"]), (&json!("frr"), &json!("ended")), "{lost}");
    assert!(lost["stale"].as_u64() >= Some(all as u64), "{lost}");
    let left = lost["stale_time_left_s"].as_u64();
    assert!(left.is_some_and(|left| (115..=120).contains(&left)), "{lost}");
    assert_eq!(stale()?, (all, all));
    let path = "/ietf-routing:routing/control-plane-protocols";
    let state = router.json(&["show", "state", path])?;
    let protocol = &state["ietf-routing:control-plane-protocols"]["control-plane-protocol"][0];
    let session = &protocol["stoa-routing:route-source"]["session"];
    assert_eq!(session["state"], "ended", "{state}");
    assert!(session["stale-time-left"].as_u64() <= left, "{state}");
    let metrics = router.call(&["show", "metrics"])?.ok()?.stdout;
    let up = r#"stoa_route_source_up{route_source="frr",type="fpm"} 0.0"#;
    assert!(metrics.contains(up), "{metrics}");
    assert!(metrics.contains("stoa_route_source_stale_time_left_seconds{"), "{metrics}");
    assert_eq!(stream.lost()?, [0, 0], "packets use the stale routes");
    Ok(())
}

#[test]
fn provider_failover_and_bgpd_restart() -> Result<()> {
    let routers = begin()?;
    let mut daemons = start(&routers)?;
    routers.wait_passes("provider-1", PATIENCE)?;
    daemons.middle.wait_for(
        "show bgp ipv4 unicast summary",
        &["198.18.1.2", "198.18.2.2"],
        PATIENCE,
    )?;
    daemons.middle.wait_for("show ip ospf neighbor", &["198.18.3.2", "Full/"], PATIENCE)?;
    daemons.middle.wait_for("show ipv6 route", &["B>* 2001:db8:1192::1/128"], PATIENCE)?;
    daemons.inside.wait_for("show ip route", &["192.0.2.1/32"], PATIENCE)?;
    daemons.providers[0].wait_for("show ip route", &["203.0.113.1/32"], PATIENCE)?;

    routers.wait_shared(PATIENCE)?;

    routers.fail_over_and_back(FAIL_OVER, PATIENCE)?;
    bfd_detects_an_unreachable_provider(&routers, &daemons)?;

    // bgpd is killed: its peers, zebra and Stoa retain its routes.
    let stream = routers.stream()?;
    daemons.middle.kill(Tool::BGPD);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(stream.lost()?, [0, 0], "no packet is lost while bgpd is down");
    // Zebra 8.4 deletes them when a new bgpd connects, until it has established its sessions.
    let stream = routers.stream()?;
    daemons.middle.add(Tool::BGPD, &bgp_of_middle(), &[])?;
    wait_until("bgpd has its sessions again", PATIENCE, || {
        let printed = daemons.middle.query("show bgp summary established json");
        let printed = printed.map_err(|error| error.to_string())?;
        if printed.matches("\"Established\"").count() >= 4 { Ok(()) } else { Err(printed) }
    })?;
    routers.wait_passes("provider-1", PATIENCE)?;
    println!("bgpd restarted: {:?} were lost", stream.lost()?);
    a_dead_zebra_is_seen(&routers, &mut daemons)?;
    drop(daemons);
    routers.end()
}

#[test]
fn hellos_pass_while_packets_flood_the_router() -> Result<()> {
    let routers = begin()?;
    let daemons = start(&routers)?;
    routers.wait_passes("provider-1", PATIENCE)?;
    daemons.middle.wait_for("show ip ospf neighbor", &["198.18.3.2", "Full/"], PATIENCE)?;
    let before = state_changes(&daemons.middle)?;
    let mac = routers.scenario.topology.router_mac("inside")?;
    let inside = routers.scenario.host("inside");
    // More than the policers pass. An unoptimized router takes not much more from its socket: the kernel
    // would drop hellos before it sees them. `make soak` floods the release build as fast as it can.
    let rate = std::env::var("STOA_FLOOD_RATE").unwrap_or_else(|_| "100000".to_owned());
    // Twice the OSPF dead interval.
    let flood = inside.command(Tool::PYTHON)?.args(["-c", FLOOD, &mac, "8", &rate]).spawn()?;
    flood.wait_for("begins", Duration::from_secs(20))?;
    let (printed, errors, _) = flood.finish(Duration::from_secs(40))?;
    println!("{printed}{errors}");
    assert_eq!(state_changes(&daemons.middle)?, before, "{}", daemons.middle.log());
    assert_eq!(routers.scenario.router.dropped("routing-limited")?, 0);
    routers.wait_passes("provider-1", PATIENCE)?;
    drop(daemons);
    routers.end()
}
