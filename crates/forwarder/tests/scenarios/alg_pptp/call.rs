//! Control connections of PPTP, their messages, and packets of calls.

use std::net::IpAddr;

use stoa_wire::checksum::Pseudo;
use stoa_wire::{ipv4, ipv6, protocol, tcp};

use crate::alg_ftp::control::{ACK, HOMES, SYN, SYN_ACK, segment};
use crate::harness::*;

/// A message of a type, with what is behind its header.
pub fn message(number: u16, length: u16, body: &[u8]) -> Vec<u8> {
    let header = [[0, 1], [0x1a, 0x2b], [0x3c, 0x4d], number.to_be_bytes(), [0, 0]].concat();
    let mut bytes = [&length.to_be_bytes()[..], &header, body].concat();
    bytes.resize(length.into(), 0);
    bytes
}

/// Outgoing-Call-Request.
pub fn request(own: u16) -> Vec<u8> {
    message(7, 168, &own.to_be_bytes())
}

/// Outgoing-Call-Reply: accepted, or with the general error.
pub fn reply(own: u16, peer: u16, is_accepted: bool) -> Vec<u8> {
    let result = if is_accepted { 1 } else { 2 };
    message(8, 32, &[&own.to_be_bytes()[..], &peer.to_be_bytes(), &[result]].concat())
}

/// Set-Link-Info.
pub fn link_info(peer: u16) -> Vec<u8> {
    message(15, 24, &peer.to_be_bytes())
}

/// Call-Clear-Request.
pub fn clear(own: u16) -> Vec<u8> {
    message(12, 16, &own.to_be_bytes())
}

/// Call-Disconnect-Notify.
pub fn disconnect(own: u16) -> Vec<u8> {
    message(13, 148, &own.to_be_bytes())
}

/// Stop-Control-Connection-Request.
pub fn stop() -> Vec<u8> {
    message(3, 16, &[1])
}

/// Echo-Request.
pub fn echo() -> Vec<u8> {
    message(5, 16, &[0, 0, 0, 9])
}

/// A packet of enhanced GRE with a call ID.
pub fn gre((source, destination): (IpAddr, IpAddr), id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    let bytes = [
        &[0x30, 0x81, 0x88, 0x0b, 0, 4, high, low],
        &[0, 0, 0, 1, 0, 0, 0, 0][..],
        b"\xff\x03\xc0\x21",
    ]
    .concat();
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            ip4(&ipv4::Builder::new(source, destination, protocol::GRE), &bytes)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            ip6(&ipv6::Builder::new(source, destination, protocol::GRE), &bytes)
        }
        other => panic!("{other:?}"),
    }
}

/// Sends a packet of a call from a host; the ends and the call ID of what a port sends then, if it sends something.
pub fn passed(
    lab: &mut Lab,
    (from, to): (u8, &str),
    ends: (IpAddr, IpAddr),
    id: u16,
) -> Option<((IpAddr, IpAddr), u16)> {
    // Errors about what was refused before.
    HOMES.iter().for_each(|home| drop(lab.take(home)));
    lab.send(HOMES[usize::from(from) - 1], [packet_from(from, &gre(ends, id))]);
    lab.dropped();
    let mut frames = lab.parsed(to);
    assert!(frames.len() <= 1, "{frames:?}");
    frames.pop().map(|it| (it.ip.unwrap(), u16::from_be_bytes([it.payload[6], it.payload[7]])))
}

/// A control connection, of which both ends know the numbers: a gateway of PPTP changes none.
pub struct Control {
    /// Of the client, and of the server.
    hosts: [u8; 2],
    /// The ends that the client knows, itself first; and those that the server knows, itself first.
    ends: [(IpAddr, IpAddr); 2],
    /// Its port, and that of the other end, as each of them knows them.
    pub ports: [(u16, u16); 2],
    numbers: [u32; 2],
}

impl Control {
    /// Opens a connection.
    pub fn open(
        lab: &mut Lab,
        hosts: [u8; 2],
        ends: [(IpAddr, IpAddr); 2],
        (from, to): (u16, u16),
    ) -> Self {
        let numbers = [1_000, 7_000];
        let mut it = Self { hosts, ends, ports: [(from, to), (to, from)], numbers };
        let (ends, ports) = it.put(lab, 0, SYN, b"").unwrap().0;
        assert_eq!(ends, (it.ends[1].1, it.ends[1].0));
        it.ports[1] = (ports.1, ports.0);
        it.numbers[0] += 1;
        it.put(lab, 1, SYN_ACK, b"").unwrap();
        it.numbers[1] += 1;
        it.put(lab, 0, ACK, b"").unwrap();
        it
    }

    /// A segment of the client (0) or the server (1).
    pub fn segment(&self, from: usize, flags: u8, data: &[u8]) -> Vec<u8> {
        let numbers = (self.numbers[from], if flags == SYN { 0 } else { self.numbers[1 - from] });
        segment(self.ends[from], self.ports[from], numbers, flags, data)
    }

    /// Sends a segment; ends, ports and data of what the other end gets.
    #[expect(clippy::type_complexity, reason = "of one test")]
    pub fn put(
        &self,
        lab: &mut Lab,
        from: usize,
        flags: u8,
        data: &[u8],
    ) -> Option<(((IpAddr, IpAddr), (u16, u16)), Vec<u8>)> {
        let [host, other] = [self.hosts[from], self.hosts[1 - from]];
        let packet = self.segment(from, flags, data);
        HOMES.iter().for_each(|home| drop(lab.take(home)));
        lab.send(HOMES[usize::from(host) - 1], [packet_from(host, &packet)]);
        lab.dropped();
        let mut frames = lab.parsed(HOMES[usize::from(other) - 1]);
        assert!(frames.len() <= 1, "{frames:?}");
        let frame = frames.pop()?;
        let ends = frame.ip.unwrap();
        let pseudo = match ends {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Pseudo::Ip4 { source, destination },
            (IpAddr::V6(source), IpAddr::V6(destination)) => Pseudo::Ip6 { source, destination },
            other => panic!("{other:?}"),
        };
        let view = tcp::check(&frame.payload, &pseudo).unwrap();
        let numbers = (view.header().sequence.get(), view.header().acknowledgement.get());
        assert_eq!(numbers.0, self.numbers[from]);
        assert!(flags == SYN || numbers.1 == self.numbers[1 - from]);
        Some(((ends, (view.source_port(), view.destination_port())), view.payload().to_vec()))
    }

    /// One end sends from another number on.
    pub fn skip(&mut self, from: usize, by: u32) {
        self.numbers[from] = self.numbers[from].wrapping_add(by);
    }

    /// One end says something, which is acknowledged; what the other one reads.
    pub fn say(&mut self, lab: &mut Lab, from: usize, data: &[u8]) -> Vec<u8> {
        let read = self.put(lab, from, ACK, data).expect("it passes").1;
        self.numbers[from] += data.len() as u32;
        assert_eq!(read.len(), data.len());
        self.put(lab, 1 - from, ACK, b"").expect("it passes");
        read
    }
}
