//! From the rules of lists to a classifier.

use std::net::IpAddr;
use std::sync::Arc;

use stoa_api::v1;
use stoa_tables::classifier::{self, ClassifierCapacity, ClassifierError, Fragment, Prefix, Range};
use stoa_tables::lpm::Kernel;

use super::list::List;
use super::writer::{Place, SetList, SetWriter, Writing};
use super::{AccessListState, Installed, Set};
use crate::acl::{Classifier, Rule, Tracks, Traits, Tree};
use crate::control::apply::ApplyError;
use crate::control::desired::{self, Fragments, RuleOfList};
use crate::control::forwarder_state::ForwarderState;
use crate::control::limits::Table;

/// Entries that the control thread compiles at once, which takes it some milliseconds. A thread compiles more.
///
/// Their writers are not kept: they are compiled again as soon.
const AT_ONCE: usize = 128;

/// Entries that are written between two pauses: a tenth of a millisecond.
const SLICE: usize = 2_048;

/// An entry of a classifier.
pub(super) type Entry = classifier::Rule;

/// The prefixes of a list for the classifier. Without one, all addresses of the family: the entries are of no other
/// family.
fn prefixes(given: &[desired::Prefix], is_ip4: bool) -> impl Iterator<Item = Prefix> + Clone {
    let one = |prefix: &desired::Prefix| match *prefix {
        (IpAddr::V4(ip), len) => Prefix::Ip4 { address: ip.into(), len },
        (IpAddr::V6(ip), len) => Prefix::Ip6 { address: ip.into(), len },
    };
    let all = match is_ip4 {
        true => Prefix::Ip4 { address: 0, len: 0 },
        false => Prefix::Ip6 { address: 0, len: 0 },
    };
    given.is_empty().then_some(all).into_iter().chain(given.iter().map(one))
}

/// The ranges of a list. `icmp`: the type or the code in their place.
fn ranges(given: &[(u16, u16)], icmp: Option<u8>) -> impl Iterator<Item = Range> + Clone {
    let all = icmp.map_or(Range::ANY, |byte| Range::one(byte.into()));
    let some = given.iter().map(|(first, last)| Range { first: *first, last: *last });
    given.is_empty().then_some(all).into_iter().chain(some)
}

fn fragments(given: Fragments) -> u8 {
    let [no, first, later] = [Fragment::No, Fragment::First, Fragment::Later].map(Fragment::bit);
    match given {
        Fragments::Any => no | first | later,
        Fragments::None => no,
        Fragments::First => first,
        Fragments::Later => later,
        Fragments::All => first | later,
    }
}

/// Adds the entries of a rule for a family, if it is of that: one for each way to combine a value of each of its lists.
/// Their order does not matter: they are of one rule. Interfaces have a number by their name.
pub(super) fn add_entries(
    (rule, number): (&RuleOfList, impl Fn(&str) -> u16),
    is_ip4: bool,
    all: &mut Vec<Entry>,
) {
    if rule.matches_nothing || !rule.is_of(if is_ip4 { 4 } else { 6 }) {
        return;
    }
    let sources = prefixes(&rule.sources, is_ip4);
    let destinations = prefixes(&rule.destinations, is_ip4);
    let some = rule.protocols.iter().copied().map(Some);
    let protocols = rule.protocols.is_empty().then_some(None).into_iter().chain(some);
    let source_ranges = ranges(&rule.source_ports, rule.icmp_type);
    let destination_ranges = ranges(&rule.destination_ports, rule.icmp_code);
    let (first, last) = rule.length.unwrap_or((0, u16::MAX));
    // A range of all ports is a condition, too: later fragments have no ports.
    let all_parts = fragments(rule.fragments);
    let parts = match rule.reads_upper_header() {
        true => all_parts & !Fragment::Later.bit(),
        false => all_parts,
    };
    let base = Entry {
        tcp_flags: rule.tcp_flags.0,
        tcp_flags_mask: rule.tcp_flags.1,
        dscp: rule.dscp,
        fragments: parts,
        lengths: Range { first, last },
        interface: rule.ingress.as_deref().map(&number),
        output: rule.egress.as_deref().map(&number),
        vlan: rule.vlan,
        ..Entry::default()
    };
    all.reserve(rule.entries());
    for source in sources {
        for destination in destinations.clone() {
            for protocol in protocols.clone() {
                let (source, destination) = (Some(source), Some(destination));
                let of_ends = Entry { source, destination, protocol, ..base };
                for source_ports in source_ranges.clone() {
                    all.extend(destination_ranges.clone().map(|destination_ports| Entry {
                        source_ports,
                        destination_ports,
                        ..of_ends
                    }));
                }
            }
        }
    }
}

