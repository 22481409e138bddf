//! `icmp4-echo`: answers pings to our own addresses (RFC 792, RFC 1122 3.2.2.6).

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::{icmp4, ipv4};

use crate::drops::Drop;
use crate::punt::Class;
use crate::shared::Shared;

/// Where replies go.
pub const EDGES: &[&str] = &["ip4-lookup"];
const LOOKUP: u16 = 0;

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
            if !self.shared.budgets.admit(cx, Class::Echo, vector.rx_if[lane]) {
                vector.drop_lane(lane, Drop::IcmpLimited.reason());
                continue;
            }
            vector.next[lane] = match reply(vector.bytes_mut(lane)) {
                Ok(()) => {
                    vector.make_own(lane);
                    LOOKUP
                }
                Err(reason) => reason.next(),
            };
        }
        Next::Lanes
    }
}

/// Turns an echo request into its reply, in place.
fn reply(bytes: &mut [u8]) -> Result<(), Drop> {
    let view = ipv4::check(bytes).map_err(|_| Drop::Ip4Truncated)?;
    let message = icmp4::check(view.payload()).map_err(|_| Drop::Icmp4Malformed)?;
    if message.header().kind != icmp4::kind::ECHO_REQUEST {
        return Err(Drop::Icmp4Ignored);
    }
    let answer = ipv4::Builder {
        source: view.destination(),
        destination: view.source(),
        time_to_live: 64,
        flags_fragment: 0,
        options: &[],
        ..ipv4::Builder::of(&view)
    };
    // Options are not echoed: the reply's header would have to grow or shrink in place.
    if view.payload_range().start != ipv4::LENGTH {
        return Err(Drop::Icmp4Ignored);
    }
    let length = view.payload().len();
    answer.build(bytes, length).map_err(|_| Drop::Icmp4Malformed)?;
    icmp4::reply_in_place(&mut bytes[ipv4::LENGTH..]);
    Ok(())
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
    fn a_spoilt_request_is_refused() {
        let mut bytes = request();
        bytes[30] ^= 1;
        assert_eq!(reply(&mut bytes), Err(Drop::Icmp4Malformed));
    }
}
