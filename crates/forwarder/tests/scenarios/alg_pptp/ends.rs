//! What ends calls, and what keeps them.

use std::time::Duration;

use stoa_forwarder::flow::profiles::Profile;
use stoa_forwarder::flow::tcp::Options;
use stoa_wire::tcp::flag;

use super::*;
use crate::acl_stateful::{await_flows, gate};

/// A client behind the masquerade whose call goes on: the control connection, and the ID that the server knows.
fn called(lab: &mut Lab) -> Control {
    let mut control = behind(lab, 1, 4000);
    control.say(lab, 0, &request(7));
    control.say(lab, 1, &reply(9, 7, true));
    assert!(is_up(lab));
    control
}

fn is_up(lab: &mut Lab) -> bool {
    let (client, server, outside) = (four(host4(1)), four(host4(2)), four(our4(2)));
    let both = [
        passed(lab, (2, "west"), (server, outside), 7).is_some(),
        sent(lab, (client, server)) == 2,
    ];
    assert_eq!(both[0], both[1]);
    both[0]
}

/// How many flows of calls there are after the client has sent a packet: without a call, it goes by its addresses, if
/// rules let it.
fn sent(lab: &mut Lab, ends: (IpAddr, IpAddr)) -> usize {
    let _ = passed(lab, (1, "east"), ends, 9);
    let all = flows(lab);
    let gre = all.iter().filter(|flow| flow.protocol == 47);
    gre.filter(|flow| flow.source_port != 0).count()
}

#[test]
fn messages_end_calls() {
    for (from, data) in [
        (0, clear(7)),
        (1, disconnect(9)),
        // As some servers name it.
        (1, disconnect(7)),
        (0, stop()),
        (1, stop()),
        (0, [echo(), stop()].concat()),
    ] {
        let mut lab = Lab::new(&masquerade());
        let mut control = called(&mut lab);
        assert_eq!(control.say(&mut lab, from, &data), data);
        assert!(!is_up(&mut lab), "{data:?}");
        // And another one begins.
        control.say(&mut lab, 0, &request(7));
        control.say(&mut lab, 1, &reply(9, 7, true));
        assert!(is_up(&mut lab), "{data:?}");
        assert_eq!(sums(&mut lab).passed, AlgSums::default().passed);
    }
}

#[test]
fn the_end_of_the_connection_ends_calls() {
    for from in [0, 1] {
        let mut lab = Lab::new(&masquerade());
        let control = called(&mut lab);
        assert!(control.put(&mut lab, from, flag::RST | flag::ACK, b"").is_some());
        assert!(!is_up(&mut lab));
        let mut lab = Lab::new(&masquerade());
        let control = called(&mut lab);
        let fin = flag::FIN | flag::ACK;
        assert!(control.put(&mut lab, from, fin, b"").is_some());
        assert!(is_up(&mut lab), "the other end may know nothing of it");
        assert!(control.put(&mut lab, 1 - from, fin, b"").is_some());
        assert!(!is_up(&mut lab));
    }
}

/// A server that answers again with another ID: packets with the former one belong to no call.
#[test]
fn another_answer_takes_the_place_of_the_first() {
    let mut lab = Lab::new(&pptp_gate());
    let (client, server) = (four(host4(1)), four(host4(2)));
    let ends = [(client, server), (server, client)];
    let mut control = Control::open(&mut lab, [1, 2], ends, (4000, 1723));
    control.say(&mut lab, 0, &request(7));
    for id in 9..60 {
        control.say(&mut lab, 1, &reply(id, 7, true));
        assert_eq!(passed(&mut lab, (1, "east"), ends[0], id - 1), None, "{id}");
        assert!(passed(&mut lab, (1, "east"), ends[0], id).is_some(), "{id}");
    }
    assert_eq!(sums(&mut lab).passed, AlgSums::default().passed);
    // Beside the control connection, the one of the last answer.
    assert_eq!(flows(&mut lab).len(), 2);
}

/// Whoever does not know the numbers of a connection ends nothing.
#[test]
fn a_forged_reset_ends_nothing() {
    let mut lab = Lab::new(&masquerade());
    let control = called(&mut lab);
    let mut reset = control.segment(0, flag::RST, b"");
    reset[24] ^= 0x40;
    reset[36] ^= 0x40;
    lab.send("west", [packet_from(1, &reset)]);
    lab.dropped();
    lab.take("east");
    assert!(is_up(&mut lab));
}

