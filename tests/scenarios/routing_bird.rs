//! BIRD beside Stoa: two providers by BGP, one router inside by OSPF, both families, ECMP over both providers. Stoa
//! imports all routes from Linux, or those of BGP over iBGP. A provider's link goes down and up, BIRD restarts, BFD
//! detects a provider that is unreachable while its link stays up.

use std::time::Duration;

use serde_json::json;
use stoa_lab::{Bird, Result, wait_until};
use stoa_scenarios::{FourRouters, SHARED, was_graceful};

/// Deadline for sessions and routes, which usually take about ten seconds.
const PATIENCE: Duration = Duration::from_secs(90);
/// Maximum interruption after a failure that all routers detect.
const FAIL_OVER: Duration = Duration::from_secs(10);

/// Attempts until a restart of BIRD is graceful. Once, on a busy machine, 4 s of IPv4 pings were lost; whether BIRD had
/// deleted a route was not observed then.
const RESTARTS: usize = 4;

/// Common to all four routers. BIRD's kernel protocol keeps routes during a restart. BFD detects a failure after 1.5 s:
/// long enough for daemons that wait for a processor, and far below the hold time of BGP.
const ALL: &str = "log stderr all;\ngraceful restart wait 20;\nprotocol device { scan time 1; }\n\
                   protocol bfd { interface \"*\" { interval 300 ms; multiplier 5; }; }\n";

/// Filter expression for routes of OSPF.
const OSPF: &str = "[ RTS_OSPF, RTS_OSPF_IA, RTS_OSPF_EXT1, RTS_OSPF_EXT2 ]";

/// How Stoa imports routes of BGP.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RouteSource {
    /// From Linux's main table, as those of OSPF.
    Linux,
    /// Over iBGP.
    Ibgp,
}

/// The router in the middle. Stoa imports its routes from Linux's main table and over iBGP.
fn middle(route_source: RouteSource) -> String {
    let mut text = format!("router id 198.18.3.1;\n{ALL}");
    // With BFD, peers would treat a restart of BIRD as a failure.
    let bfd = if route_source == RouteSource::Ibgp { "bfd; " } else { "" };
    let to_linux = if route_source == RouteSource::Linux { "source = RTS_BGP ||" } else { "" };
    for (family, version, number) in [("ipv4", "v2", 4), ("ipv6", "v3", 6)] {
        text += &format!(
            "protocol kernel k{number} {{ learn off; persist; graceful restart; merge paths on; \
             {family} {{ import none; export where {to_linux} source ~ {OSPF}; }}; }}\n\
             protocol ospf {version} inside{number} {{ graceful restart yes; \
             {family} {{ import all; export where source = RTS_BGP; }}; \
             area 0 {{ interface \"inside\" {{ hello 1; dead 4; }}; }}; }}\n"
        );
        for provider in [1, 2] {
            let preference = if provider == 1 { 200 } else { 50 };
            let [own, peer] = match number {
                4 => [format!("198.18.{provider}.1"), format!("198.18.{provider}.2")],
                _ => [format!("2001:db8:{provider}::1"), format!("2001:db8:{provider}::2")],
            };
            let shared = match number {
                4 => format!("{}/32", SHARED[0]),
                _ => format!("{}/128", SHARED[1]),
            };
            text += &format!(
                "protocol bgp provider{provider}_{number} {{ local {own} as 65001; neighbor {peer} as 6510{provider}; {bfd}\
                 hold time 9; connect delay time 1; connect retry time 1; error wait time 1, 2; graceful restart yes; \
                 {family} {{ import filter {{ if net != {shared} then bgp_local_pref = {preference}; accept; }}; \
                 export where source ~ {OSPF}; }}; }}\n"
            );
        }
    }
    if route_source == RouteSource::Ibgp {
        let families = ["ipv4", "ipv6"].map(|family| {
            format!("{family} {{ import none; export where source = RTS_BGP; add paths tx; }};")
        });
        text += &format!(
            "protocol bgp stoa {{ local 127.0.0.1 as 65001; neighbor 127.0.0.1 port 1790 as 65001; \
             connect delay time 1; connect retry time 1; error wait time 1, 2; {} }}\n",
            families.join(" ")
        );
    }
    text
}

fn provider(number: u8) -> String {
    let mut text = format!(
        "router id 198.18.{number}.2;\n{ALL}protocol direct {{ ipv4; ipv6; interface \"lo\"; }}\n"
    );
    for (family, four) in [("ipv4", true), ("ipv6", false)] {
        let [own, peer] = if four {
            [format!("198.18.{number}.2"), format!("198.18.{number}.1")]
        } else {
            [format!("2001:db8:{number}::2"), format!("2001:db8:{number}::1")]
        };
        text += &format!(
            "protocol kernel {{ {family} {{ import none; export where source = RTS_BGP; }}; }}\n\
             protocol bgp middle_{family} {{ local {own} as 6510{number}; neighbor {peer} as 65001; bfd; \
             hold time 9; connect delay time 1; connect retry time 1; error wait time 1, 2; graceful restart yes; \
             {family} {{ import all; export where source = RTS_DEVICE; }}; }}\n"
        );
    }
    text
}

