//! Malformed frames: truncated at every byte, changed at random. Each dropped frame has exactly one
//! drop reason, and all SIMD kernels agree.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use stoa_forwarder::kernel::Kernel;
use stoa_wire::{ipv6, protocol};

use crate::harness::*;

fn setup() -> Setup {
    Setup::three_ports()
        .sub("west.100", 10, "west", &[(0x8100, 100)])
        .sub("west.7.8", 11, "west", &[(0x88a8, 7), (0x8100, 8)])
        .host("west.100", 10)
        .host("west.7.8", 11)
}

/// Valid frames of all kinds.
fn good() -> Vec<Vec<u8>> {
    let group = ipv6::solicited_node(our6(1));
    let multicast = stoa_wire::ethernet::Mac::of_ip6_group(group).0;
    let tagged = |tags: &[(u16, u16)], packet: &[u8]| {
        frame(our_mac(1), host_mac(1), tags, ethertype_of(packet), packet)
    };
    let options = ipv6::Builder::new(host6(1), host6(2), protocol::HOP_BY_HOP);
    let extension = [&[protocol::UDP, 0, 1, 4, 0, 0, 0, 0][..], &[0; 8]].concat();
    vec![
        packet_from(1, &udp(host4(1), host4(2), b"data")),
        packet_from(1, &udp(host6(1), host6(2), b"data")),
        packet_from(1, &ping4(host4(1), our4(1), b"data")),
        packet_from(1, &ping6(host6(1), our6(1), b"data")),
        packet_from(1, &ip6(&options, &extension)),
        packet_from(1, &udp(host4(1), our4(1), b"closed")),
        packet_from(1, &udp(host6(1), our6(1), b"closed")),
        arp_request(host_mac(1), host4(1), our4(1)),
        solicitation((host_mac(1), multicast), (host6(1), group), our6(1), Some(host_mac(1))),
        tagged(&[(0x8100, 100)], &udp(host4(10), host4(2), b"data")),
        tagged(&[(0x88a8, 7), (0x8100, 8)], &udp(host6(11), host6(2), b"data")),
    ]
}

#[test]
fn a_truncated_frame_has_one_drop_reason() {
    for kernel in Kernel::available() {
        let mut setup = setup();
        setup.0.workers.kernel = kernel;
        let mut lab = Lab::new(&setup);
        for frame in good() {
            // A full step of a kernel, and a single frame.
            for (length, copies) in (0..frame.len()).flat_map(|length| [(length, 1), (length, 16)])
            {
                lab.send("west", vec![frame[..length].to_vec(); copies as usize]);
                let dropped = lab.dropped();
                let counts: Vec<u64> = dropped.iter().map(|(_, n)| *n).collect();
                assert_eq!(
                    counts,
                    [copies],
                    "{kernel:?}, {length} bytes of {frame:02x?}: {dropped:?}"
                );
                lab.assert_silent();
            }
            lab.send("west", [frame]);
            lab.take("west");
            lab.take("east");
            lab.dropped();
        }
    }
}

/// Mutants of good frames, and noise.
fn mutants() -> impl Strategy<Value = Vec<u8>> {
    mutants_of(good())
}

/// Mutants of these frames, and noise.
pub fn mutants_of(good: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let at = any::<proptest::sample::Index>();
    let change = (at, any::<u8>());
    let changes = proptest::collection::vec(change, 0..4);
    let frame = proptest::sample::select(good);
    let mutant = (frame, changes, 0..8u8, any::<proptest::sample::Index>());
    let mutant = mutant.prop_map(|(mut frame, changes, how, cut)| {
        for (at, by) in changes {
            let at = at.index(frame.len());
            frame[at] = by;
        }
        match how {
            0 => frame.truncate(cut.index(frame.len() + 1)),
            1 => frame.extend(vec![0x5a; cut.index(80)]),
            2 => fix_checksum(&mut frame),
            _ => {}
        }
        frame
    });
    prop_oneof![9 => mutant, 1 => proptest::collection::vec(any::<u8>(), 0..200)]
}

