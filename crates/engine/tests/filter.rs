//! Filters against libpcap's own interpreter: the same programs, the same frames, the
//! same results.

#![cfg(not(loom))]

use pcap::{BpfProgram, Capture, Linktype};
use proptest::prelude::*;
use stoa_engine::trace_capture::filter::{Filter, Instruction};

/// Expressions that use each kind of instruction.
const EXPRESSIONS: [&str; 16] = [
    "ip",
    "arp or icmp6",
    "tcp port 80",
    "udp portrange 1000-2000",
    "host 10.0.0.1 and not icmp",
    "net 10.0.0.0/8",
    "ip6 host 2001:db8::1",
    "vlan 7 and vlan 8 and udp",
    "ether broadcast or ether multicast",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
    "ip[0] & 0xf > 5",
    "len > 100 and less 200",
    "ip[2:2] - ((ip[0] & 0xf) << 2) != 0",
    "ip[8] * 3 / 2 >= 64 or ip[9] | 1 = 17",
    "icmp[icmptype] = icmp-echo",
    "ip proto 47 and ip[6:2] & 0x1fff = 0",
];

fn compile(expression: &str) -> (BpfProgram, Filter) {
    let device = Capture::dead(Linktype::ETHERNET).expect("a device that is none");
    let program = device.compile(expression, true).expect(expression);
    let instructions = program.get_instructions().iter().map(|one| {
        let text = one.to_string();
        let numbers: Vec<u32> =
            text.split(' ').map(|word| word.parse().expect("a number")).collect();
        let [code, jump_true, jump_false, k] = numbers[..] else { panic!("{text}") };
        let (jump_true, jump_false) = (jump_true as u8, jump_false as u8);
        Instruction { code: code as u16, jump_true, jump_false, k }
    });
    let filter = Filter::check(instructions.collect()).expect(expression);
    (program, filter)
}

/// Frames that come far in such programs: types, versions and protocols that exist.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let types = prop::sample::select(vec![
        &[8, 0][..],
        &[0x86, 0xdd],
        &[8, 6],
        &[0x81, 0, 0, 7, 8, 0],
        &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 8, 0],
    ]);
    let protocol = prop::sample::select(vec![1u8, 6, 17, 47, 58]);
    let body = prop::collection::vec(any::<u8>(), 0..120);
    (any::<[u8; 12]>(), types, protocol, 4u8..8, body).prop_map(
        |(macs, types, protocol, words, mut body)| {
            let is_ip6 = types == [0x86, 0xdd];
            if let Some(first) = body.first_mut() {
                *first = if is_ip6 { 0x60 } else { 0x40 | words };
            }
            if let Some(byte) = body.get_mut(if is_ip6 { 6 } else { 9 }) {
                *byte = protocol;
            }
            if let Some(net) = body.get_mut(12) {
                *net = 10;
            }
            [&macs[..], types, &body].concat()
        },
    )
}

proptest! {
    #[test]
    fn results_are_those_of_libpcap(frames in prop::collection::vec(frame(), 1..40)) {
        for expression in EXPRESSIONS {
            let (program, filter) = compile(expression);
            for frame in &frames {
                let expected = program.filter(frame);
                prop_assert_eq!(filter.takes(frame, frame.len()), expected, "{} of {:02x?}", expression, frame);
            }
        }
    }
}
