//! Packets of a host that the controller answers: its test capability echoes UDP datagrams and frames. The controller
//! is killed meanwhile and comes back.

use std::time::Duration;

use serde_json::Value;
use stoa_lab::{
    Background, Command, Configuration, Result, Router, Tool, Topology, stoa_binary, wait_until,
};
use stoa_scenarios::{Scenario, two_sides};

const DEADLINE: Duration = Duration::from_secs(30);

/// Sends a numbered datagram to port 7 of the router, about each 20 ms until a signal ends it. Prints the numbers of
/// the datagrams and of the answers, and errors of the socket, as an ICMP error is one.
const ASK: &str = "
import socket, sys, time
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
asker = socket.socket(family, socket.SOCK_DGRAM)
asker.connect((sys.argv[1], 7))
asker.settimeout(0.02)
number = 0
while True:
    number += 1
    print('asked', number, flush=True)
    try:
        asker.send(b'%d' % number)
        while True:
            print('answer', asker.recv(100).decode(), flush=True)
    except TimeoutError:
        pass
    except OSError as error:
        print('error', error, flush=True)
        time.sleep(0.02)
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

/// The last number behind a word, 0 before the first one.
fn last(printed: &str, word: &str) -> u64 {
    let number = |line: &str| line.strip_prefix(word)?.trim().parse().ok();
    printed.lines().rev().find_map(number).unwrap_or(0)
}

/// Waits until the router answers so many more datagrams, none of them sent before the call.
fn wait_answers(asking: &Background, more: u64) -> Result<()> {
    let asked = last(&asking.stdout(), "asked");
    wait_until("answers", DEADLINE, || {
        let answer = last(&asking.stdout(), "answer");
        if answer >= asked + more { Ok(()) } else { Err(format!("{answer}, {asked} before")) }
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
    let answers = stdout.lines().filter(|line| line.starts_with("answer")).count() as u64;
    let asked = last(&stdout, "asked");
    println!("{answers} of {asked} answered; {state}");
    assert!(answers < asked, "none was lost: was the controller killed?");
    let drops = scenario.router.show("drops")?.to_string();
    assert!(drops.contains("punt-unsubscribed"), "{drops}");
    scenario.hosts_reach_each_other()?;
    scenario.end()
}
