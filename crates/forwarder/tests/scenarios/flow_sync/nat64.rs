//! Flows of NAT64 at the partner, which has stand-ins of its own for their hosts.

use std::net::Ipv6Addr;

use stoa_forwarder::control::desired::NatPolicy;
use stoa_forwarder::nat::Filtering;
use stoa_wire::siit::Prefix;

use super::*;
use crate::nat44;
use crate::nat44_tcp::source_port;
use crate::nat64::{nat64, of, segment, setup};

fn ask(host: Ipv6Addr, port: u16) -> Vec<u8> {
    udp_ports(host, of(host4(2)), (port, 53), b"ask")
}

/// Two routers with the same policy.
fn routers(policy: &NatPolicy) -> [Lab; 2] {
    pair([(); 2].map(|()| setup(policy.clone())))
}

#[test]
fn flows_of_ip6_hosts_keep_their_external_ports() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let [mut one, mut other] = routers(&nat64(mapping));
        // The hosts of each router have other stand-ins: the second one has met more.
        for host in [3, 1] {
            passed(&mut other, 3, &ask(host6(3), 7_000 + host), "east");
        }
        let ports = passed(&mut one, 1, &ask(host6(1), 5_000), "east").ports.unwrap();
        await_state(&mut other, |it| it.created_flows == 1);
        let answer = udp_ports(host4(2), our4(2), (53, ports.0), b"answer");
        let got = passed(&mut other, 2, &answer, "west");
        let expected = (of(host4(2)).to_string(), host6(1).to_string());
        assert_eq!((got.addresses(), got.ports), (expected, Some((53, 5_000))));
        assert_eq!(passed(&mut other, 1, &ask(host6(1), 5_000), "east").ports, Some(ports));
        let listed = flows(&mut other);
        assert!(listed.iter().any(|it| it.source == host6(1).octets()), "{listed:?}");
        // It is one of the other router now, and ends at both.
        one.state().skip(Duration::from_secs(10));
        other.state().skip(Duration::from_secs(2));
        assert_eq!(passed(&mut other, 1, &ask(host6(1), 5_000), "east").ports, Some(ports));
        await_state(&mut one, |it| it.refreshed_flows >= 1);
        clear(&mut other, &v1::FlowFilter::default());
        await_state(&mut one, |it| it.ended_flows >= 1);
        clear(&mut one, &v1::FlowFilter::default());
        await_flows(&mut one, 0);
        await_flows(&mut other, 0);
    }
}

#[test]
fn a_connection_goes_on_and_closes_at_the_partner() {
    let [mut one, mut other] = routers(&nat64(Mapping::EndpointIndependent));
    let (there, ports) = ((host6(1), of(host4(2))), (4_000, 80));
    let sent = passed(&mut one, 1, &segment(there, ports, (1, 0), flag::SYN), "east");
    let external = source_port(&sent);
    let back =
        |numbers, flags| nat44::segment((host4(2), our4(2)), (80, external), numbers, flags, 0);
    passed(&mut one, 2, &back((900, 2), flag::SYN | flag::ACK), "west");
    passed(&mut one, 1, &segment(there, ports, (2, 901), flag::ACK), "east");
    await_state(&mut other, |it| it.created_flows == 1);
    let states = |lab: &mut Lab| flows(lab).into_iter().map(|it| it.state).collect::<Vec<_>>();
    await_flows(&mut other, 1);
    passed(&mut other, 2, &back((901, 2), flag::ACK), "west");
    passed(&mut other, 1, &segment(there, ports, (2, 901), flag::RST | flag::ACK), "east");
    // What the partner has forwarded may be beyond its record: it is closed when it falls silent.
    assert_eq!(states(&mut other), ["tcp-closing"]);
}

