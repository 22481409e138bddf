//! ARP and neighbour discovery for the addresses of a port: replies to requests of the device under
//! test, and resolves its gateway addresses.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::mpsc::SyncSender;

use ipnet::IpNet;
use stoa_wire::checksum::Pseudo;
use stoa_wire::ethernet::{self, Mac, ethertype};
use stoa_wire::vlan::Stack;
use stoa_wire::{BuildError, arp, ipv6, ndp, protocol};

/// Size of a port's neighbour cache.
const NEIGHBORS: usize = 4096;
/// Bytes of the shortest frame, without FCS.
const SHORTEST: usize = 60;

/// Replies to neighbours on a port.
#[derive(Debug)]
pub(crate) struct Responder {
    mac: Mac,
    addresses: Vec<IpNet>,
    /// To the sender on the port. When the channel is full, replies are lost as on any link.
    answers: SyncSender<Vec<u8>>,
    /// Neighbours that sent a request or a reply.
    pub(crate) known: HashMap<IpAddr, [u8; 6]>,
}

impl Responder {
    /// Replies for `addresses` with `mac`: `192.0.2.1/24` is one host, `192.0.2.0/24` all hosts.
    pub(crate) fn new(mac: [u8; 6], addresses: &[IpNet], answers: SyncSender<Vec<u8>>) -> Self {
        Self { mac: Mac(mac), addresses: addresses.to_vec(), answers, known: HashMap::new() }
    }

    /// Processes a frame that does not belong to the run; returns `true` for ARP and neighbour
    /// discovery.
    pub(crate) fn receive(&mut self, frame: &[u8]) -> bool {
        let Ok(view) = ethernet::check(frame) else { return false };
        let link = (view.header().source, *view.tags());
        match view.ethertype() {
            ethertype::ARP => self.receive_arp(view.payload(), link),
            ethertype::IP6 => self.receive_ndp(view.payload(), link),
            _ => false,
        }
    }

    fn learn(&mut self, address: IpAddr, mac: Mac) {
        if mac.is_unicast() && (self.known.len() < NEIGHBORS || self.known.contains_key(&address)) {
            self.known.insert(address, mac.0);
        }
    }

    /// Whether the port replies for an address: it is configured, or in a configured network.
    fn is_ours(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|ours| match is_network(ours) {
            true => ours.contains(&address),
            false => ours.addr() == address,
        })
    }

    fn receive_arp(&mut self, payload: &[u8], (from, tags): (Mac, Stack)) -> bool {
        let Ok(packet) = arp::check(payload) else { return false };
        if !packet.is_probe() {
            self.learn(packet.sender().into(), packet.sender_mac);
        }
        if packet.is_request() && from != self.mac && self.is_ours(packet.target().into()) {
            let reply = arp::Packet::reply(packet, self.mac);
            let frame = build_arp(&reply, (from, self.mac), &tags);
            let _ = frame.map(|frame| self.answers.try_send(frame));
        }
        true
    }

    fn receive_ndp(&mut self, payload: &[u8], (from, tags): (Mac, Stack)) -> bool {
        let Ok(view) = ipv6::check(payload) else { return false };
        if view.header().next_header != protocol::ICMP6 {
            return false;
        }
        let Ok(message) = ndp::check(view.header(), view.payload()) else { return false };
        match message {
            ndp::Message::NeighborAdvertisement(neighbor, options) => {
                let mac = options.target_mac().unwrap_or(from);
                self.learn(neighbor.target().into(), mac);
            }
            ndp::Message::NeighborSolicitation(neighbor, options) => {
                let asker = view.source();
                if let Some(mac) = options.source_mac().filter(|_| !asker.is_unspecified()) {
                    self.learn(asker.into(), mac);
                }
                let target = neighbor.target();
                let is_ours = self.is_ours(target.into()) || target == self.mac.link_local();
                if is_ours && from != self.mac && !asker.is_unspecified() {
                    let frame = self.advertisement(asker, target, from, &tags);
                    let _ = frame.map(|frame| self.answers.try_send(frame));
                }
            }
            _ => {}
        }
        true
    }

    fn advertisement(
        &self,
        asker: Ipv6Addr,
        target: Ipv6Addr,
        to: Mac,
        tags: &Stack,
    ) -> Result<Vec<u8>, BuildError> {
        let pseudo = Pseudo::Ip6 { source: target, destination: asker };
        let flags = ndp::flag::SOLICITED | ndp::flag::OVERRIDE;
        build_ndp((target, asker), (to, self.mac), tags, |out| {
            ndp::build_advertisement(out, &pseudo, target, flags, Some(self.mac))
        })
    }

    /// A request for the MAC address of `target`; `None`: the port has no source address of its
    /// family.
    pub(crate) fn request(&self, target: IpAddr, tags: &Stack) -> Option<Vec<u8>> {
        let own = self.own(target)?;
        let frame = match (own, target) {
            (IpAddr::V4(own), IpAddr::V4(target)) => {
                let request = arp::Packet::request(self.mac, own, target);
                build_arp(&request, (Mac::BROADCAST, self.mac), tags)
            }
            (IpAddr::V6(own), IpAddr::V6(target)) => {
                let group = ipv6::solicited_node(target);
                let pseudo = Pseudo::Ip6 { source: own, destination: group };
                let to = Mac::of_solicited_node(target);
                build_ndp((own, group), (to, self.mac), tags, |out| {
                    ndp::build_solicitation(out, &pseudo, target, Some(self.mac))
                })
            }
            _ => return None,
        };
        frame.ok()
    }

    /// The configured address closest to another: in its network, else in its family.
    fn own(&self, other: IpAddr) -> Option<IpAddr> {
        let near = self.addresses.iter().find(|ours| ours.contains(&other));
        let any = || first_of_family(&self.addresses, other.is_ipv4());
        let link_local = || other.is_ipv6().then(|| self.mac.link_local().into());
        near.map(host).or_else(any).or_else(link_local)
    }
}

