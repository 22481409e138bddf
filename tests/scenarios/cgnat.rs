//! Carrier-grade NAT with real sockets: port sets, their limits, and who had a port.

use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::measure::ping;
use stoa_lab::{Background, Command, Host, Result, Tool, wait_until};

use crate::nat44::{Lab, POOL, PORT, seen_by};

/// Opens a connection and holds it, then sends a datagram from each of many ports.
const CLIENT: &str = "\
import socket, sys
address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
held = socket.create_connection((address, port), 10)
sockets = []
for _ in range(count):
    it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    it.sendto(b'x', (address, 9))
    sockets.append(it)
print('ready', flush=True)
sys.stdin.read()
";

fn by_port_sets(set: &Value) -> Value {
    json!({
        "external-ip-address-pool": [{ "pool-id": 1, "external-ip-pool": POOL }],
        "subscriber-match": [{ "match-id": 1, "subnet": "198.18.1.0/24" }],
        "port-allocation-type": "port-range-allocation",
        "port-set": set,
    })
}

fn client(host: &Host, ports: u32) -> Result<Background> {
    let arguments = ["-c", CLIENT, "198.18.2.2", &PORT.to_string(), &ports.to_string()];
    let client = host.command(Tool::PYTHON)?.args(arguments).spawn()?;
    client.wait_for("ready", Duration::from_secs(20))?;
    Ok(client)
}

#[test]
fn subscribers_have_port_sets() -> Result<()> {
    let set = json!({ "port-set-size": 64, "stoa-nat:max-port-sets": 2 });
    let lab = Lab::begin(&by_port_sets(&set), &[])?;
    let (router, inside) = (lab.router(), lab.host("host-a"));
    let (external, port) = seen_by(inside, "198.18.2.2", PORT)?;
    let (external, port) = (external.to_string(), port.to_string());
    // 128 ports of UDP, and no more; TCP has ports of its own.
    let many = client(inside, 200)?;
    assert!(router.dropped("nat44-quota")? >= 60);
    assert_eq!(seen_by(inside, "198.18.2.2", PORT)?.0.to_string(), external);
    assert!(ping(inside, lab.host("host-b").address(false)?, 2, &[])?.all());
    let shown = router.show("nat")?;
    let policy = &shown["policies"][0];
    assert_eq!(policy["port_sets"]["used"], 2, "{shown}");
    assert_eq!(policy["active_subscribers"], 1, "{shown}");
    assert_eq!(policy["port_sets"]["total"], json!(16 * (64_512 / 64)), "{shown}");
    let of_host = ["show", "nat", "mappings", "--subscriber", "198.18.1.2", "--json"];
    let listed = router.json(&of_host)?;
    assert!(listed["matching"].as_u64() >= Some(129), "{listed}");

    // While the connection lives: by its port, at this time, and the other way round.
    wait_until(
        "whois names the subscriber, without a time and with one",
        Duration::from_secs(10),
        || {
            let text = |error: stoa_lab::LabError| error.to_string();
            let now = Command::program("/bin/date").args(["-u", "+%FT%TZ"]).run().map_err(text)?;
            for more in [&["--json"][..], &[now.stdout.trim(), "--json"]] {
                let words = [&["nat", "whois", &external, &port][..], more].concat();
                let found = router.json(&words).map_err(text)?;
                let first = &found["users"][0];
                if (&first["port_set"]["subscriber"], &first["kind"])
                    != (&json!("198.18.1.2/32"), &json!("port-set"))
                {
                    return Err(found.to_string());
                }
            }
            Ok(())
        },
    )?;
    let found = router.json(&["nat", "whois", "198.18.1.2", "--json"])?;
    assert_eq!(found["users"].as_array().map(Vec::len), Some(2), "{found}");
    assert_eq!(found["users"][0]["port_set"]["external"], json!(external), "{found}");
    let metrics = router.call(&["show", "metrics"])?.stdout;
    let used = "stoa_nat44_port_sets{instance=\"1\",policy=\"1\",state=\"used\"} 2.0";
    assert!(metrics.contains(used), "{metrics}");
    let state = router.json(&["show", "state", "/ietf-nat:nat"])?;
    let policy = &state["ietf-nat:nat"]["instances"]["instance"][0]["policy"][0];
    assert_eq!(policy["stoa-nat:statistics"]["used-port-sets"], "2", "{state}");
    let log = router.log();
    assert_eq!(log.matches("NAT port set allocated").count(), 2, "{log}");
    assert!(log.contains("198.18.1.2") && !log.contains("198.18.2.2"), "{log}");
    drop(many);
    lab.scenario.end()
}

#[test]
fn deterministic_port_sets_need_no_log() -> Result<()> {
    let set = json!({ "port-set-size": 4_000, "stoa-nat:deterministic": true });
    let lab = Lab::begin(&by_port_sets(&set), &[])?;
    let (router, inside) = (lab.router(), lab.host("host-a"));
    let (external, port) = seen_by(inside, "198.18.2.2", PORT)?;
    let (external, port) = (external.to_string(), port.to_string());
    let file = router.write_configuration(&lab.configuration)?;
    let file = file.to_string_lossy();
    // The running router, and the configuration alone.
    for more in [&["--json"][..], &["--file", &file, "--json"]] {
        let words = [&["nat", "whois", &external, &port][..], more].concat();
        let found = router.json(&words)?;
        let first = &found["users"][0];
        assert_eq!(first["port_set"]["subscriber"], "198.18.1.2/32", "{found}");
        assert_eq!(first["kind"], "deterministic", "{found}");
        let words = [&["nat", "whois", "198.18.1.2"][..], more].concat();
        let found = router.json(&words)?;
        let set = &found["users"][0]["port_set"];
        assert_eq!(set["external"], json!(external), "{found}");
        let (first, last) = (set["first_port"].as_u64(), set["last_port"].as_u64());
        let port = port.parse().ok();
        assert!(first <= port && port <= last, "{found}");
    }
    // A subscriber more than there are port sets.
    let mut wrong = lab.configuration.clone();
    let policy = &mut wrong["ietf-nat:nat"]["instances"]["instance"][0]["policy"][0];
    policy["external-ip-address-pool"][0]["external-ip-pool"] = json!("203.0.113.16/29");
    let refused = router.reload(&wrong)?;
    assert!(!refused.success());
    let text = format!("{}{}", refused.stdout, refused.stderr);
    assert!(text.contains("256 subscribers are more than the 128 port sets"), "{text}");
    assert_eq!(router.log().matches("NAT port set").count(), 0);
    lab.scenario.end()
}
