//! `icmp4-echo`: replies to echo requests to local addresses (RFC 792, RFC 1122 3.2.2.6).

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::ipv4_options::{self, Recorder};
use stoa_wire::{icmp4, ipv4};

use crate::drops::Drop;
use crate::ip::ip4_options::since_midnight;
use crate::punt::Class;
use crate::shared::Shared;

/// The next node of replies.
pub const EDGES: &[&str] = &["ip4-origin"];
const ORIGIN: u16 = 0;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Icmp4Echo { shared: shared.clone() })
}

struct Icmp4Echo {
    shared: Arc<Shared>,
}

impl Node for Icmp4Echo {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            let interface = vector.rx_if[lane];
            // Other messages get no reply, and must not use up the policer of those that do.
            if is_request(vector.bytes(lane))
                && !self.shared.policers.admit(cx, Class::Echo, interface)
            {
                vector.drop_lane(lane, Drop::IcmpLimited.reason());
                continue;
            }
            vector.next[lane] = match reply(vector.bytes_mut(lane)) {
                Ok(()) => {
                    vector.make_own(lane);
                    ORIGIN
                }
                Err(reason) => reason.next(),
            };
        }
        Next::Lanes
    }
}

/// Whether an IPv4 packet with ICMP is an echo request; nothing is validated.
fn is_request(bytes: &[u8]) -> bool {
    let header = bytes.first().map_or(0, |first| usize::from(first & 0xf) * 4);
    bytes.get(header) == Some(&icmp4::kind::ECHO_REQUEST)
}

/// Converts an echo request to its reply, in place.
fn reply(bytes: &mut [u8]) -> Result<(), Drop> {
    let view = ipv4::check(bytes).map_err(|_| Drop::Ip4Truncated)?;
    let message = icmp4::check(view.payload()).map_err(|_| Drop::Icmp4Malformed)?;
    match message.header().kind {
        icmp4::kind::ECHO_REQUEST if !view.destination().is_multicast() => {}
        icmp4::kind::REDIRECT => return Err(Drop::RedirectIgnored),
        _ => return Err(Drop::Icmp4Ignored),
    }
    let mut options = [0; ipv4::LONGEST - ipv4::LENGTH];
    let options = reply_options(&view, &mut options)?;
    let header = ipv4::Builder {
        source: view.destination(),
        destination: view.source(),
        time_to_live: 64,
        flags_fragment: 0,
        options,
        ..ipv4::Builder::of(&view)
    };
    let (start, length) = (view.payload_range().start, view.payload().len());
    header.build(bytes, length).map_err(|_| Drop::Icmp4Malformed)?;
    icmp4::reply_in_place(&mut bytes[start..]);
    Ok(())
}

/// The options of the reply, of the same length as those of the request: record route and timestamp
/// with an entry of this router (RFC 1122 3.2.2.6), and padding for all others.
fn reply_options<'a>(view: &ipv4::View<'_>, buffer: &'a mut [u8; 40]) -> Result<&'a [u8], Drop> {
    let received = view.option_bytes();
    let options = &mut buffer[..received.len()];
    if !received.is_empty() {
        options.copy_from_slice(received);
        ipv4_options::keep_records(options);
        let own = view.destination();
        let recorder =
            Recorder { address: own, time: since_midnight(), is_own: |address| address == own };
        ipv4_options::record(options, &recorder).map_err(|_| Drop::Ip4Options)?;
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use stoa_wire::icmp4::Echo;
    use stoa_wire::protocol;

    fn request() -> Vec<u8> {
        let mut bytes = vec![0; 20 + 8 + 5];
        let echo = Echo { identifier: 7, sequence: 9, data: b"hello" };
        let length = icmp4::build_echo_request(&mut bytes[20..], &echo).unwrap();
        let (source, destination) = (Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 1));
        let header = ipv4::Builder {
            time_to_live: 3,
            ..ipv4::Builder::new(source, destination, protocol::ICMP4)
        };
        header.build(&mut bytes, length).unwrap();
        bytes
    }

    #[test]
    fn a_request_becomes_its_reply() {
        let mut bytes = request();
        assert_eq!(reply(&mut bytes), Ok(()));
        let view = ipv4::check(&bytes).unwrap();
        assert_eq!(view.source(), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(view.header().time_to_live, 64);
        let message = icmp4::check(view.payload()).unwrap();
        assert_eq!(message.header().kind, icmp4::kind::ECHO_REPLY);
        assert_eq!(message.echo().unwrap().data, b"hello");
        assert_eq!(reply(&mut bytes), Err(Drop::Icmp4Ignored));
    }

    #[test]
    fn a_corrupted_request_is_dropped() {
        let mut bytes = request();
        bytes[30] ^= 1;
        assert_eq!(reply(&mut bytes), Err(Drop::Icmp4Malformed));
    }
}
