//! Files in and out, good and bad; the pcap-file crate is the independent witness.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
use pcap_file::pcapng::blocks::simple_packet::SimplePacketBlock;
use proptest::prelude::*;
use stoa_engine::pool::{FRAME_MAX, HugePages};
use stoa_engine::{Doze, Pool, PoolCache, Port, PortEvent, Vector};

use super::file::Capture;
use super::open;
use crate::config::PcapConfig;

fn pcap(frames: &[&[u8]], header: PcapHeader) -> Vec<u8> {
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for frame in frames {
        let packet = PcapPacket::new(Duration::from_nanos(1), frame.len() as u32, frame);
        writer.write_packet(&packet).unwrap();
    }
    writer.into_writer()
}

fn all(capture: &Capture) -> Vec<&[u8]> {
    (0..capture.len()).map(|number| capture.frame(number).unwrap()).collect()
}

#[test]
fn pcap_is_read_in_both_byte_orders() {
    let frames: [&[u8]; 3] = [&[1; 60], &[2; 1514], &[3; 14]];
    for endianness in [pcap_file::Endianness::Big, pcap_file::Endianness::Little] {
        for ts_resolution in
            [pcap_file::TsResolution::MicroSecond, pcap_file::TsResolution::NanoSecond]
        {
            let header = PcapHeader { endianness, ts_resolution, ..PcapHeader::default() };
            let capture = Capture::parse(pcap(&frames, header), FRAME_MAX).unwrap();
            assert_eq!(all(&capture), frames);
        }
    }
}

#[test]
fn frames_beyond_a_buffer_and_empty_ones_are_counted() {
    let long = vec![9; FRAME_MAX + 1];
    let frames: [&[u8]; 3] = [&[], &long, &[1; 60]];
    let capture = Capture::parse(pcap(&frames, PcapHeader::default()), FRAME_MAX).unwrap();
    assert_eq!((capture.len(), capture.left_out), (1, 2));
}

fn pcapng(datalink: DataLink) -> Vec<u8> {
    let mut writer = PcapNgWriter::new(Vec::new()).unwrap();
    writer.write_pcapng_block(InterfaceDescriptionBlock::new(datalink, 0)).unwrap();
    for length in [60, 61, 1514] {
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::ZERO,
            original_len: length,
            data: Cow::Owned(vec![length as u8; length as usize]),
            options: Vec::new(),
        };
        writer.write_pcapng_block(block).unwrap();
    }
    let simple = SimplePacketBlock { original_len: 64, data: Cow::Owned(vec![7; 64]) };
    writer.write_pcapng_block(simple).unwrap();
    writer.into_inner()
}

#[test]
fn pcapng_is_read() {
    let capture = Capture::parse(pcapng(DataLink::ETHERNET), FRAME_MAX).unwrap();
    let lengths: Vec<usize> = all(&capture).iter().map(|frame| frame.len()).collect();
    assert_eq!(lengths, [60, 61, 1514, 64]);
    assert_eq!(capture.frame(1).unwrap(), [61; 61]);
}

