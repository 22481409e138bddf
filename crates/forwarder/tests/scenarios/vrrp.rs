//! VRRP (RFC 9568): the active router replies for the virtual addresses with the virtual MAC address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use stoa_api::audit::Kind;
use stoa_forwarder::control::desired::{Login, VirtualRouter};
use stoa_forwarder::kernel::Kernel;
use stoa_forwarder::shared::SpecialNextHop;
use stoa_wire::checksum::Pseudo;
use stoa_wire::ethernet::{Mac, ethertype};
use stoa_wire::vrrp::{self, Fields, Version};
use stoa_wire::{arp, ipv4, ipv6, ndp, protocol};

use crate::harness::*;

pub const VRID: u8 = 51;

pub fn virtual4() -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 1, 254)
}

pub fn virtual6() -> [Ipv6Addr; 2] {
    ["fe80::51".parse().unwrap(), "2001:db8:1::51".parse().unwrap()]
}

/// "west" has a virtual router of each family.
pub fn setup(priority: u8, accept: bool) -> Setup {
    let setup = Setup::three_ports();
    setup.with("west", |west| {
        let four = virtual_router(VRID, priority, vec![virtual4().into()]);
        let six = virtual_router(VRID, priority, virtual6().map(IpAddr::from).to_vec());
        west.ip4.virtual_routers = vec![VirtualRouter { accept, ..four }];
        west.ip6.virtual_routers = vec![VirtualRouter { accept, ..six }];
    })
}

fn mac(is_ip6: bool) -> [u8; 6] {
    vrrp::mac(VRID, is_ip6).0
}

/// An advertisement of another router on the link.
pub fn message(is_ip6: bool, priority: u8, vrid: u8) -> Vec<u8> {
    let fields = Fields { version: Version::Three, vrid, priority, interval_cs: 100 };
    let mut message = [0; 100];
    match is_ip6 {
        false => {
            let (source, to) = (Ipv4Addr::new(10, 0, 1, 9), vrrp::GROUP4);
            let pseudo = Pseudo::Ip4 { source, destination: to };
            let addresses = [virtual4().into()];
            let length = vrrp::build(&mut message, &pseudo, &fields, &addresses).unwrap();
            let header = ipv4::Builder {
                time_to_live: 255,
                ..ipv4::Builder::new(source, to, protocol::VRRP)
            };
            let packet = ip4(&header, &message[..length]);
            frame(Mac::of_ip4_group(to).0, mac(false), &[], ethertype::IP4, &packet)
        }
        true => {
            let (source, to): (Ipv6Addr, _) = ("fe80::9".parse().unwrap(), vrrp::GROUP6);
            let pseudo = Pseudo::Ip6 { source, destination: to };
            let addresses = virtual6().map(IpAddr::from);
            let length = vrrp::build(&mut message, &pseudo, &fields, &addresses).unwrap();
            let header =
                ipv6::Builder { hop_limit: 255, ..ipv6::Builder::new(source, to, protocol::VRRP) };
            let packet = ip6(&header, &message[..length]);
            frame(Mac::of_ip6_group(to).0, mac(true), &[], ethertype::IP6, &packet)
        }
    }
}

/// The priorities of all advertisements among these frames, each checked.
fn advertised(frames: &[Vec<u8>], is_ip6: bool) -> Vec<u8> {
    let priority = |frame: &Vec<u8>| {
        assert_eq!(frame[6..12], mac(is_ip6), "from the virtual router");
        let view = match is_ip6 {
            false => {
                let packet = ipv4::check(&frame[14..]).unwrap();
                assert_eq!((packet.source(), packet.header().time_to_live), (our4(1), 255));
                vrrp::check(&packet.pseudo(), 255, packet.payload()).unwrap()
            }
            true => {
                let packet = ipv6::check(&frame[14..]).unwrap();
                assert_eq!(packet.source(), Mac(our_mac(1)).link_local());
                let upper = packet.upper().unwrap();
                vrrp::check(&packet.pseudo(), packet.header().hop_limit, upper.payload).unwrap()
            }
        };
        assert_eq!((view.fields.vrid, view.fields.interval_cs), (VRID, 100));
        let expected: Vec<IpAddr> = match is_ip6 {
            false => vec![virtual4().into()],
            true => virtual6().map(IpAddr::from).to_vec(),
        };
        assert!(view.addresses().eq(expected));
        view.fields.priority
    };
    let group = if is_ip6 { [0x33, 0x33, 0, 0, 0, 0x12] } else { [1, 0, 0x5e, 0, 0, 0x12] };
    frames.iter().filter(|frame| frame[..6] == group).map(priority).collect()
}

pub fn states(lab: &mut Lab) -> Vec<String> {
    let west = lab.state().list_interfaces().into_iter().find(|it| it.name == "west").unwrap();
    west.virtual_routers.into_iter().map(|it| it.state).collect()
}

