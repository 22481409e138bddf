//! SIP through its gateway: calls of SIPp over UDP, with recorded media that the other end sends back.

use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{
    Background, Configuration, Host, Result, Router, Scratch, Tool, Topology, stoa_binary,
    wait_until,
};
use stoa_scenarios::{Scenario, side};

/// Recorded audio, which comes with SIPp.
const AUDIO: &str = "/usr/share/sip-tester/g711a.pcap";

/// A message of the one who calls.
fn message(method: &str, number: u8, tag: &str, body: &str) -> String {
    let content = if body.is_empty() { "" } else { "Content-Type: application/sdp\n" };
    let retrans = if method == "ACK" { "" } else { " retrans=\"500\"" };
    format!(
        "<send{retrans}><![CDATA[\n\
         {method} sip:[service]@[remote_ip]:[remote_port] SIP/2.0\n\
         Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch];rport\n\
         From: caller <sip:caller@[local_ip]:[local_port]>;tag=[pid]a[call_number]\n\
         To: [service] <sip:[service]@[remote_ip]:[remote_port]>{tag}\n\
         Call-ID: [call_id]\n\
         CSeq: {number} {method}\n\
         Contact: <sip:caller@[local_ip]:[local_port]>\n\
         Max-Forwards: 70\n\
         {content}Content-Length: [len]\n\n{body}]]></send>\n"
    )
}

/// A call that sends audio for a while, and hangs up.
fn call() -> String {
    let body = "v=0\no=caller 1 1 IN IP[local_ip_type] [local_ip]\ns=-\n\
                c=IN IP[media_ip_type] [media_ip]\nt=0 0\nm=audio [media_port] RTP/AVP 8\n\
                a=rtpmap:8 PCMA/8000\n";
    format!(
        "<?xml version=\"1.0\" encoding=\"ISO-8859-1\" ?>\n<scenario name=\"call\">\n{}\
         <recv response=\"100\" optional=\"true\"></recv>\n\
         <recv response=\"180\" optional=\"true\"></recv>\n\
         <recv response=\"200\"></recv>\n{}\
         <nop><action><exec play_pcap_audio=\"{AUDIO}\"/></action></nop>\n\
         <pause milliseconds=\"1500\"/>\n{}<recv response=\"200\"></recv>\n</scenario>\n",
        message("INVITE", 1, "", body),
        message("ACK", 1, "[peer_tag_param]", ""),
        message("BYE", 2, "[peer_tag_param]", "")
    )
}

/// host-a is inside, host-b outside. Both take calls, and send media back.
struct Lab {
    scenario: Scenario,
    configuration: Value,
    files: Scratch,
    _servers: [Background; 2],
}

/// Takes calls at port 5060, with media at port 7000.
fn server(host: &Host) -> Result<Background> {
    let address = host.address(false)?.to_string();
    let arguments = [
        "-sn",
        "uas",
        "-i",
        &address,
        "-p",
        "5060",
        "-mi",
        &address,
        "-mp",
        "7000",
        "-rtp_echo",
        "-nostdin",
    ];
    let server = host.command(Tool::SIPP)?.args(arguments).spawn()?;
    wait_until("the server listens", Duration::from_secs(20), || {
        let program = "print(open('/proc/net/udp').read())";
        let command = host.command(Tool::PYTHON).map_err(|error| error.to_string())?;
        let printed = command.args(["-c", program]).run().map_err(|error| error.to_string())?;
        if printed.stdout.contains(":13C4 ") { Ok(()) } else { Err(server.log()) }
    })?;
    Ok(server)
}

impl Lab {
    fn begin(acls: Option<Value>, nat: Option<Value>) -> Result<Self> {
        let sides = [side("host-a", 1)?, side("host-b", 2)?];
        let topology = Topology::new(&sides)?;
        let mut configuration = Configuration::new(&sides).json();
        for (module, part) in [("ietf-access-control-list:acls", acls), ("ietf-nat:nat", nat)] {
            if let Some(part) = part {
                configuration[module] = part;
            }
        }
        let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
        router.wait_up(&["host-a", "host-b"])?;
        let files = Scratch::new()?;
        files.write("call.xml", call())?;
        let servers = [server(topology.host("host-a"))?, server(topology.host("host-b"))?];
        let scenario = Scenario { router, topology };
        Ok(Self { scenario, configuration, files, _servers: servers })
    }

    fn reload(&mut self, module: &str, part: Value) -> Result<()> {
        self.configuration[module] = part;
        let output = self.scenario.router.reload(&self.configuration)?;
        assert!(output.success(), "{}{}", output.stdout, output.stderr);
        Ok(())
    }

