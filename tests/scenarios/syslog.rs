//! rsyslogd receives the log by UDP, TCP and its Unix socket: every message once and complete, including those logged
//! while it was killed.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use stoa_lab::{
    Background, Command, LabError, Result, Router, Scratch, Tool, stoa_binary, wait_until,
};

const DEADLINE: Duration = Duration::from_secs(40);
/// Sockets of syslog servers that a configuration may name.
const SOCKETS: &str = "/run/stoa/log";
/// The controller's message for each reload, which has an increasing number.
const COMMITTED: &str = "committed";

/// rsyslogd with a file for each input.
struct Receiver {
    scratch: Scratch,
    ports: [u16; 2],
}

impl Receiver {
    fn new() -> Result<Self> {
        let port = || -> Result<u16> {
            let system = |error| LabError::system("a free port", error);
            let socket = UdpSocket::bind("127.0.0.1:0").map_err(system)?;
            Ok(socket.local_addr().map_err(system)?.port())
        };
        Ok(Self { scratch: Scratch::new()?, ports: [port()?, port()?] })
    }

    fn start(&self) -> Result<Background> {
        let folder = self.scratch.path().display();
        let [udp, tcp] = self.ports;
        let properties = ["pri", "app-name", "procid", "msgid", "structured-data", "msg"];
        let template: String = properties
            .iter()
            .map(|name| format!(" property(name=\"{name}\" outname=\"{name}\" format=\"jsonf\")\n"))
            .collect();
        let rule = |name: &str| {
            format!(
                "ruleset(name=\"{name}\") {{ action(type=\"omfile\" file=\"{folder}/{name}.log\" \
                 template=\"all\") }}\n"
            )
        };
        let text = format!(
            "global(workDirectory=\"{folder}\" maxMessageSize=\"16k\")\n\
             template(name=\"all\" type=\"list\" option.jsonf=\"on\") {{\n{template}}}\n\
             {}{}{}\
             module(load=\"imudp\")\n\
             input(type=\"imudp\" address=\"127.0.0.1\" port=\"{udp}\" ruleset=\"udp\")\n\
             module(load=\"imtcp\")\n\
             input(type=\"imtcp\" address=\"127.0.0.1\" port=\"{tcp}\" ruleset=\"tcp\")\n\
             module(load=\"imuxsock\" SysSock.Use=\"off\")\n\
             input(type=\"imuxsock\" socket=\"{}\" ruleset=\"unix\" \
             useSpecialParser=\"off\" rateLimit.interval=\"0\")\n",
            rule("udp"),
            rule("tcp"),
            rule("unix"),
            self.unix_socket().display(),
        );
        let file = self.scratch.write("rsyslog.conf", text)?.display().to_string();
        let pid = self.scratch.file("pid").display().to_string();
        let socket = self.unix_socket();
        std::fs::create_dir_all(SOCKETS).expect("the folder is created");
        let process =
            Command::tool(Tool::RSYSLOGD)?.args(["-n", "-f", &file, "-i", &pid]).spawn()?;
        let tcp = self.ports[1];
        wait_until("rsyslogd listens", DEADLINE, || {
            let listens =
                socket.exists() && std::net::TcpStream::connect(("127.0.0.1", tcp)).is_ok();
            if listens { Ok(()) } else { Err(process.log()) }
        })?;
        Ok(process)
    }

    /// A socket in a folder that configurations may name.
    fn unix_socket(&self) -> PathBuf {
        Path::new(SOCKETS).join(format!("{}.sock", std::process::id()))
    }

