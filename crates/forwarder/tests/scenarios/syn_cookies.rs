//! SYN cookies: the router answers for servers behind a zone, opens their side of connections, and splices both.

mod floods;
mod prefixes;
mod segment;
mod translated;

use std::time::Duration;

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::{RuleOfList, ZonePair};
use stoa_forwarder::flow::selection::Selection;
use stoa_wire::protocol;
use stoa_wire::tcp::flag;
use stoa_wire::tcp_options::{SynOptions, Timestamps};

use crate::acl::{all, input, list};
use crate::acl_stateful::{await_flows, flows, stateful};
use crate::harness::*;
use segment::{ACK, SYN_ACK, Segment, offer, timestamps};

/// Sends segments of host 1; returns what leaves by east, and by west.
fn client(lab: &mut Lab, segments: &[Segment]) -> [Vec<Segment>; 2] {
    lab.send("west", segments.iter().map(|it| packet_from(1, &it.packet())));
    sent(lab)
}

fn server(lab: &mut Lab, segments: &[Segment]) -> [Vec<Segment>; 2] {
    lab.send("east", segments.iter().map(|it| packet_from(2, &it.packet())));
    sent(lab)
}

fn sent(lab: &Lab) -> [Vec<Segment>; 2] {
    ["east", "west"].map(|port| lab.take(port).iter().map(|it| Segment::of(it)).collect())
}

/// Hosts of lan may open connections to those of wan, where cookies are on from `threshold` on.
fn zoned(rule: RuleOfList, threshold: Option<u32>) -> Setup {
    let mut setup = list(Setup::three_ports(), "web", &[("web", rule)]);
    for (interface, zone, cookies) in [("west", "lan", None), ("east", "wan", threshold)] {
        setup = setup.with(interface, |it| {
            (it.zone, it.zone_syn_cookies) = (zone.to_owned(), cookies);
        });
    }
    let acls = vec!["web".to_owned()];
    let pair = ZonePair { acls4: acls.clone(), acls6: acls };
    setup.0.zone_pairs.insert(("lan".to_owned(), "wan".to_owned()), pair);
    setup
}

fn tcp_only() -> RuleOfList {
    RuleOfList { protocols: vec![protocol::TCP], ..stateful(all(Action::Accept)) }
}

/// Sent, accepted and refused.
fn counts(lab: &mut Lab) -> (u64, u64, u64) {
    let listed = lab.state().list_zone_pairs();
    let zone = &listed.syn_cookies[0];
    (zone.sent, zone.accepted, listed.syn_cookies_refused)
}

/// Opens a connection of a client with these options to a server with those; returns the acknowledgement of the
/// client, and the SYN-ACK of the server.
fn open(lab: &mut Lab, syn: &Segment, theirs: SynOptions) -> (Segment, Segment) {
    let [none, answers] = client(lab, std::slice::from_ref(syn));
    assert_eq!((none.len(), answers.len()), (0, 1), "{answers:?}");
    let answer = &answers[0];
    assert_eq!((answer.flags, answer.window), (SYN_ACK, 0));
    assert_eq!((answer.ends, answer.ports), ((2, 1), (80, syn.ports.0)));
    assert_eq!(answer.acknowledgement, syn.sequence + 1);
    let ours = answer.options;
    let size = if syn.is_ip4 { 1460 } else { 1440 };
    assert_eq!(ours.segment_size, Some(size));
    let has_timestamps = syn.options.timestamps.is_some();
    assert_eq!(ours.scale.is_some(), has_timestamps && syn.options.scale.is_some());
    assert_eq!(ours.sack, has_timestamps && syn.options.sack);
    let value = syn.options.timestamps.map(|it| it.value);
    assert_eq!(ours.timestamps.map(|it| it.echo), value);
    let clock = ours.timestamps.map(|it| it.value);
    let mut ack = Segment { window: 500, ..answer.back(ACK) };
    ack.options.timestamps =
        value.zip(clock).map(|(value, echo)| Timestamps { value: value + 1, echo });
    // The router opens the side of the server.
    let [there, none] = client(lab, std::slice::from_ref(&ack));
    assert_eq!((there.len(), none.len()), (1, 0));
    let expected = Segment {
        window: if ours.scale.is_some() { 64_000 } else { 500 },
        options: SynOptions {
            segment_size: Some(if syn.options.segment_size.is_some() {
                1460
            } else if syn.is_ip4 {
                536
            } else {
                1220
            }),
            scale: syn.options.scale.filter(|_| has_timestamps),
            sack: syn.options.sack && has_timestamps,
            timestamps: ack.options.timestamps.map(|it| Timestamps { echo: 0, ..it }),
        },
        ..syn.clone()
    };
    assert_eq!(there[0], expected);
    let syn_ack =
        Segment { sequence: 9_000, window: 60_000, options: theirs, ..expected.back(SYN_ACK) };
    let [to_server, to_client] = server(lab, std::slice::from_ref(&syn_ack));
    assert_eq!((to_server.len(), to_client.len()), (1, 1));
    let acked = (to_server[0].flags, to_server[0].sequence, to_server[0].acknowledgement);
    assert_eq!(acked, (ACK, 101, 9_001));
    let seen = &to_client[0];
    assert_eq!((seen.flags, seen.sequence, seen.acknowledgement), (ACK, ack.acknowledgement, 101));
    assert_eq!(seen.window, if ours.scale.is_some() { 60_000 >> 8 } else { 60_000 });
    if theirs.timestamps.is_some() {
        assert_eq!(seen.options.timestamps.map(|it| it.value), clock, "time goes on");
    }
    (ack, syn_ack)
}

