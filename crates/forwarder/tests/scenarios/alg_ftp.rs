//! Gateways of FTP: active and passive, in both forms, with stateful rules, with NAT44 and with both; and text that
//! passes as it is.

mod changes;
pub mod control;
mod hostile;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::{NatPolicy, RuleOfList};
use stoa_forwarder::flow::alg::{Alg, AlgSums, Passed};
use stoa_forwarder::nat::{AlgPort, Mapping};
use stoa_wire::protocol;

use crate::acl::{all, input, list};
use crate::acl_stateful::{flows, gate, stateful};
use crate::harness::*;
use crate::nat44::{POOL, net, policy, with_nat};
use control::{ACK, Control, Got, SYN, SYN_ACK, segment, sent};

fn ftp_rule() -> RuleOfList {
    let mut rule = stateful(all(Action::Accept));
    (rule.protocols, rule.destination_ports) = (vec![protocol::TCP], vec![(21, 21)]);
    RuleOfList { alg: Some(Alg::Ftp), ..rule }
}

/// Hosts behind west may use FTP, and nothing else passes.
fn ftp_gate() -> Setup {
    let setup =
        list(Setup::three_ports(), "out", &[("ftp", ftp_rule()), ("rest", all(Action::Drop))]);
    let setup = list(setup, "in", &[("rest", all(Action::Drop))]);
    input(input(setup, "west", &["out"]), "east", &["in"])
}

fn ftp_policy(mapping: Mapping) -> NatPolicy {
    NatPolicy { algs: vec![AlgPort { alg: Alg::Ftp, port: 21 }], ..policy(mapping) }
}

/// Opens a data connection from host `from`; what its SYN becomes.
fn connect(
    lab: &mut Lab,
    (from, to): (u8, &str),
    ends: (IpAddr, IpAddr),
    ports: (u16, u16),
) -> Option<Got> {
    sent(lab, from, &segment(ends, ports, (1, 0), SYN, b""), to)
}

fn sums(lab: &mut Lab) -> AlgSums {
    lab.state().alg_sums()
}

fn passed_as_it_is(lab: &mut Lab, cause: Passed) -> u64 {
    sums(lab).passed[cause as usize]
}

fn four(address: Ipv4Addr) -> IpAddr {
    address.into()
}

/// The text of an address and port as `PORT` has it.
fn numbers(address: IpAddr, port: u16) -> String {
    let [high, low] = port.to_be_bytes();
    format!("{},{high},{low}", address.to_string().replace('.', ","))
}

#[test]
fn rules_let_in_what_a_control_connection_announces() {
    let families: [[IpAddr; 2]; 2] =
        [[host4(1).into(), host4(2).into()], [host6(1).into(), host6(2).into()]];
    for [client, server] in families {
        let mut lab = Lab::new(&ftp_gate());
        let mut control = Control::new((client, server), (client, server));
        control.open(&mut lab);
        let family = if client.is_ipv4() { 1 } else { 2 };
        // Nobody has announced it.
        assert_eq!(connect(&mut lab, (2, "west"), (server, client), (20, 5001)), None);
        let mut commands = vec![(format!("EPRT |{family}|{client}|5001|\r\n"), 5001)];
        if client.is_ipv4() {
            commands.push((format!("PORT {}\r\n", numbers(client, 5002)), 5002));
        }
        for (command, port) in commands {
            assert_eq!(control.say(&mut lab, true, &command), command);
            // Another host, and another port.
            assert_eq!(connect(&mut lab, (2, "west"), (server, client), (20, port + 100)), None);
            let data = connect(&mut lab, (2, "west"), (server, client), (20, port)).unwrap();
            assert_eq!((data.ends, data.ports), ((server, client), (20, port)));
            // Once.
            assert_eq!(connect(&mut lab, (2, "west"), (server, client), (21, port)), None);
            let answer = segment((client, server), (port, 20), (9, 2), SYN_ACK, b"");
            assert!(sent(&mut lab, 1, &answer, "east").is_some());
        }
        // A passive one: inside hosts may do nothing but FTP, either.
        assert_eq!(connect(&mut lab, (1, "east"), (client, server), (6000, 5003)), None);
        let reply = "229 Entering Extended Passive Mode (|||5003|)\r\n";
        assert_eq!(control.say(&mut lab, false, reply), reply);
        assert!(connect(&mut lab, (1, "east"), (client, server), (6000, 5003)).is_some());
        let listed = flows(&mut lab);
        assert!(
            listed.iter().all(|flow| (flow.acl.as_str(), flow.rule.as_str()) == ("out", "ftp"))
        );
        let sums = sums(&mut lab);
        assert_eq!((sums.expected, sums.begun), (listed.len() as u64 - 1, listed.len() as u64 - 1));
        assert_eq!((sums.edited, sums.passed), (0, AlgSums::default().passed));
        // A change of rules ends neither.
        lab.apply(&list(ftp_gate(), "more", &[("more", all(Action::Drop))])).unwrap();
        let setup = list(ftp_gate(), "in", &[("all", all(Action::Drop))]);
        lab.apply(&setup).unwrap();
        let data = segment((client, server), (6000, 5003), (2, 0), SYN, b"");
        assert!(sent(&mut lab, 1, &data, "east").is_some(), "it goes on");
    }
}

