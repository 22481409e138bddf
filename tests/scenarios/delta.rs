//! Much at once from the controller: a BFD session on another port lives while many routes or rows of a delta stream
//! are applied, and rows that change all the time are equal after kills of both halves. `make soak` does it with
//! 1,000,000 routes and rows, BFD with 3 x 50 ms, and for ten minutes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stoa_lab::{
    Background, Command, Configuration, Result, Router, Scratch, stoa_binary, wait_until,
};
use stoa_scenarios::pid;

use crate::bfd_link::{self, given};
use crate::punt_flood::peer::Peer;

/// Longest time of one step, for a million routes and a controller without optimisation.
const PATIENCE: Duration = Duration::from_secs(300);

/// A router with a BFD session on a link over memif, and another port.
fn configuration(socket: &str, interval: Duration, routes: u64) -> Value {
    let route = |n: u64| {
        let prefix = format!("10.{}.{}.{}/32", n >> 16, n >> 8 & 255, n & 255);
        json!({ "destination-prefix": prefix, "next-hop": { "next-hop-address": "198.18.2.2" } })
    };
    let all: Vec<Value> = (0..routes).map(route).collect();
    let mut json = bfd_link::configuration(socket, interval).json();
    json["ietf-routing:routing"] = json!({ "control-plane-protocols": { "control-plane-protocol": [{
            "type": "ietf-routing:static", "name": "many",
            "static-routes": { "ietf-ipv4-unicast-routing:ipv4": { "route": all } },
        }] } });
    json
}

/// A router and the peer of its BFD session, which is up.
fn with_session() -> Result<(Router, Peer, Duration)> {
    let interval = Duration::from_millis(given("STOA_DELTA_BFD_MS", 300));
    let scratch = Scratch::new()?;
    let socket = scratch.file("memif.sock").to_string_lossy().into_owned();
    let json = configuration(&socket, interval, 0);
    let router = Router::start_in(scratch, &stoa_binary()?, None, &json)?;
    let mut peer = Peer::open(&socket, interval);
    bfd_link::wait_until_up(&router, &mut peer)?;
    Ok((router, peer, interval))
}

fn assert_alive(router: &Router, peer: &mut Peer, what: &str) -> Result<()> {
    let session = peer.beside(|| bfd_link::session(router))?;
    bfd_link::assert_alive(&session, peer, what);
    Ok(())
}

/// Runs a command of the router's program to its end.
fn run(arguments: &[&str]) -> Result<String> {
    let (stdout, stderr, is_well) = start(arguments)?.finish(PATIENCE)?;
    assert!(is_well, "stoa {}: {stdout}{stderr}", arguments.join(" "));
    Ok(stdout)
}

fn start(arguments: &[&str]) -> Result<Background> {
    Command::program(stoa_binary()?).args(arguments).spawn()
}

#[test]
fn bfd_lives_while_routes_are_applied() -> Result<()> {
    let (router, mut peer, interval) = with_session()?;
    let routes = given("STOA_DELTA_ROUTES", 20_000);
    let memif = router.scratch().file("memif.sock").to_string_lossy().into_owned();
    let socket = router.socket().to_string_lossy().into_owned();
    for (what, count) in [("applied", routes), ("removed", 0)] {
        // A file of a million routes takes seconds, in which the peer must not be silent.
        peer.beside(|| router.write_configuration(&configuration(&memif, interval, count)))?;
        let begun = Instant::now();
        peer.beside(|| run(&["reload", "--socket", &socket]))?;
        println!("{routes} routes {what} after {:.2?}", begun.elapsed());
        let limits = peer.beside(|| router.show("limits"))?;
        let rows = limits["limits"].as_array().cloned().unwrap_or_default();
        let row = rows.iter().find(|row| row["name"] == "ipv4-routes").cloned();
        let used = row.and_then(|row| row["used"].as_u64()).unwrap_or(0);
        assert!((count..count + 100).contains(&used), "{used} routes are in force, not {count}");
        assert_alive(&router, &mut peer, what)?;
    }
    router.stop()
}

#[test]
fn bfd_lives_while_rows_are_applied() -> Result<()> {
    let (router, mut peer, _) = with_session()?;
    let rows = given("STOA_DELTA_ROWS", 100_000).to_string();
    let forwarder = router.scratch().file("forwarder.sock").to_string_lossy().into_owned();
    let words = ["bench", "delta", "--forwarder", &forwarder, "--rows", &rows, "--seconds"];
    // All of them once, then changes of some of them.
    for seconds in ["0", "1"] {
        let output = peer.beside(|| run(&[&words[..], &[seconds, "--all"]].concat()))?;
        println!("{output}");
        assert_alive(&router, &mut peer, seconds)?;
    }
    router.stop()
}

/// Kills one half of the router, which starts it again. Returns whether it ran.
fn kill(router: &Router, half: &str) -> Result<bool> {
    let Ok(status) = router.status() else { return Ok(false) };
    match pid(&status, half) {
        0 => Ok(false),
        pid => {
            Command::program("/bin/kill").args(["-KILL", &pid.to_string()]).run()?;
            Ok(true)
        }
    }
}

#[test]
fn rows_are_equal_after_kills_of_both_halves() -> Result<()> {
    let seconds = given("STOA_DELTA_SECONDS", 6);
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let seed = given("STOA_CHAOS_SEED", now).to_string();
    println!("STOA_DELTA_SECONDS={seconds} STOA_CHAOS_SEED={seed}");
    let scratch = Scratch::new()?;
    let json = Configuration::new(&[]).port("away", json!({ "null": {} })).json();
    let router = Router::start_in(scratch, &stoa_binary()?, None, &json)?;
    let forwarder = router.scratch().file("forwarder.sock").to_string_lossy().into_owned();
    let (rows, length) = (given("STOA_DELTA_ROWS", 100_000).to_string(), seconds.to_string());
    let churn = start(&[
        "bench",
        "delta",
        "--forwarder",
        &forwarder,
        "--rows",
        &rows,
        "--seconds",
        &length,
        "--seed",
        &seed,
        "--json",
    ])?;
    let (begun, mut kills) = (Instant::now(), 0_u64);
    // A half that exits within 5 s starts later each time.
    let pause = Duration::from_millis(if seconds > 30 { 5_500 } else { 1_200 });
    while begun.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(pause);
        kills += u64::from(kill(&router, if kills % 3 == 1 { "controller" } else { "forwarder" })?);
    }
    let (stdout, stderr, is_well) = churn.finish(Duration::from_secs(seconds) + PATIENCE)?;
    assert!(is_well, "after {kills} kills: {stdout}{stderr}; {}", router.log());
    println!("{kills} kills: {stdout}");
    assert!(kills > 1);
    wait_until("the router has its configuration", PATIENCE, || {
        let status = router.status().map_err(|error| error.to_string())?;
        if status["in_sync"] == true { Ok(()) } else { Err(status.to_string()) }
    })?;
    router.stop()
}