/// Why there is no tree of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BuildError {
    /// The system refuses the address space.
    #[error("the system has no memory for their tree")]
    NoMemory,
    /// The classifier refuses the entries.
    #[error(transparent)]
    Refused(#[from] ClassifierError),
}

/// A change that the system has no memory for. The limits have room for it.
fn no_memory(cause: String) -> ApplyError {
    let fix = "Free memory of this machine, then apply the configuration again.".to_owned();
    let error =
        v1::ValidationError { path: "access lists".to_owned(), cause, fix, names: Vec::new() };
    ApplyError { errors: vec![error], is_full: true }
}

/// A rule as workers need it.
pub(super) fn rule_of(installed: &Installed) -> Rule {
    let Installed { rule, hits, number, profile, limit, log, .. } = installed;
    let rule = &rule.rule;
    let tracks = Tracks { rule: *number, profile: *profile, alg: rule.alg };
    let tracks = rule.is_stateful.then_some(tracks);
    let (hits, limit, log) = (hits.clone(), limit.clone(), log.clone());
    Rule { action: rule.action, tracks, limit, log, hits }
}

/// How many entries lists have for packets of a family, and what some of their rules do.
pub(super) fn traits_of(lists: &[Arc<List>], is_ip4: bool) -> (usize, Traits) {
    let (mut entries, mut all) = (0, Traits::default());
    for sums in lists.iter().map(|list| list.sums()) {
        let of_list = sums.traits(is_ip4);
        entries += sums.entries(is_ip4);
        all.is_logged |= of_list.is_logged;
        all.reads_interfaces |= of_list.reads_interfaces;
        all.is_stateful |= of_list.is_stateful;
        all.has_algs |= of_list.has_algs;
    }
    (entries, all)
}

/// What a set is compiled from.
struct Compiled {
    /// With their ranks. The id of an entry is its number.
    entries: Vec<(u32, Entry)>,
    rules: Vec<Rule>,
    /// Where the entries of each rule are, in their order.
    places: Vec<((usize, u64), Place)>,
    gap: u32,
}

/// Builds the tree of entries with ranks; the id of each is its number.
pub(super) fn build(
    entries: &[(u32, Entry)],
    kernel: Kernel,
) -> Result<(classifier::Classifier, Tree), BuildError> {
    // A writer that is kept may get more of them.
    let capacity = ClassifierCapacity::for_rules(entries.len() + entries.len() / 4);
    let mut built = classifier::Classifier::new(capacity).ok_or(BuildError::NoMemory)?;
    built.replace_all((0..).zip(entries).map(|(id, (rank, entry))| (id, *rank, *entry)))?;
    let reader = built.snapshot();
    let reader = reader.clone().with_kernel(kernel).unwrap_or(reader);
    let relevant = built.relevant_bits();
    Ok((built, Tree { reader, relevant }))
}

impl ForwarderState {
    /// The entries of the lists of a set, with the rule of each. Urgent work runs between rules.
    fn entries_of(&mut self, set: &Set, lists: &[Arc<List>]) -> Compiled {
        let (count, _) = traits_of(lists, set.is_ip4);
        let rules: usize = lists.iter().map(|list| list.len()).sum();
        // The other half of the ranks is for rules behind the last one.
        let gap = u32::MAX / 2 / (rules as u32 + 1);
        let (mut entries, mut places) = (Vec::with_capacity(count), Vec::new());
        let (mut rules, mut of_rule, mut paused) = (Vec::with_capacity(count), Vec::new(), 0);
        for (at, list) in lists.iter().enumerate() {
            for ranked in list.ranked() {
                let numbers = &self.capabilities.acl.interfaces;
                let rule = &ranked.rule.rule.rule;
                add_entries((rule, |name| numbers.of(name)), set.is_ip4, &mut of_rule);
                if of_rule.is_empty() {
                    continue;
                }
                let (rank, first) = ((places.len() as u32 + 1) * gap, entries.len() as u32);
                entries.extend(of_rule.drain(..).map(|entry| (rank, entry)));
                rules.resize(entries.len(), rule_of(&ranked.rule));
                let place = Place { rank, entries: first..entries.len() as u32 };
                places.push(((at, ranked.rank), place));
                if entries.len() - paused >= SLICE {
                    self.pause((entries.len() - paused) as u32);
                    paused = entries.len();
                }
            }
        }
        Compiled { entries, rules, places, gap }
    }

