//! `ip4-local`: validates packets for local addresses and joined groups (RFC 1122 3.2), and sends
//! fragments to reassembly unless Linux gets them. The others go to the arc `ip-local`, at whose end
//! `ip-demux` delivers them; plain packets of tunnels go to `tunnel-input` if there are no features.

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{LaneSet, flags};
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::lpm::Ip4LpmReader;
use stoa_tables::next_hop::Resolved;
use stoa_wire::{ipv4, protocol};

use super::ip4_punt::punt_class;
use crate::addresses::Addresses;
use crate::arcs::{self, IP_LOCAL};
use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::shared::{Shared, SpecialNextHop};
use crate::tunnel::demux::{self, Demux};

/// Next nodes besides those of the arc.
pub const EDGES: &[&str] = &["icmp4-error", "ip4-reassembly", "tunnel-input"];
const ERROR: u16 = 0;
const REASSEMBLE: u16 = 1;
const TUNNEL: u16 = 2;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP_LOCAL, "ip4-local");
    Box::new(Ip4Local { shared: shared.clone(), hook, demux: Demux::new() })
}

struct Ip4Local {
    shared: Arc<Shared>,
    hook: ArcHook,
    demux: Box<Demux<u32>>,
}

impl Node for Ip4Local {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let shared = &*self.shared;
        let (addresses, tunnels) =
            (shared.addresses.read(cx.reader), shared.tunnels.read(cx.reader));
        let mut left = LaneSet::first_of(vector.len());
        let tunneled = self.demux.run((shared, cx.reader), (tunnels, addresses), vector);
        demux::take_last(&tunneled, self.hook, &shared.arcs.ip_local, vector, TUNNEL, &mut left);
        if left.is_empty() {
            return Next::All(TUNNEL);
        }
        for lane in left.iter() {
            match self.validate((cx.reader, addresses), vector, lane) {
                Ok(Valid::Whole) => {
                    let enabled = self.shared.arcs.ip_local.enabled(vector.rx_if[lane]);
                    vector.next[lane] = self.hook.edge(enabled);
                }
                Ok(Valid::Fragment) => vector.next[lane] = REASSEMBLE,
                Err(refused) => refused.apply(vector, lane, ERROR),
            }
        }
        Next::Lanes
    }
}

impl Ip4Local {
    fn validate(
        &self,
        (reader, addresses): (&Reader, &Addresses),
        vector: &Vector,
        lane: usize,
    ) -> Result<Valid, Refused> {
        let (shared, interface) = (&*self.shared, vector.rx_if[lane]);
        let (line, vrf) = (shared.interface(interface), shared.attributes.vrf_of(interface));
        let bytes = vector.bytes(lane);
        let is_own = vector.flags[lane] & flags::OWN != 0;
        // Of control protocols, whose packets another router may send with a local address; of the router when it
        // pings one of its addresses.
        let may_be_local = punt_class(line.flags(), bytes).is_some() || is_own && is_icmp(bytes);
        let view = admit(shared, shared.ip4_table(vrf, reader), bytes, may_be_local)?;
        if !view.header().is_fragment() {
            return Ok(Valid::Whole);
        }
        // With a host interface, Linux is the host, but for the addresses of virtual routers.
        let has_host = !is_own && line.host_pair().is_some();
        match addresses.accepts_virtual(interface, vrf, view.destination().into()) {
            Some(false) => Err(Refused::Drop(Drop::VirtualAddress)),
            None if has_host => Ok(Valid::Whole),
            _ => Ok(Valid::Fragment),
        }
    }
}

fn is_icmp(bytes: &[u8]) -> bool {
    bytes.get(9) == Some(&protocol::ICMP4)
}

/// A packet for a local address.
pub(super) enum Valid {
    /// A whole packet, or a fragment that Linux reassembles.
    Whole,
    /// A fragment.
    Fragment,
}

/// Why a packet is not delivered.
pub(super) enum Refused {
    /// Dropped silently.
    Drop(Drop),
    /// Dropped with an ICMP error to the sender.
    IcmpError(IcmpCause),
}

impl Refused {
    /// Drops a lane, or sends it along the edge to its ICMP error node.
    pub(super) fn apply(self, vector: &mut Vector, lane: usize, error: u16) {
        match self {
            Self::Drop(reason) => vector.drop_lane(lane, reason.reason()),
            Self::IcmpError(cause) => {
                vector.arg[lane] = cause.code();
                vector.next[lane] = error;
            }
        }
    }
}

/// Checks the source address: it must not be a broadcast address or, unless it may be, a local one
/// (LAND attack).
fn admit<'a>(
    shared: &Shared,
    table: Option<&Ip4LpmReader>,
    bytes: &'a [u8],
    may_be_local: bool,
) -> Result<ipv4::View<'a>, Refused> {
    let view = ipv4::check(bytes).map_err(|_| Refused::Drop(Drop::Ip4Truncated))?;
    let back = table.map_or(0, |table| table.lookup(view.source().into()));
    let back = shared.next_hops.resolve(back, 0);
    if let Resolved::Special { code, .. } = back {
        // A reply would go to this router or to a whole network (RFC 1122 3.2.1.3).
        match SpecialNextHop::of(code) {
            SpecialNextHop::Local if !may_be_local => return Err(Refused::Drop(Drop::Land)),
            SpecialNextHop::Broadcast => return Err(Refused::Drop(Drop::Ip4MartianSource)),
            _ => {}
        }
    }
    Ok(view)
}
