//! `icmp6-error`: turns a packet that cannot go on into an ICMPv6 error to its
//! sender, where that is allowed (RFC 4443 2.4 and 3).

use std::sync::Arc;

use stoa_engine::pool::HEADROOM;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::checksum::Pseudo;
use stoa_wire::icmp6::{self, Error, Problem, Unreachable};
use stoa_wire::{ipv6, protocol};

use super::Trouble;
use crate::drops::Drop;
use crate::punt::Class;
use crate::shared::{Addresses, Shared};

/// Where the error goes.
pub const EDGES: &[&str] = &["ip6-lookup"];
const LOOKUP: u16 = 0;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Icmp6Error { shared: shared.clone() })
}

struct Icmp6Error {
    shared: Arc<Shared>,
}

impl Node for Icmp6Error {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let shared = &self.shared;
        let addresses = shared.addresses.read(cx.reader);
        for lane in 0..vector.len() {
            let trouble = Trouble::of(vector.adjacency[lane]);
            vector.next[lane] = match answer(cx, vector, lane, trouble, shared, addresses) {
                Ok(()) => LOOKUP,
                Err(reason) => reason.next(),
            };
        }
        Next::Lanes
    }
}

/// Replaces the packet by the error about it.
fn answer(
    cx: &mut Context<'_>,
    vector: &mut Vector,
    lane: usize,
    trouble: Trouble,
    shared: &Shared,
    addresses: &Addresses,
) -> Result<(), Drop> {
    let view = ipv6::check(vector.bytes(lane)).map_err(|_| trouble.drop(false))?;
    let is_ours = vector.flags[lane] & flags::OWN != 0;
    let is_group = vector.flags[lane] & flags::MULTICAST != 0;
    let upper = view.upper().ok();
    let pointer = upper.as_ref().map_or(6, |upper| upper.named_at as u32);
    let error = error(trouble, pointer);
    if is_ours || (is_group && !error.answers_groups()) {
        return Err(trouble.drop(false));
    }
    if !icmp6::may_answer(&view, upper.as_ref(), error) {
        return Err(Drop::IcmpNotAllowed);
    }
    let interface = vector.rx_if[lane];
    let to_link = view.source().is_unicast_link_local();
    let own = addresses.of(interface).and_then(|own| own.link_local).filter(|_| to_link);
    let source = own.or_else(|| addresses.source6(interface)).ok_or(Drop::NoAddress)?;
    if !shared.budgets.admit(cx, Class::Error, vector.rx_if[lane]) {
        return Err(Drop::IcmpLimited);
    }
    let pseudo = Pseudo::Ip6 { source, destination: view.source() };
    let mut message = [0; ipv6::LEAST_MTU];
    let (head, body) = message.split_at_mut(ipv6::LENGTH);
    let length = icmp6::build_error(body, &pseudo, error, view.packet());
    let length = length.map_err(|_| trouble.drop(false))?;
    let header = ipv6::Builder::new(source, view.source(), protocol::ICMP6);
    header.build(head, length).map_err(|_| trouble.drop(false))?;
    let length = ipv6::LENGTH + length;
    cx.answered(trouble.drop(false).reason(), vector, lane);
    vector.slot_mut(lane)[HEADROOM..HEADROOM + length].copy_from_slice(&message[..length]);
    vector.offset[lane] = HEADROOM as u16;
    vector.length[lane] = length as u16;
    vector.make_own(lane);
    Ok(())
}

fn error(trouble: Trouble, pointer: u32) -> Error {
    match trouble {
        Trouble::NoRoute => Error::Unreachable(Unreachable::NoRoute),
        Trouble::Unreachable => Error::Unreachable(Unreachable::RejectRoute),
        Trouble::LinkDown | Trouble::Neighbor => Error::Unreachable(Unreachable::Address),
        Trouble::BeyondScope => Error::Unreachable(Unreachable::BeyondScope),
        Trouble::Prohibited => Error::Unreachable(Unreachable::Prohibited),
        Trouble::Expired => Error::TimeExceeded,
        Trouble::TooBig(mtu) => Error::PacketTooBig { mtu: mtu.into() },
        Trouble::Protocol => Error::ParameterProblem { problem: Problem::NextHeader, pointer },
        Trouble::NextHeader(pointer) => problem(Problem::NextHeader, pointer),
        Trouble::Header(pointer) => problem(Problem::HeaderField, pointer),
        Trouble::Option(pointer) => problem(Problem::Option, pointer),
        Trouble::FirstFragment => problem(Problem::FirstFragment, 0),
        Trouble::Reassembly => Error::ReassemblyTimeExceeded,
        // IPv4 alone has source routes of this kind.
        Trouble::SourceRoute => Error::Unreachable(Unreachable::Prohibited),
        Trouble::Port => Error::Unreachable(Unreachable::Port),
    }
}

fn problem(problem: Problem, pointer: u16) -> Error {
    Error::ParameterProblem { problem, pointer: pointer.into() }
}
