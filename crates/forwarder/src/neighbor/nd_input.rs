//! `nd-input`: hands neighbour discovery messages that pass their checks to the
//! control thread, within a budget (RFC 4861 7.1).

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::ipv6;
use stoa_wire::ndp::{self, NdpError};

use crate::drops::Drop;
use crate::ethernet::interface_flags::ADVERTISE6;
use crate::punt::Class;
use crate::shared::Shared;

/// Nothing goes on from here.
pub const EDGES: &[&str] = &[];

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(NdInput { shared: shared.clone() })
}

struct NdInput {
    shared: Arc<Shared>,
}

impl Node for NdInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let tunnels = self.shared.tunnels.read(cx.reader);
        for lane in 0..vector.len() {
            // The hop limit says nothing of who is near when a tunnel has carried it.
            if tunnels.of(vector.rx_if[lane]).is_some() {
                vector.drop_lane(lane, Drop::TunnelNeighbor.reason());
                continue;
            }
            match class(&self.shared, vector.bytes(lane), vector.rx_if[lane]) {
                Ok(class) => self.shared.policers.punt(cx, vector, lane, class),
                Err(reason) => vector.drop_lane(lane, reason.reason()),
            }
        }
        Next::Lanes
    }
}

/// The class of a message that passes its checks and concerns us.
fn class(shared: &Shared, bytes: &[u8], interface: u32) -> Result<Class, Drop> {
    let view = ipv6::check(bytes).map_err(|_| Drop::NdMalformed)?;
    let upper = view.upper().map_err(|_| Drop::NdMalformed)?;
    match ndp::check(view.header(), upper.payload).map_err(lie)? {
        ndp::Message::NeighborSolicitation(..) => Ok(Class::Nd),
        // Answers to our own questions must survive a flood of others' questions.
        ndp::Message::NeighborAdvertisement(message, _)
            if shared.known_neighbors.may_contain(interface, message.target().into()) =>
        {
            Ok(Class::NdReply)
        }
        ndp::Message::NeighborAdvertisement(..) => Ok(Class::Nd),
        ndp::Message::RouterSolicitation(..) | ndp::Message::RouterAdvertisement(..)
            if shared.interface(interface).flags() & ADVERTISE6 != 0 =>
        {
            Ok(Class::Solicitation)
        }
        // Nobody here acts on routers' messages: they must not use up the budget.
        _ => Err(Drop::Icmp6Ignored),
    }
}

/// The reason for each rule of RFC 4861 that a message breaks.
fn lie(error: NdpError) -> Drop {
    match error {
        NdpError::BadHopLimit => Drop::NdHopLimit,
        NdpError::BadChecksum => Drop::Icmp6Malformed,
        NdpError::BadOption | NdpError::TooManyOptions => Drop::NdOption,
        NdpError::BadSource => Drop::NdSource,
        NdpError::BadDestination => Drop::NdDestination,
        NdpError::BadTarget => Drop::NdTarget,
        NdpError::SolicitedToGroup => Drop::NdSolicitedMulticast,
        NdpError::MacFromNobody => Drop::NdSourceLladdr,
        NdpError::Truncated | NdpError::NotNdp | NdpError::BadCode => Drop::NdMalformed,
    }
}