    /// Messages of one input.
    fn messages(&self, input: &str) -> Vec<Value> {
        let file = self.scratch.file(&format!("{input}.log"));
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let read = |line: &str| -> Value {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        whole.lines().map(read).collect()
    }

    /// The numbers of the reloads logged to one input, in order of arrival.
    fn commits(&self, input: &str) -> Vec<u64> {
        let messages = self.messages(input);
        let commits = messages.iter().filter(|it| it["msg"].as_str() == Some(COMMITTED));
        commits.filter_map(|message| field(message, "number")?.parse().ok()).collect()
    }
}

/// A parameter of the structured data.
fn field(message: &Value, name: &str) -> Option<String> {
    let data = message["structured-data"].as_str()?.strip_prefix("[stoa@32473 ")?;
    let value = data.split_once(&format!("{name}=\""))?.1;
    Some(value.split('"').next()?.to_owned())
}

fn configuration(receiver: &Receiver, routes: u8) -> Value {
    let [udp, tcp] = receiver.ports;
    let route = |number| {
        let prefix = format!("10.{number}.0.0/16");
        json!({ "destination-prefix": prefix, "next-hop": { "special-next-hop": "blackhole" } })
    };
    json!({
        "ietf-interfaces:interfaces": { "interface": [{
            "name": "lan", "type": "iana-if-type:ethernetCsmacd",
            "stoa-interfaces:port": { "null": {} },
        }] },
        "stoa-management:management": { "https": { "enabled": false } },
        "stoa-logging:logging": { "syslog": [
            { "name": "udp", "facility": "local4", "udp": { "address": "127.0.0.1", "port": udp } },
            { "name": "tcp", "facility": "local4", "tcp": { "address": "127.0.0.1", "port": tcp } },
            { "name": "unix", "unix-socket": receiver.unix_socket() },
        ] },
        "ietf-routing:routing": { "control-plane-protocols": { "control-plane-protocol": [{
            "type": "ietf-routing:static", "name": "main",
            "static-routes": { "ietf-ipv4-unicast-routing:ipv4": {
                "route": (0..routes).map(route).collect::<Vec<_>>(),
            } },
        }] } },
    })
}

#[test]
fn rsyslogd_receives_every_message_once_even_after_a_kill() -> Result<()> {
    let receiver = Receiver::new()?;
    let first = receiver.start()?;
    let router = Router::start(&stoa_binary()?, None, &configuration(&receiver, 1))?;
    let reload = |routes: u8| -> Result<()> {
        router.reload(&configuration(&receiver, routes))?.ok()?;
        Ok(())
    };
    // The startup configuration is number 1.
    let wait_for = |input: &str, last: u64| {
        let expected: Vec<u64> = (2..=last).collect();
        wait_until(&format!("{expected:?} received by {input}"), DEADLINE, || {
            let commits = receiver.commits(input);
            if commits == expected { Ok(()) } else { Err(format!("{commits:?}: {}", router.log())) }
        })
    };
    for routes in 2..=20 {
        reload(routes)?;
    }
    for input in ["udp", "tcp", "unix"] {
        wait_for(input, 20)?;
    }
    for (input, facility) in [("udp", 20), ("tcp", 20), ("unix", 3)] {
        for message in receiver.messages(input) {
            let priority = message["pri"].as_str().and_then(|it| it.parse::<u8>().ok());
            let severity = priority.map(|it| (it / 8, it % 8));
            assert!([Some((facility, 6)), Some((facility, 4))].contains(&severity), "{message}");
            let program = message["app-name"].as_str().unwrap_or_default();
            assert!(["stoa", "stoa-forwarder", "stoa-controller"].contains(&program), "{message}");
            let part = message["msgid"].as_str().unwrap_or_default();
            assert!(part.starts_with("stoa"), "{message}");
        }
    }

    // After a kill and a restart, messages logged in between arrive in order.
    kill(Pid::from_raw(first.pid().cast_signed()), Signal::SIGKILL).expect("our own process");
    wait_until("rsyslogd is gone", DEADLINE, || {
        if first.is_running() { Err(String::new()) } else { Ok(()) }
    })?;
    let _ = std::fs::remove_file(receiver.unix_socket());
    let _ = std::fs::remove_file(receiver.scratch.file("pid"));
    for routes in 21..=30 {
        reload(routes)?;
    }
    let second = receiver.start()?;
    for input in ["tcp", "unix"] {
        wait_for(input, 30)?;
    }
    // Over UDP, messages may be lost, but later ones arrive.
    let mut routes = 30;
    wait_until("UDP messages arrive again", DEADLINE, || {
        routes = 31 + (routes + 1) % 100;
        reload(routes).map_err(|error| error.to_string())?;
        let last = receiver.commits("udp").pop();
        if last > Some(30) { Ok(()) } else { Err(format!("{last:?}")) }
    })?;
    router.stop()?;
    drop(second);
    Ok(())
}
