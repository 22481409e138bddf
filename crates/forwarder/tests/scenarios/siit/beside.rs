//! SIIT beside NAT44, SYN cookies and policers: what belongs to others stays theirs.

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::NatMapping as StaticMapping;
use stoa_forwarder::punt::{Class, Limit};
use stoa_wire::icmp6;

use super::*;
use crate::acl::{all, list};
use crate::acl_stateful::{flows, stateful};
use crate::nat44::{POOL, net, policy};
use crate::nat44_forwards::forward;
use crate::nat64::errors::error6;
use crate::zones::{pair, zoned};

/// All of IPv4 is mapped, and NAT44 has a pool and a static mapping.
fn beside_nat44() -> Setup {
    let all = explicit((Ipv4Addr::UNSPECIFIED, 0), ("2001:db8:2:64::".parse().unwrap(), 96));
    let mut clat = Setup::three_ports();
    clat.0.siit = vec![SiitPolicy { mappings: vec![all], ..siit() }];
    let pool = vec![net(POOL, 28)];
    let of_pool = NatPolicy { pools: pool, ..policy(NatMapping::EndpointIndependent) };
    let external = net(Ipv4Addr::new(198, 18, 0, 1), 32);
    with_nat(clat, vec![of_pool], vec![StaticMapping { external, ..forward(80, 8080, 0) }])
}

#[test]
fn addresses_of_nat44_keep_their_meaning_when_all_of_ip4_is_mapped() {
    let mut lab = Lab::new(&beside_nat44());
    let hidden = passed(&mut lab, 1, &udp_ports(host4(1), host4(2), (5000, 53), b"ask"), "east");
    let (address, port) = (hidden.addresses().0, hidden.ports.unwrap().0);
    assert!(address.starts_with("192.0.2."), "{address}");
    let answer = udp_ports(host4(2), address.parse::<Ipv4Addr>().unwrap(), (53, port), b"answer");
    assert_eq!(ends(&passed(&mut lab, 2, &answer, "west")).1, "10.0.1.2:5000");
    let external = Ipv4Addr::new(198, 18, 0, 1);
    let syn = crate::nat44::segment((host4(2), external), (4000, 80), (7, 0), flag::SYN, 0);
    let got = passed(&mut lab, 2, &syn, "west");
    assert_eq!(got.addresses(), ("10.0.2.2".into(), "10.0.1.2".into()));
    // Nobody behind the prefix of the NAT64 sends as one of them.
    let forged = Prefix::new("2001:db8:2:64::".parse().unwrap(), 96).unwrap().embed(POOL);
    refused(&mut lab, 2, &udp_ports(forged, of(host4(1)), (53, 5000), b"x"), "siit-source");
}

#[test]
fn a_pool_that_comes_later_is_kept_at_once() {
    let with = beside_nat44();
    let mut without = with.clone();
    without.0.nat = stoa_forwarder::control::desired::Nat::default();
    let mut lab = Lab::new(&without);
    let ask = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
    lab.apply(&with).unwrap();
    let hidden = passed(&mut lab, 1, &ask, "east");
    let (address, port) = (hidden.addresses().0, hidden.ports.unwrap().0);
    let answer = udp_ports(host4(2), address.parse::<Ipv4Addr>().unwrap(), (53, port), b"answer");
    assert_eq!(ends(&passed(&mut lab, 2, &answer, "west")).1, "10.0.1.2:5000");
}

/// Each would be one of the router's own errors for who receives it.
#[test]
fn errors_of_routers_without_a_mapping_are_limited() {
    let mut limited = setup(siit());
    let limit = Limit { rate: 10, burst: 5, total: 1000 };
    for class in [Class::Error, Class::TooBig] {
        limited.0.punts.insert(class, limit);
    }
    let mut lab = Lab::new(&limited);
    lab.state().stop_policers();
    lab.send("east", [packet_from(2, &ask())]);
    let inside = lab.take("west").pop().unwrap()[14..].to_vec();
    let router = "2001:db8:77::1".parse().unwrap();
    for what in [icmp6::Error::TimeExceeded, icmp6::Error::PacketTooBig { mtu: 1400 }] {
        let error = |source| packet_from(1, &error6(source, what, &inside));
        // About a packet to nobody who is mapped: whoever invents them takes no token.
        let mut stray = inside.clone();
        stray[39] ^= 0x40;
        lab.send("west", (0..20).map(|_| packet_from(1, &error6(router, what, &stray))));
        lab.assert_dropped(&[("siit-quoted", 20)]);
        lab.send("west", (0..20).map(|_| error(router)));
        lab.assert_dropped(&[("icmp-limited", 15)]);
        assert_eq!(lab.take("east").len(), 5);
        // Mapped hosts answer for themselves.
        lab.send("west", (0..20).map(|_| error(host6(1))));
        lab.assert_dropped(&[]);
        assert_eq!(lab.take("east").len(), 20);
    }
}

/// The answer to a cookie would have no place where it is translated.
#[test]
fn syns_of_siit_get_no_cookie() {
    let rules = [("out", stateful(all(Action::Accept)))];
    let both = pair(list(zoned(setup(siit())), "out", &rules), ("wan", "lan"), &["out"]);
    let both = pair(both, ("lan", "wan"), &["out"]);
    let both = ["west", "east"]
        .into_iter()
        .fold(both, |all, name| all.with(name, |it| it.zone_syn_cookies = Some(0)));
    let mut lab = Lab::new(&both);
    // A cookie would be answered, and nothing would pass.
    let syn = crate::nat44::segment((host4(2), mapped(1)), (4000, 80), (7, 0), flag::SYN, 0);
    passed(&mut lab, 2, &syn, "west");
    let syn = segment((host6(1), of(host4(2))), (4001, 80), (7, 0), flag::SYN);
    passed(&mut lab, 1, &syn, "east");
    assert_eq!(flows(&mut lab).len(), 2);
    lab.assert_silent();
}
