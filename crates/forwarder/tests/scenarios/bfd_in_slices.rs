//! In the pauses of a commit, BFD withdraws and reinstalls static routes: those of the commit among them.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_forwarder::control::ForwarderState;
use stoa_wire::bfd::{Packet, State};

use crate::bfd::{CONFIG, alone, come_up, control, egress, lab};
use crate::harness::*;

const TO: [u8; 4] = [192, 0, 2, 9];

/// The number of installed IPv4 routes.
fn routes(state: &ForwarderState) -> u64 {
    let counts = state.count_routes();
    counts.iter().filter(|it| it.family == 4).map(|it| it.routes).sum()
}

#[test]
fn a_changed_route_is_installed_although_its_former_gateway_fails_meanwhile() {
    let ends = (IpAddr::from(host4(2)), IpAddr::from(our4(2)));
    let mut lab = lab(&alone(&[("198.51.100.0/24", "north", host4(3).octets())]));
    come_up(&mut lab, ends);
    assert_eq!(egress(&mut lab, TO.into()), "east");
    let before = routes(lab.state());
    let mut has_failed = false;
    lab.state().on_pause(Some(Box::new(move |state, _| {
        // The removals are done, nothing is added yet.
        if !has_failed && routes(state) < before {
            has_failed = true;
            state.skip(Duration::from_millis(400));
        }
    })));
    // One route goes, the other one changes, and an interface is set in between.
    let changed = alone(&[("192.0.2.0/24", "north", host4(3).octets())]);
    lab.apply(&changed.with("west", |west| west.ip4.options.directed_broadcast = true)).unwrap();
    lab.state().on_pause(None);
    let east = lab.state().list_interfaces().into_iter().find(|it| it.name == "east").unwrap();
    assert!(east.bfd[0].has_failed, "the session fails in a pause");
    assert_eq!(egress(&mut lab, TO.into()), "north");
    come_up(&mut lab, ends);
    assert_eq!(egress(&mut lab, TO.into()), "north", "the former route does not come back");
}

/// A sub-interface of "east" with these tags, with a BFD session, a static route and another one.
fn with_sub(tags: &[(u16, u16)]) -> Setup {
    let gateway = IpAddr::from(host4(5));
    let mut setup = Setup::three_ports().sub("sub", 5, "east", tags).host("sub", 5);
    setup = setup.with("sub", |sub| {
        sub.bfd.insert(gateway, CONFIG);
    });
    let prefix = (IpAddr::from([192, 0, 2, 0]), 24);
    for prefix in [prefix, (IpAddr::from([198, 51, 100, 0]), 24)] {
        setup = setup.paths(prefix, &[("sub", Some(gateway), 1)]);
    }
    setup.0.routes.get_mut(&prefix).unwrap().protocol = v1::Protocol::Static.into();
    setup
}

/// A packet of the neighbour behind the sub-interface.
fn tagged(tags: &[(u16, u16)], packet: &Packet) -> Vec<u8> {
    let bare = control(host4(5).into(), our4(5).into(), 255, packet);
    frame(our_mac(2), host_mac(5), tags, ethertype_of(&bare[14..]), &bare[14..])
}

fn session(state: &ForwarderState) -> v1::BfdSessionState {
    let sub = state.list_interfaces().into_iter().find(|it| it.name == "sub").unwrap();
    sub.bfd.into_iter().next().expect("a session")
}

/// Receives the neighbour's packet, which is on its way.
fn recover(state: &mut ForwarderState) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while session(state).state != "up" {
        assert!(Instant::now() < deadline, "no packet of the neighbour");
        state.process_punts();
        std::thread::yield_now();
    }
}

#[test]
fn a_route_that_comes_back_meanwhile_does_not_lead_through_a_removed_interface() {
    let (old, new) = ([(0x8100, 5)], [(0x8100, 6)]);
    let mut lab = lab(&with_sub(&old));
    let packet = Packet {
        state: State::Init,
        multiplier: 3,
        mine: 4_711,
        yours: session(lab.state()).discriminator,
        desired_min_tx: 100_000,
        required_min_rx: 100_000,
        ..Packet::default()
    };
    lab.put("east", 0, [tagged(&old, &packet)]);
    recover(lab.state());
    lab.state().skip(Duration::from_millis(301));
    lab.state().run_bfd();
    lab.settle();
    assert!(lab.route_to("", TO).is_none(), "it is withdrawn");
    // The neighbour recovers in the first pause after routes of the interface were removed.
    let before = routes(lab.state());
    let recovered = Arc::new(AtomicBool::new(false));
    let has_recovered = recovered.clone();
    lab.put("east", 0, [tagged(&old, &packet)]);
    lab.state().on_pause(Some(Box::new(move |state, _| {
        if routes(state) < before && !has_recovered.swap(true, Ordering::Relaxed) {
            recover(state);
            state.skip(Duration::from_millis(10));
        }
    })));
    lab.apply(&with_sub(&new)).unwrap();
    lab.state().on_pause(None);
    assert!(recovered.load(Ordering::Relaxed), "there is such a pause");
    lab.settle();
    lab.forget();
    lab.send("west", [packet_from(1, &udp(host4(1), std::net::Ipv4Addr::from(TO), b"data"))]);
    let is_ours = |frame: &&Vec<u8>| {
        frame[12..18] == [0x81, 0, 0, 6, 8, 0] && frame.get(34..38) == Some(&TO[..])
    };
    assert_eq!(lab.take("east").iter().filter(is_ours).count(), 1, "{:?}", lab.dropped());
}
