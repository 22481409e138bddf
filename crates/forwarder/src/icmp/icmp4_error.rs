//! `icmp4-error`: replaces a dropped packet by an ICMP error to its sender, where an error is allowed
//! (RFC 1812 4.3.2, RFC 1191).

use std::sync::Arc;

use stoa_engine::vector::flags;
use stoa_engine::{Context, Node};
use stoa_wire::icmp4::{self, Error, Unreachable};
use stoa_wire::{ipv4, protocol};

use super::IcmpCause;
use super::error_node::{ErrorNode, Refused};
use crate::acl::reset::reset4;
use crate::addresses::Addresses;
use crate::drops::Drop;
use crate::nat;
use crate::shared::Shared;

/// The next node of errors, and that of packets that came in the other family.
pub const EDGES: &[&str] = &["ip4-origin", "icmp6-error"];

/// The longest error (RFC 1812 4.3.2.3).
const LONGEST: usize = 576;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    ErrorNode::boxed(shared, answer)
}

/// Replaces the packet by the ICMP error about it.
fn answer(
    cx: &mut Context<'_>,
    refused: Refused<'_>,
    shared: &Shared,
    addresses: &Addresses,
) -> Result<(), Drop> {
    let (lane, cause) = (refused.lane, refused.cause);
    if !nat::restore(shared, refused.vector, lane) {
        return Err(cause.drop(true));
    }
    let Refused { vector, .. } = &refused;
    let view = ipv4::check(vector.bytes(lane)).map_err(|_| cause.drop(true))?;
    let is_ours = vector.flags[lane] & flags::OWN != 0;
    let is_group = vector.flags[lane] & flags::MULTICAST != 0;
    if is_ours || is_group {
        return Err(cause.drop(true));
    }
    let too_big = matches!(cause, IcmpCause::TooBig(_));
    if too_big && !view.header().dont_fragment() {
        return Err(cause.drop(true));
    }
    if !icmp4::may_answer(&view) {
        return Err(Drop::IcmpNotAllowed);
    }
    let is_whole_tcp = view.header().protocol == protocol::TCP && !view.header().is_fragment();
    if cause.resets() && is_whole_tcp {
        let reset = reset4(&view).ok_or_else(|| cause.drop(true))?;
        if !shared.policers.admit(cx, cause.class(), vector.rx_if[lane]) {
            return Err(Drop::IcmpLimited);
        }
        refused.replace(cx, &reset, cause.drop(true));
        return Ok(());
    }
    let source = addresses.source4(vector.rx_if[lane]).ok_or(Drop::NoAddress)?;
    if !shared.policers.admit(cx, cause.class(), vector.rx_if[lane]) {
        return Err(Drop::IcmpLimited);
    }
    let mut message = [0; LONGEST];
    let (head, body) = message.split_at_mut(ipv4::LENGTH);
    let body_length = icmp4::build_error(body, error(cause), view.packet());
    let body_length = body_length.map_err(|_| cause.drop(true))?;
    // RFC 1812 4.3.2.5: errors carry precedence 6.
    let header = ipv4::Builder {
        dscp_ecn: 0xc0,
        ..ipv4::Builder::new(source, view.source(), protocol::ICMP4)
    };
    header.build(head, body_length).map_err(|_| cause.drop(true))?;
    let length = ipv4::LENGTH + body_length;
    refused.replace(cx, &message[..length], cause.drop(true));
    Ok(())
}

fn error(cause: IcmpCause) -> Error {
    match cause {
        // As in Linux, a rule causes network unreachable, not host unreachable.
        IcmpCause::NoRoute | IcmpCause::RuleUnreachable => Error::Unreachable(Unreachable::Network),
        IcmpCause::Unreachable
        | IcmpCause::LinkDown
        | IcmpCause::Neighbor
        | IcmpCause::BeyondScope
        // IPv6 only.
        | IcmpCause::PrefixSubnet
        | IcmpCause::PrefixIdentifier(_)
        | IcmpCause::NotGlobal
        | IcmpCause::NotGlobalStateless => Error::Unreachable(Unreachable::Host),
        IcmpCause::Prohibited
        | IcmpCause::RuleProhibited
        | IcmpCause::AclInput
        | IcmpCause::AclOutput
        | IcmpCause::ZonePair
        | IcmpCause::Login
        | IcmpCause::NoPort
        | IcmpCause::Quota
        | IcmpCause::NoFlow(_) => Error::Unreachable(Unreachable::Prohibited),
        IcmpCause::Expired => Error::TimeExceeded,
        IcmpCause::TooBig(mtu) => Error::FragmentationNeeded { mtu },
        IcmpCause::Protocol | IcmpCause::NextHeader(_) => Error::Unreachable(Unreachable::Protocol),
        IcmpCause::SourceRoute => Error::Unreachable(Unreachable::SourceRoute),
        IcmpCause::Header(pointer) | IcmpCause::Option(pointer) => {
            Error::ParameterProblem { pointer: pointer.min(u8::MAX.into()) as u8 }
        }
        IcmpCause::FirstFragment => Error::ParameterProblem { pointer: 0 },
        IcmpCause::Reassembly => Error::ReassemblyTimeExceeded,
        IcmpCause::Port => Error::Unreachable(Unreachable::Port),
    }
}
