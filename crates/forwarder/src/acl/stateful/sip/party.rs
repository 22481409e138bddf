//! The ends of a flow, as they are and as the other one sees them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_tables::flow_table::{Direction, FlowKey, Tuple};
use stoa_wire::sip::write::Host;

use crate::flow::alg::{End, Ports};
use crate::flow::tracker::Side;

/// Pairs of ports that a host has in a message: that of the flow, and others of it.
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

    /// The end with its ports in a message, as they are and as the other end sees them, or the other way round.
    /// `None`: it is translated in no message.
    pub(super) fn host<'a>(
        &self,
        ports: &Ports,
        is_out: bool,
        pairs: &'a mut Pairs,
    ) -> Option<Host<'a>> {
        let (own, seen) =
            four(self.own.0).zip(four(self.seen.0)).filter(|_| self.is_translated())?;
        let first = End { own: self.own.1, seen: self.seen.1 };
        for it in [first].into_iter().chain(ports.all()) {
            pairs.add(if is_out { (it.own, it.seen) } else { (it.seen, it.own) });
        }
        let (from, to) = if is_out { (own, seen) } else { (seen, own) };
        Some(Host { from, to, ports: pairs.all() })
    }
}

/// Ports of a host, each with that which it gets in a message. The first one of a port counts.
#[derive(Default)]
pub(super) struct Pairs {
    all: [(u16, u16); PAIRS],
    count: usize,
}

impl Pairs {
    pub(super) fn add(&mut self, pair: (u16, u16)) {
        if let Some(free) = self.all.get_mut(self.count) {
            *free = pair;
            self.count += 1;
        }
    }

    fn all(&self) -> &[(u16, u16)] {
        self.all.get(..self.count).unwrap_or(&[])
    }
}
