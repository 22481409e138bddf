//! The fuzz target `graph` as a property test: random events on forwarders without threads that differ only in their
//! SIMD kernels, with the features of all arcs, policy rules, virtual routers, a cross-connect, and two workers that
//! hand packets to each other. All must agree, balance their packet accounting, and free all buffers.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{LazyLock, Mutex, PoisonError};

use proptest::prelude::*;
use stoa_forwarder::kernel::Kernel;
use stoa_ports::Encapsulation::{Gre, Ip};
use stoa_wire::{ipv6, protocol};

use super::hostile::mutants_of;
use super::tunnel::encapsulated_between;
use crate::harness::everything::{VARIANTS, nat64, stateless, virtual_mac, virtual4, virtual6};
use crate::harness::stepped::{self, Lab};
use crate::harness::{
    arp_request, ethertype_of, frame, host_mac, host4, host6, ip6, our_mac, our4, our6, ping4,
    ping6, solicitation, udp, udp_ports,
};

/// An event of a run.
#[derive(Clone, Debug)]
enum Event {
    /// A port receives frames in one burst.
    Burst(u8, Vec<Vec<u8>>),
    /// Time passes, in steps of 100 ms.
    Time(u8),
    /// The link of a port goes up or down.
    Link(u8, bool),
    /// Another configuration.
    Reload(u8),
}

/// The port west and its sub-interfaces: their numbers and tags.
const WEST: [(u8, &[(u16, u16)]); 5] = [
    (1, &[]),
    (10, &[(0x8100, 100)]),
    (11, &[(0x88a8, 7), (0x8100, 8)]),
    (12, &[(0x8100, 31)]),
    (13, &[(0x8100, 32)]),
];

/// Packets of host `n` to everything that there is.
fn packets(n: u8) -> Vec<Vec<u8>> {
    let (from4, from6) = (host4(n), host6(n));
    let four = (0..=8).map(|net| Ipv4Addr::new(10, 9, net, 5)).chain([2, 3, 11, 12].map(host4));
    let six = [1, 2, 3, 7, 8, 9, 11, 13].map(host6).into_iter();
    let six = six.chain([2, 3].map(|n| nat64().embed(host4(n))));
    let six = six.chain([host4(2), [192, 0, 2, 3].into()].map(|it| stateless().embed(it)));
    let four = four.chain([3, 65, 66].map(|it| Ipv4Addr::new(192, 0, 2, it)));
    let mut packets: Vec<_> = four.map(|to| udp_ports(from4, to, (7, 1500), b"data")).collect();
    packets.extend(six.map(|to| udp_ports(from6, to, (7, 1500), b"data")));
    packets.extend(
        [vec![0x5a; 1000], vec![0x5a; 1400]]
            .iter()
            .flat_map(|data| [udp(from4, host4(2), data), udp(from6, host6(2), data)]),
    );
    for which in 0..2 {
        packets.push(ping4(from4, virtual4(which), b"data"));
        packets.push(ping6(from6, virtual6(which), b"data"));
    }
    packets.extend([ping4(from4, our4(n), b"data"), ping6(from6, our6(n), b"data")]);
    packets.extend([udp(from4, our4(n), b"closed"), udp(from6, our6(n), b"closed")]);
    let options = ipv6::Builder::new(from6, host6(2), protocol::HOP_BY_HOP);
    packets.push(ip6(&options, &[&[protocol::UDP, 0, 1, 4, 0, 0, 0, 0][..], &[0; 8]].concat()));
    packets
}