fn inside() -> String {
    let mut text = format!(
        "router id 198.18.3.2;\n{ALL}protocol direct {{ ipv4; ipv6; interface \"lo\"; }}\n"
    );
    for (family, version) in [("ipv4", "v2"), ("ipv6", "v3")] {
        text += &format!(
            "protocol kernel {{ {family} {{ import none; export where source ~ {OSPF}; }}; }}\n\
             protocol ospf {version} {{ graceful restart aware; \
             {family} {{ import all; export where source = RTS_DEVICE; }}; \
             area 0 {{ interface \"eth0\" {{ hello 1; dead 4; }}; }}; }}\n"
        );
    }
    text
}

/// Starts the other three daemons and waits until packets pass through both providers.
fn start_around(routers: &FourRouters, bird: &Bird) -> Result<[Bird; 3]> {
    let start = |label: &str, text: &str| Bird::start(routers.around(label), text);
    let around = [
        start("provider-1", &provider(1))?,
        start("provider-2", &provider(2))?,
        start("inside", &inside())?,
    ];
    routers.wait_passes("provider-1", PATIENCE)?;
    bird.wait_for("show ospf neighbors inside4", &["198.18.3.2", "Full/"], PATIENCE)?;
    around[0].wait_for("show route", &["203.0.113.1/32"], PATIENCE)?;
    routers.wait_shared(PATIENCE)?;
    Ok(around)
}

/// Restarts BIRD while packets pass, and returns whether that was graceful: Linux deleted no route of the pings. A
/// family whose routes were kept must lose no ping.
fn restart(routers: &FourRouters, bird: &mut Bird) -> Result<bool> {
    let monitor = routers.monitor_routes()?;
    let stream = routers.stream()?;
    bird.restart_gracefully()?;
    for protocol in ["provider1_4", "provider1_6"] {
        bird.wait_for(&format!("show protocols {protocol}"), &["Established"], PATIENCE)?;
    }
    routers.wait_passes("provider-1", PATIENCE)?;
    std::thread::sleep(Duration::from_secs(3));
    let lost = stream.lost()?;
    let deleted = monitor.deleted();
    match was_graceful(lost, &deleted) {
        Ok(true) => {}
        Ok(false) => println!("not graceful: {lost:?} pings were lost; Linux deleted {deleted:#?}"),
        Err(text) => panic!("{text}; Linux deleted {deleted:#?}; {}", bird.log()),
    }
    Ok(deleted.iter().all(Vec::is_empty))
}

#[test]
fn provider_failover_and_bird_restart() -> Result<()> {
    let routers = FourRouters::begin(|netns| {
        vec![json!({
            "type": "stoa-routing:netlink", "name": "main", "stoa-routing:route-source": { "netns": netns },
        })]
    })?;
    let mut bird = Bird::start(&routers.local, &middle(RouteSource::Linux))?;
    let around = start_around(&routers, &bird)?;

    routers.fail_over_and_back(FAIL_OVER, PATIENCE)?;

    // The router inside does not retain routes: at the end of its graceful restart, BIRD 2.0 flushes its external LSAs
    // and originates them again up to a second later.
    routers.add_static_route_inside()?;
    for attempt in 1..=RESTARTS {
        if restart(&routers, &mut bird)? {
            break;
        }
        assert!(attempt < RESTARTS, "none of {RESTARTS} restarts of BIRD was graceful");
    }
    drop((bird, around));
    routers.end()
}

#[test]
fn bfd_detects_a_silent_provider_over_ibgp() -> Result<()> {
    let routers = FourRouters::begin(|netns| {
        vec![
            json!({
                "type": "stoa-routing:netlink", "name": "main", "stoa-routing:route-source": { "netns": netns },
            }),
            json!({
                "type": "stoa-routing:bgp", "name": "bgp",
                "stoa-routing:route-source": { "netns": netns, "as": 65001, "multipath": 2 },
            }),
        ]
    })?;
    let bird = Bird::start(&routers.local, &middle(RouteSource::Ibgp))?;
    let around = start_around(&routers, &bird)?;
    bird.wait_for_bfd(&["198.18.1.2", "2001:db8:1::2"], PATIENCE)?;

    let stream = routers.stream()?;
    // On a busy machine a session may have failed once meanwhile.
    bird.wait_for_bfd(&["198.18.1.2", "2001:db8:1::2"], PATIENCE)?;
    routers.silence("provider-1")?;
    for protocol in ["provider1_4", "provider1_6"] {
        wait_until(&format!("BFD ends {protocol}"), FAIL_OVER, || {
            let printed = bird.query(&format!("show protocols {protocol}"));
            let printed = printed.map_err(|error| error.to_string())?;
            // The provider may detect the failure first and send a Cease.
            let has_ended =
                ["BFD session down", "Received: Cease"].iter().any(|it| printed.contains(it));
            if has_ended { Ok(()) } else { Err(printed) }
        })?;
    }
    routers.wait_passes("provider-2", FAIL_OVER)?;
    println!("provider-1 unreachable: {:?} pings of 50 a second were lost", stream.lost()?);
    routers.end_silence("provider-1")?;
    routers.wait_passes("provider-1", PATIENCE)?;
    drop((bird, around));
    routers.end()
}
