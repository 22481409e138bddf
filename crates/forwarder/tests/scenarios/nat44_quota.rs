//! Quotas of policies without blocks of ports: each source has as many ports as it may have.

use std::time::Duration;

use stoa_forwarder::control::desired::NatPolicy;
use stoa_forwarder::nat::Mapping;

use crate::acl_stateful::{await_flows, flows};
use crate::harness::*;
use crate::nat44::{passed, policy, translated};

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
