//! The scale lab in small: `stoa bench convergence` with each daemon by each of its doors, by BGP and OSPF, with both families, and with the
//! kernel alone. Every prefix is proved by a packet, twice, and what a cut link interrupts is measured. Controller and daemon are killed.

use std::time::Duration;

use serde_json::Value;
use stoa_lab::{Command, Result, stoa_binary};

const ROUTES: u64 = 5000;

fn bench(arguments: &[&str]) -> Result<Value> {
    let routes = ROUTES.to_string();
    let output = Command::program(stoa_binary()?)
        .args(["bench", "convergence", "--json", "--deadline", "60", "--routes", &routes])
        .args(arguments)
        .deadline(Duration::from_secs(300))
        .run()?
        .ok()?;
    println!("{}", output.stdout);
    Ok(serde_json::from_str(&output.stdout).expect("it says JSON"))
}

fn learns(daemon: &str, door: &str, more: &[&str]) -> Result<Value> {
    let figures = bench(&[&["--daemon", daemon, "--door", door, "--peers", "2"], more].concat())?;
    assert_eq!((&figures["daemon"], &figures["door"]), (&daemon.into(), &door.into()));
    assert_eq!(figures["verified_by_traffic"], ROUTES, "{figures}");
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

fn learns_by_ospf(daemon: &str, door: &str) -> Result<()> {
    let figures = bench(&["--protocol", "ospf", "--daemon", daemon, "--door", door])?;
    assert_eq!((&figures["protocol"], &figures["door"]), (&"ospf".into(), &door.into()));
    assert_eq!(figures["verified_by_traffic"], ROUTES, "{figures}");
    assert_eq!(figures["audit"], "equal", "{figures}");
    Ok(())
}

#[test]
fn frr_by_the_fpm() -> Result<()> {
    let figures = learns("frr", "fpm", &["--kill", "controller,daemon"])?;
    is_back(&figures, "controller");
    is_back(&figures, "daemon");
    Ok(())
}

#[test]
fn frr_by_linux() -> Result<()> {
    learns("frr", "linux", &[]).map(|_| ())
}

#[test]
fn bird_by_linux() -> Result<()> {
    learns("bird", "linux", &[]).map(|_| ())
}

#[test]
fn bird_by_its_bgp_session() -> Result<()> {
    let figures = learns("bird", "bgp", &["--kill", "controller,daemon"])?;
    is_back(&figures, "controller");
    is_back(&figures, "daemon");
    Ok(())
}

#[test]
fn frr_by_its_bgp_session() -> Result<()> {
    learns("frr", "bgp", &[]).map(|_| ())
}

#[test]
fn ipv6_of_both_daemons() -> Result<()> {
    for (daemon, door) in [("bird", "bgp"), ("frr", "fpm")] {
        let figures = learns(daemon, door, &["--family", "ipv6"])?;
        assert_eq!(figures["family"], "ipv6", "{figures}");
    }
    Ok(())
}

#[test]
fn ospf_of_bird_and_of_frr() -> Result<()> {
    learns_by_ospf("bird", "bgp")?;
    learns_by_ospf("frr", "fpm")
}

#[test]
fn the_kernel_alone_is_the_comparison() -> Result<()> {
    for (daemon, family) in [("frr", "ipv4"), ("bird", "ipv4"), ("bird", "ipv6")] {
        let figures = bench(&["--daemon", daemon, "--kernel", "--family", family])?;
        assert_eq!(figures["door"], "kernel");
        assert!(figures["learn_s"].as_f64() > Some(0.0), "{figures}");
    }
    Ok(())
}
