//! The ends of a flow, as they are and as the other one sees them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_tables::flow_table::{Direction, FlowKey, Tuple};

use crate::flow::alg::{End, Ports};
use crate::flow::tracker::Side;

/// Pairs of ports that a host has in a message: that of the flow, and others.
const PAIRS: usize = 16;

/// One end of a flow.
#[derive(Clone, Copy)]
pub(super) struct Party {
    /// As it is.
    pub(super) own: (IpAddr, u16),
    /// As the other end sees it.
    pub(super) seen: (IpAddr, u16),
}

/// The addresses and ports of a key: the source, and the destination.
fn ends(key: &FlowKey) -> [(IpAddr, u16); 2] {
    match key.tuple {
        Tuple::Ip4(it) => [
            (Ipv4Addr::from_bits(it.source).into(), it.source_port),
            (Ipv4Addr::from_bits(it.destination).into(), it.destination_port),
        ],
        Tuple::Ip6(it) => [
            (Ipv6Addr::from_bits(it.source).into(), it.source_port),
            (Ipv6Addr::from_bits(it.destination).into(), it.destination_port),
        ],
    }
}

/// An address of IPv4.
pub(super) fn four(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(it) => Some(it),
        IpAddr::V6(_) => None,
    }
}

impl Party {
    /// The end that sends in a direction of a flow.
    pub(super) fn of(side: &Side, of_flow: (u32, Direction)) -> Self {
        let [from, to] = side.keys(of_flow);
        let ([own, _], [_, seen]) = (ends(&from), ends(&to));
        Self { own, seen }
    }

    pub(super) fn is_translated(&self) -> bool {
        self.own.0 != self.seen.0
    }

    /// Its ports with those by which the other end knows them, or the other way round.
    pub(super) fn pairs(&self, ports: &Ports, is_out: bool) -> ([(u16, u16); PAIRS], usize) {
        let first = End { own: self.own.1, seen: self.seen.1 };
        let (mut pairs, mut count) = ([(0, 0); PAIRS], 0);
        for (to, it) in pairs.iter_mut().zip([first].into_iter().chain(ports.all())) {
            *to = if is_out { (it.own, it.seen) } else { (it.seen, it.own) };
            count += 1;
        }
        (pairs, count)
    }
}
