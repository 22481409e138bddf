//! The numbers of the interfaces that rules name, and what workers know of each interface.
//!
//! A change gives numbers to the interfaces that its rules name, and writes them for those that exist, before workers
//! get the rules (`prepare`). New interfaces get theirs before packets arrive (`flags`). A later change frees the
//! numbers of interfaces that no rule names any more, and a number is given again only after all others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stoa_api::v1;

use super::list::List;
use crate::acl::interfaces::{number_of, vlan_of, word};
use crate::control::desired::{Interface, RuleOfList};
use crate::control::forwarder_state::ForwarderState;

/// The number of no interface: classifiers have it in place of one that does not exist.
const NOWHERE: u16 = u16::MAX;

/// Numbers of interfaces by name.
#[derive(Default)]
pub(super) struct InterfaceNumbers {
    numbers: BTreeMap<String, u16>,
    /// The number that was given last.
    last: u16,
}

impl InterfaceNumbers {
    /// The number of an interface that a rule names.
    pub(super) fn of(&self, name: &str) -> u16 {
        self.numbers.get(name).copied().unwrap_or(NOWHERE)
    }

    /// Gives a number to an interface that has none.
    fn add(&mut self, name: &str) {
        if self.numbers.contains_key(name) {
            return;
        }
        let is_used = |numbers: &BTreeMap<String, u16>, it| numbers.values().any(|of| *of == it);
        // Rules name fewer interfaces than there are numbers.
        for _ in 1..NOWHERE {
            self.last = if self.last == NOWHERE - 1 { 1 } else { self.last + 1 };
            if !is_used(&self.numbers, self.last) {
                self.numbers.insert(name.to_owned(), self.last);
                return;
            }
        }
    }
}

/// The ID of the outer VLAN of an interface; 0: it has none.
fn vlan(interface: &Interface) -> u16 {
    interface.tags.first().map_or(0, |(_, id)| *id)
}

fn names<'a>(lists: impl Iterator<Item = &'a Arc<List>>) -> BTreeSet<&'a String> {
    lists.flat_map(|list| list.sums().interfaces()).collect()
}

impl ForwarderState {
    /// Gives numbers to interfaces that rules of the change name, and tells workers of those that exist.
    pub(super) fn number_interfaces(&mut self) {
        self.free_numbers();
        let acls = &mut self.capabilities.acl;
        let lists = acls.new_lists.values().map(|new| &new.list);
        let named: Vec<String> = names(lists).into_iter().cloned().collect();
        for name in named {
            self.capabilities.acl.interfaces.add(&name);
            // Also if it is known: an audit has the rule written again.
            self.tell_interface(&name);
            self.pause(1);
        }
    }

    /// Forgets the numbers of interfaces that no rule names: but only if no worker uses earlier rules any more, for
    /// which these interfaces would have no number.
    fn free_numbers(&mut self) {
        if self.capabilities.acl.interfaces.numbers.is_empty() || self.graveyard.sweep() > 0 {
            return;
        }
        let acls = &self.capabilities.acl;
        let known = acls.lists.values().chain(acls.replaced.values());
        let named = names(known.chain(acls.new_lists.values().map(|new| &new.list)));
        let free = acls.interfaces.numbers.keys().filter(|name| !named.contains(*name));
        let free: Vec<String> = free.cloned().collect();
        for name in free {
            self.capabilities.acl.interfaces.numbers.remove(&name);
            // Another one may get the number.
            self.tell_interface(&name);
        }
    }

    fn tell_interface(&self, name: &str) {
        if let Some(index) = self.index_of(name)
            && let Some(state) = self.interface(index)
        {
            self.set_acl_interface(index, name, &state.desired);
        }
    }

    /// Tells workers what rules see of an interface.
    pub(super) fn set_acl_interface(&self, index: u32, name: &str, interface: &Interface) {
        let numbers = &self.capabilities.acl.interfaces.numbers;
        let number = numbers.get(name).copied().unwrap_or(0);
        self.shared.attributes.set_acl(index, word(number, vlan(interface)));
    }

    /// Whether workers know the interfaces that a rule names.
    pub(super) fn knows_interfaces(&self, rule: &RuleOfList) -> bool {
        rule.interfaces().all(|name| {
            let index = self.index_of(name);
            let known = index.map(|index| number_of(self.shared.attributes.acl_of(index)));
            known == Some(self.capabilities.acl.interfaces.of(name))
        })
    }

    /// Writes the VLAN that rules see of an interface, if it is a wrong one.
    pub(super) fn vlan_in_force(&self, index: u32, interface: &mut v1::Interface) {
        let vid = vlan_of(self.shared.attributes.acl_of(index));
        if self.interface(index).is_some_and(|state| vlan(&state.desired) != vid) {
            interface.outer = Some(v1::Tag { vid: vid.into(), ..v1::Tag::default() });
        }
    }

    /// Forgets the number and the VLAN of an interface, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(in crate::control) fn lose_acl_interface(
        &mut self,
        name: &str,
        (number, vlan): (u16, u16),
    ) {
        self.shared.attributes.set_acl(self.index_of(name).unwrap(), word(number, vlan));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_given_again_after_all_others() {
        let mut numbers = InterfaceNumbers::default();
        for name in ["a", "b", "a"] {
            numbers.add(name);
        }
        assert_eq!(["a", "b", "c"].map(|name| numbers.of(name)), [1, 2, NOWHERE]);
        numbers.numbers.remove("a");
        numbers.last = NOWHERE - 2;
        for name in ["c", "d", "e"] {
            numbers.add(name);
        }
        assert_eq!(["b", "c", "d", "e"].map(|name| numbers.of(name)), [2, NOWHERE - 1, 1, 3]);
    }
}
