//! Mappings without flows that something else holds: a registrar's binding of an end.

use super::mappings::End;
use super::{Allocation, Nat, NatWorker, Policy};
use crate::flow::flows::{Flows, Now};

/// An end cannot be held: something else has its external end, or its subscriber has as much as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHeld;

impl NatWorker {
    /// Holds the mapping between an internal end and an external one, which comes second, by the policy with a number:
    /// one that there is, or a new one. Nobody else gets the external end, and the mapping keeps its port set or counts
    /// for its quota, until it is [released](super::mappings::Mappings::release). `None`: no policy has this number, so
    /// that a static mapping has the external end.
    ///
    /// # Errors
    /// [`NotHeld`].
    pub fn hold_end(
        &mut self,
        (flows, nat): (&Flows, &Nat),
        [internal, external]: [End; 2],
        number: u32,
        now: Now,
    ) -> Result<Option<u32>, NotHeld> {
        let Some(policy) = nat.policy(number) else { return Ok(None) };
        let mappings = flows.mappings();
        if let Some(known) = mappings.of_internal(internal, number) {
            let is_held = known.external == external && mappings.hold(known.id);
            return if is_held { Ok(Some(known.id)) } else { Err(NotHeld) };
        }
        // Without an owner, nobody would give the place back.
        self.owner().ok_or(NotHeld)?;
        let place = self.hold_place((flows, policy), [internal, external], now)?;
        let owner = self.owner().ok_or(NotHeld)?;
        let made = owner.create(mappings, (internal, external), (number, place), now.tick);
        if let (Err(_), Some(place)) = (&made, place) {
            mappings.give_back(place, internal.protocol, now.tick);
        }
        made.map(Some).map_err(|_| NotHeld)
    }

    /// Holds the block that has an external end, or the quota of an internal one, as far as it allows that; `None`: the
    /// policy has neither.
    fn hold_place(
        &mut self,
        (flows, policy): (&Flows, &Policy),
        [internal, external]: [End; 2],
        now: Now,
    ) -> Result<Option<u32>, NotHeld> {
        let (mappings, source) = (flows.mappings(), (internal.address, internal.vrf));
        match &policy.allocation {
            Allocation::Deterministic(_) => Ok(None),
            Allocation::Ports => {
                let Some(quota) = &policy.quota else { return Ok(None) };
                let held = mappings.quotas().hold(quota, source, internal.protocol);
                held.map(Some).map_err(|_| NotHeld)
            }
            Allocation::Blocks(range, _) => {
                let id = range.block_of(external.address, external.port).ok_or(NotHeld)?;
                let of = (id, range.subscriber(source.0, source.1), internal.protocol);
                let is_held = self.claim_block((mappings.blocks(), range), of, now);
                is_held.then_some(Some(id)).ok_or(NotHeld)
            }
        }
    }
}
