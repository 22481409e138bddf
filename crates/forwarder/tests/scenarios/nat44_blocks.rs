//! Blocks of ports for subscribers (RFC 6888, RFC 7422): growth, limits of all workers together, quarantine, events,
//! and who had a port.

mod deterministic;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use stoa_api::v1;
use stoa_api::v1::NatBlockEventKind;
use stoa_forwarder::control::Limits;
use stoa_forwarder::control::desired::{NatBlocks, NatMapping, NatPolicy};
use stoa_forwarder::nat::Mapping;

use crate::acl_stateful::await_flows;
use crate::harness::*;
use crate::nat44::{POOL, net, passed, policy, translated};

/// Ports of a block.
pub(crate) const SIZE: u16 = 32;
const ROOMY: Limits = Limits { nat_flows: 1024, nat_mappings: 1024, ..LIMITS };
const BOTH: [Mapping; 2] = [Mapping::EndpointIndependent, Mapping::EndpointDependent];

pub(crate) fn blocks() -> NatBlocks {
    NatBlocks {
        size: SIZE,
        limit: 2,
        timeout_s: 120,
        length: 32,
        is_deterministic: false,
        quotas: [None; 4],
    }
}

/// A policy with four blocks at one address.
pub(crate) fn by_blocks(mapping: Mapping, blocks: NatBlocks) -> NatPolicy {
    NatPolicy {
        pools: vec![net(POOL, 32)],
        ports: (1024, 1024 + 4 * SIZE - 1),
        blocks: Some(blocks),
        ..policy(mapping)
    }
}

fn lab(policy: NatPolicy) -> Lab {
    Lab::with(&translated(policy), ROOMY, |_| Wire::new(1, 8))
}

/// A packet of a host with a source port, always to the same end.
fn ask(host: u8, port: u16) -> Vec<u8> {
    udp_ports(host4(host), host4(2), (port, 53), b"ask")
}

/// The external ports that packets of a host from these ports get.
fn external(lab: &mut Lab, host: u8, ports: std::ops::Range<u16>) -> BTreeSet<u16> {
    let send = |port| {
        let sent = passed(lab, host, &ask(host, port), "east");
        assert_eq!(sent.addresses().0, POOL.to_string());
        sent.ports.unwrap().0
    };
    ports.map(send).collect()
}

fn state(lab: &mut Lab) -> v1::NatPolicyState {
    lab.state().tick();
    lab.state().nat().policies.remove(0)
}

fn events(lab: &mut Lab) -> Vec<v1::NatBlockEvent> {
    lab.state().tick();
    lab.state().nat_block_events(v1::ListNatBlockEventsRequest::default()).events
}

fn kinds(events: &[v1::NatBlockEvent]) -> Vec<NatBlockEventKind> {
    events.iter().map(v1::NatBlockEvent::kind).collect()
}

fn bytes(address: Ipv4Addr) -> Vec<u8> {
    address.octets().into()
}

