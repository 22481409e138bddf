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
            let interface = vector.rx_if[lane];
            let vrf = self.shared.attributes.vrf_of(interface);
            let answers_as = |asked: Ipv6Addr| match asked.is_multicast() {
                true => addresses.of(interface).and_then(|own| own.link_local),
                false if addresses.is_anycast(vrf, asked) => addresses.source6(interface),
                false => Some(asked),
            };
            vector.next[lane] = match reply(vector.bytes_mut(lane), answers_as) {
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

/// Converts an echo request to its reply, in place. The source of the reply to a multicast or anycast
/// request is a unicast address of the interface, as `answers_as` returns for the destination. The reply
/// has no extension headers. Returns its length.
fn reply(
    bytes: &mut [u8],
    answers_as: impl Fn(Ipv6Addr) -> Option<Ipv6Addr>,
) -> Result<usize, Drop> {
    let view = ipv6::check(bytes).map_err(|_| Drop::Ip6Truncated)?;
    if view.source().is_unspecified() {
        return Err(Drop::Icmp6Ignored);
    }
    let destination = view.destination();
    let source = answers_as(destination).ok_or(Drop::NoAddress)?;
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
    if source != destination {
        message[2..4].fill(0);
        let length = message.len();
        let sum = stoa_wire::checksum::sum(message) + pseudo.sum(58, length);
        message[2..4].copy_from_slice(&stoa_wire::checksum::finish(sum).to_be_bytes());
    }
    Ok(ipv6::LENGTH + length)
}
