//! nmap and hping3 against the router's own address: every port is closed, and forwarding is not affected.

use std::time::Duration;

use stoa_lab::{Result, Tool};
use stoa_scenarios::{Scenario, two_sides};

#[test]
fn scans_end_and_find_nothing_open() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    scenario.hosts_reach_each_other()?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    let running = b.command(Tool::PING)?.args(["-n", "-i", "0.02", "-c", "1500", "-W", "2"]);
    let running = running.args([&b.gateway(false)?.to_string()]).spawn()?;
    running.wait_for("icmp_seq=5 ", Duration::from_secs(10))?;
    for (six, kind) in [
        (false, ["-sS", "-p", "1-200"]),
        (false, ["-sU", "-p", "53,67,161,500"]),
        (false, ["--scanflags=URGACKPSHRSTSYNFIN", "-p", "1-40"]),
        (false, ["-O", "-p", "1-20"]),
        (false, ["-sO", "-p", "1-30"]),
        (true, ["-sS", "-p", "1-50"]),
        (true, ["-O", "-p", "1-20"]),
    ] {
        let router = a.gateway(six)?.to_string();
        let family = if six { "-6" } else { "-4" };
        let arguments = ["-n", "-Pn", "-T4", "--max-retries", "1", "--host-timeout", "40s", family];
        let command = a.command(Tool::NMAP)?.args(arguments).args(kind).args([&router]);
        let output = command.deadline(Duration::from_secs(60)).run()?;
        assert!(output.success(), "{kind:?}: {}{}", output.stdout, output.stderr);
        assert!(output.stdout.contains("1 host up"), "{kind:?}: {}", output.stdout);
        assert!(!output.stdout.contains("/tcp open"), "{kind:?}: {}", output.stdout);
    }
    scenario.hosts_reach_each_other()?;
    let (printed, _, _) = running.finish(Duration::from_secs(90))?;
    assert!(printed.contains("1500 received"), "a concurrent ping loses nothing: {printed}");
    scenario.end()
}

#[test]
fn malformed_segments_and_fragments_of_hping3_do_no_harm() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    scenario.hosts_reach_each_other()?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    for to in [a.gateway(false)?.to_string(), b.address(false)?.to_string()] {
        for kind in [
            // All flags, no flag, a wrong checksum, tiny fragments, a spoofed source, raw IP.
            vec!["-S", "-F", "-P", "-U", "-A", "-R", "-X", "-Y", "-p", "80"],
            vec!["-p", "0"],
            vec!["--udp", "-b", "-p", "53"],
            vec!["--udp", "-f", "-d", "600", "-p", "9"],
            vec!["-S", "-p", "80", "-a", "198.18.1.1"],
            vec!["--rawip", "-H", "253", "-d", "40"],
            vec!["--icmp", "-C", "13"],
            vec!["--icmp", "-d", "3000"],
        ] {
            let command = a.command(Tool::HPING3)?.args(["-q", "-c", "20", "-i", "u2000"]);
            command.args(&kind).args([&to]).deadline(Duration::from_secs(20)).run()?;
        }
    }
    assert!(scenario.router.is_running(), "{}", scenario.router.log());
    scenario.hosts_reach_each_other()?;
    scenario.end()
}
