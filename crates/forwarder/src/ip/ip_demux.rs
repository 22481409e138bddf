//! `ip-demux`: delivers packets for local addresses at the end of the arc `ip-local`: to the nodes in
//! the protocol tables ([`crate::protocols`]), to Linux, or to the control thread, which passes on what
//! the controller has subscribed to. What nobody takes is refused (RFC 1122 3.2.2.1, RFC 4443 3.1 and
//! 3.4).

use std::net::IpAddr;
use std::sync::Arc;

use stoa_engine::protocol::NumberTable;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::icmp6::kind;
use stoa_wire::ipv6_extensions::Extension;
use stoa_wire::{icmp6, ipv4, ipv6, ndp, protocol, vrrp};

use super::ip4_local::Refused;
use super::ip4_punt::punt_class;
use super::ip6_chain::{self, Carried, Chain, ROUTER_ALERT};
use crate::addresses::Addresses;
use crate::bfd::Peers;
use crate::drops::Drop;
use crate::ethernet::interface_flags::{ADVERTISE6, VRRP6};
use crate::host_interface::{Payload, to_host};
use crate::icmp::IcmpCause;
use crate::ipsec::table::Ipsec;
use crate::pcp::PcpInterfaces;
use crate::protocols::{self, IP4_PROTOCOL, IP6_PROTOCOL, LocalPacket, Share, UDP_PORT};
use crate::punt::Class;
use crate::punt::subscriptions::Subscriptions;
use crate::shared::Shared;
use crate::tunnel::table::Tunnels;
use crate::tunnel::too_big;

/// Next nodes besides those of the protocol tables.
pub const EDGES: &[&str] = &[
    "icmp4-error",
    "icmp6-error",
    "ip4-reassembly",
    "ip6-reassembly",
    "nd-input",
    "host-interface-output",
];
const ERROR4: u16 = 0;
const ERROR6: u16 = 1;
const REASSEMBLE4: u16 = 2;
const REASSEMBLE6: u16 = 3;
const ND: u16 = 4;
const HOST_INTERFACE: u16 = 5;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(IpDemux {
        shared: shared.clone(),
        ip4: protocols::of_ip(IP4_PROTOCOL),
        ip6: protocols::of_ip(IP6_PROTOCOL),
        udp: protocols::of_ip(UDP_PORT),
    })
}

type Table = NumberTable<(u16, Share)>;

struct IpDemux {
    shared: Arc<Shared>,
    ip4: Table,
    ip6: Table,
    udp: Table,
}

/// Where a packet goes.
enum Fate {
    /// Along an edge.
    Node(u16),
    /// Along an edge, with an `arg` for the node.
    NodeWith(u16, u32),
    /// To Linux.
    Host,
    /// To the control thread.
    Punt(Class),
    /// To the control thread, with an `arg`.
    PuntWith(Class, u32),
    /// It needs no answer, and is not lost.
    Consumed,
}

impl Node for IpDemux {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let shared = &*self.shared;
        let (tunnels, peers) = (shared.tunnels.read(cx.reader), shared.bfd.read(cx.reader));
        let (addresses, pcp) = (shared.addresses.read(cx.reader), shared.pcp.read(cx.reader));
        let subscriptions = shared.subscriptions.read(cx.reader);
        for lane in 0..vector.len() {
            let interface = vector.rx_if[lane];
            let line = shared.interface(interface);
            // With a host interface, Linux is the host.
            let host = line.host_pair().filter(|_| vector.flags[lane] & flags::OWN == 0);
            let delivery = Delivery {
                demux: self,
                addresses,
                tunnels,
                peers,
                pcp,
                ipsec: &shared.ipsec,
                subscriptions,
                flags: line.flags(),
                interface,
                vrf: shared.attributes.vrf_of(interface),
                has_host: host.is_some(),
            };
            let bytes = vector.bytes(lane);
            let is_ip4 = bytes.first().is_some_and(|byte| byte >> 4 == 4);
            let (fate, error, carried) = match is_ip4 {
                true => (delivery.ip4(bytes), ERROR4, Payload::Ip4),
                false => (delivery.ip6(bytes), ERROR6, Payload::Ip6),
            };
            match fate {
                Ok(Fate::Node(edge)) => vector.next[lane] = edge,
                Ok(Fate::NodeWith(edge, arg)) => {
                    (vector.next[lane], vector.arg[lane]) = (edge, arg);
                }
                Ok(Fate::Host) => {
                    let host = (host.unwrap_or_default(), carried);
                    vector.next[lane] = to_host(vector, lane, host, HOST_INTERFACE);
                }
                Ok(Fate::Punt(class)) => shared.policers.punt(cx, vector, lane, class),
                Ok(Fate::PuntWith(class, arg)) => {
                    vector.arg[lane] = arg;
                    shared.policers.punt(cx, vector, lane, class);
                }
                Ok(Fate::Consumed) => drop(vector.take(lane)),
                Err(refused) => refused.apply(vector, lane, error),
            }
        }
        Next::Lanes
    }
}

