//! BFD: a session comes up, and while it is down, routes avoid its gateway.

use std::net::IpAddr;
use std::time::Duration;

use stoa_api::v1;
use stoa_forwarder::bfd::session::Config;
use stoa_wire::bfd::{self, Packet, State};
use stoa_wire::{ipv4, ipv6, protocol};

use crate::harness::*;

const STATIC: i32 = v1::Protocol::Static as i32;
pub const CONFIG: Config =
    Config { desired_min_tx: 100_000, required_min_rx: 100_000, multiplier: 3 };

/// A route by two gateways; the one behind "east" has a BFD session.
fn setup(to: &str, gateways: [IpAddr; 2]) -> Setup {
    let (address, length) = to.split_once('/').unwrap();
    let prefix = (address.parse().unwrap(), length.parse().unwrap());
    let paths = [("east", Some(gateways[0]), 1), ("north", Some(gateways[1]), 1)];
    Setup::three_ports().paths(prefix, &paths).with("east", |east| {
        east.bfd.insert(gateways[0], CONFIG);
    })
}

/// A lab with a simulated clock.
pub fn lab(setup: &Setup) -> Lab {
    let mut lab = Lab::new(setup);
    lab.state().stop_time();
    lab
}

pub fn control(from: IpAddr, to: IpAddr, hop_limit: u8, packet: &Packet) -> Vec<u8> {
    let mut data = [0; bfd::LENGTH];
    bfd::build(&mut data, packet).unwrap();
    let datagram = datagram(from, to, (49_200, bfd::PORT), &data);
    let packet = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let header = ipv4::Builder {
                time_to_live: hop_limit,
                ..ipv4::Builder::new(from, to, protocol::UDP)
            };
            ip4(&header, &datagram)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = ipv6::Builder { hop_limit, ..ipv6::Builder::new(from, to, protocol::UDP) };
            ip6(&header, &datagram)
        }
        _ => unreachable!("of one family"),
    };
    packet_from(2, &packet)
}

/// The last packet of the router to the neighbour.
fn message(lab: &Lab) -> Option<Packet> {
    let frames = lab.take("east");
    let of_frame = |frame: &Vec<u8>| {
        let at = if frame[12..14] == [8, 0] { 14 + 20 } else { 14 + 40 };
        let is_control = frame.get(at + 2..at + 4) == Some(&bfd::PORT.to_be_bytes()[..]);
        is_control.then(|| bfd::check(&frame[at + 8..]).expect("a packet that is right"))
    };
    frames.iter().filter_map(of_frame).next_back()
}

fn attend(lab: &mut Lab) {
    lab.state().run_bfd();
    lab.settle();
}

/// Brings the session up.
pub fn come_up(lab: &mut Lab, ends: (IpAddr, IpAddr)) -> Packet {
    let mut packet = Packet {
        state: State::Down,
        multiplier: 3,
        mine: 4_711,
        desired_min_tx: 100_000,
        required_min_rx: 100_000,
        ..Packet::default()
    };
    lab.send("east", [control(ends.0, ends.1, 255, &packet)]);
    attend(lab);
    let reply = message(lab).expect("an answer");
    assert_eq!((reply.state, reply.yours), (State::Init, 4_711));
    packet = Packet { state: State::Up, yours: reply.mine, ..packet };
    lab.send("east", [control(ends.0, ends.1, 255, &packet)]);
    attend(lab);
    assert_eq!(message(lab).map(|it| it.state), Some(State::Up));
    packet
}

fn session(lab: &mut Lab) -> v1::BfdSessionState {
    let east = lab.state().list_interfaces().into_iter().find(|it| it.name == "east").unwrap();
    east.bfd.into_iter().next().expect("a session")
}

/// The number of 100 flows that leave by each of both ports.
fn flows_by_port(lab: &mut Lab, from: IpAddr, to: IpAddr) -> (usize, usize) {
    lab.forget();
    let flow = |port| packet_from(1, &udp_ports(from, to, (port, 80), b""));
    lab.send("west", (1..=100).map(flow));
    let count = |port: &str| {
        lab.parsed(port).iter().filter(|it| it.ports.is_some_and(|it| it.1 == 80)).count()
    };
    (count("east"), count("north"))
}

