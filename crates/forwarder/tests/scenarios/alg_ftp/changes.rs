//! Gateways and changes of rules and policies: what goes on, and what ends.

use stoa_forwarder::control::desired::NatBackend;

use super::*;
use crate::acl::output;

/// Announces ports of the client, each behind a command and a change of the rules; the last one is connected to.
fn announce(lab: &mut Lab, control: &mut Control, outside: IpAddr, setups: [&Setup; 2]) {
    let (client, server) = (four(host4(1)), four(host4(2)));
    for (at, port) in (5001..5005).enumerate() {
        lab.apply(setups[at % 2]).unwrap();
        if at % 2 == 0 {
            control.say(lab, true, "TYPE I\r\n");
        }
        let text = |address| format!("PORT {}\r\n", numbers(address, port));
        assert_eq!(control.say(lab, true, &text(client)), text(outside));
        control.say(lab, false, "200 ok\r\n");
        // As the last one: numbers change by another sum.
        let text = |address: IpAddr| format!("EPRT |1|{address}|{port}|\r\n");
        assert_eq!(control.say(lab, true, &text(client)), text(outside));
        control.say(lab, false, "200 ok\r\n");
        let data = connect(lab, (2, "west"), (server, outside), (20, port)).unwrap();
        assert_eq!((data.ends, data.ports), ((server, client), (20, port)));
    }
}

fn more(setup: &Setup, acl: &str, rule: RuleOfList) -> Setup {
    let mut other = all(Action::Drop);
    other.protocols = vec![protocol::UDP];
    list(setup.clone(), acl, &[("more", other), (acl, rule)])
}

/// With shorter and longer external addresses, with rules for what comes in or for what goes out, which name a gateway
/// or do not, and with none that are stateful: the first segment behind a change is read as any other one.
#[test]
fn changes_of_rules_leave_control_connections_alone() {
    for address in [Ipv4Addr::new(1, 1, 1, 1), POOL] {
        let pools = vec![net(address, 32)];
        let of =
            |algs| NatPolicy { pools: pools.clone(), algs, ..policy(Mapping::EndpointDependent) };
        let named = || ftp_policy(Mapping::EndpointDependent).algs;
        let any = stateful(all(Action::Accept));
        let plain = all(Action::Accept);
        let cases = [
            (true, any.clone(), named()),
            (true, ftp_rule(), Vec::new()),
            (true, ftp_rule(), named()),
            (true, plain.clone(), named()),
            (false, any.clone(), named()),
            (false, ftp_rule(), Vec::new()),
        ];
        for (at, (is_input, rule, algs)) in cases.into_iter().enumerate() {
            let mut setup = list(Setup::three_ports(), "out", &[("out", rule.clone())]);
            setup = match is_input {
                true => input(setup, "west", &["out"]),
                false => output(setup, "east", &["out"]),
            };
            setup = with_nat(setup, vec![of(algs)], Vec::new());
            let changed = more(&setup, "out", rule);
            let mut lab = Lab::new(&setup);
            let (client, server) = (four(host4(1)), four(host4(2)));
            let mut control = Control::new((client, server), (four(address), server));
            control.open(&mut lab);
            announce(&mut lab, &mut control, four(address), [&changed, &setup]);
            assert_eq!(sums(&mut lab).passed, AlgSums::default().passed, "case {at}");
        }
    }
}

/// A policy that names no gateway any more ends it for flows that go on; text passes as it is, with numbers that go on.
#[test]
fn a_gateway_that_is_switched_off_ends() {
    for rule in [None, Some(all(Action::Accept)), Some(stateful(all(Action::Accept)))] {
        let pools = vec![net(POOL, 32)];
        let on = NatPolicy { pools, ..ftp_policy(Mapping::EndpointDependent) };
        let off = NatPolicy { algs: Vec::new(), ..on.clone() };
        let setup = match &rule {
            None => Setup::three_ports(),
            Some(rule) => gate(rule.clone()),
        };
        let setup = match rule {
            Some(it) if !it.is_stateful => input(setup, "east", &[]),
            _ => setup,
        };
        let mut lab = Lab::new(&with_nat(setup.clone(), vec![on.clone()], Vec::new()));
        let (client, server, outside) = (four(host4(1)), four(host4(2)), four(POOL));
        let mut control = Control::new((client, server), (outside, server));
        control.open(&mut lab);
        let text = |address, port| format!("PORT {}\r\n", numbers(address, port));
        assert_eq!(control.say(&mut lab, true, &text(client, 5001)), text(outside, 5001));
        lab.apply(&with_nat(setup.clone(), vec![off], Vec::new())).unwrap();
        let expected = sums(&mut lab).expected;
        assert_eq!(control.say(&mut lab, true, &text(client, 5002)), text(client, 5002));
        assert_eq!(sums(&mut lab).expected, expected);
        // And on again.
        lab.apply(&with_nat(setup, vec![on], Vec::new())).unwrap();
        control.say(&mut lab, true, "TYPE I\r\n");
        assert_eq!(control.say(&mut lab, true, &text(client, 5003)), text(outside, 5003));
    }
}

