//! What a commit warns about: rules that another one hides, and lists without rules.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use stoa_api::v1;

use super::coverage::Compared;
use super::essential;
use super::flow_profiles;
use super::interface_warnings;
use super::paths::{ACLS, list_path, point_path, rule_path, set_path};
use super::zones;
use crate::config::Interfaces;
use crate::warning::Warning;

/// Warnings of a kind that are listed.
pub(super) const LISTED: usize = 20;

/// Pairs of rules, and values of their lists, that are compared at most: about a tenth of a second.
const STEPS: usize = 10_000_000;

/// The warnings about rules and the lists of interfaces and of pairs of zones.
pub(crate) fn warnings(
    all: &[v1::AclRule],
    (interfaces, pairs): (&Interfaces, &[v1::ZonePair]),
) -> Vec<Warning> {
    let mut lists: BTreeMap<&str, Vec<&v1::AclRule>> = BTreeMap::new();
    for rule in all {
        lists.entry(&rule.acl).or_default().push(rule);
    }
    let sets = sets(interfaces, pairs);
    let mut warnings = empty(&sets, &lists);
    warnings.extend(all.iter().filter_map(without_values).take(LISTED));
    warnings.extend(interfaces.iter().flat_map(unfiltered).take(LISTED));
    warnings.extend(zones::without_lists(pairs).take(LISTED));
    warnings.extend(essential::warnings(&lists, (interfaces, pairs), essential::STEPS));
    warnings.extend(flow_profiles::warnings(all, LISTED));
    warnings.extend(interface_warnings::warnings(all, (interfaces, pairs), LISTED));
    let attached: HashSet<&str> = sets.iter().flatten().copied().collect();
    let alone = || lists.keys().copied().filter(|name| !attached.contains(name));
    warnings.extend(alone().map(unattached).take(LISTED));
    let compared: BTreeMap<&str, Vec<Compared<'_>>> = lists
        .iter()
        .map(|(name, rules)| (*name, rules.iter().map(|rule| Compared::new(rule)).collect()))
        .collect();
    warnings.extend(compared.values().filter_map(|rules| unconditional(rules)).take(LISTED));
    let (mut seen, mut steps, most) = (HashSet::new(), STEPS, warnings.len() + LISTED);
    for set in sets.into_iter().chain(alone().map(|name| vec![name])) {
        let rules: Vec<&Compared<'_>> =
            set.iter().filter_map(|name| compared.get(name)).flatten().collect();
        for (at, it) in rules.iter().enumerate() {
            let Some(left) = steps.checked_sub(at) else {
                warnings.push(incomplete(it.rule));
                return warnings;
            };
            steps = left;
            let hiding = rules[..at].iter().find(|former| former.covers(it, &mut steps));
            if steps == 0 && at > 0 {
                warnings.push(incomplete(it.rule));
                return warnings;
            }
            let Some(hiding) = hiding else { continue };
            let (rule, former) = (it.rule, hiding.rule);
            // One warning about a rule without conditions stands for all behind it.
            if rule.acl == former.acl && hiding.is_unconditional() {
                continue;
            }
            if !seen.insert((&rule.acl, &rule.name, &former.acl, &former.name)) {
                continue;
            }
            if warnings.len() == most {
                let text =
                    "more rules of access lists are hidden by others: correct those above first";
                warnings.push(Warning { text: text.to_owned(), nodes: vec![ACLS.to_owned()] });
                return warnings;
            }
            warnings.push(hidden(it, hiding));
        }
    }
    warnings
}

/// The lists of interfaces and pairs in their order, by direction and family, each once.
fn sets<'a>(interfaces: &'a Interfaces, pairs: &'a [v1::ZonePair]) -> BTreeSet<Vec<&'a str>> {
    let all = interfaces.iter().filter_map(|interface| interface.acls.as_ref());
    let all = all.flat_map(|it| [&it.in4, &it.in6, &it.out4, &it.out6]);
    let all = all.chain(pairs.iter().flat_map(|it| [&it.acls4, &it.acls6]));
    let names = |set: &'_ Vec<String>| !set.is_empty();
    all.filter(|set| names(set)).map(|set| set.iter().map(String::as_str).collect()).collect()
}

/// Attached lists without rules.
fn empty(sets: &BTreeSet<Vec<&str>>, lists: &BTreeMap<&str, Vec<&v1::AclRule>>) -> Vec<Warning> {
    let names: BTreeSet<&str> = sets.iter().flatten().copied().collect();
    let empty = names.into_iter().filter(|name| !lists.contains_key(name));
    let warning = |name: &str| Warning {
        text: format!(
            "access list {name} has no rules: where it is attached, packets that no other list matches are dropped"
        ),
        nodes: vec![list_path(name)],
    };
    empty.map(warning).take(LISTED).collect()
}

