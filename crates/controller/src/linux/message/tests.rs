//! Messages built by another library are parsed as intended, and no bytes cause a panic.

use std::net::IpAddr;

use proptest::prelude::*;
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteNextHop, RouteProtocol, RouteType, RouteVia,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use stoa_api::v1;

use super::*;

/// The properties of a route.
#[derive(Clone, Debug)]
struct TestRoute {
    prefix: Prefix,
    table: u32,
    protocol: u8,
    metric: u32,
    next_hops: Vec<NextHop>,
}

fn address(is_ip6: bool) -> impl Strategy<Value = IpAddr> {
    any::<u128>().prop_map(move |bits| match is_ip6 {
        // An unspecified address is no gateway.
        true => IpAddr::from((bits | 1).to_be_bytes()),
        false => IpAddr::from(((bits as u32) | 1).to_be_bytes()),
    })
}

fn next_hop(is_ip6: bool) -> impl Strategy<Value = NextHop> {
    (1..1_000_u32, proptest::option::of(address(is_ip6)), 1..=256_u16)
        .prop_map(|(device, gateway, weight)| NextHop { device, gateway, weight })
}

fn route_strategy() -> impl Strategy<Value = TestRoute> {
    (any::<bool>(), any::<u8>(), any::<u32>(), any::<u8>(), any::<u32>()).prop_flat_map(
        |(is_ip6, length, table, protocol, metric)| {
            let length = length % if is_ip6 { 129 } else { 33 };
            (address(is_ip6), proptest::collection::vec(next_hop(is_ip6), 1..5)).prop_map(
                move |(address, next_hops)| {
                    let prefix = Prefix::of(address, length).unwrap();
                    TestRoute { prefix, table: table.max(1), protocol, metric, next_hops }
                },
            )
        },
    )
}

fn ip_of(prefix: &Prefix) -> IpAddr {
    match prefix.is_ip6 {
        true => IpAddr::from(prefix.bits.to_be_bytes()),
        false => IpAddr::from(u32::try_from(prefix.bits).unwrap().to_be_bytes()),
    }
}

fn route_address(address: IpAddr) -> RouteAddress {
    match address {
        IpAddr::V4(four) => RouteAddress::Inet(four),
        IpAddr::V6(six) => RouteAddress::Inet6(six),
    }
}

/// The message as netlink-packet-route builds it.
fn message(route_strategy: &TestRoute) -> RouteMessage {
    let mut message = RouteMessage::default();
    let header = &mut message.header;
    header.address_family =
        if route_strategy.prefix.is_ip6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    header.destination_prefix_length = route_strategy.prefix.length;
    header.protocol = RouteProtocol::from(route_strategy.protocol);
    header.kind = RouteType::Unicast;
    let attributes = &mut message.attributes;
    attributes.push(RouteAttribute::Table(route_strategy.table));
    attributes.push(RouteAttribute::Destination(route_address(ip_of(&route_strategy.prefix))));
    attributes.push(RouteAttribute::Priority(route_strategy.metric));
    if let [next_hop] = route_strategy.next_hops.as_slice()
        && next_hop.weight == 1
    {
        attributes.push(RouteAttribute::Oif(next_hop.device));
        attributes.extend(next_hop.gateway.map(|it| RouteAttribute::Gateway(route_address(it))));
        return message;
    }
    let hops = route_strategy.next_hops.iter().map(|next_hop| {
        let mut hop = RouteNextHop::default();
        hop.interface_index = next_hop.device;
        hop.hops = u8::try_from(next_hop.weight - 1).unwrap();
        hop.attributes
            .extend(next_hop.gateway.map(|it| RouteAttribute::Gateway(route_address(it))));
        hop
    });
    attributes.push(RouteAttribute::MultiPath(hops.collect()));
    message
}

fn bytes(message: RouteMessage) -> Vec<u8> {
    let payload = NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(message));
    let mut message = NetlinkMessage::new(Default::default(), payload);
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

fn single(bytes: &[u8]) -> Message<'_> {
    let mut messages = Messages::of(bytes);
    let one = messages.next().unwrap().unwrap();
    assert_eq!(messages.next(), None);
    one
}

