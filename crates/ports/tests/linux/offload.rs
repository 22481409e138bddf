//! Offloads against the real kernel: super-frames and unfinished checksums received,
//! joined packets sent.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Instant;

use stoa_lab::Namespace;

use crate::af_packet::config;
use crate::peer::{Raw, checked, ip_at, sum};
use crate::side::{DEADLINE, Side, join, namespaces};

/// A TCP super-frame of IPv4 or IPv6 behind `tags`, and its offload header.
fn super_frame(tags: &[[u8; 4]], six: bool, payload: &[u8]) -> ([u8; 10], Vec<u8>) {
    let mut frame = vec![2, 0, 0, 0, 0, 0xfa, 2, 0, 0, 0, 0, 0xce];
    frame.extend(tags.iter().flatten());
    let transport = 20 + payload.len() as u16;
    let pseudo = if six {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(transport.to_be_bytes());
        frame.extend([6, 64]);
        frame.extend([[0x20; 16], [0x30; 16]].concat());
        [[0x20; 16], [0x30; 16]].concat()
    } else {
        let mut ip = vec![0x45, 0];
        ip.extend((20 + transport).to_be_bytes());
        ip.extend([0xff, 0xf0, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 2, 198, 18, 0, 1]);
        let checksum = !sum(&ip);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        frame.extend([0x08, 0x00]);
        frame.extend(&ip);
        ip[12..20].to_vec()
    };
    let l4 = frame.len() as u16;
    frame.extend([0x30, 0x39, 0x00, 0x09, 0xff, 0xff, 0xf0, 0x00, 0, 0, 0, 7, 0x50, 0x19, 1, 0]);
    let partial = sum(&[&pseudo[..], &[0, 6], &transport.to_be_bytes()].concat());
    frame.extend(partial.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    let mut header = [1, if six { 4 } else { 1 }, 0, 0, 0, 0, 0, 0, 16, 0];
    header[2..4].copy_from_slice(&(l4 + 20).to_ne_bytes());
    header[4..6].copy_from_slice(&1400u16.to_ne_bytes());
    header[6..8].copy_from_slice(&l4.to_ne_bytes());
    header[8..10].copy_from_slice(&16u16.to_ne_bytes());
    (header, frame)
}

#[test]
fn a_super_frame_becomes_packets() {
    let Some(spaces) = namespaces("a_super_frame_becomes_packets") else { return };
    join(&spaces);
    let near = Side::open(&config(&spaces[0], "near0"));
    super_frames_become_packets(near, &Raw::new(&spaces[1], "far0"));
}

/// Sends super-frames by `raw`, of which `near` makes packets.
pub fn super_frames_become_packets(mut near: Side, raw: &Raw) {
    let payload: Vec<u8> = (0..60_000u32).map(|at| ((at * 7) >> 3) as u8).collect();
    let tags: [&[[u8; 4]]; 3] =
        [&[], &[[0x81, 0, 0, 100]], &[[0x88, 0xa8, 0, 200], [0x81, 0, 0, 100]]];
    for (tags, six) in tags.into_iter().flat_map(|tags| [(tags, false), (tags, true)]) {
        // The shortest one goes through a slot of the ring, the others do not.
        for length in [1500, 4000, 60_000] {
            let (header, frame) = super_frame(tags, six, &payload[..length]);
            raw.send(header, &frame);
            let from_far = |frame: &[u8]| frame[..6] == [2, 0, 0, 0, 0, 0xfa];
            let packets = near.receive(length.div_ceil(1400), from_far);
            let (mut stream, count) = (Vec::<u8>::new(), packets.len());
            for (number, packet) in packets.iter().enumerate() {
                let l3 = ip_at(packet);
                assert_eq!(packet[..l3], frame[..l3], "tags");
                let tcp = checked(packet);
                let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
                assert_eq!(sequence, 0xffff_f000u32.wrapping_add(stream.len() as u32));
                assert_eq!(tcp[13], if number + 1 == count { 0x19 } else { 0x10 }, "flags");
                if !six {
                    let id = u16::from_be_bytes([packet[l3 + 4], packet[l3 + 5]]);
                    assert_eq!(id, 0xfff0u16.wrapping_add(number as u16));
                }
                assert!(tcp.len() <= 1420);
                stream.extend(&tcp[20..]);
            }
            assert_eq!(stream, payload[..length]);
        }
    }
    assert_eq!(near.port.missed(), 0);
}

/// Gives both ends addresses: the near kernel is 198.18.0.1, the far one 198.18.0.2.
fn address([near, far]: &[Namespace; 2]) {
    near.ip(&["addr", "add", "198.18.0.1/24", "dev", "near0"]).expect("an address");
    far.ip(&["addr", "add", "198.18.0.2/24", "dev", "far0"]).expect("an address");
}

#[test]
fn what_a_real_sender_sends_is_whole() {
    for mtu in ["1500", "9000"] {
        a_real_sender(mtu);
    }
}

fn a_real_sender(mtu: &str) {
    let Some(spaces) = namespaces("what_a_real_sender_sends_is_whole") else { return };
    join(&spaces);
    for (namespace, device) in [(&spaces[0], "near0"), (&spaces[1], "far0")] {
        namespace.ip(&["link", "set", device, "mtu", mtu]).expect("mtu");
    }
    address(&spaces);
    let mut near = Side::open(&config(&spaces[0], "near0"));
    // The near kernel answers; we listen in. UDP first: its checksum is left unfinished.
    spaces[1]
        .enter(|| {
            let socket = UdpSocket::bind("198.18.0.2:0").expect("a socket");
            socket.send_to(&[7; 777], "198.18.0.1:9").expect("sent");
        })
        .expect("inside");
    let is_udp = |frame: &[u8]| frame[12..14] == [8, 0] && frame[23] == 17;
    let got = near.receive(1, is_udp);
    assert_eq!(checked(&got[0])[8..], [7; 777]);
    let bytes: Vec<u8> = (0..3_000_000u32).map(|at| ((at * 11) >> 5) as u8).collect();
    let listener =
        spaces[0].enter(|| TcpListener::bind("198.18.0.1:0").expect("a listener")).expect("inside");
    let to = listener.local_addr().expect("an address");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut taken, mut sink) = (listener.accept().expect("a client").0, Vec::new());
            taken.read_to_end(&mut sink).expect("read");
        });
        scope.spawn(|| {
            let connect = || TcpStream::connect(to).expect("connected");
            let mut stream = spaces[1].enter(connect).expect("inside");
            stream.write_all(&bytes).expect("written");
        });
        let stream = reassemble(&mut near, bytes.len());
        assert!(stream == bytes, "the stream is whole");
    });
    assert_eq!(near.port.missed(), 0);
}

