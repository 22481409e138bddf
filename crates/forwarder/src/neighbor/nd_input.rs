//! `nd-input`: punts valid neighbour discovery messages to the control thread (RFC 4861 7.1), under
//! the control-plane policer.

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::ipv6;
use stoa_wire::ndp::{self, NdpError};

use crate::drops::Drop;
use crate::ethernet::interface_flags::ADVERTISE6;
use crate::punt::Class;
use crate::shared::Shared;

/// No next nodes.
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
            // A hop limit of 255 does not prove an on-link sender if the packet came through a tunnel.
            if tunnels.has(vector.rx_if[lane]) {
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

/// The policer class of a valid message for the control thread.
fn class(shared: &Shared, bytes: &[u8], interface: u32) -> Result<Class, Drop> {
    let view = ipv6::check(bytes).map_err(|_| Drop::NdMalformed)?;
    let upper = view.upper().map_err(|_| Drop::NdMalformed)?;
    match ndp::check(view.header(), upper.payload).map_err(drop_reason)? {
        ndp::Message::NeighborSolicitation(..) => Ok(Class::Nd),
        // Replies to own solicitations must survive a flood of solicitations.
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
        // The control thread does not use router messages on this interface: they must not use up a
        // policer.
        _ => Err(Drop::Icmp6Ignored),
    }
}

/// The drop reason of each check of RFC 4861.
fn drop_reason(error: NdpError) -> Drop {
    match error {
        NdpError::BadHopLimit => Drop::NdHopLimit,
        NdpError::BadChecksum => Drop::Icmp6Malformed,
        NdpError::BadOption | NdpError::TooManyOptions => Drop::NdOption,
        NdpError::BadSource => Drop::NdSource,
        NdpError::BadDestination => Drop::NdDestination,
        NdpError::BadTarget => Drop::NdTarget,
        NdpError::SolicitedToGroup => Drop::NdSolicitedMulticast,
        NdpError::MacFromUnspecified => Drop::NdSourceLladdr,
        NdpError::Truncated | NdpError::NotNdp | NdpError::BadCode => Drop::NdMalformed,
    }
}
