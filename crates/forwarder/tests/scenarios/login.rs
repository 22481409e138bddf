//! Login of hosts: what unknown hosts reach, the redirect of HTTP, and what is counted of others. Hosts are MAC
//! addresses, with all of their addresses of both families.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_forwarder::control::desired::Login;
use stoa_forwarder::kernel::Kernel;
use stoa_forwarder::login::OUTPUT_NODES;
use stoa_wire::checksum::Pseudo;
use stoa_wire::ethernet::ethertype;
use stoa_wire::tcp::{self, flag};
use stoa_wire::{icmp6, ipv4, ipv6, protocol};

use crate::harness::*;

const PORTAL: &str = "https://portal.example:8444/";
const PORTAL6: &str = "https://[2001:db8:1::1]:8444/";
const NAME_SERVER: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2));

/// Hosts of west have to log in; the whole network of north is the walled garden.
fn guarded(setup: Setup) -> Setup {
    let login = Login {
        garden: vec![(Ipv4Addr::new(10, 0, 3, 0).into(), 24), (net6(3), 64)],
        name_servers: vec![NAME_SERVER],
        portal: vec![our4(1).into(), our6(1).into()],
        portal_port: 8444,
        redirect: [PORTAL.to_owned(), PORTAL6.to_owned()],
        rates: [1_000_000; 2],
    };
    setup.with("west", |it| it.login = Some(login))
}

fn net6(n: u8) -> IpAddr {
    Ipv6Addr::from_bits(our6(n).to_bits() >> 64 << 64).into()
}

/// A segment to port 80 or another one, from host 1 to host 2.
fn segment(is_ip4: bool, port: u16, flags: u8, numbers: (u32, u32), data: &[u8]) -> Vec<u8> {
    let builder = tcp::Builder {
        source_port: 40_000,
        destination_port: port,
        sequence: numbers.0,
        acknowledgement: numbers.1,
        flags,
        ..tcp::Builder::default()
    };
    let mut body = vec![0; tcp::LENGTH + data.len()];
    if is_ip4 {
        let (source, destination) = (host4(1), host4(2));
        builder.build(&mut body, &Pseudo::Ip4 { source, destination }, data).unwrap();
        return ip4(&ipv4::Builder::new(source, destination, protocol::TCP), &body);
    }
    let (source, destination) = (host6(1), host6(2));
    builder.build(&mut body, &Pseudo::Ip6 { source, destination }, data).unwrap();
    ip6(&ipv6::Builder::new(source, destination, protocol::TCP), &body)
}

/// The segment that host 1 gets: flags, numbers, data.
#[track_caller]
fn answer(lab: &mut Lab, packet: &[u8]) -> (u8, u32, u32, String) {
    lab.send("west", [packet_from(1, packet)]);
    let frame = lab.take("west").pop().expect("an answer");
    let parsed = parse(&frame);
    assert_eq!(parsed.destination, host_mac(1));
    let upper = if parsed.ip.unwrap().0.is_ipv4() { 34 } else { 54 };
    let view = tcp::parse(&frame[upper..]).unwrap();
    assert_eq!(view.destination_port(), 40_000);
    let header = view.header();
    let data = String::from_utf8(view.payload().to_vec()).unwrap();
    (header.flags, header.sequence.get(), header.acknowledgement.get(), data)
}

#[track_caller]
fn passes(lab: &mut Lab, to: &str, packet: &[u8]) {
    lab.send("west", [packet_from(1, packet)]);
    lab.assert_dropped(&[]);
    assert_eq!(lab.take(to).len(), 1);
}

#[test]
fn unknown_hosts_reach_the_garden_and_what_they_need() {
    let mut lab = Lab::new(&guarded(Setup::three_ports()));
    passes(&mut lab, "north", &udp(host4(1), host4(3), b"x"));
    passes(&mut lab, "north", &udp(host6(1), host6(3), b"x"));
    for packet in [udp(host4(1), host4(2), b"x"), udp(host6(1), host6(2), b"x")] {
        lab.send("west", [packet_from(1, &packet)]);
        lab.assert_dropped(&[("login-required", 1)]);
        lab.assert_silent();
    }
    // A name server, and the router as one: it has no service there.
    let query = udp_ports(host6(1), NAME_SERVER, (1_000, 53), b"x");
    passes(&mut lab, "east", &query);
    for port in [53, 67] {
        lab.send("west", [packet_from(1, &udp_ports(host4(1), our4(1), (1_000, port), b"x"))]);
        lab.assert_dropped(&[("ip4-local-port", 1)]);
    }
    // Pings of the router.
    lab.send("west", [packet_from(1, &ping4(host4(1), our4(1), b"x"))]);
    lab.assert_dropped(&[("login-required", 1)]);
    // Hosts of other interfaces are not asked.
    lab.forget();
    lab.send("east", [packet_from(2, &udp(host4(2), host4(3), b"x"))]);
    lab.assert_dropped(&[]);
    assert_eq!(lab.take("north").len(), 1);
}

