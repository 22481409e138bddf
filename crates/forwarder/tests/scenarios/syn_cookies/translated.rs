//! SYN cookies beside NAT44: connections that nothing translates, port forwards, and sources that are translated.

use std::time::Duration;

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::Limits;
use stoa_forwarder::control::desired::{NatMapping, NatPolicy, NatRemote, RuleOfList};
use stoa_forwarder::flow::selection::Selection;
use stoa_forwarder::nat::Mapping;
use stoa_wire::tcp_options::SynOptions;

use super::segment::{ACK, OF_POOL, OURS, SYN_ACK, Segment, offer, timestamps};
use super::{client, counts, open, server, tcp_only, zoned};
use crate::acl::{all, input, list};
use crate::acl_stateful::{await_flows, flows};
use crate::harness::*;
use crate::nat44::{POOL, net, policy, with_nat};
use crate::nat44_forwards::forward;

/// The external port of the forward.
const PORT: u16 = 8080;

/// Port 8080 of the address of west is port 80 of host 2, which is in the zone wan.
fn mapping() -> NatMapping {
    let (internal, external) = (net(host4(2), 32), net(our4(1), 32));
    NatMapping { internal, external, ..forward(PORT, 80, 0) }
}

fn forwarded(setup: Setup, mapping: NatMapping) -> Setup {
    let outside = NatPolicy { interface: "west".into(), ..policy(Mapping::EndpointIndependent) };
    with_nat(setup, vec![outside], vec![mapping])
}

/// With a list of west that admits connections.
fn at_input(setup: Setup) -> Setup {
    let setup = list(setup, "in", &[("in", tcp_only()), ("rest", all(Action::Accept))]);
    input(setup, "west", &["in"])
}

/// A SYN of host 1 to the port forward.
fn syn(port: u16) -> Segment {
    let (ends, ports) = ((1, OURS + 1), (port, PORT));
    Segment { ends, ports, options: offer(7_000), ..Segment::syn(true, port) }
}

#[test]
fn a_connection_to_a_port_forward_is_spliced() {
    for (external, has_list) in
        [(OURS + 1, false), (OURS + 1, true), (OF_POOL, false), (OF_POOL, true)]
    {
        let address = if external == OF_POOL { POOL } else { our4(1) };
        let mapping = NatMapping { external: net(address, 32), ..mapping() };
        let setup = forwarded(zoned(tcp_only(), Some(0)), mapping);
        let syn = |port| Segment { ends: (1, external), ..syn(port) };
        let mut lab = Lab::new(&if has_list { at_input(setup) } else { setup });
        // Twice in a vector: neither leaves a flow.
        let [none, answers] = client(&mut lab, &[syn(4000), syn(4000)]);
        assert_eq!((none.len(), answers.len()), (0, 2), "{none:?} {answers:?}");
        assert!(flows(&mut lab).is_empty());
        let answer = &answers[1];
        assert_eq!((answer.flags, answer.window, answer.acknowledgement), (SYN_ACK, 0, 101));
        assert_eq!((answer.ends, answer.ports), ((external, 1), (PORT, 4000)));
        let clock = answer.options.timestamps.unwrap().value;
        let ack = Segment { window: 500, options: timestamps(7_001, clock), ..answer.back(ACK) };
        let [there, none] = client(&mut lab, &[ack.clone(), ack.clone()]);
        assert_eq!((there.len(), none.len()), (2, 0));
        let [again, _] = client(&mut lab, std::slice::from_ref(&ack));
        let expected = Segment {
            ends: (1, 2),
            ports: (4000, 80),
            options: SynOptions { timestamps: timestamps(7_001, 0).timestamps, ..offer(0) },
            ..syn(4000)
        };
        assert!(there.iter().chain(&again).all(|it| *it == expected), "{there:?} {again:?}");
        assert_eq!(counts(&mut lab), (2, 1, 0));
        let listed = flows(&mut lab);
        // Packets to an address of the router begin no flow at the input.
        let name = if has_list && external == OF_POOL { "in" } else { "web" };
        assert_eq!((listed.len(), listed[0].acl.as_str()), (1, name));
        // The server answers, and both send data.
        let options = SynOptions { scale: Some(10), ..offer(1_000_000) };
        let syn_ack =
            Segment { sequence: 9_000, window: 60_000, options, ..expected.back(SYN_ACK) };
        let [to_server, to_client] = server(&mut lab, &[syn_ack]);
        assert_eq!((to_server.len(), to_client.len()), (1, 1));
        let [acked, seen] = [&to_server[0], &to_client[0]];
        assert_eq!((acked.flags, acked.sequence, acked.acknowledgement), (ACK, 101, 9_001));
        assert_eq!((acked.ends, acked.ports), ((1, 2), (4000, 80)));
        assert_eq!(
            (seen.flags, seen.sequence, seen.window),
            (ACK, ack.acknowledgement, 60_000 >> 8)
        );
        assert_eq!((seen.ends, seen.ports), ((external, 1), (PORT, 4000)));
        let [there, _] = client(&mut lab, &[Segment { data: b"GET".to_vec(), ..ack.clone() }]);
        assert_eq!((there[0].acknowledgement, there[0].ends), (9_001, (1, 2)));
        let tell = Segment { acknowledgement: 104, data: vec![5; 9], ..there[0].back(ACK) };
        let [_, seen] = server(&mut lab, &[tell]);
        assert_eq!((seen[0].sequence, seen[0].ends), (ack.acknowledgement, (external, 1)));
        let listed = flows(&mut lab);
        assert_eq!((listed.len(), listed[0].state.as_str()), (1, "tcp-established"));
        lab.assert_dropped(&[]);
    }
}

