//! A pcap file in, the expected pcap file out: byte-exact forwarding, without root and without devices. scapy, an
//! independent implementation, writes both files.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use stoa_lab::{Configuration, Result, Router, Scratch, stoa_binary, wait_until};
use stoa_scenarios::scapy_here;

const FILES: &str = r#"
IN, OUT = '02:00:00:00:01:01', '02:00:00:00:02:01'
HOST, NEXT = '02:00:00:00:01:02', '02:00:00:00:02:02'
given, expected = [], []
def forwarded(inside, hops='ttl'):
    given.append(Ether(src=HOST, dst=IN) / inside)
    after = inside.copy()
    setattr(after, hops, getattr(after, hops) - 1)
    expected.append(Ether(src=OUT, dst=NEXT) / after)
for size in [18, 19, 64, 256, 512, 1024, 1458]:
    for number in range(5):
        ports = UDP(sport=1000 + number, dport=53) / Raw(bytes(i & 255 for i in range(size)))
        forwarded(IP(src='198.18.1.2', dst='198.18.2.2', ttl=64 - number, id=number) / ports)
forwarded(IP(src='198.18.1.2', dst='198.18.2.2', ttl=2) / TCP(sport=1, dport=2, flags='S'))
forwarded(IP(src='198.18.1.2', dst='198.18.2.2', tos=0xb8, flags='DF') / ICMP())
forwarded(IP(src='198.18.1.2', dst='198.18.2.2', proto=47) / Raw(b'y' * 60))
forwarded(IP(src='198.18.1.2', dst='198.18.2.2', frag=100, proto=17) / Raw(b'z' * 80))
for number in range(5):
    forwarded(IPv6(src='2001:db8:1::2', dst='2001:db8:2::2', hlim=64 - number, fl=number) /
          UDP(sport=1, dport=2) / Raw(b'w' * (40 + number)), 'hlim')
# Dropped: wrong checksum, other destination MAC address, no route, expired TTL.
ip = lambda **more: IP(src='198.18.1.2', **more) / UDP() / Raw(b'x' * 30)
given.insert(3, Ether(src=HOST, dst=IN) / ip(dst='198.18.2.2', chksum=1))
given.insert(9, Ether(src=HOST, dst=HOST) / ip(dst='198.18.2.2'))
given.append(Ether(src=HOST, dst=IN) / ip(dst='203.0.113.1'))
given.append(Ether(src=HOST, dst=IN) / ip(dst='198.18.2.2', ttl=1))
wrpcap(FOLDER + '/in.pcap', given)
wrpcap(FOLDER + '/expected.pcap', expected)
print(len(expected))
"#;

fn configuration(folder: &Path) -> Configuration {
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let address = |text: &str| text.parse().expect("an address");
    let input = json!({ "pcap": { "input": path("in.pcap"), "output": path("answers.pcap") } });
    let mut made = Configuration::new(&[])
        .port("in", input)
        .port("out", json!({ "pcap": { "output": path("out.pcap") } }))
        .addresses("in", &[address("198.18.1.1/24"), address("2001:db8:1::1/64")])
        .addresses("out", &[address("198.18.2.1/24"), address("2001:db8:2::1/64")]);
    for (name, mac) in [("in", "02:00:00:00:01:01"), ("out", "02:00:00:00:02:01")] {
        made.interface(name)["stoa-interfaces:mac-address"] = json!(mac);
    }
    for (family, ip) in [("ietf-ip:ipv4", "198.18.2.2"), ("ietf-ip:ipv6", "2001:db8:2::2")] {
        made.interface("out")[family]["neighbor"] =
            json!([{ "ip": ip, "link-layer-address": "02:00:00:00:02:02" }]);
    }
    made
}