#[test]
fn a_connection_is_spliced_with_all_options() {
    for is_ip4 in [true, false] {
        let mut lab = Lab::new(&zoned(tcp_only(), Some(0)));
        let syn = Segment { options: offer(7_000), ..Segment::syn(is_ip4, 4000) };
        let theirs = SynOptions { scale: Some(10), ..offer(1_000_000) };
        let theirs = SynOptions {
            timestamps: theirs.timestamps.map(|it| Timestamps { echo: 7_001, ..it }),
            ..theirs
        };
        let (ack, _) = open(&mut lab, &syn, theirs);
        assert_eq!(counts(&mut lab), (1, 1, 0));
        assert_eq!(flows(&mut lab)[0].state, "tcp-established");
        let clock = ack.options.timestamps.unwrap().echo;
        // Data of both sides, selective acknowledgements, timestamps and windows.
        let ask =
            Segment { data: b"GET".to_vec(), options: timestamps(7_002, clock), ..ack.clone() };
        let [there, _] = client(&mut lab, std::slice::from_ref(&ask));
        let expected =
            Segment { acknowledgement: 9_001, options: timestamps(7_002, 1_000_000), ..ask };
        assert_eq!(there, [expected]);
        let tell = Segment {
            sequence: 9_001,
            acknowledgement: 104,
            window: 80,
            data: vec![5; 100],
            options: timestamps(1_000_050, 7_002),
            ..ack.back(ACK)
        };
        let [_, seen] = server(&mut lab, std::slice::from_ref(&tell));
        let expected = Segment {
            sequence: ack.acknowledgement,
            window: 80 << 2,
            options: timestamps(clock + 50, 7_002),
            ..tell
        };
        assert_eq!(seen, [expected]);
        let first = ack.acknowledgement;
        let gap = Segment {
            sequence: 104,
            sack: vec![first.wrapping_add(50), first.wrapping_add(100)],
            options: timestamps(7_003, clock + 50),
            ..ack.clone()
        };
        let [there, _] = client(&mut lab, std::slice::from_ref(&gap));
        let expected = Segment {
            acknowledgement: 9_001,
            sack: vec![9_051, 9_101],
            options: timestamps(7_003, 1_000_050),
            ..gap
        };
        assert_eq!(there, [expected]);
        // Both close.
        let fin = Segment {
            sequence: 104,
            acknowledgement: first.wrapping_add(100),
            flags: flag::FIN | ACK,
            ..ack.clone()
        };
        let [there, _] = client(&mut lab, &[fin]);
        assert_eq!(there[0].acknowledgement, 9_101);
        let fin = Segment {
            sequence: 9_101,
            acknowledgement: 105,
            flags: flag::FIN | ACK,
            ..ack.back(ACK)
        };
        let [_, seen] = server(&mut lab, &[fin]);
        assert_eq!(seen[0].sequence, first.wrapping_add(100));
        assert_eq!(flows(&mut lab)[0].state, "tcp-closing");
        lab.assert_dropped(&[]);
    }
}

