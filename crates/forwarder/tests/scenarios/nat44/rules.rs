//! Rules decide about packets that are translated; changes of rules and of policies end flows.

use super::*;

#[test]
fn stateful_rules_admit_translated_flows() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let mut setup = gate(stateful(all(Action::Accept)));
        setup.0.nat.policies.push(policy(mapping));
        let mut lab = Lab::new(&setup);
        let ask = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
        let answer = udp_ports(host4(2), our4(2), (53, 5000), b"answer");
        refused(&mut lab, 2, &answer, "acl-input");
        for _ in 0..3 {
            let sent = passed(&mut lab, 1, &ask, "east");
            assert_eq!(sent.addresses().0, "10.0.2.1");
            assert_eq!(passed(&mut lab, 2, &answer, "west").addresses().1, "10.0.1.2");
        }
        let listed = flows(&mut lab);
        assert_eq!((listed.len(), listed[0].acl.as_str()), (1, "out"));
        assert_eq!((listed[0].packets, listed[0].reply_packets), (3, 3));
    }
}

/// Lists see packets as they are on the wire of their interface; translation admits nothing by itself.
#[test]
fn rules_without_state_decide_about_each_packet() {
    let from = |source: Ipv4Addr| {
        let mut rule = all(Action::Accept);
        rule.family = 4;
        rule.sources = vec![(source.into(), 32)];
        rule
    };
    let to = |destination: Ipv4Addr| {
        let mut rule = all(Action::Accept);
        rule.family = 4;
        rule.destinations = vec![(destination.into(), 32)];
        rule
    };
    let setup = list(masquerade(), "inside", &[("inside", from(host4(1)))]);
    let setup = list(setup, "outside", &[("outside", from(our4(2)))]);
    let setup = list(setup, "back", &[("back", to(our4(2)))]);
    let setup = output(input(setup, "west", &["inside"]), "east", &["outside"]);
    let open = input(setup.clone(), "east", &["back"]);
    let mut lab = Lab::new(&open);
    let ask = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
    let answer = udp_ports(host4(2), our4(2), (53, 5000), b"answer");
    for _ in 0..3 {
        assert_eq!(passed(&mut lab, 1, &ask, "east").addresses().0, "10.0.2.1");
        assert_eq!(passed(&mut lab, 2, &answer, "west").addresses().1, "10.0.1.2");
    }
    // Nothing comes in any more, whatever has gone out.
    let shut = list(setup, "none", &[("none", all(Action::Drop))]);
    lab.apply(&input(shut, "east", &["none"])).unwrap();
    refused(&mut lab, 2, &answer, "acl-input");
    passed(&mut lab, 1, &ask, "east");
    refused(&mut lab, 2, &answer, "acl-input");
    // And all of it again.
    lab.apply(&masquerade()).unwrap();
    for _ in 0..3 {
        passed(&mut lab, 1, &ask, "east");
        passed(&mut lab, 2, &answer, "west");
    }
    assert_eq!(flows(&mut lab).len(), 1);
    assert!(!flows(&mut lab)[0].suspended);
}

#[test]
fn a_list_closes_what_was_open() {
    let mut lab = Lab::new(&masquerade());
    let ask = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
    let answer = udp_ports(host4(2), our4(2), (53, 5000), b"answer");
    for _ in 0..2 {
        passed(&mut lab, 1, &ask, "east");
        passed(&mut lab, 2, &answer, "west");
    }
    let shut = list(masquerade(), "none", &[("none", all(Action::Drop))]);
    lab.apply(&input(shut, "east", &["none"])).unwrap();
    for _ in 0..2 {
        refused(&mut lab, 2, &answer, "acl-input");
        passed(&mut lab, 1, &ask, "east");
    }
}

#[test]
fn a_change_ends_the_flows_of_a_policy_and_of_no_other_one() {
    let first =
        NatPolicy { subscribers: vec![net(host4(1), 24)], ..policy(Mapping::EndpointIndependent) };
    let second =
        NatPolicy { policy: 2, pools: vec![net(POOL, 32)], ..policy(Mapping::EndpointIndependent) };
    let both = |first: &NatPolicy| {
        with_nat(Setup::three_ports(), vec![first.clone(), second.clone()], Vec::new())
    };
    let mut lab = Lab::new(&both(&first));
    let ask = |host| udp_ports(host4(host), host4(2), (5000, 53), b"ask");
    assert_eq!(passed(&mut lab, 1, &ask(1), "east").addresses().0, "10.0.2.1");
    assert_eq!(passed(&mut lab, 3, &ask(3), "east").addresses().0, POOL.to_string());
    assert_eq!(flows(&mut lab).len(), 2);
    let changed = NatPolicy { ports: (7000, 7010), ..first };
    lab.apply(&both(&changed)).unwrap();
    await_flows(&mut lab, 1);
    let sent = passed(&mut lab, 1, &ask(1), "east");
    assert!((7000..=7010).contains(&sent.ports.unwrap().0), "{sent:?}");
    assert_eq!(passed(&mut lab, 3, &ask(3), "east").ports, Some((5000, 53)));
    assert_eq!(flows(&mut lab).len(), 2);
    lab.apply(&Setup::three_ports()).unwrap();
    await_flows(&mut lab, 0);
    assert_eq!(passed(&mut lab, 1, &ask(1), "east").addresses().0, "10.0.1.2");
}

#[test]
fn an_open_connection_gets_a_translation_or_nothing() {
    let mut lab = Lab::new(&gate(stateful(all(Action::Accept))));
    let ask = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
    assert_eq!(passed(&mut lab, 1, &ask, "east").addresses().0, "10.0.1.2");
    let mut setup = gate(stateful(all(Action::Accept)));
    setup.0.nat.policies.push(policy(Mapping::EndpointDependent));
    lab.apply(&setup).unwrap();
    for _ in 0..2 {
        assert_eq!(passed(&mut lab, 1, &ask, "east").addresses().0, "10.0.2.1");
    }
    assert_eq!(flows(&mut lab).len(), 1);
}