#[test]
fn the_link_works_without_a_login() {
    let mut lab = Lab::new(&guarded(Setup::three_ports()));
    lab.forget();
    // ARP is no IP; a solicitation for the router's address is answered.
    lab.send("west", [arp_request(host_mac(1), host4(1), our4(1))]);
    assert_eq!(lab.only("west").ethertype, ethertype::ARP);
    let macs = (host_mac(1), our_mac(1));
    let asked = solicitation(macs, (host6(1), our6(1)), our6(1), Some(host_mac(1)));
    lab.send("west", [asked]);
    assert_eq!(lab.only("west").icmp, Some((icmp6::kind::NEIGHBOR_ADVERTISEMENT, 0)));
    lab.assert_dropped(&[]);
}

#[test]
fn http_is_redirected_and_other_tcp_reset() {
    for is_ip4 in [true, false] {
        let mut lab = Lab::new(&guarded(Setup::three_ports()));
        let (flags, number, acknowledged, _) =
            answer(&mut lab, &segment(is_ip4, 80, flag::SYN, (7, 0), &[]));
        assert_eq!((flags, acknowledged), (flag::SYN | flag::ACK, 8));
        let first = number.wrapping_add(1);
        lab.send("west", [packet_from(1, &segment(is_ip4, 80, flag::ACK, (8, first), &[]))]);
        assert!(lab.take("west").is_empty());
        let request = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";
        let ask = segment(is_ip4, 80, flag::ACK | flag::PSH, (8, first), request);
        let (flags, sequence, acknowledged, text) = answer(&mut lab, &ask);
        assert_eq!(flags, flag::ACK | flag::PSH | flag::FIN);
        assert_eq!((sequence, acknowledged), (first, 8 + request.len() as u32));
        let portal = if is_ip4 { PORTAL } else { PORTAL6 };
        assert!(text.starts_with("HTTP/1.1 302 Found\r\n"), "{text}");
        assert!(text.contains(&format!("\r\nLocation: {portal}\r\n")), "{text}");
        assert!(text.contains("\r\nCache-Control: no-store\r\n"), "{text}");
        assert!(!text.contains("evil"), "{text}");
        let end = first.wrapping_add(text.len() as u32 + 1);
        let fin = segment(is_ip4, 80, flag::ACK | flag::FIN, (acknowledged, end), &[]);
        assert_eq!(answer(&mut lab, &fin), (flag::ACK, end, acknowledged + 1, String::new()));
        // Neither another number nor another port.
        let forged = segment(is_ip4, 80, flag::ACK, (8, first ^ 0x100_0000), request);
        assert_eq!(answer(&mut lab, &forged).0, flag::RST);
        let https = segment(is_ip4, 443, flag::SYN, (7, 0), &[]);
        assert_eq!(answer(&mut lab, &https), (flag::RST | flag::ACK, 0, 8, String::new()));
        assert!(lab.dropped().iter().all(|(reason, _)| reason == "login-required"));
    }
}

#[test]
fn a_host_that_has_logged_in_passes_with_all_its_addresses() {
    let mut lab = Lab::new(&guarded(Setup::three_ports()));
    assert!(lab.state().set_login("west", host_mac(1), Some(7)));
    let sent = [udp(host4(1), host4(2), b"xyz"), udp(host6(1), host6(2), b"xyz")];
    sent.iter().for_each(|packet| passes(&mut lab, "east", packet));
    let back = udp(host4(2), host4(1), b"answer");
    lab.send("east", [packet_from(2, &back)]);
    assert_eq!(lab.take("west").len(), 1);
    let [login] = lab.state().logins().try_into().unwrap();
    assert_eq!((login.interface.as_str(), login.mac.as_slice()), ("west", &host_mac(1)[..]));
    assert_eq!((login.id, login.in_packets, login.out_packets), (7, 2, 1));
    assert_eq!((login.in_bytes, login.out_bytes), (31 + 51, 34));
    assert!(login.idle_ms.is_some());
    // Another host with its address is another host.
    let other = frame(our_mac(1), host_mac(9), &[], ethertype::IP4, &sent[0]);
    lab.send("west", [other]);
    lab.assert_dropped(&[("login-required", 1)]);
    // The next login begins at zero.
    assert!(lab.state().set_login("west", host_mac(1), Some(8)));
    assert_eq!(lab.state().logins()[0].in_packets, 0);
    assert!(lab.state().set_login("west", host_mac(1), None));
    lab.send("west", [packet_from(1, &sent[0])]);
    lab.assert_dropped(&[("login-required", 1)]);
}

