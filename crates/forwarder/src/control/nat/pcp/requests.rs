//! Requests of PCP and NAT-PMP, and the answers to them.

use std::net::{Ipv4Addr, Ipv6Addr};

use stoa_engine::Packet;
use stoa_wire::checksum::Pseudo;
use stoa_wire::nat_pmp::{self, NatPmpError};
use stoa_wire::pcp::{self, Operation, PcpError, Request, ResultCode};
use stoa_wire::{ipv4, protocol, udp};

use super::clients::{Client, Server};
use super::grant::{Asked, Granted, Suggested};
use super::leases::{Holder, Key};
use crate::acl::flow_vrf;
use crate::control::forwarder_state::ForwarderState;
use crate::drops::Drop;
use crate::nat::mappings::RemotePeer;

/// Source, destination and ports of a datagram, and its data.
fn read(bytes: &[u8]) -> Option<(Ipv4Addr, Ipv4Addr, u16, &[u8])> {
    let view = ipv4::check(bytes).ok()?;
    let (source, destination) = (view.source(), view.destination());
    let datagram = udp::check(view.payload(), &Pseudo::Ip4 { source, destination }).ok()?;
    Some((source, destination, datagram.source_port(), datagram.payload()))
}

/// The suggested external end of a request; all zeroes: any.
fn suggested(map: &pcp::Map, is_only: bool) -> Suggested {
    let address = map.external.to_ipv4_mapped().map(Ipv4Addr::to_bits);
    // An IPv6 address is none that this NAT has.
    let address = address.or_else(|| (!map.external.is_unspecified()).then_some(u32::MAX));
    Suggested { address: address.filter(|it| *it != 0), port: map.external_port, is_only }
}

impl ForwarderState {
    /// Answers a request.
    pub(in crate::control::nat) fn receive_pcp(&mut self, packet: &Packet) {
        let interface = packet.rx_if;
        let read = read(packet.bytes());
        let vrf = self.interface(interface).map(|it| flow_vrf(self.vrf_id(it.vrf)));
        let (Some((address, server, port, message)), Some(vrf)) = (read, vrf) else {
            return self.count_drop(Drop::PcpIgnored);
        };
        let client = Client { interface, vrf, address, port, server };
        let mut out = [0; pcp::LONGEST];
        let length = match pcp::version(message) {
            // RFC 6886 section 3.3: none to the external address.
            _ if self.is_external(vrf, server) || !self.is_behind(client) => None,
            Some(nat_pmp::VERSION) => self.answer_nat_pmp(client, message, &mut out),
            Some(_) => self.answer_pcp(client, message, &mut out),
            None => None,
        };
        match length.and_then(|length| out.get(..length)) {
            Some(answer) => self.send_pcp(client, answer),
            None => self.count_drop(Drop::PcpIgnored),
        }
    }

    /// Sends an answer from the address that the client has asked.
    fn send_pcp(&mut self, client: Client, answer: &[u8]) {
        let (source, destination) = (client.server, client.address);
        let mut bytes = vec![0; ipv4::LENGTH + udp::LENGTH + answer.len()];
        let (head, body) = bytes.split_at_mut(ipv4::LENGTH);
        let pseudo = Pseudo::Ip4 { source, destination };
        let Ok(length) = udp::build(body, &pseudo, pcp::PORT, client.port, answer) else { return };
        let header = ipv4::Builder::new(source, destination, protocol::UDP);
        if header.build(head, length).is_err() {
            return;
        }
        let Some(mut packet) = self.pool().packet() else { return };
        if packet.set_bytes(&bytes) {
            packet.set_own();
            packet.rx_if = client.interface;
            self.inject(packet, "ip4-origin");
        }
    }