/// Somebody guesses numbers in the window: the receiver challenges a reset, and awaits other data.
#[test]
fn a_segment_in_the_window_ends_nothing() {
    for liberal in [false, true] {
        let options = Options { loose: true, liberal };
        let profile = Profile { options, ..Profile::default() };
        let rule = RuleOfList { flow_profile: Some(profile), ..pptp_rule() };
        let plain = policy(Mapping::EndpointIndependent);
        let setup = with_nat(gate(rule), vec![plain], Vec::new());
        for (flags, data) in [
            (flag::RST, Vec::new()),
            (flag::FIN | flag::ACK, Vec::new()),
            (flag::ACK, stop()),
            (flag::ACK, disconnect(9)),
            (flag::ACK, reply(0, 7, false)),
            (flag::ACK, reply(10, 7, true)),
        ] {
            let mut lab = Lab::new(&setup);
            let mut control = called(&mut lab);
            // Twice: what was forged first makes nothing of the second one.
            for _ in 0..2 {
                control.skip(1, 100);
                assert!(control.put(&mut lab, 1, flags, &data).is_some());
                assert!(is_up(&mut lab), "{flags} {data:?}");
            }
            // The true ones still count.
            control.skip(1, 200_u32.wrapping_neg());
            control.say(&mut lab, 1, &stop());
            assert!(!is_up(&mut lab), "{flags} {data:?}");
        }
    }
}

#[test]
fn a_policy_that_goes_takes_its_calls_along() {
    let mut lab = Lab::new(&masquerade());
    called(&mut lab);
    lab.apply(&Setup::three_ports()).unwrap();
    lab.pass_time(Duration::from_secs(1));
    let (server, outside) = (four(host4(2)), four(our4(2)));
    assert_eq!(passed(&mut lab, (2, "west"), (server, outside), 7), None);
}

/// Both ends say every minute that they are there; the call may be silent.
#[test]
fn echoes_keep_silent_calls() {
    let mut lab = Lab::new(&masquerade());
    let mut control = called(&mut lab);
    for _ in 0..10 {
        lab.state().skip(Duration::from_secs(60));
        control.say(&mut lab, 0, &echo());
    }
    assert!(is_up(&mut lab));
    lab.state().skip(Duration::from_secs(301));
    // That of the control connection is left.
    await_flows(&mut lab, 1);
    assert!(!is_up(&mut lab));
}

#[test]
fn a_call_that_does_not_begin_is_expected_no_more() {
    let mut lab = Lab::new(&masquerade());
    let mut control = behind(&mut lab, 1, 4000);
    control.say(&mut lab, 0, &request(7));
    control.say(&mut lab, 1, &reply(9, 7, true));
    lab.state().skip(Duration::from_secs(61));
    assert!(!is_up(&mut lab));
}

/// Packets of a call come to another worker than those of its control connection, which ends both.
#[test]
fn one_worker_follows_a_call() {
    let mut lab = Lab::with(&masquerade().workers(2), LIMITS, |_| Wire::new(2, 2));
    let (client, server, outside) = (four(host4(1)), four(host4(2)), four(our4(2)));
    let mut control = behind(&mut lab, 1, 4000);
    control.say(&mut lab, 0, &request(7));
    control.say(&mut lab, 1, &reply(9, 7, true));
    let there = packet_from(1, &gre((client, server), 9));
    let back = packet_from(2, &gre((server, outside), 7));
    for _ in 0..2 {
        for queue in [1, 0] {
            lab.put("west", queue, [there.clone()]);
            lab.put("east", queue, [back.clone()]);
            lab.settle();
            assert_eq!((lab.take("east").len(), lab.take("west").len()), (1, 1), "{queue}");
        }
    }
    assert_eq!(sums(&mut lab).begun, 2);
    control.say(&mut lab, 0, &stop());
    for queue in [0, 1] {
        lab.put("east", queue, [back.clone()]);
        lab.settle();
        assert_eq!(lab.take("west").len(), 0);
    }
}
