//! `ip4-login-redirect` and `ip6-login-redirect`: answer TCP segments to port 80 of unknown hosts as a web server that
//! knows one answer, the address of the portal. Nothing is remembered about connections, and nothing of a request is
//! read: neither its host nor its path can lead elsewhere.

use std::sync::Arc;

use stoa_engine::pool::HEADROOM;
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::FlowKey;
use stoa_wire::checksum::Pseudo;
use stoa_wire::tcp_redirect::{self, Server};
use stoa_wire::{ipv4, ipv6, protocol, tcp};

use crate::acl::flow_vrf;
use crate::drops::Drop;
use crate::flow::cookie;
use crate::punt::Class;
use crate::shared::Shared;

/// The next node of answers over IPv4.
pub const EDGES4: &[&str] = &["ip4-origin"];
/// The next node of answers over IPv6.
pub const EDGES6: &[&str] = &["ip6-origin"];
const ORIGIN: u16 = 0;

/// The longest answer.
const LONGEST: usize = ipv6::LENGTH + tcp_redirect::LONGEST;

/// Makes the IPv4 node of one worker.
pub fn make4(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Redirect { shared: shared.clone(), is_ip4: true })
}

/// Makes the IPv6 node of one worker.
pub fn make6(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Redirect { shared: shared.clone(), is_ip4: false })
}

struct Redirect {
    shared: Arc<Shared>,
    is_ip4: bool,
}

impl Node for Redirect {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            let mut packet = [0; LONGEST];
            let length = self.answer(cx, (vector, lane), &mut packet);
            let bytes = length.and_then(|length| packet.get(..length));
            let Some(bytes) = bytes else {
                vector.next[lane] = Drop::LoginRequired.next();
                continue;
            };
            if !self.shared.policers.admit(cx, Class::Login, vector.rx_if[lane]) {
                vector.next[lane] = Drop::LoginLimited.next();
                continue;
            }
            cx.answered(Drop::LoginRequired.reason(), vector, lane);
            let slot = vector.slot_mut(lane);
            if let Some(to) = slot.get_mut(HEADROOM..HEADROOM + bytes.len()) {
                to.copy_from_slice(bytes);
            }
            vector.offset[lane] = HEADROOM as u16;
            vector.length[lane] = bytes.len() as u16;
            vector.make_own(lane);
            vector.next[lane] = ORIGIN;
        }
        Next::Lanes
    }
}

impl Redirect {
    /// Writes the answer to a segment; its length. `None`: it gets none.
    fn answer(
        &self,
        cx: &Context<'_>,
        (vector, lane): (&Vector, usize),
        packet: &mut [u8; LONGEST],
    ) -> Option<usize> {
        let of = self.shared.logins.read(cx.reader).of(vector.rx_if[lane])?;
        let vrf = flow_vrf(self.shared.attributes.vrf_of(vector.rx_if[lane]));
        let keys = self.shared.flows.syn_cookies().keys();
        let answer = &of.admits.redirect[usize::from(!self.is_ip4)];
        let server = |key: FlowKey, segment_size| Server {
            answer,
            numbers: cookie::server_numbers(keys, &key),
            segment_size,
        };
        if self.is_ip4 {
            let view = ipv4::check(vector.bytes(lane)).ok()?;
            let segment = tcp::check(view.payload(), &view.pseudo()).ok()?;
            let (source, destination) = (view.source(), view.destination());
            let key = FlowKey::ip4(flow(&segment, source.to_bits(), destination.to_bits()), vrf);
            let (head, body) = packet.split_at_mut_checked(ipv4::LENGTH)?;
            let back = Pseudo::Ip4 { source: destination, destination: source };
            let length = server(key, 1_460).reply(body, &segment, &back)?.ok()?;
            let header = ipv4::Builder::new(destination, source, protocol::TCP);
            let flags_fragment = ipv4::DONT_FRAGMENT;
            ipv4::Builder { flags_fragment, ..header }.build(head, length).ok()?;
            return Some(ipv4::LENGTH + length);
        }
        let view = ipv6::check(vector.bytes(lane)).ok()?;
        let upper = view.upper().ok()?;
        let segment = tcp::check(upper.payload, &view.pseudo()).ok()?;
        let (source, destination) = (view.source(), view.destination());
        let key = FlowKey::ip6(flow(&segment, source.to_bits(), destination.to_bits()), vrf);
        let (head, body) = packet.split_at_mut_checked(ipv6::LENGTH)?;
        let back = Pseudo::Ip6 { source: destination, destination: source };
        let length = server(key, 1_440).reply(body, &segment, &back)?.ok()?;
        ipv6::Builder::new(destination, source, protocol::TCP).build(head, length).ok()?;
        Some(ipv6::LENGTH + length)
    }
}

/// The flow of a segment.
fn flow<K>(segment: &tcp::View<'_>, source: K, destination: K) -> Flow<K> {
    let (source_port, destination_port) = (segment.source_port(), segment.destination_port());
    Flow { source, destination, source_port, destination_port, protocol: protocol::TCP }
}
