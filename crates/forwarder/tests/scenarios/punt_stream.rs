//! The punt stream with real workers and a controller that the test plays: packets of subscribed keys go there and
//! nowhere else, its packets go out, and no class takes from another.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use stoa_api::punts::{BATCH_PACKETS, test};
use stoa_api::v1;
use stoa_api::v1::injected_packet::Data;
use stoa_forwarder::punt::{Class, Limit};
use stoa_wire::{ipv4, protocol};

use crate::harness::*;

const ETHERTYPE: u16 = 0x88b5;
const ECHO: (u16, u16) = (4000, 7);
const CALLER: u64 = 1;
const TAG: (u16, u16) = (0x8100, 5);

/// Policers in the workers that do not count, as their clock is not the test's.
fn setup() -> Setup {
    let mut setup = Setup::three_ports().sub("sub", 4, "west", &[TAG]).host("sub", 4);
    let limit = Limit { rate: 100_000, burst: 100_000, total: 1_000_000 };
    setup.0.punts = [Class::Test, Class::TestLink].map(|class| (class, limit)).into();
    setup
}

fn subscribe(lab: &mut Lab, caller: u64, window: u32) {
    let class = |class: &str, key| {
        let keys = vec![v1::PuntKey::from(key)];
        v1::SubscribedClass { class: class.to_owned(), keys, window }
    };
    let classes = vec![class(test::CLASS, test::KEY), class(test::LINK_CLASS, test::LINK_KEY)];
    let subscription = v1::PuntSubscription { classes };
    let subscribed = lab.state().subscribe_punts(caller, &subscription);
    assert_eq!(subscribed, Some(v1::PuntsSubscribed::default()));
}

/// All packets that the controller would get now, by class.
fn take(lab: &mut Lab, class: &str) -> Vec<v1::PuntedPacket> {
    let mut all = Vec::new();
    while let Some(message) = lab.state().take_punts() {
        assert!(message.packets.len() <= BATCH_PACKETS);
        all.extend(message.packets.into_iter().map(|packet| (message.class.clone(), packet)));
    }
    all.into_iter().filter(|(of, _)| of == class).map(|(_, packet)| packet).collect()
}

fn stream(lab: &mut Lab, class: &str) -> v1::PuntStreamState {
    let all = lab.state().list_punt_streams();
    all.into_iter().find(|state| state.class == class).unwrap()
}

fn packet(interface: &str, packet: Vec<u8>) -> v1::InjectedPacket {
    v1::InjectedPacket { interface: interface.to_owned(), data: Some(Data::Packet(packet)) }
}

fn frame_out(interface: &str, frame: Vec<u8>) -> v1::InjectedPacket {
    v1::InjectedPacket { interface: interface.to_owned(), data: Some(Data::Frame(frame)) }
}

fn inject(lab: &mut Lab, class: &str, packets: Vec<v1::InjectedPacket>) -> v1::PuntsInjected {
    let message = v1::PuntInjections { number: 3, class: class.to_owned(), packets };
    let injected = lab.state().inject_punts(CALLER, &message);
    lab.settle();
    assert_eq!(injected.number, 3);
    injected
}

/// An echo request of the host behind an interface, and the answer of the router.
fn echo(n: u8, is_ip6: bool, data: &[u8]) -> [Vec<u8>; 2] {
    let (host, own): (IpAddr, IpAddr) = match is_ip6 {
        false => (host4(n).into(), our4(n).into()),
        true => (host6(n).into(), our6(n).into()),
    };
    [udp_ports(host, own, ECHO, data), udp_ports(own, host, (ECHO.1, ECHO.0), data)]
}

