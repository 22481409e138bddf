//! The scale lab in small: `stoa bench convergence` with each daemon by each of its doors, and with the kernel alone. Every prefix is
//! proved by a packet, twice, and what a cut link interrupts is measured.

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

fn learns(daemon: &str, door: &str) -> Result<()> {
    let figures = bench(&["--daemon", daemon, "--door", door, "--peers", "2"])?;
    assert_eq!((&figures["daemon"], &figures["door"]), (&daemon.into(), &door.into()));
    assert_eq!(figures["verified_by_traffic"], ROUTES, "{figures}");
    for seconds in ["learn_s", "reconverge_s", "ours_s", "daemon_s", "repair_ms", "repair_ms_1k"] {
        assert!(figures[seconds].is_f64(), "{seconds}: {figures}");
    }
    assert!(figures["learn_s"].as_f64() > Some(0.0), "{figures}");
    assert_eq!(figures["audit"], "equal", "{figures}");
    Ok(())
}

#[test]
fn frr_by_the_fpm() -> Result<()> {
    learns("frr", "fpm")
}

#[test]
fn frr_by_linux() -> Result<()> {
    learns("frr", "linux")
}

#[test]
fn bird_by_linux() -> Result<()> {
    learns("bird", "linux")
}

#[test]
fn bird_by_its_bgp_session() -> Result<()> {
    learns("bird", "bgp")
}

#[test]
fn frr_by_its_bgp_session() -> Result<()> {
    learns("frr", "bgp")
}

#[test]
fn the_kernel_alone_is_the_comparison() -> Result<()> {
    for daemon in ["frr", "bird"] {
        let figures = bench(&["--daemon", daemon, "--kernel"])?;
        assert_eq!(figures["door"], "kernel");
        assert!(figures["learn_s"].as_f64() > Some(0.0), "{figures}");
    }
    Ok(())
}
