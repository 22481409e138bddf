//! Flow records at the collectors that people use: nfcapd, nfacctd, tshark, over UDP and TCP. All of them count what
//! the interfaces have received.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::measure::{Load, iperf, ping};
use stoa_lab::{Background, Configuration, Result, Router, Scratch, Tool, wait_until};
use stoa_scenarios::{Scenario, two_sides};

const DEADLINE: Duration = Duration::from_secs(20);
const NFCAPD: u16 = 4739;
const NFACCTD: u16 = 4740;
const TCP: u16 = 4741;
/// What nfcapd writes: nfdump reads all files of a folder.
const FOLDER: &str = "nfcapd";
/// Bytes of the header of a frame, and of ARP behind it.
const ETHERNET: u64 = 14;
const ARP: u64 = 28;

/// A list that follows all flows, at both interfaces.
fn follow_all() -> Value {
    let ace =
        json!({ "name": "all", "actions": { "forwarding": "accept", "stoa-acl:stateful": true } });
    let attached = |name: &str| json!({ "interface-id": name, "ingress": { "acl-sets": { "acl-set": [{ "name": "log" }] } } });
    json!({
        "acl": [{ "name": "log", "aces": { "ace": [ace] } }],
        "attachment-points": { "interface": [attached("host-a"), attached("host-b")] },
    })
}

fn collector(name: &str, port: u16, transport: &str) -> Value {
    json!({ "name": name, "address": "127.0.0.1", "port": port, "transport": transport })
}

fn export(biflow: bool) -> Value {
    json!({
        "collector": [
            collector("nfcapd", NFCAPD, "udp"),
            collector("nfacctd", NFACCTD, "udp"),
            collector("tcp", TCP, "tcp"),
        ],
        "biflow": biflow,
        // Records in the middle of flows, too.
        "active-timeout": 1,
    })
}

/// Takes connections and what comes by them, and says so.
const SINK: &str = "import socket, sys\n\
    it = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n\
    print('ready', flush=True)\n\
    while True:\n\
    \x20   peer, _ = it.accept()\n\
    \x20   while peer.recv(65536): pass\n";

/// Packets and bytes.
type Sum = (u64, u64);

/// The collectors, in the namespace of the router, and what they write.
struct Collectors {
    scratch: Scratch,
    nfcapd: Background,
    nfacctd: Background,
    tshark: Background,
    _sink: Background,
}

impl Collectors {
    fn start(scenario: &Scenario) -> Result<Self> {
        let scratch = Scratch::new()?;
        let command = |tool| scenario.topology.router().command(tool);
        let file = |name: &str| scratch.file(name).display().to_string();
        let (capture, folder) = (file("capture.pcap"), file(FOLDER));
        std::fs::create_dir(&folder).expect("a folder");
        // It writes with its own user.
        let arguments = ["-q", "-i", "lo", "-w", &capture, "-f", "port 4739 or port 4741"];
        let tshark = command(Tool::TSHARK)?.args(arguments).spawn()?;
        let port = NFCAPD.to_string();
        let arguments = ["-w", &folder, "-b", "127.0.0.1", "-p", &port];
        let nfcapd = command(Tool::NFCAPD)?.args(arguments).spawn()?;
        let settings = format!(
            "daemonize: false\nnfacctd_port: {NFACCTD}\nnfacctd_ip: 127.0.0.1\nplugins: print\n\
             aggregate: src_host, dst_host, src_port, dst_port, proto\nprint_output: json\n\
             print_output_file: {}\nprint_output_file_append: true\nprint_refresh_time: 1\n",
            file("nfacctd.json")
        );
        let settings = scratch.write("nfacctd.conf", settings)?.display().to_string();
        let nfacctd = command(Tool::NFACCTD)?.args(["-f", &settings]).spawn()?;
        let sink = command(Tool::PYTHON)?.args(["-c", SINK, &TCP.to_string()]).spawn()?;
        tshark.wait_for("Capturing on", DEADLINE)?;
        nfcapd.wait_for("Startup", DEADLINE)?;
        nfacctd.wait_for("waiting for NetFlow/IPFIX data", DEADLINE)?;
        sink.wait_for("ready", DEADLINE)?;
        // It ignores the first message, whatever that is.
        let once = format!(
            "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {NFACCTD}))"
        );
        command(Tool::PYTHON)?.args(["-c", &once]).run()?.ok()?;
        Ok(Self { scratch, nfcapd, nfacctd, tshark, _sink: sink })
    }

