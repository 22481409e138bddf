//! What a collector learns of what it has got.

use super::*;

/// IANA, exportedFlowRecordTotalCount: sessions, events and statistics are no records of flows.
#[test]
fn statistics_count_records_of_flows_alone() {
    let (mut lab, mut collector) = begin(masquerade(), |it| it.template_s = 1);
    for port in [5_000, 5_001, 5_002] {
        passed(&mut lab, 1, &udp_ports(host4(1), host4(2), (port, 53), b"ask"), "east");
    }
    assert!(lab.state().clear_flows(&Selection::default()));
    let deadline = Instant::now() + LONG;
    let mut flows = 0;
    while flows < 3 {
        assert!(Instant::now() < deadline);
        flows = collector.records(NOT_SENT, 1).iter().map(|it| it[&(0, 42)]).max().unwrap();
    }
    assert_eq!(flows, 3, "three flows, six sessions, and statistics");
    let all = lab.state().ipfix().collectors.remove(0);
    assert!(all.records >= 10, "{all:?}");
}
