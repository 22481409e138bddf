//! Segments between hosts, built and read.

use std::net::Ipv4Addr;

use stoa_wire::checksum::Pseudo;
use stoa_wire::tcp::{self, flag};
use stoa_wire::tcp_options::{SYN_OPTIONS, SynOptions, Timestamps};
use stoa_wire::{ipv4, ipv6, protocol};

use crate::harness::*;
use crate::nat44::POOL;

pub const SYN_ACK: u8 = flag::SYN | flag::ACK;
pub const ACK: u8 = flag::ACK;

/// Added to a number, in place of a host: the address of the router on its link.
pub const OURS: u8 = 100;
/// The number of [`POOL`].
pub const OF_POOL: u8 = 200;

fn address4(number: u8) -> Ipv4Addr {
    match number {
        OF_POOL => POOL,
        OURS.. => our4(number - OURS),
        _ => host4(number),
    }
}

fn number4(address: Ipv4Addr) -> u8 {
    let number = address.octets()[2];
    match address {
        POOL => OF_POOL,
        _ if address == our4(number) => OURS + number,
        _ => number,
    }
}

/// A segment between host `client` and host 2, of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub is_ip4: bool,
    /// From which host to which one; of IPv4 also [`OURS`] with its number: the router itself, or [`OF_POOL`].
    pub ends: (u8, u8),
    pub ports: (u16, u16),
    pub sequence: u32,
    pub acknowledgement: u32,
    pub flags: u8,
    pub window: u16,
    pub options: SynOptions,
    /// Edges of selective acknowledgements.
    pub sack: Vec<u32>,
    pub data: Vec<u8>,
}

impl Segment {
    /// A SYN of host 1.
    pub fn syn(is_ip4: bool, port: u16) -> Self {
        Self {
            is_ip4,
            ends: (1, 2),
            ports: (port, 80),
            sequence: 100,
            acknowledgement: 0,
            flags: flag::SYN,
            window: 64_000,
            options: SynOptions::default(),
            sack: Vec::new(),
            data: Vec::new(),
        }
    }

    /// What the other end sends next.
    pub fn back(&self, flags: u8) -> Self {
        Self {
            ends: (self.ends.1, self.ends.0),
            ports: (self.ports.1, self.ports.0),
            sequence: self.acknowledgement,
            acknowledgement: self.sequence.wrapping_add(1),
            flags,
            sack: Vec::new(),
            data: Vec::new(),
            options: SynOptions::default(),
            ..self.clone()
        }
    }

    pub fn packet(&self) -> Vec<u8> {
        let mut options = [0; SYN_OPTIONS];
        let length = self.options.write(&mut options);
        let mut options = options[..length].to_vec();
        if !self.sack.is_empty() {
            options.extend([1, 1, 5, 2 + 4 * self.sack.len() as u8]);
            options.extend(self.sack.iter().flat_map(|edge| edge.to_be_bytes()));
        }
        let builder = tcp::Builder {
            source_port: self.ports.0,
            destination_port: self.ports.1,
            sequence: self.sequence,
            acknowledgement: self.acknowledgement,
            flags: self.flags,
            window: self.window,
            urgent: 0,
            options: &options,
        };
        let (from, to) = self.ends;
        let mut bytes = vec![0; tcp::LENGTH + options.len() + self.data.len()];
        if self.is_ip4 {
            let [source, destination] = [from, to].map(address4);
            let pseudo = Pseudo::Ip4 { source, destination };
            builder.build(&mut bytes, &pseudo, &self.data).unwrap();
            return ip4(&ipv4::Builder::new(source, destination, protocol::TCP), &bytes);
        }
        let pseudo = Pseudo::Ip6 { source: host6(from), destination: host6(to) };
        builder.build(&mut bytes, &pseudo, &self.data).unwrap();
        ip6(&ipv6::Builder::new(host6(from), host6(to), protocol::TCP), &bytes)
    }

    /// The segment of a frame between hosts; all checksums are right.
    pub fn of(frame: &[u8]) -> Self {
        let packet = &frame[14..];
        let is_ip4 = packet[0] >> 4 == 4;
        let (segment, pseudo, ends) = if is_ip4 {
            let view = ipv4::check(packet).unwrap();
            let ends = (number4(view.source()), number4(view.destination()));
            (view.payload(), view.pseudo(), ends)
        } else {
            let view = ipv6::check(packet).unwrap();
            let ends = (view.source().octets()[5], view.destination().octets()[5]);
            (view.payload(), view.pseudo(), ends)
        };
        let view = tcp::check(segment, &pseudo).unwrap();
        let header = view.header();
        let sack = view.options().filter_map(Result::ok).find(|option| option.kind == 5);
        let edges = sack.map_or(&[][..], |option| option.data).as_chunks::<4>().0;
        Self {
            is_ip4,
            ends,
            ports: (view.source_port(), view.destination_port()),
            sequence: header.sequence.get(),
            acknowledgement: header.acknowledgement.get(),
            flags: header.flags,
            window: header.window.get(),
            options: SynOptions::of(&view),
            sack: edges.iter().map(|edge| u32::from_be_bytes(*edge)).collect(),
            data: view.payload().to_vec(),
        }
    }
}

pub fn timestamps(value: u32, echo: u32) -> SynOptions {
    SynOptions { timestamps: Some(Timestamps { value, echo }), ..SynOptions::default() }
}

/// All that Linux offers.
pub fn offer(value: u32) -> SynOptions {
    SynOptions { segment_size: Some(1460), scale: Some(7), sack: true, ..timestamps(value, 0) }
}
