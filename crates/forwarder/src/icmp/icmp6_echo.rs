//! `icmp6-echo`: replies to echo requests to local addresses (RFC 4443 4.2).

use std::net::Ipv6Addr;
use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::checksum::Pseudo;
use stoa_wire::{icmp6, ipv6, protocol};

use crate::drops::Drop;
use crate::punt::Class;
use crate::shared::Shared;

/// The next node of replies.
pub const EDGES: &[&str] = &["ip6-origin"];
const ORIGIN: u16 = 0;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Icmp6Echo { shared: shared.clone() })
}

struct Icmp6Echo {
    shared: Arc<Shared>,
}

impl Node for Icmp6Echo {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let addresses = self.shared.addresses.read(cx.reader);
        for lane in 0..vector.len() {
            if !self.shared.policers.admit(cx, Class::Echo, vector.rx_if[lane]) {
                vector.drop_lane(lane, Drop::IcmpLimited.reason());
                continue;
            }
            let own = addresses.of(vector.rx_if[lane]);
            let link_local = own.and_then(|own| own.link_local);
            vector.next[lane] = match reply(vector.bytes_mut(lane), link_local) {
                Ok(length) => {
                    vector.length[lane] = length as u16;
                    vector.make_own(lane);
                    ORIGIN
                }
                Err(reason) => reason.next(),
            };
        }
        Next::Lanes
    }
}

/// Converts an echo request to its reply, in place. The source of the reply to a multicast request
/// is `link_local`. The reply has no extension headers. Returns its length.
fn reply(bytes: &mut [u8], link_local: Option<Ipv6Addr>) -> Result<usize, Drop> {
    let view = ipv6::check(bytes).map_err(|_| Drop::Ip6Truncated)?;
    if view.source().is_unspecified() {
        return Err(Drop::Icmp6Ignored);
    }
    let destination = view.destination();
    let source = if destination.is_multicast() { link_local } else { Some(destination) };
    let source = source.ok_or(Drop::NoAddress)?;
    let upper = view.upper().map_err(|_| Drop::Ip6Extension)?;
    let (start, length) = (upper.offset, upper.payload.len());
    let answer = ipv6::Builder {
        source,
        destination: view.source(),
        hop_limit: 64,
        next_header: protocol::ICMP6,
        ..ipv6::Builder::of(&view)
    };
    let pseudo = Pseudo::Ip6 { source, destination: view.source() };
    answer.build(bytes, length).map_err(|_| Drop::Icmp6Malformed)?;
    bytes.copy_within(start..start + length, ipv6::LENGTH);
    let message = bytes.get_mut(ipv6::LENGTH..ipv6::LENGTH + length).ok_or(Drop::Icmp6Malformed)?;
    if !icmp6::reply_in_place(message) {
        return Err(Drop::Icmp6Ignored);
    }
    if destination.is_multicast() {
        message[2..4].fill(0);
        let length = message.len();
        let sum = stoa_wire::checksum::sum(message) + pseudo.sum(58, length);
        message[2..4].copy_from_slice(&stoa_wire::checksum::finish(sum).to_be_bytes());
    }
    Ok(ipv6::LENGTH + length)
}
