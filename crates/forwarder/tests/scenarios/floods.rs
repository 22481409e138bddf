//! Floods of each class by whoever can send it: BFD, VRRP, and the reply of a neighbour that was asked live. The clock
//! is stopped, so that a policer that is empty stays empty.

use std::net::Ipv4Addr;

use stoa_api::v1;
use stoa_forwarder::punt::{Class, Limit};
use stoa_wire::bfd::{Packet, State};
use stoa_wire::ethernet::{Mac, ethertype};
use stoa_wire::{checksum, icmp6, ipv4, ipv6, protocol};

use crate::harness::*;
use crate::{advertising, bfd, vrrp};

/// Far more than [`LIMIT`] lets pass while time stands still.
const FLOOD: usize = 1000;
const LIMIT: Limit = Limit { rate: 1000, burst: 100, total: 1000 };
/// Not on any link of the router.
const FAR: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
/// A host on the link of "west" that the router has just asked for its MAC address.
const ASKED: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 77);
const ASKED_MAC: [u8; 6] = [2, 0xbb, 0, 0, 1, 77];
/// Packets of each kind that must pass.
const HELLOS: u64 = 3;

/// What a flood may take with it.
#[derive(Clone, Copy, PartialEq)]
enum Hurts {
    Nothing,
    Bfd,
    Vrrp,
    Replies,
}
use Hurts::{Bfd, Nothing, Replies, Vrrp};

/// "west" has a BFD session with host 1, a virtual router that waits, and what else receives punts.
fn setup(has_host: bool) -> Setup {
    let setup = vrrp::setup(100, false).with("east", |east| east.ip4.mtu = 1400);
    let mut setup = setup.with("west", |west| {
        west.bfd.insert(host4(1).into(), bfd::CONFIG);
        west.ip4.options.redirects = true;
        west.ip6.advertisement = Some(advertising::advertisement_config());
    });
    setup.0.punts = Class::ALL.map(|class| (class, LIMIT)).into();
    // Only what passes the policer of pings causes it.
    setup.0.punts.insert(Class::LocalResolve, Limit { rate: 10, burst: 10, ..LIMIT });
    // As by default, far fewer than `resolve`: each is sent to a host that may not be resolved.
    setup.0.punts.insert(Class::Redirect, Limit { rate: 10, burst: 10, ..LIMIT });
    if has_host { setup.host_interface("west", "linux") } else { setup }
}

/// An IPv4 packet to the router.
fn to_us(source: Ipv4Addr, time_to_live: u8, upper: u8, payload: &[u8]) -> Vec<u8> {
    let header = ipv4::Builder { time_to_live, ..ipv4::Builder::new(source, our4(1), upper) };
    packet_from(1, &ip4(&header, payload))
}

fn tcp(to: u16) -> Vec<u8> {
    [&40_000_u16.to_be_bytes()[..], &to.to_be_bytes(), &[0; 8], &[5 << 4, 2], &[0; 6]].concat()
}

fn control(hop_limit: u8) -> Vec<u8> {
    let packet = Packet {
        state: State::Down,
        multiplier: 3,
        mine: 4711,
        desired_min_tx: 100_000,
        required_min_rx: 100_000,
        ..Packet::default()
    };
    let frame = bfd::control(host4(1).into(), our4(1).into(), hop_limit, &packet);
    packet_from(1, &frame[14..])
}

