//! Forwarder or controller are killed: forwarding continues without the controller, and a new forwarder receives the
//! desired state.

use std::time::Duration;

use serde_json::Value;
use stoa_lab::{Background, Command, Result, Tool, stoa_binary, wait_until};
use stoa_scenarios::{Scenario, two_sides};

use crate::bfd_link::given;

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

/// Ends a ping as Ctrl-C does, and returns what it has printed.
fn interrupt(ping: Background) -> Result<String> {
    Command::program("/bin/kill").args(["-INT", &ping.pid().to_string()]).run()?.ok()?;
    let (stdout, _, _) = ping.finish(Duration::from_secs(10))?;
    Ok(stdout)
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

/// Sends rows of a delta stream to the forwarder, as a controller that does not know what that one holds. It ends once
/// an audit has found them equal.
fn send_rows(scenario: &Scenario, rows: u64) -> Result<Background> {
    let forwarder = scenario.router.scratch().file("forwarder.sock");
    let (forwarder, rows) = (forwarder.to_string_lossy(), rows.to_string());
    let words = ["bench", "delta", "--forwarder", &forwarder, "--rows", &rows];
    Command::program(stoa_binary()?).args(words).args(["--seconds", "0", "--all"]).spawn()
}

fn wait_sent(sender: Background) -> Result<()> {
    let (stdout, stderr, is_well) = sender.finish(Duration::from_secs(180))?;
    assert!(is_well, "{stdout}{stderr}");
    Ok(())
}

/// Number and digest of these rows, once everything else that the forwarder holds is as the controller desires.
fn audited_rows(scenario: &Scenario) -> Result<(u64, String)> {
    wait_until("the audit is equal", Duration::from_secs(60), || {
        let audit = scenario
            .router
            .json(&["show", "audit", "--json"])
            .map_err(|error| error.to_string())?;
        let tables = audit["tables"].as_array().cloned().unwrap_or_default();
        // The controller does not send the rows for tests.
        let (sent, other): (Vec<_>, Vec<_>) = tables.iter().partition(|it| it["sent"] == true);
        let is_equal = |it: &&Value| it["compared"] == true && it["different"] == 0;
        match other.as_slice() {
            [rows] if sent.len() > 1 && sent.iter().all(is_equal) => {
                let digest = rows["digest"].as_str().unwrap_or_default().to_owned();
                Ok((rows["held"].as_u64().unwrap_or(0), digest))
            }
            _ => Err(audit.to_string()),
        }
    })
}

/// The answers of `ping` are those of all requests, but for the last one: it may be under way.
fn assert_all_answered(printed: &str) {
    let sequence = |line: &str| line.split_once("icmp_seq=")?.1.split(' ').next()?.parse().ok();
    let answered: Vec<u64> = printed.lines().filter_map(sequence).collect();
    let lost = (1..).zip(&answered).find(|(number, answered)| number != *answered);
    assert_eq!(lost, None, "a packet is lost: {printed}");
    let sent =
        printed.lines().find_map(|line| line.split_once(" packets transmitted")?.0.parse().ok());
    let sent: u64 = sent.unwrap_or_else(|| panic!("ping has ended: {printed}"));
    assert!(sent - answered.len() as u64 <= 1, "{sent} sent: {printed}");
}

/// `make soak` does it with 1,000,000 rows.
#[test]
fn kills_of_the_controller_with_rows_lose_no_packet() -> Result<()> {
    let scenario = begin()?;
    let rows = given("STOA_KILL_ROWS", 20_000);
    wait_sent(send_rows(&scenario, rows)?)?;
    let before = audited_rows(&scenario)?;
    assert_eq!(before.0, rows);
    let running = pings(&scenario, false, "0.02", 1_000_000)?;
    for _ in 0..4 {
        // The first sender dies with the controller, and the next one takes up what it has left.
        let sender = send_rows(&scenario, rows)?;
        kill_half(&scenario, "controller")?;
        sender.kill();
        wait_sent(send_rows(&scenario, rows)?)?;
        assert_eq!(audited_rows(&scenario)?, before);
    }
    assert_all_answered(&interrupt(running)?);
    scenario.end()
}

/// `make soak` holds it to the documented limit of two seconds: the machine of `make test` may be busy.
#[test]
fn a_killed_forwarder_forwards_again_by_itself() -> Result<()> {
    let scenario = begin()?;
    let limit = given("STOA_SILENCE_MS", 20_000) as f64 / 1000.0;
    for six in [false, true] {
        let running = pings(&scenario, six, "0.01", 1_000_000)?;
        kill_half(&scenario, "forwarder")?;
        scenario.hosts_reach_each_other()?;
        let stdout = interrupt(running)?;
        let silence = longest_silence(&stdout);
        println!("no answer for {silence:.3} s after kill -9 of the forwarder");
        assert!(silence > 0.0 && silence < limit, "{silence} s: {stdout}");
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
