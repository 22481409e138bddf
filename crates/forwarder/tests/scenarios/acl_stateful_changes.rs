//! Stateful rules while rules change, with fragments, several workers, and hostile packets.

use std::time::Duration;

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::RuleOfList;
use stoa_forwarder::flow::fragment_order::PATIENCE_MS;
use stoa_forwarder::flow::selection::Selection;
use stoa_wire::checksum::{finish, sum};
use stoa_wire::tcp::flag;
use stoa_wire::{ipv4, protocol};

use crate::acl::{all, input, list, output, to_port};
use crate::acl_stateful::{
    await_flows, back, connect, flows, gate, icmp4, icmp6, into, open_gate, out, stateful, there,
    udp_back, udp_there,
};
use crate::harness::*;

#[test]
fn a_change_of_rules_judges_flows_anew() {
    let to_web = |rule| gate(RuleOfList { destination_ports: vec![(80, 80)], ..rule });
    let any = stateful(RuleOfList { protocols: vec![protocol::UDP], ..all(Action::Accept) });
    let mut lab = Lab::new(&gate(RuleOfList { is_stateful: false, ..any.clone() }));
    let applied = lab.apply(&gate(any.clone())).unwrap();
    assert!(applied.begins_flows && applied.flows_to_judge == 0);
    let packets = || udp_there((5000, 80)).into_iter().chain(udp_there((5000, 81)));
    let replies = || udp_back((80, 5000)).into_iter().chain(udp_back((81, 5000)));
    assert_eq!((out(&mut lab, packets()), into(&mut lab, replies())), (4, 4));
    // A rule less: replies pass until the next packet of the other direction is judged.
    let applied = lab.apply(&to_web(any.clone())).unwrap();
    assert!(!applied.begins_flows && applied.flows_to_judge == 4, "{applied:?}");
    lab.settle();
    assert_eq!(into(&mut lab, replies()), 4);
    assert_eq!(out(&mut lab, packets()), 2);
    lab.assert_dropped(&[("acl-input", 2)]);
    assert_eq!(into(&mut lab, replies()), 2);
    lab.assert_dropped(&[("acl-input", 2)]);
    assert_eq!(flows(&mut lab).len(), 2);
    // The rule accepts without keeping flows: they are suspended.
    lab.apply(&to_web(RuleOfList { is_stateful: false, ..any.clone() })).unwrap();
    lab.settle();
    await_flows(&mut lab, 0);
    assert_eq!(
        (out(&mut lab, udp_there((5000, 80))), into(&mut lab, udp_back((80, 5000)))),
        (2, 0)
    );
    lab.assert_dropped(&[("acl-input", 2)]);
    assert!(lab.node_counts().iter().any(|(node, _)| node == "ip4-acl-input"));
    // Another list keeps others alive meanwhile.
    let keep = |setup| {
        let setup = list(setup, "other", &[("other", stateful(to_port(9, Action::Accept)))]);
        input(setup, "north", &["other"])
    };
    lab.apply(&keep(to_web(any.clone()))).unwrap();
    lab.settle();
    assert_eq!(
        (out(&mut lab, udp_there((5000, 80))), into(&mut lab, udp_back((80, 5000)))),
        (2, 2)
    );
    lab.apply(&keep(to_web(RuleOfList { is_stateful: false, ..any.clone() }))).unwrap();
    lab.settle();
    assert_eq!(
        (out(&mut lab, udp_there((5000, 80))), into(&mut lab, udp_back((80, 5000)))),
        (2, 0)
    );
    assert!(flows(&mut lab).iter().all(|flow| flow.suspended));
    lab.apply(&keep(to_web(any))).unwrap();
    lab.settle();
    assert_eq!(
        (out(&mut lab, udp_there((5000, 80))), into(&mut lab, udp_back((80, 5000)))),
        (2, 2)
    );
    assert_eq!(flows(&mut lab).len(), 2);
    assert!(flows(&mut lab).iter().all(|flow| !flow.suspended && flow.packets == 3));
}

/// Flows go on when rules change.
fn kept(mut setup: Setup) -> Setup {
    setup.0.keeps_flows = true;
    setup
}

