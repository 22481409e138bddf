//! Whether a list knows where the rules are that a change touches.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;

use super::super::list::List;
use super::changes::{Model, Outcome, acls, apply_edit, desired, edit, forwarder, hosts};
use crate::control::apply::ChangeError;
use crate::control::desired::{AclRule, AclRuleKey, DesiredChange, DesiredState};

/// What a list knows of a change is what a check of all rules finds. It knows all of simple changes: others may move
/// rules that they do not touch.
fn check_moves(list: &List, [former, touched]: [&DesiredState; 2], is_simple: bool) {
    let keys = former.acl_rules.keys().chain(touched.acl_rules.keys());
    let differs = |key: &&(String, String)| former.acl_rules.get(key) != touched.acl_rules.get(key);
    let keys: BTreeSet<_> = keys.filter(differs).collect();
    let of_list: Vec<_> =
        keys.iter().map(|key| (key.1.as_str(), touched.acl_rules.get(key))).collect();
    let row = touched.acl_rules_of("one");
    let is_row = row.len() == touched.acl_rules.len();
    let Some(moves) = list.moves(&of_list) else {
        assert!(!is_simple);
        return;
    };
    assert!(is_row);
    let mut after: BTreeMap<u64, &str> = list.ranked().map(|it| (it.rank, it.name())).collect();
    for it in &moves.removed {
        after.remove(&it.rank);
    }
    for (rank, name, _) in &moves.added {
        assert!(after.insert(*rank, name).is_none());
    }
    let row: Vec<&str> = row.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(after.into_values().collect::<Vec<_>>(), row);
}

proptest! {
    #[test]
    fn a_row_is_known_by_the_rules_that_a_change_touches(
        count in 1..9_u8,
        edits in prop::collection::vec(edit(), 0..4),
        wrong in prop::collection::vec((any::<Index>(), any::<Index>()), 0..3),
    ) {
        let model: Model = [hosts(count), Vec::new()];
        let state = desired(&model, Outcome::Accepted);
        let mut forwarder = forwarder(&model);
        let is_simple = edits.len() < 2 && wrong.is_empty();
        let (mut new, mut last) = (model.clone(), 0);
        for edit in edits {
            apply_edit(&mut new, edit, &mut last);
        }
        new[1].clear();
        let mut touched = desired(&new, Outcome::Accepted);
        let mut names: Vec<String> = new[0].iter().map(|(name, _)| name.clone()).collect();
        names.extend([String::new(), "nobody".to_owned()]);
        for (at, after) in wrong {
            let count = touched.acl_rules.len();
            if count > 0 && let Some(rule) = touched.acl_rules.values_mut().nth(at.index(count)) {
                rule.after.clone_from(after.get(&names));
            }
        }
        check_moves(&acls(&mut forwarder).lists["one"], [&state, &touched], is_simple);
    }
}

#[test]
fn a_change_that_breaks_the_row_is_refused() {
    let model: Model = [hosts(9), Vec::new()];
    let mut forwarder = forwarder(&model);
    let rules = desired(&model, Outcome::Accepted).acl_rules;
    let key = |name: &str| ("one".to_owned(), name.to_owned());
    let behind = |name: &str, after: &str| {
        let rule = AclRule { after: after.to_owned(), ..rules[&key(name)].clone() };
        (key(name), Some(rule))
    };
    let mut change = |rules: Vec<(AclRuleKey, Option<AclRule>)>| {
        let change =
            DesiredChange { acl_rules: rules.into_iter().collect(), ..DesiredChange::default() };
        let generation = forwarder.generation();
        match forwarder.change(generation, change) {
            Ok(_) => true,
            Err(ChangeError::Invalid(errors)) => {
                assert!(errors[0].cause.contains("are in one row"), "{errors:?}");
                false
            }
            Err(other) => panic!("{other:?}"),
        }
    };
    for wrong in ["", "r3", "r5", "r8", "nobody"] {
        assert!(!change(vec![behind("r5", wrong)]), "{wrong:?}");
    }
    assert!(!change(vec![(key("r5"), None)]), "r6 names it");
    assert!(change(vec![(key("r5"), None), behind("r6", "r4")]));
    assert!(change(vec![behind("r8", ""), behind("r0", "r8")]));
    let names = |list: &List| list.iter().map(|it| it.key.1.clone()).collect::<Vec<_>>().join(" ");
    assert_eq!(names(&acls(&mut forwarder).lists["one"]), "r8 r0 r1 r2 r3 r4 r6 r7");
}