/// Whether an address with a prefix length means all hosts of a network rather than one host.
fn is_network(address: &IpNet) -> bool {
    address.addr() == address.network() && address.prefix_len() < address.max_prefix_len()
}

/// The host for an address with a prefix length: the first one of a network.
fn host(address: &IpNet) -> IpAddr {
    let first = || address.hosts().next();
    is_network(address).then(first).flatten().unwrap_or(address.addr())
}

/// The first host of a family in a list of addresses.
pub(crate) fn first_of_family(addresses: &[IpNet], is_ip4: bool) -> Option<IpAddr> {
    addresses.iter().find(|ours| ours.addr().is_ipv4() == is_ip4).map(host)
}

fn build_arp(
    packet: &arp::Packet,
    (to, from): (Mac, Mac),
    tags: &Stack,
) -> Result<Vec<u8>, BuildError> {
    let mut frame = vec![0; SHORTEST];
    let header = ethernet::build(&mut frame, to, from, tags, ethertype::ARP)?;
    packet.build(&mut frame[header..])?;
    Ok(frame)
}

fn build_ndp(
    (source, destination): (Ipv6Addr, Ipv6Addr),
    (to, from): (Mac, Mac),
    tags: &Stack,
    message: impl FnOnce(&mut [u8]) -> Result<usize, BuildError>,
) -> Result<Vec<u8>, BuildError> {
    let mut frame = vec![0; 128];
    let ip = ethernet::build(&mut frame, to, from, tags, ethertype::IP6)?;
    let length = message(&mut frame[ip + ipv6::LENGTH..])?;
    let mut builder = ipv6::Builder::new(source, destination, protocol::ICMP6);
    builder.hop_limit = ndp::HOP_LIMIT;
    builder.build(&mut frame[ip..], length)?;
    frame.truncate((ip + ipv6::LENGTH + length).max(SHORTEST));
    Ok(frame)
}

/// Default addresses for benchmarks (RFC 2544, appendix C.2.2): the first hosts behind the two
/// sides of a device.
pub(crate) const FOUR: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 19, 0, 2)];
/// The same for IPv6 (RFC 5180, section 8).
pub(crate) const SIX: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0x2001, 0x0200, 0, 0, 0, 0, 0, 2),
    Ipv6Addr::new(0x2001, 0x0200, 1, 0, 0, 0, 0, 2),
];

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, sync_channel};

    use proptest::prelude::*;

    use super::*;

    fn responder(last: u8, addresses: &[&str]) -> (Responder, Receiver<Vec<u8>>) {
        let (answers, replies) = sync_channel(4);
        let addresses: Vec<IpNet> = addresses.iter().map(|one| one.parse().unwrap()).collect();
        (Responder::new([2, 0, 0, 0, 0, last], &addresses, answers), replies)
    }

    #[test]
    fn resolves_neighbors_in_both_families() {
        for (one, other, target) in [
            ("192.0.2.1/24", "192.0.2.2/24", "192.0.2.2"),
            ("192.0.2.1/32", "198.18.0.0/16", "198.18.7.9"),
            ("2001:db8::1/64", "2001:db8::2/64", "2001:db8::2"),
        ] {
            let (mut requester, _) = responder(1, &[one]);
            let (mut replier, answers) = responder(2, &[other]);
            let mut tags = Stack::EMPTY;
            assert!(tags.push(stoa_wire::vlan::Tag::customer(7).unwrap()));
            let target: IpAddr = target.parse().unwrap();
            let request = requester.request(target, &tags).unwrap();
            assert!(replier.receive(&request), "{target}");
            let answer = answers.try_recv().expect("an answer");
            assert!(requester.receive(&answer));
            assert_eq!(requester.known[&target], [2, 0, 0, 0, 0, 2]);
            assert_eq!(replier.known.len(), 1, "the requester is in the cache");
        }
    }

    #[test]
    fn replies_only_for_own_addresses() {
        let (requester, _) = responder(1, &["192.0.2.1/24"]);
        let (mut replier, answers) = responder(2, &["198.18.0.0/16"]);
        let request = requester.request(IpAddr::from([192, 0, 2, 9]), &Stack::EMPTY).unwrap();
        assert!(replier.receive(&request));
        assert!(answers.try_recv().is_err());
        assert!(requester.request("2001:db8::1".parse().unwrap(), &Stack::EMPTY).is_some());
        let (none, _) = responder(3, &[]);
        assert!(none.request(IpAddr::from([192, 0, 2, 9]), &Stack::EMPTY).is_none());
    }

    proptest! {
        #[test]
        fn any_frame_is_parsed_safely(frame: Vec<u8>, kind in 0_usize..3) {
            let (mut responder, _answers) = responder(1, &["192.0.2.1/24"]);
            let mut frame = frame;
            if frame.len() >= 14 {
                let kinds = [[8, 6], [0x86, 0xdd], [0x81, 0]];
                frame[12..14].copy_from_slice(&kinds[kind]);
            }
            responder.receive(&frame);
        }
    }
}