fn active(priority: u8, accept: bool) -> Lab {
    let mut lab = Lab::new(&setup(priority, accept));
    lab.pass_time(Duration::from_secs(4));
    assert_eq!(states(&mut lab), ["master", "master"]);
    lab.forget();
    lab
}

/// Host 1 sends an ARP request for the virtual address; returns the MAC address in the reply.
fn arp_for_virtual_address(lab: &mut Lab) -> Option<[u8; 6]> {
    lab.send("west", [arp_request(host_mac(1), host4(1), virtual4())]);
    let frames = lab.take("west");
    let reply = frames.iter().find(|frame| frame[12..14] == [8, 6])?;
    let reply = arp::check(&reply[14..]).unwrap();
    assert!(reply.is_reply() && reply.sender() == virtual4());
    Some(reply.sender_mac.0)
}

/// From host 1 to host 2, by the virtual router.
fn through(is_ip6: bool) -> Vec<u8> {
    let packet = match is_ip6 {
        false => udp(host4(1), host4(2), b"data"),
        true => udp(host6(1), host6(2), b"data"),
    };
    let mut frame = packet_from(1, &packet);
    frame[..6].copy_from_slice(&mac(is_ip6));
    frame
}

#[test]
fn without_advertisements_a_backup_becomes_active() {
    let mut lab = Lab::new(&setup(100, false));
    lab.pass_time(Duration::from_millis(3400));
    assert_eq!(states(&mut lab), ["backup", "backup"]);
    lab.assert_silent();
    assert_eq!(arp_for_virtual_address(&mut lab), None);
    lab.send("west", [through(false), through(true)]);
    lab.assert_dropped(&[("ethernet-mac-mismatch", 2)]);
    lab.pass_time(Duration::from_millis(400));
    assert_eq!(states(&mut lab), ["master", "master"]);
    let frames = lab.take("west");
    assert_eq!(advertised(&frames, false), [100]);
    assert_eq!(advertised(&frames, true), [100]);
    let announced = frames.iter().find(|frame| frame[12..14] == [8, 6]).expect("gratuitous ARP");
    let announced = arp::check(&announced[14..]).unwrap();
    assert!(announced.is_announcement());
    assert_eq!((announced.sender(), announced.sender_mac.0), (virtual4(), mac(false)));
    let announced: Vec<Parsed> = frames
        .iter()
        .filter(|frame| frame[12..14] == [0x86, 0xdd])
        .map(|frame| parse(frame))
        .filter(|parsed| parsed.icmp == Some((136, 0)))
        .collect();
    assert_eq!(announced.len(), 2);
    for (parsed, address) in announced.iter().zip(virtual6()) {
        // Router and override, not solicited (RFC 9568 6.4.1).
        assert_eq!((parsed.word, &parsed.payload[..16]), ([0xa0, 0, 0, 0], &address.octets()[..]));
        assert_eq!(parsed.payload[16..], [&[2, 1][..], &mac(true)].concat());
    }
    assert_eq!(arp_for_virtual_address(&mut lab), Some(mac(false)));
    lab.pass_time(Duration::from_secs(3));
    assert_eq!(advertised(&lab.take("west"), false), [100; 3]);
}

#[test]
fn packets_to_the_virtual_mac_address_are_routed_by_every_kernel() {
    for kernel in [Kernel::Scalar, Kernel::detect()] {
        let mut setup = setup(100, false);
        setup.0.workers.kernel = kernel;
        let mut lab = Lab::new(&setup);
        lab.pass_time(Duration::from_secs(4));
        lab.forget();
        // Mostly to virtual MAC addresses, mostly to others, and mixed.
        for (virtual_addresses, own) in [(40, 0), (1, 39), (39, 1), (20, 20)] {
            let mut frames: Vec<_> = (0..virtual_addresses).map(|n| through(n % 2 == 1)).collect();
            frames.extend((0..own).map(|_| packet_from(1, &udp(host4(1), host4(2), b"data"))));
            lab.send("west", frames);
            assert_eq!(lab.take("east").len(), virtual_addresses + own);
        }
        let mut other = through(false);
        other[5] += 1;
        lab.send("west", [other]);
        lab.assert_dropped(&[("ethernet-mac-mismatch", 1)]);
    }
}

