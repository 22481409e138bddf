//! `ip4-local`: delivers packets for local addresses and joined groups (RFC 1122 3.2).

use std::sync::Arc;

use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::lpm::Ip4LpmReader;
use stoa_tables::next_hop::Resolved;
use stoa_wire::{ipv4, protocol};

use super::ip4_punt::punt_class;
use crate::bfd::Peers;
use crate::drops::Drop;
use crate::host_interface::{Payload, to_host};
use crate::icmp::IcmpCause;
use crate::punt::Class;
use crate::shared::{Shared, SpecialNextHop};
use crate::tunnel::Tunnels;

/// Next nodes.
pub const EDGES: &[&str] =
    &["icmp4-echo", "icmp4-error", "ip4-reassembly", "host-interface-output", "tunnel-input"];
const ECHO: u16 = 0;
const ERROR: u16 = 1;
const REASSEMBLE: u16 = 2;
const HOST_INTERFACE: u16 = 3;
const TUNNEL: u16 = 4;
/// Not an edge: punt to the control thread.
const BFD: u16 = 0x100;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip4Local { shared: shared.clone() })
}

struct Ip4Local {
    shared: Arc<Shared>,
}

impl Node for Ip4Local {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let shared = &self.shared;
        let (tunnels, peers) = (shared.tunnels.read(cx.reader), shared.bfd.read(cx.reader));
        let addresses = shared.addresses.read(cx.reader);
        for lane in 0..vector.len() {
            let line = shared.interface(vector.rx_if[lane]);
            let vrf = shared.attributes.vrf_of(vector.rx_if[lane]);
            let table = shared.ip4_table(vrf, cx.reader);
            if let Some(class) = punt_class(line.flags(), vector.bytes(lane)) {
                shared.policers.punt(cx, vector, lane, class);
                continue;
            }
            let bytes = vector.bytes(lane);
            // With a host interface, Linux is the host.
            let host_device = line.host_pair().filter(|_| vector.flags[lane] & flags::OWN == 0);
            let interface = vector.rx_if[lane];
            let delivered = match admit(shared, table, bytes) {
                Err(refused) => Err(refused),
                Ok(view) if is_tunneled(tunnels, vrf, &view) => Ok(TUNNEL),
                Ok(view) if is_bfd(peers, interface, &view) => Ok(BFD),
                Ok(view) => {
                    match (
                        addresses.accepts_virtual(interface, vrf, view.destination().into()),
                        host_device,
                    ) {
                        (Some(false), _) => Err(Refused::Drop(Drop::VirtualAddress)),
                        (None, Some(host_device)) => {
                            Ok(to_host(vector, lane, (host_device, Payload::Ip4), HOST_INTERFACE))
                        }
                        // Linux does not have the addresses of virtual routers.
                        (Some(true), _) | (None, None) => deliver(&view),
                    }
                }
            };
            vector.next[lane] = match delivered {
                Ok(BFD) => {
                    shared.policers.punt(cx, vector, lane, Class::Routing);
                    continue;
                }
                Ok(next) => next,
                Err(Refused::Drop(reason)) => reason.next(),
                Err(Refused::IcmpError(cause)) => {
                    vector.adjacency[lane] = cause.code();
                    ERROR
                }
            };
        }
        Next::Lanes
    }
}

/// Why a packet is not delivered.
pub(super) enum Refused {
    /// Dropped silently.
    Drop(Drop),
    /// Dropped with an ICMP error to the sender.
    IcmpError(IcmpCause),
}

/// Checks the source address: it must not be local (LAND attack) or a broadcast address.
fn admit<'a>(
    shared: &Shared,
    table: Option<&Ip4LpmReader>,
    bytes: &'a [u8],
) -> Result<ipv4::View<'a>, Refused> {
    let view = ipv4::check(bytes).map_err(|_| Refused::Drop(Drop::Ip4Truncated))?;
    let back = table.map_or(0, |table| table.lookup(view.source().into()));
    let back = shared.next_hops.resolve(back, 0);
    if let Resolved::Special { code, .. } = back {
        // A reply would go to this router or to a whole network (RFC 1122 3.2.1.3).
        match SpecialNextHop::of(code) {
            SpecialNextHop::Local => return Err(Refused::Drop(Drop::Land)),
            SpecialNextHop::Broadcast => return Err(Refused::Drop(Drop::Ip4MartianSource)),
            _ => {}
        }
    }
    Ok(view)
}

/// Whether an unfragmented packet belongs to a configured tunnel.
fn is_tunneled(tunnels: &Tunnels, vrf: u32, view: &ipv4::View<'_>) -> bool {
    let ends = (view.source().into(), view.destination().into());
    !view.header().is_fragment() && tunnels.from(vrf, ends, view.header().protocol).is_some()
}

/// Whether an unfragmented packet belongs to a BFD session.
fn is_bfd(peers: &Peers, interface: u32, view: &ipv4::View<'_>) -> bool {
    let header = view.header();
    let carried = (header.time_to_live, header.protocol, view.payload());
    !view.header().is_fragment()
        && peers.is_session_packet(interface, view.source().into(), carried)
}

fn deliver(view: &ipv4::View<'_>) -> Result<u16, Refused> {
    if view.header().is_fragment() {
        return Ok(REASSEMBLE);
    }
    match view.header().protocol {
        protocol::ICMP4 => Ok(ECHO),
        protocol::IGMP => Err(Refused::Drop(Drop::IgmpConsumed)),
        protocol::UDP => Err(Refused::IcmpError(IcmpCause::Port)),
        protocol::TCP => Err(Refused::Drop(Drop::TcpNoListener)),
        _ => Err(Refused::IcmpError(IcmpCause::Protocol)),
    }
}
