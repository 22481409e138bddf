//! PPTP through its gateway: pptpd, and clients of pptp-linux. The kernel needs no PPP: in place of pppd, the server
//! has a program that sends frames back, and the clients a script that compares them.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{
    Background, Configuration, Host, LabError, Result, Router, Scratch, Tool, Topology,
    stoa_binary, wait_until,
};
use stoa_scenarios::{Scenario, side};

/// Sends every frame back. The server waits for the first byte of pppd.
const ECHO: &str = "#!/bin/sh\nstty raw -echo\nprintf '~'\nexec cat\n";

/// Begins a call, and sends frames with a text until each has come back. A call whose client ends by itself begins
/// again: pptpd answers before it listens for GRE, and a frame that comes between is refused by ICMP, which ends the
/// client. It has a folder `/run` of its own: clients of one server share a process otherwise.
const CLIENT: &str = r"
import ctypes, os, socket, subprocess, sys, time
def fcs(data):
    crc = 0xffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x8408 if crc & 1 else 0)
    return crc ^ 0xffff
def escaped(byte):
    return bytes([0x7d, byte ^ 0x20]) if byte in (0x7d, 0x7e) or byte < 0x20 else bytes([byte])
def frame(text):
    data = b'\xff\x03\xc0\x21' + text
    data += fcs(data).to_bytes(2, 'little')
    return b'\x7e' + b''.join(map(escaped, data)) + b'\x7e'
pptp, server, text, seconds = sys.argv[1], sys.argv[2], sys.argv[3].encode(), float(sys.argv[4])
if ctypes.CDLL(None, use_errno=True).unshare(0x20000):
    raise OSError(ctypes.get_errno(), 'unshare')
subprocess.run(['mount', '--make-rprivate', '/'], check=True)
subprocess.run(['mount', '-t', 'tmpfs', 'none', '/run'], check=True)
os.makedirs('/run/pptp')
def echoed(ours, number):
    got, end = b'', time.time() + seconds
    while time.time() < end:
        try:
            ours.send(frame(text + b'%d;' % number))
            got += ours.recv(4096)
        except TimeoutError:
            pass
        if text + b'%d;' % number in got:
            return True
    return False
def call():
    ours, theirs = socket.socketpair()
    arguments = [pptp, server, '--nolaunchpppd', '--nohostroute', '--loglevel', '0']
    child = subprocess.Popen(arguments, stdin=theirs, stdout=theirs)
    theirs.close()
    ours.settimeout(0.3)
    try:
        return sum(echoed(ours, number) for number in range(5))
    except OSError:
        return None
    finally:
        child.terminate()
        print('pptp has ended with', child.wait(), file=sys.stderr, flush=True)
        ours.close()
count, end = None, time.time() + seconds
while count is None and time.time() < end:
    count = call()
print(count or 0, 'echoed', flush=True)
";

/// host-a and host-c are inside, host-b outside. host-a and host-b have servers.
struct Lab {
    scenario: Scenario,
    configuration: Value,
    _servers: [Background; 2],
    _files: Scratch,
}

/// Begins pptpd of a host.
fn server(host: &Host, files: &Scratch) -> Result<Background> {
    let echo = files.write(&format!("{}.sh", host.label()), ECHO)?;
    std::fs::set_permissions(&echo, PermissionsExt::from_mode(0o755))
        .map_err(|error| LabError::system("make a program", error))?;
    let options = files.write("options", "")?;
    let pid = files.file(&format!("{}.pid", host.label()));
    let text = format!(
        "ppp {}\noption {}\nconnections 9\nlocalip 10.99.0.1\nremoteip 10.99.0.10-20\n",
        echo.display(),
        options.display()
    );
    let file = files.write(&format!("{}.conf", host.label()), text)?;
    let [file, options, pid] = [&file, &options, &pid].map(|it| it.display().to_string());
    let arguments = ["--fg", "--conf", &file, "--option", &options, "--pidfile", &pid];
    let server = host.command(Tool::PPTPD)?.args(arguments).spawn()?;
    wait_until("the server listens", Duration::from_secs(20), || {
        let program = "print(open('/proc/net/tcp').read())";
        let command = host.command(Tool::PYTHON).map_err(|error| error.to_string())?;
        let printed = command.args(["-c", program]).run().map_err(|error| error.to_string())?;
        if printed.stdout.contains(":06BB ") { Ok(()) } else { Err(server.log()) }
    })?;
    Ok(server)
}

impl Lab {
    fn begin(acls: Option<Value>, nat: Option<Value>) -> Result<Self> {
        let sides = [side("host-a", 1)?, side("host-b", 2)?, side("host-c", 3)?];
        let topology = Topology::new(&sides)?;
        let mut configuration = Configuration::new(&sides).json();
        for (module, part) in [("ietf-access-control-list:acls", acls), ("ietf-nat:nat", nat)] {
            if let Some(part) = part {
                configuration[module] = part;
            }
        }
        let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
        router.wait_up(&["host-a", "host-b", "host-c"])?;
        let files = Scratch::new()?;
        let servers =
            [server(topology.host("host-a"), &files)?, server(topology.host("host-b"), &files)?];
        let scenario = Scenario { router, topology };
        Ok(Self { scenario, configuration, _servers: servers, _files: files })
    }

    fn reload(&mut self, module: &str, part: Value) -> Result<()> {
        self.configuration[module] = part;
        let output = self.scenario.router.reload(&self.configuration)?;
        assert!(output.success(), "{}{}", output.stdout, output.stderr);
        Ok(())
    }

