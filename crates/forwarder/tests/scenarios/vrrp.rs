//! Virtual routers (RFC 9568): who is active answers for the addresses with a MAC address that moves
//! along, who is not leaves them alone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use stoa_forwarder::control::desired::VirtualRouter;
use stoa_forwarder::kernel::Kernel;
use stoa_wire::checksum::Pseudo;
use stoa_wire::ethernet::{Mac, ethertype};
use stoa_wire::vrrp::{self, Fields, Version};
use stoa_wire::{arp, ipv4, ipv6, ndp, protocol};

use crate::harness::*;

const VRID: u8 = 51;

fn virtual4() -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 1, 254)
}

fn virtual6() -> [Ipv6Addr; 2] {
    ["fe80::51".parse().unwrap(), "2001:db8:1::51".parse().unwrap()]
}

fn router(addresses: Vec<IpAddr>, priority: u8) -> VirtualRouter {
    VirtualRouter {
        vrid: VRID,
        version: Version::Three,
        priority,
        preempt: true,
        hold_ms: 0,
        accept: false,
        interval_cs: 100,
        addresses,
        tracked: Vec::new(),
        networks: Vec::new(),
        is_logged: true,
    }
}

/// "west" has a virtual router of each family.
pub fn world(priority: u8, accept: bool) -> World {
    let world = World::three_ports();
    world.with("west", |west| {
        let four = router(vec![virtual4().into()], priority);
        let six = router(virtual6().map(IpAddr::from).to_vec(), priority);
        west.ip4.virtual_routers = vec![VirtualRouter { accept, ..four }];
        west.ip6.virtual_routers = vec![VirtualRouter { accept, ..six }];
    })
}

fn mac(is_ip6: bool) -> [u8; 6] {
    vrrp::mac(VRID, is_ip6).0
}

/// What another router of the link says.
fn said(is_ip6: bool, priority: u8, vrid: u8) -> Vec<u8> {
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
        let desired: Vec<IpAddr> = match is_ip6 {
            false => vec![virtual4().into()],
            true => virtual6().map(IpAddr::from).to_vec(),
        };
        assert!(view.addresses().eq(desired));
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
    let mut lab = Lab::new(&world(priority, accept));
    lab.pass_time(Duration::from_secs(4));
    assert_eq!(states(&mut lab), ["master", "master"]);
    lab.forget();
    lab
}

