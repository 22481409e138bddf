//! `clear acl`: hits of rules, and of packets without one, as operators see them, since they were cleared. The counters
//! themselves go on, as those of interfaces do ([`super::cleared`]).

mod zones;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use stoa_api::v1;
use stoa_api::v1::{AclRule, AclRuleState};

/// The hits of a rule, or of a row of lists, when an operator cleared them.
#[derive(Debug)]
struct Baseline {
    /// Of a rule, without its position. Another rule of the name has counters of its own.
    rule: Option<AclRule>,
    packets: u64,
    bytes: u64,
}

/// What has hits.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// List and name.
    Rule(String, String),
    /// Family and lists.
    Row(u32, Vec<String>),
}

impl Key {
    fn of(state: &AclRuleState) -> Option<Self> {
        let row = || state.row.as_ref().map(|row| Self::Row(row.family, row.acls.clone()));
        let rule = state.rule.as_ref();
        rule.map(|rule| Self::Rule(rule.acl.clone(), rule.name.clone())).or_else(row)
    }

    /// Whether it belongs to a list.
    fn is_of(&self, acl: &str) -> bool {
        match self {
            Self::Rule(list, _) => list == acl,
            Self::Row(_, lists) => lists.iter().any(|list| list == acl),
        }
    }
}

/// The cleared rules and rows.
#[derive(Debug, Default)]
pub struct ClearedAcls {
    baselines: Mutex<BTreeMap<Key, Baseline>>,
    /// Those of `clear zones`.
    pub zones: zones::ClearedZones,
}

/// The rule of a state without its position, which does not matter to its counters.
fn unplaced(state: &AclRuleState) -> Option<AclRule> {
    let rule = state.rule.clone()?;
    Some(AclRule { after: String::new(), ..rule })
}

impl ClearedAcls {
    /// Clears the hits of these rules and rows, which are those of the list `acl`, or of all if it is empty.
    pub fn clear(&self, acl: &str, states: &[AclRuleState]) -> v1::ClearAclReply {
        let mut baselines = self.baselines.lock().unwrap_or_else(PoisonError::into_inner);
        // Only what exists is kept.
        baselines.retain(|key, _| !acl.is_empty() && !key.is_of(acl));
        for state in states {
            let Some(key) = Key::of(state) else { continue };
            let AclRuleState { packets, bytes, .. } = *state;
            baselines.insert(key, Baseline { rule: unplaced(state), packets, bytes });
        }
        v1::ClearAclReply { rules: states.iter().filter(|it| it.rule.is_some()).count() as u64 }
    }

    /// Makes the hits of a rule or of a row relative to their last clear.
    pub fn subtract(&self, state: &mut AclRuleState) {
        let baselines = self.baselines.lock().unwrap_or_else(PoisonError::into_inner);
        if baselines.is_empty() {
            return;
        }
        let Some(then) = Key::of(state).and_then(|key| baselines.get(&key)) else { return };
        if then.packets <= state.packets
            && then.bytes <= state.bytes
            && then.rule == unplaced(state)
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
        let row = |packets| AclRuleState {
            packets,
            row: Some(v1::AclRow { family: 4, acls: vec!["edge".into(), "rest".into()] }),
            ..AclRuleState::default()
        };
        assert_eq!(cleared.clear("rest", &[row(5)]).rules, 0);
        assert_eq!(seen(&cleared, row(9)), [4, 0]);
        cleared.clear("other", &[]);
        assert_eq!(seen(&cleared, row(9)), [4, 0]);
        assert_eq!(seen(&cleared, state("web", "", 13)), [3, 300]);
        cleared.clear("edge", &[state("web", "", 10)]);
        assert_eq!(seen(&cleared, row(9)), [9, 0], "it is gone");
        assert_eq!(seen(&cleared, state("web", "", 13)), [3, 300]);
        cleared.clear("", &[]);
        assert_eq!(seen(&cleared, state("web", "", 13)), [13, 1_300], "no rule was there");
    }
}
