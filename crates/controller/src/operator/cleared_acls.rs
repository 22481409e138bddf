//! `clear acl`: hits of rules as operators see them, since they were cleared. The counters themselves go on, as those
//! of interfaces do ([`super::cleared`]).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use stoa_api::v1;
use stoa_api::v1::{AclRule, AclRuleState};

/// The hits of a rule when an operator cleared them.
#[derive(Debug)]
struct Baseline {
    /// Without its position. Another rule of the name has counters of its own.
    rule: AclRule,
    packets: u64,
    bytes: u64,
}

/// The cleared rules by list and name.
#[derive(Debug, Default)]
pub struct ClearedAcls(Mutex<BTreeMap<(String, String), Baseline>>);

/// A rule without its position, which does not matter to its counters.
fn unplaced(rule: &AclRule) -> AclRule {
    AclRule { after: String::new(), ..rule.clone() }
}

impl ClearedAcls {
    /// Clears the hits of these rules, which are those of the list `acl`, or of all if it is empty.
    pub fn clear(&self, acl: &str, states: &[AclRuleState]) -> v1::ClearAclReply {
        let mut baselines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Only rules that exist are kept.
        baselines.retain(|(list, _), _| !acl.is_empty() && list != acl);
        for state in states {
            let Some(rule) = &state.rule else { continue };
            let AclRuleState { packets, bytes, .. } = *state;
            let key = (rule.acl.clone(), rule.name.clone());
            baselines.insert(key, Baseline { rule: unplaced(rule), packets, bytes });
        }
        v1::ClearAclReply { rules: states.len() as u64 }
    }

    /// Makes the hits of a rule relative to their last clear.
    pub fn subtract(&self, state: &mut AclRuleState) {
        let baselines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(rule) = state.rule.as_ref().filter(|_| !baselines.is_empty()) else { return };
        let Some(then) = baselines.get(&(rule.acl.clone(), rule.name.clone())) else { return };
        if then.packets <= state.packets && then.bytes <= state.bytes && then.rule == unplaced(rule)
        {
            state.packets -= then.packets;
            state.bytes -= then.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: &str, after: &str, packets: u64) -> AclRuleState {
        let rule = AclRule {
            acl: "edge".into(),
            name: name.into(),
            after: after.into(),
            ..AclRule::default()
        };
        AclRuleState { rule: Some(rule), packets, bytes: 100 * packets, ..AclRuleState::default() }
    }

    fn seen(cleared: &ClearedAcls, mut one: AclRuleState) -> [u64; 2] {
        cleared.subtract(&mut one);
        [one.packets, one.bytes]
    }

    #[test]
    fn hits_are_relative_to_the_last_clear_of_the_same_rule() {
        let cleared = ClearedAcls::default();
        assert_eq!(cleared.clear("edge", &[state("web", "", 10), state("dns", "web", 5)]).rules, 2);
        assert_eq!(seen(&cleared, state("web", "", 13)), [3, 300]);
        assert_eq!(seen(&cleared, state("dns", "", 6)), [1, 100], "it was moved");
        assert_eq!(seen(&cleared, state("ssh", "", 6)), [6, 600], "it was not cleared");
        assert_eq!(seen(&cleared, state("web", "", 4)), [4, 400], "it counts from 0 again");
        let mut other = state("web", "", 12);
        other.rule.as_mut().unwrap().protocols = vec![6];
        assert_eq!(seen(&cleared, other), [12, 1_200], "it is another rule");
        cleared.clear("other", &[]);
        assert_eq!(seen(&cleared, state("web", "", 13)), [3, 300]);
        cleared.clear("", &[]);
        assert_eq!(seen(&cleared, state("web", "", 13)), [13, 1_300], "no rule was there");
    }
}
