//! unbound with the lines that the guide has for DNS64: a host with IPv6 alone asks for the name of an IPv4 server, and
//! reaches it.

use std::net::Ipv6Addr;
use std::path::Path;

use stoa_lab::{Command, Scratch};

use super::*;

const GUIDE: &str = include_str!("../../../docs/guide/nat64.md");
const NAME: &str = "server.example";

/// The recipe of the guide, whose prefix is that of this test.
fn recipe() -> &'static str {
    let mut blocks = GUIDE.split("```").skip(1).step_by(2);
    let found = blocks.find(|it| it.contains("dns64-prefix")).expect("a recipe");
    assert!(found.contains(&format!("dns64-prefix: {PREFIX}")), "{found}");
    found.trim()
}

/// unbound on a host, with these lines.
fn unbound(host: &Host, scratch: &Scratch, name: &str, lines: &str) -> Result<Background> {
    let common = "\
        server:\n\
        \x20   interface: 0.0.0.0\n    interface: ::0\n\
        \x20   access-control: 0.0.0.0/0 allow\n    access-control: ::0/0 allow\n\
        \x20   username: \"\"\n    chroot: \"\"\n    pidfile: \"\"\n    logfile: \"\"\n\
        \x20   use-syslog: no\n    do-daemonize: no\n    num-threads: 1\n\
        remote-control:\n\
        \x20   control-enable: no\n";
    let file = scratch.write(&format!("{name}.conf"), format!("{common}{lines}\n"))?;
    let file: &Path = &file;
    let arguments = ["-d", "-p", "-c", &file.display().to_string()];
    let process = host.command(Tool::UNBOUND)?.args(arguments).spawn()?;
    process.wait_for("start of service", Duration::from_secs(20))?;
    Ok(process)
}

/// The IPv6 address that a resolver has for a name.
fn resolve(host: &Host, resolver: &str, name: &str) -> Result<String> {
    let program = "\
        import ipaddress, socket, struct, sys\n\
        asker = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n\
        asker.settimeout(20)\n\
        asker.connect((sys.argv[1], 53))\n\
        name = b''.join(bytes([len(it)]) + it.encode() for it in sys.argv[2].split('.')) + b'\\0'\n\
        asker.send(struct.pack('!6H', 7, 0x100, 1, 0, 0, 0) + name + struct.pack('!2H', 28, 1))\n\
        answer = asker.recv(4096)\n\
        _, flags, _, count, _, _ = struct.unpack('!6H', answer[:12])\n\
        assert flags & 15 == 0 and count == 1, answer\n\
        print(ipaddress.ip_address(answer[12 + len(name) + 4:][12:28]))\n";
    let command: Command = host.command(Tool::PYTHON)?.args(["-c", program, resolver, name]);
    Ok(command.deadline(Duration::from_secs(30)).run()?.ok()?.stdout.trim().to_owned())
}

#[test]
fn a_host_with_ip6_alone_reaches_an_ip4_server_by_its_name() -> Result<()> {
    let sides = [side("host-a", 1)?, side("host-b", 2)?, side("host-c", 3)?];
    let (scenario, _server) = begin_with(1500, &sides, |it| it)?;
    let scratch = Scratch::new()?;
    // host-b knows the name, and has an IPv4 address alone; host-c resolves for host-a.
    let known = format!(
        "server:\n    local-zone: \"example.\" static\n    local-data: \"{NAME}. A 198.18.2.2\""
    );
    let _known = unbound(scenario.host("host-b"), &scratch, "known", &known)?;
    let lines = format!(
        "{}\nforward-zone:\n    name: \"example.\"\n    forward-addr: 198.18.2.2",
        recipe()
    );
    let _resolver = unbound(scenario.host("host-c"), &scratch, "resolver", &lines)?;
    let inside = scenario.host("host-a");
    let address = resolve(inside, "2001:db8:3::2", NAME)?;
    assert_eq!(address.parse(), SERVER.parse::<Ipv6Addr>());
    let mapped = format!("{NAME}:{PORT}:[{address}]");
    let url = format!("http://{NAME}:{PORT}/");
    let arguments = ["-sS", "--max-time", "60", "--noproxy", "*", "--resolve", &mapped, &url];
    let command = inside.command(Tool::CURL)?.args(arguments);
    let seen = command.deadline(Duration::from_secs(70)).run()?.ok()?.stdout;
    assert!(seen.starts_with("198.18.2.1 "), "{seen}");
    scenario.end()
}