#[test]
fn packets_go_to_the_controller_and_its_answers_to_the_host() {
    let mut lab = Lab::new(&setup());
    for is_ip6 in [false, true] {
        let [request, answer] = echo(1, is_ip6, b"abc");
        lab.send("west", [packet_from(1, &request)]);
        assert_eq!(lab.only("west").icmp.map(|icmp| icmp.0), Some(if is_ip6 { 1 } else { 3 }));
        subscribe(&mut lab, CALLER, 100);
        lab.forget();
        lab.send("west", [packet_from(1, &request)]);
        lab.assert_dropped(&[]);
        lab.assert_silent();
        let punted = take(&mut lab, test::CLASS);
        assert_eq!(punted.len(), 1);
        let ethertype = ethertype_of(&request);
        assert_eq!((&*punted[0].interface, punted[0].ethertype), ("west", ethertype.into()));
        assert_eq!((&punted[0].payload, &*punted[0].vrf, &punted[0].tags), (&request, "", &vec![]));
        assert_eq!(punted[0].link_header, packet_from(1, &request)[..14]);
        assert_ne!(punted[0].received_unix_us, 0);
        let injected = inject(&mut lab, test::CLASS, vec![packet("west", answer)]);
        assert_eq!((injected.sent, injected.refused), (1, vec![]));
        let answer = lab.only("west");
        assert_eq!((answer.destination, answer.ports), (host_mac(1), Some((7, 4000))));
        assert_eq!(answer.payload, b"abc");
        // Without a subscription, it is as before.
        lab.state().subscribe_punts(CALLER, &v1::PuntSubscription::default());
    }
    let state = stream(&mut lab, test::CLASS);
    assert_eq!(
        (state.sent, state.injected, state.is_subscribed, state.keys),
        (2, 2, false, vec![])
    );
}

#[test]
fn frames_go_there_and_back_with_the_tags_of_their_interface() {
    let mut lab = Lab::new(&setup());
    let request = frame(our_mac(1), host_mac(4), &[TAG], ETHERTYPE, b"discovery");
    lab.send("west", [request.clone()]);
    lab.assert_dropped(&[("ethernet-unknown-type", 1)]);
    subscribe(&mut lab, CALLER, 100);
    let group = frame([0xff; 6], host_mac(1), &[], ETHERTYPE, b"to all");
    lab.send("west", [request.clone(), group]);
    let punted = take(&mut lab, test::LINK_CLASS);
    assert_eq!(punted.iter().map(|it| &*it.interface).collect::<Vec<_>>(), ["sub", "west"]);
    assert_eq!(punted[0].link_header, request[..18]);
    assert_eq!(punted[0].payload, b"discovery");
    assert_eq!((&punted[0].tags, punted[0].ethertype), (&vec![0x8100_0005], ETHERTYPE.into()));
    assert_eq!((&*punted[1].payload, &punted[1].tags), (&b"to all"[..], &vec![]));
    let answer = frame(host_mac(4), our_mac(1), &[], ETHERTYPE, b"offer");
    let injected = inject(&mut lab, test::LINK_CLASS, vec![frame_out("sub", answer)]);
    assert_eq!((injected.sent, injected.refused), (1, vec![]));
    let expected = frame(host_mac(4), our_mac(1), &[TAG], ETHERTYPE, b"offer");
    assert_eq!(lab.take("west"), [expected]);
}