fn routes_follow_the_session(
    gateways: [IpAddr; 2],
    us: IpAddr,
    host: IpAddr,
    prefix: &str,
    to: &str,
) {
    let mut lab = lab(&setup(prefix, gateways));
    let to: IpAddr = to.parse().unwrap();
    // A gateway whose session was never up is used.
    let both = flows_by_port(&mut lab, host, to);
    assert!(both.0 > 20 && both.1 > 20, "{both:?}");
    let packet = come_up(&mut lab, (gateways[0], us));
    // Off-link or invalid packets are dropped.
    let is_down = Packet { state: State::Down, ..packet };
    lab.forget();
    lab.send("east", [control(gateways[0], us, 254, &is_down)]);
    assert!(lab.only("east").icmp.is_some(), "off-link packets do not belong to the session");
    lab.forget();
    lab.send("east", [control(gateways[0], us, 255, &Packet { mine: 0, ..is_down })]);
    lab.assert_dropped(&[("bfd-malformed", 1)]);
    let state = session(&mut lab);
    assert_eq!((state.state.as_str(), state.rx_us, state.remote_multiplier), ("up", 100_000, 3));
    // The detection time expires.
    lab.state().skip(Duration::from_millis(299));
    attend(&mut lab);
    assert_eq!(session(&mut lab).state, "up");
    lab.state().skip(Duration::from_millis(2));
    attend(&mut lab);
    let state = session(&mut lab);
    assert_eq!((state.state.as_str(), state.downs, state.has_failed), ("down", 1, true));
    assert_eq!(flows_by_port(&mut lab, host, to), (0, 100));
    // The session comes back.
    come_up(&mut lab, (gateways[0], us));
    let both = flows_by_port(&mut lab, host, to);
    assert!(both.0 > 20 && both.1 > 20, "{both:?}");
}

#[test]
fn routes_avoid_a_bfd_down_gateway_and_come_back() {
    let gateways = [host4(2).into(), host4(3).into()];
    routes_follow_the_session(
        gateways,
        our4(2).into(),
        host4(1).into(),
        "192.0.2.0/24",
        "192.0.2.9",
    );
    let gateways = [host6(2).into(), host6(3).into()];
    routes_follow_the_session(
        gateways,
        our6(2).into(),
        host6(1).into(),
        "2001:db8:ff::/48",
        "2001:db8:ff::9",
    );
}

/// The port by which a packet leaves; "": it is dropped with an ICMP error.
pub fn egress(lab: &mut Lab, to: IpAddr) -> &'static str {
    match flows_by_port(lab, host4(1).into(), to) {
        (100, 0) => "east",
        (0, 100) => "north",
        (0, 0) => "",
        other => panic!("{other:?}"),
    }
}

/// A static route by "east", which has a BFD session, and other routes.
pub fn alone(further: &[(&str, &str, [u8; 4])]) -> Setup {
    let gateway = IpAddr::from(host4(2));
    let mut setup = Setup::three_ports().with("east", |east| {
        east.bfd.insert(gateway, CONFIG);
    });
    for (to, port, gateway) in [("192.0.2.0/24", "east", host4(2).octets())].iter().chain(further) {
        let (address, length) = to.split_once('/').unwrap();
        let prefix = (address.parse().unwrap(), length.parse().unwrap());
        setup = setup.paths(prefix, &[(port, Some(IpAddr::from(*gateway)), 1)]);
        setup.0.routes.get_mut(&prefix).unwrap().protocol = STATIC;
    }
    setup
}

fn go_silent(lab: &mut Lab) {
    lab.state().skip(Duration::from_millis(301));
    attend(lab);
    assert!(session(lab).has_failed);
}

