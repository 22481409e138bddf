//! `ip6-local`: packets for our own addresses and the groups we are in.

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::{icmp6, ipv6, ndp, protocol};

use crate::drops::Drop;
use crate::icmp::Trouble;
use crate::shared::Shared;

/// Where packets go from here.
pub const EDGES: &[&str] = &["icmp6-echo", "nd-input", "icmp6-error"];
const ECHO: u16 = 0;
const ND: u16 = 1;
const ERROR: u16 = 2;

/// Makes the node of one worker.
pub fn make(_shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip6Local)
}

struct Ip6Local;

impl Node for Ip6Local {
    fn process(&mut self, _cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            vector.next[lane] = match deliver(vector.bytes(lane)) {
                Ok(next) => next,
                Err(Refused::Drop(reason)) => reason.next(),
                Err(Refused::Tell(trouble)) => {
                    vector.adjacency[lane] = trouble.code();
                    ERROR
                }
            };
        }
        Next::Lanes
    }
}

enum Refused {
    Drop(Drop),
    Tell(Trouble),
}

fn deliver(bytes: &[u8]) -> Result<u16, Refused> {
    let view = ipv6::check(bytes).map_err(|_| Refused::Drop(Drop::Ip6Truncated))?;
    let upper = view.upper().map_err(|_| Refused::Drop(Drop::Ip6Extension))?;
    if upper.fragment.is_some_and(|fragment| !fragment.is_atomic()) {
        return Err(Refused::Drop(Drop::Ip6LocalFragment));
    }
    match upper.protocol {
        protocol::ICMP6 => {
            let message = icmp6::check(upper.payload, &view.pseudo());
            let message = message.map_err(|_| Refused::Drop(Drop::Icmp6Malformed))?;
            match message.header().kind {
                // RFC 4861 7.1: never behind a fragment header (RFC 6980).
                kind if ndp::is_ndp(kind) && upper.fragment.is_none() => Ok(ND),
                icmp6::kind::ECHO_REQUEST if upper.offset == ipv6::LENGTH => Ok(ECHO),
                _ => Err(Refused::Drop(Drop::Icmp6Ignored)),
            }
        }
        protocol::UDP => Err(Refused::Tell(Trouble::Port)),
        protocol::TCP => Err(Refused::Drop(Drop::TcpNoListener)),
        protocol::NO_NEXT_HEADER => Err(Refused::Drop(Drop::Icmp6Ignored)),
        _ => Err(Refused::Tell(Trouble::Protocol)),
    }
}
