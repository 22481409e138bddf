//! Who may ask, and for whom: the route to an address says where its host is.

use super::*;

/// What happens to a request of an address that west receives.
fn ask_as(lab: &mut Lab, source: Ipv4Addr, message: &[u8]) -> Vec<(String, u64)> {
    let packet = udp_ports(source, our4(1), (40_000, PORT), message);
    lab.send("west", [packet_from(1, &packet)]);
    lab.dropped()
}

#[test]
fn forged_sources_are_not_answered() {
    let mut lab = lab(pool_policy(control()));
    let ignored = [("pcp-ignored".to_owned(), 1)];
    // Hosts of north and outside, and one that no route has.
    for source in [host4(3), host4(2), Ipv4Addr::new(8, 8, 8, 8)] {
        let asked = Ask { client: source, ..map(UDP, 4000) }.bytes();
        for message in [&asked[..], &[0, 1, 0, 0, 15, 160, 0, 0, 0, 0, 14, 16], &[0, 0]] {
            assert_eq!(ask_as(&mut lab, source, message), ignored, "{source}");
        }
    }
    lab.assert_silent();
    assert_eq!(mappings(&mut lab), []);
    assert_eq!(result(&mut lab, &map(UDP, 4000)), SUCCESS);
}

#[test]
fn external_interfaces_are_not_served() {
    // North is inside of one policy, and the external interface of another one.
    let of_north = NatPolicy {
        policy: 2,
        interface: "north".to_owned(),
        pools: vec![net(Ipv4Addr::new(192, 0, 2, 9), 32)],
        ..policy(Mapping::EndpointIndependent)
    };
    let interfaces = vec!["west".to_owned(), "north".to_owned()];
    let asked = pool_policy(PortControl { interfaces, allows_third_party: true, ..control() });
    let setup = crate::nat44::with_nat(Setup::three_ports(), vec![asked, of_north], Vec::new());
    let mut lab = Lab::new(&setup);
    let request = Ask { client: host4(3), ..map(UDP, 4000) }.bytes();
    let packet = udp_ports(host4(3), our4(3), (40_000, PORT), &request);
    lab.send("north", [packet_from(3, &packet)]);
    assert_eq!(lab.only("north").icmp, Some((3, 3)));
    lab.dropped();
    let third = map(UDP, 4000).with(1, &mapped(host4(3)));
    assert_eq!(result(&mut lab, &third), NOT_AUTHORIZED);
    assert_eq!(result(&mut lab, &map(UDP, 4000)), SUCCESS);
}

#[test]
fn a_host_asks_only_for_hosts_that_could_ask() {
    let allowed = PortControl { allows_third_party: true, ..control() };
    let mut lab = lab(pool_policy(allowed));
    let third = |address: Ipv4Addr| map(UDP, 4000).with(1, &mapped(address));
    // The router, the external address, hosts of another interface and outside, and one without a route.
    let others = [our4(1), our4(2), POOL, host4(3), host4(2), Ipv4Addr::new(8, 8, 8, 8)];
    for other in others {
        assert_eq!(result(&mut lab, &third(other)), NOT_AUTHORIZED, "{other}");
    }
    for other in [[0; 4], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4]] {
        assert_eq!(result(&mut lab, &third(other.into())), 3, "MALFORMED_REQUEST: {other:?}");
    }
    assert_eq!(mappings(&mut lab), []);
    assert_eq!(result(&mut lab, &third(Ipv4Addr::new(10, 0, 1, 77))), SUCCESS);
}

#[test]
fn leases_for_others_count_for_who_asks() {
    let allowed = PortControl { allows_third_party: true, host_leases: 3, ..control() };
    let mut lab = lab(pool_policy(allowed));
    let third = |host: u8| map(UDP, 4000).with(1, &mapped(Ipv4Addr::new(10, 0, 1, host)));
    for host in [71, 72, 73] {
        assert_eq!(result(&mut lab, &third(host)), SUCCESS);
    }
    assert_eq!(result(&mut lab, &third(74)), 10, "USER_EX_QUOTA");
    assert_eq!(result(&mut lab, &map(UDP, 4000)), 10);
    assert_eq!(result(&mut lab, &third(71)), SUCCESS, "a renewal");
    let end = Ask { lifetime: 0, ..third(71) };
    assert_eq!(result(&mut lab, &end), SUCCESS);
    assert_eq!(result(&mut lab, &third(74)), SUCCESS);
}

#[test]
fn nat_pmp_is_silent_where_no_policy_answers_it() {
    let subscribers = vec![net(host4(3), 32)];
    let off = PortControl { has_nat_pmp: false, ..control() };
    let mut lab = lab(NatPolicy { subscribers, ..pool_policy(off) });
    let answer = exchange(&mut lab, 1, &[0, 0]);
    assert_eq!((answer[0], answer[3]), (2, 1), "UNSUPP_VERSION of PCP");
}

#[test]
fn leases_end_with_the_interface_of_their_host() {
    let both = |names: &[&str]| {
        let interfaces = names.iter().map(|it| (*it).to_owned()).collect();
        translated(pool_policy(PortControl { interfaces, ..control() }))
    };
    let mut lab = Lab::new(&both(&["west", "north"]));
    lab.state().stop_time();
    let external = ask(&mut lab, &map(UDP, 4000)).external;
    lab.apply(&both(&["north", "west"])).unwrap();
    passed(&mut lab, 2, &inward(9, external), "west");
    lab.apply(&both(&["north"])).unwrap();
    refused(&mut lab, 2, &inward(10, external), "nat44-no-mapping");
    assert_eq!(lab.state().nat().port_control.unwrap().leases, 0);
}