/// A list that nothing has.
fn unattached(name: &str) -> Warning {
    Warning {
        text: format!(
            "access list {name} decides nothing: no interface has it, and no pair of zones; attach it, or deactivate it"
        ),
        nodes: vec![list_path(name)],
    }
}

/// The families of an interface of which no list sees packets, although a list sees those of the other one.
fn unfiltered(interface: &v1::Interface) -> impl Iterator<Item = Warning> {
    let sets = interface.acls.clone().unwrap_or_default();
    let has = |family: &Option<v1::Family>| family.as_ref().is_some_and(|it| it.enabled);
    let has = [has(&interface.ip4), has(&interface.ip6)];
    let of = [("receives", [sets.in4, sets.in6]), ("sends", [sets.out4, sets.out6])];
    let name = interface.name.clone();
    of.into_iter().filter_map(move |(does, [four, six])| {
        let (of_lists, other) = match (four.is_empty(), six.is_empty()) {
            (false, true) if has[1] => (4, 6),
            (true, false) if has[0] => (6, 4),
            _ => return None,
        };
        Some(Warning {
            text: format!(
                "interface {name}: all its lists for packets that it {does} are of IPv{of_lists}, so all IPv{other} \
                 packets pass; attach a list of IPv{other}, too, or one without a type"
            ),
            nodes: vec![point_path(&name)],
        })
    })
}

/// A rule that no packet matches, because a set of it has no values.
fn without_values(rule: &v1::AclRule) -> Option<Warning> {
    let sets = rule.sets.as_ref().filter(|_| rule.matches_nothing)?;
    let prefixes = if rule.family == 4 { "ipv4-prefix-sets" } else { "ipv6-prefix-sets" };
    let prefixes = format!("{prefixes}/prefix-set");
    let lists = [
        (prefixes.as_str(), &sets.sources, rule.sources.is_empty()),
        (prefixes.as_str(), &sets.destinations, rule.destinations.is_empty()),
        ("protocol-sets/protocol-set", &sets.protocols, rule.protocols.is_empty()),
        ("port-sets/port-set", &sets.source_ports, rule.source_ports.is_empty()),
        ("port-sets/port-set", &sets.destination_ports, rule.destination_ports.is_empty()),
    ];
    let (kind, set, _) =
        lists.into_iter().find(|(_, set, is_empty)| *is_empty && !set.is_empty())?;
    let (acl, name) = (&rule.acl, &rule.name);
    Some(Warning {
        text: format!(
            "access list {acl}: rule {name} matches no packet: its set {set} has no values; add some, or deactivate \
             the rule"
        ),
        nodes: vec![rule_path(acl, name), set_path(kind, set)],
    })
}

/// The first rule of a list that matches every packet, if others follow.
fn unconditional(rules: &[Compared<'_>]) -> Option<Warning> {
    let at = rules.iter().position(Compared::is_unconditional)?;
    let (rule, behind) = (rules[at].rule, rules.len() - at - 1);
    let (acl, name) = (&rule.acl, &rule.name);
    let of = if behind == 1 { "rule".to_owned() } else { format!("{behind} rules") };
    (behind > 0).then(|| Warning {
        text: format!(
            "access list {acl}: rule {name} has no condition and matches every packet: the {of} behind it cannot \
             decide; give it a condition, or make it the last one"
        ),
        nodes: vec![rule_path(acl, name)],
    })
}

fn hidden(hidden: &Compared<'_>, hiding: &Compared<'_>) -> Warning {
    let (rule, former) = (hidden.rule, hiding.rule);
    let (acl, name) = (&rule.acl, &rule.name);
    let of_list =
        if former.acl == *acl { String::new() } else { format!(" of access list {}", former.acl) };
    let by = format!("rule {}{of_list}", former.name);
    let what = match rule.action == former.action {
        true => format!(
            "is redundant: {by}, which comes first, matches the same packets with the same action"
        ),
        false if hidden.covers(hiding, &mut STEPS.clone()) => {
            format!(
                "contradicts {by}, which comes first and matches the same packets: it has no effect"
            )
        }
        false => format!("is shadowed: {by}, which comes first, matches all its packets"),
    };
    Warning {
        text: format!("access list {acl}: rule {name} {what}"),
        nodes: vec![rule_path(acl, name), rule_path(&former.acl, &former.name)],
    }
}

fn incomplete(rule: &v1::AclRule) -> Warning {
    let text = format!(
        "the rules of access lists are too many to find all that others hide: rule {} of {} and later ones were not \
         compared",
        rule.name, rule.acl
    );
    Warning { text, nodes: vec![ACLS.to_owned()] }
}
