//! `icmp6-error`: replaces a dropped packet by an ICMPv6 error to its sender, where an error is
//! allowed (RFC 4443 2.4 and 3).

use std::net::Ipv6Addr;
use std::sync::Arc;

use stoa_engine::quiescence::Reader;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Node};
use stoa_wire::checksum::Pseudo;
use stoa_wire::icmp6::{self, Error, Problem, Unreachable};
use stoa_wire::{ipv6, protocol};

use super::IcmpCause;
use super::error_node::{ErrorNode, Refused};
use crate::acl::reset::reset6;
use crate::addresses::Addresses;
use crate::drops::Drop;
use crate::nptv6;
use crate::shared::Shared;

/// The next node of errors, and that of packets that came in the other family.
pub const EDGES: &[&str] = &["ip6-origin", "icmp4-error"];

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    ErrorNode::boxed(shared, answer)
}

/// Replaces the packet by the ICMPv6 error about it.
fn answer(
    cx: &mut Context<'_>,
    refused: Refused<'_>,
    shared: &Shared,
    addresses: &Addresses,
) -> Result<(), Drop> {
    let (lane, cause) = (refused.lane, refused.cause);
    nptv6::restore(shared, cx.reader, refused.vector, lane);
    let Refused { vector, .. } = &refused;
    let view = ipv6::check(vector.bytes(lane)).map_err(|_| cause.drop(false))?;
    let is_ours = vector.flags[lane] & flags::OWN != 0;
    let is_group = vector.flags[lane] & flags::MULTICAST != 0;
    let upper = view.upper().ok();
    let pointer = upper.as_ref().map_or(6, |upper| upper.named_at as u32);
    let error = error(cause, pointer);
    if is_ours || (is_group && !error.answers_groups()) {
        return Err(cause.drop(false));
    }
    if !icmp6::may_answer(&view, upper.as_ref(), error) {
        return Err(Drop::IcmpNotAllowed);
    }
    let interface = vector.rx_if[lane];
    let is_whole = upper.as_ref().filter(|upper| upper.fragment.is_none());
    let segment = is_whole.filter(|upper| upper.protocol == protocol::TCP);
    if let Some(segment) = segment.filter(|_| cause.resets()) {
        let reset = reset6(&view, segment.payload).ok_or_else(|| cause.drop(false))?;
        if !shared.policers.admit(cx, cause.class(), interface) {
            return Err(Drop::IcmpLimited);
        }
        refused.replace(cx, &reset, cause.drop(false));
        return Ok(());
    }
    let asked = asked_address(&view, interface, (shared, cx.reader), addresses);
    let to_link = view.source().is_unicast_link_local();
    let own = addresses.of(interface).and_then(|own| own.link_local).filter(|_| to_link);
    let source = asked.or(own).or_else(|| addresses.source6(interface)).ok_or(Drop::NoAddress)?;
    if !shared.policers.admit(cx, cause.class(), vector.rx_if[lane]) {
        return Err(Drop::IcmpLimited);
    }
    let pseudo = Pseudo::Ip6 { source, destination: view.source() };
    let mut message = [0; ipv6::LEAST_MTU];
    let (head, body) = message.split_at_mut(ipv6::LENGTH);
    let length = icmp6::build_error(body, &pseudo, error, view.packet());
    let length = length.map_err(|_| cause.drop(false))?;
    let header = ipv6::Builder::new(source, view.source(), protocol::ICMP6);
    header.build(head, length).map_err(|_| cause.drop(false))?;
    let length = ipv6::LENGTH + length;
    refused.replace(cx, &message[..length], cause.drop(false));
    Ok(())
}

/// The destination of the packet if it is a unicast address of this router: the source of errors about it
/// (RFC 4443 2.2 (a)).
fn asked_address(
    view: &ipv6::View<'_>,
    interface: u32,
    (shared, reader): (&Shared, &Reader),
    addresses: &Addresses,
) -> Option<Ipv6Addr> {
    let asked = view.destination();
    if asked.is_unicast_link_local() {
        let own = addresses.of(interface)?;
        return (own.link_local == Some(asked) || own.virtual6.contains(&asked)).then_some(asked);
    }
    let vrf = shared.attributes.vrf_of(interface);
    let is_unicast = !asked.is_multicast() && !addresses.is_anycast(vrf, asked);
    (is_unicast && shared.is_local6((vrf, reader), asked)).then_some(asked)
}

fn error(cause: IcmpCause, pointer: u32) -> Error {
    match cause {
        IcmpCause::NoRoute | IcmpCause::RuleUnreachable | IcmpCause::PrefixSubnet => {
            Error::Unreachable(Unreachable::NoRoute)
        }
        IcmpCause::Unreachable => Error::Unreachable(Unreachable::RejectRoute),
        IcmpCause::LinkDown | IcmpCause::Neighbor => Error::Unreachable(Unreachable::Address),
        IcmpCause::BeyondScope => Error::Unreachable(Unreachable::BeyondScope),
        IcmpCause::Prohibited
        | IcmpCause::RuleProhibited
        | IcmpCause::Login
        | IcmpCause::AclInput
        | IcmpCause::AclOutput
        | IcmpCause::ZonePair
        | IcmpCause::NoPort
        | IcmpCause::Quota
        | IcmpCause::NoFlow(_)
        | IcmpCause::NotGlobal
        | IcmpCause::NotGlobalStateless => Error::Unreachable(Unreachable::Prohibited),
        IcmpCause::Expired => Error::TimeExceeded,
        IcmpCause::TooBig(mtu) => Error::PacketTooBig { mtu: mtu.into() },
        IcmpCause::Protocol => Error::ParameterProblem { problem: Problem::NextHeader, pointer },
        IcmpCause::NextHeader(pointer) => problem(Problem::NextHeader, pointer),
        IcmpCause::Header(pointer) | IcmpCause::PrefixIdentifier(pointer) => {
            problem(Problem::HeaderField, pointer)
        }
        IcmpCause::Option(pointer) => problem(Problem::Option, pointer),
        IcmpCause::FirstFragment => problem(Problem::FirstFragment, 0),
        IcmpCause::Reassembly => Error::ReassemblyTimeExceeded,
        // IPv4 only.
        IcmpCause::SourceRoute => Error::Unreachable(Unreachable::Prohibited),
        IcmpCause::Port => Error::Unreachable(Unreachable::Port),
    }
}

fn problem(problem: Problem, pointer: u16) -> Error {
    Error::ParameterProblem { problem, pointer: pointer.into() }
}
