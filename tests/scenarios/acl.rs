//! Access lists with the tools that people use: what they see of accepted, dropped and rejected packets.

use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{Background, Configuration, Host, Result, Router, Tool, Topology, stoa_binary};
use stoa_scenarios::{Scenario, side};

/// Ports behind the router that listen: accepted, dropped, rejected, and without a rule.
const PORTS: [u16; 4] = [8000, 8001, 8002, 8003];

const MODULE: &str = "ietf-access-control-list";

fn rule(name: &str, matches: &Value, action: &str) -> Value {
    let actions = json!({ "forwarding": format!("{MODULE}:{action}") });
    json!({ "name": name, "matches": matches, "actions": actions })
}

fn to_port(port: u16) -> Value {
    json!({ "tcp": { "destination-port": { "port": port } } })
}

/// Lists of both families. Some rules have sets.
fn lists() -> Value {
    let silent = json!({ "tcp": { "stoa-acl:destination-tcp-port-set": "silent" } });
    let rules = [
        rule("open", &to_port(PORTS[0]), "accept"),
        rule("silent", &silent, "drop"),
        rule("closed", &to_port(PORTS[2]), "reject"),
        rule("echo4", &json!({ "ipv4": { "stoa-acl:protocol-set": "echo" } }), "accept"),
        // Not all ICMPv6: without neighbour advertisements the router soon finds no host to answer.
        rule("echo6", &json!({ "icmp": { "type": 128 } }), "reject"),
    ];
    let [open, silent, closed, echo4, echo6] = rules;
    let tcp = [open, silent, closed];
    json!({
        "stoa-acl:defined-sets": {
            "port-sets": { "port-set": [
                { "name": "silent", "port": [22], "include": ["hidden"] },
                { "name": "hidden", "port": [PORTS[1], "9000-9010"] },
            ] },
            "protocol-sets": { "protocol-set": [{ "name": "echo", "protocol": [1, 2] }] },
        },
        "acl": [
            { "name": "services", "aces": { "ace": tcp } },
            { "name": "four", "type": format!("{MODULE}:ipv4-acl-type"), "aces": { "ace": [echo4] } },
            { "name": "six", "type": format!("{MODULE}:ipv6-acl-type"), "aces": { "ace": [echo6] } },
        ],
        "attachment-points": { "interface": [{
            "interface-id": "host-a",
            "ingress": { "acl-sets": { "acl-set": [
                { "name": "services" }, { "name": "four" }, { "name": "six" },
            ] } },
        }] },
    })
}

/// The exit code of curl to a port: 0, 7 (refused) or 28 (no answer).
fn curl(host: &Host, address: &str, port: u16) -> Result<Option<i32>> {
    let url = format!("http://{address}:{port}/");
    let arguments = ["-s", "-o", "/dev/null", "--max-time", "3", &url];
    Ok(host.command(Tool::CURL)?.args(arguments).run()?.status.code())
}

/// A web server on a host.
pub fn serve(host: &Host, port: u16) -> Result<Background> {
    let program = "import http.server, socket, sys\n\
        class Server(http.server.ThreadingHTTPServer):\n    address_family = socket.AF_INET6\n\
        server = Server(('::', int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)\n\
        print('ready', flush=True)\nserver.serve_forever()\n";
    let server = host.command(Tool::PYTHON)?.args(["-c", program, &port.to_string()]).spawn()?;
    server.wait_for("ready", Duration::from_secs(20))?;
    Ok(server)
}