/// Host 1 asks who has the virtual address; what it is told.
fn asked(lab: &mut Lab) -> Option<[u8; 6]> {
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
fn who_hears_nobody_becomes_active_and_says_so() {
    let mut lab = Lab::new(&world(100, false));
    lab.pass_time(Duration::from_millis(3400));
    assert_eq!(states(&mut lab), ["backup", "backup"]);
    lab.assert_silent();
    assert_eq!(asked(&mut lab), None);
    lab.send("west", [through(false), through(true)]);
    lab.assert_dropped(&[("ethernet-mac-mismatch", 2)]);
    lab.pass_time(Duration::from_millis(400));
    assert_eq!(states(&mut lab), ["master", "master"]);
    let frames = lab.take("west");
    assert_eq!(advertised(&frames, false), [100]);
    assert_eq!(advertised(&frames, true), [100]);
    let told = frames.iter().find(|frame| frame[12..14] == [8, 6]).expect("gratuitous ARP");
    let told = arp::check(&told[14..]).unwrap();
    assert!(told.is_announcement());
    assert_eq!((told.sender(), told.sender_mac.0), (virtual4(), mac(false)));
    let told: Vec<Seen> = frames
        .iter()
        .filter(|frame| frame[12..14] == [0x86, 0xdd])
        .map(|frame| see(frame))
        .filter(|seen| seen.icmp == Some((136, 0)))
        .collect();
    assert_eq!(told.len(), 2);
    for (seen, address) in told.iter().zip(virtual6()) {
        // Router and override, not solicited (RFC 9568 6.4.1).
        assert_eq!((seen.word, &seen.payload[..16]), ([0xa0, 0, 0, 0], &address.octets()[..]));
        assert_eq!(seen.payload[16..], [&[2, 1][..], &mac(true)].concat());
    }
    assert_eq!(asked(&mut lab), Some(mac(false)));
    lab.pass_time(Duration::from_secs(3));
    assert_eq!(advertised(&lab.take("west"), false), [100; 3]);
}

#[test]
fn packets_to_the_virtual_mac_address_are_routed_by_every_kernel() {
    for kernel in [Kernel::Scalar, Kernel::detect()] {
        let mut world = world(100, false);
        world.0.workers.kernel = kernel;
        let mut lab = Lab::new(&world);
        lab.pass_time(Duration::from_secs(4));
        lab.forget();
        // As most are, as few are, and mixed.
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
fn who_hears_a_higher_one_lets_go() {
    let mut lab = active(100, false);
    lab.send("west", [said(false, 150, VRID), said(true, 150, VRID)]);
    assert_eq!(states(&mut lab), ["backup", "backup"]);
    lab.forget();
    assert_eq!(asked(&mut lab), None);
    lab.send("west", [through(false)]);
    lab.assert_dropped(&[("ethernet-mac-mismatch", 1)]);
    // It resigns: after the skew, less than a second, somebody has the addresses.
    lab.send("west", [said(false, 0, VRID), said(true, 0, VRID)]);
    lab.pass_time(Duration::from_millis(700));
    assert_eq!(states(&mut lab), ["master", "master"]);
    lab.forget();
    // A lower one hears at once that it is not alone.
    lab.send("west", [said(false, 50, VRID)]);
    assert_eq!(advertised(&lab.take("west"), false), [100]);
    lab.send("west", [said(false, 200, VRID + 1)]);
    lab.assert_dropped(&[("vrrp-unknown", 1)]);
    let mut far = said(false, 200, VRID);
    // Time to live 254, and the header's checksum with it.
    (far[22], far[24]) = (254, far[24].wrapping_add(1));
    lab.send("west", [far]);
    lab.assert_dropped(&[("vrrp-hop-limit", 1)]);
    assert_eq!(states(&mut lab), ["master", "master"]);
}

#[test]
fn what_is_for_the_address_is_taken_in_only_when_told_to() {
    for mirrored in [false, true] {
        for accept in [false, true] {
            let world = world(100, accept);
            let world = if mirrored { world.host_interface("west", "linux") } else { world };
            let mut lab = Lab::new(&world);
            lab.pass_time(Duration::from_secs(4));
            lab.forget();
            let four = packet_from(1, &ping4(host4(1), virtual4(), b"here"));
            let six = virtual6().map(|it| packet_from(1, &ping6(host6(1), it, b"here")));
            let local = packet_from(1, &ping6("fe80::2".parse().unwrap(), virtual6()[0], b"here"));
            lab.send("west", [four, six[1].clone(), local]);
            let answers: Vec<_> = lab.seen("west").into_iter().filter_map(|it| it.icmp).collect();
            if accept {
                assert!(answers.contains(&(0, 0)) && answers.contains(&(129, 0)), "{answers:?}");
            } else {
                assert!(!answers.iter().any(|it| matches!(it, (0 | 129, _))), "{answers:?}");
                lab.assert_dropped(&[("virtual-address", 3)]);
            }
            if mirrored {
                assert_eq!(lab.take("linux"), Vec::<Vec<u8>>::new());
            }
            // Neighbours that ask are answered either way (RFC 9568 6.4.3).
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
                    // What waited for the neighbour leaves now as well.
                    let seen = lab.seen("west").into_iter();
                    let answers: Vec<_> = seen.filter(|it| it.icmp == Some((136, 0))).collect();
                    assert_eq!(answers.len(), 1, "{address} by {to_ip}");
                    let answer = &answers[0];
                    assert_eq!(answer.payload[16..], [&[2, 1][..], &mac(true)].concat());
                }
            }
        }
    }
}

#[test]
fn an_owner_answers_with_the_virtual_mac_address_from_the_start() {
    let world = World::three_ports().with("west", |west| {
        west.ip4.duplicate_detection = 2;
        west.ip4.virtual_routers = vec![router(vec![our4(1).into()], vrrp::OWNER)];
    });
    let mut lab = Lab::new(&world);
    lab.pass_time(Duration::from_millis(100));
    assert_eq!(states(&mut lab), ["master"]);
    lab.forget();
    lab.send("west", [arp_request(host_mac(1), host4(1), our4(1))]);
    let frames = lab.take("west");
    let reply = frames.iter().find(|frame| frame[12..14] == [8, 6]).expect("an answer");
    assert_eq!(arp::check(&reply[14..]).unwrap().sender_mac.0, mac(false));
    lab.send("west", [packet_from(1, &ping4(host4(1), our4(1), b"here"))]);
    assert_eq!(lab.only("west").icmp, Some((0, 0)));
    // Whatever others say.
    lab.send("west", [said(false, 254, VRID)]);
    lab.assert_dropped(&[("vrrp-ignored", 1)]);
    assert_eq!(states(&mut lab), ["master"]);
}

#[test]
fn it_resigns_when_it_is_taken_out_and_follows_its_link() {
    let mut lab = active(100, true);
    let before = lab.state().list_interfaces().len();
    lab.apply(&World::three_ports()).unwrap();
    lab.settle();
    let frames = lab.take("west");
    assert_eq!((advertised(&frames, false), advertised(&frames, true)), (vec![0], vec![0]));
    assert_eq!((states(&mut lab), before), (Vec::new(), 3));
    lab.send("west", [through(false)]);
    lab.assert_dropped(&[("ethernet-mac-mismatch", 1)]);
    assert_eq!(asked(&mut lab), None);

    let mut lab = active(100, true);
    // Another priority is no reason to let go.
    lab.apply(&world(120, true)).unwrap();
    assert_eq!(states(&mut lab), ["master", "master"]);
    lab.plug("west", false);
    assert_eq!(states(&mut lab), ["initialize", "initialize"]);
    lab.plug("west", true);
    assert_eq!(states(&mut lab), ["backup", "backup"]);
    lab.pass_time(Duration::from_secs(4));
    assert_eq!(states(&mut lab), ["master", "master"]);
    // What it tracks goes down: the other one is higher now.
    let tracking = world(120, true).with("west", |west| {
        for router in west.ip4.virtual_routers.iter_mut().chain(&mut west.ip6.virtual_routers) {
            router.tracked = vec![("north".to_owned(), 50)];
        }
    });
    lab.apply(&tracking).unwrap();
    lab.send("west", [said(false, 100, VRID)]);
    assert_eq!(states(&mut lab), ["master", "master"]);
    lab.plug("north", false);
    lab.send("west", [said(false, 100, VRID)]);
    assert_eq!(states(&mut lab), ["backup", "master"]);
    let west = lab.state().list_interfaces().into_iter().find(|it| it.name == "west").unwrap();
    let four = &west.virtual_routers[0];
    assert_eq!((four.priority, four.configured_priority), (70, 120));
    assert_eq!(four.addresses, [virtual4().octets().to_vec()]);
    assert!(four.changed_unix_s >= four.created_unix_s);
}

#[test]
fn router_advertisements_come_from_who_is_active() {
    let world = world(100, true).with("west", |west| {
        west.ip6.advertisement = Some(crate::advertising::words());
    });
    let mut lab = Lab::new(&world);
    lab.pass_time(Duration::from_secs(3));
    let sources = |lab: &Lab| -> Vec<Ipv6Addr> {
        let frames = lab.take("west");
        let is_told = |frame: &&Vec<u8>| frame[12..14] == [0x86, 0xdd] && frame[54] == 134;
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
        frames.iter().filter(is_told).map(source).collect()
    };
    assert!(sources(&lab).is_empty(), "a backup is silent");
    lab.pass_time(Duration::from_secs(1));
    assert_eq!(sources(&lab), [virtual6()[0]]);
}
