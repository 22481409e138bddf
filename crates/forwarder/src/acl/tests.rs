//! What passes without a rule, classifiers by id, and counters.

use stoa_tables::classifier::{Classifier as Writer, ClassifierCapacity};
use stoa_wire::protocol;

use super::essential::is_essential;
use super::hits::HitTable;
use super::keys::{Ip4, Ip6};
use super::*;
use crate::flow::fields::{Kind, PacketFields};

#[test]
fn links_and_paths_work_without_rules() {
    let message = |protocol: u8, kind: u8, code: u8| PacketFields {
        kind: Kind(protocol.into()),
        ports: u32::from_be_bytes([kind, code, 0, 0]),
        ..PacketFields::default()
    };
    assert!(is_essential::<Ip6>(&message(protocol::ICMP6, 135, 0), 255));
    assert!(!is_essential::<Ip6>(&message(protocol::ICMP6, 135, 0), 64));
    let mut later = message(protocol::ICMP6, 135, 0);
    later.kind.0 |= Kind::LATER;
    assert!(!is_essential::<Ip6>(&later, 255));
    let of4 = |number, kind, code| is_essential::<Ip4>(&message(number, kind, code), 64);
    assert!(of4(protocol::ICMP4, 3, 4));
    assert!(!of4(protocol::ICMP4, 3, 1));
    assert!(!of4(protocol::UDP, 3, 4));
    assert!(!of4(protocol::ICMP6, 2, 0), "IPv4 does not carry ICMPv6");
}

#[test]
fn classifiers_are_found_by_id() {
    let writer = Writer::new(ClassifierCapacity::for_rules(1)).unwrap();
    let tree = Tree { reader: writer.reader(), relevant: writer.relevant_bits() };
    let hits = HitTable::new(1, 8).unwrap();
    let one = |id: u32| {
        let unmatched = Arc::new(Hits::new(&hits));
        Arc::new(Classifier::new(id, (tree.clone(), Vec::new()), Traits::default(), unmatched))
    };
    let all = AccessLists::of(vec![one(7), one(3), one(9)], None);
    for id in 0..12 {
        assert_eq!(all.get(id).map(|it| it.id), [3, 7, 9].contains(&id).then_some(id));
    }
}
