//! NAT-PMP (RFC 6886).

use super::*;

const OK: u16 = 0;
const REFUSED: u16 = 2;

/// A request for a mapping, and the result, external port and lifetime of the answer.
#[track_caller]
fn ask(lab: &mut Lab, opcode: u8, ports: (u16, u16), lifetime: u32) -> (u16, u16, u32) {
    let mut message = vec![0, opcode, 0, 0];
    message.extend(ports.0.to_be_bytes());
    message.extend(ports.1.to_be_bytes());
    message.extend(lifetime.to_be_bytes());
    let bytes = exchange(lab, 1, &message);
    assert_eq!((bytes.len(), bytes[0], bytes[1]), (16, 0, 0x80 | opcode));
    let short = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    assert_eq!(short(8), ports.0);
    (short(2), short(10), u32::from_be_bytes(bytes[12..].try_into().unwrap()))
}

#[test]
fn the_external_address_and_mappings_are_given() {
    let mut lab = lab(pool_policy(control()));
    let answer = exchange(&mut lab, 1, &[0, 0]);
    assert_eq!(
        (answer[..4].to_vec(), answer[8..].to_vec()),
        (vec![0, 0x80, 0, 0], POOL.octets().to_vec())
    );
    assert_eq!(super::ask(&mut lab, &map(UDP, 9)).result, SUCCESS);
    assert_eq!(ask(&mut lab, 1, (4000, 6000), 7_200), (OK, 6000, 7_200));
    passed(&mut lab, 2, &inward(9, (POOL, 6000)), "west");
    assert_eq!(ask(&mut lab, 2, (4000, 0), 60), (OK, 4000, 120));
    // Again, with another suggestion: what it has.
    assert_eq!(ask(&mut lab, 1, (4000, 6001), 600), (OK, 6000, 600));
    assert_eq!(mappings(&mut lab).iter().filter(|it| it.leases[0].kind == "nat-pmp").count(), 2);
    assert_eq!(ask(&mut lab, 1, (4000, 0), 0), (OK, 0, 0));
    assert_eq!(ask(&mut lab, 1, (4000, 0), 0), (OK, 0, 0), "again");
    refused(&mut lab, 2, &inward(10, (POOL, 6000)), "nat44-no-mapping");
    // All of a protocol.
    assert_eq!(ask(&mut lab, 2, (0, 0), 0), (OK, 0, 0));
    assert_eq!(ask(&mut lab, 1, (0, 0), 60).0, REFUSED, "there is no mapping of all ports");
    let left: Vec<_> = lab.state().nat_mappings(&v1::NatMappingFilter::default());
    assert_eq!(left.iter().flat_map(|it| &it.leases).count(), 1, "that of PCP");
}

#[test]
fn mappings_of_pcp_are_not_those_of_nat_pmp() {
    let mut lab = lab(pool_policy(control()));
    assert_eq!(super::ask(&mut lab, &map(UDP, 4000)).result, SUCCESS);
    assert_eq!(ask(&mut lab, 1, (4000, 0), 600).0, REFUSED);
    assert_eq!(ask(&mut lab, 1, (4000, 0), 0).0, REFUSED);
    assert_eq!(ask(&mut lab, 1, (4001, 0), 600).0, OK);
    assert_eq!(super::ask(&mut lab, &map(UDP, 4001)).result, NOT_AUTHORIZED);
}

#[test]
fn what_cannot_be_served_has_a_result() {
    let mut lab = lab(pool_policy(control()));
    let of = |lab: &mut Lab, message: &[u8]| {
        let answer = exchange(lab, 1, message);
        (answer[0], answer[1], answer[3])
    };
    assert_eq!(of(&mut lab, &[0, 3]), (0, 0x83, 5), "an unknown operation");
    // Without an address outside, nothing can be mapped.
    let own = NatPolicy { pools: Vec::new(), ..pool_policy(control()) };
    let bare = translated(own).with("east", |east| {
        east.ip4.addresses.retain(|(address, _)| address.is_ipv6());
    });
    let mut lab = Lab::new(&bare);
    assert_eq!(of(&mut lab, &[0, 0]), (0, 0x80, 3), "NETWORK_FAILURE");
    assert_eq!(super::ask(&mut lab, &map(UDP, 4000)).result, 7);
    // Where NAT-PMP is off, it is a version that PCP does not have.
    let mut off = super::lab(pool_policy(PortControl { has_nat_pmp: false, ..control() }));
    assert_eq!(of(&mut off, &[0, 0]), (2, 0x80, 1));
    // A host that no policy translates.
    let subscribers = vec![net(host4(3), 32)];
    let mut other = super::lab(NatPolicy { subscribers, ..pool_policy(control()) });
    assert_eq!(of(&mut other, &[0, 0]), (0, 0x80, 2));
    assert_eq!(super::ask(&mut other, &map(UDP, 4000)).result, NOT_AUTHORIZED);
}
