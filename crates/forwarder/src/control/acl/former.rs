//! The rules that a list had before a change.

use std::collections::HashMap;
use std::sync::Arc;

use super::Installed;
use super::list::List;

/// Finds rules of a former list by name. Most changes keep the order of rules: then each is behind the one that was
/// found last, and nothing is hashed.
pub(super) struct Former<'a> {
    rules: Vec<&'a Arc<Installed>>,
    /// Where the next rule is expected.
    next: usize,
    /// Places by name, once a rule was not where it was expected.
    places: Option<HashMap<&'a str, usize>>,
}

impl<'a> Former<'a> {
    /// Of this list; `None`: there was none.
    pub(super) fn of(list: Option<&'a List>) -> Self {
        Self { rules: list.into_iter().flat_map(List::iter).collect(), next: 0, places: None }
    }

    /// The rule of this name, if there was one.
    pub(super) fn take(&mut self, name: &str) -> Option<&'a Arc<Installed>> {
        let is_next = |at: usize| self.rules.get(at).is_some_and(|it| it.key.1 == name);
        let place = if is_next(self.next) { Some(self.next) } else { self.place(name) };
        self.next = place.map_or(self.next, |place| place + 1);
        self.rules.get(place?).copied()
    }

    #[cold]
    fn place(&mut self, name: &str) -> Option<usize> {
        let rules = &self.rules;
        let places = self.places.get_or_insert_with(|| {
            let mut places = HashMap::with_capacity(rules.len());
            places.extend(rules.iter().zip(0..).map(|(it, place)| (it.key.1.as_str(), place)));
            places
        });
        places.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::Action;
    use crate::acl::hits::{HitTable, Hits};
    use crate::control::desired::{AclRule, RuleOfList};

    #[test]
    fn rules_are_found_whatever_their_new_order_is() {
        let table = HitTable::new(1, 16).unwrap();
        let installed = |name: &str| {
            Arc::new(Installed {
                key: ("edge".to_owned(), name.to_owned()),
                rule: AclRule {
                    after: String::new(),
                    sets: None,
                    rule: RuleOfList::all(Action::Accept),
                },
                hits: Arc::new(Hits::new(&table)),
                number: 0,
                profile: 0,
                limit: None,
                log: None,
            })
        };
        let list = List::new(["a", "b", "c", "d"].map(installed).into());
        let found = |names: &str| -> String {
            let mut former = Former::of(Some(&list));
            let found = names.split(' ').map(|name| former.take(name));
            found.map(|it| it.map_or("-", |it| it.key.1.as_str())).collect()
        };
        assert_eq!(found("a b c d"), "abcd");
        assert_eq!(found("a new b c d"), "a-bcd");
        assert_eq!(found("a c d"), "acd");
        assert_eq!(found("d c new b a"), "dc-ba");
        assert!(Former::of(None).take("a").is_none());
    }
}
