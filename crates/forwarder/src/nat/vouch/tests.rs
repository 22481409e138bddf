//! What policies and mappings can have made.

use std::sync::Arc;

use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{FlowKey, FormerFlow, Past};
use stoa_wire::protocol;

use super::super::backends::Backend;
use super::super::statics::Statics;
use super::super::{Allocation, Filtering, Prefix4};
use super::*;

const INSIDE: u32 = 0x0a00_0005;
const SERVER: u32 = 0xc000_0207;
const POOL: u32 = 0xcb00_7110;
const FORWARDED: u32 = 0xcb00_7105;

fn host(network: u32) -> Prefix4 {
    Prefix4 { network, length: 32 }
}

fn nat() -> Nat {
    let policy = Policy {
        number: 7,
        instance: 1,
        interface: 1,
        subscribers: vec![Prefix4 { network: 0x0a00_0000, length: 8 }],
        exempt: Vec::new(),
        pools: vec![Prefix4 { network: POOL, length: 28 }],
        ports: (1024, 2047),
        mapping: Mapping::EndpointIndependent,
        filtering: Filtering::Address,
        allocation: Allocation::Ports,
        quota: None,
        is_silent: false,
        is_nat64: false,
        algs: Vec::new(),
        counts: Arc::default(),
    };
    let forward = Static {
        number: 9,
        instance: 1,
        protocol: protocol::TCP,
        internal: host(INSIDE),
        external: host(FORWARDED),
        ports: Some((8000, 80, 9)),
        ..Static::default()
    };
    let backend = |number, address| Backend { number, address, first_port: 443, weight: 1 };
    let shared = Static {
        number: 10,
        ports: Some((443, 443, 0)),
        backends: [backend(11, INSIDE), backend(12, INSIDE + 1)].into(),
        internal: Prefix4::default(),
        ..forward.clone()
    };
    let statics = Statics::of(vec![forward, shared]);
    let own_ports = vec![(0, POOL, protocol::TCP, 1030)];
    Nat {
        policies: vec![policy],
        external: vec![(0, POOL, POOL + 15)],
        statics,
        own_ports,
        numbers: vec![7, 9, 10, 11, 12],
        ..Nat::default()
    }
}

fn key(from: (u32, u16), to: (u32, u16)) -> FlowKey {
    let ((source, source_port), (destination, destination_port)) = (from, to);
    let protocol = protocol::TCP;
    FlowKey::ip4(Flow { source, destination, source_port, destination_port, protocol }, 0)
}

/// Whether a flow from inside (or outside) with these ends can be one of a number.
fn can(number: u32, internal: (u32, u16), external: (u32, u16), is_inbound: bool) -> bool {
    let remote = (SERVER, 4321);
    let mapping = (number == 7).then_some(0);
    let uses = Uses { number, mapping, block: None, is_inbound };
    let (key, reply) = match is_inbound {
        false => (key(internal, remote), key(remote, external)),
        true => (key(remote, external), key(internal, remote)),
    };
    asks(key, reply, uses)
}

fn asks(key: FlowKey, reply: FlowKey, uses: Uses) -> bool {
    asks_of(&nat(), (key, reply), uses, false)
}

/// `leaves`: whether a route leads from the VRF of the internal end to the external interface.
fn asks_of(nat: &Nat, (key, reply): (FlowKey, FlowKey), uses: Uses, leaves: bool) -> bool {
    let flow = FormerFlow {
        key,
        reply_key: Some(reply),
        class: 0,
        flags: 0,
        owner: 0,
        zone_pair: 0,
        tcp: [0; _],
        past: Past::default(),
        spare: uses.words(),
    };
    nat.can_have_made(&flow, &reply, &|(vrf, address), interface| {
        leaves && (vrf, address, interface) == (3, SERVER, 1)
    })
}

#[test]
fn a_policy_has_its_pool_and_its_subscribers() {
    for is_inbound in [false, true] {
        let by_policy = |internal, external| can(7, internal, external, is_inbound);
        assert!(by_policy((INSIDE, 5000), (POOL + 3, 1024)));
        // The inside address itself, another one, a port below, and one of the router.
        assert!(!by_policy((INSIDE, 5000), (INSIDE, 1024)));
        assert!(!by_policy((INSIDE, 5000), (POOL + 16, 1024)));
        assert!(!by_policy((INSIDE, 5000), (POOL, 80)));
        assert!(!by_policy((INSIDE, 5000), (POOL, 1030)));
        assert!(!by_policy((SERVER, 5000), (POOL, 1024)), "no subscriber");
    }
    assert!(!can(8, (INSIDE, 5000), (POOL, 1024), false), "no such policy");
}