#[test]
fn a_static_route_without_a_usable_gateway_is_withdrawn() {
    let ends = (IpAddr::from(host4(2)), IpAddr::from(our4(2)));
    let to = IpAddr::from([192, 0, 2, 9]);
    let shorter = alone(&[("192.0.0.0/16", "north", host4(3).octets())]);
    let mut lab = lab(&shorter);
    come_up(&mut lab, ends);
    assert_eq!(egress(&mut lab, to), "east");
    go_silent(&mut lab);
    assert_eq!(egress(&mut lab, to), "north", "the shorter one");
    let static_routes = |lab: &mut Lab| -> u64 {
        let counts = lab.state().count_routes();
        counts.iter().filter(|it| it.protocol == STATIC && it.family == 4).map(|it| it.routes).sum()
    };
    assert_eq!(static_routes(&mut lab), 1);
    // A new desired state with the same route does not restore it.
    let more = alone(&[
        ("192.0.0.0/16", "north", host4(3).octets()),
        ("198.51.100.0/24", "east", host4(2).octets()),
    ]);
    lab.apply(&more).unwrap();
    assert_eq!(egress(&mut lab, to), "north");
    assert_eq!(egress(&mut lab, [198, 51, 100, 9].into()), "", "no other route to it");
    assert_eq!(static_routes(&mut lab), 1);
    come_up(&mut lab, ends);
    assert_eq!(
        (egress(&mut lab, to), egress(&mut lab, [198, 51, 100, 9].into())),
        ("east", "east")
    );
    assert_eq!(static_routes(&mut lab), 3);
    // Another path of the route, while it is withdrawn.
    go_silent(&mut lab);
    lab.apply(&alone(&[("192.0.2.0/24", "north", host4(3).octets())])).unwrap();
    assert_eq!(egress(&mut lab, to), "north");
    lab.apply(&alone(&[])).unwrap();
    assert_eq!(egress(&mut lab, to), "");
    // Without a session, the route is used.
    let mut without = alone(&[]);
    without.0.interfaces.get_mut("east").unwrap().bfd.clear();
    lab.apply(&without).unwrap();
    assert_eq!(egress(&mut lab, to), "east");
}

#[test]
fn a_learned_route_replaces_a_bfd_down_static_one() {
    let ends = (IpAddr::from(host4(2)), IpAddr::from(our4(2)));
    let to = IpAddr::from([192, 0, 2, 9]);
    let mut lab = lab(&alone(&[]));
    lab.learn_all(
        LearnedMessage::first().hop(1, &[("north", "10.0.3.2")]).run(1, &["192.0.2.0/24"]),
    );
    come_up(&mut lab, ends);
    assert_eq!(egress(&mut lab, to), "east");
    go_silent(&mut lab);
    assert_eq!(egress(&mut lab, to), "north");
    // It changes while the static one is withdrawn.
    lab.learn_all(LearnedMessage::more().run(0, &["192.0.2.0/24"]));
    assert_eq!(egress(&mut lab, to), "");
    lab.learn_all(LearnedMessage::more().run(1, &["192.0.2.0/24"]));
    assert_eq!(egress(&mut lab, to), "north");
    come_up(&mut lab, ends);
    assert_eq!(egress(&mut lab, to), "east");
    lab.learn_all(LearnedMessage::more().run(0, &["192.0.2.0/24"]));
    assert_eq!(egress(&mut lab, to), "east");
}

