//! Address conflict detection and DAD: local addresses are probed, announced, defended and given
//! up; and proxy ARP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use stoa_forwarder::control::desired::Interface;
use stoa_wire::ethernet::Mac;
use stoa_wire::ndp::flag;
use stoa_wire::{arp, ipv6};

use crate::harness::*;

const OTHER_MAC: [u8; 6] = [2, 0xbb, 0, 0, 0, 9];

fn detecting(interface: &mut Interface) {
    interface.ip4.duplicate_detection = 2;
    interface.ip6.duplicate_detection = 1;
}

/// "east" detects conflicts and has just come up.
fn detecting_testbed() -> (Lab, Setup) {
    let setup = Setup::new().port("west", 1).port("east", 2).host("west", 1).host("east", 2);
    let setup = setup.with("east", detecting);
    let mut lab = Lab::new(&setup);
    lab.plug("east", false);
    lab.forget();
    lab.plug("east", true);
    (lab, setup)
}

fn states(lab: &mut Lab) -> Vec<String> {
    let east = lab.state().list_interfaces().into_iter().find(|i| i.name == "east").unwrap();
    east.addresses.into_iter().map(|own| own.state).collect()
}

fn arps(frames: &[Vec<u8>]) -> Vec<&arp::Packet> {
    let is_arp = |frame: &&Vec<u8>| frame[12..14] == [8, 6];
    frames.iter().filter(is_arp).map(|frame| arp::check(&frame[14..]).unwrap()).collect()
}

/// Parsed neighbour discovery frames.
fn nds(frames: &[Vec<u8>], kind: u8) -> Vec<Parsed> {
    let six = frames.iter().filter(|frame| frame[12..14] == [0x86, 0xdd]).map(|frame| parse(frame));
    six.filter(|parsed| parsed.icmp == Some((kind, 0))).collect()
}

#[test]
fn addresses_are_probed_and_then_announced() {
    let (mut lab, _) = detecting_testbed();
    assert_eq!(states(&mut lab), ["tentative", "tentative"]);
    let first = lab.take("east");
    let probe = arps(&first)[0];
    assert!(probe.is_probe() && probe.target() == our4(2) && arps(&first).len() == 1);
    let questions = nds(&first, 135);
    // For the global and the link-local address, from ::, with a nonce (RFC 7527).
    assert_eq!(questions.len(), 2);
    let of_global =
        questions.iter().find(|parsed| parsed.payload[..16] == our6(2).octets()).unwrap();
    let group = ipv6::solicited_node(our6(2));
    assert_eq!(of_global.ip, Some((Ipv6Addr::UNSPECIFIED.into(), group.into())));
    assert_eq!((of_global.ttl, &of_global.payload[16..18]), (255, &[14, 1][..]));
    lab.pass_time(Duration::from_millis(1100));
    assert_eq!(states(&mut lab), ["tentative", "preferred"], "ARP sends two more probes");
    let second = lab.take("east");
    assert!(arps(&second)[0].is_probe());
    let announced = nds(&second, 136);
    assert_eq!((announced.len(), announced[0].word), (1, [0xa0, 0, 0, 0]), "router, override");
    lab.pass_time(Duration::from_secs(1));
    assert_eq!(states(&mut lab), ["preferred", "preferred"]);
    let third = lab.take("east");
    assert!(arps(&third)[0].is_announcement() && third.len() == 1);
    lab.assert_dropped(&[]);
}

#[test]
fn an_optimistic_address_is_usable_while_it_is_probed() {
    let (mut lab, _) = detecting_testbed();
    lab.forget();
    // Forwarding does not wait; advertisements do not set the override flag (RFC 4429).
    lab.send("west", [packet_from(1, &udp(host4(1), host4(2), &[1]))]);
    assert_eq!(lab.only("east").payload, [1]);
    lab.send("east", [arp_request(host_mac(2), host4(2), our4(2))]);
    assert_eq!(arps(&lab.take("east")).len(), 1);
    let group = ipv6::solicited_node(our6(2));
    let to = Mac::of_ip6_group(group).0;
    let ask = solicitation((host_mac(2), to), (host6(2), group), our6(2), Some(host_mac(2)));
    lab.send("east", [ask]);
    assert_eq!(lab.only("east").word, [0xc0, 0, 0, 0], "router, solicited, no override");
    lab.assert_dropped(&[]);
}

#[test]
fn a_duplicate_address_is_unusable_until_the_link_comes_up_again() {
    let (mut lab, _) = detecting_testbed();
    lab.forget();
    lab.send("east", [arp_reply(OTHER_MAC, (our_mac(2), Ipv4Addr::UNSPECIFIED), our4(2))]);
    let taken = advertisement(
        (OTHER_MAC, [0x33, 0x33, 0, 0, 0, 1]),
        (our6(2), ipv6::ALL_NODES),
        (our6(2), flag::OVERRIDE),
        Some(OTHER_MAC),
    );
    lab.send("east", [taken]);
    assert_eq!(states(&mut lab), ["duplicate", "duplicate"]);
    let routes = lab.state().list_routes(&stoa_api::v1::ListRoutesRequest::default());
    let withdrawn = routes.iter().filter(|route| route.state == "duplicate").count();
    assert_eq!(withdrawn, 2, "their host routes");
    lab.assert_dropped(&[("address-conflict", 2)]);
    // The router does not reply for it or from it.
    lab.send("east", [arp_request(host_mac(2), host4(2), our4(2))]);
    lab.send("west", [packet_from(1, &ping4(host4(1), our4(2), b""))]);
    lab.send("west", [packet_from(1, &ping6(host6(1), our6(2), b""))]);
    lab.assert_silent();
    lab.assert_dropped(&[("ip4-blackhole", 1), ("ip6-blackhole", 1)]);
    lab.pass_time(Duration::from_secs(60));
    assert!(arps(&lab.take("east")).is_empty(), "no announcement");
    // The other host is gone: at the next link up, the address is usable.
    lab.plug("east", false);
    lab.plug("east", true);
    lab.pass_time(Duration::from_secs(3));
    assert_eq!(states(&mut lab), ["preferred", "preferred"]);
    lab.forget();
    lab.send("west", [packet_from(1, &ping4(host4(1), our4(2), b""))]);
    lab.send("west", [packet_from(1, &ping6(host6(1), our6(2), b""))]);
    assert_eq!(lab.take("west").len(), 2);
}