proptest! {
    #[test]
    fn routes_of_another_library_are_parsed(route_strategy in route_strategy()) {
        let bytes = bytes(message(&route_strategy));
        let one = single(&bytes);
        prop_assert_eq!(one.kind, kind::NEW_ROUTE);
        let route = Route::read(one.body).unwrap().unwrap();
        prop_assert_eq!(route.prefix, route_strategy.prefix);
        prop_assert_eq!(
            (route.table, route.protocol, route.metric),
            (route_strategy.table, route_strategy.protocol, route_strategy.metric)
        );
        prop_assert_eq!(route.next_hops().collect::<Vec<_>>(), route_strategy.next_hops);
    }

    #[test]
    fn corrupted_messages_do_not_panic(route_strategy in route_strategy(), at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>()) {
        let mut bytes = bytes(message(&route_strategy));
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(cut.index(bytes.len()) + 1);
        read_all(&bytes);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
        let _ = Route::read(&bytes);
        let _ = NextHopObject::read(&bytes);
        let _ = Link::read(&bytes);
        let _ = Address::read(&bytes);
        let _ = Neighbor::read(&bytes);
        let _ = Rule::read(&bytes);
    }

    #[test]
    fn groups_are_parsed(members in proptest::collection::vec((1_u32.., 1..=256_u32), 0..20)) {
        let group: Vec<u8> = members
            .iter()
            .flat_map(|(id, weight)| {
                let weight = u8::try_from(weight - 1).unwrap();
                id.to_ne_bytes().into_iter().chain([weight, 0, 0, 0])
            })
            .collect();
        let body = [vec![0; 8], attribute(1, &7_u32.to_ne_bytes()), attribute(2, &group)].concat();
        let next_hop = NextHopObject::read(&body).unwrap();
        prop_assert_eq!(next_hop.id, 7);
        prop_assert_eq!(next_hop.members().collect::<Vec<_>>(), members);
    }
}

/// Parses all messages and checks the guarantees of the parser.
fn read_all(bytes: &[u8]) {
    for message in Messages::of(bytes).map_while(Result::ok) {
        if let Ok(Some(route)) = Route::read(message.body) {
            assert!(route.prefix.length <= if route.prefix.is_ip6 { 128 } else { 32 });
            let again = Prefix::of(ip_of(&route.prefix), route.prefix.length);
            assert_eq!(again, Some(route.prefix), "no host bits");
            assert!(route.next_hops().all(|next_hop| (1..=256).contains(&next_hop.weight)));
        }
        let _ = NextHopObject::read(message.body);
    }
}

/// An attribute as bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap();
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The body of a route: header and attributes.
fn body(family: u8, length: u8, kind: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
    let header = vec![family, length, 0, 0, 254, 186, 0, kind, 0, 0, 0, 0];
    [vec![header], attributes.to_vec()].concat().concat()
}

#[test]
fn unsupported_routes_are_named() {
    let mut via = RouteMessage::default();
    via.header.address_family = AddressFamily::Inet;
    via.header.kind = RouteType::Unicast;
    via.attributes.push(RouteAttribute::Via(RouteVia::Inet6("fe80::1".parse().unwrap())));
    let via = bytes(via);
    let reason = Route::read(single(&via).body).unwrap_err();
    assert_eq!(reason, MessageError::Unsupported("an IPv4 route with an IPv6 gateway (RFC 8950)"));
    let destination = attribute(1, &[10, 0, 0, 0]);
    for (kind, more, word) in [
        (1, attribute(22, &[0; 4]), "encapsulates"),
        (1, attribute(2, &[10, 0, 0, 0]), "some sources"),
        (9, attribute(6, &[0; 4]), "throw"),
    ] {
        let reason = Route::read(&body(2, 8, kind, &[destination.clone(), more])).unwrap_err();
        assert!(
            matches!(reason, MessageError::Unsupported(reason) if reason.contains(word)),
            "{reason}"
        );
    }
    for bad in [
        body(2, 33, 1, &[]),
        body(2, 8, 1, &[attribute(1, &[10, 0, 0])]),
        body(2, 8, 1, &[attribute(1, &[0; 16])]),
        body(2, 8, 1, &[attribute(9, &[9, 0, 0, 0, 1, 0, 0, 0])]),
        body(2, 8, 1, &[vec![3, 0, 0, 0]]),
        vec![2; 11],
    ] {
        let reason = Route::read(&bad).unwrap_err();
        assert!(matches!(reason, MessageError::Malformed(_)), "{reason}");
    }
}

#[test]
fn route_types_and_next_hop_objects_are_distinguished() {
    let destination = attribute(1, &[10, 9, 8, 7]);
    let read = |kind: u8, more: &[Vec<u8>]| {
        let body = body(2, 16, kind, &[std::slice::from_ref(&destination), more].concat());
        Route::read(&body)
            .unwrap()
            .map(|route| (route.prefix.to_string(), format!("{:?}", route.action)))
    };
    let is = |action: &str| Some(("10.9.0.0/16".to_owned(), action.to_owned()));
    assert_eq!(read(6, &[]), is("Special(Blackhole)"));
    assert_eq!(read(7, &[]), is("Special(Unreachable)"));
    assert_eq!(read(8, &[]), is("Special(Prohibit)"));
    assert_eq!(read(1, &[attribute(30, &7_u32.to_ne_bytes())]), is("NextHopObject(7)"));
    // Local, broadcast and multicast routes are the kernel's own.
    assert_eq!((read(2, &[]), read(3, &[]), read(5, &[])), (None, None, None));
    let black = [vec![0; 8], attribute(1, &9_u32.to_ne_bytes()), attribute(4, &[])].concat();
    let black = NextHopObject::read(&black).unwrap();
    assert_eq!(black.action, Some(next_hop::Action::Special(v1::Special::Blackhole)));
    assert!(NextHopObject::read(&[0; 8]).is_err(), "no id");
}
