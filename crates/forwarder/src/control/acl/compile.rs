//! From the rules of lists to a classifier.

use std::net::IpAddr;
use std::sync::Arc;

use stoa_api::v1;
use stoa_tables::classifier::{self, ClassifierCapacity, ClassifierError, Fragment, Prefix, Range};
use stoa_tables::lpm::Kernel;

use super::Set;
use crate::acl::{Classifier, Rule, Tracks, Tree};
use crate::control::apply::ApplyError;
use crate::control::desired::{self, Fragments, RuleOfList};
use crate::control::forwarder_state::ForwarderState;
use crate::control::limits::Table;

/// Entries that the control thread compiles at once, which takes it some milliseconds. A thread compiles more.
const AT_ONCE: usize = 128;

/// Entries that are written between two pauses: a tenth of a millisecond.
const SLICE: usize = 2_048;

/// An entry of a classifier.
type Entry = classifier::Rule;

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

/// Adds the entries of a rule for a family: one for each way to combine a value of each of its lists. Their order does
/// not matter: they are of one rule. Interfaces have a number by their name.
pub(super) fn add_entries(
    (rule, number): (&RuleOfList, impl Fn(&str) -> u16),
    is_ip4: bool,
    all: &mut Vec<Entry>,
) {
    if rule.matches_nothing {
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

/// Builds the tree of entries in their order; the id of each is its number.
pub(super) fn build(entries: &[Entry], kernel: Kernel) -> Result<Tree, BuildError> {
    let capacity = ClassifierCapacity::for_rules(entries.len());
    let mut built = classifier::Classifier::new(capacity).ok_or(BuildError::NoMemory)?;
    built.replace_all((0..).zip(entries).map(|(number, entry)| (number, number, *entry)))?;
    built.publish();
    let reader = built.reader();
    let reader = reader.clone().with_kernel(kernel).unwrap_or(reader);
    Ok(Tree { reader, relevant: built.relevant_bits() })
}

impl ForwarderState {
    /// The entries of the lists of a set, the rule of each, and whether any looks at interfaces. Urgent work runs
    /// between rules.
    fn entries_of(&mut self, set: &Set) -> (Vec<Entry>, Vec<Rule>, bool) {
        let family = if set.is_ip4 { 4 } else { 6 };
        let (mut all, mut rules, mut paused) = (Vec::new(), Vec::new(), 0);
        let mut reads_interfaces = false;
        for acl in &set.lists {
            for at in 0..self.capabilities.acl.list(acl).len() {
                let Some(installed) = self.capabilities.acl.list(acl).get(at) else { break };
                let rule = &installed.rule.rule;
                if !rule.is_of(family) {
                    continue;
                }
                let numbers = &self.capabilities.acl.interfaces;
                add_entries((rule, |name| numbers.of(name)), set.is_ip4, &mut all);
                reads_interfaces |= rule.reads_interfaces();
                let tracks =
                    Tracks { rule: installed.number, profile: installed.profile, alg: rule.alg };
                let tracks = rule.is_stateful.then_some(tracks);
                let (hits, limit) = (installed.hits.clone(), installed.limit.clone());
                let log = installed.log.clone();
                rules.resize(all.len(), Rule { action: rule.action, tracks, limit, log, hits });
                if all.len() - paused >= SLICE {
                    self.pause((all.len() - paused) as u32);
                    paused = all.len();
                }
            }
        }
        (all, rules, reads_interfaces)
    }

    /// Compiles the lists of a set. Urgent work runs meanwhile.
    pub(super) fn compile_acls(
        &mut self,
        id: u32,
        set: &Set,
    ) -> Result<Arc<Classifier>, ApplyError> {
        let (entries, rules, reads_interfaces) = self.entries_of(set);
        let kernel = self.shared.kernel.lookup();
        let tree = match entries.len() {
            0 => self.empty_tree(kernel),
            1..=AT_ONCE => build(&entries, kernel),
            _ => self.build_aside(&entries, kernel),
        };
        self.pause(entries.len() as u32);
        match tree {
            Ok(tree) => {
                let unmatched = self.capabilities.acl.unmatched(set, &self.shared.hits);
                let of = (tree, rules);
                Ok(Arc::new(Classifier::new(id, of, reads_interfaces, unmatched)))
            }
            Err(error) => {
                let lists = set.lists.join(", ");
                let reason = format!("{} entries of {lists}: {error}", entries.len());
                if error == BuildError::NoMemory {
                    return Err(no_memory(reason));
                }
                let full = self.fib.table_full(Table::AclCompiled, reason);
                Err(ApplyError::full("access lists", &full))
            }
        }
    }

    /// The tree without entries: all lists without rules share it.
    fn empty_tree(&mut self, kernel: Kernel) -> Result<Tree, BuildError> {
        if let Some(tree) = &self.capabilities.acl.empty {
            return Ok(tree.clone());
        }
        let tree = build(&[], kernel)?;
        self.capabilities.acl.empty = Some(tree.clone());
        Ok(tree)
    }

    /// Builds a tree on a thread of its own.
    fn build_aside(&mut self, entries: &[Entry], kernel: Kernel) -> Result<Tree, BuildError> {
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