#[test]
fn a_static_mapping_has_its_own_ends() {
    for is_inbound in [false, true] {
        let forwarded = |internal, external| can(9, internal, external, is_inbound);
        assert!(forwarded((INSIDE, 8003), (FORWARDED, 83)));
        assert!(!forwarded((INSIDE, 8003), (FORWARDED, 84)));
        assert!(!forwarded((INSIDE + 1, 8003), (FORWARDED, 83)));
        assert!(!forwarded((INSIDE, 8010), (FORWARDED, 90)));
        assert!(can(12, (INSIDE + 1, 443), (FORWARDED, 443), is_inbound));
        assert!(!can(12, (INSIDE, 443), (FORWARDED, 443), is_inbound));
        assert!(!can(10, (INSIDE, 443), (FORWARDED, 443), is_inbound), "a backend has a number");
    }
}

#[test]
fn the_other_end_stays_what_it_is() {
    let uses = Uses { number: 7, mapping: Some(0), block: None, is_inbound: false };
    let sent = key((INSIDE, 5000), (SERVER, 80));
    assert!(asks(sent, key((SERVER, 80), (POOL, 1024)), uses));
    assert!(!asks(sent, key((SERVER, 81), (POOL, 1024)), uses));
    assert!(!asks(sent, key((SERVER + 1, 80), (POOL, 1024)), uses));
    // A host outside that has no mapping.
    let inbound = Uses { mapping: None, is_inbound: true, ..uses };
    let received = key((SERVER, 80), (POOL, 1024));
    assert!(!asks(received, key((INSIDE, 5000), (SERVER, 80)), inbound));
}

#[test]
fn vrfs_meet_where_the_configuration_lets_them() {
    let uses = Uses { number: 7, mapping: Some(0), block: None, is_inbound: false };
    let sent = FlowKey { vrf: 3, ..key((INSIDE, 5000), (SERVER, 80)) };
    let reply = key((SERVER, 80), (POOL, 1024));
    assert!(asks_of(&nat(), (sent, reply), uses, true));
    assert!(!asks_of(&nat(), (sent, reply), uses, false), "no route leads there");
    // The other way round, by the mapping; and to a VRF that has no such external address.
    let inbound = Uses { is_inbound: true, ..uses };
    for leaves in [false, true] {
        assert_eq!(asks_of(&nat(), (reply, sent), inbound, leaves), leaves);
        let elsewhere = FlowKey { vrf: 3, ..reply };
        assert!(!asks_of(&nat(), (sent, elsewhere), uses, leaves));
    }
    // A static mapping leads into the VRF of its internal address.
    let uses = Uses { number: 9, mapping: None, block: None, is_inbound: true };
    let (first, back) = (key((SERVER, 80), (FORWARDED, 83)), key((INSIDE, 8003), (SERVER, 80)));
    assert!(asks_of(&nat(), (first, back), uses, true));
    assert!(!asks_of(&nat(), (first, FlowKey { vrf: 3, ..back }), uses, true));
}

#[test]
fn a_flow_holds_what_flows_of_its_policy_hold() {
    let range = super::super::blocks::BlockRange {
        policy: (1, 1),
        vrf: 0,
        pools: Vec::new(),
        ports: (1024, 2047),
        size: 64,
        length: 32,
        base: 0,
        free: Default::default(),
    };
    let share = super::super::blocks::Share { blocks: 1, ports: [u32::MAX; 4] };
    let blocks = Allocation::Blocks(Arc::new(range), share);
    let quota = Some(super::super::quotas::Quota { policy: 1, ports: [Some(9); 4] });
    let of = |mapping, allocation, quota| {
        let mut nat = nat();
        let policy = &mut nat.policies[0];
        (policy.mapping, policy.allocation, policy.quota) = (mapping, allocation, quota);
        nat
    };
    let keys = (key((INSIDE, 5000), (SERVER, 80)), key((SERVER, 80), (POOL, 1024)));
    let asks = |nat: &Nat, mapping, block| {
        asks_of(nat, keys, Uses { number: 7, mapping, block, is_inbound: false }, false)
    };
    let independent = of(Mapping::EndpointIndependent, Allocation::Ports, None);
    assert!(asks(&independent, Some(0), None) && !asks(&independent, None, None));
    for (allocation, quota, has_block) in
        [(Allocation::Ports, None, false), (Allocation::Ports, quota, true), (blocks, None, true)]
    {
        let nat = of(Mapping::EndpointDependent, allocation, quota);
        assert_eq!([asks(&nat, None, None), asks(&nat, None, Some(0))], [!has_block, has_block]);
    }
}

