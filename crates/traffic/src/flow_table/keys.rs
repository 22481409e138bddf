//! The flows of the benchmark, and columns of their packets.

use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{Columns4, Columns6, FlowKey, FlowReader, Match, Tuple};

use crate::random::Random;

const TCP: u8 = 6;
/// The prefix of inside hosts, and that of outside ones.
const HOSTS: [u128; 2] = [0x2001_0db8 << 96, 0x2001_0db8_ffff << 80];

/// A flow of one of many hosts to one of many servers, and the key of its replies if it is translated.
pub(super) fn flow(
    random: &mut Random,
    is_ip6: bool,
    is_translated: bool,
) -> (FlowKey, Option<FlowKey>) {
    let bits = random.next();
    let (source_port, destination_port) = ((bits as u16) | 1024, 443);
    let (host, server) = ((bits >> 16) as u32 & 0xff_ffff, (bits >> 40) as u32 & 0xf_ffff);
    let (source, destination) = (0x0a00_0000 | host, 0xc600_0000 | server);
    let four = Flow { source, destination, source_port, destination_port, protocol: TCP };
    let key = if is_ip6 {
        let (source, destination) = (HOSTS[0] | u128::from(host), HOSTS[1] | u128::from(server));
        FlowKey::ip6(Flow { source, destination, source_port, destination_port, protocol: TCP }, 0)
    } else {
        FlowKey::ip4(four, 0)
    };
    // 4096 outside addresses.
    let outside = 0xcb00_0000 | random.next() as u32 & 0xfff;
    let outside = Flow { source: outside, source_port: random.next() as u16, ..four };
    (key, is_translated.then(|| FlowKey::ip4(outside.reversed(), 0)))
}

/// Columns of packets of one family.
#[derive(Default)]
pub(super) struct Packets {
    sources: [Vec<u32>; 4],
    destinations: [Vec<u32>; 4],
    ports: Vec<u32>,
    contexts: Vec<u32>,
    is_ip6: bool,
}

impl Packets {
    pub(super) fn len(&self) -> usize {
        self.ports.len()
    }

    pub(super) fn clear(&mut self) {
        let ends = self.sources.iter_mut().chain(&mut self.destinations);
        ends.chain([&mut self.ports, &mut self.contexts]).for_each(Vec::clear);
    }

    pub(super) fn push(&mut self, key: &FlowKey) {
        let protocol = match key.tuple {
            Tuple::Ip4(flow) => {
                self.sources[0].push(flow.source);
                self.destinations[0].push(flow.destination);
                self.push_ports(flow.source_port, flow.destination_port);
                flow.protocol
            }
            Tuple::Ip6(flow) => {
                for at in 0..4 {
                    self.sources[at].push((flow.source >> (32 * at)) as u32);
                    self.destinations[at].push((flow.destination >> (32 * at)) as u32);
                }
                self.push_ports(flow.source_port, flow.destination_port);
                flow.protocol
            }
        };
        self.is_ip6 = key.is_ip6();
        self.contexts.push(u32::from(protocol) << 16 | u32::from(key.vrf));
    }

    fn push_ports(&mut self, source: u16, destination: u16) {
        self.ports.push(u32::from(source) << 16 | u32::from(destination));
    }

    /// Looks up the packets from `at` on.
    #[inline]
    pub(super) fn look_up(&self, reader: &FlowReader, at: usize, found: &mut [Match]) {
        let ports = tail(&self.ports, at);
        let contexts = tail(&self.contexts, at);
        if self.is_ip6 {
            let sources = self.sources.each_ref().map(|column| tail(column, at));
            let destinations = self.destinations.each_ref().map(|column| tail(column, at));
            reader.lookup_ip6(&Columns6 { sources, destinations, ports, contexts }, found);
        } else {
            let sources = tail(&self.sources[0], at);
            let destinations = tail(&self.destinations[0], at);
            reader.lookup_ip4(&Columns4 { sources, destinations, ports, contexts }, found);
        }
    }
}

fn tail(column: &[u32], at: usize) -> &[u32] {
    column.get(at..).unwrap_or(&[])
}
