//! Changes of rules: each is a change of the desired state, as a commit of one rule sends it.

use std::collections::BTreeMap;

use stoa_forwarder::control::desired::{AclRule, AclRuleKey, DesiredChange, DesiredState};
use stoa_forwarder::control::{ChangeError, Forwarder};

use super::Rate;
use crate::forward::{BenchError, Workload, refused};

/// A code point that no packet of the benchmark has.
const DSCP: u8 = 63;
/// How many rules change in turn.
const MOVING: usize = 256;

/// Rules that match no packet for a while, and then match again.
pub(super) struct RuleUpdates {
    pub(super) rate: Rate,
    /// Each rule as it was, in places all over the list.
    moving: Vec<(AclRuleKey, AclRule)>,
    at: usize,
    /// Whether the next changes take packets from their rules.
    takes: bool,
}

impl RuleUpdates {
    pub(super) fn new(workload: &Workload, desired: &DesiredState) -> Result<Self, BenchError> {
        let all = &desired.acl_rules;
        // The last rule accepts whatever has left another one.
        let last = |key: &AclRuleKey| !all.values().any(|rule| rule.after == key.1);
        let every = (all.len() / MOVING).max(1);
        let is_needed = workload.rule_rate > 0;
        let moving = all.iter().step_by(every).filter(|(key, _)| is_needed && !last(key));
        let moving: Vec<_> = moving.map(|(key, rule)| (key.clone(), rule.clone())).collect();
        if is_needed && moving.is_empty() {
            let reason = "too few rules to change some of them: add --acl acl:600";
            return Err(BenchError::Range(reason.to_owned()));
        }
        Ok(Self { rate: Rate::new(workload.rule_rate), moving, at: 0, takes: true })
    }

    pub(super) fn catch_up(&mut self, forwarder: &mut Forwarder) -> Result<(), BenchError> {
        let due = if self.rate.per_second == 0 { 0 } else { self.rate.take() };
        for _ in 0..due {
            let (key, rule) = &self.moving[self.at];
            let mut rule = rule.clone();
            if self.takes {
                rule.rule.dscp = Some(DSCP);
            }
            let acl_rules = BTreeMap::from([(key.clone(), Some(rule))]);
            let change = DesiredChange { acl_rules, ..DesiredChange::default() };
            forwarder.change(forwarder.generation(), change).map_err(|error| failed(&error))?;
            self.rate.done += 1;
            self.at += 1;
            if self.at == self.moving.len() {
                (self.at, self.takes) = (0, !self.takes);
            }
        }
        Ok(())
    }
}

fn failed(error: &ChangeError) -> BenchError {
    match error {
        ChangeError::Refused(reason) => refused(reason),
        other => BenchError::Refused(format!("{other:?}")),
    }
}