    /// The classifier of a set. Its writer changes it if the change is small; otherwise all lists are compiled, and
    /// urgent work runs meanwhile.
    pub(super) fn compile_acls(
        &mut self,
        id: u32,
        set: &Set,
    ) -> Result<Arc<Classifier>, ApplyError> {
        let kernel = self.shared.kernel.lookup();
        if let Some(classifier) = self.capabilities.acl.change_set(id, set, kernel) {
            self.pause(1);
            return Ok(classifier);
        }
        let acls = &self.capabilities.acl;
        let lists = set.lists.iter().map(|acl| acls.list(acl).cloned().unwrap_or_default());
        let lists: Vec<Arc<List>> = lists.collect();
        let Compiled { entries, rules, places, gap } = self.entries_of(set, &lists);
        let built = match entries.len() {
            0 => self.empty_tree(kernel).map(|tree| (None, tree)),
            1..=AT_ONCE => build(&entries, kernel).map(|(_, tree)| (None, tree)),
            _ => self.build_aside(&entries, kernel).map(|(writer, tree)| (Some(writer), tree)),
        };
        self.pause(entries.len() as u32);
        let (writer, tree) = built.map_err(|error| self.not_built(set, entries.len(), error))?;
        let (_, traits) = traits_of(&lists, set.is_ip4);
        let acls = &mut self.capabilities.acl;
        let unmatched = acls.unmatched(set, &self.shared.hits);
        let made = Arc::new(Classifier::new(id, (tree, rules), traits, unmatched));
        if let Some(tree) = writer {
            let (places, made) = (places.into_iter().collect(), made.clone());
            acls.writers.insert(set.clone(), SetWriter { tree, lists, places, gap, made });
        }
        Ok(made)
    }

    /// Why a set has no classifier.
    fn not_built(&mut self, set: &Set, entries: usize, error: BuildError) -> ApplyError {
        let reason = format!("{entries} entries of {}: {error}", set.lists.join(", "));
        if error == BuildError::NoMemory {
            return no_memory(reason);
        }
        ApplyError::full("access lists", &self.fib.table_full(Table::AclCompiled, reason))
    }

    /// The tree without entries: all lists without rules share it.
    fn empty_tree(&mut self, kernel: Kernel) -> Result<Tree, BuildError> {
        if let Some(tree) = &self.capabilities.acl.empty {
            return Ok(tree.clone());
        }
        let (_, tree) = build(&[], kernel)?;
        self.capabilities.acl.empty = Some(tree.clone());
        Ok(tree)
    }

    /// Builds a tree on a thread of its own.
    fn build_aside(
        &mut self,
        entries: &[(u32, Entry)],
        kernel: Kernel,
    ) -> Result<(classifier::Classifier, Tree), BuildError> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("acl".to_owned());
            let Ok(thread) = thread.spawn_scoped(scope, || build(entries, kernel)) else {
                return build(entries, kernel);
            };
            while !thread.is_finished() {
                self.wait_while(|_| !thread.is_finished());
            }
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl AccessListState {
    /// The classifier of a set after a small change, by its writer.
    fn change_set(&mut self, id: u32, set: &Set, kernel: Kernel) -> Option<Arc<Classifier>> {
        let writer = self.writers.remove(set)?;
        let of_name = |acl: &String| {
            let change = self.new_lists.get(acl).and_then(|new| new.change.as_ref());
            SetList { list: self.list(acl).cloned().unwrap_or_default(), change }
        };
        let lists: Vec<SetList<'_>> = set.lists.iter().map(of_name).collect();
        let Self { interfaces, .. } = &*self;
        let writing = Writing { id, is_ip4: set.is_ip4, kernel, interfaces };
        let changed = writer.changed(&lists, &writing)?;
        let made = changed.made.clone();
        self.writers.insert(set.clone(), changed);
        Some(made)
    }
}
