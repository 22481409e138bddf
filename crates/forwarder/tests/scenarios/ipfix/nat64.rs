//! Flows of NAT64 have the addresses of their IPv6 hosts: nobody could ask later who had a stand-in.

use std::net::Ipv6Addr;

use stoa_forwarder::control::desired::NatPolicy;
use stoa_forwarder::nat::Filtering;

use super::*;
use crate::nat64::{nat64, of};

const DESTINATION_IP4: (u32, u16) = (0, 12);
const DESTINATION_IP6: (u32, u16) = (0, 28);
const POST_DESTINATION: (u32, u16) = (0, 226);
const POST_SOURCE6: (u32, u16) = (0, 281);
const POST_DESTINATION6: (u32, u16) = (0, 282);

fn six(address: Ipv6Addr) -> u128 {
    address.to_bits()
}

fn four(address: Ipv4Addr) -> u128 {
    address.to_bits().into()
}

#[track_caller]
fn has(record: &Record, expected: &[((u32, u16), u128)]) {
    for (element, value) in expected {
        assert_eq!(record.get(element), Some(value), "{element:?} of {record:?}");
    }
}

fn from_host() -> [((u32, u16), u128); 4] {
    [
        (SOURCE_IP6, six(host6(1))),
        (DESTINATION_IP6, six(of(host4(2)))),
        (POST_SOURCE, four(our4(2))),
        (POST_DESTINATION, four(host4(2))),
    ]
}

#[test]
fn sessions_and_flows_have_both_families() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let (mut lab, mut collector) = begin(translated(nat64(mapping)), |_| {});
        let ask = udp_ports(host6(1), of(host4(2)), (5000, 53), b"ask");
        passed(&mut lab, 1, &ask, "east");
        let [create] = <[Record; 1]>::try_from(collector.records(NAT_EVENT, 1)).unwrap();
        has(&create, &from_host());
        has(&create, &[(NAT_EVENT, 6), (PROTOCOL, 17), (SOURCE_PORT, 5000)]);
        assert!(lab.state().clear_flows(&Selection::default()));
        let [delete, flow] = <[Record; 2]>::try_from(collector.records(POST_SOURCE, 2)).unwrap();
        has(&delete, &from_host());
        assert_eq!(delete[&NAT_EVENT], 7);
        has(&flow, &from_host());
        has(&flow, &[(PACKETS, 1), (REASON, 4), (POST_SOURCE_PORT, 5000)]);
    }
}

#[test]
fn a_ping_is_one_of_icmp6() {
    let setup = translated(nat64(Mapping::EndpointIndependent));
    let (mut lab, mut collector) = begin(setup, |it| it.nat_sessions = false);
    passed(&mut lab, 1, &ping6(host6(1), of(host4(2)), b"data"), "east");
    assert!(lab.state().clear_flows(&Selection::default()));
    let [flow] = <[Record; 1]>::try_from(collector.records(POST_SOURCE, 1)).unwrap();
    has(&flow, &from_host());
    has(&flow, &[(PROTOCOL, 58), ((0, 139), 128 << 8), (SOURCE_PORT, 0)]);
}

#[test]
fn each_direction_is_of_its_family() {
    let setup = translated(nat64(Mapping::EndpointDependent));
    let (mut lab, mut collector) = begin(setup, |it| it.is_biflow = false);
    passed(&mut lab, 1, &udp_ports(host6(1), of(host4(2)), (5000, 53), b"ask"), "east");
    passed(&mut lab, 2, &udp_ports(host4(2), our4(2), (53, 5000), b"reply"), "west");
    assert!(lab.state().clear_flows(&Selection::default()));
    let [there, back] = <[Record; 2]>::try_from(collector.flows(2)).unwrap();
    has(&there, &from_host());
    let to_host = [
        (SOURCE_IP4, four(host4(2))),
        (DESTINATION_IP4, four(our4(2))),
        (POST_SOURCE6, six(of(host4(2)))),
        (POST_DESTINATION6, six(host6(1))),
    ];
    has(&back, &to_host);
}

