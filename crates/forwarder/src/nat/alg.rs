//! Application level gateways of policies: which flows have one, and which external port an announced end gets.

use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{Direction, FlowEntry, FlowKey, Tuple};

use super::mappings::End;
use super::statics::Statics;
use super::{Allocation, Nat, Policy};
use crate::flow::alg::{Alg, Becomes, Control, EXPECTED, Expected, ExpectedKey};
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
    /// Numbers of static mappings and of their backends, each with its instance, in order; none if no policy names a
    /// gateway.
    pub fn static_instances(policies: &[Policy], statics: &Statics) -> Vec<(u32, u32)> {
        if policies.iter().all(|it| it.algs.is_empty()) {
            return Vec::new();
        }
        let numbers = statics.all().iter().flat_map(|it| {
            let backends = it.backends.iter().map(|backend| backend.number);
            [it.number].into_iter().chain(backends).map(|number| (number, it.instance))
        });
        let mut all: Vec<_> = numbers.collect();
        all.sort_unstable();
        all
    }

    /// The gateway of flows that a policy, static mapping or backend with a number translates, to a server at this
    /// port. Each new translated flow asks: there may be as many static mappings as there are flows.
    pub(super) fn alg_of(&self, number: u32, (protocol, port): (u8, u16)) -> Option<Alg> {
        self.find_alg(number, |it| it.port == port && it.alg.protocol() == protocol)
    }

    fn find_alg(&self, number: u32, is: impl Fn(&AlgPort) -> bool) -> Option<Alg> {
        let of = |policy: &Policy| policy.algs.iter().find(|it| is(it)).map(|it| it.alg);
        if let Some(policy) = self.policy(number) {
            return of(policy);
        }
        let at = self.instances.binary_search_by_key(&number, |(it, _)| *it).ok()?;
        let (_, instance) = *self.instances.get(at)?;
        self.policies.iter().filter(|it| it.instance == instance).find_map(of)
    }

    /// The gateway that the policies of now give a translated flow. One that was announced has the gateway of its
    /// control connection, whatever its ports are.
    pub fn alg_of_flow(&self, flow: &FlowEntry<'_>, has: Option<Alg>) -> Option<Alg> {
        let number = Uses::of(flow).number;
        if flow.rule() & EXPECTED != 0 {
            return self.find_alg(number, |it| Some(it.alg) == has);
        }
        let reply = ip4(&flow.reply_key())?;
        self.alg_of(number, (reply.protocol, reply.source_port))
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
        let own = (external.vrf, external.address, external.protocol, external.port);
        let is_own = self.own_ports.binary_search(&own).is_ok();
        let is_static = of_static
            .is_some_and(|(_, end)| (end.address, end.port.unwrap_or(external.port)) != internal);
        let mapping = side.flows().mappings().of_external(external);
        is_own
            || is_static
            || mapping.is_some_and(|it| (it.internal.address, it.internal.port) != internal)
    }
}

/// Ports of an end that is announced.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Its own port, the first one.
    pub port: u16,
    /// How many there are, one behind the other. More than one have external ones of the same parity (RFC 3550 section
    /// 11).
    pub count: u16,
}

