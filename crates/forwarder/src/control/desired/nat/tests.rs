//! What is refused of policies and mappings.

use super::*;

fn of(nat: v1::Nat) -> Vec<String> {
    let port = v1::Port {
        interface: "wan".into(),
        driver: Some(v1::port::Driver::Null(v1::Null {})),
        ..v1::Port::default()
    };
    let wan = v1::Interface { name: "wan".into(), ..v1::Interface::default() };
    let desired = v1::Desired {
        ports: vec![port],
        interfaces: vec![wan],
        nat: Some(nat),
        ..v1::Desired::default()
    };
    let errors = DesiredState::parse(&desired).err().unwrap_or_default();
    errors.into_iter().map(|it| format!("{} {}", it.path, it.cause)).collect()
}

fn policy() -> v1::NatPolicy {
    v1::NatPolicy { instance: 1, policy: 1, interface: "wan".into(), ..Default::default() }
}

fn net(octets: [u8; 4], length: u32) -> v1::Prefix {
    v1::Prefix { address: octets.into(), length }
}

fn forward(index: u32, (inside, outside): (u32, u32), more: u32) -> v1::NatMapping {
    let range = |first| Some(v1::PortRange { first, last: first + more });
    v1::NatMapping {
        instance: 1,
        index,
        protocol: 6,
        internal: Some(net([10, 0, 0, 9], 32)),
        external: Some(net([192, 0, 2, 1], 32)),
        internal_ports: range(inside),
        external_ports: range(outside),
        ..v1::NatMapping::default()
    }
}

fn own(address: &[u8], protocol: u32, port: u32) -> v1::NatOwnPort {
    v1::NatOwnPort { address: address.into(), protocol, port }
}

#[test]
fn policies_are_checked() {
    let with = |change: fn(&mut v1::NatPolicy)| {
        let mut policy = policy();
        change(&mut policy);
        of(v1::Nat { policies: vec![policy], mappings: Vec::new() })
    };
    assert!(with(|_| {}).is_empty());
    assert!(with(|it| it.pools = vec![net([192, 0, 2, 0], 24)]).is_empty());
    assert!(with(|it| it.mapping = v1::NatMappingType::NatEdm.into()).is_empty());
    assert_eq!(with(|it| it.interface = "x".into()).len(), 1);
    assert_eq!(with(|it| it.subscribers = vec![net([10, 0, 0, 1], 8)]).len(), 1);
    assert_eq!(with(|it| it.exempt = vec![net([10, 0, 0, 0], 33)]).len(), 1);
    assert_eq!(with(|it| it.pools = vec![net([10, 0, 0, 0], 8)]).len(), 1);
    assert_eq!(with(|it| (it.first_port, it.last_port) = (9, 8)).len(), 1);
    let wide = |it: &mut v1::NatPolicy| {
        it.mapping = v1::NatMappingType::NatEdm.into();
        it.filtering = v1::NatFilteringType::NatEif.into();
    };
    assert_eq!(with(wide).len(), 1);
    assert!(with(|it| it.own_ports = vec![own(&[192, 0, 2, 1], 6, 8443)]).is_empty());
    assert_eq!(with(|it| it.own_ports = vec![own(&[192, 0, 2, 1], 1, 9)]).len(), 1);
    assert_eq!(with(|it| it.own_ports = vec![own(&[192, 0, 2, 1], 17, 0)]).len(), 1);
    assert_eq!(with(|it| it.own_ports = vec![own(&[0; 16], 17, 9)]).len(), 1);
    let twice = of(v1::Nat { policies: vec![policy(), policy()], mappings: Vec::new() });
    assert_eq!(twice, ["nat instance 1 policy 1 is configured twice"]);
}

#[test]
fn who_may_ask_for_mappings_is_checked() {
    let with = |change: fn(&mut v1::NatPolicy, &mut v1::NatPortControl)| {
        let (mut policy, mut control) = (policy(), v1::NatPortControl::default());
        control.interfaces = vec!["wan".to_owned()];
        change(&mut policy, &mut control);
        let policies = vec![v1::NatPolicy { port_control: Some(control), ..policy }];
        of(v1::Nat { policies, mappings: Vec::new() })
    };
    assert!(with(|_, _| {}).is_empty());
    assert!(with(|_, it| it.min_lifetime_s = 100_000).is_empty(), "the maximum follows");
    let reversed = with(|_, it| (it.min_lifetime_s, it.max_lifetime_s) = (100, 99));
    assert!(reversed[0].contains("100 seconds at least and of 99 at most"), "{reversed:?}");
    assert!(with(|_, it| it.interfaces.clear())[0].contains("at no interface"));
    assert!(with(|_, it| it.interfaces.push("lan".to_owned()))[0].contains("does not exist"));
    let dependent = |of: &mut v1::NatPolicy, _: &mut v1::NatPortControl| {
        of.mapping = v1::NatMappingType::NatEdm.into();
    };
    assert!(with(dependent)[0].contains("none that others can use"));
    assert_eq!(with(|of, _| of.static_only = true).len(), 1);
}