/// The frames of a pcap file.
fn frames(file: &Path) -> Vec<Vec<u8>> {
    let opened = std::fs::File::open(file).expect("the file is there");
    let mut reader = pcap_file::pcap::PcapReader::new(opened).expect("a pcap header");
    let mut list = Vec::new();
    // A file that is still being written may end within a packet.
    while let Some(Ok(packet)) = reader.next_packet() {
        list.push(packet.data.into_owned());
    }
    list
}

#[test]
fn the_output_file_is_what_scapy_expects() -> Result<()> {
    let scratch = Scratch::new()?;
    let folder = scratch.path().to_owned();
    scapy_here(FILES, &[("FOLDER", &folder.to_string_lossy())])?;
    let expected = frames(&folder.join("expected.pcap"));
    assert!(expected.len() > 40);
    let json = configuration(&folder).json();
    let router = Router::start_in(scratch, &stoa_binary()?, None, &json)?;
    let given = frames(&folder.join("in.pcap")).len() as u64;
    wait_until("the file is read", Duration::from_secs(10), || {
        let list = router.interfaces().map_err(|error| error.to_string())?;
        let read = list.iter().find(|one| one.name == "in").map_or(0, |one| one.rx_packets);
        if read >= given { Ok(()) } else { Err(format!("{read} of {given}")) }
    })?;
    let accounting = router.conservation()?;
    for reason in ["ip4-checksum", "ethernet-mac-mismatch", "ip4-no-route", "ip4-ttl-expired"] {
        assert_eq!(router.dropped(reason)?, 1, "{reason}: {:?}", router.drops()?);
    }
    // The last two cause ICMP errors.
    assert_eq!(router.node_packets("icmp4-error")?, 2);
    assert_eq!(accounting["balanced"], true, "{accounting}");
    let (out, answers) = (folder.join("out.pcap"), folder.join("answers.pcap"));
    let keep = Scratch::new()?;
    let (kept_out, kept_answers) = (keep.file("out.pcap"), keep.file("answers.pcap"));
    // The router completes the files when it stops, and then removes its folder: keep hard links.
    std::fs::hard_link(&out, &kept_out).expect("linked");
    std::fs::hard_link(&answers, &kept_answers).expect("linked");
    router.stop()?;
    // Ignore multicast: the router announces its addresses when the port comes up.
    let mut sent = frames(&kept_out);
    sent.retain(|frame| frame[0] & 1 == 0);
    assert_eq!(sent.len(), expected.len());
    for (number, (sent, expected)) in sent.iter().zip(&expected).enumerate() {
        assert_eq!(sent, expected, "frame {number}");
    }
    // The router resolves the sender before it sends the ICMP errors.
    let answers = frames(&kept_answers).len();
    assert!(answers >= 1, "at least an ARP request for the sender");
    Ok(())
}

/// 30,000 frames of 1,500 bytes: more than waits for the disk at a time.
const MANY: &str = r#"
frame = bytes(Ether(src='02:00:00:00:01:02', dst='02:00:00:00:01:01') /
              IP(src='198.18.1.2', dst='198.18.2.2') / UDP(sport=7, dport=7) / Raw(b'x' * 1458))
wrpcap(FOLDER + '/in.pcap', [frame] * 30000)
"#;

#[test]
fn no_frame_of_a_large_file_is_lost() -> Result<()> {
    let scratch = Scratch::new()?;
    let folder = scratch.path().to_owned();
    scapy_here(MANY, &[("FOLDER", &folder.to_string_lossy())])?;
    let router = Router::start_in(scratch, &stoa_binary()?, None, &configuration(&folder).json())?;
    wait_until("all frames were sent", Duration::from_secs(30), || {
        let list = router.interfaces().map_err(|error| error.to_string())?;
        let sent = list.iter().find(|one| one.name == "out").map_or(0, |one| one.tx_packets);
        let dropped = router.dropped("tx-full").map_err(|error| error.to_string())?;
        if sent + dropped >= 30_000 { Ok(()) } else { Err(format!("{sent} sent")) }
    })?;
    assert_eq!(router.dropped("tx-full")?, 0);
    router.stop()
}