/// The external port of an end that is announced in a direction of a translated flow, whose own port is known: that of
/// its mapping, the same one if it is free, or another one of its policy. `None`: none was found. `is_used`: ports that
/// the flow uses.
pub fn external_port(
    (nat, side): (&Nat, &Side),
    (id, direction): (u32, Direction),
    wanted: &Wanted,
    is_used: impl Fn(u16) -> bool,
    now: Now,
) -> Option<u16> {
    let Wanted { port: own_port, count: ports } = *wanted;
    let (flow, [own, other]) = (side.reader().entry(id), side.keys((id, direction)));
    let (vrf, own, of_other) = (own.vrf, ip4(&own)?, ip4(&other)?);
    let internal = End { address: own.source, port: own_port, protocol: own.protocol, vrf };
    let number = Uses::of(&flow).number;
    let (address, protocol, vrf) = (of_other.destination, of_other.protocol, other.vrf);
    let control = End { address, port: of_other.destination_port, protocol, vrf };
    let (first, last) = nat.range(number, own.source, control);
    let count = u32::from(last.saturating_sub(first)) + 1;
    let flow = Control { id, start: flow.start() };
    let is_one_free = |port: u16, own_port: u16| {
        let key = ExpectedKey { port, ..ExpectedKey::of(&other) };
        let expected = side.expectations().find(&key, now.tick);
        let is_own = |it: Becomes| (it.destination, it.port) == (own.source, own_port);
        !is_used(port)
            && expected.is_none_or(|it| {
                // The next announcement of data takes the place of the last one.
                it.control == flow && it.kind == Expected::Data || it.becomes.is_some_and(is_own)
            })
            && !nat.is_taken(side, End { port, ..control }, (own.source, own_port))
    };
    let is_free = |port: &u16| {
        let mut all = (0..ports).map(|by| (port.checked_add(by), own_port.checked_add(by)));
        all.all(|(port, own)| {
            let both = port.zip(own).filter(|(port, _)| *port <= last);
            both.is_some_and(|(port, own)| is_one_free(port, own))
        })
    };
    let with_parity = |port: u16| if ports > 1 { port & !1 | own_port & 1 } else { port };
    let random = |at: u32| {
        let word = side.expectations().random(now.ms ^ u32::from(own_port) << 16 ^ at);
        first + ((u64::from(word) * u64::from(count)) >> 32) as u16
    };
    let mapped = side.flows().mappings().of_internal(internal, number);
    let mapped = mapped.filter(|it| it.external.address == address).map(|it| it.external.port);
    let mapped = mapped.filter(|port| with_parity(*port) == *port);
    let same = (first..=last).contains(&own_port).then_some(own_port);
    let others = (0..TRIES).map(|at| with_parity(random(at))).filter(|port| *port >= first);
    mapped.into_iter().chain(same).chain(others).find(is_free)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nat::backends::Backend;
    use crate::nat::statics::Static;
    use crate::nat::tests::policy;

    /// Policies 1, without a gateway, and 2; static mapping 3 of their instance, with the backends 4 and 5; and mapping
    /// 6 of another instance.
    fn nat(algs: Vec<AlgPort>) -> Nat {
        let backend = |number| Backend { number, address: number, first_port: 21, weight: 1 };
        let shared = Static {
            number: 3,
            instance: 1,
            backends: [backend(5), backend(4)].into(),
            ..Static::default()
        };
        let other = Static { number: 6, instance: 2, ..Static::default() };
        let policies = vec![policy(1), Policy { algs, ..policy(2) }];
        let statics = Statics::of(vec![other, shared]);
        let instances = Nat::static_instances(&policies, &statics);
        Nat { policies, statics, instances, ..Nat::default() }
    }

    #[test]
    fn static_mappings_and_backends_have_the_gateways_of_their_instance() {
        let nat = nat(vec![AlgPort { alg: Alg::Ftp, port: 21 }]);
        let of = |number| nat.alg_of(number, (6, 21));
        assert_eq!([2, 3, 4, 5].map(of), [Some(Alg::Ftp); 4]);
        assert_eq!([0, 1, 6, 7].map(of), [None; 4]);
        assert_eq!((nat.alg_of(3, (17, 21)), nat.alg_of(3, (6, 22))), (None, None));
    }

    /// Static mappings are not walked: without gateways there is nothing to look into.
    #[test]
    fn without_gateways_no_mapping_is_looked_up() {
        let nat = nat(Vec::new());
        assert!(!nat.statics.is_empty() && nat.instances.is_empty());
        assert_eq!(nat.alg_of(3, (6, 21)), None);
    }
}
