//! A tunnel that is deleted by a change that is refused half-way.

use stoa_ports::Encapsulation::Gre;

use super::{FAR4, encapsulated, setup};
use crate::harness::*;

/// Sub-interfaces up to this number need more adjacencies than there are.
const SUBS: std::ops::Range<u8> = 10..60;

/// The tunnel and port "north" go, sub-interfaces come, one of which gets the index of the tunnel. There are
/// too many of them, and the device of "north" has disappeared meanwhile, so that the previous state does not
/// come back either.
#[test]
fn no_interface_gets_packets_of_a_tunnel_that_is_gone() {
    let limits = stoa_forwarder::control::Limits { adjacencies: 64, ..LIMITS };
    let mut lab = Lab::with(&setup(true, Gre), limits, |_| Wire::new(1, 8));
    let back = packet_from(2, &encapsulated(true, Gre, &udp(FAR4, host4(1), b"back"), 0));
    lab.send("east", [back.clone()]);
    assert_eq!(lab.take("west").len(), 1);
    let two = Setup::new().port("west", 1).host("west", 1).port("east", 2).host("east", 2);
    let many = SUBS
        .fold(two, |setup, n| setup.sub(&format!("west.{n}"), n, "west", &[(0x8100, n.into())]));
    lab.remove_wire("north");
    assert!(lab.apply(&many).unwrap_err().is_full);
    lab.settle();
    lab.forget();
    lab.send("east", [back]);
    assert_eq!(lab.take("west").len(), 0);
    assert_eq!(lab.only("east").icmp, Some((3, 2)), "protocol unreachable");
}