/// Valid frames of all kinds.
fn good() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (n, tags) in WEST {
        for packet in packets(n) {
            let kind = ethertype_of(&packet);
            frames.push(frame(our_mac(1), host_mac(n), tags, kind, &packet));
            frames.push(frame(
                virtual_mac(usize::from(n / 10), kind == 0x86dd),
                host_mac(n),
                tags,
                kind,
                &packet,
            ));
        }
    }
    for n in [2, 3] {
        let to_router =
            |packet: &[u8]| frame(our_mac(n), host_mac(n), &[], ethertype_of(packet), packet);
        frames.extend(packets(n).iter().map(|packet| to_router(packet)));
        let inner = [udp(host4(14), host4(1), b"inner"), udp(host6(14), host6(1), b"inner")];
        for packet in &inner {
            let (kind, ends) = (if n == 2 { Gre } else { Ip }, (host4(n).into(), our4(n).into()));
            frames.push(to_router(&encapsulated_between(ends, kind, packet, 0)));
            let ends = (host6(n).into(), our6(n).into());
            frames.push(to_router(&encapsulated_between(ends, Gre, packet, 0)));
        }
    }
    let group = ipv6::solicited_node(our6(1));
    let multicast = stoa_wire::ethernet::Mac::of_ip6_group(group).0;
    frames.push(arp_request(host_mac(1), host4(1), our4(1)));
    frames.push(arp_request(host_mac(1), host4(1), virtual4(0)));
    frames.push(solicitation(
        (host_mac(1), multicast),
        (host6(1), group),
        our6(1),
        Some(host_mac(1)),
    ));
    frames
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    static GOOD: LazyLock<Vec<Vec<u8>>> = LazyLock::new(good);
    let frame = || {
        prop_oneof![
            6 => proptest::sample::select(GOOD.clone()),
            1 => mutants_of(GOOD.clone()),
        ]
    };
    // Fewer frames than the burst of a policer, so that the time of the machine does not matter.
    let burst = (0..=255_u8, proptest::collection::vec(frame(), 1..40));
    let repeated = (0..=255_u8, proptest::collection::vec(frame(), 1..3), 8..20_usize);
    let event = prop_oneof![
        8 => burst.prop_map(|(port, frames)| Event::Burst(port, frames)),
        2 => repeated.prop_map(|(port, frames, times)| {
            Event::Burst(port, std::iter::repeat_n(frames, times).flatten().collect())
        }),
        1 => (1..4_u8).prop_map(Event::Time),
        1 => (0..=255_u8, any::<bool>()).prop_map(|(port, is_up)| Event::Link(port, is_up)),
        2 => (0..VARIANTS).prop_map(Event::Reload),
    ];
    proptest::collection::vec(event, 1..6)
}

/// One forwarder for each kernel that this processor supports, the scalar one first.
static LABS: LazyLock<Mutex<Vec<Lab>>> =
    LazyLock::new(|| Mutex::new(Kernel::available().map(Lab::new).collect()));

fn run(events: Vec<Event>) -> Result<(), TestCaseError> {
    // A failed case is run again, smaller, with new forwarders.
    let mut labs = LABS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = std::mem::take(&mut *labs);
    if all.is_empty() {
        all = Kernel::available().map(Lab::new).collect();
    }
    all.iter_mut().for_each(Lab::begin);
    for event in events {
        match event {
            Event::Burst(port, frames) => all.iter_mut().for_each(|lab| lab.send(port, &frames)),
            Event::Time(steps) => stepped::pass_time(&mut all, steps),
            Event::Link(port, is_up) => all.iter_mut().for_each(|lab| lab.plug(port, is_up)),
            Event::Reload(which) => all.iter_mut().for_each(|lab| lab.reload(which)),
        }
        let outcomes: Vec<_> = all.iter_mut().map(Lab::outcome).collect();
        for other in &outcomes[1..] {
            prop_assert_eq!(&outcomes[0], other, "the kernels do not agree");
        }
    }
    stepped::rest(&mut all);
    all.iter_mut().for_each(Lab::end);
    *labs = all;
    Ok(())
}

/// The number of cases: few, or as many as `PROPTEST_CASES` says.
fn cases() -> u32 {
    let given = std::env::var("PROPTEST_CASES").ok();
    given.and_then(|cases| cases.parse().ok()).unwrap_or(24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]
    #[test]
    fn kernels_agree_with_all_features(events in events()) {
        run(events)?;
    }
}

/// What the property test covers: each node and arc is reached, and frames pass between the workers.
#[test]
fn frames_reach_all_features() {
    let mut lab = Lab::new(Kernel::detect());
    lab.begin();
    assert_eq!(lab.virtual_routers(), ["master"; 4]);
    let mut before = BTreeMap::new();
    for which in [0, 4, 8, 12, 16, 28] {
        lab.reload(which);
        for port in [0, 1, 2, 240, 241] {
            for frames in good().chunks(30) {
                lab.send(port, frames);
            }
        }
        for (node, packets) in lab.nodes() {
            *before.entry(node).or_insert(0) += packets;
        }
    }
    let reached = |node: &str| before.get(node).is_some_and(|packets| *packets > 0);
    let features: Vec<_> = stoa_forwarder::arcs::all()
        .iter()
        .flat_map(|arc| arc.edges().chain([arc.starts[0]]))
        .collect();
    let missed: Vec<_> = features.into_iter().filter(|node| !reached(node)).collect();
    assert_eq!(missed, [""; 0], "no frame reaches them");
    assert!(lab.handed_over() > 0);
}
