//! Packets of a host that the controller answers: its test capability echoes UDP datagrams and frames. The controller
//! is killed meanwhile and comes back.

use std::time::Duration;

use serde_json::Value;
use stoa_lab::{
    Background, Command, Configuration, Result, Router, Tool, Topology, stoa_binary, wait_until,
};
use stoa_scenarios::{Scenario, two_sides};

const DEADLINE: Duration = Duration::from_secs(30);

/// Sends a numbered datagram to port 7 of the router every 20 ms until a signal ends it, and prints the answered
/// numbers and errors of the socket, as an ICMP error is one.
const ASK: &str = "
import signal, socket, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
asker = socket.socket(family, socket.SOCK_DGRAM)
asker.connect((sys.argv[1], 7))
asker.settimeout(0.02)
number = 0
try:
    while True:
        number += 1
        try:
            asker.send(b'%d' % number)
            print('answer', asker.recv(100).decode(), flush=True)
        except TimeoutError:
            continue
        except OSError as error:
            print('error', error, flush=True)
        time.sleep(0.02)
finally:
    print('asked', number, flush=True)
";

/// Sends a frame with an ethertype for experiments to the router, and prints the answer.
const ASK_FRAME: &str = "
import socket, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88b5))
link.bind(('eth0', 0x88b5))
link.settimeout(5)
own, router = link.getsockname()[4], bytes.fromhex(sys.argv[1].replace(':', ''))
link.send(router + own + b'\\x88\\xb5' + b'discovery' + bytes(40))
frame = link.recv(2000)
assert frame[:12] == own + router, frame
print('answer', frame[14:23].decode(), flush=True)
";

fn begin() -> Result<Scenario> {
    let sides = two_sides(&[])?;
    let topology = Topology::new(&sides)?;
    let configuration = Configuration::new(&sides).json();
    let environment = [("STOA_TEST_PUNTS", "1")];
    let router =
        Router::start_with(&stoa_binary()?, Some(topology.router()), &configuration, &environment)?;
    router.wait_up(&["host-a", "host-b"])?;
    Ok(Scenario { router, topology })
}

/// The class of the stream, once it is as expected.
fn wait_stream(
    scenario: &Scenario,
    class: &str,
    what: &str,
    is_right: impl Fn(&Value) -> bool,
) -> Result<Value> {
    wait_until(&format!("{class}: {what}"), DEADLINE, || {
        let punts = scenario.router.show("punts").map_err(|error| error.to_string())?;
        let streams = punts["streams"].as_array().cloned().unwrap_or_default();
        let stream = streams.into_iter().find(|stream| stream["class"] == class);
        let stream = stream.filter(&is_right);
        stream.ok_or_else(|| punts["streams"].to_string())
    })
}

fn ask(scenario: &Scenario, six: bool) -> Result<Background> {
    let gateway = scenario.host("host-a").gateway(six)?.to_string();
    scenario.host("host-a").command(Tool::PYTHON)?.args(["-c", ASK, &gateway]).spawn()
}

/// Waits until so many more answers have come.
fn wait_answers(asking: &Background, more: usize) -> Result<()> {
    let count = || asking.stdout().lines().filter(|line| line.starts_with("answer")).count();
    let before = count();
    wait_until("answers", DEADLINE, || {
        let now = count();
        if now >= before + more { Ok(()) } else { Err(format!("{now}, {before} before")) }
    })
}

#[test]
fn the_controller_answers_a_host() -> Result<()> {
    let scenario = begin()?;
    wait_stream(&scenario, "test", "subscribed", |stream| stream["subscribed"] == true)?;
    for six in [false, true] {
        let asking = ask(&scenario, six)?;
        wait_answers(&asking, 5)?;
        let (stdout, stderr, _) = asking.stop()?;
        assert!(!stdout.contains("error"), "{stdout}{stderr}");
    }
    let mac = scenario.topology.router_mac("host-a")?;
    let host = scenario.host("host-a");
    let output = host.command(Tool::PYTHON)?.args(["-c", ASK_FRAME, &mac]).run()?.ok()?;
    assert!(output.stdout.contains("answer discovery"), "{}", output.stdout);
    let state = wait_stream(&scenario, "test-link", "answered", |stream| stream["injected"] == 1)?;
    assert_eq!((&state["sent"], &state["refused"]), (&1.into(), &0.into()), "{state}");
    scenario.end()
}

#[test]
fn a_killed_controller_answers_again() -> Result<()> {
    let scenario = begin()?;
    wait_stream(&scenario, "test", "subscribed", |stream| stream["subscribed"] == true)?;
    let asking = ask(&scenario, false)?;
    wait_answers(&asking, 3)?;
    let pid = |status: &Value| status["controller_pid"].as_u64().unwrap_or(0).to_string();
    let before = pid(&scenario.router.status()?);
    Command::program("/bin/kill").args(["-KILL", &before]).run()?.ok()?;
    let state = wait_stream(&scenario, "test", "subscribed again", |stream| {
        stream["subscribed"] == true && stream["punt_unsubscribed"].as_u64() > Some(0)
    })?;
    assert_ne!(pid(&scenario.router.status()?), before);
    wait_answers(&asking, 5)?;
    let (stdout, stderr, _) = asking.stop()?;
    // Packets were dropped meanwhile, not refused: a protocol must not take the router for one without it.
    assert!(!stdout.contains("error"), "{stdout}{stderr}");
    let answers: Vec<u64> =
        stdout.lines().filter_map(|line| line.strip_prefix("answer ")?.parse().ok()).collect();
    let asked = stdout.lines().find_map(|line| line.strip_prefix("asked ")?.parse::<u64>().ok());
    let (last, asked) = (answers.last().copied().unwrap_or(0), asked.unwrap_or(0));
    println!("{} of {asked} answered, the last is {last}; {state}", answers.len());
    assert!((answers.len() as u64) < asked, "none was lost: was the controller killed?");
    assert!(asked - last < 5, "it answers again: {stdout}");
    let drops = scenario.router.show("drops")?.to_string();
    assert!(drops.contains("punt-unsubscribed"), "{drops}");
    scenario.hosts_reach_each_other()?;
    scenario.end()
}