    /// What nfacctd has counted.
    fn of_nfacctd(&self) -> Sum {
        let text = std::fs::read_to_string(self.scratch.file("nfacctd.json")).unwrap_or_default();
        let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        rows.fold((0, 0), |sum, row| {
            let of = |name: &str| row[name].as_u64().unwrap_or(0);
            (sum.0 + of("packets"), sum.1 + of("bytes"))
        })
    }

    /// Ends them; what nfdump and tshark read of what they have written: by nfdump, over UDP, over TCP.
    fn end(self) -> Result<[Sum; 3]> {
        self.nfacctd.kill();
        let (_, log, _) = self.tshark.stop()?;
        let (out, more, _) = self.nfcapd.stop()?;
        let log = format!("{log}{out}{more}");
        // nfcapd does not count records of statistics, and takes those for sequence errors.
        assert!(log.contains("Bad Packets: 0"), "{log}");
        let capture = self.scratch.file("capture.pcap");
        let udp = of_tshark(&capture, "udp", NFCAPD)?;
        let tcp = of_tshark(&capture, "tcp", TCP)?;
        Ok([of_nfdump(&self.scratch.file(FOLDER))?, udp, tcp])
    }
}

/// What nfdump reads in a folder.
fn of_nfdump(folder: &Path) -> Result<Sum> {
    let folder = folder.display().to_string();
    let arguments = ["-R", &folder, "-o", "json", "-q"];
    let printed = stoa_lab::Command::tool(Tool::NFDUMP)?.args(arguments).run()?.ok()?.stdout;
    // Its rows have commas between them, and no brackets around them.
    let rows: Vec<Value> = serde_json::from_str(&format!("[{printed}]"))
        .unwrap_or_else(|error| panic!("{error}: {printed}"));
    Ok(rows.iter().fold((0, 0), |sum, row| {
        let of = |names: [&str; 2]| -> u64 {
            names.iter().map(|name| row[*name].as_u64().unwrap_or(0)).sum()
        };
        (sum.0 + of(["in_packets", "out_packets"]), sum.1 + of(["in_bytes", "out_bytes"]))
    }))
}

/// What tshark reads of the messages to a port. None of them is malformed.
fn of_tshark(capture: &Path, transport: &str, port: u16) -> Result<Sum> {
    let file = capture.display().to_string();
    let decode = format!("{transport}.port=={port},cflow");
    let read = |filter: &str, fields: &[&str]| -> Result<String> {
        let mut arguments = vec!["-r", &file, "-d", &decode, "-Y", filter, "-T", "fields"];
        fields.iter().for_each(|field| arguments.extend(["-e", *field]));
        Ok(stoa_lab::Command::tool(Tool::TSHARK)?.args(arguments).run()?.ok()?.stdout)
    };
    let of_port = format!("cflow && {transport}.dstport=={port}");
    let wrong = read(&format!("{of_port} && _ws.malformed"), &["frame.number"])?;
    assert_eq!(wrong, "", "malformed messages");
    let printed = read(&of_port, &["cflow.packets", "cflow.octets"])?;
    let sum = |column: usize| -> u64 {
        let numbers = printed.lines().filter_map(|line| line.split('\t').nth(column));
        numbers.flat_map(|it| it.split(',')).filter_map(|it| it.parse::<u64>().ok()).sum()
    };
    Ok((sum(0), sum(1)))
}