#[test]
fn a_train_of_datagrams_becomes_datagrams() {
    let Some(spaces) = namespaces("a_train_of_datagrams_becomes_datagrams") else { return };
    join(&spaces);
    address(&spaces);
    let mut near = Side::open(&config(&spaces[0], "near0"));
    let bytes: Vec<u8> = (0..10_500u32).map(|at| at as u8).collect();
    spaces[1]
        .enter(|| {
            let socket = UdpSocket::bind("198.18.0.2:0").expect("a socket");
            let size: libc::c_int = 1000;
            let value = (&raw const size).cast();
            // SAFETY: the value lives through the call and has the length given.
            let set = unsafe {
                let fd = socket.as_raw_fd();
                libc::setsockopt(fd, libc::SOL_UDP, libc::UDP_SEGMENT, value, 4)
            };
            assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
            socket.send_to(&bytes, "198.18.0.1:9").expect("sent");
        })
        .expect("inside");
    let is_udp = |frame: &[u8]| frame[12..14] == [8, 0] && frame[23] == 17;
    let got = near.receive(11, is_udp);
    for (got, sent) in got.iter().zip(bytes.chunks(1000)) {
        let udp = checked(got);
        assert_eq!(udp[4..6], (8 + sent.len() as u16).to_be_bytes());
        assert_eq!(&udp[8..], sent);
    }
    assert_eq!(near.port.missed(), 0);
}

/// The first `length` bytes that the far end's TCP sends.
fn reassemble(near: &mut Side, length: usize) -> Vec<u8> {
    let (mut stream, mut first) = (vec![0; length], None);
    let (mut seen, mut longest) = (0, 0);
    let end = Instant::now() + DEADLINE;
    while seen < length {
        assert!(Instant::now() < end, "{seen} bytes of {length}: {}", near.port.detail());
        for frame in near.receive_now() {
            if frame[12..14] != [8, 0] || frame[23] != 6 {
                continue;
            }
            longest = longest.max(frame.len());
            let tcp = checked(&frame);
            let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
            if tcp[13] & 2 != 0 {
                first = Some(sequence.wrapping_add(1));
            }
            let payload = &tcp[usize::from(tcp[12] >> 4) * 4..];
            let at = sequence.wrapping_sub(first.expect("SYN comes first")) as usize;
            if !payload.is_empty() {
                stream[at..at + payload.len()].copy_from_slice(payload);
                seen = seen.max(at + payload.len());
            }
        }
    }
    assert_eq!(longest, near.port.mtu() as usize + 14, "packets of the link's size");
    stream
}

#[test]
fn joined_packets_arrive_as_they_were() {
    let Some(spaces) = namespaces("joined_packets_arrive_as_they_were") else { return };
    join(&spaces);
    let near = Side::open(&config(&spaces[0], "near0"));
    let far = Side::open(&config(&spaces[1], "far0"));
    packets_come_back(near, far, &Raw::new(&spaces[1], "far0"));
    // 44 packets went as one frame, by the kernel's counter of the device.
    let shown = spaces[0].ip(&["-s", "-j", "link", "show", "near0"]).expect("shown");
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    let frames = shown[0]["stats64"]["tx"]["packets"].as_u64().expect("a number");
    assert!(frames < 100, "{frames} frames were sent for 264 packets");
}

/// Sends super-frames by `raw`, and sends the packets that `near` makes of them back to `far`.
pub fn packets_come_back(mut near: Side, mut far: Side, raw: &Raw) {
    let tags: [&[[u8; 4]]; 3] =
        [&[], &[[0x81, 0, 0, 100]], &[[0x88, 0xa8, 0, 200], [0x81, 0, 0, 100]]];
    for (tags, six) in tags.into_iter().flat_map(|tags| [(tags, false), (tags, true)]) {
        let (header, mut frame) = super_frame(tags, six, &[0x5a; 61_000]);
        // FIN would keep the last one out.
        let flags = ip_at(&frame) + if six { 40 } else { 20 } + 13;
        frame[flags] = 0x18;
        raw.send(header, &frame);
        let from_far = |frame: &[u8]| frame[..6] == [2, 0, 0, 0, 0, 0xfa];
        let packets = near.receive(44, from_far);
        assert_eq!(near.send(&packets), 44);
        let back = far.receive(44, from_far);
        assert_eq!(back, packets);
    }
}
