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
    let frames: Vec<Vec<u8>> = (60..=1514).map(|length| frame(length, length)).collect();
    let pool = Pool::leak(1024, HugePages::Never).unwrap();
    let open = |input, output| {
        let config = PcapConfig { input, output, mac: None };
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
    let pool = Pool::leak(4096, HugePages::Never).unwrap();
    let config = GeneratorConfig { count: 5000, prepared: 1000, ..GeneratorConfig::default() };
    let mut generator = End::open(&PortConfig::Generator(config), pool);
    let mut null = End::open(&PortConfig::Null(NullConfig::default()), pool);
    assert_eq!((generator.service(), null.service()), (Some(true), Some(true)));
    let mut got = 0;
    while got < 5000 {
        let frames = generator.receive();
        assert!(!frames.is_empty());
        got += frames.len();
        assert_eq!(null.send(&frames), frames.len());
        assert_eq!(generator.send(&frames), frames.len());
    }
    assert!(generator.receive().is_empty());
    assert!(null.receive().is_empty());
    assert_eq!(null.queues.rx[0].doze(), Doze::Never);
    drop((generator, null));
    assert_eq!(pool.free(), 4096);
}