#[test]
fn text_of_active_connections_is_translated() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let bare = with_nat(Setup::three_ports(), vec![ftp_policy(mapping)], Vec::new());
        let mut ruled = gate(ftp_rule());
        ruled.0.nat.policies.push(policy(mapping));
        let mut both = ruled.clone();
        both.0.nat.policies = vec![ftp_policy(mapping)];
        for setup in [bare, ruled, both] {
            let mut lab = Lab::new(&setup);
            let (client, server, outside) = (four(host4(1)), four(host4(2)), four(our4(2)));
            let mut control = Control::new((client, server), (outside, server));
            control.open(&mut lab);
            for (at, port) in [5001, 5002, 61_003, 5004].into_iter().enumerate() {
                let (command, expected) = if at % 2 == 0 {
                    let text = |address| format!("PORT {}\r\n", numbers(address, port));
                    (text(client), text(outside))
                } else {
                    let text = |address: IpAddr| format!("EPRT |1|{address}|{port}|\r\n");
                    (text(client), text(outside))
                };
                assert_eq!(control.repeat(&mut lab, true, &command), expected);
                // The client repeats what the server has not acknowledged.
                assert_eq!(control.say(&mut lab, true, &command), expected);
                control.say(&mut lab, false, "200 ok\r\n");
                control.say(&mut lab, true, "LIST\r\n");
                let data = connect(&mut lab, (2, "west"), (server, outside), (20, port)).unwrap();
                assert_eq!((data.ends, data.ports), ((server, client), (20, port)));
                let answer = segment((client, server), (port, 20), (9, 2), SYN_ACK, b"");
                let answer = sent(&mut lab, 1, &answer, "east").unwrap();
                assert_eq!((answer.ends, answer.ports), ((outside, server), (port, 20)));
                control.say(&mut lab, false, "226 done\r\n");
            }
            let sums = sums(&mut lab);
            assert_eq!((sums.begun, sums.edited), (4, 8));
            assert_eq!(sums.passed, AlgSums::default().passed);
        }
    }
}

#[test]
fn a_port_that_is_taken_is_announced_as_another_one() {
    let setup = with_nat(
        Setup::three_ports(),
        vec![NatPolicy { pools: vec![net(POOL, 32)], ..ftp_policy(Mapping::EndpointIndependent) }],
        Vec::new(),
    );
    let mut lab = Lab::new(&setup);
    let (server, outside) = (four(host4(2)), four(POOL));
    // Host 3 has a mapping with this port.
    let other = segment((host4(3).into(), server), (5001, 80), (1, 0), SYN, b"");
    assert!(sent(&mut lab, 3, &other, "east").is_some());
    let mut control = Control::new((host4(1).into(), server), (outside, server));
    control.open(&mut lab);
    let text = control.say(&mut lab, true, &format!("PORT {}\r\n", numbers(host4(1).into(), 5001)));
    let ftp = stoa_wire::ftp::announcement(text.as_bytes(), stoa_wire::ftp::Sender::Client);
    let found = ftp.unwrap().unwrap();
    assert_eq!(found.address, Some(outside));
    assert_ne!(found.port, 5001);
    control.say(&mut lab, false, "200 ok\r\n");
    let data = connect(&mut lab, (2, "west"), (server, outside), (20, found.port)).unwrap();
    assert_eq!((data.ends, data.ports), ((server, host4(1).into()), (20, 5001)));
}

