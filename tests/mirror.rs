//! Mirrors: programs in a namespace of the router itself speak through it, with untagged hosts and in a VLAN, and a
//! forwarder that is killed takes none of their connections along.

use std::time::Duration;

use serde_json::json;
use stoa_lab::{
    Command, Configuration, Namespace, Result, Router, Tag, Tool, Topology, stoa_binary, wait_until,
};
use stoa_scenarios::{Story, two_sides};

/// A router with a mirror of each interface in a namespace for its own programs.
fn begin() -> Result<(Story, Namespace)> {
    let sides = two_sides(&[Tag::customer(100)])?;
    let topology = Topology::new(&sides)?;
    let local = Namespace::new("local")?;
    let mut configuration = Configuration::new(&sides).json();
    let list = configuration["ietf-interfaces:interfaces"]["interface"].as_array_mut();
    for interface in list.into_iter().flatten() {
        interface["stoa-mirror:mirror"] = json!({ "netns": local.name() });
    }
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    router.wait_up(&["host-a", "host-b"])?;
    wait_until("the mirrors have their addresses", Duration::from_secs(20), || {
        let shown = local.ip(&["addr", "show"]).map_err(|error| error.to_string())?;
        let wanted = ["198.18.1.1/24", "198.18.2.1/24", "2001:db8:1::1/64", "2001:db8:2::1/64"];
        if wanted.iter().all(|address| shown.contains(address)) { Ok(()) } else { Err(shown) }
    })?;
    Ok((Story { router, topology }, local))
}

fn ping(from: &Namespace, to: &str) -> Result<()> {
    let arguments = ["-n", "-c", "3", "-i", "0.2", "-W", "3", to];
    let output =
        from.command(Tool::PING)?.args(arguments).deadline(Duration::from_secs(30)).run()?;
    assert!(output.success(), "{to}: {}", output.stdout);
    Ok(())
}

const SERVER: &str = "
import socket, threading
def serve(one):
    while True:
        got = one.recv(4096)
        if not got: return
        one.sendall(got)
server = socket.create_server(('::', 7000), family=socket.AF_INET6, dualstack_ipv6=True)
print('listening', flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
";

const CLIENT: &str = "
import socket, sys, time
one = socket.create_connection((sys.argv[1], 7000), timeout=15)
for number in range(int(sys.argv[2])):
    one.sendall(b'x')
    assert one.recv(1) == b'x'
    print('echo', number, flush=True)
    time.sleep(0.05)
print('done')
";

#[test]
fn programs_of_the_router_speak_through_it() -> Result<()> {
    let (story, local) = begin()?;
    for to in ["198.18.1.2", "198.18.2.2", "2001:db8:1::2", "2001:db8:2::2"] {
        ping(&local, to)?;
    }
    let server = local.command(Tool::PYTHON)?.args(["-c", SERVER]).spawn()?;
    server.wait_for("listening", Duration::from_secs(10))?;
    for (host, addresses) in
        [("host-a", ["198.18.1.1", "2001:db8:1::1"]), ("host-b", ["198.18.2.1", "2001:db8:2::1"])]
    {
        let host = story.host(host);
        for address in addresses {
            ping(host.namespace(), address)?;
            let client = host.command(Tool::PYTHON)?.args(["-c", CLIENT, address, "3"]);
            let output = client.deadline(Duration::from_secs(30)).run()?;
            assert!(output.stdout.contains("done"), "{address}: {}", output.stderr);
        }
    }
    let iperf = local.command(Tool::IPERF3)?.args(["-s", "-1", "--forceflush"]).spawn()?;
    iperf.wait_for("listening", Duration::from_secs(10))?;
    let client = story.host("host-a").command(Tool::IPERF3)?.args(["-c", "198.18.1.1", "-t", "1"]);
    let output = client.deadline(Duration::from_secs(30)).run()?;
    assert!(output.success(), "{}", output.stdout);
    println!("{}", output.stdout);
    // What passes between the hosts is no business of Linux.
    story.hosts_reach_each_other()?;
    story.end()?;
    let left = local.ip(&["link", "show"])?;
    assert!(!left.contains("host-"), "the mirrors go with the router: {left}");
    Ok(())
}

#[test]
fn a_connection_outlives_the_forwarder() -> Result<()> {
    let (story, local) = begin()?;
    let server = local.command(Tool::PYTHON)?.args(["-c", SERVER]).spawn()?;
    server.wait_for("listening", Duration::from_secs(10))?;
    let host = story.host("host-b");
    let client = host.command(Tool::PYTHON)?.args(["-c", CLIENT, "198.18.2.1", "60"]).spawn()?;
    client.wait_for("echo 5\n", Duration::from_secs(10))?;
    let pid = story.router.status()?["forwarder_pid"].as_u64().unwrap_or(0);
    assert_ne!(pid, 0);
    Command::program("/bin/kill").args(["-KILL", &pid.to_string()]).run()?.ok()?;
    let (stdout, stderr, _) = client.finish(Duration::from_secs(30))?;
    assert!(stdout.contains("done"), "{stdout}\n{stderr}");
    ping(&local, "198.18.1.2")?;
    story.end()
}