#[test]
fn flows_that_are_kept_go_on_until_they_end() {
    let any = stateful(RuleOfList { protocols: vec![protocol::UDP], ..all(Action::Accept) });
    let web = RuleOfList { destination_ports: vec![(80, 80)], ..any.clone() };
    let plain = RuleOfList { is_stateful: false, ..web.clone() };
    let shut =
        |setup| output(list(setup, "none", &[("none", all(Action::Drop))]), "east", &["none"]);
    let other = |setup| {
        let setup = list(setup, "other", &[("other", stateful(to_port(9, Action::Accept)))]);
        input(setup, "north", &["other"])
    };
    let packets = || udp_there((5000, 80)).into_iter().chain(udp_there((5000, 81)));
    let replies = || udp_back((80, 5000)).into_iter().chain(udp_back((81, 5000)));
    let mut lab = Lab::new(&kept(gate(any.clone())));
    assert_eq!((out(&mut lab, packets()), into(&mut lab, replies())), (4, 4));
    // A rule for less, one without state, and an output that lets nothing pass: both directions go on, and new flows
    // meet the rules.
    let cases = [
        (gate(web.clone()), ("acl-input", 81)),
        (other(gate(plain)), ("acl-input", 81)),
        (shut(gate(web.clone())), ("acl-output", 80)),
    ];
    for (setup, (reason, port)) in cases {
        let applied = lab.apply(&kept(setup)).unwrap();
        assert_eq!(applied.flows_to_judge, 0);
        lab.settle();
        for _ in 0..2 {
            assert_eq!((out(&mut lab, packets()), into(&mut lab, replies())), (4, 4), "{reason}");
        }
        lab.assert_dropped(&[]);
        assert_eq!(out(&mut lab, udp_there((6000, port))), 0);
        lab.assert_dropped(&[(reason, 2)]);
    }
    let live = flows(&mut lab);
    assert!(live.iter().filter(|it| it.source_port == 5000).count() == 4, "{live:?}");
    assert!(live.iter().all(|it| !it.suspended && (it.source_port != 5000 || it.packets == 7)));
    // They end as others do, and then the rules decide.
    lab.apply(&kept(gate(web.clone()))).unwrap();
    lab.settle();
    assert_eq!(out(&mut lab, packets()), 4);
    lab.state().skip(Duration::from_secs(301));
    await_flows(&mut lab, 0);
    assert_eq!(out(&mut lab, packets()), 2);
    lab.assert_dropped(&[("acl-input", 2)]);
}

#[test]
fn all_flows_meet_the_rules_when_they_are_no_longer_kept() {
    let any = stateful(RuleOfList { protocols: vec![protocol::UDP], ..all(Action::Accept) });
    let web = RuleOfList { destination_ports: vec![(80, 80)], ..any.clone() };
    let packets = || udp_there((5000, 80)).into_iter().chain(udp_there((5000, 81)));
    let mut lab = Lab::new(&kept(gate(any)));
    assert_eq!(out(&mut lab, packets()), 4);
    lab.apply(&kept(gate(web.clone()))).unwrap();
    lab.settle();
    assert_eq!(out(&mut lab, packets()), 4);
    // No rule changes.
    let applied = lab.apply(&gate(web)).unwrap();
    assert_eq!(applied.flows_to_judge, 4);
    lab.settle();
    assert_eq!(out(&mut lab, packets()), 2);
    lab.assert_dropped(&[("acl-input", 2)]);
    assert_eq!(flows(&mut lab).len(), 2);
}

#[test]
fn connections_outlive_changes_of_rules_that_match_their_syn() {
    let syn = RuleOfList {
        protocols: vec![protocol::TCP],
        tcp_flags: (flag::SYN, flag::SYN | flag::ACK),
        ..all(Action::Accept)
    };
    let mut lab = Lab::new(&gate(stateful(syn.clone())));
    connect(&mut lab);
    let narrower = RuleOfList { destination_ports: vec![(80, 80)], ..syn.clone() };
    lab.apply(&gate(stateful(narrower))).unwrap();
    lab.settle();
    assert_eq!(out(&mut lab, there((101, 901), flag::ACK, 10)), 2);
    assert_eq!(into(&mut lab, back((901, 111), flag::ACK, 10)), 2);
    let other = RuleOfList { destination_ports: vec![(81, 81)], ..syn };
    lab.apply(&gate(stateful(other))).unwrap();
    lab.settle();
    assert_eq!(out(&mut lab, there((111, 911), flag::ACK, 10)), 0);
    assert_eq!(into(&mut lab, back((911, 121), flag::ACK, 10)), 0);
    lab.assert_dropped(&[("acl-input", 4)]);
    assert!(flows(&mut lab).is_empty());
}

