//! A port that a host has opened by NAT-PMP stays open when its router fails, and the host renews it at the other one.

use super::*;

const OPENED: &str = "9000";

/// Hosts behind host-a ask the address that both routers share.
fn configured(number: usize, priority: u8) -> Result<Value> {
    let mut whole = configuration(number, priority, SECRET)?;
    let interfaces = whole["ietf-interfaces:interfaces"]["interface"].as_array_mut();
    let inside = interfaces.into_iter().flatten().find(|it| it["name"] == "host-a");
    let inside = inside.expect("it is configured");
    inside["ietf-ip:ipv4"]["ietf-vrrp:vrrp"]["vrrp-instance"][0]["accept-mode"] = json!(true);
    let policy = &mut whole["ietf-nat:nat"]["instances"]["instance"][0]["policy"][0];
    policy["stoa-nat:port-control"] = json!({ "interface": ["host-a"] });
    // Zones let nobody in.
    whole.as_object_mut().expect("an object").remove("ietf-access-control-list:acls");
    Ok(whole)
}

/// What natpmpc of the client prints about its port.
fn natpmpc(lab: &Lab, public: &str, lifetime: &str) -> Result<String> {
    let port = PORT.to_string();
    let arguments = ["-g", GATEWAYS[0], "-a", public, &port, "tcp", lifetime];
    let output = lab.client.command(Tool::NATPMPC)?.args(arguments).run()?;
    Ok(format!("{}{}", output.stdout, output.stderr))
}

/// External ports and seconds left of all leases of a router.
fn leases(router: &Router) -> Result<Vec<(u64, u64)>> {
    let shown = router.json(&["show", "nat", "mappings", "--json"])?;
    let all = shown["mappings"].as_array().cloned().unwrap_or_default();
    let of = |it: &Value| {
        let lease = it["leases"].as_array()?.first()?;
        Some((it["external_port"].as_u64()?, lease["left_s"].as_u64()?))
    };
    Ok(all.iter().filter_map(of).collect())
}

/// Waits until a connection of the server to the opened port is answered.
fn wait_answer(lab: &Lab, address: &str) -> Result<()> {
    let program = "\
        import socket, sys\n\
        client = socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)\n\
        client.settimeout(2)\n\
        client.sendall(b'hello')\n\
        assert client.recv(9) == b'hello'\n";
    wait_until("the port answers", PATIENCE, || {
        let run = || lab.server.command(Tool::PYTHON)?.args(["-c", program, address, OPENED]).run();
        let output = run().map_err(|error| error.to_string())?;
        if output.success() { Ok(()) } else { Err(output.stderr) }
    })
}

#[test]
fn an_opened_port_survives_a_fail_over() -> Result<()> {
    let mut lab = Lab::new()?;
    lab.start(0, &configured(0, 150)?)?;
    lab.wait_for(0, "master")?;
    lab.start(1, &configured(1, 100)?)?;
    lab.wait_for(1, "backup")?;
    lab.wait_sync(0, "both are in sync", is_in_sync)?;
    let (done, port) = (lab.scratch.file("done"), PORT.to_string());
    let done = done.to_string_lossy();
    let inside = lab.client.command(Tool::PYTHON)?.args(["-c", SERVER, &port, &done]).spawn()?;
    inside.wait_for("ready", PATIENCE)?;
    let printed = natpmpc(&lab, OPENED, "600")?;
    let address = printed.lines().find_map(|line| line.strip_prefix("Public IP address : "));
    let address = address.unwrap_or_else(|| panic!("{printed}")).trim();
    lab.wait_sync(1, "the partner has the lease", |it| it["created_leases"] == 1)?;
    let outside = lab.server.command(Tool::PYTHON)?;
    let outside = outside.args(["-c", IDLE, address, OPENED, &done]).spawn()?;
    outside.wait_for("open", PATIENCE)?;
    lab.wait_sync(1, "the partner has the flow", |it| it["created_flows"] == 1)?;

    // The first router dies: the port is open at the other one, before the host asks there.
    lab.kill(0)?;
    lab.wait_for(1, "master")?;
    wait_answer(&lab, address)?;
    let held = leases(lab.router(1))?;
    assert!(held.len() == 1 && held[0].0 == 9_000 && held[0].1 <= 600, "{held:?}");
    // It renews its lease there.
    let printed = natpmpc(&lab, OPENED, "3000")?;
    let expected = format!("Mapped public port {OPENED} protocol TCP to local port {PORT}");
    assert!(printed.contains(&expected), "{printed}");
    let held = leases(lab.router(1))?;
    assert!(held.len() == 1 && held[0].1 > 600, "{held:?}");

    // The first one comes back without leases, and gets it.
    lab.start(0, &configured(0, 50)?)?;
    lab.wait_for(0, "backup")?;
    lab.wait_sync(0, "it has the lease", |it| it["created_leases"] == 1)?;
    assert_eq!(leases(lab.router(0))?.len(), 1);
    std::fs::write(&*done, "").expect("a scratch file");
    outside.wait_for("echo", PATIENCE)?;
    // What the host ends at one router ends at both.
    let printed = natpmpc(&lab, "0", "0")?;
    assert!(!printed.to_lowercase().contains("fail"), "{printed}");
    lab.wait_sync(0, "the lease has ended", |it| it["ended_leases"] == 1)?;
    assert_eq!((leases(lab.router(0))?, leases(lab.router(1))?), (vec![], vec![]));
    Ok(())
}
