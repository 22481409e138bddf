//! The scale lab in small: `stoa bench convergence` with each daemon by each of its route sources, by BGP and OSPF, with both families, and with the
//! kernel alone. Every prefix is proved by a packet, twice, and what a cut link interrupts is measured. Controller and daemon are killed.
//!
//! Labs wait most of their time for daemons: zebra connects after three seconds, is done after five of silence, and OSPF tells nothing for
//! five. So labs stand beside each other where no packet that is lost counts.

use std::time::Duration;

use serde_json::Value;
use stoa_lab::{Command, Result, stoa_binary};

/// More than what the repair is measured with a second time, in a lab of its own.
const MANY: u64 = 5000;
/// As many as that: one lab tells both.
const FEW: u64 = 1000;

fn bench(arguments: &[&str], routes: u64) -> Result<Value> {
    let routes = routes.to_string();
    let output = Command::program(stoa_binary()?)
        .args(["bench", "convergence", "--json", "--deadline", "60", "--routes", &routes])
        .args(arguments)
        .deadline(Duration::from_secs(300))
        .run()?
        .ok()?;
    println!("{}", output.stdout);
    Ok(serde_json::from_str(&output.stdout).expect("it says JSON"))
}

fn learns(daemon: &str, route_source: &str, more: &[&str], routes: u64) -> Result<Value> {
    let given = ["--daemon", daemon, "--route-source", route_source, "--peers", "2"];
    let figures = bench(&[&given, more].concat(), routes)?;
    assert_eq!(
        (&figures["daemon"], &figures["route_source"]),
        (&daemon.into(), &route_source.into())
    );
    assert_eq!(figures["verified_by_traffic"], routes, "{figures}");
    for seconds in ["learn_s", "reconverge_s", "ours_s", "daemon_s", "repair_ms", "repair_ms_1k"] {
        assert!(figures[seconds].is_f64(), "{seconds}: {figures}");
    }
    assert!(figures["learn_s"].as_f64() > Some(0.0), "{figures}");
    assert_eq!(figures["audit"], "equal", "{figures}");
    Ok(figures)
}

/// Whoever was killed has said all again, and the forwarder is as it was.
fn is_back(figures: &Value, who: &str) {
    assert!(figures[format!("kill_{who}_s")].is_f64(), "{figures}");
    assert_eq!(figures[format!("kill_{who}_audit")], "equal", "{figures}");
    assert_eq!(figures[format!("kill_{who}_lost")], 0, "{figures}");
}

fn learns_by_ospf(daemon: &str, route_source: &str) -> Result<()> {
    let figures =
        bench(&["--protocol", "ospf", "--daemon", daemon, "--route-source", route_source], MANY)?;
    assert_eq!(
        (&figures["protocol"], &figures["route_source"]),
        (&"ospf".into(), &route_source.into())
    );
    assert_eq!(figures["verified_by_traffic"], MANY, "{figures}");
    assert_eq!(figures["audit"], "equal", "{figures}");
    Ok(())
}

/// Labs beside each other. What the first one that failed says fails the test.
fn beside(labs: &[&(dyn Fn() -> Result<()> + Sync)]) -> Result<()> {
    std::thread::scope(|scope| {
        let all: Vec<_> = labs.iter().map(|lab| scope.spawn(lab)).collect();
        // Each has ended before any fails: what it wrote is told.
        let ended: Vec<_> = all.into_iter().map(|lab| lab.join()).collect();
        ended.into_iter().try_for_each(|lab| match lab {
            Ok(said) => said,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

#[test]
fn frr_by_the_fpm() -> Result<()> {
    let figures = learns("frr", "fpm", &["--kill", "controller,daemon"], FEW)?;
    is_back(&figures, "controller");
    is_back(&figures, "daemon");
    Ok(())
}

#[test]
fn bird_by_its_bgp_session() -> Result<()> {
    let figures = learns("bird", "bgp", &["--kill", "controller,daemon"], MANY)?;
    is_back(&figures, "controller");
    is_back(&figures, "daemon");
    Ok(())
}

#[test]
fn the_other_route_sources() -> Result<()> {
    beside(&[&|| learns("frr", "netlink", &[], FEW).map(|_| ()), &|| {
        learns("bird", "netlink", &[], FEW).map(|_| ())
    }])
}

#[test]
fn frr_by_its_bgp_session() -> Result<()> {
    let figures = learns("frr", "bgp", &["--kill", "daemon"], FEW)?;
    is_back(&figures, "daemon");
    Ok(())
}

fn learns_six(daemon: &str, route_source: &str) -> Result<()> {
    let figures = learns(daemon, route_source, &["--family", "ipv6"], FEW)?;
    assert_eq!(figures["family"], "ipv6", "{figures}");
    Ok(())
}

#[test]
fn ipv6_and_ospf_of_both_daemons() -> Result<()> {
    beside(&[
        &|| learns_six("bird", "bgp"),
        &|| learns_six("frr", "fpm"),
        &|| learns_by_ospf("bird", "bgp"),
        &|| learns_by_ospf("frr", "fpm"),
    ])
}

#[test]
fn the_kernel_alone_is_the_comparison() -> Result<()> {
    for (daemon, family) in [("frr", "ipv4"), ("bird", "ipv4"), ("bird", "ipv6")] {
        let figures = bench(&["--daemon", daemon, "--kernel", "--family", family], MANY)?;
        assert_eq!(figures["route_source"], "kernel");
        assert!(figures["learn_s"].as_f64() > Some(0.0), "{figures}");
    }
    Ok(())
}
