//! `arp-input`: punts ARP packets to the control thread (RFC 826), under the control-plane policer.

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::arp::{self, ArpError};

use crate::addresses::InterfaceAddresses;
use crate::drops::Drop;
use crate::ethernet::interface_flags::IP4;
use crate::punt::Class;
use crate::shared::Shared;

/// No next nodes.
pub const EDGES: &[&str] = &[];

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(ArpInput { shared: shared.clone() })
}

struct ArpInput {
    shared: Arc<Shared>,
}

impl Node for ArpInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let addresses = self.shared.addresses.read(cx.reader);
        for lane in 0..vector.len() {
            let index = vector.rx_if[lane];
            if self.shared.interface(index).flags() & IP4 == 0 {
                vector.drop_lane(lane, Drop::Ip4Disabled.reason());
                continue;
            }
            match self.class(vector.bytes(lane), index, addresses.of(index)) {
                Ok(class) => self.shared.policers.punt(cx, vector, lane, class),
                Err(reason) => vector.drop_lane(lane, reason.reason()),
            }
        }
        Next::Lanes
    }
}

impl ArpInput {
    /// The policer class of a valid packet: invalid packets do not use up a policer.
    fn class(
        &self,
        bytes: &[u8],
        interface: u32,
        own: Option<&InterfaceAddresses>,
    ) -> Result<Class, Drop> {
        let message = arp::check(bytes).map_err(|error| match error {
            ArpError::BadSenderMac => Drop::ArpSenderMac,
            ArpError::BadSenderAddress => Drop::ArpSenderAddress,
            _ => Drop::ArpMalformed,
        })?;
        let sender = message.sender();
        let is_known = self.shared.known_neighbors.may_contain(interface, sender.into());
        // A configured gateway can be outside the networks of the interface.
        if !message.is_probe() && !is_known && own.is_none_or(|own| !own.is_on_link4(sender)) {
            return Err(Drop::ArpOffLink);
        }
        // Replies to own requests must survive a flood of requests.
        Ok(if message.is_reply() && is_known { Class::ArpReply } else { Class::Arp })
    }
}
