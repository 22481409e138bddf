//! What flows of a former process use ([`crate::flow::adoption`]): mappings, hosts, blocks and quotas are made or held
//! anew, at the external ends that these flows have. Limits that are lower now refuse none of them.

use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{FlowError, FlowKey, FormerFlow, Tuple};

use super::mappings::End;
use super::quotas::Quota;
use super::rewrite::has_free_ports;
use super::{Allocation, Filtering, Nat, NatWorker, Policy};
use crate::flow::flows::{Flows, Now};
use crate::flow::tracker::Uses;

/// Times that a worker tries what another one does at this moment.
const TRIES: u32 = 10_000;

/// Both ends of a translated flow on one side of the router.
fn ends(key: &FlowKey) -> Option<[End; 2]> {
    let Tuple::Ip4(Flow { source, destination, source_port, destination_port, protocol }) =
        key.tuple
    else {
        return None;
    };
    let end = |address, port| End { address, port, protocol, vrf: key.vrf };
    Some([end(source, source_port), end(destination, destination_port)])
}

/// What a flow has: the internal end of its mapping, the external one, and the host at the other end.
pub(super) struct Mapped {
    pub(super) internal: End,
    pub(super) external: End,
    pub(super) host: u32,
}

/// The mapping of a flow with these keys.
pub(super) fn mapped(key: &FlowKey, reply: &FlowKey, is_inbound: bool) -> Option<Mapped> {
    let ([source, destination], [replying, answered]) = (ends(key)?, ends(reply)?);
    Some(match is_inbound {
        true => Mapped { internal: replying, external: destination, host: source.address },
        false => Mapped { internal: source, external: answered, host: destination.address },
    })
}

impl NatWorker {
    /// Holds what a flow of a former process used; `None`: its policy or mapping is not there any more, or something
    /// else has its external end.
    pub(crate) fn claim(
        &mut self,
        (flows, nat): (&Flows, &Nat),
        (flow, reply): (&FormerFlow, &FlowKey),
        now: Now,
    ) -> Option<Uses> {
        let former = Uses::of_words(flow.spare);
        if !nat.has_number(former.number) {
            return None;
        }
        let bare = Uses { mapping: None, block: None, ..former };
        if former.mapping.is_some() {
            let mapped = mapped(&flow.key, reply, former.is_inbound)?;
            let policy = nat.policy(former.number)?;
            let mapping = Some(self.claim_mapping((flows, policy), &mapped, now)?);
            return Some(Uses { mapping, ..bare });
        }
        if former.block.is_some() {
            let ([internal, _], [_, external]) = (ends(&flow.key)?, ends(reply)?);
            let policy = nat.policy(former.number)?;
            let block = self.claim_place((flows, policy), (internal, external), now)?;
            return Some(Uses { block, ..bare });
        }
        Some(bare)
    }

    /// Gives back what was claimed for a flow that has no room.
    pub(crate) fn unclaim(&mut self, flows: &Flows, (flow, uses): (&FormerFlow, Uses), now: Now) {
        let mappings = flows.mappings();
        let found = flow.reply_key.and_then(|it| mapped(&flow.key, &it, uses.is_inbound));
        let Some(Mapped { internal, external, host }) = found else { return };
        if let Some(id) = uses.mapping {
            mappings.release(id);
            mappings.release_host(external, host);
        }
        if let Some(block) = uses.block {
            mappings.give_back(block, internal.protocol, now.tick);
        }
    }

    /// One more flow of a mapping, which is made if there is none.
    fn claim_mapping(
        &mut self,
        (flows, policy): (&Flows, &Policy),
        mapped: &Mapped,
        now: Now,
    ) -> Option<u32> {
        let (mappings, tick) = (flows.mappings(), now.tick);
        let Mapped { internal, external, host } = *mapped;
        let protocol = internal.protocol;
        let mut mapping = None;
        for _ in 0..TRIES {
            if let Some(known) = mappings.of_internal(internal, policy.number) {
                if known.external != external {
                    return None;
                }
                if mappings.hold(known.id) {
                    mapping = Some(known.id);
                    break;
                }
            } else {
                let block = self.claim_place((flows, policy), (internal, external), now)?;
                let of = (policy.number, block);
                let made = self.owner()?.create(mappings, (internal, external), of, tick);
                if let (Err(_), Some(block)) = (&made, block) {
                    mappings.give_back(block, protocol, tick);
                }
                match made {
                    Ok(id) => {
                        mapping = Some(id);
                        break;
                    }
                    Err(FlowError::Contended) => {}
                    Err(_) => return None,
                }
            }
            std::hint::spin_loop();
        }
        let id = mapping?;
        if policy.filtering == Filtering::Address {
            let mut held = Err(FlowError::Contended);
            for _ in 0..TRIES {
                held = self.owner()?.hold_host(mappings, (external, host), tick);
                if held != Err(FlowError::Contended) {
                    break;
                }
                std::hint::spin_loop();
            }
            if held.is_err() {
                mappings.release(id);
                return None;
            }
        }
        Some(id)
    }

    /// Holds the block that has an external end, or the quota of an internal one; `Some(None)`: the policy has neither.
    fn claim_place(
        &mut self,
        (flows, policy): (&Flows, &Policy),
        (internal, external): (End, End),
        now: Now,
    ) -> Option<Option<u32>> {
        let (mappings, source) = (flows.mappings(), (internal.address, internal.vrf));
        match &policy.allocation {
            Allocation::Deterministic(_) => Some(None),
            Allocation::Ports => {
                let Some(quota) = policy.quota else { return Some(None) };
                let unlimited = Quota { ports: [None; 4], ..quota };
                let source = (flows.nat64_hosts().subscriber(source.0), source.1);
                mappings.quotas().hold(&unlimited, source, internal.protocol).ok().map(Some)
            }
            // Their ports are not those of a block.
            Allocation::Blocks(..) if !has_free_ports(internal.protocol) => Some(None),
            Allocation::Blocks(range, _) => {
                let id = range.block_of(external.address, external.port)?;
                let of = (id, range.subscriber(source.0, source.1), internal.protocol);
                self.claim_block((mappings.blocks(), range), of, now).then_some(Some(id))
            }
        }
    }
}