#[test]
fn a_full_class_does_not_affect_the_other() {
    let mut lab = Lab::new(&setup());
    lab.state().stop_time();
    subscribe(&mut lab, CALLER, 4096);
    let long = packet_from(1, &echo(1, false, &[0; 1000])[0]);
    let short = packet_from(1, &echo(1, false, b"")[0]);
    let link = frame(our_mac(1), host_mac(1), &[], ETHERTYPE, b"x");
    // The bytes of one class are used up: 64 KiB.
    lab.send("west", vec![long; 200]);
    let full = stream(&mut lab, test::CLASS);
    assert_eq!(full.queued + full.queue_full, 200);
    assert!((50..64).contains(&full.queued) && full.queued_bytes <= full.queue_bytes, "{full:?}");
    lab.assert_dropped(&[("punt-queue", full.queue_full)]);
    lab.send("west", vec![link.clone(); 100]);
    lab.assert_dropped(&[]);
    assert_eq!(take(&mut lab, test::LINK_CLASS).len(), 100);
    // Then its packets: a burst of 500, and 1,000 a second.
    let burst = 500 - full.queued as usize;
    for _ in 0..2 {
        lab.send("west", vec![short.clone(); 300]);
        take(&mut lab, test::CLASS);
    }
    lab.assert_dropped(&[("punt-limited", 600 - burst as u64)]);
    lab.state().skip(Duration::from_millis(50));
    lab.send("west", vec![short.clone(); 100]);
    lab.assert_dropped(&[("punt-limited", 50)]);
    assert_eq!(take(&mut lab, test::CLASS).len(), 50);
    lab.send("west", vec![link; 100]);
    lab.assert_dropped(&[]);
    let [limited, other] = [test::CLASS, test::LINK_CLASS].map(|class| stream(&mut lab, class));
    assert_eq!((limited.sent, limited.limited), (550, 650 - burst as u64));
    assert_eq!((other.sent, other.queued, other.limited, other.queue_full), (100, 100, 0, 0));
    // Local packets that nobody has subscribed to are handled as ever.
    lab.send("west", [packet_from(1, &ping4(host4(1), our4(1), b"ok"))]);
    assert_eq!(lab.only("west").icmp, Some((0, 0)));
}

#[test]
fn without_a_controller_packets_are_dropped_and_counted() {
    let mut lab = Lab::new(&setup());
    subscribe(&mut lab, CALLER, 2);
    let request = packet_from(1, &echo(1, false, b"abc")[0]);
    lab.send("west", vec![request.clone(); 5]);
    assert_eq!(take(&mut lab, test::CLASS).len(), 2, "no more than the window");
    lab.state().end_punts(CALLER + 1);
    assert_eq!(stream(&mut lab, test::CLASS).queued, 3, "it was not the subscriber");
    lab.state().end_punts(CALLER);
    lab.assert_dropped(&[("punt-unsubscribed", 3)]);
    // No ICMP error: the protocol is there, its controller is not.
    lab.send("west", vec![request.clone(); 4]);
    lab.assert_dropped(&[("punt-unsubscribed", 4)]);
    lab.assert_silent();
    let answer = echo(1, false, b"abc")[1].clone();
    let late = inject(&mut lab, test::CLASS, vec![packet("west", answer)]);
    assert!(late.refused[0].reason.contains("has not subscribed"), "{late:?}");
    subscribe(&mut lab, CALLER + 1, 2);
    assert_eq!(lab.state().subscribe_punts(CALLER, &Default::default()), None, "superseded");
    lab.send("west", [request]);
    assert_eq!(take(&mut lab, test::CLASS).len(), 1);
    let state = stream(&mut lab, test::CLASS);
    assert_eq!((state.sent, state.unsubscribed, state.refused), (3, 7, 1));
}