#[test]
fn bad_files_are_refused_with_the_reason() {
    let good = pcap(&[&[1; 60]], PcapHeader::default());
    let mut damaged = good.clone();
    damaged[24 + 8..24 + 12].copy_from_slice(&[0xff; 4]);
    let raw = PcapHeader { datalink: DataLink::RAW, ..PcapHeader::default() };
    let cases: [(Vec<u8>, &str); 8] = [
        (Vec::new(), "neither pcap nor pcapng"),
        (b"GIF89a.....".to_vec(), "neither pcap nor pcapng"),
        (vec![0x1f, 0x8b, 8, 0], "compressed"),
        (good[..good.len() - 1].to_vec(), "cut short"),
        (good[..30].to_vec(), "cut short"),
        (damaged, "byte 24 claims 4294967295 bytes"),
        (pcap(&[], raw), "link type 101"),
        (pcapng(DataLink::LINUX_SLL), "link type 113"),
    ];
    for (bytes, reason) in cases {
        let error = Capture::parse(bytes, FRAME_MAX).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
    let no_interface = {
        let mut writer = PcapNgWriter::new(Vec::new()).unwrap();
        let simple = SimplePacketBlock { original_len: 64, data: Cow::Owned(vec![7; 64]) };
        writer.write_pcapng_block(simple).unwrap();
        writer.into_inner()
    };
    assert!(Capture::parse(no_interface, FRAME_MAX).unwrap_err().contains("interface 0"));
}

proptest! {
    #[test]
    fn no_file_does_harm(base in 0..2_usize, changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..6), cut in any::<usize>()) {
        let mut bytes = if base == 0 {
            pcap(&[&[1; 60], &[2; 70]], PcapHeader::default())
        } else {
            pcapng(DataLink::ETHERNET)
        };
        for (at, value) in changes {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        bytes.truncate(cut % (bytes.len() + 1));
        if let Ok(capture) = Capture::parse(bytes, FRAME_MAX) {
            prop_assert!(all(&capture).iter().all(|frame| (1..=FRAME_MAX).contains(&frame.len())));
        }
    }
}

#[test]
fn what_comes_in_goes_out_again() {
    let folder = tempfile::tempdir().unwrap();
    let frames: Vec<Vec<u8>> = (0..1000_usize).map(|n| vec![n as u8; 60 + n]).collect();
    let slices: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    std::fs::write(&input, pcap(&slices, PcapHeader::default())).unwrap();
    let pool = Pool::leak(1024, HugePages::Never).unwrap();
    let config = PcapConfig {
        input: Some(input),
        output: Some(output.clone()),
        mtu: 0,
        ..PcapConfig::default()
    };
    let mut port = open(&config).unwrap();
    let Some(PortEvent::Up(mut queues)) = port.service().pop() else { panic!("not up") };
    assert!(port.needs_service(), "its file may fail");
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    let mut got = 0;
    assert_eq!(queues.rx[0].doze(), Doze::Awake);
    let deadline = Instant::now() + Duration::from_secs(60);
    while got < 1000 {
        // Nothing comes while the file of another test waits for its disk.
        let lanes = queues.rx[0].receive(&mut vector, &mut cache);
        assert!(Instant::now() < deadline, "{got} frames came");
        got += lanes;
        assert_eq!(queues.tx[0].transmit(&mut vector, &mut cache), lanes);
        cache.free_from(&mut vector, 0);
    }
    assert_eq!(queues.rx[0].receive(&mut vector, &mut cache), 0);
    assert_eq!(queues.rx[0].doze(), Doze::Never);
    assert!(port.service().is_empty());
    drop(port);
    let mut reader = PcapReader::new(std::fs::File::open(&output).unwrap()).unwrap();
    let mut last = Duration::ZERO;
    for frame in &frames {
        let packet = reader.next_packet().unwrap().unwrap();
        assert_eq!(packet.data[..], frame[..]);
        assert!(packet.timestamp >= last);
        last = packet.timestamp;
    }
    assert!(reader.next_packet().is_none());
    drop((vector, cache, queues));
    assert_eq!(pool.free(), 1024);
}

#[test]
fn a_full_disk_takes_the_port_down() {
    let full = PathBuf::from("/dev/full");
    let pool = Pool::leak(512, HugePages::Never).unwrap();
    // The file's own header already meets the full disk.
    let config = PcapConfig { output: Some(full), ..PcapConfig::default() };
    let error = open(&config).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("/dev/full"), "{error}");
    assert_eq!(pool.free(), 512);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcap");
    let missing = PcapConfig { input: Some(input.clone()), ..PcapConfig::default() };
    assert!(open(&missing).map(|_| ()).unwrap_err().to_string().contains("in.pcap"));
    std::fs::write(&input, pcap(&[], PcapHeader::default())).unwrap();
    let same = PcapConfig { output: Some(input.clone()), ..missing.clone() };
    assert!(open(&same).map(|_| ()).unwrap_err().to_string().contains("overwritten"));
    let folder_as_input = PcapConfig { input: Some(folder.path().into()), ..PcapConfig::default() };
    assert!(open(&folder_as_input).map(|_| ()).unwrap_err().to_string().contains("plain file"));
}

