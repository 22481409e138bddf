//! The scale lab in small: `stoa bench convergence` with each daemon and the kernel alone.

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

#[test]
fn the_kernel_alone_is_the_comparison() -> Result<()> {
    for daemon in ["frr", "bird"] {
        let figures = bench(&["--daemon", daemon, "--kernel"])?;
        assert_eq!(figures["door"], "kernel");
        assert!(figures["learn_s"].as_f64() > Some(0.0), "{figures}");
    }
    Ok(())
}
