//! `ip6-local`: delivers packets for local addresses and joined groups (RFC 8200 4).

use std::net::Ipv6Addr;
use std::sync::Arc;

use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::lpm::Ip6LpmReader;
use stoa_tables::next_hop::Resolved;
use stoa_wire::icmp6::kind;
use stoa_wire::{icmp6, ipv6, ndp, protocol, vrrp};

use super::ip4_local::Refused;
use super::ip6_chain::{self, Carried, Chain};
use crate::bfd::Peers;
use crate::drops::Drop;
use crate::ethernet::interface_flags::{ADVERTISE6, VRRP6};
use crate::host_interface::{Payload, to_host};
use crate::icmp::IcmpCause;
use crate::punt::Class;
use crate::shared::{Addresses, Shared, SpecialNextHop};
use crate::tunnel::Tunnels;

/// Next nodes.
pub const EDGES: &[&str] = &[
    "icmp6-echo",
    "nd-input",
    "icmp6-error",
    "ip6-reassembly",
    "host-interface-output",
    "tunnel-input",
];
const ECHO: u16 = 0;
const ND: u16 = 1;
const ERROR: u16 = 2;
const REASSEMBLE: u16 = 3;
const HOST_INTERFACE: u16 = 4;
const TUNNEL: u16 = 5;
/// Not edges: punt to the control thread.
const QUERY: u16 = 0x100;
const VRRP: u16 = 0x101;
const BFD: u16 = 0x102;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip6Local { shared: shared.clone() })
}

struct Ip6Local {
    shared: Arc<Shared>,
}

impl Node for Ip6Local {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let addresses = self.shared.addresses.read(cx.reader);
        let tunnels = self.shared.tunnels.read(cx.reader);
        let peers = self.shared.bfd.read(cx.reader);
        for lane in 0..vector.len() {
            let interface = vector.rx_if[lane];
            let table = self.shared.ip6_table(self.shared.attributes.vrf_of(interface), cx.reader);
            // With a host interface, Linux is the host.
            let host_device = self.shared.interface(interface).host_pair();
            let host_device = host_device.filter(|_| vector.flags[lane] & flags::OWN == 0);
            let has_host_interface = host_device.is_some();
            let shared = &self.shared;
            let delivery = Delivery {
                shared,
                table,
                addresses,
                tunnels,
                peers,
                interface,
                has_host_interface,
            };
            match delivery.deliver(vector.bytes(lane)) {
                Ok(QUERY) => {
                    self.shared.policers.punt(cx, vector, lane, Class::Listener);
                }
                Ok(VRRP | BFD) => self.shared.policers.punt(cx, vector, lane, Class::Routing),
                Ok(HOST_INTERFACE) => {
                    let host_device = host_device.unwrap_or_default();
                    vector.next[lane] =
                        to_host(vector, lane, (host_device, Payload::Ip6), HOST_INTERFACE);
                }
                Ok(next) => vector.next[lane] = next,
                Err(Refused::Drop(reason)) => vector.drop_lane(lane, reason.reason()),
                Err(Refused::IcmpError(cause)) => {
                    vector.adjacency[lane] = cause.code();
                    vector.next[lane] = ERROR;
                }
            }
        }
        Next::Lanes
    }
}

struct Delivery<'a> {
    shared: &'a Shared,
    table: Option<&'a Ip6LpmReader>,
    addresses: &'a Addresses,
    tunnels: &'a Tunnels,
    peers: &'a Peers,
    interface: u32,
    has_host_interface: bool,
}

