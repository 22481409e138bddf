//! Quotas of policies without blocks of ports: each source has as many ports as it may have.

use std::net::Ipv4Addr;
use std::time::Duration;

use stoa_forwarder::control::Limits;
use stoa_forwarder::control::desired::NatPolicy;
use stoa_forwarder::nat::Mapping;
use stoa_wire::tcp::flag;

use crate::acl_stateful::{await_flows, flows};
use crate::harness::*;
use crate::nat44::{passed, policy, refused, segment, translated};

fn ask(host: u8, port: u16, to: u16) -> Vec<u8> {
    udp_ports(host4(host), host4(2), (port, to), b"ask")
}

/// Drops a packet of host 1; how many errors it gets.
fn refuse(lab: &mut Lab, packet: &[u8]) -> usize {
    lab.send("west", [packet_from(1, packet)]);
    lab.assert_dropped(&[("nat44-quota", 1)]);
    assert_eq!(lab.take("east"), Vec::<Vec<u8>>::new());
    let back = lab.parsed("west");
    assert!(back.iter().all(|it| it.icmp == Some((3, 13))));
    back.len()
}

#[test]
fn a_source_has_as_many_ports_as_it_may_have() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let of = NatPolicy { quotas: [None, Some(3), None, Some(4)], ..policy(mapping) };
        let mut lab = Lab::new(&translated(of.clone()));
        for port in 5000..5003 {
            passed(&mut lab, 1, &ask(1, port, 53), "east");
        }
        assert_eq!(refuse(&mut lab, &ask(1, 5003, 53)), 1);
        // What it has goes on. With mappings, another destination takes no port more.
        passed(&mut lab, 1, &ask(1, 5000, 53), "east");
        if mapping == Mapping::EndpointIndependent {
            passed(&mut lab, 1, &ask(1, 5000, 54), "east");
        }
        // Others have quotas of their own, and so have other protocols.
        passed(&mut lab, 3, &ask(3, 5000, 53), "east");
        passed(&mut lab, 1, &ping4(host4(1), host4(2), b"ping"), "east");
        let listed = lab.state().nat();
        let it = &listed.policies[0];
        assert_eq!((it.over_quota, it.subscribers), (1, 2));
        // A change of the quota ends nothing.
        let more = NatPolicy { quotas: [None, Some(4), None, None], ..of };
        lab.apply(&translated(more)).unwrap();
        lab.settle();
        let before = flows(&mut lab).len();
        passed(&mut lab, 1, &ask(1, 5003, 53), "east");
        refuse(&mut lab, &ask(1, 5004, 53));
        assert_eq!(flows(&mut lab).len(), before + 1);
        // Ports come back when their flows and mappings are over.
        lab.pass_time(Duration::from_secs(320));
        await_flows(&mut lab, 0);
        lab.pass_time(Duration::from_secs(10));
        assert_eq!(lab.state().nat().policies[0].subscribers, 0);
        for port in 6000..6004 {
            passed(&mut lab, 1, &ask(1, port, 53), "east");
        }
    }
}

/// Without mappings, flows bound how many sources there are.
#[test]
fn each_source_that_has_a_flow_has_a_quota() {
    let of =
        NatPolicy { quotas: [None, None, None, Some(1)], ..policy(Mapping::EndpointDependent) };
    let limits = Limits { nat_flows: 1024, nat_mappings: 16, ..LIMITS };
    let mut lab = Lab::with(&translated(of), limits, |_| Wire::new(1, 8));
    let ask = |host| udp_ports(Ipv4Addr::new(10, 0, 1, host), host4(2), (5000, 53), b"ask");
    for host in 2..252 {
        passed(&mut lab, 1, &ask(host), "east");
    }
    let row = lab.state().list_limits().into_iter().find(|it| it.name == "nat-quotas").unwrap();
    assert_eq!((row.used, row.limit, row.refused), (Some(250), 1024, 0));
}

/// A segment that begins no connection has no port, and its sender no error, whatever is left of its quota.
#[test]
fn segments_in_the_middle_of_nothing_are_not_counted() {
    let of =
        NatPolicy { quotas: [Some(1), None, None, None], ..policy(Mapping::EndpointDependent) };
    let mut lab = Lab::new(&translated(of));
    let tcp = |port, flags| segment((host4(1), host4(2)), (port, 80), (1, 1), flags, 0);
    passed(&mut lab, 1, &tcp(5000, flag::SYN), "east");
    refused(&mut lab, 1, &tcp(5001, flag::ACK), "tcp-no-connection");
    assert_eq!(lab.state().nat().policies[0].over_quota, 0);
    assert_eq!(refuse(&mut lab, &tcp(5001, flag::SYN)), 1);
}