#[test]
fn tags_are_in_front_of_the_address() {
    let tags = [(0x8100, 7)];
    let setup = Setup::three_ports().sub("guests", 4, "west", &tags);
    let setup = guarded(setup);
    let login = setup.0.interfaces["west"].login.clone();
    let mut lab = Lab::new(&setup.with("guests", |it| it.login = login));
    assert!(lab.state().set_login("guests", host_mac(4), Some(1)));
    assert!(lab.state().set_login("west", host_mac(1), Some(2)));
    let packet = udp(host4(4), host4(2), b"x");
    let tagged = |mac| frame(our_mac(1), mac, &tags, ethertype::IP4, &packet);
    lab.send("west", [tagged(host_mac(4))]);
    lab.assert_dropped(&[]);
    assert_eq!(lab.take("east").len(), 1);
    lab.send("west", [tagged(host_mac(1))]);
    lab.assert_dropped(&[("login-required", 1)]);
    // A priority tag is none (IEEE 802.1Q 6.9.1), whatever its priority.
    let packet = udp(host4(1), host4(2), b"x");
    let priority = frame(our_mac(1), host_mac(1), &[(0x8100, 0xe000)], ethertype::IP4, &packet);
    lab.send("west", [priority]);
    lab.assert_dropped(&[]);
    assert_eq!(lab.take("east").len(), 1);
    // A host whose address looks like such a tag.
    let odd = [2, 0, 0x81, 0, 0x20, 0];
    lab.send("west", [frame(our_mac(1), odd, &[], ethertype::IP4, &packet)]);
    lab.assert_dropped(&[("login-required", 1)]);
    assert!(lab.state().set_login("west", odd, Some(3)));
    lab.send("west", [frame(our_mac(1), odd, &[], ethertype::IP4, &packet)]);
    lab.assert_dropped(&[]);
}

#[test]
fn groups_and_link_local_addresses_are_no_way_around() {
    let mut lab = Lab::new(&guarded(Setup::three_ports()));
    lab.forget();
    let link_local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let packet = ping6(link_local, group, b"x");
    let to = [0x33, 0x33, 0, 0, 0, 1];
    let ping = |lab: &mut Lab| {
        lab.send("west", [frame(to, host_mac(1), &[], ethertype::IP6, &packet)]);
        let answers = lab
            .take("west")
            .into_iter()
            .filter(|it| parse(it).icmp == Some((icmp6::kind::ECHO_REPLY, 0)));
        answers.count()
    };
    assert_eq!(ping(&mut lab), 0);
    lab.assert_dropped(&[("login-required", 1)]);
    lab.forget();
    let packet = udp(host4(1), Ipv4Addr::new(224, 0, 0, 1), b"x");
    let to = [1, 0, 0x5e, 0, 0, 1];
    lab.send("west", [frame(to, host_mac(1), &[], ethertype::IP4, &packet)]);
    lab.assert_dropped(&[("login-required", 1)]);
}

#[test]
fn unknown_hosts_get_answers_alone() {
    for is_ip4 in [true, false] {
        let mut lab = Lab::new(&guarded(Setup::three_ports()));
        // Not the name server.
        let other = |host| Ipv6Addr::from_bits(host6(host).to_bits() + 0x77);
        let from = |host| match is_ip4 {
            true => packet_from(host, &udp(host4(host), host4(1), b"x")),
            false => packet_from(host, &udp(other(host), host6(1), b"x")),
        };
        let dropped = |lab: &mut Lab| {
            lab.forget();
            lab.send("east", [from(2)]);
            lab.assert_dropped(&[("login-required", 1)]);
            assert!(lab.take("west").is_empty());
        };
        dropped(&mut lab);
        // Of the walled garden.
        lab.forget();
        lab.send("north", [from(3)]);
        lab.assert_dropped(&[]);
        assert_eq!(lab.take("west").len(), 1);
        assert!(lab.state().set_login("west", host_mac(1), Some(7)));
        lab.send("east", [from(2)]);
        lab.assert_dropped(&[]);
        assert_eq!(lab.take("west").len(), 1);
        // Streams without answers end with the login.
        assert!(lab.state().set_login("west", host_mac(1), None));
        dropped(&mut lab);
    }
}

