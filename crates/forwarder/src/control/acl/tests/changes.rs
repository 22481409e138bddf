//! Lists and classifiers after small changes against those that are read and compiled as a whole.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use stoa_engine::pool::HugePages;
use stoa_ports::{NullConfig, OpenError, PortConfig, TapConfig};
use stoa_tables::classifier::NO_RULE;

use super::super::list::List;
use super::super::{AccessListState, Set};
use super::{Packet, meets, packet, rule};
use crate::acl::hits::Hits;
use crate::acl::interfaces::{Ends, word};
use crate::acl::keys::{Family, Ip4, Ip6, first};
use crate::acl::{Action, Classifier};
use crate::control::desired::{
    self, AclRule, AclSets, DesiredState, Interface, Path, Route, RuleOfList, Workers,
};
use crate::control::{Forwarder, Limits};

const LISTS: [&str; 2] = ["one", "two"];

/// The rules of each list, in their order.
pub(super) type Model = [Vec<(String, RuleOfList)>; 2];

#[derive(Clone, Debug)]
pub(super) enum Edit {
    Insert(usize, Index, RuleOfList),
    Remove(usize, Index),
    Replace(usize, Index, RuleOfList),
    Move(usize, Index, Index),
    Rename(usize, Index),
}

/// What becomes of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Accepted,
    /// It is refused before interfaces name its lists.
    RefusedEarly,
    /// It is refused after that.
    RefusedLate,
}

fn any_rule() -> impl Strategy<Value = RuleOfList> {
    (prop_oneof![rule(true), rule(false)], any::<bool>(), any::<bool>()).prop_map(
        |(rule, is_stateful, is_logged)| {
            let action = if is_stateful { Action::Accept } else { Action::Drop };
            RuleOfList { action, is_stateful, is_logged, ..rule }
        },
    )
}

