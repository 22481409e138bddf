//! Floods of the router over a memif link, of what strangers and hosts on the link can send: the BFD session and the
//! virtual router on the same link live, and a neighbour that is asked meanwhile is resolved. `make soak` sends
//! 1,000,000 packets a second beside BFD with 3 x 50 ms.

pub(crate) mod peer;

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{Namespace, Result, Router, Scratch, stoa_binary};
use stoa_wire::ethernet::Mac;
use stoa_wire::{icmp4, ipv4, protocol};

use crate::bfd_link::{self, given};
use peer::{GATEWAY, NEIGHBOR, Peer, ROUTER, VIRTUAL};

/// Not on any link.
const FAR: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);

/// The link has a host interface, a BFD session and a virtual router.
fn configuration(socket: &str, local: &Namespace, interval: Duration) -> Value {
    let mut made = bfd_link::configuration(socket, interval);
    let link = made.interface("link");
    link["stoa-host-interface:host-interface"] = json!({ "netns": local.name() });
    link["ietf-ip:ipv4"]["ietf-vrrp:vrrp"] = json!({ "vrrp-instance": [{
        "vrid": 51,
        "version": "ietf-vrrp:vrrp-v3",
        "advertise-interval-centi-sec": Peer::interval_cs(interval),
        "virtual-ipv4-addresses": { "virtual-ipv4-address": [{ "ipv4-address": VIRTUAL }] },
    }] });
    made.json()
}

/// What is sent, and the class that is full if the rate is above that of its policer.
fn floods() -> Vec<(&'static str, &'static str, u64, Vec<Vec<u8>>)> {
    let tcp = |port: u16| {
        let ports = [40_000_u16.to_be_bytes(), port.to_be_bytes()].concat();
        let segment = [&ports[..], &[0; 8], &[5 << 4, 2], &[0; 6]].concat();
        peer::packet(ROUTER, &ipv4::Builder::new(FAR, GATEWAY, protocol::TCP), &segment)
    };
    let mut ping = [0; icmp4::LENGTH];
    let echo = icmp4::Echo { identifier: 1, sequence: 1, data: &[] };
    icmp4::build_echo_request(&mut ping, &echo).expect("a ping");
    let ping = peer::packet(ROUTER, &ipv4::Builder::new(FAR, GATEWAY, protocol::ICMP4), &ping);
    let fragment = ipv4::Builder {
        flags_fragment: ipv4::MORE_FRAGMENTS,
        ..ipv4::Builder::new(FAR, GATEWAY, protocol::UDP)
    };
    let expired = ipv4::Builder {
        time_to_live: 1,
        ..ipv4::Builder::new(FAR, Ipv4Addr::new(198, 18, 2, 9), protocol::UDP)
    };
    let group = Ipv4Addr::new(224, 0, 0, 5);
    let hello =
        ipv4::Builder { time_to_live: 1, ..ipv4::Builder::new(NEIGHBOR, group, protocol::OSPF) };
    let scan = |n| peer::datagram((FAR, Ipv4Addr::new(198, 18, 2, n)), (7, 7), 64, b"");
    let data = peer::datagram((FAR, GATEWAY), (9, 9), 64, b"data");
    vec![
        ("BGP from anywhere", "routing-other", 1000, vec![tcp(179)]),
        (
            "BFD from anywhere",
            "routing-other",
            1000,
            vec![peer::datagram((NEIGHBOR, GATEWAY), (49_200, 3784), 64, &[0; 24])],
        ),
        ("SSH and data", "host", 500_000, vec![tcp(22), data]),
        ("pings", "echo", 20_000, vec![ping]),
        ("fragments", "fragment", 20_000, vec![peer::packet(ROUTER, &fragment, &[0; 64])]),
        ("expiring TTLs", "icmp-error", 1000, vec![peer::packet(ROUTER, &expired, &[0; 16])]),
        ("a scan", "resolve", 1000, (10..200).map(scan).collect()),
        ("ARP requests", "arp", 1000, vec![peer::arp_request()]),
        (
            "OSPF hellos",
            "routing",
            20_000,
            vec![peer::packet(Mac::of_ip4_group(group).0, &hello, &[0; 44])],
        ),
    ]
}

/// The BFD session and the virtual router of the link.
fn link_state(router: &Router) -> Result<(Value, Value)> {
    let link = bfd_link::state(router)?;
    let vrrp = &link["ietf-ip:ipv4"]["ietf-vrrp:vrrp"]["vrrp-instance"][0];
    Ok((bfd_link::session_of(&link), vrrp.clone()))
}

fn dropped(router: &Router, class: &str) -> Result<u64> {
    let punts = router.show("punts")?;
    let rows = punts["punts"].as_array().cloned().unwrap_or_default();
    let row = rows.iter().find(|row| row["class"] == class && row["interface"] == "link");
    Ok(row.and_then(|row| row["dropped"].as_u64()).unwrap_or(0))
}

#[test]
fn sessions_on_the_link_live_under_each_flood() -> Result<()> {
    let rate = given("STOA_PUNT_FLOOD_RATE", 50_000);
    let interval = Duration::from_millis(given("STOA_PUNT_FLOOD_BFD_MS", 300));
    let time = Duration::from_millis(given("STOA_PUNT_FLOOD_MS", 1000));
    let (scratch, local) = (Scratch::new()?, Namespace::new("local")?);
    let socket = scratch.file("memif.sock").to_string_lossy().into_owned();
    let json = configuration(&socket, &local, interval);
    let router = Router::start_in(scratch, &stoa_binary()?, None, &json)?;
    let mut peer = Peer::open(&socket, interval);
    let host = |n: usize| Ipv4Addr::new(198, 18, 1, 100 + n as u8);
    bfd_link::wait_until_up(&router, &mut peer)?;
    let transitions = |vrrp: &Value| vrrp["statistics"]["master-transitions"].clone();
    let before = transitions(&peer.beside(|| link_state(&router))?.1);
    for (n, (name, class, limit, frames)) in floods().into_iter().enumerate() {
        let sent = peer.flood(&frames, rate, time, host(n));
        let (bfd, vrrp) = peer.beside(|| link_state(&router))?;
        let dropped = peer.beside(|| dropped(&router, class))?;
        let sent = sent as f64 / time.as_secs_f64();
        println!("{name}: {sent:.0} packets/s; {class}: {dropped} dropped");
        bfd_link::assert_alive(&bfd, &peer, name);
        assert_eq!((vrrp["state"].clone(), transitions(&vrrp)), (json!("backup"), before.clone()));
        // The router asks again every second.
        for _ in 0..50 {
            if peer.arrived == 0 {
                peer.beside(|| std::thread::sleep(Duration::from_millis(100)));
            }
        }
        assert_eq!(peer.arrived, 1, "{name}: the packet to a neighbour that was asked");
        assert!(dropped > 0 || sent < 2.0 * limit as f64, "{name}: {class} is not full");
    }
    router.stop()
}