#[test]
fn clients_and_servers_without_options_are_spliced_too() {
    for is_ip4 in [true, false] {
        let mut lab = Lab::new(&zoned(tcp_only(), Some(0)));
        let (ack, _) = open(&mut lab, &Segment::syn(is_ip4, 4000), SynOptions::default());
        let [there, _] = client(&mut lab, &[Segment { data: vec![1], ..ack }]);
        assert_eq!((there[0].acknowledgement, there[0].window), (9_001, 500));
        // The client offers all, the server has nothing of it: it takes windows as they are.
        let syn = Segment { options: offer(1), ..Segment::syn(is_ip4, 4001) };
        let (ack, _) = open(&mut lab, &syn, SynOptions::default());
        let [there, _] = client(&mut lab, &[Segment { data: vec![1], ..ack.clone() }]);
        assert_eq!((there[0].acknowledgement, there[0].window), (9_001, 64_000));
        let tell =
            Segment { sequence: 9_001, acknowledgement: 102, window: 60_000, ..ack.back(ACK) };
        let [_, seen] = server(&mut lab, &[tell]);
        assert_eq!((seen[0].sequence, seen[0].window), (ack.acknowledgement, 60_000 >> 8));
        lab.assert_dropped(&[]);
    }
}

#[test]
fn what_is_lost_is_repeated() {
    for is_ip4 in [true, false] {
        let mut lab = Lab::new(&zoned(tcp_only(), Some(0)));
        let syn = Segment { options: offer(7_000), ..Segment::syn(is_ip4, 4000) };
        let [_, answers] = client(&mut lab, &[syn.clone(), syn.clone()]);
        assert_eq!(answers.len(), 2);
        let answer = &answers[1];
        let echo = answer.options.timestamps.unwrap().value;
        let ack = Segment { options: timestamps(7_001, echo), ..answer.back(ACK) };
        // The acknowledgement twice in a vector, then with data, and as a probe of the closed window.
        let data = Segment { data: vec![1; 9], ..ack.clone() };
        let probe = Segment { sequence: 100, ..ack.clone() };
        let [there, none] =
            client(&mut lab, &[ack.clone(), ack.clone(), data.clone(), probe.clone()]);
        assert!(none.is_empty() && there.len() == 4);
        let [more, _] = client(&mut lab, &[data, probe]);
        for syn in there.iter().chain(&more) {
            assert_eq!(
                (syn.flags, syn.sequence, syn.acknowledgement),
                (flag::SYN, 100, 0),
                "{syn:?}"
            );
            assert_eq!((&syn.data[..], syn.options.scale), (&[][..], Some(7)));
        }
        assert_eq!(counts(&mut lab), (2, 1, 0));
        // Something else cannot pass yet, of either side.
        let wrong = Segment { acknowledgement: 5, ..ack.clone() };
        let [there, back] = client(&mut lab, &[wrong]);
        assert!(there.is_empty() && back.is_empty());
        lab.assert_dropped(&[("syn-cookie-opening", 1)]);
        // An older connection of the server is ended, as the client would do.
        let older = Segment { sequence: 50, acknowledgement: 77, ..ack.back(ACK) };
        let [there, back] = server(&mut lab, &[older]);
        assert_eq!((there[0].flags, there[0].sequence, back.len()), (flag::RST, 77, 0));
        // The SYN-ACK is repeated, because our acknowledgement was lost.
        let theirs = SynOptions { scale: Some(10), ..offer(1_000_000) };
        let syn_ack = Segment { sequence: 9_000, options: theirs, ..syn.back(SYN_ACK) };
        let [_, to_client] = server(&mut lab, std::slice::from_ref(&syn_ack));
        assert_eq!(to_client.len(), 1);
        let [again, none] = server(&mut lab, &[syn_ack]);
        assert_eq!((again[0].flags, again[0].acknowledgement, none.len()), (ACK, 9_001, 0));
        lab.assert_dropped(&[]);
    }
}