pub(super) fn edit() -> impl Strategy<Value = Edit> {
    let (list, at) = (0..LISTS.len(), any::<Index>());
    prop_oneof![
        (list.clone(), at.clone(), any_rule())
            .prop_map(|(list, at, rule)| Edit::Insert(list, at, rule)),
        (list.clone(), at.clone()).prop_map(|(list, at)| Edit::Remove(list, at)),
        (list.clone(), at.clone(), any_rule())
            .prop_map(|(list, at, rule)| Edit::Replace(list, at, rule)),
        (list.clone(), at.clone(), any::<Index>())
            .prop_map(|(list, at, to)| Edit::Move(list, at, to)),
        (list, at).prop_map(|(list, at)| Edit::Rename(list, at)),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop::sample::select(vec![
        Outcome::Accepted,
        Outcome::Accepted,
        Outcome::RefusedLate,
        Outcome::RefusedEarly,
    ])
}

pub(super) fn apply_edit(model: &mut Model, edit: Edit, last: &mut usize) {
    *last += 1;
    let name = format!("new{last}");
    match edit {
        Edit::Insert(list, at, rule) => {
            let at = at.index(model[list].len() + 1);
            model[list].insert(at, (name, rule));
        }
        Edit::Remove(list, at) if !model[list].is_empty() => {
            let at = at.index(model[list].len());
            model[list].remove(at);
        }
        Edit::Replace(list, at, rule) if !model[list].is_empty() => {
            let at = at.index(model[list].len());
            model[list][at].1 = rule;
        }
        Edit::Move(list, at, to) if !model[list].is_empty() => {
            let moved = model[list].remove(at.index(model[list].len()));
            let to = to.index(model[list].len() + 1);
            model[list].insert(to, moved);
        }
        Edit::Rename(list, at) if !model[list].is_empty() => {
            let at = at.index(model[list].len());
            model[list][at].0 = name;
        }
        _ => {}
    }
}

/// Two interfaces, of which the first one has both lists; what `outcome` needs is there, too.
pub(super) fn desired(model: &Model, outcome: Outcome) -> DesiredState {
    let workers = Workers { buffers: 512, huge_pages: HugePages::Never, ..Workers::default() };
    let mut desired = DesiredState { workers, ..DesiredState::default() };
    let lists = LISTS.map(str::to_owned).to_vec();
    let acls = AclSets {
        in4: lists.clone(),
        in6: lists,
        out4: vec!["two".to_owned()],
        ..AclSets::default()
    };
    for (name, acls) in [("1", acls), ("2", AclSets::default())] {
        let null = NullConfig { tx_queues: 1, mtu: 1500, mac: None };
        desired.ports.insert(name.to_owned(), PortConfig::Null(null));
        let interface = Interface { enabled: true, acls, ..Interface::default() };
        desired.interfaces.insert(name.to_owned(), interface);
    }
    for (list, rules) in LISTS.into_iter().zip(model) {
        let mut after = String::new();
        for (name, rule) in rules {
            let key = (list.to_owned(), name.clone());
            let rule = AclRule { after: after.clone(), sets: None, rule: rule.clone() };
            desired.acl_rules.insert(key, rule);
            after.clone_from(name);
        }
    }
    match outcome {
        Outcome::Accepted => {}
        Outcome::RefusedEarly => {
            desired.ports.insert("3".to_owned(), PortConfig::Tap(TapConfig::default()));
            desired.interfaces.insert("3".to_owned(), Interface::default());
        }
        Outcome::RefusedLate => {
            for at in 0..40 {
                let next_hop = Some([10, 0, 2, 10 + at].into());
                let path = Path { interface: "2".to_owned(), next_hop, weight: 1 };
                let route = Route { protocol: 0, action: desired::Action::Paths(vec![path]) };
                desired.routes.insert(([192, 0, 2, at].into(), 32), route);
            }
        }
    }
    desired
}

pub(super) fn forwarder(model: &Model) -> Forwarder {
    let open = |config: &PortConfig, pool| match config {
        PortConfig::Tap(_) => {
            Err(OpenError::Config { field: "name", reason: "there is no such port".to_owned() })
        }
        other => stoa_ports::open(other, pool),
    };
    let limits = Limits { next_hops: 40, ..Limits::default() };
    let mut forwarder = Forwarder::stepped(limits, Arc::new(open));
    forwarder.apply(desired(model, Outcome::Accepted)).unwrap();
    forwarder
}

pub(super) fn acls(forwarder: &mut Forwarder) -> &AccessListState {
    &forwarder.state().unwrap().capabilities.acl
}

/// The counters of each rule.
type Counters = BTreeMap<(String, String), (RuleOfList, Arc<Hits>)>;

fn counters(acls: &AccessListState) -> Counters {
    let all = acls.lists.values().flat_map(|list| list.iter());
    all.map(|it| (it.key.clone(), (it.rule.rule.clone(), it.hits.clone()))).collect()
}

/// Lists are those of the model, and what they know of themselves is right.
fn check_lists(acls: &AccessListState, model: &Model) {
    for (name, rules) in LISTS.into_iter().zip(model) {
        let none = Arc::default();
        let list = acls.lists.get(name).unwrap_or(&none);
        let pair = |it: &Arc<super::super::Installed>| (it.key.1.clone(), it.rule.rule.clone());
        assert_eq!(list.iter().map(pair).collect::<Vec<_>>(), *rules);
        let whole = List::new(list.iter().cloned().collect());
        assert_eq!((whole.sums(), whole.len()), (list.sums(), list.len()));
        assert!(list.ranked().is_sorted_by(|a, b| a.rank < b.rank));
        for it in list.ranked() {
            assert!(list.named(it.name()).is_some_and(|found| Arc::ptr_eq(&found.rule, &it.rule)));
        }
        assert!(list.named("nobody").is_none());
    }
}

/// Packets meet the first rule of the model, and what the classifier says of its rules is right.
fn check_set<F: Family>(
    acls: &AccessListState,
    (set, classifier): (&Set, &Classifier),
    model: &Model,
    packets: &[Packet],
) {
    let names =
        LISTS.into_iter().zip(model).filter(|(name, _)| set.lists.iter().any(|it| it == name));
    let rules: Vec<_> =
        names.flat_map(|(list, all)| all.iter().map(move |it| (list, it))).collect();
    let number = |name: u16| match name {
        0 => 0,
        name => acls.interfaces.of(&name.to_string()),
    };
    for packet in packets {
        let fields = F::fields(&packet.bytes());
        let (received, sent, vlan) = packet.ends;
        let ends = Ends { received: word(number(received), vlan), sent: word(number(sent), 0) };
        let found = first::<F>(&classifier.reader, &fields, ends);
        let is_met =
            |rule: &RuleOfList| rule.is_of(if F::IS_IP4 { 4 } else { 6 }) && meets(rule, packet);
        let expected = rules.iter().find(|(_, (_, rule))| is_met(rule));
        let hits = expected.map(|(list, (name, _))| {
            Arc::as_ptr(&acls.lists[*list].named(name).unwrap().rule.hits)
        });
        let of_entry = |entry: u32| {
            let rule = classifier.rules.get(entry as usize).unwrap();
            Arc::as_ptr(&rule.hits)
        };
        assert_eq!((found != NO_RULE).then(|| of_entry(found)), hits, "{packet:?}");
    }
    let of_family: Vec<_> = rules
        .iter()
        .map(|(_, (_, rule))| rule)
        .filter(|rule| rule.is_of(if F::IS_IP4 { 4 } else { 6 }))
        .collect();
    assert_eq!(classifier.entries, of_family.iter().map(|it| it.entries()).sum::<usize>());
    let some = |is: fn(&RuleOfList) -> bool| of_family.iter().any(|it| it.entries() > 0 && is(it));
    assert_eq!(classifier.traits.is_logged, some(|it| it.is_logged));
    assert_eq!(classifier.traits.is_stateful, some(|it| it.is_stateful));
    assert_eq!(classifier.traits.reads_interfaces, some(RuleOfList::reads_interfaces));
    let known: HashSet<*const Hits> =
        acls.lists.values().flat_map(|list| list.iter()).map(|it| Arc::as_ptr(&it.hits)).collect();
    let is_known = |hits: &Arc<Hits>| {
        Arc::ptr_eq(hits, &classifier.unmatched) || known.contains(&Arc::as_ptr(hits))
    };
    assert!(
        classifier.rules.iter().all(|it| is_known(&it.hits)),
        "nothing of removed rules is held"
    );
}

fn check(forwarder: &mut Forwarder, model: &Model, packets: &[Vec<Packet>; 2]) {
    let acls = acls(forwarder);
    check_lists(acls, model);
    assert_eq!(acls.sets.len(), 3);
    for (set, classifier) in &acls.sets {
        match set.is_ip4 {
            true => check_set::<Ip4>(acls, (set, classifier), model, &packets[0]),
            false => check_set::<Ip6>(acls, (set, classifier), model, &packets[1]),
        }
        if let Some(writer) = acls.writers.get(set) {
            assert!(Arc::ptr_eq(&writer.made, classifier));
        }
    }
}

/// Applies a change, and checks which rules have kept their counters.
fn change(forwarder: &mut Forwarder, model: &mut Model, new: Model, outcome: Outcome) {
    let before = counters(acls(forwarder));
    let result = forwarder.apply(desired(&new, outcome));
    let after = counters(acls(forwarder));
    if outcome == Outcome::Accepted {
        result.unwrap();
        *model = new;
    } else {
        assert!(result.is_err());
        assert!(after.keys().eq(before.keys()));
    }
    let former: HashSet<*const Hits> = before.values().map(|(_, hits)| Arc::as_ptr(hits)).collect();
    for (key, (rule, hits)) in &after {
        match before.get(key).filter(|(former, _)| former == rule) {
            Some((_, kept)) => assert!(Arc::ptr_eq(hits, kept), "{key:?}"),
            None => assert!(!former.contains(&Arc::as_ptr(hits)), "{key:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn changed_lists_are_those_that_are_read_and_compiled_as_a_whole(
        rules in prop::collection::vec((0..LISTS.len(), any_rule()), 60..160),
        steps in prop::collection::vec((prop::collection::vec(edit(), 1..5), outcome()), 1..8),
        of4 in prop::collection::vec(packet(true), 40),
        of6 in prop::collection::vec(packet(false), 40),
    ) {
        let (mut model, mut last, packets) = (Model::default(), 0, [of4, of6]);
        for (at, (list, rule)) in rules.into_iter().enumerate() {
            model[list].push((format!("r{at}"), rule));
        }
        let mut forwarder = forwarder(&model);
        check(&mut forwarder, &model, &packets);
        for (edits, outcome) in steps {
            let mut new = model.clone();
            edits.into_iter().for_each(|edit| apply_edit(&mut new, edit, &mut last));
            change(&mut forwarder, &mut model, new, outcome);
            check(&mut forwarder, &model, &packets);
        }
    }
}

/// Rules of one host each.
pub(super) fn hosts(count: u8) -> Vec<(String, RuleOfList)> {
    let host = |at: u8| {
        let sources = vec![([10, 0, 0, at].into(), 32)];
        (format!("r{at}"), RuleOfList { family: 4, sources, ..RuleOfList::all(Action::Accept) })
    };
    (0..count).map(host).collect()
}

/// How many entries have changed since trees were built, of the sets of IPv4 that have writers.
fn changes(forwarder: &mut Forwarder) -> Vec<usize> {
    let acls = acls(forwarder);
    let writers = acls.sets.keys().filter_map(|set| acls.writers.get(set));
    writers.map(|writer| writer.tree.changes()).collect()
}

#[test]
fn small_changes_and_their_inverse_build_no_tree() {
    let mut model = [hosts(200), Vec::new()];
    let mut forwarder = forwarder(&model);
    assert_eq!(changes(&mut forwarder), [0]);
    let mut new = model.clone();
    new[0][7].1.dscp = Some(9);
    change(&mut forwarder, &mut model, new.clone(), Outcome::Accepted);
    assert_eq!(changes(&mut forwarder), [2], "one entry in place of another");
    new[0].insert(50, ("new".to_owned(), RuleOfList::all(Action::Drop)));
    change(&mut forwarder, &mut model, new.clone(), Outcome::Accepted);
    assert_eq!(changes(&mut forwarder), [3], "the rule behind it only has another predecessor");
    new[0][0].1.action = Action::Reject;
    change(&mut forwarder, &mut model, new.clone(), Outcome::RefusedLate);
    assert_eq!(changes(&mut forwarder), [7], "a change, and its inverse");
    change(&mut forwarder, &mut model, new.clone(), Outcome::Accepted);
    assert_eq!(changes(&mut forwarder), [9]);
    change(&mut forwarder, &mut model, new.clone(), Outcome::Accepted);
    assert_eq!(changes(&mut forwarder), [9], "nothing changes");
    for (at, (_, rule)) in new[0].iter_mut().enumerate().take(17) {
        rule.dscp = Some(at as u8);
    }
    change(&mut forwarder, &mut model, new.clone(), Outcome::Accepted);
    assert_eq!(changes(&mut forwarder), [0], "many rules are compiled with their list");
    new[0][9].1.dscp = Some(60);
    change(&mut forwarder, &mut model, new.clone(), Outcome::RefusedEarly);
    assert_eq!(changes(&mut forwarder), [0], "the lists in force are none that the writer had");
    for round in 0..100 {
        new[0][9].1.dscp = Some(round % 60);
        change(&mut forwarder, &mut model, new.clone(), Outcome::Accepted);
        assert!(changes(&mut forwarder)[0] <= 50, "a tree with many changes is built again");
    }
    let entries = acls(&mut forwarder).sets.values().map(|it| it.rules.len()).max();
    assert!(entries < Some(260), "{entries:?}");
    new[0].truncate(20);
    change(&mut forwarder, &mut model, new.clone(), Outcome::Accepted);
    assert!(changes(&mut forwarder).is_empty(), "small ones have no writer");
}

/// Fewer rules find a place between two than are inserted there.
#[test]
fn a_place_without_ranks_has_the_list_compiled() {
    let mut model = [hosts(250), Vec::new()];
    let mut forwarder = forwarder(&model);
    for round in 0..40_u8 {
        let mut new = model.clone();
        let rule = RuleOfList { dscp: Some(round), ..RuleOfList::all(Action::Drop) };
        new[0].insert(100, (format!("new{round}"), rule));
        change(&mut forwarder, &mut model, new, Outcome::Accepted);
        check_lists(acls(&mut forwarder), &model);
    }
}
