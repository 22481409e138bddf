//! A TAP port: the router creates the device in another namespace, which communicates with a host on a veth pair.

use std::time::Duration;

use serde_json::json;
use stoa_lab::{
    Configuration, Namespace, Output, Result, Router, Tool, Topology, stoa_binary, wait_until,
};
use stoa_scenarios::{Scenario, side};

fn call(host: &Namespace, tool: Tool, arguments: &[&str]) -> Result<Output> {
    host.command(tool)?.args(arguments).deadline(Duration::from_secs(30)).run()
}

#[test]
fn a_host_on_a_tap_and_a_host_on_a_veth() -> Result<()> {
    let sides = [side("host-a", 1)?];
    let topology = Topology::new(&sides)?;
    let host = Namespace::new("host-t")?;
    let driver = json!({ "tap": { "device": "tap0", "netns": host.name() } });
    let addresses =
        ["198.18.4.1/24", "2001:db8:4::1/64"].map(|text| text.parse().expect("an address"));
    let configuration =
        Configuration::new(&sides).port("host-t", driver).addresses("host-t", &addresses);
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration.json())?;
    let scenario = Scenario { router, topology };
    host.ip(&["link", "set", "tap0", "up"])?;
    for (address, family, via) in
        [("198.18.4.2/24", "-4", "198.18.4.1"), ("2001:db8:4::2/64", "-6", "2001:db8:4::1")]
    {
        host.ip(&["addr", "add", address, "dev", "tap0"])?;
        host.ip(&[family, "route", "add", "default", "via", via])?;
    }
    wait_until("the tap is up", Duration::from_secs(5), || {
        let list = scenario.router.interfaces().map_err(|error| error.to_string())?;
        let up = list.iter().any(|one| one.name == "host-t" && one.up);
        if up { Ok(()) } else { Err(format!("{list:?}")) }
    })?;
    let a = scenario.host("host-a");
    for to in ["198.18.4.1", "2001:db8:4::1", "198.18.1.2", "2001:db8:1::2"] {
        let output = call(&host, Tool::PING, &["-n", "-c", "2", "-i", "0.2", "-W", "2", to])?;
        assert!(output.success(), "from the tap to {to}: {}", output.stdout);
    }
    for to in ["198.18.4.2", "2001:db8:4::2"] {
        let output =
            call(a.namespace(), Tool::PING, &["-n", "-c", "2", "-i", "0.2", "-W", "2", to])?;
        assert!(output.success(), "from the veth to {to}: {}", output.stdout);
    }
    let server = host.command(Tool::IPERF3)?.args(["-s", "-1", "--forceflush"]).spawn()?;
    server.wait_for("listening", Duration::from_secs(10))?;
    let output = call(a.namespace(), Tool::IPERF3, &["-c", "198.18.4.2", "-t", "1"])?;
    assert!(output.success(), "{}", output.stdout);
    println!("{}", output.stdout);
    scenario.end()?;
    // The router removes its device.
    assert!(host.ip(&["link", "show", "dev", "tap0"]).is_err());
    Ok(())
}
