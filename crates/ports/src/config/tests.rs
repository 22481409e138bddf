//! What excludes what.

use super::*;

#[test]
fn what_is_held_alone_excludes_another() {
    let tap = |device: &str, netns: Option<&str>| {
        let (device, netns) = (device.to_owned(), netns.map(str::to_owned));
        PortConfig::Tap(TapConfig { device, netns, ..TapConfig::default() })
    };
    assert!(tap("one", None).excludes(&tap("one", None)));
    assert!(!tap("one", None).excludes(&tap("two", None)));
    assert!(!tap("one", None).excludes(&tap("one", Some("blue"))));
    let device = AfPacketConfig { device: "one".into(), ..AfPacketConfig::default() };
    let packet = PortConfig::AfPacket(device);
    assert!(!packet.excludes(&packet), "two sockets may share a device");
    assert!(packet.excludes(&tap("one", None)), "which goes with its port");
    assert!(!tap("one", None).excludes(&packet), "and could not be made");
    let memif = |role, id| {
        let socket = "@one".to_owned();
        PortConfig::Memif(MemifConfig { socket, id, role, ..MemifConfig::default() })
    };
    let (master, slave) = (MemifRole::Master, MemifRole::Slave);
    assert!(memif(master, 1).excludes(&memif(master, 1)));
    assert!(!memif(master, 1).excludes(&memif(master, 2)));
    assert!(!memif(slave, 1).excludes(&memif(slave, 1)), "it connects later");
    let output = |path: Option<&str>| {
        let output = path.map(PathBuf::from);
        PortConfig::Pcap(PcapConfig { output, ..PcapConfig::default() })
    };
    assert!(output(Some("a")).excludes(&output(Some("a"))));
    assert!(!output(Some("a")).excludes(&output(Some("b"))));
    assert!(!output(None).excludes(&output(None)));
    let dpdk = |device: &str| {
        PortConfig::Dpdk(DpdkConfig { device: device.into(), ..DpdkConfig::default() })
    };
    assert!(dpdk("net_ring0").excludes(&dpdk("net_ring0,nodeaction=r:0:CREATE")));
    assert!(!dpdk("net_ring0").excludes(&dpdk("net_ring1")));
}

#[test]
fn a_name_and_a_path_may_be_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let output = |path: &str| {
        let output = Some(PathBuf::from(path));
        PortConfig::Pcap(PcapConfig { output, ..PcapConfig::default() })
    };
    let master = |socket: &str| {
        let (socket, role) = (socket.to_owned(), MemifRole::Master);
        PortConfig::Memif(MemifConfig { socket, role, ..MemifConfig::default() })
    };
    for port in [&output as &dyn Fn(&str) -> PortConfig, &master] {
        assert!(port("one").excludes(&port(&place("one"))));
        assert!(port(&place("one")).excludes(&port("one")));
        assert!(port(&place("one")).excludes(&port(&place("./one"))));
        assert!(!port("one").excludes(&port(&place("two"))));
        // Of tools, which have no folder.
        let elsewhere = other.path().join("one").display().to_string();
        assert!(!port(&place("one")).excludes(&port(&elsewhere)));
    }
    assert!(!master("@one").excludes(&master("one")), "an abstract name is not a file");
    assert!(!output("/dev/null").excludes(&output("/dev/null")));
}
