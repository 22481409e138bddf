//! Small runs of `stoa bench convergence`: each daemon with each of its route sources, BGP and OSPF, both families,
//! and the kernel alone. A packet verifies every prefix twice. A cut link, and kills of controller and daemon, are
//! measured.
//!
//! Runs mostly wait for daemons: zebra connects after three seconds and waits for five idle seconds, and so does
//! OSPF. Runs that count no lost packets therefore run concurrently.

use std::time::Duration;

use serde_json::Value;
use stoa_lab::{Command, Result, stoa_binary};

/// Enough routes for a second measurement of the repair in a separate lab with 1,000 routes.
const MANY: u64 = 5000;
/// 1,000 routes: one lab measures both.
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
    Ok(serde_json::from_str(&output.stdout).expect("it prints JSON"))
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

/// Checks that a killed process has recovered all routes without loss.
fn check_recovery(figures: &Value, process: &str) {
    assert!(figures[format!("kill_{process}_s")].is_f64(), "{figures}");
    assert_eq!(figures[format!("kill_{process}_audit")], "equal", "{figures}");
    assert_eq!(figures[format!("kill_{process}_lost")], 0, "{figures}");
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

/// Runs labs concurrently and returns the first error.
fn run_concurrently(labs: &[&(dyn Fn() -> Result<()> + Sync)]) -> Result<()> {
    std::thread::scope(|scope| {
        let all: Vec<_> = labs.iter().map(|lab| scope.spawn(lab)).collect();
        // Wait for all, so that the output of each is complete.
        let ended: Vec<_> = all.into_iter().map(|lab| lab.join()).collect();
        ended.into_iter().try_for_each(|lab| match lab {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

#[test]
fn frr_by_the_fpm() -> Result<()> {
    let figures = learns("frr", "fpm", &["--kill", "controller,daemon"], FEW)?;
    check_recovery(&figures, "controller");
    check_recovery(&figures, "daemon");
    Ok(())
}

#[test]
fn bird_by_its_bgp_session() -> Result<()> {
    let figures = learns("bird", "bgp", &["--kill", "controller,daemon"], MANY)?;
    check_recovery(&figures, "controller");
    check_recovery(&figures, "daemon");
    Ok(())
}

#[test]
fn the_other_route_sources() -> Result<()> {
    run_concurrently(&[&|| learns("frr", "netlink", &[], FEW).map(|_| ()), &|| {
        learns("bird", "netlink", &[], FEW).map(|_| ())
    }])
}

#[test]
fn frr_by_its_bgp_session() -> Result<()> {
    let figures = learns("frr", "bgp", &["--kill", "daemon"], FEW)?;
    check_recovery(&figures, "daemon");
    Ok(())
}

fn learns_six(daemon: &str, route_source: &str) -> Result<()> {
    let figures = learns(daemon, route_source, &["--family", "ipv6"], FEW)?;
    assert_eq!(figures["family"], "ipv6", "{figures}");
    Ok(())
}

#[test]
fn ipv6_and_ospf_of_both_daemons() -> Result<()> {
    run_concurrently(&[
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
