//! BFD with real neighbours: FRR's bfdd on one link, BIRD on another. Sessions come up over IPv4 and IPv6. When a
//! daemon is killed while its link stays up, BFD detects it and packets take the other path.

use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{Bird, Configuration, Frr, NextHop, Result, Tool, wait_until};
use stoa_scenarios::{Scenario, side};

/// Deadline for sessions to come up: they start with one packet per second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Behind both neighbours.
const BOTH: &str = "198.18.99.9";
/// Behind FRR, and behind BIRD by a shorter prefix.
const ONE: &str = "198.18.97.9";

const FRR: &str = "bfd
 peer 198.18.2.1 interface eth0
  receive-interval 100
  transmit-interval 100
 !
 peer 2001:db8:2::1 local-address 2001:db8:2::2 interface eth0
  receive-interval 100
  transmit-interval 100
 !
";

const BIRD: &str = "router id 198.18.3.2;
protocol device {}
protocol bfd {
  interface \"eth0\" { interval 100 ms; multiplier 3; };
  neighbor 198.18.3.1;
}
";

/// Sessions of the router by neighbour, from `show state`.
fn sessions(scenario: &Scenario) -> Result<Vec<(String, Value)>> {
    let output =
        scenario.router.call(&["show", "state", "/ietf-interfaces:interfaces", "--json"])?.ok()?;
    let state: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
    let interfaces = state["ietf-interfaces:interfaces"]["interface"].as_array();
    let all = interfaces.into_iter().flatten();
    let all = all.flat_map(|it| it["stoa-bfd:bfd"]["session"].as_array().into_iter().flatten());
    let one = |it: &Value| {
        let address = it["dest-addr"].as_str().unwrap_or_default();
        (address.to_owned(), it["session-running"].clone())
    };
    Ok(all.map(one).collect())
}

fn wait_for(scenario: &Scenario, neighbor: &str, state: &str) -> Result<Value> {
    wait_until(&format!("the session with {neighbor} is {state}"), PATIENCE, || {
        let all = sessions(scenario).map_err(|error| error.to_string())?;
        // The neighbour reports its own state one packet later.
        let is_settled = |it: &Value| {
            it["local-state"] == state && (state != "up" || it["remote-state"] == state)
        };
        match all.iter().find(|it| it.0 == neighbor) {
            Some((_, running)) if is_settled(running) => Ok(running.clone()),
            _ => Err(format!("{all:?}")),
        }
    })
}

#[test]
fn routes_leave_a_neighbour_that_dies() -> Result<()> {
    let sides = [side("host-a", 1)?, side("host-b", 2)?, side("host-c", 3)?];
    let both = [("198.18.2.2", 1), ("198.18.3.2", 1)];
    let mut configuration = Configuration::new(&sides)
        .route("198.18.99.0/24", NextHop::Among(&both))
        .route("198.18.98.0/24", NextHop::Via("198.18.2.2"))
        .route("198.18.97.0/24", NextHop::Via("198.18.2.2"))
        .route("198.18.96.0/23", NextHop::Via("198.18.3.2"));
    let session = |address: &str| {
        json!({
            "dest-addr": address, "desired-min-tx-interval": 100_000,
            "required-min-rx-interval": 100_000,
        })
    };
    for (name, neighbors) in
        [("host-b", &["198.18.2.2", "2001:db8:2::2"][..]), ("host-c", &["198.18.3.2"])]
    {
        let list: Vec<Value> = neighbors.iter().map(|it| session(it)).collect();
        configuration.interface(name)["stoa-bfd:bfd"] = json!({ "session": list });
    }
    let scenario = Scenario::with(&sides, &configuration)?;
    let b = scenario.host("host-b").namespace();
    let mut frr = Frr::start(b, ("", &[]), &[(Tool::BFDD, FRR)])?;
    let mut bird = Bird::start(scenario.host("host-c").namespace(), BIRD)?;
    for neighbor in ["198.18.2.2", "2001:db8:2::2", "198.18.3.2"] {
        let running = wait_for(&scenario, neighbor, "up")?;
        assert_eq!((&running["remote-state"], &running["failed"]), (&json!("up"), &json!(false)));
        assert_eq!(running["detection-time"], "300000");
    }
    frr.wait_for("show bfd peers brief", &["198.18.2.1", "up"], PATIENCE)?;
    bird.wait_for_bfd(&["198.18.3.1"], PATIENCE)?;
    assert_eq!(egress(&scenario, BOTH)?, ["host-b", "host-c"]);
    assert_eq!(egress(&scenario, ONE)?, ["host-b"]);

    frr.kill(Tool::BFDD);
    let running = wait_for(&scenario, "198.18.2.2", "down")?;
    assert_eq!((&running["failed"], &running["session-down-count"]), (&json!(true), &json!("1")));
    assert_eq!(running["local-diagnostic"], 1);
    assert_eq!(egress(&scenario, BOTH)?, ["host-c"]);
    assert_eq!(egress(&scenario, ONE)?, ["host-c"], "the shorter prefix takes over");
    // Without another path, the sender receives an ICMP error.
    let ping = ["-n", "-c", "1", "-W", "2", "198.18.98.9"];
    let output = scenario.host("host-a").namespace().command(Tool::PING)?.args(ping).run()?;
    assert!(output.stdout.contains("Unreachable"), "{}", output.stdout);

    frr.add(Tool::BFDD, FRR, &[])?;
    wait_for(&scenario, "198.18.2.2", "up")?;
    assert_eq!(egress(&scenario, BOTH)?, ["host-b", "host-c"]);
    assert_eq!(egress(&scenario, ONE)?, ["host-b"]);

    // The session comes back after a restart of the daemon.
    bird.kill();
    bird.restart()?;
    wait_for(&scenario, "198.18.3.2", "up")?;
    assert_eq!(egress(&scenario, BOTH)?, ["host-b", "host-c"]);
    drop((frr, bird));
    scenario.end()
}

/// The interfaces that carry packets of many flows to an address.
fn egress(scenario: &Scenario, to: &str) -> Result<Vec<&'static str>> {
    let sent = || -> Result<[u64; 2]> {
        let list = scenario.router.interfaces()?;
        let of = |name| list.iter().find(|one| one.name == name).map_or(0, |one| one.tx_packets);
        Ok([of("host-b"), of("host-c")])
    };
    const FLOWS: u16 = 200;
    let before = sent()?;
    let a = scenario.host("host-a").namespace();
    a.enter(|| {
        for flow in 0..FLOWS {
            let socket =
                std::net::UdpSocket::bind(("0.0.0.0", 20_000 + flow)).expect("a free port");
            socket.send_to(b"flow", (to, 9_999)).expect("it is sent");
        }
    })?;
    let moved = wait_until("all flows left", Duration::from_secs(10), || {
        let now = sent().map_err(|error| error.to_string())?;
        let moved = [now[0] - before[0], now[1] - before[1]];
        if moved[0] + moved[1] >= u64::from(FLOWS) { Ok(moved) } else { Err(format!("{moved:?}")) }
    })?;
    // BFD itself sends ten packets a second.
    let is_used = |at: usize| moved[at] > u64::from(FLOWS) / 4;
    Ok(["host-b", "host-c"]
        .into_iter()
        .enumerate()
        .filter(|it| is_used(it.0))
        .map(|it| it.1)
        .collect())
}