/// Where two policies have a subscriber, the first one translates.
#[test]
fn another_policy_that_comes_first_translates() {
    let mut nat = nat();
    let uses = Uses { number: 7, mapping: Some(0), block: None, is_inbound: false };
    let keys = (key((INSIDE, 5000), (SERVER, 80)), key((SERVER, 80), (POOL, 1024)));
    nat.policies[0].exempt = vec![host(SERVER)];
    assert!(!asks_of(&nat, keys, uses, false), "its packets go as they are");
    nat.policies[0].exempt.clear();
    let mut first = super::super::Policy { number: 5, ..self::nat().policies.remove(0) };
    first.subscribers = vec![host(INSIDE)];
    nat.policies.insert(0, first);
    assert!(!asks_of(&nat, keys, uses, false));
    nat.policies.remove(0);
    assert!(asks_of(&nat, keys, uses, false));
}

/// A policy of NAT64 has stand-ins of hosts, and no other; one of NAT44 has none.
#[test]
fn a_stand_in_is_a_subscriber_of_nat64_alone() {
    let stand_in = (crate::nat64::hosts::FIRST + 5, 5000);
    let uses = Uses { number: 7, mapping: Some(0), block: None, is_inbound: false };
    let mut of6 = nat();
    of6.policies[0].is_nat64 = true;
    let keys = |inside, external| (key(inside, (SERVER, 80)), key((SERVER, 80), external));
    let asks = |nat: &Nat, inside, external| asks_of(nat, keys(inside, external), uses, false);
    assert!(asks(&of6, stand_in, (POOL, 1024)));
    assert!(!asks(&of6, stand_in, (POOL, 80)) && !asks(&of6, stand_in, (POOL + 16, 1024)));
    assert!(!asks(&of6, stand_in, stand_in), "an external end that nobody has");
    assert!(!asks(&of6, (INSIDE, 5000), (POOL, 1024)));
    assert!(!asks(&nat(), stand_in, (POOL, 1024)));
    // The other way round, by its mapping.
    let inbound = Uses { is_inbound: true, ..uses };
    let (first, back) = (key((SERVER, 80), (POOL, 1024)), key(stand_in, (SERVER, 80)));
    assert!(asks_of(&of6, (first, back), inbound, false));
    assert!(!asks_of(&of6, (first, back), Uses { mapping: None, ..inbound }, false));
    let hairpin = keys(stand_in, (POOL, 1024)).0;
    assert!(!asks_of(&of6, (hairpin, key((stand_in.0 + 1, 80), (POOL, 1024))), uses, false));
}

#[test]
fn a_lease_has_an_end_that_hosts_could_get() {
    use super::super::mappings::End;
    let end = |(address, port)| End { address, port, protocol: protocol::UDP, vrf: 0 };
    let can =
        |number, internal, external| nat().can_have_leased(number, [end(internal), end(external)]);
    assert!(can(7, (INSIDE, 5000), (POOL, 1030)), "the router listens there for TCP alone");
    assert!(!can(7, (INSIDE, 5000), (POOL, 80)) && !can(7, (INSIDE, 5000), (POOL + 16, 1024)));
    assert!(!can(7, (SERVER, 5000), (POOL, 1024)), "no subscriber");
    assert!(!can(8, (INSIDE, 5000), (POOL, 1024)) && !can(9, (INSIDE, 5000), (FORWARDED, 1024)));
    let tcp = [(INSIDE, 5000), (POOL, 1030)].map(|it| End { protocol: protocol::TCP, ..end(it) });
    assert!(!nat().can_have_leased(7, tcp));
    let elsewhere = End { vrf: 3, ..end((POOL, 1024)) };
    assert!(!nat().can_have_leased(7, [end((INSIDE, 5000)), elsewhere]));
}