/// IP packets that the interfaces have received, and their bytes.
fn received(router: &Router) -> Result<Sum> {
    let all = router.interfaces()?;
    let arp = router.node_packets("arp-input")?;
    let (packets, bytes) =
        all.iter().fold((0, 0), |sum, it| (sum.0 + it.rx_packets, sum.1 + it.rx_bytes));
    Ok((packets - arp, bytes - ETHERNET * packets - ARP * arp))
}

/// What a collector has, in `stoa show ipfix --json`.
fn state_of(router: &Router, name: &str) -> Result<Value> {
    let shown = router.show("ipfix")?;
    let mut all = shown["collectors"].as_array().cloned().unwrap_or_default().into_iter();
    Ok(all.find(|it| it["name"] == name).unwrap_or_default())
}

#[test]
fn all_collectors_count_what_interfaces_receive() -> Result<()> {
    let sides = two_sides(&[])?;
    let mut configuration = Configuration::new(&sides).json();
    configuration["ietf-access-control-list:acls"] = follow_all();
    let scenario = Scenario::begin(&sides)?;
    let router = &scenario.router;
    let [a, b] = ["host-a", "host-b"].map(|name| scenario.host(name));
    // Neighbors are resolved, and nothing of that is counted.
    assert!(ping(a, b.address(false)?, 1, &[])?.all());
    for biflow in [false, true] {
        let collectors = Collectors::start(&scenario)?;
        let mut exporting = configuration.clone();
        exporting["stoa-ipfix:ipfix"] = export(biflow);
        let before = received(router)?;
        let output = router.reload(&exporting)?;
        assert!(output.success(), "{}{}", output.stdout, output.stderr);
        wait_until("the TCP collector is connected", DEADLINE, || {
            let state = state_of(router, "tcp").map_err(|error| error.to_string())?;
            if state["state"] == "connected" { Ok(()) } else { Err(state.to_string()) }
        })?;
        assert!(ping(a, b.address(false)?, 3, &[])?.all());
        wait_until("a flow that goes on is reported", DEADLINE, || {
            let state = router.show("ipfix").map_err(|error| error.to_string())?;
            if state["flow_records"].as_u64() > Some(0) { Ok(()) } else { Err(state.to_string()) }
        })?;
        iperf(a, b, false, Load::Udp { bits_per_second: 2_000_000 }, 1)?;
        iperf(a, b, false, Load::Tcp, 1)?;
        // The end of the export has all flows reported.
        let counts = router.show("ipfix")?;
        assert_eq!(counts["lost_records"], 0, "{counts}");
        let output = router.reload(&configuration)?;
        assert!(output.success(), "{}{}", output.stdout, output.stderr);
        let after = received(router)?;
        let expected = (after.0 - before.0, after.1 - before.1);
        assert!(expected.0 > 100, "{expected:?}");
        if !biflow {
            wait_until("nfacctd has all", DEADLINE, || {
                let sum = collectors.of_nfacctd();
                if sum == expected { Ok(()) } else { Err(format!("{sum:?} of {expected:?}")) }
            })?;
        }
        // What tshark has not written yet is lost when it ends.
        let written = collectors.scratch.file("capture.pcap");
        wait_until("tshark has all", DEADLINE, || {
            let sum = of_tshark(&written, "tcp", TCP).map_err(|error| error.to_string())?;
            if biflow || sum == expected { Ok(()) } else { Err(format!("{sum:?}")) }
        })?;
        let [nfdump, udp, tcp] = collectors.end()?;
        assert_eq!(nfdump, expected, "nfdump, biflow: {biflow}");
        if !biflow {
            // tshark names the elements of replies otherwise.
            assert_eq!((udp, tcp), (expected, expected), "tshark");
        }
        // An export that begins anew would report them from their begin on.
        router.call(&["clear", "flows"])?.ok()?;
    }
    scenario.end()
}
