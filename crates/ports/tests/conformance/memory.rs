//! The drivers with one end only: files, and packets in memory.

use stoa_engine::pool::HugePages;
use stoa_engine::{Doze, Pool};
use stoa_ports::{GeneratorConfig, NullConfig, PcapConfig, PortConfig};

use crate::frame;
use crate::harness::End;

#[test]
fn pcap_carries_frames_from_file_to_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| Some(folder.path().join(name));
    let lengths = (60..=1514).chain([2113, 5000, 9014]);
    let frames: Vec<Vec<u8>> = lengths.map(|length| frame(length, length)).collect();
    let pool = Pool::leak(1024, HugePages::Never).unwrap();
    let open = |input, output| {
        let config = PcapConfig { input, output, mtu: 9000, ..PcapConfig::default() };
        let mut end = End::open(&PortConfig::Pcap(config), pool);
        assert_eq!(end.service(), Some(true));
        end
    };
    let mut writer = open(None, path("one.pcap"));
    let mut sent = 0;
    while sent < frames.len() {
        sent += writer.send(&frames[sent..]);
    }
    assert!(writer.receive().is_empty());
    drop(writer);
    let mut reader = open(path("one.pcap"), None);
    let mut got = Vec::new();
    while got.len() < frames.len() {
        got.extend(reader.receive());
    }
    assert!(got == frames);
    assert_eq!(reader.queues.rx[0].doze(), Doze::Never);
    drop(reader);
    assert_eq!(pool.free(), 1024);
}

#[test]
fn generator_and_null_keep_accounts() {
    for (frame, prepared) in [(60, 1000), (2112, 0), (2113, 0), (9014, 10)] {
        keep_accounts(frame, prepared);
    }
}

fn keep_accounts(frame: u16, prepared: u32) {
    let pool = Pool::leak(16_384, HugePages::Never).unwrap();
    let config = GeneratorConfig { frame, count: 5000, prepared, ..GeneratorConfig::default() };
    let mut generator = End::open(&PortConfig::Generator(config), pool);
    let mut null = End::open(&PortConfig::Null(NullConfig::default()), pool);
    assert_eq!((generator.service(), null.service()), (Some(true), Some(true)));
    assert!(!generator.port.needs_service() && !null.port.needs_service());
    let mut got = 0;
    while got < 5000 {
        let frames = generator.receive();
        assert!(!frames.is_empty());
        assert!(frames.iter().all(|made| made.len() == usize::from(frame)));
        assert!(frames.iter().all(|made| made[42..] == vec![0; made.len() - 42]));
        got += frames.len();
        assert_eq!(null.send(&frames), frames.len());
        assert_eq!(generator.send(&frames), frames.len());
    }
    assert!(generator.receive().is_empty());
    assert!(null.receive().is_empty());
    assert_eq!(null.queues.rx[0].doze(), Doze::Never);
    drop((generator, null));
    assert_eq!((pool.free(), pool.jumbo_free()), (16_384, u64::from(pool.jumbo_count())));
}