#[test]
fn each_injected_packet_is_checked_on_its_own() {
    let setup = setup().vrf("red", &["north"]);
    let mut lab = Lab::new(&setup);
    lab.state().stop_time();
    subscribe(&mut lab, CALLER, 100);
    let good = || packet("west", echo(1, false, b"good")[1].clone());
    let mut wrong = echo(1, false, b"bad")[1].clone();
    wrong[10] ^= 1;
    let padded = [echo(1, false, b"bad")[1].clone(), vec![0]].concat();
    let long = frame(host_mac(1), our_mac(1), &[], ETHERTYPE, &[0; 9_300]);
    let all = vec![
        (packet("nowhere", vec![]), "no interface \"nowhere\""),
        (good(), ""),
        (packet("west", vec![]), "not an IPv6 packet"),
        (packet("west", wrong), "not an IPv4 packet"),
        (packet("west", padded), "1 bytes follow"),
        (packet("west", echo(1, false, b"spoofed")[0].clone()), "10.0.1.2 is not a local address"),
        (packet("north", echo(1, true, b"")[1].clone()), "2001:db8:1::1 is not a local address"),
        (frame_out("west", vec![0; 13]), "no Ethernet header"),
        (frame_out("west", long), "more than the MTU"),
        (v1::InjectedPacket { interface: "west".into(), data: None }, "neither a frame nor"),
        (good(), ""),
    ];
    let (packets, reasons): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let injected = inject(&mut lab, test::CLASS, packets);
    assert_eq!(injected.sent, 2);
    let mut refused = injected.refused.iter();
    for (index, reason) in reasons.iter().enumerate().filter(|(_, reason)| !reason.is_empty()) {
        let refused = refused.next().unwrap();
        assert_eq!(refused.index as usize, index);
        assert!(refused.reason.contains(reason) && !refused.fix.is_empty(), "{refused:?}");
    }
    assert_eq!(lab.take("west").len(), 2);
    let unknown = inject(&mut lab, "host", vec![good()]);
    assert!(unknown.refused[0].reason.contains("has not subscribed"), "{unknown:?}");
    // The budget of one class is used up, and not that of the other.
    let mut sent = 0;
    for _ in 0..10 {
        sent += inject(&mut lab, test::CLASS, (0..BATCH_PACKETS).map(|_| good()).collect()).sent;
    }
    assert_eq!(sent, 500 - 11);
    let over = inject(&mut lab, test::CLASS, vec![good()]);
    assert!(over.refused[0].reason.contains("1000 packets per second"), "{over:?}");
    let answer = frame(host_mac(1), our_mac(1), &[], ETHERTYPE, b"x");
    assert_eq!(inject(&mut lab, test::LINK_CLASS, vec![frame_out("west", answer)]).sent, 1);
    let many = (0..=BATCH_PACKETS).map(|_| frame_out("nowhere", vec![])).collect();
    let many = inject(&mut lab, test::LINK_CLASS, many);
    assert!(many.refused[BATCH_PACKETS].reason.contains("more than 64 packets"), "{many:?}");
    lab.plug("west", false);
    let answer = frame(host_mac(1), our_mac(1), &[], ETHERTYPE, b"x");
    let down = inject(&mut lab, test::LINK_CLASS, vec![frame_out("west", answer)]);
    assert!(down.refused[0].reason.contains("west is down"), "{down:?}");
}

#[test]
fn linux_gets_the_other_packets() {
    let mut lab = Lab::new(&setup().host_interface("west", "linux"));
    lab.plug("linux", true);
    subscribe(&mut lab, CALLER, 100);
    lab.forget();
    let [echo, _] = echo(1, false, b"abc");
    let other = udp_ports(host4(1), our4(1), (4000, 8), b"other");
    lab.send("west", [packet_from(1, &echo), packet_from(1, &other)]);
    assert_eq!(take(&mut lab, test::CLASS).len(), 1);
    assert_eq!(lab.only("linux").ports, Some((4000, 8)));
}

#[test]
fn broadcasts_of_hosts_without_an_address_are_punted() {
    let mut lab = Lab::new(&setup());
    let broadcast = |from: Ipv4Addr, to: Ipv4Addr, ports| {
        let data = datagram(from.into(), to.into(), ports, b"who am I");
        let packet = ip4(&ipv4::Builder::new(from, to, protocol::UDP), &data);
        frame([0xff; 6], host_mac(1), &[], 0x800, &packet)
    };
    let all = Ipv4Addr::BROADCAST;
    let frames = || {
        [
            broadcast(Ipv4Addr::UNSPECIFIED, all, ECHO),
            broadcast(host4(1), all, ECHO),
            broadcast(Ipv4Addr::UNSPECIFIED, all, (4000, 9)),
            broadcast(Ipv4Addr::UNSPECIFIED, host4(2), ECHO),
        ]
    };
    lab.send("west", frames());
    lab.assert_dropped(&[("ip4-broadcast", 1), ("ip4-martian-source", 3)]);
    subscribe(&mut lab, CALLER, 100);
    lab.send("west", frames());
    lab.assert_dropped(&[("ip4-martian-source", 2)]);
    let punted = take(&mut lab, test::CLASS);
    assert_eq!(
        punted.iter().map(|it| &it.payload[12..16]).collect::<Vec<_>>(),
        [&[0; 4], &host4(1).octets()]
    );
}
