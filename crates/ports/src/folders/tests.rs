//! What a configuration may name, and what it may not.

use super::*;
use crate::config::{AfPacketConfig, DpdkConfig, MemifConfig, PcapConfig};

fn folders() -> Folders {
    Folders { pcap: Some("/var/lib/stoa/pcap".into()), memif: Some("/run/stoa/memif".into()) }
}

fn confined(config: PortConfig) -> Result<PortConfig, String> {
    folders().confine(&config).map_err(|error| error.to_string())
}

fn output(path: &str) -> Result<PathBuf, String> {
    let pcap = PcapConfig { output: Some(path.into()), ..PcapConfig::default() };
    match confined(PortConfig::Pcap(pcap))? {
        PortConfig::Pcap(it) => Ok(it.output.unwrap()),
        other => panic!("{other:?}"),
    }
}

fn socket(path: &str) -> Result<String, String> {
    let memif = MemifConfig { socket: path.into(), ..MemifConfig::default() };
    match confined(PortConfig::Memif(memif))? {
        PortConfig::Memif(it) => Ok(it.socket),
        other => panic!("{other:?}"),
    }
}

fn device(text: &str) -> Result<String, String> {
    let dpdk = DpdkConfig { device: text.into(), ..DpdkConfig::default() };
    match confined(PortConfig::Dpdk(dpdk))? {
        PortConfig::Dpdk(it) => Ok(it.device),
        other => panic!("{other:?}"),
    }
}

#[test]
fn capture_files_are_in_their_folder() {
    let inside = Ok(PathBuf::from("/var/lib/stoa/pcap/out.pcap"));
    assert_eq!(output("out.pcap"), inside);
    assert_eq!(output("/var/lib/stoa/pcap/out.pcap"), inside);
    assert_eq!(output("/dev/null"), Ok(PathBuf::from("/dev/null")));
    for outside in [
        "/etc/stoa/client-ca.pem",
        "../audit.log",
        "sub/out.pcap",
        "/var/lib/stoa/pcap/../audit.log",
        "/dev/sda",
        "..",
        ".hidden",
        "-rf",
        "a b",
        "",
    ] {
        assert!(output(outside).is_err(), "{outside}");
    }
    let error = output("/etc/stoa/client-ca.pem").unwrap_err();
    assert!(error.contains("/var/lib/stoa/pcap") && error.contains("--pcap-folder"), "{error}");
    let null = PcapConfig { input: Some("/dev/null".into()), ..PcapConfig::default() };
    assert!(confined(PortConfig::Pcap(null)).is_err(), "only as an output");
}

#[test]
fn sockets_are_in_their_folder_or_abstract() {
    assert_eq!(socket("a.sock").unwrap(), "/run/stoa/memif/a.sock");
    assert_eq!(socket("@speed").unwrap(), "@speed");
    for outside in ["/run/docker.sock", "../stoa.sock", "@", "@/run/a", "/run/stoa/stoa.sock"] {
        assert!(socket(outside).is_err(), "{outside}");
    }
    let long = socket(&"a".repeat(100)).unwrap_err();
    assert!(long.contains("107 bytes") && long.contains("--memif-folder"), "{long}");
    let nowhere = MemifConfig { socket: "a".into(), ..MemifConfig::default() };
    let error = Folders::default().confine(&PortConfig::Memif(nowhere)).unwrap_err().to_string();
    assert!(error.contains("--memif-folder"), "{error}");
}

#[test]
fn devices_of_dpdk_have_known_settings_only() {
    assert_eq!(
        device("net_memif0,role=client,id=7,socket=m.sock,socket-abstract=no").unwrap(),
        "net_memif0,role=client,id=7,socket=/run/stoa/memif/m.sock,socket-abstract=no"
    );
    let unchanged = [
        "0000:3b:00.0",
        "3b:00.0,mprq_en=1",
        "net_ring0",
        "net_null3,copy=1",
        "net_af_packet0,iface=eth1",
        "net_memif0,role=client,socket=/run/m.sock",
    ];
    for text in unchanged {
        assert_eq!(device(text).as_deref(), Ok(text));
    }
    for text in [
        "net_pcap0,tx_pcap=/etc/stoa/client-ca.pem",
        "net_failsafe0,exec(id)",
        "net_failsafe0",
        "net_bonding0,mode=1",
        "net_softnic0,firmware=/tmp/x",
        "net_memif0,socket=/etc/passwd,socket-abstract=no",
        "net_memif0,role=client,socket-abstract=no",
        "net_memif0,socket=/etc/passwd,socket-abstract=nono",
        "net_vhost0,iface=/run/docker.sock",
        "net_vhost0",
        "net_tap0,iface=/etc",
        "net_ring0,nodeaction=a:0:CREATE",
        "net_null",
        "net_nullx",
        "0000:3b:00.0,ddp_pkg_file=/tmp/x",
        "0000:3b:00.0,mprq_en=/tmp/x",
        "crypto_null0",
        "--vdev=net_pcap0",
    ] {
        assert!(device(text).is_err(), "{text}");
    }
}

#[test]
fn devices_and_namespaces_have_safe_names() {
    let named = |device: &str, netns: &str| {
        let netns = Some(netns.to_owned());
        let config = AfPacketConfig { device: device.into(), netns, ..AfPacketConfig::default() };
        confined(PortConfig::AfPacket(config)).is_ok()
    };
    assert!(named("eth0.100", "blue-1"));
    for (device, netns) in [("..", "a"), ("a/b", "a"), ("eth0", ".."), ("eth0", "/proc/1/ns/net")] {
        assert!(!named(device, netns), "{device} {netns}");
    }
}
