//! Protocols whose ports are none, or stay: ESP, IP in IP and SCTP are translated by address, and so are errors about
//! them.

use super::*;
use crate::nat44_errors::{assert_quotes, error};

const IP_IN_IP: u8 = 4;
const ESP: u8 = 50;
const SCTP: u8 = 132;

/// Each protocol, with the data of a packet and of its answer.
fn all_three() -> [(u8, Vec<u8>, Vec<u8>); 3] {
    let ports = |source: u16, destination: u16| {
        [&source.to_be_bytes()[..], &destination.to_be_bytes(), &[7; 12]].concat()
    };
    let inner = |from, to| udp_ports(host4(from), host4(to), (700, 701), b"inner");
    [
        (IP_IN_IP, inner(5, 6), inner(6, 5)),
        (ESP, vec![0x11; 24], vec![0x22; 24]),
        (SCTP, ports(5000, 3868), ports(3868, 5000)),
    ]
}

#[test]
fn esp_ip_in_ip_and_sctp_pass_by_address() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        for (number, there, back) in all_three() {
            let mut lab = Lab::new(&translated(policy(mapping)));
            let asked = |host| ip4(&ipv4::Builder::new(host4(host), host4(2), number), &there);
            for _ in 0..2 {
                let sent = passed(&mut lab, 1, &asked(1), "east");
                assert_eq!((sent.addresses().0.as_str(), &sent.payload), ("10.0.2.1", &there));
                let answer = ip4(&ipv4::Builder::new(host4(2), our4(2), number), &back);
                let got = passed(&mut lab, 2, &answer, "west");
                assert_eq!((got.addresses().1.as_str(), &got.payload), ("10.0.1.2", &back));
            }
            // One inside host for each remote one, and for each pair of ports of SCTP.
            lab.send("north", [packet_from(3, &asked(3))]);
            lab.assert_dropped(&[("nat44-no-port", 1)]);
            assert_eq!(lab.only("north").icmp, Some((3, 13)));
        }
    }
}

#[test]
fn errors_about_esp_ip_in_ip_and_sctp_are_translated() {
    let router = Ipv4Addr::new(203, 0, 113, 1);
    for (number, there, _) in all_three() {
        let mut lab = Lab::new(&masquerade());
        let asked = ip4(&ipv4::Builder::new(host4(1), host4(2), number), &there);
        lab.send("west", [packet_from(1, &asked)]);
        let sent = lab.take("east").pop().unwrap()[14..].to_vec();
        for (what, length) in [((3, 4, 1400), 28), ((3, 2, 0), sent.len())] {
            let packet = error((router, our4(2)), what, &sent[..length]);
            let back = passed(&mut lab, 2, &packet, "west");
            assert_eq!(back.icmp, Some((what.0, what.1)));
            assert_eq!(back.addresses(), (router.to_string(), "10.0.1.2".into()));
            assert_quotes(&back, &asked, length);
        }
    }
}