#[test]
fn passive_servers_inside_are_reached() {
    let forward = stoa_forwarder::control::desired::NatMapping {
        instance: 1,
        index: 1,
        protocol: 6,
        internal: net(host4(1), 32),
        external: net(our4(2), 32),
        ports: Some((21, 21, 0)),
        ..Default::default()
    };
    let setup = with_nat(
        Setup::three_ports(),
        vec![ftp_policy(Mapping::EndpointIndependent)],
        vec![forward],
    );
    let mut lab = Lab::new(&setup);
    let (client, server, outside) = (four(host4(2)), four(host4(1)), four(our4(2)));
    let mut control = Control::new((client, outside), (client, server));
    (control.client_host, control.server_host) = (2, 1);
    control.open(&mut lab);
    for port in [50_001, 50_002] {
        let reply =
            |address| format!("227 Entering Passive Mode ({}).\r\n", numbers(address, port));
        assert_eq!(control.say(&mut lab, false, &reply(server)), reply(outside));
        let data = connect(&mut lab, (2, "west"), (client, outside), (6000, port)).unwrap();
        assert_eq!((data.ends, data.ports), ((client, server), (6000, port)));
        let reply = format!("229 Extended ok (|||{}|)\r\n", port + 50);
        assert_eq!(control.say(&mut lab, false, &reply), reply);
        assert!(connect(&mut lab, (2, "west"), (client, outside), (6001, port + 50)).is_some());
    }
    assert!(connect(&mut lab, (2, "west"), (client, outside), (6001, 50_099)).is_none());
}

#[test]
fn foreign_split_and_malformed_text_passes_as_it_is() {
    let mut lab = Lab::new(&ftp_gate());
    let (client, server) = (four(host4(1)), four(host4(2)));
    let mut control = Control::new((client, server), (client, server));
    control.open(&mut lab);
    let cases = [
        (format!("PORT {}\r\n", numbers(host4(3).into(), 5001)), Passed::Foreign),
        (format!("PORT {}\r\n", numbers(client, 80)), Passed::Foreign),
        ("PORT 10,0,1,2,300,1\r\n".to_owned(), Passed::Malformed),
        (format!("PORT {}{}\r\n", numbers(client, 5001), " ".repeat(600)), Passed::TooLong),
    ];
    for (line, cause) in cases {
        let before = passed_as_it_is(&mut lab, cause);
        assert_eq!(control.say(&mut lab, true, &line), line);
        assert_eq!(passed_as_it_is(&mut lab, cause), before + 1, "{line}");
    }
    // In two segments: the second one does not begin a line.
    let line = format!("PORT {}", numbers(client, 5001));
    control.say(&mut lab, true, &line);
    assert_eq!(passed_as_it_is(&mut lab, Passed::Split), 1);
    control.say(&mut lab, true, &format!("x{line}\r\n"));
    control.say(&mut lab, true, "NOOP PORT");
    control.say(&mut lab, true, &format!("{line}\r\n"));
    assert_eq!(passed_as_it_is(&mut lab, Passed::Split), 2);
    assert_eq!(sums(&mut lab).expected, 0);
    assert_eq!(connect(&mut lab, (2, "west"), (server, client), (20, 5001)), None);
    // A server that says what clients say, and the other way round.
    control.say(&mut lab, false, &format!("{line}\r\n"));
    control.say(&mut lab, true, &format!("227 ({})\r\n", numbers(client, 5001)));
    assert_eq!(sums(&mut lab).expected, 0);
    // With a wrong checksum.
    let line = format!("{line}\r\n");
    let mut packet = control.of_client(ACK, line.as_bytes());
    packet[36] ^= 1;
    lab.send("west", [packet_from(1, &packet)]);
    assert_eq!(lab.take("east").len(), 1);
    assert_eq!((sums(&mut lab).expected, passed_as_it_is(&mut lab, Passed::Checksum)), (0, 1));
    // And all is well again.
    control.say(&mut lab, true, &line);
    assert!(connect(&mut lab, (2, "west"), (server, client), (20, 5001)).is_some());
}

#[test]
fn without_a_gateway_nothing_is_expected() {
    let rule = RuleOfList { alg: None, ..ftp_rule() };
    let mut lab = Lab::new(&gate(rule));
    let (client, server) = (four(host4(1)), four(host4(2)));
    let mut control = Control::new((client, server), (client, server));
    control.open(&mut lab);
    control.say(&mut lab, true, &format!("PORT {}\r\n", numbers(client, 5001)));
    assert_eq!(connect(&mut lab, (2, "west"), (server, client), (20, 5001)), None);
    assert_eq!(sums(&mut lab), AlgSums::default());
}

#[test]
fn an_announced_connection_must_come_soon() {
    let mut lab = Lab::new(&ftp_gate());
    let (client, server) = (four(host4(1)), four(host4(2)));
    let mut control = Control::new((client, server), (client, server));
    control.open(&mut lab);
    control.say(&mut lab, true, &format!("PORT {}\r\n", numbers(client, 5001)));
    lab.state().skip(Duration::from_secs(61));
    assert_eq!(connect(&mut lab, (2, "west"), (server, client), (20, 5001)), None);
    assert_eq!((sums(&mut lab).begun, sums(&mut lab).expired), (0, 1));
}
