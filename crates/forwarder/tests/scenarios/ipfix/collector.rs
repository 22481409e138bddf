//! A collector over UDP in the process of the test.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use stoa_forwarder::ipfix::CollectorSettings;

use super::decoder;
use crate::acl_stateful::LONG;

/// Elements of IANA.
pub(super) const OCTETS: (u32, u16) = (0, 1);
pub(super) const PACKETS: (u32, u16) = (0, 2);
pub(super) const REVERSE_OCTETS: (u32, u16) = (29_305, 1);
pub(super) const REVERSE_PACKETS: (u32, u16) = (29_305, 2);
pub(super) const PROTOCOL: (u32, u16) = (0, 4);
pub(super) const SOURCE_PORT: (u32, u16) = (0, 7);
pub(super) const SOURCE_IP4: (u32, u16) = (0, 8);
pub(super) const SOURCE_IP6: (u32, u16) = (0, 27);
pub(super) const REASON: (u32, u16) = (0, 136);
pub(super) const START: (u32, u16) = (0, 152);
pub(super) const END: (u32, u16) = (0, 153);
pub(super) const NOT_SENT: (u32, u16) = (0, 166);
pub(super) const POST_SOURCE: (u32, u16) = (0, 225);
pub(super) const POST_SOURCE_PORT: (u32, u16) = (0, 227);
pub(super) const NAT_EVENT: (u32, u16) = (0, 230);
pub(super) const FIREWALL_EVENT: (u32, u16) = (0, 233);

/// A record, its values as numbers.
pub(super) type Record = HashMap<(u32, u16), u128>;

/// The collector.
pub(super) struct Collector {
    pub(super) socket: UdpSocket,
    pub(super) decoder: decoder::Collector,
    next: u32,
}

impl Collector {
    pub(super) fn new() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        Self { socket, decoder: decoder::Collector::default(), next: 0 }
    }

    pub(super) fn settings(&self) -> CollectorSettings {
        to("here", self.socket.local_addr().unwrap(), false)
    }

    /// Records that have an element, at least `count`.
    pub(super) fn records(&mut self, element: (u32, u16), count: usize) -> Vec<Record> {
        let (deadline, mut all, mut buffer) = (Instant::now() + LONG, Vec::new(), [0; 65_536]);
        while all.len() < count {
            assert!(Instant::now() < deadline, "{all:?}");
            let Ok(length) = self.socket.recv(&mut buffer) else { continue };
            let decoded = self.decoder.decode(&buffer[..length]);
            assert_eq!(decoded.sequence, self.next, "no message is lost");
            assert_eq!(decoded.domain, 7);
            assert!(decoded.time > 1_700_000_000);
            self.next += decoded.records.len() as u32;
            all.extend(numbers(decoded).filter(|it| it.contains_key(&element)));
        }
        all
    }

    pub(super) fn flows(&mut self, count: usize) -> Vec<Record> {
        self.records(REASON, count)
    }
}

pub(super) fn numbers(decoded: decoder::Decoded) -> impl Iterator<Item = Record> {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all << 8 | u128::from(*byte));
    decoded.records.into_iter().map(move |(_, values)| {
        values.into_iter().map(|(element, value)| (element, number(&value))).collect()
    })
}

pub(super) fn to(name: &str, to: SocketAddr, is_tcp: bool) -> CollectorSettings {
    CollectorSettings { name: name.to_owned(), to, source: None, is_tcp }
}
