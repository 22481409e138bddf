//! Inner and outer packets are different flows: what features know of the one says nothing of the other.

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::RuleOfList;

use super::*;
use crate::acl::{all, input, list, to_port};
use crate::acl_stateful::stateful;
use crate::zones::{pair, zone};

fn setup() -> Setup {
    let far4 = (IpAddr::V4([198, 51, 100, 0].into()), 24);
    let setup = Setup::three_ports().tunnel("tun", 4, ends(true), Encapsulation::Esp);
    setup.paths(far4, &[("tun", None, 1)])
}

/// Hosts behind west open flows to far hosts. Of the router itself, only ESP may leave, and only ESP comes for it.
#[test]
fn rules_see_the_inner_packets_on_one_side_and_esp_on_the_other() {
    let case = Case::USUAL;
    let only = RuleOfList { protocols: vec![protocol::ESP], ..all(Action::Accept) };
    let gate = list(setup(), "open", &[("open", stateful(to_port(53, Action::Accept)))]);
    let gate = list(gate, "none", &[("none", all(Action::Drop))]);
    let gate = list(gate, "only", &[("esp", only)]);
    let gate = input(input(input(gate, "west", &["open"]), "tun", &["none"]), "east", &["only"]);
    let mut gate = pair(zone(gate, "east", "wan"), ("router", "wan"), &["only"]);
    gate.0.flow_limits.is_silent = true;
    let mut lab = Lab::new(&gate);
    case.associate(&mut lab, "tun");
    let there = |port| packet_from(1, &udp_ports(host4(1), FAR4, (1000, port), b"there"));
    let back = |from| udp_ports(FAR4, host4(1), (from, 1000), b"back");
    lab.send("west", [there(53), there(54), there(53)]);
    let frames = lab.take("east");
    assert_eq!(frames.len(), 2, "{:?}", lab.dropped());
    for (frame, sequence) in frames.iter().zip(1..) {
        assert_eq!(parse(&packet_from(1, &case.opened(frame, sequence))).payload, b"there");
    }
    let frames = (1..).zip([back(53), back(54)]);
    let frames = frames.map(|(at, packet)| packet_from(2, &case.encapsulated(at, &packet)));
    lab.send("east", frames);
    assert_eq!(lab.only("west").payload, b"back");
    lab.send("east", [packet_from(2, &udp(host4(2), host4(1), b"plain"))]);
    lab.assert_silent();
}

/// Inner flows are spread over two tunnels. All packets of a tunnel take one path, whatever they carry.
#[test]
fn inner_flows_do_not_choose_the_path_of_outer_packets() {
    let net = |a, b, c| (IpAddr::V4([a, b, c, 0].into()), 24);
    let remote = |last| IpAddr::from([192, 0, 2, last]);
    let setup = Setup::three_ports()
        .tunnel("one", 4, (our4(2), remote(1)), Encapsulation::Esp)
        .tunnel("two", 5, (our4(2), remote(2)), Encapsulation::Esp)
        .paths(net(198, 51, 100), &[("one", None, 1), ("two", None, 1)])
        .paths(
            net(192, 0, 2),
            &[("east", Some(host4(2).into()), 1), ("north", Some(host4(3).into()), 1)],
        );
    let mut lab = Lab::new(&setup);
    for (number, tunnel) in (0..).zip(["one", "two"]) {
        Case { number, ..Case::USUAL }.send_by(&mut lab, tunnel);
    }
    let flow = |port| packet_from(1, &udp_ports(host4(1), FAR4, (port, 9), b"flow"));
    lab.send("west", (1000..1200).map(flow));
    let counts = ["east", "north"].map(|port| {
        let parsed = lab.parsed(port);
        [1, 2].map(|last| parsed.iter().filter(|it| it.ip.unwrap().1 == remote(last)).count())
    });
    for tunnel in 0..2 {
        let of_ports = counts.map(|it| it[tunnel]);
        assert!(of_ports.iter().sum::<usize>() > 50, "both tunnels are used: {counts:?}");
        assert!(of_ports.contains(&0), "one path for each tunnel: {counts:?}");
    }
    lab.assert_dropped(&[]);
}