#[test]
fn tools_see_what_is_accepted_dropped_and_rejected() -> Result<()> {
    let sides = [side("host-a", 1)?, side("host-b", 2)?];
    let topology = Topology::new(&sides)?;
    let mut configuration = Configuration::new(&sides).json();
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    router.wait_up(&["host-a", "host-b"])?;
    let scenario = Scenario { router, topology };
    scenario.hosts_reach_each_other()?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    let servers = PORTS.map(|port| serve(b, port));
    let servers = servers.into_iter().collect::<Result<Vec<_>>>()?;
    let (four, six) = (b.address(false)?.to_string(), format!("[{}]", b.address(true)?));
    for port in PORTS {
        assert_eq!(curl(a, &four, port)?, Some(0), "port {port} before there are lists");
    }

    configuration[format!("{MODULE}:acls")] = lists();
    let output = scenario.router.reload(&configuration)?;
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    for address in [&four, &six] {
        let codes = PORTS.map(|port| curl(a, address, port).ok().flatten());
        assert_eq!(codes, [Some(0), Some(28), Some(7), Some(28)], "{address}");
    }
    let ports = "8000-8003";
    let command =
        a.command(Tool::NMAP)?.args(["-n", "-Pn", "-sS", "--max-retries", "1", "-p", ports, &four]);
    let scanned = command.deadline(Duration::from_secs(60)).run()?.stdout;
    for (port, state) in PORTS.into_iter().zip(["open", "filtered", "closed", "filtered"]) {
        let line = scanned.lines().find(|line| line.starts_with(&format!("{port}/tcp")));
        assert!(line.is_some_and(|line| line.contains(state)), "{port} is {state}: {scanned}");
    }
    let ping =
        |address: &str| a.command(Tool::PING)?.args(["-n", "-c", "2", "-W", "1", address]).run();
    assert!(ping(&four)?.success());
    let refused = ping(&b.address(true)?.to_string())?;
    assert!(!refused.success() && refused.stdout.contains("prohibited"), "{}", refused.stdout);

    let shown = scenario.router.show("acl")?;
    let hits = |name: &str| {
        let rules = shown["rules"].as_array().into_iter().flatten();
        rules.clone().find(|rule| rule["rule"] == name).and_then(|rule| rule["packets"].as_u64())
    };
    for name in ["open", "silent", "closed", "echo4", "echo6"] {
        assert!(hits(name).is_some_and(|hits| hits > 0), "{name}: {shown}");
    }
    assert_eq!(shown["attachments"][0]["interface"], "host-a", "{shown}");
    assert!(scenario.router.dropped("acl-input")? > 0);
    decisions(&scenario, &a.address(false)?.to_string(), &four)?;

    // Without lists, all ports are open again.
    configuration[format!("{MODULE}:acls")] = json!({});
    let output = scenario.router.reload(&configuration)?;
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    assert_eq!(curl(a, &four, PORTS[1])?, Some(0));
    drop(servers);
    scenario.end()
}

/// `stoa acl test` agrees with what the tools have seen.
fn decisions(scenario: &Scenario, source: &str, destination: &str) -> Result<()> {
    for (port, action, rule) in
        [(8000, "accept", Some("open")), (8002, "reject", Some("closed")), (8003, "drop", None)]
    {
        let port = port.to_string();
        let output = scenario.router.call(&[
            "acl",
            "test",
            "--interface",
            "host-a",
            "--direction",
            "in",
            "--source",
            source,
            "--destination",
            destination,
            "--protocol",
            "tcp",
            "--destination-port",
            &port,
            "--json",
        ])?;
        let decision: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
        assert_eq!(
            (&decision["action"], &decision["rule"]),
            (&json!(action), &json!(rule)),
            "{}{}",
            output.stdout,
            output.stderr
        );
        assert_eq!(output.success(), action == "accept");
    }
    Ok(())
}

/// Hosts behind host-a open flows; from host-b nothing else comes in.
fn stateful_lists() -> Value {
    let mut out = rule("out", &json!({}), "accept");
    out["actions"]["stoa-acl:stateful"] = json!(true);
    let inbound = rule("rest", &json!({ "ipv4": {} }), "drop");
    // The router finds its hosts.
    let neighbors = [135, 136].map(|kind: u8| {
        let name = format!("nd-{kind}");
        rule(&name, &json!({ "icmp": { "type": kind } }), "accept")
    });
    let attach = |interface: &str, lists: &[&str]| {
        let sets: Vec<Value> = lists.iter().map(|name| json!({ "name": name })).collect();
        json!({ "interface-id": interface, "ingress": { "acl-sets": { "acl-set": sets } } })
    };
    json!({
        "acl": [
            { "name": "out", "aces": { "ace": [out] } },
            { "name": "six", "type": format!("{MODULE}:ipv6-acl-type"), "aces": { "ace": neighbors } },
            { "name": "in", "aces": { "ace": [inbound] } },
        ],
        "attachment-points": { "interface": [
            attach("host-a", &["out"]), attach("host-b", &["six", "in"]),
        ] },
    })
}

