//! Application level gateways of policies: which flows have one, and which external port an announced end gets.

use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{Direction, FlowKey, Tuple};

use super::mappings::End;
use super::{Allocation, Nat};
use crate::flow::alg::{Alg, Control, ExpectedKey};
use crate::flow::flows::Now;
use crate::flow::tracker::{Side, Uses};

/// The port of the servers of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlgPort {
    /// The gateway.
    pub alg: Alg,
    /// The port.
    pub port: u16,
}

/// Ports that are tried for an announced end.
const TRIES: u32 = 32;
/// Ports of announced ends whose policy has no range of its own.
const ANY: (u16, u16) = (1024, u16::MAX);

/// The IPv4 parts of a key.
fn ip4(key: &FlowKey) -> Option<Flow<u32>> {
    match key.tuple {
        Tuple::Ip4(it) => Some(it),
        Tuple::Ip6(_) => None,
    }
}

impl Nat {
    /// The gateway of flows that a policy or static mapping with a number translates, to a server at this port.
    pub(super) fn alg_of(&self, number: u32, (protocol, port): (u8, u16)) -> Option<Alg> {
        let instance = || self.statics.all().iter().find(|it| it.number == number);
        let policy = self.policy(number).or_else(|| {
            let instance = instance()?.instance;
            self.policies.iter().find(|it| it.instance == instance)
        });
        let is_of = |it: &&AlgPort| it.port == port && it.alg.protocol() == protocol;
        policy?.algs.iter().find(is_of).map(|it| it.alg)
    }

    /// First and last external port for an internal end that has the external one of its control connection.
    fn range(&self, number: u32, internal: u32, external: End) -> (u16, u16) {
        let Some(policy) = self.policy(number) else { return ANY };
        let block = match &policy.allocation {
            Allocation::Ports => None,
            Allocation::Deterministic(all) => all.external_of(internal),
            // The control connection holds its block, so that nobody else gets these ports.
            Allocation::Blocks(range, _) => {
                range.block_of(external.address, external.port).and_then(|it| range.place(it))
            }
        };
        block.map_or(policy.ports, |(_, first, last)| (first, last))
    }

    /// Whether an external end belongs to somebody else than to an internal one.
    fn is_taken(&self, side: &Side, external: End, internal: (u32, u16)) -> bool {
        let of = (external.protocol, external.address, Some(external.port));
        let of_static = self.statics.of_external(external.vrf, of);
        let is_static = of_static
            .is_some_and(|(_, end)| (end.address, end.port.unwrap_or(external.port)) != internal);
        let mapping = side.flows().mappings().of_external(external);
        is_static || mapping.is_some_and(|it| (it.internal.address, it.internal.port) != internal)
    }
}

/// The external port of an end that is announced in a direction of a translated flow, whose own port is known: the same
/// one if it is free, or another one of its policy. `None`: none was found.
pub fn external_port(
    (nat, side): (&Nat, &Side),
    (id, direction): (u32, Direction),
    own_port: u16,
    now: Now,
) -> Option<u16> {
    let (flow, [own, other]) = (side.reader().entry(id), side.keys((id, direction)));
    let (own, of_other) = (ip4(&own)?, ip4(&other)?);
    let number = Uses::of(&flow).number;
    let (address, protocol, vrf) = (of_other.destination, of_other.protocol, other.vrf);
    let control = End { address, port: of_other.destination_port, protocol, vrf };
    let (first, last) = nat.range(number, own.source, control);
    let count = u32::from(last.saturating_sub(first)) + 1;
    let flow = Control { id, start: flow.start() };
    let is_free = |port: &u16| {
        let key = ExpectedKey { port: *port, ..ExpectedKey::of(&other) };
        let expected = side.expectations().find(&key, now.tick);
        expected.is_none_or(|it| it.control == flow)
            && !nat.is_taken(side, End { port: *port, ..control }, (own.source, own_port))
    };
    let random = |at: u32| {
        let word = side.expectations().random(now.ms ^ u32::from(own_port) << 16 ^ at);
        first + ((u64::from(word) * u64::from(count)) >> 32) as u16
    };
    let same = (first..=last).contains(&own_port).then_some(own_port);
    same.into_iter().chain((0..TRIES).map(random)).find(is_free)
}