/// Corrects the checksum of a changed IPv4 header, so that the change passes the first checks.
fn fix_checksum(frame: &mut [u8]) {
    if let Some(header) = frame.get_mut(14..34).filter(|header| header[0] == 0x45) {
        header[10..12].fill(0);
        let sum = stoa_wire::checksum::ones_complement(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The sorted frames of each port, and the counters of drops, nodes and interfaces.
type Outcome = (Vec<Vec<Vec<u8>>>, Vec<(String, u64)>, Vec<(String, u64)>, Vec<(String, [u64; 6])>);

fn outcome(kernel: Kernel, frames: &[Vec<u8>]) -> Outcome {
    let mut setup = setup();
    setup.0.workers.kernel = kernel;
    let mut lab = Lab::new(&setup);
    lab.send("west", frames.iter().cloned());
    let mut left = Vec::new();
    for port in ["west", "east", "north"] {
        let mut frames = lab.take(port);
        frames.sort();
        left.push(frames);
    }
    let (dropped, node_counts) = (lab.dropped(), lab.node_counts());
    let counted = lab.state().list_interfaces().into_iter().map(|it| {
        let received = [it.rx_packets, it.rx_bytes, it.rx_drops];
        let [a, b, c] = [it.tx_packets, it.tx_bytes, it.tx_drops];
        (it.name, [received[0], received[1], received[2], a, b, c])
    });
    let counted = counted.collect();
    lab.apply(&Setup::new_with(kernel)).unwrap();
    let accounting = lab.state().conservation();
    assert_eq!(accounting.buffers_free, accounting.buffers, "all buffers are free");
    (left, dropped, node_counts, counted)
}

/// Compares all kernels that this processor supports with the scalar code.
fn kernels_agree(frames: &[Vec<u8>]) -> Result<(), TestCaseError> {
    let reference = outcome(Kernel::Scalar, frames);
    for kernel in Kernel::available().skip(1) {
        prop_assert_eq!(&reference, &outcome(kernel, frames), "{:?}", kernel);
    }
    Ok(())
}

proptest! {
    // Fewer frames than the burst of the ICMP rate limit, so that time does not matter.
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn kernels_agree_on_mutants(frames in proptest::collection::vec(mutants(), 1..90)) {
        kernels_agree(&frames)?;
    }

    #[test]
    fn kernels_agree_on_vectors_with_few_exceptions(frames in few_exceptions()) {
        kernels_agree(&frames)?;
    }
}

/// Many valid frames of one or two kinds, with a few others among them.
fn few_exceptions() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let udp4 = udp(host4(1), host4(2), b"data");
    let udp6 = udp(host6(1), host6(2), b"data");
    let tagged = |tci: u16, packet: &[u8]| {
        frame(our_mac(1), host_mac(1), &[(0x8100, tci)], ethertype_of(packet), packet)
    };
    let mut kinds = vec![packet_from(1, &udp4), packet_from(1, &udp6)];
    // VLAN 100 with all priorities, VLAN 0 (priority tag), and an unknown VLAN.
    kinds.extend([100, 0x6064, 0xf064, 0x6000, 101].map(|tci| tagged(tci, &udp4)));
    kinds.push(tagged(0x2064, &udp6));
    let two = proptest::sample::subsequence(kinds, 1..3);
    two.prop_flat_map(|kinds| {
        let row = prop_oneof![60 => proptest::sample::select(kinds), 1 => mutants()];
        proptest::collection::vec(row, 1..500)
    })
}

#[test]
fn a_flood_of_mutants_is_accounted_for() {
    let mut lab = Lab::new(&setup());
    let mut runner = TestRunner::deterministic();
    let batch = proptest::collection::vec(mutants(), 400);
    let end = Instant::now() + Duration::from_secs(4);
    let mut rounds = 0;
    while rounds < 10 || Instant::now() < end && rounds < 200 {
        let frames = batch.new_tree(&mut runner).unwrap().current();
        // `send` returns only when the packet accounting balances and all buffers are free.
        lab.send("west", frames.iter().cloned());
        lab.send("east", frames);
        lab.forget();
        rounds += 1;
    }
    lab.apply(&Setup::new()).unwrap();
    let accounting = lab.state().conservation();
    assert_eq!(accounting.buffers_free, accounting.buffers);
    assert!(accounting.balanced);
}