/// Both files as a router uses them, with a slow disk: 30,000 frames are 45 MB, and none is lost.
#[test]
fn a_file_that_is_read_waits_for_one_that_is_written() {
    use std::io::Read;
    const FRAMES: usize = 30_000;
    let folder = tempfile::tempdir().unwrap();
    let frame: Vec<u8> = (0..1_500_u32).map(|at| at as u8).collect();
    let input = folder.path().join("in.pcap");
    std::fs::write(&input, pcap(&vec![&frame[..]; FRAMES], PcapHeader::default())).unwrap();
    let mut port = open(&PcapConfig { input: Some(input), ..PcapConfig::default() }).unwrap();
    let Some(PortEvent::Up(mut queues)) = port.service().pop() else { panic!("not up") };
    // A disk that takes nothing until somebody reads the pipe.
    let (disk, file) = std::io::pipe().unwrap();
    let file = std::fs::File::from(std::os::fd::OwnedFd::from(file));
    let (writer, mut tx) = super::writer::Writer::start(file, "a pipe".into(), None).unwrap();
    let pool = Pool::leak(1024, HugePages::Never).unwrap();
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    let (mut passed, mut reader) = (0, None);
    let mut disk = Some(disk);
    let deadline = Instant::now() + Duration::from_secs(60);
    while passed < FRAMES {
        let lanes = queues.rx[0].receive(&mut vector, &mut cache);
        assert_eq!(stoa_engine::TxQueue::transmit(&mut tx, &mut vector, &mut cache), lanes);
        cache.free_from(&mut vector, 0);
        passed += lanes;
        if lanes == 0 {
            assert_eq!(queues.rx[0].doze(), Doze::Awake);
            if let Some(mut disk) = disk.take() {
                assert!(passed * frame.len() < super::writer::RING / 4, "it did not wait");
                reader = Some(std::thread::spawn(move || {
                    let mut bytes = Vec::new();
                    disk.read_to_end(&mut bytes).map(|_| bytes)
                }));
            }
            assert!(Instant::now() < deadline, "{passed} frames passed");
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    drop((writer, tx));
    let bytes = reader.expect("it waited").join().unwrap().unwrap();
    assert_eq!(bytes.len(), 24 + FRAMES * (16 + frame.len()));
    assert_eq!(bytes[bytes.len() - frame.len()..], frame[..]);
}

#[test]
fn a_file_ends_at_its_limit_with_a_whole_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcap");
    let file = std::fs::File::create(&path).unwrap();
    // Six records of 76 bytes, which come in vectors of four.
    let space = super::space::Space::new(6 * 76);
    let (writer, mut tx) = super::writer::Writer::new(file, &path, Some(space)).unwrap();
    let pool = Pool::leak(512, HugePages::Never).unwrap();
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    let mut send = || {
        let lanes = cache.fill(&mut vector, 4);
        vector.length[..lanes].fill(60);
        let taken = stoa_engine::TxQueue::transmit(&mut tx, &mut vector, &mut cache);
        cache.free_from(&mut vector, 0);
        taken
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    // Nothing is taken any more, so that what comes is counted as dropped.
    while send() > 0 {
        assert!(Instant::now() < deadline, "it still takes frames");
        std::thread::sleep(Duration::from_millis(1));
    }
    while writer.failed().is_none() {
        assert!(Instant::now() < deadline, "it says nothing");
        std::thread::yield_now();
    }
    let reason = writer.failed().unwrap();
    assert!(reason.contains("out.pcap") && reason.contains("limit of 456 bytes"), "{reason}");
    drop((writer, tx));
    let capture = Capture::parse(std::fs::read(&path).unwrap(), FRAME_MAX).unwrap();
    assert!(capture.len() <= 6 && capture.len().is_multiple_of(4), "{}", capture.len());
}
