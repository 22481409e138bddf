//! SYN cookies under a flood, beside zones without cookies, with several workers, and errors about segments.

use std::time::Duration;

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::Limits;
use stoa_forwarder::control::desired::ZonePair;
use stoa_wire::tcp_options::SynOptions;

use super::segment::{ACK, SYN_ACK, Segment, offer, timestamps};
use super::{client, counts, open, sent, server, tcp_only, zoned};
use crate::acl::{all, input, list};
use crate::acl_stateful::{await_flows, flows, icmp4, icmp6};
use crate::harness::*;

#[test]
fn a_flood_leaves_no_flow_and_honest_clients_connect() {
    const THRESHOLD: u32 = 16;
    for is_ip4 in [true, false] {
        let limits = Limits { flows4: 64, flows6: 64, ..LIMITS };
        let mut lab = Lab::with(&zoned(tcp_only(), Some(THRESHOLD)), limits, |_| Wire::new(1, 8));
        let state = |lab: &mut Lab| lab.state().list_zone_pairs().syn_cookies[0].clone();
        // Below the threshold, SYNs pass.
        let syn = |port| Segment { options: offer(1), ..Segment::syn(is_ip4, port) };
        let [there, back] = client(&mut lab, &[syn(3000)]);
        assert_eq!((there.len(), back.len()), (1, 0));
        assert_eq!(state(&mut lab).half_open, 1);
        let [_, seen] = server(&mut lab, &[Segment { sequence: 9, ..there[0].back(SYN_ACK) }]);
        client(&mut lab, &[seen[0].back(ACK)]);
        assert_eq!(state(&mut lab).half_open, 0);
        let (mut passed, mut answered) = (0, 0);
        for port in 0..2_000 {
            let [there, back] = client(&mut lab, &[syn(10_000 + port)]);
            (passed, answered) = (passed + there.len(), answered + back.len());
        }
        assert_eq!((passed, answered), (THRESHOLD as usize, 2_000 - THRESHOLD as usize));
        assert_eq!(flows(&mut lab).len(), 1 + THRESHOLD as usize);
        assert!(state(&mut lab).is_on);
        let open_before = flows(&mut lab).iter().filter(|it| it.state == "tcp-established").count();
        assert_eq!(open_before, 1);
        open(&mut lab, &syn(3001), offer(5));
        // Half-open connections end, and cookies go off some seconds later.
        lab.state().skip(Duration::from_secs(250));
        await_flows(&mut lab, 2);
        lab.pass_time(Duration::from_secs(11));
        let after = state(&mut lab);
        assert_eq!((after.half_open, after.is_on), (0, false));
        let [there, back] = client(&mut lab, &[syn(3002)]);
        assert_eq!((there.len(), back.len()), (1, 0));
        lab.assert_dropped(&[]);
    }
}

#[test]
fn other_zones_get_their_flows_meanwhile() {
    for is_ip4 in [true, false] {
        let setup = zoned(tcp_only(), Some(0)).with("north", |it| it.zone = "dmz".to_owned());
        let setup = list(setup, "in", &[("in", tcp_only()), ("rest", all(Action::Accept))]);
        let mut setup = input(setup, "west", &["in"]);
        let acls = vec!["web".to_owned()];
        let pair = ZonePair { acls4: acls.clone(), acls6: acls };
        setup.0.zone_pairs.insert(("lan".to_owned(), "dmz".to_owned()), pair);
        let mut lab = Lab::new(&setup);
        let syn = Segment { ends: (1, 3), ..Segment::syn(is_ip4, 4000) };
        lab.send("west", [packet_from(1, &syn.packet())]);
        assert_eq!(Segment::of(&lab.take("north")[0]), syn);
        let flow = flows(&mut lab).pop().unwrap();
        assert_eq!(
            (flow.acl.as_str(), flow.packets, flow.state.as_str()),
            ("in", 1, "tcp-opening")
        );
        let answer = Segment { sequence: 9, ..syn.back(SYN_ACK) };
        lab.send("north", [packet_from(3, &answer.packet())]);
        assert_eq!(Segment::of(&lab.take("west")[0]), answer);
        lab.assert_dropped(&[]);
    }
}

#[test]
fn errors_about_spliced_segments_have_the_numbers_of_their_sender() {
    let mut lab = Lab::new(&zoned(tcp_only(), Some(0)));
    for is_ip4 in [true, false] {
        let (ack, _) = open(&mut lab, &Segment::syn(is_ip4, 4000), SynOptions::default());
        let tell =
            Segment { sequence: 9_001, acknowledgement: 101, data: vec![0; 9], ..ack.back(ACK) };
        let [_, seen] = server(&mut lab, &[tell]);
        // From the client's side, about the server's segment: the packet is too big.
        let quoted = seen[0].packet();
        let mut error = match is_ip4 {
            true => icmp4(3, 4, [0, 0, 5, 0], &quoted[..28]),
            false => icmp6(2, 0, [0, 0, 5, 0], &quoted),
        };
        reverse(&mut error, is_ip4);
        lab.send("west", [packet_from(1, &error)]);
        let frame = lab.take("east").pop().unwrap();
        let parsed = parse(&frame);
        let header = if is_ip4 { 20 } else { 40 };
        assert_eq!(parsed.payload[header + 4..header + 8], 9_001_u32.to_be_bytes());
    }
}

/// Host 1 sends an error of host 2.
fn reverse(packet: &mut [u8], is_ip4: bool) {
    let (start, length) = if is_ip4 { (12, 4) } else { (8, 16) };
    let (source, rest) = packet[start..].split_at_mut(length);
    source.swap_with_slice(&mut rest[..length]);
}

#[test]
fn several_workers_share_connections() {
    for is_ip4 in [true, false] {
        let setup = zoned(tcp_only(), Some(0)).workers(2);
        let mut lab = Lab::with(&setup, LIMITS, |_| Wire::new(2, 8));
        for (at, queues) in [(0, [0, 1]), (1, [1, 0]), (2, [1, 1])] {
            let syn = Segment { options: offer(1), ..Segment::syn(is_ip4, 4000 + at) };
            let via = |lab: &mut Lab, port: &str, queue: usize, n: u8, it: &Segment| {
                lab.put(port, queue, [packet_from(n, &it.packet())]);
                lab.settle();
                sent(lab)
            };
            let [_, answers] = via(&mut lab, "west", queues[0], 1, &syn);
            let echo = answers[0].options.timestamps.unwrap().value;
            let ack = Segment { options: timestamps(2, echo), ..answers[0].back(ACK) };
            // The SYN-ACK and all that follows come to another worker than the flow has.
            let [there, _] = via(&mut lab, "west", queues[1], 1, &ack);
            let syn_ack = Segment { sequence: 9_000, options: offer(5), ..there[0].back(SYN_ACK) };
            let [_, seen] = via(&mut lab, "east", queues[0], 2, &syn_ack);
            assert_eq!(seen[0].sequence, ack.acknowledgement);
            let data = Segment { data: vec![3], ..ack.clone() };
            let [there, _] = via(&mut lab, "west", queues[0], 1, &data);
            assert_eq!(there[0].acknowledgement, 9_001);
        }
        assert_eq!(counts(&mut lab), (3, 3, 0));
        lab.assert_dropped(&[]);
    }
}
