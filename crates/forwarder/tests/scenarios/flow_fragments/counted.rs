//! Many fragments of one flow, and its counters.

use super::*;
use crate::acl_stateful::flows;

/// Of rules and of translations: records of IPFIX have the bytes of all fragments.
#[test]
fn flows_count_all_fragments() {
    for setup in [open_gate(), masquerade()] {
        let mut lab = lab(setup);
        let packet = udp_ports(host4(1), host4(2), (5000, 53), &DATA);
        let [one, other] = [1, 2].map(|id| fragments4(&packet, SIZE, id));
        pass(&mut lab, (1, "east"), &one, [(0, 0), (1, 1), (2, 0)]);
        pass(&mut lab, (1, "east"), &other, [(2, 1), (0, 0), (1, 1)]);
        let bytes: usize = one.iter().map(Vec::len).sum();
        let flows = flows(&mut lab).into_iter();
        let counted: Vec<_> = flows.map(|it| (it.packets, it.bytes)).collect();
        assert_eq!(counted, [(6, 2 * bytes as u64)]);
    }
}

/// Their homes are at both workers, of which one has the flow.
#[test]
fn a_source_may_send_many_packets_in_fragments() {
    const TOGETHER: u16 = 20;
    let mut lab = lab(masquerade());
    lab.send("west", [packet_from(1, &udp_ports(host4(1), host4(2), (5000, 53), b"first"))]);
    lab.forget();
    for first in (0..400).step_by(TOGETHER.into()) {
        let of = |id| fragments4(&udp_ports(host4(1), host4(2), (5000, 53), &DATA), SIZE, id);
        let parts: Vec<_> = (first..first + TOGETHER).flat_map(of).collect();
        let queue = usize::from(first / TOGETHER % 2);
        lab.put("west", queue, parts.iter().map(|part| packet_from(1, part)));
        lab.settle();
        lab.assert_dropped(&[]);
        assert_eq!(lab.take("east").len(), parts.len());
    }
}