#[test]
fn blocks_are_checked() {
    let with = |change: fn(&mut v1::NatPolicy, &mut v1::NatPortBlocks)| {
        let mut policy = policy();
        policy.pools = vec![net([192, 0, 2, 0], 28)];
        policy.subscribers = vec![net([10, 0, 0, 0], 24)];
        let mut blocks = v1::NatPortBlocks { size: 512, ..v1::NatPortBlocks::default() };
        change(&mut policy, &mut blocks);
        policy.blocks = Some(blocks);
        of(v1::Nat { policies: vec![policy], mappings: Vec::new() })
    };
    assert!(with(|_, _| {}).is_empty());
    assert!(with(|_, it| it.deterministic = true).is_empty());
    assert!(
        with(|_, it| it.size = 31)[0]
            .contains("31 as port-set-size, which is not between 32 and 64512")
    );
    assert_eq!(with(|of, it| (of.last_port, it.size) = (1100, 100)).len(), 1);
    assert_eq!(with(|_, it| it.limit = 33).len(), 1);
    assert_eq!(with(|_, it| it.timeout_s = 86_401).len(), 1);
    assert_eq!(with(|_, it| it.subscriber_length = 33).len(), 1);
    assert_eq!(with(|_, it| it.subscriber_length = 7).len(), 1);
    let quota = |protocol, ports| vec![v1::NatPortQuota { protocol, ports }];
    assert!(with(|of, _| of.quotas = vec![v1::NatPortQuota { protocol: 6, ports: 9 }]).is_empty());
    assert_eq!(
        with(|of, _| of.quotas = vec![v1::NatPortQuota { protocol: 47, ports: 9 }]).len(),
        1
    );
    assert_eq!(with(|of, _| of.quotas = vec![v1::NatPortQuota { protocol: 6, ports: 0 }]).len(), 1);
    let crowded = |of: &mut v1::NatPolicy, it: &mut v1::NatPortBlocks| {
        (of.subscribers, it.deterministic) = (vec![net([10, 0, 0, 0], 16)], true);
    };
    assert!(with(crowded)[0].contains("more subscribers than port sets"));
    let fine = |of: &mut v1::NatPolicy, it: &mut v1::NatPortBlocks| {
        (of.pools, it.size) = (vec![net([192, 0, 0, 0], 16)], 1000);
    };
    assert!(with(|of, it| (of.pools, it.size) = (vec![net([192, 0, 0, 0], 16)], 3000)).is_empty());
    assert!(with(fine)[0].contains("port sets"));
    let without = |quotas| {
        let policies = vec![v1::NatPolicy { quotas, ..policy() }];
        of(v1::Nat { policies, mappings: Vec::new() }).len()
    };
    assert_eq!([quota(6, 9), quota(6, 0), quota(47, 9)].map(without), [0, 1, 1]);
}

#[test]
fn mappings_are_checked() {
    let all = |mappings| of(v1::Nat { policies: vec![policy()], mappings });
    let with = |change: fn(&mut v1::NatMapping)| {
        let mut mapping = forward(1, (80, 8080), 9);
        change(&mut mapping);
        all(vec![mapping])
    };
    assert!(with(|_| {}).is_empty());
    let whole = |it: &mut v1::NatMapping| {
        (it.protocol, it.internal_ports, it.external_ports) = (0, None, None);
    };
    assert!(with(whole).is_empty());
    assert_eq!(with(|it| it.protocol = 0).len(), 1);
    assert_eq!(with(|it| it.protocol = 47).len(), 1);
    assert_eq!(with(|it| it.external_ports = None).len(), 1);
    assert_eq!(with(|it| it.internal = Some(net([10, 0, 0, 8], 31))).len(), 1);
    assert_eq!(with(|it| it.external = None).len(), 1);
    assert_eq!(with(|it| it.vrf = "red".into()).len(), 1);
    assert_eq!(with(|it| it.external_ports = Some(v1::PortRange { first: 1, last: 2 })).len(), 1);
    let [a, b] = [forward(1, (80, 8080), 9), forward(2, (90, 8090), 9)];
    assert!(all(vec![a.clone(), b.clone()]).is_empty());
    let c = forward(3, (100, 8099), 0);
    let found = all(vec![c, b, a.clone()]);
    assert_eq!(
        found,
        ["nat instance 1 mapping 3 has external addresses or ports that mapping 2 has, too"]
    );
    assert_eq!(all(vec![a.clone(), a])[0], "nat instance 1 mapping 1 is configured twice");
}

#[test]
fn backends_and_other_sources_are_checked() {
    let with = |change: fn(&mut v1::NatMapping)| {
        let backend =
            |last| v1::NatBackend { address: vec![10, 0, 0, last], first_port: 80, weight: 1 };
        let mut mapping = forward(1, (80, 80), 2);
        (mapping.internal, mapping.internal_ports) = (None, None);
        mapping.backends = vec![backend(1), backend(2)];
        change(&mut mapping);
        of(v1::Nat { policies: vec![policy()], mappings: vec![mapping] })
    };
    assert_eq!(with(|_| {}), [""; 0]);
    assert_eq!(with(|it| it.internal_remote = Some(net([10, 0, 0, 0], 30))), [""; 0]);
    assert_eq!(with(|it| it.internal = Some(net([10, 0, 0, 9], 32))).len(), 1);
    assert_eq!(with(|it| it.external_ports = None).len(), 1);
    assert_eq!(with(|it| it.backends[1] = it.backends[0].clone()).len(), 1);
    assert_eq!(with(|it| it.backends[1].weight = 101).len(), 1);
    assert_eq!(with(|it| it.backends[1].first_port = 65_534).len(), 1);
    assert_eq!(with(|it| it.backends[1].address = vec![0; 16]).len(), 1);
    assert_eq!(with(|it| it.backends = vec![it.backends[0].clone(); 33]).len(), 1);
    let ports = |it: &mut v1::NatMapping| {
        it.internal_remote_ports = Some(v1::PortRange { first: 8, last: 9 });
    };
    assert_eq!(with(ports).len(), 1);
    assert_eq!(with(|it| it.internal_vrf = Some("red".into())).len(), 1);
    // As many as there may be.
    let most = |it: &mut v1::NatMapping| {
        let backend = |at: u32| v1::NatBackend { first_port: 80 + at, ..it.backends[0].clone() };
        it.backends = (0..32_u32).map(backend).collect();
    };
    assert_eq!(with(most), [""; 0]);
}