#[test]
fn simultaneous_probes_are_a_conflict() {
    let (mut lab, _) = detecting_testbed();
    let own = lab.take("east");
    // Looped-back probes are no conflict (RFC 7527).
    lab.send("east", own);
    assert_eq!(states(&mut lab), ["tentative", "tentative"]);
    let dropped = lab.dropped();
    assert!(dropped.iter().any(|(reason, n)| reason == "looped-back" && *n == 3), "{dropped:?}");
    let group = ipv6::solicited_node(our6(2));
    let to = Mac::of_ip6_group(group).0;
    let unspecified = Ipv6Addr::UNSPECIFIED;
    lab.send("east", [arp_request(OTHER_MAC, Ipv4Addr::UNSPECIFIED, our4(2))]);
    lab.send("east", [solicitation((OTHER_MAC, to), (unspecified, group), our6(2), None)]);
    assert_eq!(states(&mut lab), ["duplicate", "duplicate"]);
}

#[test]
fn a_local_address_is_defended_at_a_limited_rate() {
    let mut lab = Lab::new(&Setup::new().port("west", 1).port("east", 2));
    let forged = || arp(&arp::Packet::announcement(Mac(OTHER_MAC), our4(2)));
    lab.send("east", (0..5).map(|_| forged()));
    let frames = lab.take("east");
    assert!(arps(&frames)[0].is_announcement() && frames.len() == 1, "once in ten seconds");
    lab.assert_dropped(&[("address-conflict", 5)]);
    lab.pass_time(Duration::from_secs(10));
    lab.send("east", [forged()]);
    assert_eq!(lab.take("east").len(), 1);
    assert_eq!(states(&mut lab), ["preferred", "preferred"], "and kept");
}

#[test]
fn an_added_address_is_announced() {
    let setup = Setup::new().port("west", 1).port("east", 2);
    let mut lab = Lab::new(&setup);
    let (four, six) = (Ipv4Addr::new(10, 9, 0, 1), "2001:db8:99::1".parse::<Ipv6Addr>().unwrap());
    let more = setup.with("east", |east| {
        east.ip4.addresses.push((four.into(), 24));
        east.ip6.addresses.push((six.into(), 64));
    });
    lab.apply(&more).unwrap();
    lab.settle();
    let frames = lab.take("east");
    let announced: Vec<_> = arps(&frames).iter().map(|packet| packet.sender()).collect();
    assert_eq!(announced, [four], "only the new one");
    let announced = nds(&frames, 136);
    assert_eq!((announced.len(), &announced[0].payload[..16]), (1, &six.octets()[..]));
    assert!(lab.take("west").is_empty());
}

#[test]
fn proxy_arp_replies_for_remote_addresses_only_if_enabled() {
    let far: IpAddr = "192.0.2.9".parse().unwrap();
    let IpAddr::V4(far4) = far else { panic!() };
    let gateway = Some(IpAddr::V4(host4(1)));
    let setup = Setup::new()
        .port("west", 1)
        .port("east", 2)
        .paths(("192.0.2.0".parse().unwrap(), 24), &[("west", gateway, 1)])
        .paths(("0.0.0.0".parse().unwrap(), 0), &[("west", gateway, 1)]);
    let ask = |target: Ipv4Addr| arp_request(host_mac(2), host4(2), target);
    let mut lab = Lab::new(&setup);
    lab.send("east", [ask(far4)]);
    assert!(lab.take("east").is_empty(), "disabled by default");
    lab.apply(&setup.with("east", |east| east.ip4.proxy = true)).unwrap();
    lab.settle();
    lab.forget();
    for address in [far4, host4(1)] {
        lab.send("east", [ask(address)]);
        let frames = lab.take("east");
        let reply = arps(&frames)[0];
        assert!(reply.is_reply() && reply.sender() == address);
        assert_eq!(
            (reply.sender_mac.0, frames[0][..6].to_vec()),
            (our_mac(2), host_mac(2).to_vec())
        );
    }
    // Not for the link of the sender, the default route, unknown addresses or probes.
    for silent in [Ipv4Addr::new(10, 0, 2, 77), Ipv4Addr::new(203, 0, 113, 5)] {
        lab.send("east", [ask(silent)]);
    }
    lab.send("east", [arp_request(host_mac(2), Ipv4Addr::UNSPECIFIED, far4)]);
    lab.send("east", [arp_request(OTHER_MAC, Ipv4Addr::new(10, 7, 0, 1), far4)]);
    assert!(lab.take("east").is_empty());
    lab.assert_dropped(&[("arp-off-link", 1)]);
}
