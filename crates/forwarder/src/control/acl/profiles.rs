//! The numbers by which workers know the profiles of stateful rules.

use std::sync::Arc;

use stoa_api::v1;

use super::list::List;
use crate::control::apply::ApplyError;
use crate::flow::flows::Flows;
use crate::flow::profiles::{PROFILES, Profile};

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

/// The numbers of profiles during a change. A number that a rule in force has keeps its profile. One that no rule has
/// any more is used again; a flow that still has it takes the new profile until its rule is judged anew.
pub(super) struct ProfileNumbers<'a> {
    flows: &'a Flows,
    is_used: [bool; PROFILES],
}

impl<'a> ProfileNumbers<'a> {
    /// While these lists are in force, or get back in force if the change is taken back.
    pub(super) fn of<'l>(flows: &'a Flows, lists: impl Iterator<Item = &'l Arc<List>>) -> Self {
        let mut is_used = [false; PROFILES];
        is_used[0] = true;
        for list in lists {
            for (number, is_used) in is_used.iter_mut().enumerate() {
                *is_used |= list.sums().has_profile(number);
            }
        }
        Self { flows, is_used }
    }

    /// The number of the profile of a rule, which workers know then. 0: it has none.
    pub(super) fn number(&mut self, wanted: Option<&Profile>) -> Result<u8, ApplyError> {
        let Some(wanted) = wanted else { return Ok(0) };
        let profiles = self.flows.profiles();
        let has = |number: &usize| self.is_used[*number] && profiles.get(*number as u8) == *wanted;
        let known = (0..PROFILES).find(has);
        let number = known.or_else(|| (0..PROFILES).find(|number| !self.is_used[*number]));
        let number = number.ok_or_else(too_many)?;
        if known.is_none() {
            profiles.set(number as u8, wanted);
        }
        self.is_used[number] = true;
        Ok(number as u8)
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
    use crate::flow::timeouts::Class;

    fn profile(seconds: u32) -> Profile {
        let mut profile = Profile::default();
        profile.timeouts.set(Class::Icmp, seconds);
        profile
    }

    /// A list of rules that have profiles with these numbers.
    fn list(numbers: &[u8]) -> Arc<List> {
        let hits = HitTable::new(1, 32).unwrap();
        let installed = |profile: &u8| {
            let rule = RuleOfList::all(Action::Accept);
            Arc::new(Installed {
                key: ("edge".to_owned(), profile.to_string()),
                rule: AclRule { after: String::new(), sets: None, rule },
                hits: Arc::new(Hits::new(&hits)),
                number: 1,
                profile: *profile,
                limit: None,
                log: None,
            })
        };
        Arc::new(List::new(numbers.iter().map(installed).collect()))
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
        let numbers = |lists: &[Arc<List>], profiles: &[u32]| -> Result<Vec<u8>, ApplyError> {
            let mut numbers = ProfileNumbers::of(&flows, lists.iter());
            profiles.iter().map(|seconds| numbers.number(Some(&profile(*seconds)))).collect()
        };
        let first = numbers(&[], &[5, 60, 6, 5]).unwrap();
        assert_eq!(first, [1, 0, 2, 1], "60 seconds are the default");
        assert_eq!(flows.profiles().get(2), profile(6));
        let old = [list(&first)];
        let others: Vec<u32> = (6..20).collect();
        assert_eq!(numbers(&old, &others).unwrap(), (2..16).collect::<Vec<_>>());
        let others: Vec<u32> = (6..21).collect();
        let refused = numbers(&old, &others).unwrap_err();
        assert!(refused.errors[0].cause.contains("15 different"), "{:?}", refused.errors);
        assert_eq!(numbers(&[], &[30]).unwrap(), [1]);
        assert_eq!(flows.profiles().get(1), profile(30));
        let mut none = ProfileNumbers::of(&flows, old.iter());
        assert_eq!(none.number(None).unwrap(), 0);
    }
}