#[test]
fn a_flood_to_a_port_forward_leaves_no_flow() {
    const THRESHOLD: u32 = 16;
    let setup = forwarded(zoned(tcp_only(), Some(THRESHOLD)), mapping());
    let limits = Limits { flows4: 64, flows6: 64, ..LIMITS };
    let mut lab = Lab::with(&setup, limits, |_| Wire::new(1, 8));
    let (mut passed, mut answered) = (0, 0);
    for port in 0..500 {
        let [there, back] = client(&mut lab, &[syn(10_000 + port)]);
        (passed, answered) = (passed + there.len(), answered + back.len());
    }
    assert_eq!((passed, answered), (THRESHOLD as usize, 500 - THRESHOLD as usize));
    assert_eq!(flows(&mut lab).len(), THRESHOLD as usize);
    let state = |lab: &mut Lab| lab.state().list_zone_pairs().syn_cookies[0].clone();
    assert_eq!((state(&mut lab).half_open, state(&mut lab).is_on), (THRESHOLD, true));
    // Half-open connections of before go on.
    let [there, back] = client(&mut lab, &[syn(10_000)]);
    assert_eq!((there.len(), back.len()), (1, 0));
    lab.state().skip(Duration::from_secs(250));
    await_flows(&mut lab, 0);
    lab.pass_time(Duration::from_secs(11));
    assert_eq!((state(&mut lab).half_open, state(&mut lab).is_on), (0, false));
    lab.assert_dropped(&[]);
}

#[test]
fn mappings_that_have_gone_take_their_cookies_along() {
    let mut lab = Lab::new(&forwarded(zoned(tcp_only(), Some(0)), mapping()));
    let [_, answers] = client(&mut lab, &[syn(4000)]);
    let other = NatMapping { ports: Some((80, PORT + 1, 0)), ..mapping() };
    lab.apply(&forwarded(zoned(tcp_only(), Some(0)), other)).unwrap();
    lab.settle();
    let [there, _] = client(&mut lab, &[answers[0].back(ACK)]);
    assert!(there.is_empty(), "{there:?}");
    lab.take("west");
    assert!(flows(&mut lab).is_empty());
}

/// Rules without state ask about each packet, and twice NAT holds a port: none of these gets a cookie.
#[test]
fn forwards_that_cannot_be_spliced_open_as_they_do_without_cookies() {
    let plain = RuleOfList { is_stateful: false, ..tcp_only() };
    let twice = NatMapping {
        remote: Some(NatRemote { addresses: net(our4(2), 32), ports: (2000, 2999) }),
        ..mapping()
    };
    let cases = [
        (forwarded(zoned(plain, Some(0)), mapping()), 1),
        (forwarded(zoned(tcp_only(), Some(0)), twice), OURS + 2),
    ];
    for (setup, source) in cases {
        let mut lab = Lab::new(&setup);
        let [there, back] = client(&mut lab, &[syn(4000)]);
        assert_eq!((there.len(), back.len()), (1, 0));
        assert_eq!(there[0].ends, (source, 2));
        assert_eq!(flows(&mut lab).len(), 1);
        lab.assert_dropped(&[]);
    }
}

#[test]
fn connections_that_nothing_translates_get_cookies_beside_nat() {
    let cases = [("north", Vec::new()), ("east", vec![net(host4(3), 32)])];
    for (interface, subscribers) in cases {
        for has_list in [false, true] {
            let of = policy(Mapping::EndpointIndependent);
            let of =
                NatPolicy { interface: interface.into(), subscribers: subscribers.clone(), ..of };
            let setup = with_nat(zoned(tcp_only(), Some(0)), vec![of], Vec::new());
            let mut lab = Lab::new(&if has_list { at_input(setup) } else { setup });
            for is_ip4 in [true, false] {
                let syn = Segment { options: offer(7_000), ..Segment::syn(is_ip4, 4000) };
                open(&mut lab, &syn, SynOptions::default());
            }
            lab.assert_dropped(&[]);
        }
    }
}

#[test]
fn sources_that_are_translated_get_their_flow_at_the_syn() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        for has_list in [false, true] {
            let setup = with_nat(zoned(tcp_only(), Some(0)), vec![policy(mapping)], Vec::new());
            let mut lab = Lab::new(&if has_list { at_input(setup) } else { setup });
            let syn = Segment { options: offer(7_000), ..Segment::syn(true, 4000) };
            let [there, back] = client(&mut lab, std::slice::from_ref(&syn));
            assert_eq!((there.len(), back.len()), (1, 0));
            assert_eq!(there, [Segment { ends: (OURS + 2, 2), ..syn }]);
            let flow = flows(&mut lab).pop().unwrap();
            let name = if has_list { "in" } else { "web" };
            assert_eq!((flow.acl.as_str(), flow.state.as_str()), (name, "tcp-opening"));
            assert_eq!((flow.packets, flow.suspended), (1, false));
            let [_, seen] = server(&mut lab, &[Segment { sequence: 9, ..there[0].back(SYN_ACK) }]);
            assert_eq!((seen[0].flags, seen[0].ends), (SYN_ACK, (2, 1)));
            let [there, _] = client(&mut lab, &[seen[0].back(ACK)]);
            assert_eq!((there[0].ends, there[0].acknowledgement), ((OURS + 2, 2), 10));
            lab.state().clear_flows(&Selection::default());
            await_flows(&mut lab, 0);
            lab.assert_dropped(&[]);
        }
    }
}
