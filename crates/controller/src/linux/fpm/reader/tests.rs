//! Frames in, events out.

use super::*;
use crate::learned::{NextHopPath, Target, Update};
use crate::linux::message::request;

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap();
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A BGP route to `10.NUMBER.0.0/16` with these attributes.
fn route(kind: u16, number: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
    route_of(186, kind, number, attributes)
}

/// The same of a protocol of rtnetlink(7).
fn route_of(protocol: u8, kind: u16, number: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
    let header = vec![2, 16, 0, 0, 254, protocol, 0, 1, 0, 0, 0, 0];
    let destination = attribute(1, &[10, number, 0, 0]);
    request(kind, 0, 0, &[vec![header, destination], attributes.to_vec()].concat().concat())
}

fn via(device: u32, gateway: [u8; 4]) -> Vec<Vec<u8>> {
    vec![attribute(4, &device.to_ne_bytes()), attribute(5, &gateway)]
}

fn object(kind: u16, id: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
    let id = attribute(1, &id.to_ne_bytes());
    request(kind, 0, 0, &[vec![vec![0; 8], id], attributes.to_vec()].concat().concat())
}

fn object_via(device: u32, gateway: [u8; 4]) -> Vec<Vec<u8>> {
    vec![attribute(5, &device.to_ne_bytes()), attribute(6, &gateway)]
}

fn frame(messages: &[Vec<u8>]) -> Vec<u8> {
    let messages = messages.concat();
    let length = u16::try_from(4 + messages.len()).unwrap().to_be_bytes();
    [&[1, 1, length[0], length[1]][..], &messages].concat()
}

/// Devices 3 and 4 are host interfaces.
fn interfaces(device: u32) -> Option<Arc<str>> {
    match device {
        3 => Some("a".into()),
        4 => Some("b".into()),
        _ => None,
    }
}

fn through(next_hops: &[(&str, [u8; 4], u16)]) -> Target {
    let next_hop = |(interface, gateway, weight): &(&str, [u8; 4], u16)| NextHopPath {
        interface: Some((*interface).into()),
        gateway: Some((*gateway).into()),
        weight: *weight,
    };
    Target::Paths(next_hops.iter().map(next_hop).collect(), Arc::default())
}

fn update(target: Option<Target>, numbers: &[u8]) -> Event {
    let ip4 = numbers.iter().map(|it| (u32::from_be_bytes([10, *it, 0, 0]), 16)).collect();
    Event::Update(Update { protocol: v1::Protocol::Bgp, target, ip4, ip6: vec![] })
}

fn read(reader: &mut Reader, bytes: &[u8]) -> Vec<Event> {
    assert_eq!(reader.read(bytes, 1_000, &mut interfaces), Ok(bytes.len()));
    reader.take_events()
}

#[test]
fn routes_with_one_target_become_one_run() {
    let (one, other) = (via(3, [192, 0, 2, 1]), via(4, [192, 0, 2, 2]));
    let frames = [
        frame(&[route(24, 1, &one)]),
        frame(&[route(24, 2, &one), route(24, 3, &one)]),
        frame(&[route(24, 4, &other)]),
        frame(&[route(25, 1, &one)]),
        frame(&[route(25, 4, &other)]),
    ];
    let mut reader = Reader::default();
    let events = read(&mut reader, &frames.concat());
    let (one, other) = (through(&[("a", [192, 0, 2, 1], 1)]), through(&[("b", [192, 0, 2, 2], 1)]));
    assert_eq!(
        events,
        [update(Some(one), &[1, 2, 3]), update(Some(other), &[4]), update(None, &[1, 4]),]
    );
    assert_eq!((reader.counts.updates, reader.counts.withdrawals), (4, 2));
}

#[test]
fn a_withdrawal_and_its_replacement_are_one_change() {
    let next_hop = via(3, [192, 0, 2, 1]);
    let bytes = frame(&[route(25, 1, &[]), route(24, 1, &next_hop)]);
    let events = read(&mut Reader::default(), &bytes);
    assert_eq!(events, [update(Some(through(&[("a", [192, 0, 2, 1], 1)])), &[1])]);
    // The replacement may be of another protocol: OSPF takes over from BGP.
    let bytes = frame(&[route(25, 1, &[]), route_of(188, 24, 1, &next_hop)]);
    let events = read(&mut Reader::default(), &bytes);
    let [Event::Update(Update { protocol, target: Some(_), .. })] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(*protocol, v1::Protocol::Ospf);
    // But not if the announcement is for another prefix.
    let bytes = frame(&[route(25, 1, &[]), route(24, 2, &next_hop)]);
    let events = read(&mut Reader::default(), &bytes);
    assert_eq!(events[0], update(None, &[1]));
}

#[test]
fn a_replacement_stays_one_change_across_batches() {
    let next_hop = via(3, [192, 0, 2, 1]);
    let frames: Vec<Vec<u8>> = (1..=4)
        .flat_map(|number| {
            [frame(&[route(25, number, &[])]), frame(&[route(24, number, &next_hop)])]
        })
        .collect();
    let bytes = frames.concat();
    for batch in 1..5 {
        let (mut reader, mut at, mut events) = (Reader::default(), 0, Vec::new());
        loop {
            let read = reader.read(&bytes[at..], batch, &mut interfaces).unwrap();
            at += read;
            events.extend(reader.take_events());
            if read == 0 {
                break;
            }
        }
        let target = Some(through(&[("a", [192, 0, 2, 1], 1)]));
        for event in events {
            let Event::Update(update) = event else { panic!("{event:?}") };
            assert_eq!(update.target, target, "batches of {batch}");
        }
        assert_eq!((at, reader.counts.withdrawals), (bytes.len(), 0));
        // A final withdrawal is released at once.
        let gone = frame(&[route(25, 7, &[])]);
        let read = reader.read(&gone, batch, &mut interfaces).unwrap();
        assert_eq!((read, reader.take_events()), (gone.len(), vec![update(None, &[7])]));
    }
}