/// Shows, counts and clears some of the flows of the test: two of ICMP, and two of TCP that are over.
fn select_flows(router: &Router) -> Result<()> {
    let call = |line: &str| -> Result<Value> {
        let output = router.call(&line.split(' ').collect::<Vec<_>>())?;
        assert!(output.success(), "{line}: {}{}", output.stdout, output.stderr);
        Ok(serde_json::from_str(&output.stdout).unwrap_or_default())
    };
    let port = PORTS[0];
    for filter in
        ["--protocol icmp", "--state tcp-time-wait", &format!("--port {port} --vrf default")]
    {
        let shown = call(&format!("show flows {filter} --top 1 --json"))?;
        let rows = shown["flows"].as_array().map(Vec::len);
        assert_eq!((&shown["matching"], rows), (&json!(2), Some(1)), "{filter}: {shown}");
    }
    let summary = call("show flows --summary --json")?;
    let state = json!({ "family": 4, "state": "icmp", "flows": 1, "suspended": 0 });
    assert!(summary["states"].as_array().is_some_and(|it| it.contains(&state)), "{summary}");
    assert_eq!(summary["families"][1]["flows"], 2, "{summary}");
    let data = call("show state /ietf-access-control-list:acls/stoa-acl:flows")?;
    let families = &data["stoa-acl:flows"]["family"];
    assert_eq!((&families[0]["name"], &families[0]["active-flows"]), (&json!("ipv4"), &json!("2")));
    assert_eq!(call("clear flows --protocol icmp --json")?["flows"], 2);
    assert_eq!(call("show flows --protocol icmp --json")?["matching"], 0);
    assert_eq!(call("show flows --protocol tcp --json")?["matching"], 2);
    let refused = router.call(&["clear", "flows", "--vrf", "red"])?;
    assert!(!refused.success() && refused.stderr.contains("use default"), "{}", refused.stderr);
    Ok(())
}

#[test]
fn stateful_rules_let_replies_in_and_nothing_else() -> Result<()> {
    let sides = [side("host-a", 1)?, side("host-b", 2)?];
    let topology = Topology::new(&sides)?;
    let mut configuration = Configuration::new(&sides).json();
    configuration[format!("{MODULE}:acls")] = stateful_lists();
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    router.wait_up(&["host-a", "host-b"])?;
    let scenario = Scenario { router, topology };
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    let addresses = |host: &Host| -> Result<[String; 2]> {
        Ok([host.address(false)?.to_string(), host.address(true)?.to_string()])
    };
    let ([a4, a6], [b4, b6]) = (addresses(a)?, addresses(b)?);
    let ping = |host: &Host, address: &str| {
        let arguments = ["-n", "-c", "2", "-W", "1", address];
        host.command(Tool::PING)?.args(arguments).run().map(|output| output.success())
    };
    let (inside, outside) = (serve(a, PORTS[0])?, serve(b, PORTS[0])?);
    for (inner, outer) in [(&a4, &b4), (&a6, &b6)] {
        assert!(ping(a, outer)?, "{outer} replies");
        assert!(!ping(b, inner)?, "{inner} is asked");
        let url = |address: &str| match address.contains(':') {
            true => format!("[{address}]"),
            false => address.to_owned(),
        };
        assert_eq!(curl(a, &url(outer), PORTS[0])?, Some(0));
        assert_eq!(curl(b, &url(inner), PORTS[0])?, Some(28));
    }
    let shown = scenario.router.show("flows")?;
    let flows = shown["flows"].as_array().cloned().unwrap_or_default();
    let has = |protocol: u8, state: &str| {
        flows.iter().filter(|it| it["protocol"] == protocol && it["state"] == state).count()
    };
    assert_eq!((has(1, "icmp"), has(58, "icmp")), (1, 1), "{shown}");
    // Each curl has closed its connection.
    assert_eq!(has(6, "tcp-time-wait"), 2, "{shown}");
    assert!(flows.iter().all(|flow| flow["rule"] == "out"), "{shown}");
    assert!(scenario.router.dropped("acl-input")? > 0);
    let test = [
        "acl",
        "test",
        "--interface",
        "host-a",
        "--direction",
        "in",
        "--source",
        &a4,
        "--destination",
        &b4,
        "--protocol",
        "tcp",
        "--destination-port",
        "80",
        "--json",
    ];
    let decision = scenario.router.call(&test)?.stdout;
    let decision: Value = serde_json::from_str(&decision).unwrap_or_default();
    assert_eq!((&decision["action"], &decision["stateful"]), (&json!("accept"), &json!(true)));
    select_flows(&scenario.router)?;
    let cleared = scenario.router.call(&["clear", "flows"])?;
    assert!(cleared.success(), "{}{}", cleared.stdout, cleared.stderr);
    stoa_lab::wait_until("no flow is left", Duration::from_secs(20), || {
        let shown = scenario.router.show("flows").map_err(|error| error.to_string())?;
        if shown["matching"] == 0 { Ok(()) } else { Err(shown.to_string()) }
    })?;
    assert_eq!(curl(a, &b4, PORTS[0])?, Some(0));
    drop((inside, outside));
    scenario.end()
}
