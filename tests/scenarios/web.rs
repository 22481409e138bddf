//! The web page in a browser: the first user is created, rules have hits, flows their ports and pools their use, an
//! address is changed and committed, a VLAN, a tunnel, a policy rule, a BFD session and a virtual router are created by
//! their forms, counters move, the last hour is shown, an invalid change is refused with its place, a commit is
//! cancelled, a capture is downloaded, the change is rolled back, the controller restarts under an edited form.
//! `dashboard/test/browser.mjs` controls the browser; this test compares its result with the router.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{
    Command, Configuration, LabError, Result, Router, Scratch, Tool, stoa_binary, wait_until,
};
use stoa_scenarios::browser;

/// Deadline of the script.
const DEADLINE: Duration = Duration::from_secs(240);

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0");
    let listener = listener.map_err(|error| LabError::system("a free port", error))?;
    let address = listener.local_addr();
    Ok(address.map_err(|error| LabError::system("its address", error))?.port())
}

/// A stateful rule, one that never matches, and NAT44 with a pool.
fn firewall() -> (Value, Value) {
    let accept =
        json!({ "forwarding": "ietf-access-control-list:accept", "stoa-acl:stateful": true });
    let rule =
        |name: &str, matches: Value| json!({ "name": name, "matches": matches, "actions": accept });
    let rules = [
        rule("web", json!({ "tcp": { "destination-port": { "port": 443 } } })),
        rule("udp", json!({ "ipv4": { "protocol": 17 } })),
    ];
    let acls = json!({
        "acl": [{ "name": "edge", "type": "ietf-access-control-list:ipv4-acl-type", "aces": { "ace": rules } }],
        "attachment-points": { "interface": [{
            "interface-id": "in", "ingress": { "acl-sets": { "acl-set": [{ "name": "edge" }] } },
        }] },
    });
    let policy = json!({
        "id": 10, "external-realm": { "external-interface": "out" },
        "subscriber-match": [{ "match-id": 1, "subnet": "198.18.1.0/24" }],
        "external-ip-address-pool": [{ "pool-id": 1, "external-ip-pool": "203.0.113.16/28" }],
    });
    let mapping = json!({
        "index": 1, "transport-protocol": 6,
        "external-src-address": "203.0.113.40/32", "external-src-port": { "start-port-number": 443 },
        "internal-src-address": "198.18.1.80/32", "internal-src-port": { "start-port-number": 8443 },
    });
    let instance =
        json!({ "id": 1, "policy": [policy], "mapping-table": { "mapping-entry": [mapping] } });
    (acls, json!({ "instances": { "instance": [instance] } }))
}

/// Two ports that need no root: a generator and a sink.
fn configuration(https: u16) -> Value {
    let generator = json!({ "generator": {
        "rate": "2000", "source": "198.18.1.2", "destination": "198.18.2.2",
    } });
    let address = |text: &str| text.parse().expect("an address");
    let mut configuration = Configuration::new(&[])
        .port("in", generator)
        .port("out", json!({ "null": {} }))
        .addresses("in", &[address("198.18.1.1/24")])
        .addresses("out", &[address("198.18.2.1/24")]);
    configuration.interface("out")["ietf-ip:ipv4"]["neighbor"] =
        json!([{ "ip": "198.18.2.2", "link-layer-address": "02:00:00:00:02:02" }]);
    configuration.interface("out")["stoa-bfd:bfd"] =
        json!({ "session": [{ "dest-addr": "198.18.2.2" }] });
    configuration.interface("out")["ietf-ip:ipv4"]["ietf-vrrp:vrrp"] = json!({ "vrrp-instance": [{
        "vrid": 51, "version": "ietf-vrrp:vrrp-v3",
        "virtual-ipv4-addresses": { "virtual-ipv4-address": [{ "ipv4-address": "198.18.2.254" }] },
    }] });
    let mut configuration = configuration.json();
    configuration["ietf-routing:routing"]["stoa-policy:policy"] = json!({ "rule": [{
        "vrf": "default", "address-family": "ipv4", "priority": 100,
        "match": { "destination-prefix": "10.99.0.0/16" }, "refuse": "prohibit",
    }] });
    let (acls, nat) = firewall();
    configuration["ietf-access-control-list:acls"] = acls;
    configuration["ietf-nat:nat"] = nat;
    configuration["stoa-management:management"] = json!({ "https": { "port": https } });
    configuration
}

#[test]
fn an_operator_changes_an_address_in_a_browser_and_rolls_back() -> Result<()> {
    let Some(chromium) = browser()? else { return Ok(()) };
    let https = free_port()?;
    let router = Router::start(&stoa_binary()?, None, &configuration(https))?;
    let token = router.scratch().file("stoa.state/setup-token");
    let token = wait_until("the router writes a setup token", Duration::from_secs(20), || {
        std::fs::read_to_string(&token).map_err(|error| error.to_string())
    })?;
    wait_until("the HTTPS server listens", Duration::from_secs(20), || {
        let tried = std::net::TcpStream::connect(("127.0.0.1", https));
        tried.map(drop).map_err(|error| error.to_string())
    })?;

    let scratch = Scratch::new()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboard/test/browser.mjs");
    let output = Command::tool(Tool::NODE)?
        .args([
            script.to_string_lossy().as_ref(),
            &format!("https://localhost:{https}/"),
            token.trim(),
            scratch.path().to_string_lossy().as_ref(),
        ])
        .env("CHROMIUM", &chromium.to_string_lossy())
        .env("CONTROLLER", &router.status()?["controller_pid"].to_string())
        .deadline(DEADLINE)
        .run()?
        .ok()?;
    let printed: Value = serde_json::from_str(output.stdout.lines().last().unwrap_or_default())
        .map_err(|error| LabError::ParseFailed {
            what: "the browser's script".into(),
            reason: format!("{error}: {}", output.stdout),
        })?;
    assert_eq!(printed["done"], true, "{printed}");

    // A commit, a cancelled commit, and the rollback.
    let listed = router.call(&["show", "interfaces", "--json"])?.ok()?.stdout;
    assert!(listed.contains("198.18.2.1") && !listed.contains("198.18.2.9"), "{listed}");
    let audit = router.scratch().file("stoa.state/audit.log");
    let audit = std::fs::read_to_string(audit).unwrap_or_default();
    for action in ["setup", "log in", "stoa-datastore:commit", "stoa-datastore:cancel", "/capture?"]
    {
        assert!(audit.contains(action), "{action} is not in the audit log: {audit}");
    }

    // tshark reads the download.
    let frames = scratch.file("stoa-in.pcapng");
    let read = Command::tool(Tool::TSHARK)?
        .args(["-r", &frames.to_string_lossy(), "-T", "fields", "-e", "ip.dst"])
        .run()?
        .ok()?;
    let seen: Vec<&str> = read.stdout.lines().collect();
    assert_eq!(seen, ["198.18.2.2"; 5], "{}", read.stdout);
    router.stop()
}