#[test]
fn a_full_vector_is_looked_up_together_by_each_kernel() {
    for kernel in [Kernel::Scalar, Kernel::Avx2, Kernel::Avx512] {
        if !kernel.is_available() {
            continue;
        }
        let mut lab = Lab::new(&guarded(Setup::three_ports().kernel(kernel)));
        let mac = |host: u8| [2, 7, 0, 0, 0, host];
        for host in (0..200).step_by(2) {
            assert!(lab.state().set_login("west", mac(host), Some(host.into())));
        }
        let packet = udp(host4(1), host4(2), b"x");
        let frames = (0..200).map(|it| frame(our_mac(1), mac(it), &[], ethertype::IP4, &packet));
        lab.send("west", frames);
        lab.assert_dropped(&[("login-required", 100)]);
        assert_eq!(lab.take("east").len(), 100);
        assert!(lab.state().logins().iter().all(|it| it.in_packets == 1));
    }
}

#[test]
fn settings_that_go_and_come_keep_logins() {
    let (plain, with) = (Setup::three_ports(), guarded(Setup::three_ports()));
    let mut lab = Lab::new(&plain);
    assert!(lab.state().set_login("west", host_mac(1), Some(1)));
    let packet = udp(host4(1), host4(2), b"x");
    passes(&mut lab, "east", &packet);
    lab.apply(&with).unwrap();
    lab.settle();
    lab.forget();
    passes(&mut lab, "east", &packet);
    lab.send("west", [frame(our_mac(1), host_mac(9), &[], ethertype::IP4, &packet)]);
    lab.assert_dropped(&[("login-required", 1)]);
    lab.apply(&plain).unwrap();
    lab.settle();
    lab.forget();
    lab.send("west", [frame(our_mac(1), host_mac(9), &[], ethertype::IP4, &packet)]);
    lab.assert_dropped(&[]);
    // Without the setting, packets meet no node of it.
    let nodes = lab.node_counts();
    assert!(nodes.iter().all(|(node, _)| !node.contains("login")), "{nodes:?} {OUTPUT_NODES:?}");
}

#[test]
fn logins_are_listed_by_pages() {
    let mut lab = Lab::new(&Setup::three_ports());
    // The first page of 1,024 ends among those of the second interface.
    for (interface, hosts) in [("east", 600), ("north", 600), ("west", 900)] {
        for host in 0..hosts {
            let [a, b] = u16::to_be_bytes(host);
            assert!(lab.state().set_login(interface, [2, 0, 0, 0, a, b], Some(host.into())));
        }
    }
    let listed = lab.state().logins();
    assert_eq!(listed.len(), 2_100);
    let keys: Vec<_> = listed.iter().map(|it| (&it.interface, &it.mac)).collect();
    assert!(keys.is_sorted_by(|one, next| one < next), "each once, in order");
}

/// One host sends and asks without an end; the next one notices nothing.
#[test]
fn a_host_leaves_others_their_share() {
    let limited = guarded(Setup::three_ports()).with("west", |it| {
        it.login.as_mut().unwrap().rates = [5, 3];
    });
    let mut lab = Lab::new(&limited);
    lab.state().stop_policers();
    let from = |mac: u8, packet: &[u8]| {
        let mut frame = packet_from(1, packet);
        frame[11] ^= mac;
        frame
    };
    let query = udp_ports(host6(1), NAME_SERVER, (1_000, 53), b"x");
    let page = segment(true, 80, flag::SYN, (100, 0), b"");
    let other = segment(true, 443, flag::SYN, (100, 0), b"");
    for mac in [0, 1] {
        lab.send("west", (0..100).map(|_| from(mac, &query)));
        lab.assert_dropped(&[("login-share", 90)]);
        assert_eq!(lab.take("east").len(), 10);
        // Redirects and resets are of one share.
        lab.send("west", (0..4).map(|_| from(mac, &page)));
        lab.send("west", (0..100).map(|_| from(mac, &other)));
        lab.assert_dropped(&[("login-required", 6), ("login-share", 98)]);
        assert_eq!(lab.take("west").len(), 6);
    }
    // The garden is no share.
    lab.send("west", (0..100).map(|_| from(0, &udp(host4(1), host4(3), b"x"))));
    lab.assert_dropped(&[]);
    assert_eq!(lab.take("north").len(), 100);
}