    /// Writes the answer of PCP; `None`: nobody is answered.
    fn answer_pcp(&mut self, client: Client, message: &[u8], out: &mut [u8]) -> Option<usize> {
        let served = match pcp::parse(message) {
            Ok(request) => self.serve_pcp(client, &request),
            Err(PcpError::Refused(result)) => Err(result),
            Err(PcpError::Ignored) => return None,
        };
        let (result, lifetime_s, external) = match served {
            Ok((lifetime_s, external)) => (ResultCode::Success, lifetime_s, external),
            Err(result) => (result, result.error_lifetime_s(), None),
        };
        self.capabilities.nat.pcp.counts.pcp[result as usize] += 1;
        let answer = pcp::Answer { result, lifetime_s, epoch_s: self.pcp_epoch_s() };
        pcp::build_response(out, message, &answer, external).ok()
    }

    /// Serves a request: the lifetime and the external end of a mapping.
    fn serve_pcp(
        &mut self,
        client: Client,
        request: &Request,
    ) -> Result<(u32, Option<(u16, Ipv6Addr)>), ResultCode> {
        if request.client != client.address.to_ipv6_mapped() {
            return Err(ResultCode::AddressMismatch);
        }
        let server = self.pcp_server(client.interface, client.address);
        let server = server.ok_or(ResultCode::NotAuthorized)?;
        let (map, remote) = match &request.operation {
            Operation::Announce => return Ok((0, None)),
            Operation::Map(map) => (map, None),
            Operation::Peer(peer) => (&peer.map, Some(remote_of(peer)?)),
        };
        let address = match request.options.third_party {
            None => client.address,
            Some(_) if !server.allows_third_party => return Err(ResultCode::UnsupportedOption),
            Some(other) => self.third_party((client, server), other)?,
        };
        let server = self.pcp_server(client.interface, address);
        let may_ask = |it: &Server| address == client.address || it.allows_third_party;
        let server = server.filter(may_ask).ok_or(ResultCode::NotAuthorized)?;
        let (protocol, port) = (map.protocol, map.internal_port);
        let (policy, vrf, address) = (server.number, client.vrf, address.to_bits());
        let key = Key { policy, vrf, address, protocol, port, remote };
        let asked = Asked {
            key,
            client: client.place(),
            holder: Holder::Nonce(map.nonce),
            lifetime_s: request.lifetime_s,
            suggested: suggested(map, request.options.prefers_failure),
            peers: peers_of(request, remote)?,
        };
        // All ports of a protocol, or all of them, are a mapping; one port of all protocols is none, nor is PEER.
        let (is_one, is_all) = (protocol != 0 && port != 0, port == 0 && remote.is_none());
        if !is_one && !is_all {
            return Err(ResultCode::MalformedRequest);
        }
        if remote.is_none() && request.lifetime_s == 0 {
            if request.options.filters != pcp::Filters::default() {
                return Err(ResultCode::MalformedOption);
            }
            self.end_leases(&asked)?;
            // RFC 6887 section 15.1: the suggested end comes back.
            return Ok((0, Some((map.external_port, map.external))));
        }
        if port == 0 {
            // All ports, or all protocols, of a host that shares its address.
            return Err(ResultCode::UnsupportedProtocol);
        }
        let Suggested { address, port, is_only } = asked.suggested;
        if is_only && address.is_none() && port == 0 {
            return Err(ResultCode::MalformedOption);
        }
        let Granted { external, lifetime_s } = self.grant(&asked, server)?;
        Ok((lifetime_s, Some((external.1, external.0.to_ipv6_mapped()))))
    }

    /// Writes the answer of NAT-PMP; `None`: nobody is answered.
    fn answer_nat_pmp(&mut self, client: Client, message: &[u8], out: &mut [u8]) -> Option<usize> {
        let server = self.pcp_server(client.interface, client.address);
        let is_at = || self.has_nat_pmp_at(client.interface);
        if !server.map_or_else(is_at, |it| it.has_nat_pmp) {
            // As PCP answers any other version (RFC 6887 section 9 and appendix A).
            return self.answer_pcp(client, message, out);
        }
        let (opcode, request) = (message.get(1).copied()?, nat_pmp::parse(message));
        let (result, answer) = match (request, server) {
            (Err(NatPmpError::Ignored), _) => return None,
            (Err(NatPmpError::Refused(result)), _) => (result, nat_pmp::Answer::Nothing),
            (Ok(request), server) => self.serve_nat_pmp(client, &request, server),
        };
        self.capabilities.nat.pcp.counts.nat_pmp[result as usize] += 1;
        nat_pmp::build_response(out, opcode, (result, self.pcp_epoch_s()), &answer).ok()
    }