#[test]
fn later_fragments_follow_their_first_one() {
    let mut lab = Lab::new(&open_gate());
    assert_eq!(out(&mut lab, udp_there((5000, 53))), 2);
    let whole = datagram(host4(2).into(), host4(1).into(), (53, 5000), &[9; 64]);
    let part = |identification: u16, offset: usize, length: usize| {
        let is_last = offset + length == whole.len();
        let data = &whole[offset..offset + length];
        let mut packet = ip4(&ipv4::Builder::new(host4(2), host4(1), protocol::UDP), data);
        packet[4..6].copy_from_slice(&identification.to_be_bytes());
        let word = (offset as u16 / 8) | if is_last { 0 } else { ipv4::MORE_FRAGMENTS };
        packet[6..8].copy_from_slice(&word.to_be_bytes());
        packet[10..12].fill(0);
        let checksum = finish(sum(&packet[..20]));
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet
    };
    assert_eq!(into(&mut lab, [part(1, 0, 32), part(1, 32, 16), part(1, 48, 24)]), 3);
    // One whose first fragment never comes, and one that overlaps.
    assert_eq!(into(&mut lab, [part(2, 32, 16)]), 0);
    lab.assert_dropped(&[]);
    lab.state().skip(Duration::from_millis(PATIENCE_MS));
    lab.await_dropped(&[("acl-input", 1)]);
    assert_eq!(into(&mut lab, [part(3, 0, 32), part(3, 24, 16)]), 1);
    lab.assert_dropped(&[("fragment-overlap", 1)]);
}

#[test]
fn workers_hand_packets_to_the_owner_of_their_flow() {
    let setup = open_gate().workers(2);
    let mut lab = Lab::with(&setup, LIMITS, |_| Wire::new(2, 8));
    for port in 0..8 {
        let frames = |packets: [Vec<u8>; 2], n| packets.map(|packet| packet_from(n, &packet));
        // Each worker opens flows, and the other one gets the replies.
        let queue = usize::from(port % 2);
        lab.put("west", queue, frames(udp_there((6000 + port, 53)), 1));
        lab.settle();
        assert_eq!(lab.take("east").len(), 2);
        for queue in [1 - queue, queue, 1 - queue] {
            lab.put("east", queue, frames(udp_back((53, 6000 + port)), 2));
            lab.settle();
            assert_eq!(lab.take("west").len(), 2, "{port}");
        }
    }
    lab.assert_dropped(&[]);
    let all = flows(&mut lab);
    assert_eq!(all.len(), 16);
    assert!(all.iter().all(|flow| flow.reply_packets == 3 && flow.state == "udp-replied"));
    let owners: Vec<u32> = all.iter().map(|flow| flow.worker).collect();
    assert!(owners.contains(&0) && owners.contains(&1), "{owners:?}");
    let handed: u64 = lab.state().list_workers().iter().map(|worker| worker.handed_in).sum();
    assert!(handed >= 16, "{handed}");
}

/// Cut, changed and repeated packets in both directions: each is accounted for, and the workers go on.
#[test]
fn hostile_packets_are_accounted_for() {
    let setup = open_gate().workers(2);
    let mut lab = Lab::with(&setup, LIMITS, |_| Wire::new(2, 8));
    let mut state = 1_u64;
    let mut random = move |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let numbers = [(100, 0), (101, 901), (900, 101), (901, 601)];
    for round in 0..200 {
        for (port, n) in [("west", 1), ("east", 2)] {
            let mut frames = Vec::new();
            for _ in 0..20 {
                let (numbers, flags) = (numbers[random(4)], random(64) as u8);
                let [four, six] = match (random(3), n) {
                    (0, 1) => udp_there((5000 + random(40) as u16, 53)),
                    (0, _) => udp_back((53, 5000 + random(40) as u16)),
                    (1, _) => {
                        let [four, six] = udp_there((5000 + random(40) as u16, 53));
                        let kind = [3, 11, 1, 2][random(4)];
                        [icmp4(kind, 0, [0; 4], &four), icmp6(kind, 0, [0; 4], &six)]
                    }
                    (_, 1) => there(numbers, flags, random(50)),
                    _ => back(numbers, flags, random(50)),
                };
                let mut packet = if random(2) == 0 { four } else { six };
                for _ in 0..random(3) {
                    let at = random(packet.len());
                    packet[at] ^= 1 << random(8);
                }
                if random(8) == 0 {
                    packet.truncate(1 + random(packet.len() - 1));
                }
                frames.push(packet_from(n, &packet));
            }
            lab.put(port, round % 2, frames);
        }
        lab.settle();
        if round % 50 == 49 {
            lab.state().skip(Duration::from_secs(200));
        }
    }
    assert!(flows(&mut lab).len() <= 128);
    assert!(lab.state().clear_flows(&Selection::default()));
    await_flows(&mut lab, 0);
}