/// Ends all flows, and lets mappings follow.
fn end_all(lab: &mut Lab) {
    lab.state().clear_flows(&Default::default());
    await_flows(lab, 0);
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while state(lab).used_blocks > 0 {
        lab.pass_time(Duration::from_secs(1));
        assert!(std::time::Instant::now() < deadline, "{:?}", state(lab));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_subscriber_gets_blocks_as_it_needs_them() {
    for mapping in BOTH {
        let mut lab = lab(by_blocks(mapping, blocks()));
        let first = external(&mut lab, 1, 5000..5001);
        assert_eq!((state(&mut lab).used_blocks, state(&mut lab).blocks), (1, 4));
        let mut all = external(&mut lab, 1, 5001..5064);
        all.extend(first);
        assert_eq!(all.len(), 64, "each connection has a port of its own");
        let blocks: BTreeSet<u16> = all.iter().map(|port| (port - 1024) / SIZE).collect();
        assert_eq!(blocks.len(), 2);
        // The first packet beyond the limit, and others.
        for port in 5064..5067 {
            lab.send("west", [packet_from(1, &ask(1, port))]);
            lab.assert_dropped(&[("nat44-quota", 1)]);
            lab.take("west");
        }
        // Another subscriber has other ports.
        let others = external(&mut lab, 3, 5000..5064);
        assert!(others.is_disjoint(&all), "{others:?} {all:?}");
        let found = state(&mut lab);
        assert_eq!((found.used_blocks, found.subscribers, found.over_quota), (4, 2, 3));
        let events = events(&mut lab);
        let allocated = |it: &&v1::NatBlockEvent| it.kind() == NatBlockEventKind::NatBlockAllocated;
        assert_eq!(events.iter().filter(allocated).count(), 4, "{events:?}");
        assert!(kinds(&events).contains(&NatBlockEventKind::NatBlockOverQuota));
        assert!(events.iter().all(|it| it.unix_ms > 1_700_000_000_000 && it.instance == 1));
    }
}

#[test]
fn refused_subscribers_get_an_error_or_silence() {
    for (is_silent, errors) in [(false, 1), (true, 0)] {
        let quotas = [None, Some(3), None, None];
        let policy = by_blocks(BOTH[0], NatBlocks { quotas, ..blocks() });
        let mut lab = lab(NatPolicy { is_silent, ..policy });
        external(&mut lab, 1, 5000..5003);
        lab.send("west", [packet_from(1, &ask(1, 5003))]);
        lab.assert_dropped(&[("nat44-quota", 1)]);
        let back = lab.parsed("west");
        assert_eq!(back.len(), errors);
        assert!(back.iter().all(|it| it.icmp == Some((3, 13))));
        assert_eq!(lab.take("east"), Vec::<Vec<u8>>::new());
        // Other protocols have their own quota, and pings a port as well.
        passed(&mut lab, 1, &ping4(host4(1), host4(2), b"ping"), "east");
    }
}

#[test]
fn without_blocks_nobody_gets_in() {
    let mut policy = by_blocks(BOTH[0], NatBlocks { limit: 4, ..blocks() });
    policy.ports = (1024, 1024 + SIZE - 1);
    let mut lab = lab(policy);
    external(&mut lab, 1, 5000..5001);
    for port in 5000..5002 {
        lab.send("north", [packet_from(3, &ask(3, port))]);
        lab.assert_dropped(&[("nat44-no-port", 1)]);
        lab.take("north");
    }
    assert_eq!(state(&mut lab).out_of_ports, 2);
    let kinds = kinds(&events(&mut lab));
    assert_eq!(kinds[0], NatBlockEventKind::NatBlockAllocated);
    assert_eq!(kinds[1], NatBlockEventKind::NatBlockNoBlock);
    // What has a port goes on.
    external(&mut lab, 1, 5000..5001);
}

#[test]
fn blocks_return_after_their_last_flow_and_the_timeout() {
    for mapping in BOTH {
        let mut lab = lab(by_blocks(mapping, NatBlocks { limit: 4, ..blocks() }));
        external(&mut lab, 1, 5000..5128);
        lab.send("north", [packet_from(3, &ask(3, 5000))]);
        lab.assert_dropped(&[("nat44-no-port", 1)]);
        lab.take("north");
        end_all(&mut lab);
        let found = state(&mut lab);
        assert_eq!((found.used_blocks, found.unused_blocks, found.subscribers), (0, 4, 1));
        lab.pass_time(Duration::from_secs(100));
        lab.send("north", [packet_from(3, &ask(3, 5000))]);
        lab.assert_dropped(&[("nat44-no-port", 1)]);
        lab.take("north");
        // Its own subscriber may use a block again.
        external(&mut lab, 1, 6000..6001);
        lab.pass_time(Duration::from_secs(25));
        assert_eq!(state(&mut lab).unused_blocks, 0);
        external(&mut lab, 3, 5000..5001);
        let events = events(&mut lab);
        let released = events.iter().filter(|it| it.kind() == NatBlockEventKind::NatBlockReleased);
        assert_eq!(released.clone().count(), 3);
        assert!(released.clone().all(|it| it.subscriber == bytes(host4(1)) && it.first_port > 0));
    }
}

#[test]
fn limits_hold_for_all_workers_together() {
    for mapping in BOTH {
        let quotas = [None, Some(40), None, None];
        let policy = by_blocks(mapping, NatBlocks { quotas, ..blocks() });
        let setup = translated(policy).workers(2);
        let mut lab = Lab::with(&setup, ROOMY, |_| Wire::new(2, 8));
        // Both workers get packets of one subscriber at once.
        for port in 0..100_u16 {
            let frame = |host, port| packet_from(host, &ask(host, 5000 + port));
            lab.put("west", usize::from(port % 2), [frame(1, port)]);
            lab.put("west", 1 - usize::from(port % 2), [frame(1, 100 + port)]);
        }
        lab.settle();
        let mut sent = lab.take("east").len();
        assert!(sent <= 40, "{sent}");
        // One that met another worker in the table may have been dropped.
        for port in 200..260_u16 {
            lab.put("west", usize::from(port % 2), [packet_from(1, &ask(1, 5000 + port))]);
            lab.settle();
            sent += lab.take("east").len();
        }
        assert_eq!(sent, 40);
        assert!(lab.dropped().iter().any(|it| it.0 == "nat44-quota"));
        let listed = lab.state().nat_blocks(&v1::NatBlockFilter::default());
        assert_eq!(listed.iter().map(|it| it.udp).sum::<u32>(), 40);
        assert!(listed.len() <= 2, "{listed:?}");
        lab.take("west");
        end_all(&mut lab);
        lab.pass_time(Duration::from_secs(130));
        assert_eq!((state(&mut lab).unused_blocks, state(&mut lab).subscribers), (0, 0));
    }
}

#[test]
fn a_change_of_the_policy_keeps_the_blocks_of_its_addresses() {
    let first = by_blocks(BOTH[0], blocks());
    let mut lab = lab(first.clone());
    external(&mut lab, 1, 5000..5001);
    let before = lab.state().nat_blocks(&v1::NatBlockFilter::default());
    // Its flows end, and the block stays with the subscriber for its time.
    let changed = NatPolicy { subscribers: vec![net(host4(1), 16)], ..first.clone() };
    lab.apply(&translated(changed)).unwrap();
    external(&mut lab, 1, 5001..5002);
    let after = lab.state().nat_blocks(&v1::NatBlockFilter::default());
    let key = |it: &v1::NatBlock| (it.subscriber.clone(), it.first_port);
    assert_eq!(
        before.iter().map(key).collect::<Vec<_>>(),
        after.iter().map(key).collect::<Vec<_>>()
    );
    // Blocks of another size are others.
    let larger = NatPolicy { blocks: Some(NatBlocks { size: 64, ..blocks() }), ..first };
    lab.apply(&translated(larger)).unwrap();
    await_flows(&mut lab, 0);
    external(&mut lab, 1, 5003..5004);
    assert_eq!(state(&mut lab).blocks, 2);
    lab.apply(&translated(NatPolicy { blocks: None, ..by_blocks(BOTH[0], blocks()) })).unwrap();
    await_flows(&mut lab, 0);
    // Workers end mappings ten times a second, and the last tick that looks at blocks forgets them.
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !lab.state().nat_blocks(&v1::NatBlockFilter::default()).is_empty() {
        lab.pass_time(Duration::from_secs(10));
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The ports of a subscriber stay in quarantine, whatever becomes of its policy.
#[test]
fn a_change_of_the_policy_does_not_end_the_quarantine() {
    let first = by_blocks(BOTH[0], blocks());
    let mut lab = lab(first.clone());
    let port = *external(&mut lab, 1, 5000..5001).first().unwrap();
    let (from, until) = (port - (port - 1024) % SIZE, port - (port - 1024) % SIZE + SIZE);
    let larger = NatPolicy { blocks: Some(NatBlocks { size: 64, ..blocks() }), ..first.clone() };
    let without = NatPolicy { blocks: None, ..first };
    for (at, changed) in [larger, without].into_iter().enumerate() {
        lab.apply(&translated(changed)).unwrap();
        await_flows(&mut lab, 0);
        // Ports that are within the block and those of it that are tried first.
        let own = 6000 + 100 * at as u16;
        let others = external(&mut lab, 3, own..own + 20);
        assert!(others.iter().all(|it| !(from..until).contains(it)), "{from} {others:?}");
        let same = passed(&mut lab, 3, &ask(3, from + 1), "east").ports.unwrap().0;
        assert!(!(from..until).contains(&same), "{same}");
    }
    // Until its time is over.
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !lab.state().nat_blocks(&v1::NatBlockFilter::default()).is_empty() {
        end_flows_and_wait(&mut lab);
        assert!(std::time::Instant::now() < deadline);
    }
    let same = passed(&mut lab, 3, &ask(3, from + 2), "east").ports.unwrap().0;
    assert_eq!(same, from + 2, "without blocks, a free port stays as it is");
}

fn end_flows_and_wait(lab: &mut Lab) {
    lab.state().clear_flows(&Default::default());
    lab.pass_time(Duration::from_secs(30));
    lab.state().tick();
    std::thread::sleep(Duration::from_millis(5));
}

/// A block whose ports static mappings have is no reason to refuse packets: the next one may have others.
#[test]
fn a_search_goes_on_in_the_next_block() {
    for mapping in BOTH {
        let policy = by_blocks(mapping, NatBlocks { limit: 4, ..blocks() });
        let forward = NatMapping {
            instance: 1,
            index: 1,
            protocol: 17,
            internal: net(host4(3), 32),
            external: net(POOL, 32),
            // All but the last port of the last block.
            ports: Some((7000, 1024, 4 * SIZE - 2)),
            ..NatMapping::default()
        };
        let setup = crate::nat44::with_nat(Setup::three_ports(), vec![policy], vec![forward]);
        let mut lab = Lab::with(&setup, ROOMY, |_| Wire::new(1, 8));
        assert_eq!(external(&mut lab, 1, 5000..5001), BTreeSet::from([1024 + 4 * SIZE - 1]));
    }
}

fn whois(lab: &mut Lab, request: v1::NatWhoisRequest) -> Vec<v1::NatUser> {
    let request = v1::NatWhoisRequest { protocol: 17, ..request };
    lab.state().nat_whois(&request).unwrap()
}

fn of_external(port: u16) -> v1::NatWhoisRequest {
    v1::NatWhoisRequest { external: bytes(POOL), port: port.into(), ..Default::default() }
}

#[test]
fn a_port_leads_to_its_subscriber_now_and_then() {
    let mut lab = lab(by_blocks(BOTH[0], blocks()));
    let port = *external(&mut lab, 1, 5000..5001).first().unwrap();
    let allocated = events(&mut lab)[0].unix_ms / 1000;
    let found = whois(&mut lab, of_external(port));
    let kinds: Vec<&str> = found.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!(kinds, ["port-set", "mapping", "flow"]);
    assert_eq!(found[0].unused_s, None);
    assert!(found.iter().all(|it| it.internal == bytes(host4(1))));
    let (first, last) = (found[0].first_port, found[0].last_port);
    assert!((first..=last).contains(&port.into()) && last - first == u32::from(SIZE) - 1);
    // The other way round.
    let inside = v1::NatWhoisRequest { internal: bytes(host4(1)), ..Default::default() };
    let blocks = whois(&mut lab, inside.clone());
    assert_eq!((blocks.len(), blocks[0].first_port, &blocks[0].external), (1, first, &bytes(POOL)));
    end_all(&mut lab);
    lab.pass_time(Duration::from_secs(50));
    let held = whois(&mut lab, of_external(port));
    assert!(held.len() == 1 && held[0].unused_s >= Some(50), "{held:?}");
    lab.pass_time(Duration::from_secs(75));
    assert_eq!(whois(&mut lab, of_external(port)), []);
    let at = |unix_s| v1::NatWhoisRequest { unix_s: Some(unix_s), ..of_external(port) };
    let found = whois(&mut lab, at(allocated));
    assert_eq!((found.len(), &found[0].internal), (1, &bytes(host4(1))));
    assert_eq!(found[0].allocated_unix_s, allocated);
    assert!(found[0].released_unix_s >= allocated);
    assert_eq!(whois(&mut lab, at(allocated - 10)), []);
    let inside = v1::NatWhoisRequest { unix_s: Some(allocated), ..inside };
    assert_eq!(whois(&mut lab, inside).len(), 1);
}