/// Floods by the class that they fill: with a host interface, and without.
type Flood = (&'static str, [Vec<Class>; 2], Hurts, Vec<u8>);

/// What anybody can send, from anywhere.
fn from_afar() -> Vec<Flood> {
    use Class::{Echo, Error, Fragment, Host, Icmp, Resolve, RoutingOther, TooBig};
    let both = |class| [vec![class], vec![class]];
    let through =
        |header: &ipv4::Builder<'_>, length| packet_from(1, &ip4(header, &vec![0; length]));
    let transit = ipv4::Builder::new(FAR, host4(2), protocol::UDP);
    let expired = ipv4::Builder { time_to_live: 1, ..transit };
    let whole = ipv4::Builder { flags_fragment: ipv4::DONT_FRAGMENT, ..transit };
    let fragment = ipv4::Builder {
        flags_fragment: ipv4::MORE_FRAGMENTS,
        ..ipv4::Builder::new(FAR, our4(1), protocol::UDP)
    };
    let nowhere = Ipv4Addr::new(10, 0, 2, 200);
    vec![
        ("BGP", [vec![RoutingOther], vec![]], Nothing, to_us(FAR, 64, 6, &tcp(179))),
        ("OSPF", [vec![RoutingOther], vec![Error]], Nothing, to_us(FAR, 64, 89, &[0; 44])),
        ("forwarded BFD", [vec![RoutingOther], vec![Error]], Nothing, control(64)),
        ("SSH", [vec![Host], vec![]], Nothing, to_us(FAR, 64, 6, &tcp(22))),
        (
            "unreachables",
            [vec![Icmp], vec![]],
            Nothing,
            to_us(FAR, 64, 1, &[3, 1, 0xfc, 0xfe, 0, 0, 0, 0]),
        ),
        ("pings", both(Echo), Nothing, packet_from(1, &ping4(FAR, our4(1), b""))),
        ("fragments", both(Fragment), Nothing, through(&fragment, 64)),
        ("expiring TTLs", both(Error), Nothing, through(&expired, 16)),
        ("large packets", both(TooBig), Nothing, through(&whole, 1450)),
        ("a scan", both(Resolve), Nothing, packet_from(1, &udp(FAR, nowhere, b""))),
    ]
}

/// What only hosts on the link can send.
fn from_link() -> Vec<Flood> {
    use Class::{Arp, ArpReply, Link, LocalResolve, Nd, NdReply, Redirect, Routing, RoutingPeer};
    let both = |class| [vec![class], vec![class]];
    let group = ipv6::solicited_node(our6(1));
    let nd_to = Mac::of_ip6_group(group).0;
    let (us, link_local) = (our_mac(1), Mac(our_mac(1)).link_local());
    let lost = "fe80::99".parse().unwrap();
    let solicited = ((host_mac(1), nd_to), (host6(1), group));
    let known = ((host_mac(1), us), (host6(1), our6(1)));
    let hello = ipv4::Builder {
        time_to_live: 1,
        ..ipv4::Builder::new(host4(1), Ipv4Addr::new(224, 0, 0, 5), 89)
    };
    let ospf_mac = Mac::of_ip4_group(Ipv4Addr::new(224, 0, 0, 5)).0;
    let ospf = frame(ospf_mac, host_mac(1), &[], ethertype::IP4, &ip4(&hello, &[0; 44]));
    let back = udp(Ipv4Addr::new(10, 0, 1, 9), host4(1), b"");
    let isis = frame([1, 0x80, 0xc2, 0, 0, 0x14], host_mac(1), &[], 60, &[0xfe; 60]);
    let bgp = to_us(host4(1), 255, 6, &tcp(179));
    vec![
        ("ARP requests", both(Arp), Nothing, arp_request(host_mac(1), host4(1), our4(1))),
        ("ARP replies", both(ArpReply), Replies, arp_reply(host_mac(1), (us, our4(1)), host4(1))),
        ("solicitations", both(Nd), Nothing, solicitation(solicited.0, solicited.1, our6(1), None)),
        (
            "advertisements",
            both(NdReply),
            Nothing,
            advertisement(known.0, known.1, (host6(1), 0), None),
        ),
        ("OSPF hellos", [vec![Routing], vec![]], Nothing, ospf),
        ("IS-IS", [vec![Link], vec![]], Nothing, isis),
        ("BGP from the link", [vec![RoutingPeer], vec![]], Nothing, bgp),
        (
            "pings of nobody",
            [vec![Class::Echo], vec![LocalResolve, Class::Echo]],
            Nothing,
            packet_from(1, &ping6(lost, link_local, b"")),
        ),
        ("packets back", both(Redirect), Nothing, packet_from(1, &back)),
        ("router solicitations", both(Class::Solicitation), Nothing, router_solicitation()),
        ("BFD of the peer", both(Class::Bfd), Bfd, control(255)),
        ("VRRP", both(Class::Vrrp), Vrrp, vrrp::message(false, 200, 52)),
    ]
}

fn router_solicitation() -> Vec<u8> {
    let (source, destination) = ("fe80::2".parse().unwrap(), ipv6::ALL_ROUTERS);
    let mut message = vec![icmp6::kind::ROUTER_SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    let pseudo = checksum::Pseudo::Ip6 { source, destination };
    let sum = checksum::sum(&message) + pseudo.sum(protocol::ICMP6, message.len());
    message[2..4].copy_from_slice(&checksum::finish(sum).to_be_bytes());
    let header = ipv6::Builder {
        hop_limit: 255,
        ..ipv6::Builder::new(source, destination, protocol::ICMP6)
    };
    let group = Mac::of_ip6_group(destination).0;
    frame(group, host_mac(1), &[], ethertype::IP6, &ip6(&header, &message))
}

fn west(lab: &mut Lab) -> v1::InterfaceState {
    lab.state().list_interfaces().into_iter().find(|it| it.name == "west").unwrap()
}

/// What passed while the flood lasts: packets of BFD and VRRP, and whether the asked neighbour is known and gets
/// the packet that waits for it.
fn survivors(lab: &mut Lab, flood: &[u8]) -> (u64, u64, bool) {
    lab.state().stop_time();
    lab.state().stop_policers();
    lab.send("east", [packet_from(2, &udp(host4(2), ASKED, b"waits"))]);
    lab.forget();
    let before = west(lab);
    let reply = arp_reply(ASKED_MAC, (our_mac(1), our4(1)), ASKED);
    let hellos = (0..HELLOS).flat_map(|_| [control(255), vrrp::message(false, 200, vrrp::VRID)]);
    let flood = std::iter::repeat_n(flood.to_vec(), FLOOD);
    lab.send("west", flood.chain(hellos).chain([reply]));
    let now = west(lab);
    let received = |it: &v1::InterfaceState| {
        let router = it.virtual_routers.iter().find(|it| !it.ip6).unwrap();
        (it.bfd[0].rx_packets, router.received)
    };
    let is_resolved = lab.neighbor(ASKED).is_some_and(|it| it.state == "reachable");
    let is_sent = lab.take("west").iter().any(|frame| frame[..6] == ASKED_MAC);
    let (before, now) = (received(&before), received(&now));
    (now.0 - before.0, now.1 - before.1, is_resolved && is_sent)
}

/// Checks floods in both kinds of setup.
fn check(floods: Vec<Flood>) {
    let mut faults = Vec::new();
    for (name, classes, hurts, flood) in floods {
        for (has_host, classes) in [true, false].into_iter().zip(classes) {
            let mut lab = Lab::new(&setup(has_host));
            let survivors = survivors(&mut lab, &flood);
            let expected = (
                if hurts == Bfd { survivors.0 } else { HELLOS },
                if hurts == Vrrp { survivors.1 } else { HELLOS },
                survivors.2 && hurts == Replies || hurts != Replies,
            );
            let rows = lab.state().list_punts().into_iter();
            let full = rows.filter(|row| row.interface == "west" && row.dropped > 0);
            let full: Vec<_> = full.map(|row| row.class).collect();
            let of_flood: Vec<_> = classes.iter().map(|class| class.name().to_owned()).collect();
            if survivors != expected || full != of_flood {
                faults.push(format!(
                    "{name}, host interface {has_host}: {survivors:?} of {expected:?} live; \
                     {full:?} are full, not {of_flood:?}"
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn hellos_and_replies_survive_what_anybody_can_send() {
    let floods = from_afar();
    assert!(floods.iter().all(|it| it.2 == Nothing));
    check(floods);
}

#[test]
fn a_flood_from_the_link_hurts_its_own_class_only() {
    check(from_link());
}

/// Strangers share a policer; the peer with which a daemon has a session has another.
#[test]
fn a_session_survives_a_flood_to_its_port() {
    let peer = Ipv4Addr::new(198, 51, 100, 7);
    let counts = |lab: &mut Lab, class: &str| {
        let rows = lab.state().list_punts();
        let row = rows.into_iter().find(|row| row.class == class && row.interface == "west");
        row.map_or((0, 0), |row| (row.passed, row.dropped))
    };
    let flood = std::iter::repeat_n(to_us(FAR, 64, 6, &tcp(179)), FLOOD);
    let segment = to_us(peer, 64, 6, &tcp(179));
    for (flags, is_peer) in [(2, true), (2 | 16, false), (4, false)] {
        let mut lab = Lab::new(&setup(true));
        lab.state().stop_policers();
        let mut sent = tcp(179);
        sent[13] = flags;
        let sent = ip4(&ipv4::Builder::new(our4(1), peer, protocol::TCP), &sent);
        lab.send("linux", [frame(host_mac(1), our_mac(1), &[], ethertype::IP4, &sent)]);
        assert_eq!(lab.take("west").len(), 1, "what Linux sends");
        lab.forget();
        lab.send("west", flood.clone().chain([segment.clone()]));
        assert_eq!(lab.take("linux").contains(&segment), is_peer, "flags {flags}");
        assert_eq!(counts(&mut lab, "routing-peer"), (is_peer.into(), 0));
        let (passed, dropped) = counts(&mut lab, "routing-other");
        assert!(passed <= 100 && dropped >= FLOOD as u64 - 100, "{passed}, {dropped}");
    }
}