impl Delivery<'_> {
    fn deliver(&self, bytes: &[u8]) -> Result<u16, Refused> {
        let view = ipv6::check(bytes).map_err(|_| Refused::Drop(Drop::Ip6Truncated))?;
        let carried = match ip6_chain::process(&view, view.destination().is_multicast())? {
            Chain::Whole(carried) => carried,
            Chain::Fragment => {
                self.check_land(view.source())?;
                let has_host_interface = self.goes_to_host(view.destination())?;
                return Ok(if has_host_interface { HOST_INTERFACE } else { REASSEMBLE });
            }
        };
        if carried.protocol == protocol::ICMP6 {
            return self.icmp(&view, &carried);
        }
        let line = self.shared.interface(self.interface);
        // Before the check for LAND: the advertisement of another router may have a local source.
        if carried.protocol == protocol::VRRP
            && line.flags() & VRRP6 != 0
            && view.destination() == vrrp::GROUP6
        {
            return Ok(VRRP);
        }
        let has_host_interface = self.goes_to_host(view.destination())?;
        self.check_land(view.source())?;
        let ends = (view.source().into(), view.destination().into());
        let vrf = self.shared.attributes.vrf_of(self.interface);
        let payload = view.packet().get(carried.offset..).unwrap_or(&[]);
        let carried_packet = (view.header().hop_limit, carried.protocol, payload);
        match carried.protocol {
            _ if self.peers.is_session_packet(self.interface, ends.0, carried_packet) => Ok(BFD),
            protocol if self.tunnels.from(vrf, ends, protocol).is_some() => Ok(TUNNEL),
            _ if has_host_interface => Ok(HOST_INTERFACE),
            protocol::UDP => Err(Refused::IcmpError(IcmpCause::Port)),
            protocol::TCP => Err(Refused::Drop(Drop::TcpNoListener)),
            protocol::NO_NEXT_HEADER => Err(Refused::Drop(Drop::Ip6NoNextHeader)),
            _ => Err(Refused::IcmpError(IcmpCause::NextHeader(carried.named_at as u16))),
        }
    }

    fn icmp(&self, view: &ipv6::View<'_>, carried: &Carried) -> Result<u16, Refused> {
        let message = view.packet().get(carried.offset..).unwrap_or(&[]);
        let message = icmp6::check(message, &view.pseudo());
        let message = message.map_err(|_| Refused::Drop(Drop::Icmp6Malformed))?;
        let kind = message.header().kind;
        if ndp::is_ndp(kind) {
            // Not behind a fragment header (RFC 6980). A local source address is a conflict, which
            // the control thread handles. Neighbour messages are always punted; router messages go
            // to the daemons behind the host interface unless the router advertises itself.
            let of_neighbors =
                matches!(kind, kind::NEIGHBOR_SOLICITATION | kind::NEIGHBOR_ADVERTISEMENT);
            let advertises = self.shared.interface(self.interface).flags() & ADVERTISE6 != 0;
            let is_ours = of_neighbors || advertises && kind != kind::REDIRECT;
            return match (carried.was_fragment, self.has_host_interface && !is_ours) {
                (true, _) => Err(Refused::Drop(Drop::NdMalformed)),
                (_, true) => Ok(HOST_INTERFACE),
                (_, false) => Ok(ND),
            };
        }
        self.check_land(view.source())?;
        match kind {
            // Linux has joined the same groups and reports them.
            _ if self.goes_to_host(view.destination())? => Ok(HOST_INTERFACE),
            kind::ECHO_REQUEST => Ok(ECHO),
            // RFC 3810 5.1.14, 6.2: only from the link.
            kind::LISTENER_QUERY
                if view.source().is_unicast_link_local() && view.header().hop_limit == 1 =>
            {
                Ok(QUERY)
            }
            kind::LISTENER_QUERY
            | kind::LISTENER_REPORT
            | kind::LISTENER_DONE
            | kind::LISTENER_REPORT_2 => Err(Refused::Drop(Drop::MldConsumed)),
            _ => Err(Refused::Drop(Drop::Icmp6Ignored)),
        }
    }

    /// Whether a packet to this address goes to Linux, which does not have the addresses of virtual
    /// routers. Without accept mode, a virtual router accepts no packets (RFC 9568 6.4.3).
    fn goes_to_host(&self, destination: Ipv6Addr) -> Result<bool, Refused> {
        let vrf = self.shared.attributes.vrf_of(self.interface);
        match self.addresses.accepts_virtual(self.interface, vrf, destination.into()) {
            Some(false) => Err(Refused::Drop(Drop::VirtualAddress)),
            Some(true) => Ok(false),
            None => Ok(self.has_host_interface),
        }
    }

    /// Drops packets with a local source address, which would make the router reply to itself.
    fn check_land(&self, source: Ipv6Addr) -> Result<(), Refused> {
        let link_local = self.addresses.of(self.interface).and_then(|own| own.link_local);
        let back = self.table.map_or(0, |table| table.lookup(source.into()));
        let back = self.shared.next_hops.resolve(back, 0);
        let is_own = matches!(back, Resolved::Special { code, .. }
            if SpecialNextHop::of(code) == SpecialNextHop::Local);
        if is_own || link_local == Some(source) { Err(Refused::Drop(Drop::Land)) } else { Ok(()) }
    }
}
