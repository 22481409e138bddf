//! A control connection, with the numbers of both ends.

use std::net::{IpAddr, Ipv4Addr};

use stoa_wire::checksum::Pseudo;
use stoa_wire::tcp::{self, flag};
use stoa_wire::{ipv4, ipv6, protocol};

use crate::harness::*;

pub const SYN: u8 = flag::SYN;
pub const SYN_ACK: u8 = flag::SYN | flag::ACK;
pub const ACK: u8 = flag::ACK;

/// A segment with data.
pub fn segment(
    (source, destination): (IpAddr, IpAddr),
    (from, to): (u16, u16),
    (sequence, acknowledgement): (u32, u32),
    flags: u8,
    data: &[u8],
) -> Vec<u8> {
    let mut bytes = vec![0; tcp::LENGTH + data.len()];
    let builder = tcp::Builder {
        source_port: from,
        destination_port: to,
        sequence,
        acknowledgement,
        flags,
        window: 1000,
        ..tcp::Builder::default()
    };
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            builder.build(&mut bytes, &Pseudo::Ip4 { source, destination }, data).unwrap();
            ip4(&ipv4::Builder::new(source, destination, protocol::TCP), &bytes)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            builder.build(&mut bytes, &Pseudo::Ip6 { source, destination }, data).unwrap();
            ip6(&ipv6::Builder::new(source, destination, protocol::TCP), &bytes)
        }
        other => panic!("{other:?}"),
    }
}

/// What a port sends: ends, numbers and data of a segment with a right checksum.
#[derive(Debug, PartialEq)]
pub struct Got {
    pub ends: (IpAddr, IpAddr),
    pub ports: (u16, u16),
    pub numbers: (u32, u32),
    pub data: String,
}

fn got(frame: &[u8]) -> Got {
    let packet = &frame[14..];
    let (ends, upper, pseudo) = if packet[0] >> 4 == 4 {
        let octets = |at: usize| <[u8; 4]>::try_from(&packet[at..at + 4]).unwrap();
        let (source, destination) = (Ipv4Addr::from(octets(12)), Ipv4Addr::from(octets(16)));
        let length = u16::from_be_bytes([packet[2], packet[3]]);
        let ends = (source.into(), destination.into());
        ipv4::check(packet).unwrap();
        (ends, &packet[20..length.into()], Pseudo::Ip4 { source, destination })
    } else {
        let octets = |at: usize| <[u8; 16]>::try_from(&packet[at..at + 16]).unwrap();
        let (source, destination) = (octets(8).into(), octets(24).into());
        let length = 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
        let ends = (IpAddr::V6(source), IpAddr::V6(destination));
        (ends, &packet[40..length], Pseudo::Ip6 { source, destination })
    };
    let view = tcp::check(upper, &pseudo).unwrap();
    Got {
        ends,
        ports: (view.source_port(), view.destination_port()),
        numbers: (view.header().sequence.get(), view.header().acknowledgement.get()),
        data: String::from_utf8_lossy(view.payload()).into_owned(),
    }
}

pub const HOMES: [&str; 3] = ["west", "east", "north"];

/// Sends a segment of a host; what the other port sends, if it sends something.
pub fn sent(lab: &mut Lab, from: u8, packet: &[u8], port: &str) -> Option<Got> {
    lab.send(HOMES[usize::from(from) - 1], [packet_from(from, packet)]);
    lab.dropped();
    let mut frames = lab.take(port);
    assert!(frames.len() <= 1, "{frames:?}");
    frames.pop().map(|frame| got(&frame))
}

/// A control connection: the ends that client and server know, and the numbers of both.
pub struct Control {
    /// Of the client: itself, and the server as it sees that.
    client: (IpAddr, IpAddr),
    /// Of the server: the client as it sees that, and itself.
    server: (IpAddr, IpAddr),
    pub client_host: u8,
    pub server_host: u8,
    /// The next numbers: of the client as it counts, as the server counts them; and those of the server.
    client_numbers: (u32, u32),
    server_numbers: (u32, u32),
    pub ports: (u16, u16),
}