#[test]
fn a_higher_priority_takes_over() {
    let mut lab = active(100, false);
    lab.send("west", [message(false, 150, VRID), message(true, 150, VRID)]);
    assert_eq!(states(&mut lab), ["backup", "backup"]);
    lab.forget();
    assert_eq!(arp_for_virtual_address(&mut lab), None);
    lab.send("west", [through(false)]);
    lab.assert_dropped(&[("ethernet-mac-mismatch", 1)]);
    // It resigns: after the skew time, less than a second, this router is active.
    lab.send("west", [message(false, 0, VRID), message(true, 0, VRID)]);
    lab.pass_time(Duration::from_millis(700));
    assert_eq!(states(&mut lab), ["master", "master"]);
    lab.forget();
    // A lower priority is answered with an advertisement immediately.
    lab.send("west", [message(false, 50, VRID)]);
    assert_eq!(advertised(&lab.take("west"), false), [100]);
    lab.send("west", [message(false, 200, VRID + 1)]);
    lab.assert_dropped(&[("vrrp-unknown", 1)]);
    let mut far = message(false, 200, VRID);
    // TTL 254, with the header checksum.
    (far[22], far[24]) = (254, far[24].wrapping_add(1));
    lab.send("west", [far]);
    lab.assert_dropped(&[("vrrp-hop-limit", 1)]);
    assert_eq!(states(&mut lab), ["master", "master"]);
}

#[test]
fn virtual_routers_hear_each_other_where_hosts_log_in() {
    let setup = setup(100, false).with("west", |it| it.login = Some(Login::default()));
    let mut lab = Lab::new(&setup);
    lab.pass_time(Duration::from_secs(4));
    assert_eq!(states(&mut lab), ["master", "master"]);
    lab.forget();
    lab.send("west", [message(false, 150, VRID), message(true, 150, VRID)]);
    lab.assert_dropped(&[]);
    assert_eq!(states(&mut lab), ["backup", "backup"]);
}

#[test]
fn accept_mode_controls_local_delivery() {
    for mirrored in [false, true] {
        for accept in [false, true] {
            let setup = setup(100, accept);
            let setup = if mirrored { setup.host_interface("west", "linux") } else { setup };
            let mut lab = Lab::new(&setup);
            lab.pass_time(Duration::from_secs(4));
            lab.forget();
            let four = packet_from(1, &ping4(host4(1), virtual4(), b"here"));
            let six = virtual6().map(|it| packet_from(1, &ping6(host6(1), it, b"here")));
            let local = packet_from(1, &ping6("fe80::2".parse().unwrap(), virtual6()[0], b"here"));
            lab.send("west", [four, six[1].clone(), local]);
            let replies: Vec<_> = lab.parsed("west").into_iter().filter_map(|it| it.icmp).collect();
            if accept {
                assert!(replies.contains(&(0, 0)) && replies.contains(&(129, 0)), "{replies:?}");
            } else {
                assert!(!replies.iter().any(|it| matches!(it, (0 | 129, _))), "{replies:?}");
                lab.assert_dropped(&[("virtual-address", 3)]);
            }
            if mirrored {
                assert_eq!(lab.take("linux"), Vec::<Vec<u8>>::new());
            }
            // Solicitations are answered in both modes (RFC 9568 6.4.3).
            lab.forget();
            let to = Mac(mac(true)).0;
            for address in virtual6() {
                let group = ipv6::solicited_node(address);
                let source = "fe80::2".parse().unwrap();
                for (to_mac, to_ip) in [(Mac::of_ip6_group(group).0, group), (to, address)] {
                    let question = solicitation(
                        (host_mac(1), to_mac),
                        (source, to_ip),
                        address,
                        Some(host_mac(1)),
                    );
                    lab.send("west", [question]);
                    // Packets queued for the neighbour leave now, too.
                    let parsed = lab.parsed("west").into_iter();
                    let replies: Vec<_> = parsed.filter(|it| it.icmp == Some((136, 0))).collect();
                    assert_eq!(replies.len(), 1, "{address} by {to_ip}");
                    let reply = &replies[0];
                    assert_eq!(reply.payload[16..], [&[2, 1][..], &mac(true)].concat());
                }
            }
        }
    }
}

/// A static route to the virtual address takes its place, and gives it back.
#[test]
fn the_route_to_a_virtual_address_returns_after_a_static_one() {
    let mut lab = active(100, true);
    let pings = |lab: &mut Lab| {
        lab.forget();
        lab.send("west", [packet_from(1, &ping4(host4(1), virtual4(), b"here"))]);
        lab.parsed("west").iter().filter(|it| it.icmp == Some((0, 0))).count()
    };
    let unexpected = |lab: &Lab| {
        let held = lab.forwarder.audit_desired(&[]).sum(Kind::StaticRoutes).entries;
        let routes = lab.forwarder.desired().unwrap().all_routes();
        held - routes.map(|(_, routes)| routes.len() as u64).sum::<u64>()
    };
    assert_eq!((pings(&mut lab), unexpected(&lab)), (1, 0));
    let special = SpecialNextHop::Blackhole;
    lab.apply(&setup(100, true).special_route(virtual4().into(), 32, special)).unwrap();
    assert_eq!((pings(&mut lab), unexpected(&lab)), (0, 0));
    lab.apply(&setup(100, true)).unwrap();
    assert_eq!((pings(&mut lab), unexpected(&lab)), (1, 0));
}