#[test]
fn a_flow_that_an_ip4_host_has_begun_names_the_ip6_host() {
    let open = NatPolicy { filtering: Filtering::Anyone, ..nat64(Mapping::EndpointIndependent) };
    let (mut lab, mut collector) = begin(translated(open), |_| {});
    passed(&mut lab, 1, &udp_ports(host6(1), of(host4(2)), (5000, 53), b"ask"), "east");
    collector.records(NAT_EVENT, 1);
    passed(&mut lab, 2, &udp_ports(host4(2), our4(2), (99, 5000), b"hello"), "west");
    let [create] = <[Record; 1]>::try_from(collector.records(NAT_EVENT, 1)).unwrap();
    // As packets of the host are.
    has(&create, &from_host());
    has(&create, &[(NAT_EVENT, 6), (SOURCE_PORT, 5000), ((0, 11), 99)]);
    assert!(lab.state().clear_flows(&Selection::default()));
    let all = collector.records(REASON, 2);
    let inward = all.iter().find(|it| it.contains_key(&POST_SOURCE6)).expect("a flow inward");
    has(inward, &[(SOURCE_IP4, four(host4(2))), (POST_DESTINATION6, six(host6(1)))]);
    has(inward, &[(POST_SOURCE6, six(of(host4(2)))), (POST_SOURCE_PORT, 99)]);
}

#[test]
fn an_ip6_host_without_a_port_is_an_event() {
    let narrow = NatPolicy { ports: (2_000, 2_000), ..nat64(Mapping::EndpointIndependent) };
    let (mut lab, mut collector) = begin(translated(narrow), |it| it.nat_sessions = false);
    let ask = |port| udp_ports(host6(1), of(host4(2)), (port, 53), b"ask");
    passed(&mut lab, 1, &ask(5_000), "east");
    lab.send("west", [packet_from(1, &ask(5_002))]);
    let [event] = <[Record; 1]>::try_from(collector.records(NAT_EVENT, 1)).unwrap();
    has(&event, &[(NAT_EVENT, 12), (SOURCE_IP6, six(host6(1))), (PROTOCOL, 17)]);
    lab.dropped();
    lab.take("west");
}

/// Its network of 64 bits has as many ports as it may have. Of all packets of a second, one is an event.
#[test]
fn an_ip6_host_at_its_quota_is_an_event() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let quotas = [None, Some(1), None, None];
        let of6 = NatPolicy { quotas, ..nat64(mapping) };
        let (mut lab, mut collector) = begin(translated(of6), |it| it.nat_sessions = false);
        let ask = |port| udp_ports(host6(1), of(host4(2)), (port, 53), b"ask");
        passed(&mut lab, 1, &ask(5_000), "east");
        lab.send("west", [packet_from(1, &ask(5_002))]);
        let [event] = <[Record; 1]>::try_from(collector.records(NAT_EVENT, 1)).unwrap();
        has(&event, &[(NAT_EVENT, 13), ((0, 466), 3), (SOURCE_IP6, six(host6(1)))]);
        assert!(!event.contains_key(&SOURCE_IP4), "{event:?}");
        lab.assert_dropped(&[("nat44-quota", 1)]);
        lab.take("west");
    }
}

/// Both ends of a hairpin are IPv6 hosts, whose stand-ins nobody outside knows.
#[test]
fn hosts_that_reach_each_other_have_their_own_addresses() {
    let open = NatPolicy { filtering: Filtering::Anyone, ..nat64(Mapping::EndpointIndependent) };
    let (mut lab, mut collector) = begin(translated(open), |_| {});
    let known = passed(&mut lab, 3, &udp_ports(host6(3), of(host4(2)), (7_000, 1), b"x"), "east");
    collector.records(NAT_EVENT, 1);
    let port = known.ports.unwrap().0;
    let ask = udp_ports(host6(1), of(our4(2)), (5_000, port), b"ask");
    let own = passed(&mut lab, 1, &ask, "north").ports.unwrap().0;
    let ends = [(SOURCE_IP6, six(host6(1))), (DESTINATION_IP6, six(of(our4(2))))];
    let [create] = <[Record; 1]>::try_from(collector.records(NAT_EVENT, 1)).unwrap();
    has(&create, &ends);
    has(&create, &[(NAT_EVENT, 6), (POST_SOURCE, four(our4(2))), (POST_SOURCE_PORT, own.into())]);
    has(&create, &[(POST_DESTINATION6, six(host6(3))), ((0, 228), 7_000)]);
    assert!(!create.contains_key(&POST_DESTINATION), "{create:?}");
    assert!(lab.state().clear_flows(&Selection::default()));
    let all = collector.records(REASON, 2);
    let between = all.iter().find(|it| it.contains_key(&POST_SOURCE6)).expect("one of both");
    has(between, &ends);
    has(between, &[(POST_SOURCE6, six(of(our4(2)))), (POST_DESTINATION6, six(host6(3)))]);
}
