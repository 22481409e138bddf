//! What flows of a partner leave to others, which VRFs they join, and how many come in a second.

use stoa_forwarder::control::Limits;
use stoa_forwarder::control::desired::NatPolicy;

use super::*;
use crate::nat44::{POOL, with_nat};
use crate::nat44_vrf::customers;

fn ask(host: u8, port: u16) -> Vec<u8> {
    udp_ports(host4(host), host4(2), (port, 53), b"ask")
}

/// Two routers of which the second has less room, and the first some flows.
fn smaller(of: &NatPolicy, limits: Limits, ports: std::ops::Range<u16>) -> [Lab; 2] {
    let ([first, second], roomy) =
        (settings(), Limits { nat_flows: 1024, nat_mappings: 1024, ..LIMITS });
    let lab = |sync: &Settings, limits| {
        Lab::with(&with(translated(of.clone()), sync), limits, |_| Wire::new(1, 8))
    };
    let [mut one, mut other] = [lab(&first, roomy), lab(&second, limits)];
    await_state(&mut other, |it| it.is_bulk_sent && it.is_bulk_received);
    for port in ports {
        passed(&mut one, 1, &ask(1, port), "east");
    }
    [one, other]
}

#[test]
fn the_last_mappings_are_left_to_others() {
    let limits = Limits { nat_flows: 1024, nat_mappings: 64, ..LIMITS };
    let of = policy(Mapping::EndpointIndependent);
    let [_one, mut other] = smaller(&of, limits, 5_000..5_070);
    await_state(&mut other, |it| it.created_flows == 60 && it.refused_room >= 10);
    passed(&mut other, 1, &ask(1, 6_000), "east");
}

#[test]
fn the_last_ports_are_left_to_others() {
    let limits = Limits { nat_flows: 1024, nat_mappings: 1024, ..LIMITS };
    for mapping in [Mapping::EndpointIndependent, Mapping::EndpointDependent] {
        let of = NatPolicy { ports: (1_024, 1_055), ..policy(mapping) };
        let [_one, mut other] = smaller(&of, limits, 1_024..1_056);
        await_state(&mut other, |it| it.created_flows == 30 && it.refused_room >= 2);
        passed(&mut other, 1, &ask(1, 6_000), "east");
    }
}

/// The second router keeps blue apart from the default VRF.
#[test]
fn vrfs_meet_where_routes_lead() {
    let of = || NatPolicy { pools: vec![net(POOL, 32)], ..policy(Mapping::EndpointDependent) };
    let setup = || with_nat(customers(), vec![of()], Vec::new());
    let mut apart = setup();
    let all = (std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    apart.0.vrfs.get_mut("blue").unwrap().remove(&all).unwrap();
    let [mut one, mut other] = pair([setup(), apart]);
    for vrf in ["red", "blue"] {
        one.send(vrf, [packet_from(1, &ask(1, 5_000))]);
        one.only("east");
    }
    await_state(&mut other, |it| it.created_flows == 1 && it.refused_translation >= 1);
    assert_eq!(flows(&mut other)[0].vrf, "red");
}

/// `STOA_TEST_FLOWS=1000000 cargo test --release -p stoa-forwarder --test scenarios many_flows_reach -- --nocapture`
/// prints the times.
#[test]
fn many_flows_reach_a_partner() {
    let count: u32 = std::env::var("STOA_TEST_FLOWS").map_or(3_000, |it| it.parse().unwrap());
    let limits = Limits { flows4: count as usize / 15 * 16 + 64, ..LIMITS };
    let lab = |sync: &Settings| Lab::with(&with(open_gate(), sync), limits, |_| Wire::new(1, 8));
    let [first, second] = settings();
    let listener = TcpListener::bind(first.ends.local).unwrap();
    let mut one = lab(&second);
    let mut partner = Liar::meet(&listener, false);
    let (begin, mut numbers) = (Instant::now(), 0..count);
    while state(&mut one).created_flows < count.into() {
        assert!(begin.elapsed() < 6 * LONG, "{:?}", state(&mut one));
        while partner.0.has_room() && !numbers.is_empty() {
            partner.send(|items| {
                for number in numbers.by_ref().take(400) {
                    let host = Ipv4Addr::from_bits(0x0a00_0000 + number / 1_000);
                    let mut record = udp((number % 1_000) as u16);
                    record.flow.key = key4(
                        (host, 1_000 + (number % 1_000) as u16),
                        (host4(2), 53),
                        protocol::UDP,
                    );
                    put_flow(&record, 0, items);
                }
            });
        }
        partner.serve();
        std::thread::sleep(Duration::from_millis(1));
    }
    let taken = begin.elapsed();
    drop((partner, listener));
    let mut other = lab(&first);
    await_state(&mut other, |it| it.connections == 1);
    let begin = Instant::now();
    while state(&mut other).created_flows < count.into() {
        assert!(begin.elapsed() < 6 * LONG, "{:?}", state(&mut other));
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("{count} flows: taken in {taken:?}, at another router in {:?}", begin.elapsed());
}
