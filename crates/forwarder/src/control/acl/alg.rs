//! What application level gateways have done, and the limit of what they expect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_api::v1;
use stoa_engine::clock;

use crate::control::apply::ApplyError;
use crate::control::forwarder_state::ForwarderState;
use crate::control::limit_listing::limit;
use crate::flow::alg::expectations::CAPACITY;
use crate::flow::alg::{AlgSums, Passed};

/// Seconds between two lines of the log about hosts that have no room.
const QUIET_S: u32 = 60;

/// What is known of the log of gateways.
#[derive(Debug, Default)]
pub(super) struct AlgLog {
    /// When the last line was written, and how many announcements had found no room between two hosts.
    last: Option<u32>,
    full_pairs: u64,
}

/// An address of a key.
fn address(it: u128, is_ip6: bool) -> IpAddr {
    if is_ip6 { Ipv6Addr::from_bits(it).into() } else { Ipv4Addr::from_bits(it as u32).into() }
}

impl ForwarderState {
    /// Logs that two hosts have as many expectations as they may have. Periodically.
    pub(super) fn tick_alg_log(&mut self) {
        let now = self.shared.flows.now(clock::tsc()).tick;
        let is_quiet =
            self.capabilities.acl.alg_log.last.is_some_and(|it| now.wrapping_sub(it) < QUIET_S);
        if is_quiet {
            return;
        }
        let Some(it) = self.shared.flows.expectations().take_full_pair() else { return };
        let full_pairs = self.alg_sums().passed[Passed::FullPair as usize];
        let log = &mut self.capabilities.acl.alg_log;
        let of_all_pairs = full_pairs.saturating_sub(log.full_pairs);
        let (host, peer) = it.hosts();
        let of = |host| address(host, it.key.is_ip6);
        tracing::warn!(
            host = %of(host),
            peer = %of(peer),
            alg = it.alg.name(),
            of_all_pairs,
            "two hosts have as many expected connections as they may have: what they announce more is not let in"
        );
        (log.last, log.full_pairs) = (Some(now), full_pairs);
    }

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
        let passed = self.alg_sums().passed;
        let refused = passed[Passed::Full as usize] + passed[Passed::FullPair as usize];
        let fix = "This limit is fixed: announced connections that application level gateways expect, at most 32 \
                   between two hosts and 64 to one, of SIP 128 and 256. Others pass without a gateway.";
        limits.push(limit("alg-expectations", Some(used), CAPACITY.into(), refused, fix));
    }
}
