//! Gateways of TFTP: the server answers from a port of its own choice.

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::{NatPolicy, RuleOfList};
use stoa_forwarder::flow::alg::{Alg, Passed};
use stoa_forwarder::nat::{AlgPort, Mapping};
use stoa_wire::protocol::UDP;

use crate::acl::{all, input, list};
use crate::acl_stateful::{into, out, stateful};
use crate::harness::*;
use crate::nat44::{ends, passed, policy, with_nat};

const REQUEST: &[u8] = b"\0\x01boot.bin\0octet\0";

fn tftp_gate() -> Setup {
    let mut rule = stateful(all(Action::Accept));
    (rule.protocols, rule.destination_ports) = (vec![UDP], vec![(69, 69)]);
    let rule = RuleOfList { alg: Some(Alg::Tftp), ..rule };
    let setup = list(Setup::three_ports(), "out", &[("tftp", rule), ("rest", all(Action::Drop))]);
    let setup = list(setup, "in", &[("rest", all(Action::Drop))]);
    input(input(setup, "west", &["out"]), "east", &["in"])
}

#[test]
fn answers_from_another_port_are_let_in() {
    let mut lab = Lab::new(&tftp_gate());
    let there = |ports, data: &[u8]| {
        [udp_ports(host4(1), host4(2), ports, data), udp_ports(host6(1), host6(2), ports, data)]
    };
    let back = |ports| {
        [
            udp_ports(host4(2), host4(1), ports, b"\0\x03\0\x01x"),
            udp_ports(host6(2), host6(1), ports, b"\0\x03\0\x01x"),
        ]
    };
    for port in [5000, 5001] {
        assert_eq!(into(&mut lab, back((3000, port))), 0);
        // Repeated: its first answer was lost.
        for _ in 0..2 {
            assert_eq!(out(&mut lab, there((port, 69), REQUEST)), 2);
        }
        assert_eq!(into(&mut lab, back((3000, port + 1))), 0);
        assert_eq!(into(&mut lab, back((3000, port))), 2);
        assert_eq!(out(&mut lab, there((port, 3000), b"\0\x04\0\x01")), 2);
        assert_eq!(into(&mut lab, back((3000, port))), 2);
        assert_eq!(into(&mut lab, back((3001, port))), 0, "one port answers");
    }
    let sums = lab.state().alg_sums();
    assert_eq!((sums.expected, sums.begun), (8, 4));
    assert_eq!(out(&mut lab, there((5002, 69), b"\0\x01name")), 2);
    assert_eq!(out(&mut lab, there((5003, 69), b"\0\x05\0\0what\0")), 2);
    let passed = lab.state().alg_sums().passed;
    assert_eq!(passed[Passed::Malformed as usize], 2);
    assert_eq!(into(&mut lab, back((3000, 5002))), 0);
}

#[test]
fn answers_are_translated() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        for has_rules in [false, true] {
            let algs = vec![AlgPort { alg: Alg::Tftp, port: 69 }];
            let policy =
                NatPolicy { algs: if has_rules { Vec::new() } else { algs }, ..policy(mapping) };
            let setup = if has_rules { tftp_gate() } else { Setup::three_ports() };
            let mut lab = Lab::new(&with_nat(setup, vec![policy], Vec::new()));
            let ask = udp_ports(host4(1), host4(2), (500, 69), REQUEST);
            let sent = passed(&mut lab, 1, &ask, "east");
            let port = sent.ports.unwrap().0;
            assert_ne!(port, 500, "the range begins at 1024");
            let answer = udp_ports(host4(2), our4(2), (3000, port), b"\0\x03\0\x01x");
            for _ in 0..2 {
                let back = passed(&mut lab, 2, &answer, "west");
                assert_eq!(ends(&back), ("10.0.2.2:3000".into(), "10.0.1.2:500".into()));
            }
            let ack = udp_ports(host4(1), host4(2), (500, 3000), b"\0\x04\0\x01");
            let sent = passed(&mut lab, 1, &ack, "east");
            assert_eq!(ends(&sent), (format!("10.0.2.1:{port}"), "10.0.2.2:3000".into()));
        }
    }
}

/// Behind NAT44, the answer to the inside address is expected no more: nobody but the server's packet to the external
/// one gets in.
#[test]
fn a_translated_request_expects_one_answer() {
    let policy = policy(Mapping::EndpointDependent);
    let mut lab = Lab::new(&with_nat(tftp_gate(), vec![policy], Vec::new()));
    let ask = udp_ports(host4(1), host4(2), (5000, 69), REQUEST);
    passed(&mut lab, 1, &ask, "east");
    let answer = udp_ports(host4(2), host4(1), (3000, 5000), b"\0\x03\0\x01x");
    assert_eq!(into(&mut lab, [answer]), 0);
    let answer = udp_ports(host4(2), our4(2), (3000, 5000), b"\0\x03\0\x01x");
    assert_eq!(into(&mut lab, [answer]), 1);
}

/// The first packet behind a change of rules is read as any other one.
#[test]
fn a_request_behind_a_change_is_read() {
    let mut lab = Lab::new(&tftp_gate());
    let ask = udp_ports(host4(1), host4(2), (5000, 69), REQUEST);
    assert_eq!(out(&mut lab, [ask.clone()]), 1);
    let answer = |port| udp_ports(host4(2), host4(1), (port, 5000), b"\0\x03\0\x01x");
    assert_eq!(into(&mut lab, [answer(3000)]), 1);
    assert_eq!(into(&mut lab, [answer(3001)]), 0);
    lab.apply(&list(tftp_gate(), "in", &[("other", all(Action::Drop))])).unwrap();
    assert_eq!(out(&mut lab, [ask]), 1);
    assert_eq!(into(&mut lab, [answer(3001)]), 1);
}
