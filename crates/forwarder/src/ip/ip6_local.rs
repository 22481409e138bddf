//! `ip6-local`: validates packets for local addresses and joined groups (RFC 8200 4), and sends
//! fragments to reassembly unless Linux gets them. The others go to the arc `ip-local`, at whose end
//! `ip-demux` delivers them; plain packets of tunnels go to `tunnel-input` if there are no features.

use std::net::Ipv6Addr;
use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::vector::{LaneSet, flags};
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::lpm::Ip6LpmReader;
use stoa_tables::next_hop::Resolved;
use stoa_wire::{ipv6, ndp, protocol, vrrp};

use super::ip4_local::{Refused, Valid};
use super::ip6_chain::{self, Carried, Chain};
use crate::addresses::Addresses;
use crate::arcs::{self, IP_LOCAL};
use crate::drops::Drop;
use crate::ethernet::interface_flags::VRRP6;
use crate::shared::{Shared, SpecialNextHop};
use crate::tunnel::demux::{self, Demux};

/// Next nodes besides those of the arc.
pub const EDGES: &[&str] = &["icmp6-error", "ip6-reassembly", "tunnel-input"];
const ERROR: u16 = 0;
const REASSEMBLE: u16 = 1;
const TUNNEL: u16 = 2;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP_LOCAL, "ip6-local");
    Box::new(Ip6Local { shared: shared.clone(), hook, demux: Demux::new() })
}

struct Ip6Local {
    shared: Arc<Shared>,
    hook: ArcHook,
    demux: Box<Demux<u128>>,
}

impl Node for Ip6Local {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let shared = &*self.shared;
        let addresses = shared.addresses.read(cx.reader);
        let mut left = LaneSet::first_of(vector.len());
        let tunnels = shared.tunnels.read(cx.reader);
        let tunneled = self.demux.run((shared, cx.reader), (tunnels, addresses), vector);
        demux::take_last(&tunneled, self.hook, &shared.arcs.ip_local, vector, TUNNEL, &mut left);
        if left.is_empty() {
            return Next::All(TUNNEL);
        }
        for lane in left.iter() {
            let interface = vector.rx_if[lane];
            let vrf = shared.attributes.vrf_of(interface);
            let table = shared.ip6_table(vrf, cx.reader);
            // With a host interface, Linux is the host.
            let is_own = vector.flags[lane] & flags::OWN != 0;
            let has_host = !is_own && shared.interface(interface).host_pair().is_some();
            let validation =
                Validation { shared, table, addresses, interface, vrf, is_own, has_host };
            match validation.run(vector.bytes(lane)) {
                Ok(Valid::Whole) => {
                    vector.next[lane] = self.hook.edge(shared.arcs.ip_local.enabled(interface));
                }
                Ok(Valid::Fragment) => vector.next[lane] = REASSEMBLE,
                Err(refused) => refused.apply(vector, lane, ERROR),
            }
        }
        Next::Lanes
    }
}

struct Validation<'a> {
    shared: &'a Shared,
    table: Option<&'a Ip6LpmReader>,
    addresses: &'a Addresses,
    interface: u32,
    vrf: u32,
    is_own: bool,
    has_host: bool,
}

impl Validation<'_> {
    fn run(&self, bytes: &[u8]) -> Result<Valid, Refused> {
        let view = ipv6::check(bytes).map_err(|_| Refused::Drop(Drop::Ip6Truncated))?;
        match ip6_chain::process(&view, view.destination().is_multicast())? {
            Chain::Whole(carried) => {
                if !self.may_be_local(&view, &carried)? {
                    self.check_land(view.source())?;
                }
                Ok(Valid::Whole)
            }
            Chain::Fragment => {
                self.check_land(view.source())?;
                // Linux does not have the addresses of virtual routers, nor anycast addresses.
                let to = view.destination();
                let is_anycast = self.addresses.is_anycast(self.vrf, to);
                match self.addresses.accepts_virtual(self.interface, self.vrf, to.into()) {
                    Some(false) => Err(Refused::Drop(Drop::VirtualAddress)),
                    None if self.has_host && !is_anycast => Ok(Valid::Whole),
                    _ => Ok(Valid::Fragment),
                }
            }
        }
    }

    /// Whether a local source is no attack: of neighbour discovery, where it is a conflict that the
    /// control thread handles, of the advertisement of another virtual router, and of the router itself when it
    /// pings one of its addresses.
    fn may_be_local(&self, view: &ipv6::View<'_>, carried: &Carried) -> Result<bool, Refused> {
        if carried.protocol == protocol::ICMP6 {
            let kind = view.packet().get(carried.offset);
            let is_discovery = kind.is_some_and(|kind| ndp::is_ndp(*kind));
            // Not behind a fragment header (RFC 6980).
            return match is_discovery && carried.was_fragment {
                true => Err(Refused::Drop(Drop::NdMalformed)),
                false => Ok(is_discovery || self.is_own),
            };
        }
        let has_routers = self.shared.interface(self.interface).flags() & VRRP6 != 0;
        let is_vrrp = carried.protocol == protocol::VRRP && view.destination() == vrrp::GROUP6;
        Ok(has_routers && is_vrrp)
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
