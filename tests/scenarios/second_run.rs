//! A second router on the same socket exits with an error and does not affect the first one.

use stoa_lab::{Command, Result, stoa_binary};
use stoa_scenarios::{Scenario, two_sides};

#[test]
fn a_second_router_reports_the_running_one() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    let socket = scenario.router.socket().to_string_lossy().into_owned();
    let file = scenario.router.scratch().file("stoa.json").to_string_lossy().into_owned();
    let output = Command::program(stoa_binary()?)
        .args(["run", "--config", &file, "--socket", &socket])
        .inside(scenario.topology.router().name())
        .run()?;
    let printed = format!("{}{}", output.stdout, output.stderr);
    assert!(!output.success(), "{printed}");
    assert!(printed.contains("already") && printed.contains(&socket), "{printed}");
    assert!(scenario.router.is_running());
    scenario.hosts_reach_each_other()?;
    scenario.end()
}

#[test]
fn a_stale_socket_is_replaced() -> Result<()> {
    let scratch = stoa_lab::Scratch::new()?;
    // A killed router leaves a socket without a listener.
    drop(std::os::unix::net::UnixListener::bind(scratch.file("stoa.sock")).expect("bound"));
    let sides = two_sides(&[])?;
    let topology = stoa_lab::Topology::new(&sides)?;
    let configuration = stoa_lab::Configuration::new(&sides).json();
    let router = stoa_lab::Router::start_in(
        scratch,
        &stoa_binary()?,
        Some(topology.router()),
        &configuration,
    )?;
    router.conservation()?;
    router.stop()
}