    fn serve_nat_pmp(
        &mut self,
        client: Client,
        request: &nat_pmp::Request,
        server: Option<Server>,
    ) -> (nat_pmp::ResultCode, nat_pmp::Answer) {
        use nat_pmp::{Answer, ResultCode as Pmp};
        match *request {
            nat_pmp::Request::Address => {
                let none = Answer::Address(Ipv4Addr::UNSPECIFIED);
                let Some(server) = server else { return (Pmp::Refused, none) };
                match self.external_address(client, server.number) {
                    Some(address) => (Pmp::Success, Answer::Address(address)),
                    None => (Pmp::NetworkFailure, none),
                }
            }
            nat_pmp::Request::Map { protocol, internal_port, external_port, lifetime_s } => {
                let refused = Answer::Map(internal_port, 0, 0);
                let Some(server) = server else { return (Pmp::Refused, refused) };
                let key = Key {
                    policy: server.number,
                    vrf: client.vrf,
                    address: client.address.to_bits(),
                    protocol,
                    port: internal_port,
                    remote: None,
                };
                let suggested = Suggested { port: external_port, ..Suggested::default() };
                let (holder, peers) = (Holder::NatPmp, (Vec::new(), false));
                let client = client.place();
                let asked = Asked { key, client, holder, lifetime_s, suggested, peers };
                let done = match (lifetime_s, internal_port) {
                    (0, _) => self.end_leases(&asked).map(|()| refused),
                    (_, 0) => Err(ResultCode::NotAuthorized),
                    _ => self
                        .grant(&asked, server)
                        .map(|it| Answer::Map(internal_port, it.external.1, it.lifetime_s)),
                };
                match done {
                    Ok(answer) => (Pmp::Success, answer),
                    Err(ResultCode::NotAuthorized) => (Pmp::Refused, refused),
                    Err(ResultCode::NetworkFailure) => (Pmp::NetworkFailure, refused),
                    Err(_) => (Pmp::OutOfResources, refused),
                }
            }
        }
    }

    /// The external address that a client has, or would get.
    fn external_address(&self, client: Client, policy: u32) -> Option<Ipv4Addr> {
        let nat = self.capabilities.nat.published.as_ref()?;
        let source = (client.address.to_bits(), client.vrf);
        let leases = &self.capabilities.nat.pcp.leases;
        let mut of_host = leases.of_host(policy, (client.vrf, client.address.to_bits()));
        let leased = of_host.next().map(|(_, lease)| lease.external.address);
        leased.or_else(|| nat.policy(policy)?.external_of(source)).map(Ipv4Addr::from_bits)
    }
}

/// The remote end of PEER, of IPv4.
fn remote_of(peer: &pcp::Peer) -> Result<(u32, u16), ResultCode> {
    let address = peer.remote.to_ipv4_mapped().map_or(0, Ipv4Addr::to_bits);
    let is_whole = address != 0 && peer.remote_port != 0;
    is_whole.then_some((address, peer.remote_port)).ok_or(ResultCode::MalformedRequest)
}

/// The remote ends that a request names, and whether others that were before may send no more.
fn peers_of(
    request: &Request,
    remote: Option<(u32, u16)>,
) -> Result<(Vec<RemotePeer>, bool), ResultCode> {
    if let Some((network, port)) = remote {
        return Ok((vec![RemotePeer { network, length: 32, port }], false));
    }
    let filters = &request.options.filters;
    let peers = filters.as_slice().iter().map(|it| {
        let (network, length) = it.prefix4()?;
        Some(RemotePeer { network, length, port: it.port })
    });
    let peers = peers.collect::<Option<Vec<_>>>().ok_or(ResultCode::MalformedOption)?;
    Ok((peers, filters.clears))
}
