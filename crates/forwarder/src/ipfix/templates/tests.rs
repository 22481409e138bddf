//! Templates fit, and types of ICMP are those of the direction.

use stoa_tables::flow_table::FlowKey;
use stoa_wire::ipfix::{FIRST_TEMPLATE, HEADER, LEAST, SET_HEADER};

use super::super::record::EndReason;
use super::*;

#[test]
fn templates_and_records_fit_into_the_smallest_message() {
    for (at, template) in ALL.iter().enumerate() {
        assert_eq!(usize::from(template.id), usize::from(FIRST_TEMPLATE) + at);
        assert!(HEADER + SET_HEADER + template.length() <= LEAST, "{template:?}");
        assert!(HEADER + SET_HEADER + template.record_length() <= LEAST, "{template:?}");
    }
}

#[test]
fn replies_have_their_own_icmp_type() {
    let of_key = |key| FlowRecord {
        key,
        translated: None,
        id: 1,
        start: 1,
        seen: 1,
        counters: [Counters::default(); 2],
        reason: EndReason::Idle,
    };
    let four = |protocol, destination_port| {
        let (source, destination, source_port) = (1, 2, 0x1234);
        let flow = Flow { source, destination, source_port, destination_port, protocol };
        of_key(FlowKey::ip4(flow, 0))
    };
    let six = |protocol, destination_port| {
        let (source, destination, source_port) = (1, 2, 0x1234);
        let flow = Flow { source, destination, source_port, destination_port, protocol };
        of_key(FlowKey::ip6(flow, 0))
    };
    let both = |flow: FlowRecord| [false, true].map(|is_reply| icmp(&flow, is_reply));
    assert_eq!(both(four(ICMP4, 8)), [8 << 8, 0]);
    assert_eq!(both(four(ICMP4, 13)), [13 << 8, 14 << 8]);
    assert_eq!(both(six(ICMP6, 128)), [128 << 8, 129 << 8]);
    assert_eq!(both(four(17, 53)), [0, 0]);
    assert_eq!([both(four(ICMP6, 0)), both(six(ICMP4, 0))], [[0, 0]; 2], "the other family's");
}