    /// A client that calls a server, and gives up a frame after so many seconds.
    fn call(&self, from: &str, server: &str, seconds: u8) -> Result<Background> {
        let pptp = Tool::PPTP.find()?.display().to_string();
        let command = self.scenario.host(from).command(Tool::PYTHON)?;
        let seconds = seconds.to_string();
        command.args(["-c", CLIENT, &pptp, server, from, &seconds]).spawn()
    }

    /// How many of five frames have come back to clients.
    fn echoed(&self, froms: &[&str], server: &str, seconds: u8) -> Result<Vec<String>> {
        let clients = froms.iter().map(|from| self.call(from, server, seconds));
        let clients = clients.collect::<Result<Vec<_>>>()?;
        let ended = clients.into_iter().map(|it| it.finish(Duration::from_secs(60)));
        ended
            .map(|it| {
                it.map(|(stdout, stderr, _)| {
                    print!("{stderr}");
                    stdout.trim().to_owned()
                })
            })
            .collect()
    }

    /// Waits until no call has a flow. Frames that were under way when their call ended go by their addresses, and
    /// begin a flow without ports: it would let other frames in, so it is removed.
    fn await_no_calls(&self) -> Result<()> {
        wait_until("calls have ended", Duration::from_secs(10), || {
            let shown = ["show", "flows", "--protocol", "gre", "--json"];
            let router = &self.scenario.router;
            let shown = router.json(&shown).map_err(|error| error.to_string())?;
            let flows = shown["flows"].as_array().ok_or_else(|| shown.to_string())?;
            if flows.is_empty() {
                return Ok(());
            }
            if flows.iter().all(|flow| flow["destination_port"] == 0) {
                let cleared = router.call(&["clear", "flows", "--protocol", "gre"]);
                cleared.map_err(|error| error.to_string())?;
            }
            Err(shown.to_string())
        })
    }
}

const MODULE: &str = "ietf-access-control-list";

/// Hosts inside may use PPTP, and nothing else passes.
fn lists(has_alg: bool) -> Value {
    let mut actions =
        json!({ "forwarding": format!("{MODULE}:accept"), "stoa-acl:stateful": true });
    if has_alg {
        actions["stoa-acl:alg"] = json!("pptp");
    }
    let rule = json!({
        "name": "pptp",
        "matches": { "tcp": { "destination-port": { "operator": "eq", "port": 1723 } } },
        "actions": actions,
    });
    let drop = json!({
        "name": "web",
        "matches": { "tcp": { "destination-port": { "port": 80 } } },
        "actions": { "forwarding": format!("{MODULE}:drop") },
    });
    let attach = |interface: &str, list: &str| {
        json!({
            "interface-id": interface,
            "ingress": { "acl-sets": { "acl-set": [{ "name": list }] } },
        })
    };
    json!({
        "acl": [
            { "name": "out", "aces": { "ace": [rule] } },
            { "name": "in", "aces": { "ace": [drop] } },
        ],
        "attachment-points": { "interface": [attach("host-a", "out"), attach("host-b", "in")] },
    })
}

/// A policy whose external interface is host-b, and the server of host-a behind its address.
fn nat(has_alg: bool) -> Value {
    let algs = json!([{ "name": "pptp", "transport-protocol": 6 }]);
    let forward = json!({
        "index": 1, "type": "static", "transport-protocol": 6,
        "internal-src-address": "198.18.1.2/32",
        "internal-src-port": { "start-port-number": 1723 },
        "external-src-address": "198.18.2.1/32",
        "external-src-port": { "start-port-number": 1723 },
    });
    json!({ "instances": { "instance": [{
        "id": 1,
        "policy": [{
            "id": 1,
            "external-realm": { "external-interface": "host-b" },
            "algs": if has_alg { algs } else { json!([]) },
        }],
        "mapping-table": { "mapping-entry": [forward] },
    }] } })
}

#[test]
fn rules_let_calls_in() -> Result<()> {
    let mut lab = Lab::begin(Some(lists(true)), None)?;
    assert_eq!(lab.echoed(&["host-a"], "198.18.2.2", 10)?, ["5 echoed"]);
    lab.await_no_calls()?;
    let shown = lab.scenario.router.json(&["show", "flows", "--summary", "--json"])?;
    assert!(shown["algs"]["begun"].as_u64() >= Some(2), "{shown}");
    // Without a gateway, only the control connection passes.
    lab.reload("ietf-access-control-list:acls", lists(false))?;
    assert_eq!(lab.echoed(&["host-a"], "198.18.2.2", 1)?, ["0 echoed"]);
    lab.scenario.end()
}

#[test]
fn calls_are_translated() -> Result<()> {
    let mut lab = Lab::begin(None, Some(nat(true)))?;
    // Two hosts behind one address, to one server.
    let echoed = lab.echoed(&["host-a", "host-c"], "198.18.2.2", 10)?;
    assert_eq!(echoed, ["5 echoed", "5 echoed"]);
    lab.await_no_calls()?;
    // The server inside, by the address of the router.
    assert_eq!(lab.echoed(&["host-b"], "198.18.2.1", 10)?, ["5 echoed"]);
    lab.await_no_calls()?;
    let shown = lab.scenario.router.json(&["show", "flows", "--summary", "--json"])?;
    assert!(shown["algs"]["begun"].as_u64() >= Some(6), "{shown}");
    // Without a gateway, one host can call at a time: GRE goes by its addresses.
    lab.reload("ietf-nat:nat", nat(false))?;
    assert_eq!(lab.echoed(&["host-b"], "198.18.2.1", 1)?, ["0 echoed"]);
    lab.scenario.end()
}