#[test]
fn routes_of_a_bfd_down_gateway_show_the_state() {
    let ends = (IpAddr::from(host4(2)), IpAddr::from(our4(2)));
    let mut lab = lab(&alone(&[]));
    let (east, north) = (("east", "10.0.2.2"), ("north", "10.0.3.2"));
    let message =
        LearnedMessage::first().hop(1, &[east]).hop(2, &[east, north]).backed(3, &[east], &[north]);
    let nets = ["198.51.100.0/24", "203.0.113.0/25", "203.0.113.128/25"];
    lab.learn_all(message.run(1, &nets[..1]).run(2, &nets[1..2]).run(3, &nets[2..]));
    come_up(&mut lab, ends);
    flows_by_port(&mut lab, host4(1).into(), [203, 0, 113, 1].into());
    let states = |lab: &mut Lab| {
        [[198, 51, 100, 9], [203, 0, 113, 1], [203, 0, 113, 129]].map(|to| {
            let state = lab.route_to("", to).unwrap();
            assert!(state.is_learned && !state.is_stale);
            (state.state, state.is_backup)
        })
    };
    let of = |state: &str, is_backup| (state.to_owned(), is_backup);
    assert_eq!(states(&mut lab), ["active"; 3].map(|it| of(it, false)));
    go_silent(&mut lab);
    let partly = "partly active";
    assert_eq!(
        states(&mut lab),
        [of("gateway BFD-down", false), of(partly, false), of(partly, true)]
    );
    // The static one is withdrawn and listed as not in use.
    assert!(lab.route_to("", [192, 0, 2, 9]).is_none());
    let request = |to: Option<[u8; 4]>, family| {
        let longest_match = to.map(|to| v1::Prefix { address: to.to_vec(), length: 32 });
        v1::ListRoutesRequest { inactive: true, longest_match, family, ..Default::default() }
    };
    let listed = lab.state().list_routes(&request(None, 0));
    let route = listed[0].route.as_ref().unwrap();
    assert_eq!(
        (listed.len(), listed[0].state.as_str(), route.protocol),
        (1, "gateway BFD-down", STATIC)
    );
    assert_eq!(lab.state().list_routes(&request(Some([192, 0, 2, 9]), 4)), listed);
    assert_eq!(lab.state().list_routes(&request(Some([192, 0, 3, 9]), 0)), []);
    assert_eq!(lab.state().list_routes(&request(None, 6)), []);
    come_up(&mut lab, ends);
    assert_eq!(states(&mut lab), ["active"; 3].map(|it| of(it, false)));
    // The source of learned routes starts again.
    lab.learn_all(LearnedMessage::first());
    assert!(lab.route_to("", [198, 51, 100, 9]).unwrap().is_stale);
}

#[test]
fn the_last_usable_gateway_and_its_link_count() {
    let ends = (IpAddr::from(host4(2)), IpAddr::from(our4(2)));
    let to = IpAddr::from([192, 0, 2, 9]);
    let mut setup = alone(&[("192.0.0.0/16", "west", host4(1).octets())]);
    let prefix = ("192.0.2.0".parse().unwrap(), 24);
    let both = [("east", Some(host4(2).into()), 1), ("north", Some(host4(3).into()), 1)];
    setup = setup.paths(prefix, &both);
    setup.0.routes.get_mut(&prefix).unwrap().protocol = STATIC;
    let mut lab = lab(&setup);
    come_up(&mut lab, ends);
    go_silent(&mut lab);
    assert_eq!(egress(&mut lab, to), "north");
    lab.plug("north", false);
    assert_eq!(lab.route_to("", to).unwrap().route.unwrap().prefix.unwrap().length, 16);
    lab.plug("north", true);
    assert_eq!(egress(&mut lab, to), "north");
}

#[test]
fn without_a_session_bfd_packets_get_port_unreachable() {
    let mut lab = lab(&Setup::three_ports());
    let packet = Packet { state: State::Down, multiplier: 3, mine: 1, ..Packet::default() };
    lab.send("east", [control(host4(2).into(), our4(2).into(), 255, &packet)]);
    let reply = lab.only("east");
    assert_eq!(reply.icmp.map(|it| (it.0, it.1)), Some((3, 3)), "port unreachable");
}

#[test]
fn a_deleted_session_sends_admin_down_and_routes_stay() {
    let gateways: [IpAddr; 2] = [host4(2).into(), host4(3).into()];
    let setup = setup("192.0.2.0/24", gateways);
    let mut lab = lab(&setup);
    come_up(&mut lab, (gateways[0], our4(2).into()));
    lab.state().skip(Duration::from_millis(400));
    attend(&mut lab);
    assert!(session(&mut lab).has_failed);
    lab.forget();
    lab.apply(&setup.with("east", |east| east.bfd.clear())).unwrap();
    lab.settle();
    assert_eq!(message(&lab).map(|it| it.state), Some(State::AdminDown));
    let both = flows_by_port(&mut lab, host4(1).into(), "192.0.2.9".parse().unwrap());
    assert!(both.0 > 20 && both.1 > 20, "{both:?}");
}