/// A flow that no stateful rule keeps any more lets nothing in.
#[test]
fn a_rule_that_goes_takes_its_gateway_along() {
    let mut lab = Lab::new(&ftp_gate());
    let (client, server) = (four(host4(1)), four(host4(2)));
    let mut control = Control::new((client, server), (client, server));
    control.open(&mut lab);
    let setup = list(ftp_gate(), "out", &[("all", all(Action::Accept))]);
    let keep = list(setup, "other", &[("ftp", ftp_rule())]);
    let keep = input(input(keep, "north", &["other"]), "east", &[]);
    lab.apply(&keep).unwrap();
    control.say(&mut lab, true, &format!("PORT {}\r\n", numbers(client, 5001)));
    assert_eq!(sums(&mut lab).expected, 0);
}

/// Rules that refuse a packet decide before it is read, and their answer has the numbers of its sender.
#[test]
fn what_rules_refuse_is_not_read() {
    let pools = vec![net(POOL, 32)];
    let policy = NatPolicy { pools, ..ftp_policy(Mapping::EndpointDependent) };
    let open = with_nat(Setup::three_ports(), vec![policy], Vec::new());
    let with = |action| list(open.clone(), "all", &[("all", all(action))]);
    let closed = input(with(Action::Drop), "west", &["all"]);
    let rejected = input(with(Action::Reject), "east", &["all"]);
    let mut lab = Lab::new(&open);
    let (client, server, outside) = (four(host4(1)), four(host4(2)), four(POOL));
    let mut control = Control::new((client, server), (outside, server));
    control.open(&mut lab);
    let text = |address, port| format!("PORT {}\r\n", numbers(address, port));
    assert_eq!(control.say(&mut lab, true, &text(client, 5001)), text(outside, 5001));
    lab.apply(&closed).unwrap();
    let line = text(client, 5002);
    let packet = control.of_client(ACK, line.as_bytes());
    assert_eq!(sent(&mut lab, 1, &packet, "east"), None);
    assert_eq!((sums(&mut lab).expected, sums(&mut lab).edited), (1, 1));
    lab.apply(&rejected).unwrap();
    let packet = control.of_server(ACK, b"200 ok\r\n");
    let reset = sent(&mut lab, 2, &packet, "east").unwrap();
    assert_eq!(reset.numbers.0, control.seen_by_server(), "as the server acknowledges");
    lab.apply(&open).unwrap();
    assert_eq!(control.say(&mut lab, true, &line), text(outside, 5002));
}

/// A second policy of the instance names the gateway, and hosts share the connections.
#[test]
fn passive_servers_behind_a_shared_mapping_are_reached() {
    let forward = stoa_forwarder::control::desired::NatMapping {
        instance: 1,
        index: 1,
        protocol: 6,
        internal: net(Ipv4Addr::UNSPECIFIED, 32),
        external: net(our4(2), 32),
        ports: Some((21, 21, 0)),
        backends: [NatBackend { address: host4(1).to_bits(), first_port: 21, weight: 1 }].into(),
        ..Default::default()
    };
    let first =
        NatPolicy { subscribers: vec![net(host4(3), 32)], ..policy(Mapping::EndpointIndependent) };
    let second = NatPolicy { policy: 2, ..ftp_policy(Mapping::EndpointIndependent) };
    let mut lab = Lab::new(&with_nat(Setup::three_ports(), vec![first, second], vec![forward]));
    let (client, server, outside) = (four(host4(2)), four(host4(1)), four(our4(2)));
    let mut control = Control::new((client, outside), (client, server));
    (control.client_host, control.server_host) = (2, 1);
    control.open(&mut lab);
    // The second one is set up to say its external address itself.
    for (port, address) in [(50_001, server), (50_002, outside)] {
        let reply =
            |address| format!("227 Entering Passive Mode ({}).\r\n", numbers(address, port));
        assert_eq!(control.say(&mut lab, false, &reply(address)), reply(outside));
        let data = connect(&mut lab, (2, "west"), (client, outside), (6000, port)).unwrap();
        assert_eq!((data.ends, data.ports), ((client, server), (6000, port)));
    }
}