#[test]
fn a_server_that_refuses_is_heard() {
    for is_ip4 in [true, false] {
        let mut lab = Lab::new(&zoned(tcp_only(), Some(0)));
        let syn = Segment::syn(is_ip4, 4000);
        let [_, answers] = client(&mut lab, std::slice::from_ref(&syn));
        let ack = answers[0].back(ACK);
        client(&mut lab, std::slice::from_ref(&ack));
        let reset =
            Segment { sequence: 0, acknowledgement: 101, flags: flag::RST | ACK, ..syn.back(ACK) };
        let [_, seen] = server(&mut lab, &[reset]);
        assert_eq!((seen[0].flags, seen[0].sequence), (flag::RST | ACK, ack.acknowledgement));
        assert_eq!(flows(&mut lab)[0].state, "tcp-reset");
        // The client itself gives up, and begins anew.
        let syn = Segment::syn(is_ip4, 4001);
        let [_, answers] = client(&mut lab, std::slice::from_ref(&syn));
        client(&mut lab, &[answers[0].back(ACK)]);
        let again = Segment { sequence: 5_000_000, ..syn };
        let [none, answers] = client(&mut lab, &[again]);
        assert_eq!((none.len(), answers[0].flags), (0, SYN_ACK));
        lab.assert_dropped(&[]);
    }
}

#[test]
fn forged_and_old_acknowledgements_are_dropped() {
    for is_ip4 in [true, false] {
        let mut lab = Lab::new(&zoned(tcp_only(), Some(0)));
        let syn = Segment::syn(is_ip4, 4000);
        // Without a cookie that was sent, it is no business of cookies.
        let early = Segment { flags: ACK, acknowledgement: 7, ..syn.clone() };
        client(&mut lab, std::slice::from_ref(&early));
        lab.assert_dropped(&[("tcp-no-connection", 1)]);
        let [_, answers] = client(&mut lab, std::slice::from_ref(&syn));
        let ack = answers[0].back(ACK);
        let forged = [
            Segment { acknowledgement: ack.acknowledgement ^ 1 << 20, ..ack.clone() },
            Segment { sequence: 300, ..ack.clone() },
            Segment { ports: (4001, 80), ..ack.clone() },
            Segment { ends: (1, 3), ..ack.clone() },
        ];
        client(&mut lab, &forged[..3]);
        lab.assert_dropped(&[("syn-cookie", 3)]);
        assert!(flows(&mut lab).is_empty());
        assert_eq!(counts(&mut lab), (1, 0, 3));
        // A key lives for two steps.
        lab.pass_time(Duration::from_secs(65));
        let [there, _] = client(&mut lab, std::slice::from_ref(&ack));
        assert_eq!(there[0].flags, flag::SYN);
        lab.state().clear_flows(&Selection::default());
        await_flows(&mut lab, 0);
        lab.pass_time(Duration::from_secs(65));
        let [there, _] = client(&mut lab, &[ack]);
        assert!(there.is_empty());
        lab.assert_dropped(&[("tcp-no-connection", 1)]);
    }
}

#[test]
fn rules_decide_about_both_packets() {
    for is_ip4 in [true, false] {
        let only = |port| RuleOfList { destination_ports: vec![(port, port)], ..tcp_only() };
        let mut lab = Lab::new(&zoned(only(80), Some(0)));
        // The pair refuses another port: no answer.
        let other = Segment { ports: (4000, 81), ..Segment::syn(is_ip4, 4000) };
        assert_eq!(client(&mut lab, &[other]), [vec![], vec![]]);
        lab.assert_dropped(&[("zone-pair", 1)]);
        // Rules that have changed refuse the acknowledgement.
        let [_, answers] = client(&mut lab, &[Segment::syn(is_ip4, 4000)]);
        let ack = answers[0].back(ACK);
        let setup = list(
            zoned(only(81), Some(0)),
            "web",
            &[("web", only(81)), ("rest", all(Action::Reject))],
        );
        lab.apply(&setup).unwrap();
        let [none, back] = client(&mut lab, std::slice::from_ref(&ack));
        assert!(none.is_empty());
        assert_eq!((back[0].flags, back[0].sequence), (flag::RST, ack.acknowledgement));
        lab.assert_dropped(&[("zone-pair", 1)]);
        // A rule of the input admits connections, and the pair accepts them without state.
        let plain = RuleOfList { is_stateful: false, ..only(80) };
        let setup = list(zoned(plain, Some(0)), "out", &[("out", tcp_only())]);
        lab.apply(&input(setup, "west", &["out"])).unwrap();
        open(&mut lab, &Segment::syn(is_ip4, 4002), SynOptions::default());
        lab.assert_dropped(&[]);
    }
}
