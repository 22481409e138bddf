//! Many GRE tunnels over one port, as of a router with many branches.

use std::net::{IpAddr, Ipv4Addr};

use stoa_lab::{NextHop, Result};

use super::frames::{Interface, Tunnel};
use super::traffic::Mixture;

const TUNNELS: u16 = 300;
/// Packets of each family and direction through each tunnel.
const ROUNDS: u8 = 3;
/// Bytes of a packet of IPv4 and of one of IPv6.
const BYTES: u64 = 52 + 72;
const ETHERNET: u64 = 14;
/// What a tunnel adds.
const OUTER: u64 = 20 + 4;

/// Packets of both families into and out of each tunnel, all tunnels and both directions mixed: each leaves as it
/// must, byte by byte, and each interface has counted its own.
#[test]
fn tunnels_over_one_port() -> Result<()> {
    let far = Interface::new("far", &[], [18, 1]);
    let below = Interface::new("underlay", &[], [18, 2]);
    let [IpAddr::V4(local), _] = below.addresses(1) else { panic!("IPv4 is first") };
    let tunnel = |at: u16| {
        let [high, low] = at.to_be_bytes();
        let remote = Ipv4Addr::new(198, 18, 200 + high, low);
        // 198.19.0.0/16, and part of 198.18.0.0/16.
        let network = [19 - high, if high == 0 { low } else { 100 + low }];
        Interface::tunnel("underlay", Tunnel { local, remote, below: below.network }, network)
    };
    let tunnels: Vec<Interface> = (0..TUNNELS).map(tunnel).collect();
    let all = [vec![far.clone(), below.clone()], tunnels.clone()].concat();
    let gateway = below.addresses(2)[0].to_string();
    let mixture =
        Mixture::begin(&all, |made| made.route("198.18.200.0/23", NextHop::Via(&gateway)))?;
    let mut packets = Vec::new();
    for tunnel in &tunnels {
        for six in [false, true].repeat(ROUNDS.into()) {
            packets.push(mixture.packet(&far, tunnel, six));
            packets.push(mixture.packet(tunnel, &far, six));
        }
    }
    let counters = || mixture.scenario.router.interfaces();
    let before = counters()?;
    mixture.pass(packets, &[])?;
    let after = counters()?;
    // Packets received and sent, and their bytes, since then.
    let counted = |name: &str| {
        let of = |list: &[stoa_lab::Interface]| {
            let found = list.iter().find(|one| one.name == name).expect("it is listed");
            assert_eq!((found.rx_drops, found.tx_drops), (0, 0), "{name}");
            [found.rx_packets, found.tx_packets, found.rx_bytes, found.tx_bytes]
        };
        let (before, after) = (of(&before), of(&after));
        [0, 1, 2, 3].map(|at| after[at] - before[at])
    };
    let (rounds, tunnels_in_all) = (u64::from(ROUNDS), u64::from(TUNNELS));
    for tunnel in &tunnels {
        let expected = [2 * rounds, 2 * rounds, BYTES * rounds, BYTES * rounds];
        assert_eq!(counted(&tunnel.name()), expected, "{}", tunnel.name());
    }
    let packets = 2 * rounds * tunnels_in_all;
    for (name, overhead) in [("far", ETHERNET), ("underlay", ETHERNET + OUTER)] {
        let bytes = BYTES * rounds * tunnels_in_all + overhead * packets;
        let counted = counted(name);
        assert_eq!((counted[0], counted[2]), (packets, bytes), "{name}");
        // The router itself sends reports of multicast groups.
        assert!(counted[1] >= packets && counted[3] >= bytes, "{name}: {counted:?}");
    }
    mixture.scenario.end()
}
