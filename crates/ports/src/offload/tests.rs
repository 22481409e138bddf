//! The offloads against naive models: what comes out must be what a plain sender would send.

use stoa_engine::pool::HugePages;
use stoa_engine::{Pool, PoolCache, Vector};

use super::*;

const ACK: u8 = 0x10;
const PSH_ACK: u8 = 0x18;
const CWR_FIN_PSH_ACK: u8 = 0x99;

/// The layout of a test's frames.
#[derive(Clone, Copy, Debug)]
struct Shape {
    tags: usize,
    six: bool,
    /// Bytes of TCP options; `None`: UDP.
    tcp: Option<usize>,
    flags: u8,
}

fn shapes() -> Vec<Shape> {
    let mut all = Vec::new();
    for tags in 0..3 {
        for six in [false, true] {
            for tcp in [None, Some(0), Some(12)] {
                all.push(Shape { tags, six, tcp, flags: CWR_FIN_PSH_ACK });
            }
        }
    }
    all
}

/// A sum as in RFC 1071, word by word.
fn naive_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A whole packet with number `number` and `written` payload bytes before it, all checksums
/// right.
fn packet(shape: Shape, number: u16, written: u32, payload: &[u8], flags: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for tag in 0..shape.tags {
        frame.extend([if tag + 1 < shape.tags { 0x88 } else { 0x81 }, 0, 0, 100 + tag as u8]);
        let at = frame.len() - 3;
        frame[at] = if tag + 1 < shape.tags { 0xa8 } else { 0 };
    }
    let options = shape.tcp.map_or(8, |options| 20 + options);
    let transport = options + payload.len();
    let protocol = if shape.tcp.is_some() { 6 } else { 17 };
    let mut pseudo = Vec::new();
    if shape.six {
        frame.extend([0x86, 0xdd, 0x60, 1, 2, 3]);
        frame.extend((transport as u16).to_be_bytes());
        frame.extend([protocol, 64]);
        frame.extend([0x20; 16]);
        frame.extend([0x30; 16]);
        pseudo.extend([[0x20; 16], [0x30; 16]].concat());
    } else {
        let mut ip = vec![0x45, 0x10];
        ip.extend((20 + transport as u16).to_be_bytes());
        ip.extend(0xfffeu16.wrapping_add(number).to_be_bytes());
        ip.extend([0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let checksum = !naive_sum(&ip);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        pseudo.extend(&ip[12..20]);
        frame.extend([0x08, 0x00]);
        frame.extend(ip);
    }
    pseudo.extend([0, protocol]);
    pseudo.extend((transport as u16).to_be_bytes());
    let l4 = frame.len();
    frame.extend([0x12, 0x34, 0x56, 0x78]);
    match shape.tcp {
        Some(options) => {
            frame.extend(0xffff_ff00u32.wrapping_add(written).to_be_bytes());
            frame.extend([1, 2, 3, 4, ((20 + options) / 4 * 16) as u8, flags, 9, 9, 0, 0, 0, 0]);
            frame.extend(vec![1; options]);
        }
        None => {
            frame.extend((transport as u16).to_be_bytes());
            frame.extend([0, 0]);
        }
    }
    frame.extend(payload);
    let at = l4 + if shape.tcp.is_some() { 16 } else { 6 };
    pseudo.extend(&frame[l4..]);
    let checksum = match !naive_sum(&pseudo) {
        0 => 0xffff,
        checksum => checksum,
    };
    frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// What a plain sender would send for `payload`.
fn packets(shape: Shape, payload: &[u8], segment: usize) -> Vec<Vec<u8>> {
    let count = payload.len().div_ceil(segment);
    let one = |(number, part): (usize, &[u8])| {
        let mut flags = shape.flags;
        if number + 1 < count {
            flags &= !0x09;
        }
        if number > 0 {
            flags &= !0x80;
        }
        packet(shape, number as u16, (number * segment) as u32, part, flags)
    };
    payload.chunks(segment).enumerate().map(one).collect()
}

/// The super-frame as the kernel hands it over: the checksum is the pseudo header's sum.
fn super_frame(shape: Shape, payload: &[u8], segment: usize) -> (Vec<u8>, VnetHeader) {
    let mut frame = packet(shape, 0, 0, payload, shape.flags);
    let at = Headers::find(&frame).expect("headers");
    let pseudo = fold(at.pseudo(&frame) + word((frame.len() - at.l4) as u16));
    let field = at.l4 + at.checksum_offset();
    frame[field..field + 2].copy_from_slice(&pseudo.to_ne_bytes());
    let header = VnetHeader {
        flags: NEEDS_CHECKSUM,
        gso_type: match (shape.tcp, shape.six) {
            (None, _) => GSO_UDP,
            (_, false) => GSO_TCP4 | GSO_ECN,
            (_, true) => GSO_TCP6,
        },
        header_length: at.payload as u16,
        segment: segment as u16,
        checksum_start: at.l4 as u16,
        checksum_offset: at.checksum_offset() as u16,
    };
    (frame, header)
}

fn noise(length: usize) -> Vec<u8> {
    let mut state = length as u32 | 1;
    let step = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(step).collect()
}

fn cut(frame: &[u8], header: &VnetHeader) -> Vec<Vec<u8>> {
    let mut segments = Segments::plan(frame, header, 2000).expect("a plan");
    let mut all = Vec::new();
    while segments.left() > 0 {
        let mut into = [0; 2000];
        let length = segments.write(frame, &mut into).expect("a packet");
        all.push(into[..length].to_vec());
    }
    assert_eq!(segments.write(frame, &mut [0; 2000]), None);
    all
}

#[test]
fn sums_are_those_of_the_standard() {
    for length in 0..200 {
        let bytes = noise(length);
        assert_eq!(fold(sum(&bytes)).to_ne_bytes(), naive_sum(&bytes).to_be_bytes(), "{length}");
    }
    let ones = vec![0xff; 70_000];
    assert_eq!(fold(sum(&ones)), 0xffff);
}

#[test]
fn a_super_frame_becomes_what_a_plain_sender_sends() {
    for shape in shapes() {
        for length in [1, 700, 1400, 1401, 2800, 9001, 63_000] {
            let payload = noise(length);
            for segment in [1400, 536] {
                let (frame, header) = super_frame(shape, &payload, segment);
                let expected = packets(shape, &payload, segment);
                assert_eq!(cut(&frame, &header), expected, "{shape:?} {length} {segment}");
                // As a network card's driver hands it over: the checksum is known good.
                let header = VnetHeader { flags: 0, ..header };
                assert_eq!(cut(&frame, &header), expected, "{shape:?} {length} {segment}");
            }
        }
    }
}

#[test]
fn a_partial_checksum_is_completed() {
    for shape in shapes() {
        let payload = noise(333);
        let (mut frame, header) = super_frame(shape, &payload, 1400);
        assert!(complete(&mut frame, &header));
        assert_eq!(frame, packet(shape, 0, 0, &payload, shape.flags));
    }
    assert!(!complete_checksum(&mut [0; 20], 10, 9));
    assert!(!complete_checksum(&mut [0; 20], 65_535, 65_535));
}

#[test]
fn segments_too_long_for_a_buffer_are_cut_smaller() {
    let shape = Shape { tags: 1, six: false, tcp: Some(12), flags: ACK };
    let payload = noise(20_000);
    let (frame, header) = super_frame(shape, &payload, 8948);
    let room = 2000 - (18 + 20 + 32);
    assert_eq!(cut(&frame, &header), packets(shape, &payload, room));
    let shape = Shape { tcp: None, ..shape };
    let (frame, header) = super_frame(shape, &payload, 8948);
    assert!(Segments::plan(&frame, &header, 2000).is_none(), "a datagram cannot be cut");
}

#[test]
fn wrong_headers_are_refused() {
    let shape = Shape { tags: 1, six: true, tcp: Some(0), flags: ACK };
    let (frame, header) = super_frame(shape, &noise(5000), 1400);
    let refused = |frame: &[u8], header: VnetHeader| {
        assert!(Segments::plan(frame, &header, 2000).is_none(), "{header:?}");
    };
    refused(&frame, VnetHeader { segment: 0, ..header });
    refused(&frame, VnetHeader { segment: 1, ..header });
    refused(&frame, VnetHeader { gso_type: GSO_TCP4, ..header });
    refused(&frame, VnetHeader { gso_type: 3, ..header });
    refused(&frame, VnetHeader { checksum_start: 0xffff, ..header });
    for length in 0..78 {
        refused(&frame[..length], header);
    }
    // Whatever the bytes and the header are: no panic, and packets never grow.
    for seed in 0..20_000 {
        let bytes = noise(seed % 300 + 20);
        let mut frame = frame[..(seed * 7) % frame.len()].to_vec();
        for change in bytes.chunks_exact(5).take(3) {
            let at = usize::from(u16::from_be_bytes([change[0], change[1]]));
            if let Some(byte) = frame.get_mut(at % 90) {
                *byte = change[2];
            }
        }
        let mut raw = header.bytes();
        raw[usize::from(bytes[3]) % VNET_HEADER] = bytes[4];
        let header = VnetHeader::parse(&raw);
        let mut into = [0; 2000];
        if let Some(mut segments) = Segments::plan(&frame, &header, 2000) {
            while segments.left() > 0 {
                assert!(segments.write(&frame, &mut into).is_some());
            }
        }
        let _ = complete(&mut frame, &header);
    }
}

fn lanes(packets: &[Vec<u8>]) -> (Box<Vector>, PoolCache) {
    let pool = Pool::leak(1024, HugePages::Never).expect("memory");
    let (mut vector, cache) = (Vector::new(pool), PoolCache::new(pool));
    for bytes in packets {
        let mut packet = pool.packet().expect("a buffer");
        assert!(packet.set_bytes(bytes));
        vector.push(packet).expect("a free lane");
    }
    (vector, cache)
}

/// Joins the first packets and gives the super-frame.
fn join(vector: &mut Vector) -> (coalesce::Group, Vec<u8>) {
    let group = coalesce::group(vector, 0);
    let mut frame = vector.bytes(0).to_vec();
    for lane in 1..group.lanes {
        frame.extend(&vector.bytes(lane)[group.payload..]);
    }
    (group, frame)
}

#[test]
fn joined_packets_are_cut_into_the_same_again() {
    for shape in shapes().into_iter().filter(|shape| shape.tcp.is_some()) {
        for flags in [ACK, PSH_ACK] {
            let shape = Shape { flags, ..shape };
            let sent = packets(shape, &noise(14_500), 1400);
            let (mut vector, mut pool) = lanes(&sent);
            let (group, frame) = join(&mut vector);
            assert_eq!(group.lanes, sent.len(), "{shape:?}");
            assert_eq!(cut(&frame, &group.header), sent);
            pool.free_from(&mut vector, 0);
        }
    }
}

#[test]
fn a_super_frame_has_a_maximum_length() {
    let shape = Shape { tags: 0, six: false, tcp: Some(0), flags: ACK };
    let sent = packets(shape, &noise(62_000), 1400);
    let more: Vec<_> = sent.iter().chain(&sent[..4]).cloned().collect();
    let (mut vector, mut pool) = lanes(&more);
    assert_eq!(join(&mut vector).0.lanes, sent.len());
    pool.free_from(&mut vector, 0);
}

#[test]
fn what_would_differ_is_not_joined() {
    let shape = Shape { tags: 0, six: false, tcp: Some(12), flags: ACK };
    let sent = packets(shape, &noise(4200), 1400);
    // Any byte of the second packet's headers or payload; 14 is where IP begins.
    for at in 0..sent[1].len().min(200) {
        let mut sent = sent.clone();
        sent[1][at] ^= 0x40;
        let (mut vector, mut pool) = lanes(&sent);
        let (group, frame) = join(&mut vector);
        assert_eq!((group.lanes, &frame), (1, &sent[0]), "byte {at}");
        pool.free_from(&mut vector, 0);
    }
    // A first packet with a wrong checksum stays as it is.
    let mut sent = sent;
    sent[0][100] ^= 1;
    let (mut vector, mut pool) = lanes(&sent);
    let (group, frame) = join(&mut vector);
    assert_eq!((group.lanes, &frame), (1, &sent[0]));
    pool.free_from(&mut vector, 0);
}
