//! `ip4-local`: packets for our own addresses (RFC 1122 3.2).

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::{ipv4, protocol};

use crate::drops::Drop;
use crate::icmp::Trouble;
use crate::shared::Shared;

/// Where packets go from here.
pub const EDGES: &[&str] = &["icmp4-echo", "icmp4-error"];
const ECHO: u16 = 0;
const ERROR: u16 = 1;

/// Makes the node of one worker.
pub fn make(_shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip4Local)
}

struct Ip4Local;

impl Node for Ip4Local {
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
    let view = ipv4::check(bytes).map_err(|_| Refused::Drop(Drop::Ip4Truncated))?;
    if view.header().is_fragment() {
        return Err(Refused::Drop(Drop::Ip4LocalFragment));
    }
    match view.header().protocol {
        protocol::ICMP4 => Ok(ECHO),
        protocol::UDP => Err(Refused::Tell(Trouble::Port)),
        protocol::TCP => Err(Refused::Drop(Drop::TcpNoListener)),
        _ => Err(Refused::Tell(Trouble::Protocol)),
    }
}