/// The tables, and the interface of a lane.
struct Delivery<'a> {
    demux: &'a IpDemux,
    addresses: &'a Addresses,
    tunnels: &'a Tunnels,
    peers: &'a Peers,
    pcp: &'a PcpInterfaces,
    ipsec: &'a Ipsec,
    subscriptions: &'a Subscriptions,
    flags: u32,
    interface: u32,
    vrf: u32,
    has_host: bool,
}

impl Delivery<'_> {
    fn ip4(&self, bytes: &[u8]) -> Result<Fate, Refused> {
        if let Some(class) = punt_class(self.flags, bytes) {
            return Ok(Fate::Punt(class));
        }
        let view = ipv4::check(bytes).map_err(|_| Refused::Drop(Drop::Ip4Truncated))?;
        let (protocol, ends) = (view.header().protocol, (view.source(), view.destination()));
        let is_fragment = view.header().is_fragment();
        let ends = (IpAddr::V4(ends.0), IpAddr::V4(ends.1));
        let registered = if is_fragment {
            None
        } else {
            let carried = (view.header().time_to_live, protocol, view.payload());
            self.registered(&self.demux.ip4, ends, carried)
        };
        // Before the node gets it: a virtual router without accept mode accepts no packets.
        let goes_to_host = self.goes_to_host(ends.1)?;
        if let Some((edge, Some(arg))) = registered {
            return Ok(Fate::NodeWith(edge, arg));
        }
        let subscribed = || self.subscriptions.of_packet(protocol, view.payload());
        if !is_fragment && let Some(class) = subscribed() {
            return Ok(Fate::Punt(class));
        }
        if is_fragment && self.subscriptions.wants_fragments(protocol) {
            return Ok(Fate::Node(REASSEMBLE4));
        }
        if protocol == protocol::ICMP4
            && !is_fragment
            && let Some(tunnel) =
                too_big::of_message(self.tunnels, (self.vrf, true), view.payload())
        {
            return Ok(Fate::PuntWith(Class::Icmp, tunnel));
        }
        if goes_to_host {
            return Ok(Fate::Host);
        }
        match (registered, protocol) {
            _ if is_fragment => Ok(Fate::Node(REASSEMBLE4)),
            (Some((edge, _)), _) => Ok(Fate::Node(edge)),
            (None, protocol::IGMP) => Ok(Fate::Consumed),
            (None, protocol::UDP) => Err(Refused::IcmpError(IcmpCause::Port)),
            (None, protocol::TCP) => Err(Refused::Drop(Drop::TcpNoListener)),
            (None, _) => Err(Refused::IcmpError(IcmpCause::Protocol)),
        }
    }

    fn ip6(&self, bytes: &[u8]) -> Result<Fate, Refused> {
        let view = ipv6::check(bytes).map_err(|_| Refused::Drop(Drop::Ip6Truncated))?;
        let ends = (IpAddr::V6(view.source()), IpAddr::V6(view.destination()));
        let carried = match ip6_chain::process(&view, view.destination().is_multicast())? {
            Chain::Whole(carried) => carried,
            Chain::Fragment if self.goes_to_host(ends.1)? && !self.has_fragment6(&view) => {
                return Ok(Fate::Host);
            }
            Chain::Fragment => return Ok(Fate::Node(REASSEMBLE6)),
        };
        let Carried { protocol, offset, named_at, .. } = carried;
        if protocol == protocol::VRRP
            && self.flags & VRRP6 != 0
            && view.destination() == vrrp::GROUP6
        {
            return Ok(Fate::Punt(Class::Vrrp));
        }
        let payload = view.packet().get(offset..).unwrap_or(&[]);
        let upper = (view.header().hop_limit, protocol, payload);
        let registered = self.registered(&self.demux.ip6, ends, upper);
        if protocol == protocol::ICMP6 {
            return self.icmp6(&view, payload, registered);
        }
        // Before the node gets it: a virtual router without accept mode accepts no packets.
        let goes_to_host = self.goes_to_host(ends.1)?;
        if let Some((edge, Some(arg))) = registered {
            return Ok(Fate::NodeWith(edge, arg));
        }
        if let Some(class) = self.subscriptions.of_packet(protocol, payload) {
            return Ok(Fate::Punt(class));
        }
        if goes_to_host {
            return Ok(Fate::Host);
        }
        match (registered, protocol) {
            (Some((edge, _)), _) => Ok(Fate::Node(edge)),
            (None, protocol::UDP) => Err(Refused::IcmpError(IcmpCause::Port)),
            (None, protocol::TCP) => Err(Refused::Drop(Drop::TcpNoListener)),
            (None, protocol::NO_NEXT_HEADER) => Err(Refused::Drop(Drop::Ip6NoNextHeader)),
            (None, _) => Err(Refused::IcmpError(IcmpCause::NextHeader(named_at as u16))),
        }
    }

    /// ICMPv6 messages by type: `registered` gets echo requests.
    fn icmp6(
        &self,
        view: &ipv6::View<'_>,
        message: &[u8],
        registered: Option<(u16, Option<u32>)>,
    ) -> Result<Fate, Refused> {
        let message = icmp6::check(message, &view.pseudo());
        let message = message.map_err(|_| Refused::Drop(Drop::Icmp6Malformed))?;
        let kind = message.header().kind;
        if ndp::is_ndp(kind) {
            // Neighbour messages are always punted; router messages go to the daemons behind the
            // host interface unless the router advertises itself.
            let of_neighbors =
                matches!(kind, kind::NEIGHBOR_SOLICITATION | kind::NEIGHBOR_ADVERTISEMENT);
            let advertises = self.flags & ADVERTISE6 != 0;
            let is_ours = of_neighbors || advertises && kind != kind::REDIRECT;
            return Ok(if self.has_host && !is_ours { Fate::Host } else { Fate::Node(ND) });
        }
        if let Some(tunnel) =
            too_big::of_message(self.tunnels, (self.vrf, false), message.message())
        {
            return Ok(Fate::PuntWith(Class::Icmp, tunnel));
        }
        if let Some(class) = self.subscriptions.of_icmp6(&message) {
            return Ok(Fate::Punt(class));
        }
        match (kind, registered) {
            // Linux has joined the same groups and reports them.
            _ if self.goes_to_host(view.destination().into())? => Ok(Fate::Host),
            (kind::ECHO_REQUEST, Some((edge, _))) => Ok(Fate::Node(edge)),
            (
                kind::LISTENER_QUERY
                | kind::LISTENER_REPORT
                | kind::LISTENER_DONE
                | kind::LISTENER_REPORT_2,
                _,
            ) => listener(view, kind),
            _ => Err(Refused::Drop(Drop::Icmp6Ignored)),
        }
    }

    /// The edge of the node that is registered for a packet by its UDP port, else by its protocol; and
    /// its `arg` if it gets the packet even if there is a host interface.
    fn registered(
        &self,
        by_protocol: &Table,
        ends: (IpAddr, IpAddr),
        (hop_limit, protocol, payload): (u8, u8, &[u8]),
    ) -> Option<(u16, Option<u32>)> {
        let port = payload.get(2..4).and_then(<[u8]>::first_chunk);
        let port = port.filter(|_| protocol == protocol::UDP);
        let by_port = port.and_then(|port| self.demux.udp.get(u16::from_be_bytes(*port)));
        let (edge, share) = by_port.or_else(|| by_protocol.get(protocol.into()))?;
        let Share::Of(arg_of) = share else { return Some((edge, None)) };
        let Self { tunnels, peers, pcp, ipsec, interface, vrf, .. } = *self;
        let packet = LocalPacket {
            tunnels,
            peers,
            pcp,
            ipsec,
            interface,
            vrf,
            ends,
            hop_limit,
            protocol,
            payload,
        };
        arg_of(&packet).map(|arg| (edge, Some(arg)))
    }

    /// Whether a packet to this address goes to Linux, which does not have the addresses of virtual
    /// routers, nor anycast addresses. Without accept mode, a virtual router accepts no packets (RFC 9568
    /// 6.4.3).
    fn goes_to_host(&self, destination: IpAddr) -> Result<bool, Refused> {
        match self.addresses.accepts_virtual(self.interface, self.vrf, destination) {
            Some(false) => Err(Refused::Drop(Drop::VirtualAddress)),
            Some(true) => Ok(false),
            None => Ok(self.has_host && !self.is_anycast(destination)),
        }
    }

    /// Whether it may be a fragment of a message that the controller has subscribed to.
    #[cold]
    fn has_fragment6(&self, view: &ipv6::View<'_>) -> bool {
        view.upper().is_ok_and(|upper| self.subscriptions.wants_fragments(upper.protocol))
    }

    /// Whether it is a subnet-router anycast address.
    fn is_anycast(&self, destination: IpAddr) -> bool {
        matches!(destination, IpAddr::V6(ip) if self.addresses.is_anycast(self.vrf, ip))
    }
}

/// Multicast listener discovery: only from the link, and with a router alert (RFC 3810 5, 6.2, 7.4).
#[cold]
fn listener(view: &ipv6::View<'_>, kind: u8) -> Result<Fate, Refused> {
    let is_query = kind == kind::LISTENER_QUERY;
    // Reports have no source before their sender has an address (RFC 3590 4).
    let source = view.source();
    let is_near = source.is_unicast_link_local() || !is_query && source.is_unspecified();
    if !is_near || view.header().hop_limit != 1 || !has_router_alert(view) {
        return Err(Refused::Drop(Drop::MldMalformed));
    }
    Ok(if is_query { Fate::Punt(Class::Listener) } else { Fate::Consumed })
}

/// Whether the hop-by-hop options have the router alert of MLD (RFC 2711 2.1).
fn has_router_alert(view: &ipv6::View<'_>) -> bool {
    let of_hops = |header: &Extension<'_>| header.kind == protocol::HOP_BY_HOP;
    let mut options = view.extensions().flatten().filter(of_hops).flat_map(|it| it.options());
    options.any(|option| {
        option.is_ok_and(|option| option.kind == ROUTER_ALERT && option.data == [0, 0])
    })
}
