//! Deterministic NAT (RFC 7422), and protocols without ports.

use super::*;

#[test]
fn deterministic_ports_follow_from_addresses() {
    for mapping in BOTH {
        let blocks = NatBlocks { is_deterministic: true, limit: 1, ..blocks() };
        let subscribers = vec![net(host4(1), 30), net(host4(3), 30)];
        let pools = vec![net(POOL, 31)];
        let policy = NatPolicy { subscribers, pools, ..by_blocks(mapping, blocks) };
        let mut lab = lab(policy);
        // 10.0.1.0/30 and 10.0.3.0/30 in order, four blocks at each address: 10.0.1.2 is the third.
        let mut external = BTreeSet::new();
        for port in 5000..5032 {
            let sent = passed(&mut lab, 1, &ask(1, port), "east");
            assert_eq!(sent.addresses().0, "192.0.2.0");
            external.insert(sent.ports.unwrap().0);
        }
        let first = 1024 + 2 * SIZE;
        assert_eq!(external, (first..first + SIZE).collect());
        lab.send("west", [packet_from(1, &ask(1, 5032))]);
        lab.assert_dropped(&[("nat44-quota", 1)]);
        lab.take("west");
        let sent = passed(&mut lab, 3, &ask(3, 5000), "east");
        assert_eq!(sent.addresses().0, "192.0.2.1");
        assert!((first..first + SIZE).contains(&sent.ports.unwrap().0));
        // By arithmetic, also for whom nothing is open.
        let idle = v1::NatWhoisRequest {
            external: vec![192, 0, 2, 0],
            port: (1024 + 3 * SIZE).into(),
            unix_s: Some(1),
            ..Default::default()
        };
        let found = whois(&mut lab, idle);
        assert_eq!((found.len(), &found[0].internal), (1, &vec![10, 0, 1, 3]));
        assert_eq!(found[0].kind, "deterministic");
        let inside = v1::NatWhoisRequest { internal: bytes(host4(3)), ..Default::default() };
        let found = whois(&mut lab, inside);
        assert_eq!((&found[0].external, found[0].first_port), (&vec![192, 0, 2, 1], first.into()));
        let state = state(&mut lab);
        assert_eq!((state.blocks, state.subscribers, state.over_quota), (8, 8, 1));
    }
}

#[test]
fn protocols_without_ports_have_the_address_of_their_subscriber() {
    let mut lab = lab(by_blocks(BOTH[0], blocks()));
    let gre = |host| {
        let builder = stoa_wire::ipv4::Builder::new(host4(host), host4(2), 47);
        ip4(&builder, &[0, 0, 8, 0, 1, 2, 3, 4])
    };
    assert_eq!(passed(&mut lab, 1, &gre(1), "east").addresses().0, POOL.to_string());
    let listed = lab.state().nat_blocks(&v1::NatBlockFilter::default());
    assert_eq!((listed.len(), listed[0].others), (1, 1));
    end_all(&mut lab);
}
