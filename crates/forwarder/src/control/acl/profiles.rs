//! The numbers by which workers know the profiles of stateful rules.

use std::sync::Arc;

use stoa_api::v1;

use super::AccessListState;
use crate::control::apply::ApplyError;
use crate::flow::flows::Flows;
use crate::flow::profiles::PROFILES;

/// More profiles than there are numbers.
fn too_many() -> ApplyError {
    let error = v1::ValidationError {
        path: "access lists".to_owned(),
        cause: format!("rules have more than {} different flow profiles", PROFILES - 1),
        fix: "Use fewer flow profiles.".to_owned(),
        names: Vec::new(),
    };
    ApplyError { errors: vec![error], is_full: true }
}

impl AccessListState {
    /// Numbers the profiles of the lists of a change, and has workers know new ones. A number that a rule in force has
    /// keeps its profile. One that no rule has any more is used again; a flow that still has it takes the new profile
    /// until its rule is judged anew.
    pub(super) fn number_profiles(&mut self, flows: &Flows) -> Result<(), ApplyError> {
        let mut is_used = [false; PROFILES];
        is_used[0] = true;
        for installed in self.lists.values().chain(self.replaced.values()).flatten() {
            is_used[usize::from(installed.profile) % PROFILES] = true;
        }
        for installed in self.new_lists.values_mut().flatten() {
            let Some(wanted) = &installed.rule.rule.flow_profile else { continue };
            let profile = |number: &usize| flows.profiles().get(*number as u8);
            let has = |number: &usize| is_used[*number] && profile(number) == *wanted;
            let known = (0..PROFILES).find(has);
            let number = known.or_else(|| (0..PROFILES).find(|number| !is_used[*number]));
            let number = number.ok_or_else(too_many)?;
            if known.is_none() {
                flows.profiles().set(number as u8, wanted);
            }
            is_used[number] = true;
            if usize::from(installed.profile) != number {
                Arc::make_mut(installed).profile = number as u8;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use stoa_engine::quiescence::Quiescence;
    use stoa_tables::lpm::Kernel;

    use super::super::Installed;
    use super::*;
    use crate::acl::Action;
    use crate::acl::hits::{HitTable, Hits};
    use crate::control::desired::{AclRule, RuleOfList};
    use crate::flow::profiles::Profile;
    use crate::flow::timeouts::Class;

    fn profile(seconds: u32) -> Profile {
        let mut profile = Profile::default();
        profile.timeouts.set(Class::Icmp, seconds);
        profile
    }

    fn list(profiles: impl Iterator<Item = Profile>) -> Vec<Arc<Installed>> {
        let rule = |profile| RuleOfList {
            is_stateful: true,
            flow_profile: Some(profile),
            ..RuleOfList::all(Action::Accept)
        };
        let hits = HitTable::new(1, 8).unwrap();
        let installed = |profile| Installed {
            key: ("edge".to_owned(), "rule".to_owned()),
            rule: AclRule { after: String::new(), sets: None, rule: rule(profile) },
            hits: Arc::new(Hits::new(&hits)),
            number: 1,
            profile: 0,
            limit: None,
            log: None,
        };
        profiles.map(installed).map(Arc::new).collect()
    }

    #[test]
    fn equal_profiles_share_a_number_and_those_in_force_keep_theirs() {
        let quiescence = Quiescence::new(1);
        let flows = Flows::new(
            crate::flow::flows::Sizes { ip4: 16, ip6: 16, ..Default::default() },
            Kernel::Bits,
            1,
            &quiescence,
        )
        .unwrap();
        let mut state = AccessListState::default();
        let numbers = |state: &AccessListState| {
            state.new_lists["new"].iter().map(|it| it.profile).collect::<Vec<_>>()
        };
        state.new_lists.insert("new".to_owned(), list([5, 60, 6, 5].map(profile).into_iter()));
        assert!(state.number_profiles(&flows).is_ok());
        assert_eq!(numbers(&state), [1, 0, 2, 1], "60 seconds are the default");
        assert_eq!(flows.profiles().get(2), profile(6));
        state.lists.insert("old".to_owned(), state.new_lists["new"].clone());
        state.new_lists.insert("new".to_owned(), list((6..20).map(profile)));
        assert!(state.number_profiles(&flows).is_ok());
        assert_eq!(numbers(&state), (2..16).collect::<Vec<_>>());
        state.new_lists.insert("new".to_owned(), list((6..21).map(profile)));
        let refused = state.number_profiles(&flows).unwrap_err();
        assert!(refused.errors[0].cause.contains("15 different"), "{:?}", refused.errors);
        state.lists.clear();
        state.new_lists.insert("new".to_owned(), list([30].map(profile).into_iter()));
        assert!(state.number_profiles(&flows).is_ok());
        assert_eq!((numbers(&state), flows.profiles().get(1)), (vec![1], profile(30)));
    }
}
