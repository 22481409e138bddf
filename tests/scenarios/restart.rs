//! Forwarder or controller are killed: forwarding continues without the controller, and a new forwarder receives the
//! desired state.

use std::time::Duration;

use serde_json::Value;
use stoa_lab::{Background, Command, Result, Tool, wait_until};
use stoa_scenarios::{Scenario, two_sides};

/// The router between two hosts that reach each other.
fn begin() -> Result<Scenario> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    scenario.hosts_reach_each_other()?;
    Ok(scenario)
}

/// Starts `count` pings between the hosts at an interval in seconds.
fn pings(scenario: &Scenario, six: bool, interval: &str, count: u32) -> Result<Background> {
    let to = scenario.host("host-b").address(six)?.to_string();
    let arguments = ["-D", "-n", "-W", "2", "-i", interval, "-c", &count.to_string(), &to];
    let running = scenario.host("host-a").command(Tool::PING)?.args(arguments).spawn()?;
    running.wait_for("icmp_seq=5 ", Duration::from_secs(10))?;
    Ok(running)
}

/// Waits until the router reports that it is in sync, or that it is not.
fn wait_in_sync(scenario: &Scenario, in_sync: bool) -> Result<Value> {
    wait_until(&format!("in_sync is {in_sync}"), Duration::from_secs(15), || {
        let status = scenario.router.status().map_err(|error| error.to_string())?;
        if status["in_sync"] == in_sync { Ok(status) } else { Err(status.to_string()) }
    })
}

/// Kills the forwarder or the controller and waits until the next one is in sync.
fn kill_half(scenario: &Scenario, half: &str) -> Result<()> {
    let old = pid(&scenario.router.status()?, half);
    Command::program("/bin/kill").args(["-KILL", &old.to_string()]).run()?.ok()?;
    wait_until(&format!("another {half} is in sync"), Duration::from_secs(20), || {
        let status = scenario.router.status().map_err(|error| error.to_string())?;
        let now = pid(&status, half);
        let done = now != 0 && now != old && status["in_sync"] == true;
        if done { Ok(()) } else { Err(status.to_string()) }
    })
}

fn pid(status: &Value, half: &str) -> u64 {
    status[format!("{half}_pid")].as_u64().unwrap_or(0)
}

#[test]
fn forwarding_continues_without_the_controller() -> Result<()> {
    let scenario = begin()?;
    let running = pings(&scenario, false, "0.02", 200)?;
    kill_half(&scenario, "controller")?;
    let (stdout, _, _) = running.finish(Duration::from_secs(30))?;
    assert!(stdout.contains("200 received"), "no packet is lost: {stdout}");
    scenario.hosts_reach_each_other()?;
    scenario.end()
}

#[test]
fn a_new_forwarder_receives_the_desired_state() -> Result<()> {
    let scenario = begin()?;
    kill_half(&scenario, "forwarder")?;
    scenario.hosts_reach_each_other()?;
    scenario.end()
}

/// The longest time between two answers in the output of `ping -D`.
fn longest_silence(printed: &str) -> f64 {
    let stamp = |line: &str| line.strip_prefix('[')?.split_once(']')?.0.parse::<f64>().ok();
    let stamps: Vec<f64> = printed.lines().filter_map(stamp).collect();
    stamps.windows(2).map(|two| two[1] - two[0]).fold(0.0, f64::max)
}

#[test]
fn repeated_kills_of_the_controller_lose_no_packet() -> Result<()> {
    let scenario = begin()?;
    let running = pings(&scenario, false, "0.02", 600)?;
    // The delay before a restart doubles: 3.2 s before the last one.
    for _ in 0..6 {
        kill_half(&scenario, "controller")?;
    }
    let (stdout, _, _) = running.finish(Duration::from_secs(60))?;
    assert!(stdout.contains("600 received"), "no packet is lost: {stdout}");
    let output = scenario.router.call(&["reload"])?;
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    scenario.end()
}

#[test]
fn a_killed_forwarder_forwards_again_by_itself() -> Result<()> {
    let scenario = begin()?;
    for six in [false, true] {
        let running = pings(&scenario, six, "0.01", 500)?;
        kill_half(&scenario, "forwarder")?;
        let (stdout, _, _) = running.finish(Duration::from_secs(60))?;
        let silence = longest_silence(&stdout);
        println!("no answer for {silence:.3} s after kill -9 of the forwarder");
        // The documented limit is two seconds; a test machine may be busy.
        assert!(silence > 0.0 && silence < 4.0, "{silence} s: {stdout}");
    }
    scenario.end()
}

#[test]
fn a_hanging_forwarder_is_reported() -> Result<()> {
    let scenario = begin()?;
    let forwarder = pid(&scenario.router.status()?, "forwarder").to_string();
    let signal = |name: &str| Command::program("/bin/kill").args([name, &forwarder]).run();
    signal("-STOP")?.ok()?;
    let seen = wait_in_sync(&scenario, false);
    signal("-CONT")?.ok()?;
    println!("{}", seen?);
    wait_in_sync(&scenario, true)?;
    scenario.hosts_reach_each_other()?;
    scenario.end()
}