/// Who is let in by the mapping of a host has a flow from outside.
#[test]
fn a_flow_that_an_ip4_host_has_begun_goes_on() {
    let open = NatPolicy { filtering: Filtering::Anyone, ..nat64(Mapping::EndpointIndependent) };
    let [mut one, mut other] = routers(&open);
    let external = passed(&mut one, 1, &ask(host6(1), 5_000), "east").ports.unwrap().0;
    let hello = udp_ports(host4(2), our4(2), (99, external), b"hello");
    passed(&mut one, 2, &hello, "west");
    await_state(&mut other, |it| it.created_flows == 2);
    let reply = udp_ports(host6(1), of(host4(2)), (5_000, 99), b"reply");
    let sent = passed(&mut other, 1, &reply, "east");
    assert_eq!(nat44::ends(&sent), (format!("{}:{external}", our4(2)), "10.0.2.2:99".into()));
    let got = passed(&mut other, 2, &hello, "west");
    assert_eq!(got.addresses(), (of(host4(2)).to_string(), host6(1).to_string()));
}

/// A network of 64 bits is one subscriber at both.
#[test]
fn flows_of_the_partner_count_for_the_quota_of_their_network() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let quotas = [None, Some(2), None, None];
        let [mut one, mut other] = routers(&NatPolicy { quotas, ..nat64(mapping) });
        for port in [5_000, 5_001] {
            passed(&mut one, 1, &ask(host6(1), port), "east");
        }
        await_state(&mut other, |it| it.created_flows == 2);
        other.send("west", [packet_from(1, &ask(host6(1), 5_002))]);
        other.assert_dropped(&[("nat44-quota", 1)]);
        other.take("west");
        passed(&mut other, 3, &ask(host6(3), 5_000), "east");
        clear(&mut one, &v1::FlowFilter::default());
        await_state(&mut other, |it| it.ended_flows == 2);
        other.settle();
    }
}

/// Hosts would see another server.
#[test]
fn a_partner_with_another_prefix_refuses_flows() {
    let other = Prefix::new("2001:db8:65::".parse().unwrap(), 96).unwrap();
    let of6 = nat64(Mapping::EndpointIndependent);
    let changed = NatPolicy { nat64: Some(other), ..of6.clone() };
    for setups in [[setup(of6.clone()), setup(changed)], [setup(of6), Setup::three_ports()]] {
        let [mut one, mut other] = pair(setups);
        passed(&mut one, 1, &ask(host6(1), 5_000), "east");
        await_state(&mut other, |it| it.refused_translation == 1);
        assert_eq!(flows(&mut other).len(), 0);
    }
}

/// Neither names of hosts that are none, nor stand-ins, which are those of this router, become a flow.
#[test]
fn a_lying_partner_has_no_host_reached() {
    let (mut liar, mut lab) = Liar::of(setup(nat64(Mapping::EndpointIndependent)));
    passed(&mut lab, 1, &ask(host6(1), 5_000), "east");
    let server = (host4(2), 53);
    let six = |host: Ipv6Addr, to: Ipv6Addr| {
        let (source, destination) = (host.to_bits(), to.to_bits());
        let (source_port, destination_port, protocol) = (5_000, 53, protocol::UDP);
        FlowKey::ip6(Flow { source, destination, source_port, destination_port, protocol }, 0)
    };
    let stand_in = |last| key4((Ipv4Addr::new(240, 0, 0, last), 5_000), server, protocol::UDP);
    let mut keys: Vec<FlowKey> = (0..20).map(stand_in).collect();
    for host in [our6(1), host6(3), "::1".parse().unwrap(), of(host4(3))] {
        keys.push(six(host, of(server.0)));
        keys.push(six(host, host6(2)));
    }
    let reply = key4(server, (our4(2), 5_000), protocol::UDP);
    for (number, key) in (0..).zip(&keys) {
        for (key, reply) in [(*key, reply), (reply.reversed(), *key)] {
            let mut lie = record(number, key, Some(reply));
            lie.flow.class = 7;
            liar.send(|items| put_flow(&lie, 0, items));
            liar.send(|items| put_end(&lie.key(), items));
        }
    }
    let sent = 2 * keys.len() as u64;
    await_state(&mut lab, |it| it.received_records == sent && sum(it) >= sent);
    let it = state(&mut lab);
    assert_eq!((it.created_flows, it.refused_translation), (0, sent), "{it:?}");
    assert_eq!(it.refused_connections, 0, "{it:?}");
    let answer = udp_ports(host4(2), our4(2), (53, 5_000), b"answer");
    assert_eq!(passed(&mut lab, 2, &answer, "west").addresses().1, host6(1).to_string());
}
