//! One half dies: packets go on without the controller, and what is wanted comes back by itself.

use std::time::Duration;

use serde_json::Value;
use stoa_lab::{Command, Result, Tool, wait_until};
use stoa_scenarios::{Story, two_sides};

/// Kills a half of the router, which this story has started, and waits until another has taken its place.
fn kill_half(story: &Story, half: &str) -> Result<()> {
    let old = pid(&story.router.status()?, half);
    Command::program("/bin/kill").args(["-KILL", &old.to_string()]).run()?.ok()?;
    wait_until(&format!("another {half} is in sync"), Duration::from_secs(20), || {
        let status = story.router.status().map_err(|error| error.to_string())?;
        let now = pid(&status, half);
        let done = now != 0 && now != old && status["in_sync"] == true;
        if done { Ok(()) } else { Err(status.to_string()) }
    })
}

fn pid(status: &Value, half: &str) -> u64 {
    status[format!("{half}_pid")].as_u64().unwrap_or(0)
}

#[test]
fn packets_go_on_without_the_controller() -> Result<()> {
    let story = Story::begin(&two_sides(&[])?)?;
    story.hosts_reach_each_other()?;
    let to = story.host("host-b").address(false)?.to_string();
    let running = story
        .host("host-a")
        .command(Tool::PING)?
        .args(["-n", "-i", "0.02", "-c", "200", "-W", "2", &to])
        .spawn()?;
    running.wait_for("icmp_seq=5 ", Duration::from_secs(10))?;
    kill_half(&story, "controller")?;
    let (stdout, _, _) = running.finish(Duration::from_secs(30))?;
    assert!(stdout.contains("200 received"), "not one packet is lost: {stdout}");
    story.hosts_reach_each_other()?;
    story.end()
}

#[test]
fn a_new_forwarder_is_told_what_is_wanted() -> Result<()> {
    let story = Story::begin(&two_sides(&[])?)?;
    story.hosts_reach_each_other()?;
    kill_half(&story, "forwarder")?;
    story.hosts_reach_each_other()?;
    story.end()
}