#[test]
fn an_owner_replies_with_the_virtual_mac_address_at_once() {
    let setup = Setup::three_ports().with("west", |west| {
        west.ip4.duplicate_detection = 2;
        west.ip4.virtual_routers = vec![virtual_router(VRID, vrrp::OWNER, vec![our4(1).into()])];
    });
    let mut lab = Lab::new(&setup);
    lab.pass_time(Duration::from_millis(100));
    assert_eq!(states(&mut lab), ["master"]);
    lab.forget();
    lab.send("west", [arp_request(host_mac(1), host4(1), our4(1))]);
    let frames = lab.take("west");
    let reply = frames.iter().find(|frame| frame[12..14] == [8, 6]).expect("an answer");
    assert_eq!(arp::check(&reply[14..]).unwrap().sender_mac.0, mac(false));
    lab.send("west", [packet_from(1, &ping4(host4(1), our4(1), b"here"))]);
    assert_eq!(lab.only("west").icmp, Some((0, 0)));
    // Whatever other routers advertise.
    lab.send("west", [message(false, 254, VRID)]);
    lab.assert_dropped(&[("vrrp-ignored", 1)]);
    assert_eq!(states(&mut lab), ["master"]);
}

#[test]
fn it_resigns_when_deleted_and_follows_its_link() {
    let mut lab = active(100, true);
    let before = lab.state().list_interfaces().len();
    lab.apply(&Setup::three_ports()).unwrap();
    lab.settle();
    let frames = lab.take("west");
    assert_eq!((advertised(&frames, false), advertised(&frames, true)), (vec![0], vec![0]));
    assert_eq!((states(&mut lab), before), (Vec::new(), 3));
    lab.send("west", [through(false)]);
    lab.assert_dropped(&[("ethernet-mac-mismatch", 1)]);
    assert_eq!(arp_for_virtual_address(&mut lab), None);

    let mut lab = active(100, true);
    // A change of the priority keeps the state.
    lab.apply(&setup(120, true)).unwrap();
    assert_eq!(states(&mut lab), ["master", "master"]);
    lab.plug("west", false);
    assert_eq!(states(&mut lab), ["initialize", "initialize"]);
    lab.plug("west", true);
    assert_eq!(states(&mut lab), ["backup", "backup"]);
    lab.pass_time(Duration::from_secs(4));
    assert_eq!(states(&mut lab), ["master", "master"]);
    // The tracked interface goes down: the other router has the higher priority.
    let tracking = setup(120, true).with("west", |west| {
        for router in west.ip4.virtual_routers.iter_mut().chain(&mut west.ip6.virtual_routers) {
            router.tracked = vec![("north".to_owned(), 50)];
        }
    });
    lab.apply(&tracking).unwrap();
    lab.send("west", [message(false, 100, VRID)]);
    assert_eq!(states(&mut lab), ["master", "master"]);
    lab.plug("north", false);
    lab.send("west", [message(false, 100, VRID)]);
    assert_eq!(states(&mut lab), ["backup", "master"]);
    let west = lab.state().list_interfaces().into_iter().find(|it| it.name == "west").unwrap();
    let four = &west.virtual_routers[0];
    assert_eq!((four.priority, four.configured_priority), (70, 120));
    assert_eq!(four.addresses, [virtual4().octets().to_vec()]);
    assert!(four.changed_unix_s >= four.created_unix_s);
}

#[test]
fn only_the_active_router_sends_router_advertisements() {
    let setup = setup(100, true).with("west", |west| {
        west.ip6.advertisement = Some(crate::advertising::advertisement_config());
    });
    let mut lab = Lab::new(&setup);
    lab.pass_time(Duration::from_secs(3));
    let sources = |lab: &Lab| -> Vec<Ipv6Addr> {
        let frames = lab.take("west");
        let is_reported = |frame: &&Vec<u8>| frame[12..14] == [0x86, 0xdd] && frame[54] == 134;
        let source = |frame: &Vec<u8>| {
            let view = ipv6::check(&frame[14..]).unwrap();
            let upper = view.upper().unwrap();
            let Ok(ndp::Message::RouterAdvertisement(_, options)) =
                ndp::check(view.header(), upper.payload)
            else {
                panic!("an advertisement")
            };
            assert_eq!(options.source_mac(), Some(Mac(mac(true))));
            view.source()
        };
        frames.iter().filter(is_reported).map(source).collect()
    };
    assert!(sources(&lab).is_empty(), "a backup sends none");
    lab.pass_time(Duration::from_secs(1));
    assert_eq!(sources(&lab), [virtual6()[0]]);
}
