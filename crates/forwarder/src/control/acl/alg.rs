//! What application level gateways have done, and the limit of what they expect.

use stoa_api::v1;

use crate::control::apply::ApplyError;
use crate::control::forwarder_state::ForwarderState;
use crate::control::limit_listing::limit;
use crate::flow::alg::expectations::CAPACITY;
use crate::flow::alg::{AlgSums, Passed};

impl ForwarderState {
    /// Has flows be able to have application level gateways, if a rule of the change or a policy names one.
    ///
    /// # Errors
    /// The system has no memory for them.
    pub(super) fn prepare_algs(&self, has_nat_algs: bool) -> Result<(), ApplyError> {
        let mut lists = self.capabilities.acl.new_lists.values();
        let is_named = has_nat_algs || lists.any(|new| new.list.sums().has_algs());
        if is_named && !self.shared.flows.prepare_algs() {
            let fix = "Lower the limits of flows, or remove the gateways of rules and policies.";
            return Err(ApplyError::one("access lists", "no memory for gateways", fix));
        }
        Ok(())
    }

    /// What gateways have done since the start.
    pub fn alg_sums(&self) -> AlgSums {
        self.shared.flows.expectations().counts().sums()
    }

    /// The same as a message of the contract.
    pub(in crate::control) fn alg_state(&self) -> v1::AlgState {
        let AlgSums { expected, begun, expired, edited, passed } = self.alg_sums();
        let passed = Passed::ALL.into_iter().zip(passed);
        let passed = passed
            .map(|(cause, packets)| v1::AlgPassed { cause: cause.name().to_owned(), packets });
        v1::AlgState {
            expectations: self.shared.flows.expectations().live().into(),
            limit: CAPACITY.into(),
            expected,
            begun,
            expired,
            edited,
            passed: passed.collect(),
        }
    }

    pub(super) fn add_alg_limit(&self, limits: &mut Vec<v1::LimitState>) {
        let used = self.shared.flows.expectations().live().into();
        let refused = self.alg_sums().passed[Passed::Full as usize];
        let fix = "This limit is fixed: announced connections that application level gateways expect, at most 32 \
                   between two hosts and 64 to one. Others pass without a gateway.";
        limits.push(limit("alg-expectations", Some(used), CAPACITY.into(), refused, fix));
    }
}