impl Control {
    pub fn new(client: (IpAddr, IpAddr), server: (IpAddr, IpAddr)) -> Self {
        Self {
            client,
            server,
            client_host: 1,
            server_host: 2,
            client_numbers: (u32::MAX - 20, u32::MAX - 20),
            server_numbers: (7_000, 7_000),
            ports: (40_000, 40_000),
        }
    }

    /// The next number of the client, as the server knows it.
    pub fn seen_by_server(&self) -> u32 {
        self.client_numbers.1
    }

    /// The ports that the client knows.
    pub fn ports_of_client(&self) -> (u16, u16) {
        (self.ports.0, 21)
    }

    fn homes(&self) -> (&'static str, &'static str) {
        (HOMES[usize::from(self.client_host) - 1], HOMES[usize::from(self.server_host) - 1])
    }

    pub fn of_client(&self, flags: u8, data: &[u8]) -> Vec<u8> {
        let acknowledgement = if flags & ACK == 0 { 0 } else { self.server_numbers.0 };
        segment(
            self.client,
            (self.ports.0, 21),
            (self.client_numbers.0, acknowledgement),
            flags,
            data,
        )
    }

    pub fn of_server(&self, flags: u8, data: &[u8]) -> Vec<u8> {
        let ends = (self.server.1, self.server.0);
        segment(
            ends,
            (21, self.ports.1),
            (self.server_numbers.1, self.client_numbers.1),
            flags,
            data,
        )
    }

    pub fn open(&mut self, lab: &mut Lab) {
        let (client_port, server_port) = self.homes();
        let syn = self.of_client(SYN, b"");
        let syn = sent(lab, self.client_host, &syn, server_port).expect("the SYN passes");
        assert_eq!(syn.ends, self.server);
        self.ports.1 = syn.ports.0;
        self.client_numbers =
            (self.client_numbers.0.wrapping_add(1), self.client_numbers.1.wrapping_add(1));
        let answer = self.of_server(SYN_ACK, b"");
        let answer = sent(lab, self.server_host, &answer, client_port).expect("the SYN-ACK passes");
        assert_eq!(answer.ends, (self.client.1, self.client.0));
        self.server_numbers = (self.server_numbers.0 + 1, self.server_numbers.1 + 1);
        let ack = self.of_client(ACK, b"");
        sent(lab, self.client_host, &ack, server_port).unwrap();
        self.say(lab, false, "220 ready\r\n");
        self.say(lab, true, "USER ftp\r\n");
        self.say(lab, false, "230 welcome\r\n");
    }

    /// One end says a line; what the other one reads. All numbers are as both ends know them.
    pub fn say(&mut self, lab: &mut Lab, is_client: bool, line: &str) -> String {
        let read = self.repeat(lab, is_client, line);
        let (length, seen) = (line.len() as u32, read.len() as u32);
        let numbers = if is_client { &mut self.client_numbers } else { &mut self.server_numbers };
        // The sender's count first.
        let (sender, receiver) = if is_client {
            (&mut numbers.0, &mut numbers.1)
        } else {
            (&mut numbers.1, &mut numbers.0)
        };
        *sender = sender.wrapping_add(length);
        *receiver = receiver.wrapping_add(seen);
        self.acknowledge(lab, !is_client);
        read
    }

    pub fn repeat(&mut self, lab: &mut Lab, is_client: bool, line: &str) -> String {
        let (client_port, server_port) = self.homes();
        let (from, packet, to) = if is_client {
            (self.client_host, self.of_client(ACK, line.as_bytes()), server_port)
        } else {
            (self.server_host, self.of_server(ACK, line.as_bytes()), client_port)
        };
        let got = sent(lab, from, &packet, to).unwrap_or_else(|| panic!("{line} passes"));
        let numbers = if is_client {
            (self.client_numbers.1, self.server_numbers.1)
        } else {
            (self.server_numbers.0, self.client_numbers.0)
        };
        assert_eq!(got.numbers, numbers, "{line}");
        got.data
    }

    fn acknowledge(&mut self, lab: &mut Lab, is_client: bool) {
        assert_eq!(self.repeat(lab, is_client, ""), "");
    }
}
