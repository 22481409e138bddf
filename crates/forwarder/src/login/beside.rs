//! Packets that do not pass the arc of their interface: to groups, to all hosts, to and from link-local addresses. All
//! of them are for the router. Unknown hosts get what they need of DHCP, name servers, the portal and the link; virtual
//! routers receive each other's advertisements.

use std::sync::LazyLock;

use stoa_engine::arc::ArcHook;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::DROP;
use stoa_engine::{Vector, clock};
use stoa_wire::protocol::VRRP;

use super::INPUT_NODES;
use super::admits::{Treatment, hop_limit};
use super::input::has_share;
use super::shares::Kind;
use super::source::Framing;
use crate::acl::argument_of;
use crate::arcs::{self, IP4_INPUT, IP6_INPUT};
use crate::drops::Drop;
use crate::flow::fields::{of_ip4, of_ip6};
use crate::icmp::IcmpCause;
use crate::shared::Shared;

/// Where the arguments of the features are.
static HOOK4: LazyLock<ArcHook> = LazyLock::new(|| arcs::hook(IP4_INPUT, INPUT_NODES[0]));
static HOOK6: LazyLock<ArcHook> = LazyLock::new(|| arcs::hook(IP6_INPUT, INPUT_NODES[1]));

/// Decides about an IPv4 packet that does not pass the arc of its interface: `next` if it passes. An answer goes along
/// the edge `error`.
#[cold]
#[inline(never)]
pub fn beside_arc4(
    (shared, reader): (&Shared, &Reader),
    (vector, lane): (&mut Vector, usize),
    (next, error): (u16, u16),
) -> u16 {
    beside_arc((shared, reader), true, (vector, lane), (next, error))
}

/// The same for IPv6.
#[cold]
#[inline(never)]
pub fn beside_arc6(
    (shared, reader): (&Shared, &Reader),
    (vector, lane): (&mut Vector, usize),
    (next, error): (u16, u16),
) -> u16 {
    beside_arc((shared, reader), false, (vector, lane), (next, error))
}

fn beside_arc(
    (shared, reader): (&Shared, &Reader),
    is_ip4: bool,
    (vector, lane): (&mut Vector, usize),
    (next, error): (u16, u16),
) -> u16 {
    let (hook, arc) = match is_ip4 {
        true => (*HOOK4, &shared.arcs.ip4_input),
        false => (*HOOK6, &shared.arcs.ip6_input),
    };
    let interface = vector.rx_if[lane];
    if next & DROP != 0 || argument_of(hook, arc, interface) == 0 {
        return next;
    }
    let Some(of) = shared.logins.read(reader).of(interface) else {
        return Drop::LoginRequired.next();
    };
    let key = Framing::of(shared, interface, of).key(vector, lane);
    if of.hosts.get(key).is_some() {
        return next;
    }
    let bytes = vector.bytes(lane);
    let packet = if is_ip4 { of_ip4(bytes) } else { of_ip6(bytes) };
    // Virtual routers of the link receive each other's advertisements: one that does not becomes a second master.
    if packet.kind.protocol() == VRRP && packet.kind.malformed().is_none() {
        return next;
    }
    let treatment = of.admits.treatment(is_ip4, &packet, hop_limit(is_ip4, bytes), |_| true);
    let kind = match treatment {
        Treatment::Pass => return next,
        Treatment::Drop => return Drop::LoginRequired.next(),
        Treatment::Query => Kind::Query,
        Treatment::Redirect | Treatment::Reset => Kind::Answer,
    };
    if !has_share(shared, kind, (of, interface, key), clock::tsc()) {
        return Drop::LoginShare.next();
    }
    if kind == Kind::Query {
        return next;
    }
    // A link-local address is of the router: nobody looks for a web page there.
    vector.arg[lane] = IcmpCause::Login.code();
    error
}
