//! The cost per prefix from the bytes of UPDATE messages to runs of prefixes, compared with the codec crate's reader:
//! `cargo run --release -p stoa-bgp --example decode`.

use std::collections::HashMap;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use netgauze_bgp_pkt::BgpMessage;
use netgauze_bgp_pkt::capabilities::{
    AddPathAddressFamily, AddPathCapability, BgpCapability, FourOctetAsCapability,
    MultiProtocolExtensionsCapability,
};
use netgauze_bgp_pkt::open::{BgpOpenMessage, BgpOpenMessageParameter};
use netgauze_bgp_pkt::wire::deserializer::BgpParsingContext;
use netgauze_iana::address_family::AddressType;
use netgauze_parse_utils::WritablePdu as _;
use netgauze_parse_utils::reader::SliceReader;
use netgauze_parse_utils::traits::ParseFromWithOneInput as _;
use stoa_bgp::{LocalConfig, Rib, Session};

const PREFIXES: u32 = 1_000_000;
const ROUNDS: usize = 5;

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xff; 16];
    bytes.extend(u16::try_from(19 + body.len()).expect("it fits").to_be_bytes());
    bytes.push(kind);
    bytes.extend(body);
    bytes
}

/// UPDATE messages with `per_set` prefixes each; path `id` has the next hop 10.0.0.`id`.
fn updates(per_set: u32, id: Option<u8>) -> Vec<u8> {
    let mut all = Vec::new();
    for first in (0..PREFIXES).step_by(per_set as usize) {
        let set = first / per_set;
        let mut attributes = vec![0x40, 1, 1, 0, 0x40, 2, 18, 2, 4];
        for number in [65_001, 70_000 + set % 997, 100_000 + set % 7_919, 200_000 + set % 60_013] {
            attributes.extend(number.to_be_bytes());
        }
        attributes.extend([0x40, 3, 4, 10, 0, 0, id.unwrap_or(1), 0x80, 4, 4]);
        attributes.extend((set % 101).to_be_bytes());
        attributes.extend([0x40, 5, 4, 0, 0, 0, 100, 0xc0, 8, 4, 0xfd, 0xe9, 0, set as u8]);
        let mut body = vec![0, 0];
        body.extend(u16::try_from(attributes.len()).expect("short").to_be_bytes());
        body.extend(attributes);
        for prefix in first..(first + per_set).min(PREFIXES) {
            body.extend(id.map(|id| u32::from(id).to_be_bytes()).into_iter().flatten());
            body.push(24);
            body.extend(&(0x1400_0000 + (prefix << 8)).to_be_bytes()[..3]);
        }
        all.extend(message(2, &body));
    }
    all
}

fn open(add_paths: bool) -> Vec<u8> {
    let family = AddressType::Ipv4Unicast;
    let mut all = vec![
        BgpCapability::MultiProtocolExtensions(MultiProtocolExtensionsCapability::new(family)),
        BgpCapability::FourOctetAs(FourOctetAsCapability::new(65_000)),
    ];
    if add_paths {
        let sends = [AddPathAddressFamily::new(family, true, false)];
        all.push(BgpCapability::AddPath(AddPathCapability::new(sends)));
    }
    let parameters = [BgpOpenMessageParameter::new_capabilities(all)];
    let open = BgpOpenMessage::new(65_000, 90, Ipv4Addr::new(1, 1, 1, 1), parameters);
    let mut bytes = Vec::new();
    BgpMessage::Open(open).write(&mut bytes).expect("a vector takes it");
    bytes.extend(message(4, &[]));
    bytes
}

/// Returns nanoseconds per prefix, the RIB afterwards, and the number of prefixes it emitted.
fn ours(messages: &[Vec<u8>], add_paths: bool) -> (f64, Rib, usize) {
    let now = Instant::now();
    let local = LocalConfig {
        as_number: 65_000,
        router_id: Ipv4Addr::LOCALHOST,
        hold_time_s: 90,
        restart_time_s: 120,
        add_paths,
    };
    let (mut session, mut rib, mut advertised) = (Session::new(local, now), Rib::new(1, None), 0);
    session.receive(&open(add_paths), now, &mut rib).expect("established");
    let start = Instant::now();
    for bytes in messages {
        // Pieces of the size that a socket returns.
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let piece = &rest[..rest.len().min(64 * 1024)];
            let read = session.receive(piece, now, &mut rib).expect("read");
            rest = &rest[read..];
            if rib.pending() >= 4_096 || rest.is_empty() {
                advertised += rib.drain().iter().map(|run| run.ip4.len()).sum::<usize>();
            }
        }
    }
    (start.elapsed().as_nanos() as f64 / f64::from(PREFIXES), rib, advertised)
}

fn codec(bytes: &[u8]) -> f64 {
    let mut context =
        BgpParsingContext::new(true, HashMap::new(), HashMap::new(), false, false, false, false);
    let (start, mut rest, mut read) = (Instant::now(), bytes, 0);
    while !rest.is_empty() {
        let length = usize::from(u16::from_be_bytes([rest[16], rest[17]]));
        let (one, behind) = rest.split_at(length);
        rest = behind;
        if let BgpMessage::Update(update) =
            BgpMessage::parse(&mut SliceReader::new(one), &mut context).expect("read")
        {
            read += black_box(&update).nlri().len();
        }
    }
    assert_eq!(read, PREFIXES as usize);
    start.elapsed().as_nanos() as f64 / f64::from(PREFIXES)
}

fn main() {
    for per_set in [10, 400] {
        let plain = updates(per_set, None);
        let rounds = || 0..ROUNDS;
        let theirs = rounds().map(|_| codec(&plain)).fold(f64::MAX, f64::min);
        let plain = [plain];
        let passed = rounds().map(|_| ours(&plain, false).0).fold(f64::MAX, f64::min);
        println!(
            "{per_set} prefixes per set: codec crate {theirs:.1} ns per prefix; stoa-bgp {passed:.1} ns"
        );
        for paths in 1..=2 {
            let messages: Vec<_> = (1..=paths).map(|id| updates(per_set, Some(id))).collect();
            let all: Vec<_> = rounds().map(|_| ours(&messages, true)).collect();
            let least = all.iter().map(|(cost, ..)| *cost).fold(f64::MAX, f64::min);
            let (counts, advertised) = (all[0].1.counts(), all[0].2);
            let each = counts.bytes as f64 / counts.prefixes as f64;
            println!(
                "  {paths} paths stored: {least:.1} ns and {each:.1} bytes per prefix; {advertised} emitted"
            );
        }
    }
}
