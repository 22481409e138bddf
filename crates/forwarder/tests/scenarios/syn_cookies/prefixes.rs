//! SYN cookies for a server inside whose prefix is translated.

use super::segment::{ACK, SYN_ACK, Segment};
use super::*;
use crate::nptv6::{WEST, translated};

/// The third part of the external prefix, by which segments name the server outside.
const OUTSIDE: u8 = 0xe1;

/// A segment of host 2 to the external address of host 1. No checksum changes.
fn to_server(segment: &Segment) -> Vec<u8> {
    let mut packet = Segment { ends: (2, 1), ..segment.clone() }.packet();
    packet[24..40].copy_from_slice(&WEST.octets());
    packet_from(2, &packet)
}

fn only(segments: &[Segment]) -> &Segment {
    let [segment] = segments else { panic!("{segments:?}") };
    segment
}

#[test]
fn a_server_inside_is_protected_at_its_external_address() {
    let mut setup = zoned(tcp_only(), None);
    setup = setup.with("west", |it| it.zone_syn_cookies = Some(0));
    let pair = setup.0.zone_pairs.remove(&("lan".to_owned(), "wan".to_owned())).unwrap();
    setup.0.zone_pairs.insert(("wan".to_owned(), "lan".to_owned()), pair);
    let mut lab = Lab::new(&translated(setup));
    let syn = Segment::syn(false, 4000);
    lab.send("east", [to_server(&syn)]);
    let [outside, inside] = sent(&lab);
    let answer = only(&outside);
    assert_eq!((answer.flags, answer.ends, inside.len()), (SYN_ACK, (OUTSIDE, 2), 0));
    lab.send("east", [to_server(&answer.back(ACK))]);
    let [outside, inside] = sent(&lab);
    let opened = only(&inside);
    assert_eq!((opened.flags, opened.ends, outside.len()), (syn.flags, (2, 1), 0));
    let accepted = Segment { sequence: 9_000, ..opened.back(SYN_ACK) };
    lab.send("west", [packet_from(1, &accepted.packet())]);
    let [outside, inside] = sent(&lab);
    assert_eq!((only(&inside).flags, only(&inside).ends), (ACK, (2, 1)));
    assert_eq!((only(&outside).flags, only(&outside).ends), (ACK, (OUTSIDE, 2)));
    assert_eq!(counts(&mut lab), (1, 1, 0));
}
