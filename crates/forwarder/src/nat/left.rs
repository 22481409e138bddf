//! What flows of a partner ([`crate::flow_sync`]) leave to others: a part of mappings, of their hosts, of blocks of
//! ports and of ports, as of the flow table. They must not keep this router from translating.

use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{FlowKey, FormerFlow, Tuple};

use super::adopt::{Mapped, mapped};
use super::mappings::End;
use super::rewrite::has_free_ports;
use super::{Allocation, Nat, NatWorker, Policy};
use crate::flow::flows::Flows;
use crate::flow::tracker::Uses;

/// The part that is left, of whatever there is.
pub(crate) const LEFT_PART: u32 = 16;
/// Ports that are looked at to see how many are taken: all of a range that has no more, or some by chance.
const LOOKED_AT: u32 = 64;

/// Whether so many free ones of all are more than what is left to others.
fn has_more(free: u32, all: u32) -> bool {
    free > all / LEFT_PART
}

/// Whether so many of these ports are free, of as many as `all`. It looks no further than it must: each look-up
/// misses the cache.
fn has_free(ports: impl Iterator<Item = u16>, all: u32, is_taken: impl Fn(u16) -> bool) -> bool {
    let enough = all / LEFT_PART + 1;
    let free = ports.filter(|port| !is_taken(*port)).take(enough as usize).count();
    has_more(free as u32, all)
}

impl NatWorker {
    /// Whether there is room for what a translated flow of a partner needs, beside what is left to others.
    pub(crate) fn has_standby_room(
        &mut self,
        (flows, nat): (&Flows, &Nat),
        (flow, reply): (&FormerFlow, &FlowKey),
    ) -> bool {
        let uses = Uses::of_words(flow.spare);
        // A static mapping has ends of its own.
        let Some(policy) = nat.policy(uses.number) else { return true };
        let Some(Mapped { internal, external, .. }) = mapped(&flow.key, reply, uses.is_inbound)
        else {
            return true;
        };
        let mappings = flows.mappings();
        if uses.mapping.is_none() {
            let used = flows.translated();
            let is_taken = |port| {
                let key = with_port(reply, port);
                key.is_some_and(|key| flows.reader(true).find(&key).is_some())
            };
            return self.has_port((flows, policy), (external, used), is_taken);
        }
        if self.owner().is_none_or(|it| !has_more(it.free_hosts(), mappings.hosts())) {
            return false;
        }
        self.has_mapping_room((flows, policy), (internal, external))
    }

    /// The same for a mapping, unless there is one of the internal end.
    pub(crate) fn has_mapping_room(
        &mut self,
        (flows, policy): (&Flows, &Policy),
        (internal, external): (End, End),
    ) -> bool {
        let mappings = flows.mappings();
        if mappings.of_internal(internal, policy.number).is_some() {
            return true;
        }
        let free = mappings.capacity().saturating_sub(mappings.live());
        let is_taken = |port| mappings.of_external(End { port, ..external }).is_some();
        has_more(free, mappings.capacity())
            && self.has_port((flows, policy), (external, mappings.live()), is_taken)
    }

    /// Whether the external end, or the block that has it, is not among the last ones. `used`: no more ports are taken.
    fn has_port(
        &mut self,
        (flows, policy): (&Flows, &Policy),
        (external, used): (End, u32),
        is_taken: impl Fn(u16) -> bool,
    ) -> bool {
        if !has_free_ports(external.protocol) {
            return true;
        }
        match &policy.allocation {
            // They are those of one subscriber: its flows at the partner may take all of them, as ports of its block.
            Allocation::Deterministic(_) => true,
            Allocation::Blocks(range, _) => {
                let id = range.block_of(external.address, external.port);
                id.is_some_and(|id| {
                    !flows.mappings().blocks().is_free(id)
                        || has_more(range.free_beside(id), range.per_address())
                })
            }
            Allocation::Ports => {
                let (first, last) = policy.ports;
                let count = u32::from(last.saturating_sub(first)) + 1;
                if has_more(count.saturating_sub(used), count) {
                    return true;
                }
                let looked_at = count.min(LOOKED_AT);
                let port = |at: u32| {
                    let by_chance = (u64::from(self.random()) * u64::from(count)) >> 32;
                    let at = if count > LOOKED_AT { by_chance as u32 } else { at };
                    first.saturating_add(at as u16)
                };
                has_free((0..looked_at).map(port), looked_at, is_taken)
            }
        }
    }
}

/// The key of replies to another external port.
fn with_port(reply: &FlowKey, port: u16) -> Option<FlowKey> {
    let Tuple::Ip4(it) = reply.tuple else { return None };
    Some(FlowKey::ip4(Flow { destination_port: port, ..it }, reply.vrf))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn no_more_ports_are_looked_at_than_needed() {
        let looks = Cell::new(0);
        let has = |is_free: fn(u16) -> bool| {
            looks.set(0);
            let is_taken = |port| {
                looks.set(looks.get() + 1);
                !is_free(port)
            };
            (has_free(0..LOOKED_AT as u16, LOOKED_AT, is_taken), looks.get())
        };
        assert_eq!(has(|_| true), (true, 5));
        assert_eq!(has(|port| port % 2 == 0), (true, 9));
        assert_eq!(has(|port| port >= 60), (false, 64));
        assert_eq!(has(|_| false), (false, 64));
    }
}
