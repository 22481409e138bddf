//! Ports at which the router itself listens: no mapping gets them.

use super::*;

/// East translates to its own address, where the router listens at TCP port 8443.
fn masquerade() -> NatPolicy {
    let own_ports = vec![(our4(2).to_bits(), TCP, 8_443)];
    let port_control = Some(control());
    NatPolicy { port_control, own_ports, ..policy(Mapping::EndpointIndependent) }
}

#[test]
fn nobody_gets_a_port_of_the_router() {
    let mut lab = lab(masquerade());
    // BFD and PCP, and what the controller names.
    for (protocol, port) in [(UDP, 3_784), (UDP, PORT), (TCP, 8_443)] {
        let only = Ask { external: (our4(2), port), ..map(protocol, port) }.with(2, &[]);
        assert_eq!(result(&mut lab, &only), 11, "CANNOT_PROVIDE_EXTERNAL: {port}");
        let other = ask(&mut lab, &map(protocol, port));
        assert_eq!((other.result, other.external.0), (SUCCESS, our4(2)));
        assert_ne!(other.external.1, port);
    }
    // Other protocols have these ports.
    assert_eq!(ask(&mut lab, &map(UDP, 8_443)).external.1, 8_443);
}

#[test]
fn traffic_gets_no_port_of_the_router() {
    for mapping in [Mapping::EndpointIndependent, Mapping::EndpointDependent] {
        let mut lab = lab(NatPolicy { mapping, port_control: None, ..masquerade() });
        let out = udp_ports(host4(1), host4(2), (3_784, 3_784), b"hello");
        assert_ne!(passed(&mut lab, 1, &out, "east").ports.unwrap().0, 3_784);
    }
    // At an address that is not its own, the router has no ports.
    let mut lab = lab(pool_policy(control()));
    assert_eq!(ask(&mut lab, &map(UDP, 3_784)).external.1, 3_784);
}

#[test]
fn a_lease_ends_when_the_router_or_a_static_mapping_needs_its_port() {
    use stoa_forwarder::control::desired::NatMapping;
    let without = NatPolicy { own_ports: Vec::new(), ..masquerade() };
    let forward = NatMapping {
        instance: 1,
        index: 1,
        protocol: TCP,
        internal: net(host4(3), 32),
        external: net(our4(2), 32),
        ports: Some((1, 8_443, 0)),
        ..NatMapping::default()
    };
    let of =
        |policy, mappings| crate::nat44::with_nat(Setup::three_ports(), vec![policy], mappings);
    for after in [of(masquerade(), Vec::new()), of(without.clone(), vec![forward])] {
        let mut lab = lab(without.clone());
        let external = ask(&mut lab, &map(TCP, 8_443)).external;
        assert_eq!(external, (our4(2), 8_443));
        let kept = ask(&mut lab, &map(UDP, 4_000)).external;
        lab.apply(&after).unwrap();
        let control = lab.state().nat().port_control.unwrap();
        assert_eq!(control.leases, 1);
        passed(&mut lab, 2, &inward(9, kept), "west");
        assert_ne!(ask(&mut lab, &map(TCP, 8_443)).external, external);
    }
}