    /// Calls a host from another one; whether the call succeeds.
    fn call(&self, from: &str, to: &str, port: u16) -> Result<bool> {
        let host = self.scenario.host(from);
        let address = host.address(false)?.to_string();
        let file = self.files.file("call.xml").display().to_string();
        let (to, port) = (format!("{to}:5060"), port.to_string());
        let arguments = [
            &to,
            "-sf",
            &file,
            "-i",
            &address,
            "-p",
            &port,
            "-mi",
            &address,
            "-mp",
            "6000",
            "-m",
            "1",
            "-nostdin",
            "-timeout",
            "8s",
            "-timeout_error",
        ];
        Ok(host.command(Tool::SIPP)?.args(arguments).run()?.success())
    }

    /// The flow of audio: packets there and back, and its external port.
    fn audio(&self) -> Result<(bool, bool, u64)> {
        let shown = ["show", "flows", "--protocol", "udp", "--json"];
        let shown = self.scenario.router.json(&shown)?;
        let ports = |it: &Value| [it["source_port"].as_u64(), it["destination_port"].as_u64()];
        let all = shown["flows"].as_array().cloned().unwrap_or_default();
        let audio = all
            .iter()
            .find(|it| ports(it).iter().flatten().all(|port| [6000, 7000].contains(port)));
        let audio = audio.unwrap_or_else(|| panic!("{shown}"));
        let packets = |name: &str| audio[name].as_u64() > Some(20);
        let port = audio["translated_source_port"].as_u64().unwrap_or(0);
        Ok((packets("packets"), packets("reply_packets"), port))
    }
}

const MODULE: &str = "ietf-access-control-list";

/// Hosts inside may use SIP, and nothing else passes.
fn lists(has_alg: bool) -> Value {
    let mut actions =
        json!({ "forwarding": format!("{MODULE}:accept"), "stoa-acl:stateful": true });
    if has_alg {
        actions["stoa-acl:alg"] = json!("sip");
    }
    let rule = json!({
        "name": "sip",
        "matches": { "udp": { "destination-port": { "operator": "eq", "port": 5060 } } },
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
    let algs = json!([{ "name": "sip", "transport-protocol": 17 }]);
    let forward = json!({
        "index": 1, "type": "static", "transport-protocol": 17,
        "internal-src-address": "198.18.1.2/32",
        "internal-src-port": { "start-port-number": 5060 },
        "external-src-address": "198.18.2.1/32",
        "external-src-port": { "start-port-number": 5060 },
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
fn rules_let_media_in() -> Result<()> {
    let mut lab = Lab::begin(Some(lists(true)), None)?;
    assert!(lab.call("host-a", "198.18.2.2", 5062)?);
    assert_eq!(lab.audio()?, (true, true, 0));
    let shown = lab.scenario.router.json(&["show", "flows", "--summary", "--json"])?;
    assert_eq!(shown["algs"]["begun"], 1, "{shown}");
    // Without a gateway, signalling passes, and no media.
    lab.reload("ietf-access-control-list:acls", lists(false))?;
    assert!(lab.scenario.router.call(&["clear", "flows"])?.success());
    assert!(lab.call("host-a", "198.18.2.2", 5063)?);
    let shown = ["show", "flows", "--summary", "--json"];
    let shown = lab.scenario.router.json(&shown)?;
    assert_eq!(shown["algs"]["begun"], 1, "{shown}");
    lab.scenario.end()
}

#[test]
fn calls_are_translated() -> Result<()> {
    let mut lab = Lab::begin(None, Some(nat(true)))?;
    assert!(lab.call("host-a", "198.18.2.2", 5062)?);
    assert_eq!(lab.audio()?, (true, true, 6000));
    assert!(lab.scenario.router.call(&["clear", "flows"])?.success());
    // To the server inside, by the address of the router: without a gateway, it announces its own address.
    assert!(lab.call("host-b", "198.18.2.1", 5062)?);
    let (there, back, _) = lab.audio()?;
    assert!(there && back);
    let shown = lab.scenario.router.json(&["show", "flows", "--summary", "--json"])?;
    assert!(shown["algs"]["begun"].as_u64() >= Some(2), "{shown}");
    assert!(shown["algs"]["edited"].as_u64() >= Some(6), "{shown}");
    lab.reload("ietf-nat:nat", nat(false))?;
    let edited = |lab: &Lab| -> Result<Value> {
        let shown = lab.scenario.router.json(&["show", "flows", "--summary", "--json"])?;
        Ok(shown["algs"]["edited"].clone())
    };
    let before = edited(&lab)?;
    lab.call("host-b", "198.18.2.1", 5063)?;
    assert_eq!(edited(&lab)?, before);
    lab.scenario.end()
}