#[test]
fn groups_of_next_hops_change_with_their_members() {
    let mut reader = Reader::default();
    let member = |id: u32, weight: u8| [&id.to_ne_bytes()[..], &[weight - 1, 0, 0, 0]].concat();
    let group = attribute(2, &[member(1, 1), member(2, 3)].concat());
    let on_group = [attribute(30, &9_u32.to_ne_bytes())];
    let bytes = frame(&[
        object(104, 1, &object_via(3, [192, 0, 2, 1])),
        object(104, 2, &object_via(4, [192, 0, 2, 2])),
        object(104, 9, &[group]),
        route(24, 1, &on_group),
    ]);
    let events = read(&mut reader, &bytes);
    let both = through(&[("a", [192, 0, 2, 1], 1), ("b", [192, 0, 2, 2], 3)]);
    assert_eq!(events[2..], [Event::Group(9, both), update(Some(Target::Group(9)), &[1])]);
    // The second next hop no longer leads through a host interface.
    let events = read(&mut reader, &frame(&[object(104, 2, &object_via(77, [192, 0, 2, 2]))]));
    let nowhere = Target::Paths(Arc::default(), Arc::default());
    let first = through(&[("a", [192, 0, 2, 1], 1)]);
    assert_eq!(events, [Event::Group(2, nowhere), Event::Group(9, first.clone())]);
    let events = read(&mut reader, &frame(&[object(105, 2, &[])]));
    assert_eq!(events, [Event::GroupDeleted(2), Event::Group(9, first)]);
}

#[test]
fn routes_without_a_host_interface_are_not_imported_until_they_have_one() {
    let mut reader = Reader::default();
    let on_object = [attribute(30, &5_u32.to_ne_bytes())];
    let bytes = frame(&[
        object(104, 5, &object_via(77, [192, 0, 2, 1])),
        route(24, 1, &on_object),
        route(24, 2, &via(78, [192, 0, 2, 1])),
    ]);
    let events = read(&mut reader, &bytes);
    // A previous route to the prefix may have been imported.
    assert_eq!(events[1..], [update(None, &[1, 2])]);
    assert_eq!(reader.counts.not_imported, 2);
    let (prefix, reason) = reader.counts.last_not_imported.unwrap();
    assert_eq!(
        (prefix.to_string().as_str(), reason),
        ("10.2.0.0/16", "no next hop leads through a host interface of Stoa")
    );
    assert!(!reader.needs_resync());
    read(&mut reader, &frame(&[object(104, 5, &object_via(3, [192, 0, 2, 1]))]));
    assert!(reader.needs_resync());
}

#[test]
fn connected_and_own_routes_are_not_learned() {
    let mut reader = Reader::default();
    let body = |protocol: u8, more: Vec<u8>| {
        let header = vec![2, 16, 0, 0, 254, protocol, 0, 1, 0, 0, 0, 0];
        let destination = attribute(1, &[10, 1, 0, 0]);
        request(24, 0, 0, &[header, destination, attribute(4, &3_u32.to_ne_bytes()), more].concat())
    };
    let events = read(&mut reader, &frame(&[body(2, vec![])]));
    assert!(matches!(&events[..], [Event::Update(Update { target: None, .. })]));
    let events = read(&mut reader, &frame(&[body(83, attribute(5, &[192, 0, 2, 1]))]));
    assert!(matches!(&events[..], [Event::Update(Update { target: None, .. })]));
    assert_eq!(reader.counts.not_imported, 0);
    // A route that an operator added has a gateway or another protocol.
    let events = read(&mut reader, &frame(&[body(3, vec![])]));
    assert!(matches!(&events[..], [Event::Update(Update { target: Some(_), .. })]));
}

#[test]
fn framing_errors_end_the_session_but_bad_messages_do_not() {
    let mut reader = Reader::default();
    let good = route(24, 1, &via(3, [192, 0, 2, 1]));
    let mut bad = route(24, 2, &via(3, [192, 0, 2, 1]));
    bad[17] = 99;
    let bytes = frame(&[bad, good.clone()]);
    assert_eq!(read(&mut reader, &bytes).len(), 1);
    assert_eq!(reader.counts.malformed, 1);
    // An incomplete frame waits for the rest.
    let whole = frame(&[good]);
    assert_eq!(reader.read(&whole[..whole.len() - 1], 10, &mut interfaces), Ok(0));
    for broken in [vec![2, 1, 0, 8], vec![1, 1, 0, 3], vec![1, 2, 0, 8]] {
        assert!(reader.read(&broken, 10, &mut interfaces).is_err());
        // What preceded the error counts.
        let bytes = [whole.clone(), broken].concat();
        assert_eq!(reader.read(&bytes, 10, &mut interfaces), Ok(whole.len()));
    }
}
