//! Hosts open ports themselves: natpmpc, and a client of PCP that is written from RFC 6887 alone.

use serde_json::{Value, json};
use stoa_lab::{Host, Result, Router, Tool};

use crate::nat44::{EXTERNAL, Lab, POOL, PORT, seen_by};

const ROUTER: &str = "198.18.1.1";

/// A pool, whose ports host-a may ask for.
fn policy() -> Value {
    json!({
        "external-ip-address-pool": [{ "pool-id": 1, "external-ip-pool": POOL }],
        "stoa-nat:port-control": { "interface": ["host-a"], "max-mappings-per-host": 3 },
    })
}

/// What natpmpc of a host prints.
fn natpmpc(host: &Host, arguments: &[&str]) -> Result<String> {
    let output = host.command(Tool::NATPMPC)?.args(["-g", ROUTER]).args(arguments).run()?;
    Ok(format!("{}{}", output.stdout, output.stderr))
}

/// Asks by PCP for a mapping of TCP: internal port and suggested external one, lifetime, and a nonce. The result, the
/// lifetime and the external end.
fn pcp(
    host: &Host,
    ports: (u16, u16),
    lifetime: u32,
    nonce: u8,
) -> Result<(u64, u64, String, u16)> {
    let program = "\
        import ipaddress, json, socket, struct, sys\n\
        server, internal, external, lifetime, nonce = sys.argv[1], *map(int, sys.argv[2:])\n\
        asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        asker.settimeout(5)\n\
        asker.connect((server, 5351))\n\
        own = b'\\0' * 10 + b'\\xff\\xff' + socket.inet_aton(asker.getsockname()[0])\n\
        none = b'\\0' * 10 + b'\\xff\\xff' + b'\\0' * 4\n\
        asker.send(struct.pack('!BBHI16s', 2, 1, 0, lifetime, own)\n\
        \x20   + struct.pack('!12sB3xHH16s', bytes([nonce] * 12), 6, internal, external, none))\n\
        answer = asker.recv(1100)\n\
        version, opcode, _, result, granted, epoch = struct.unpack('!BBBBII12x', answer[:24])\n\
        echoed, protocol, port, given, address = struct.unpack('!12sB3xHH16s', answer[24:60])\n\
        assert (version, opcode, protocol, port) == (2, 0x81, 6, internal), answer\n\
        assert echoed == bytes([nonce] * 12), answer\n\
        print(json.dumps([result, granted, str(ipaddress.ip_address(address[12:])), given]))\n";
    let (internal, external) = ports;
    let numbers = [internal.into(), external.into(), lifetime, nonce.into()];
    let numbers = numbers.map(|it: u32| it.to_string());
    let command = host.command(Tool::PYTHON)?.args(["-c", program, ROUTER]).args(&numbers);
    let printed = command.run()?.ok()?.stdout;
    let answer: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"));
    let number = |at: usize| answer[at].as_u64().unwrap_or_else(|| panic!("{printed}"));
    let address = answer[2].as_str().unwrap_or_default().to_owned();
    Ok((number(0), number(1), address, u16::try_from(number(3)).unwrap_or_default()))
}

/// The leases of all mappings, as `stoa show nat mappings` has them.
fn leases(router: &Router) -> Result<Vec<Value>> {
    let shown = router.json(&["show", "nat", "mappings", "--json"])?;
    let all = shown["mappings"].as_array().cloned().unwrap_or_default();
    Ok(all.into_iter().filter(|it| it["leases"] != json!([])).collect())
}

#[test]
fn natpmpc_opens_and_closes_ports() -> Result<()> {
    let lab = Lab::begin(&policy(), &[])?;
    let (inside, outside) = (lab.host("host-a"), lab.host("host-b"));
    let port = PORT.to_string();
    let printed = natpmpc(inside, &["-a", "9000", &port, "tcp", "600"])?;
    assert!(
        printed.contains("Mapped public port 9000 protocol TCP to local port 8000"),
        "{printed}"
    );
    let address = printed.lines().find_map(|line| line.strip_prefix("Public IP address : "));
    let address = address.unwrap_or_else(|| panic!("{printed}")).trim();
    assert!(address.starts_with(EXTERNAL.trim_end_matches("0/24")), "{printed}");
    assert_eq!(seen_by(outside, address, 9000)?.0.to_string(), "198.18.2.2");
    let held = leases(lab.router())?;
    let lease = &held[0]["leases"][0];
    assert_eq!(
        (held.len(), &lease["kind"], &held[0]["external_port"]),
        (1, &json!("nat-pmp"), &json!(9000))
    );
    assert!((500..=600).contains(&lease["left_s"].as_u64().unwrap_or(0)), "{lease}");
    let text = lab.router().call(&["show", "nat", "mappings"])?.stdout;
    assert!(text.contains("nat-pmp, ") && text.contains(" left"), "{text}");
    // A host outside has no server.
    let printed = outside.command(Tool::NATPMPC)?.args(["-g", "198.18.2.1"]).run()?;
    assert!(!printed.stdout.contains("Public IP address"), "{}", printed.stdout);
    // The end of it.
    let printed = natpmpc(inside, &["-a", "0", &port, "tcp", "0"])?;
    assert!(!printed.to_lowercase().contains("fail"), "{printed}");
    assert_eq!(leases(lab.router())?, Vec::<Value>::new());
    assert!(seen_by(outside, address, 9000).is_err());
    lab.scenario.end()
}

#[test]
fn pcp_opens_ports_up_to_the_limit_of_the_host() -> Result<()> {
    let lab = Lab::begin(&policy(), &[])?;
    let (inside, outside) = (lab.host("host-a"), lab.host("host-b"));
    let (result, lifetime, address, port) = pcp(inside, (PORT, 9000), 1_000, 1)?;
    assert_eq!((result, lifetime, port), (0, 1_000, 9000));
    assert_eq!(seen_by(outside, &address, port)?.0.to_string(), "198.18.2.2");
    // Another nonce changes nothing.
    assert_eq!(pcp(inside, (PORT, 0), 0, 2)?.0, 2);
    seen_by(outside, &address, port)?;
    for more in [1, 2] {
        assert_eq!(pcp(inside, (PORT + more, 0), 1_000, 1)?.0, 0);
    }
    assert_eq!(pcp(inside, (PORT + 3, 0), 1_000, 1)?.0, 10, "USER_EX_QUOTA");
    let metrics = lab.router().call(&["show", "metrics"])?.stdout;
    for line in [
        "stoa_nat44_port_control_answers_total{protocol=\"pcp\",result=\"USER_EX_QUOTA\"} 1",
        "stoa_nat44_leases 3.0",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let state = lab.router().json(&["show", "state", "/ietf-nat:nat"])?;
    let server = &state["ietf-nat:nat"]["stoa-nat:port-control"];
    assert_eq!(server["active-leases"], json!("3"), "{state}");
    assert_eq!(pcp(inside, (PORT, 0), 0, 1)?.0, 0);
    assert!(seen_by(outside, &address, port).is_err());
    lab.scenario.end()
}
