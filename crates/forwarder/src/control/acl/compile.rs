//! From the rules of lists to a classifier.

use std::net::IpAddr;
use std::sync::Arc;

use stoa_api::v1;
use stoa_tables::classifier::{
    self, ClassifierCapacity, ClassifierError, ClassifierReader, Fragment, Prefix, Range,
};
use stoa_tables::lpm::Kernel;

use super::{AccessListState, Set};
use crate::acl::{Classifier, Rule, Tracks};
use crate::control::apply::ApplyError;
use crate::control::desired::{self, Fragments, RuleOfList};
use crate::control::forwarder_state::ForwarderState;
use crate::control::limits::Table;

/// Entries that the control thread compiles at once, which takes it some milliseconds. A thread compiles more.
const AT_ONCE: usize = 128;

/// An entry of a classifier.
type Entry = classifier::Rule;

/// A prefix for the classifier. Without one, all addresses of the family: the entry is of no other family.
fn prefix(given: Option<desired::Prefix>, is_ip4: bool) -> Prefix {
    match given {
        Some((IpAddr::V4(ip), len)) => Prefix::Ip4 { address: ip.into(), len },
        Some((IpAddr::V6(ip), len)) => Prefix::Ip6 { address: ip.into(), len },
        None if is_ip4 => Prefix::Ip4 { address: 0, len: 0 },
        None => Prefix::Ip6 { address: 0, len: 0 },
    }
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

/// The entries of a rule: one for each pair of its ranges of ports.
pub(super) fn entries(rule: &RuleOfList, is_ip4: bool) -> impl Iterator<Item = Entry> {
    let ranges = |ranges: &[(u16, u16)], icmp: Option<u8>| match ranges {
        [] => vec![icmp.map_or(Range::ANY, |byte| Range::one(byte.into()))],
        ranges => ranges.iter().map(|(first, last)| Range { first: *first, last: *last }).collect(),
    };
    let sources = ranges(&rule.source_ports, rule.icmp_type);
    let destinations = ranges(&rule.destination_ports, rule.icmp_code);
    let (first, last) = rule.length.unwrap_or((0, u16::MAX));
    // A range of all ports is a condition, too: later fragments have no ports.
    let all_parts = fragments(rule.fragments);
    let parts = match rule.reads_upper_header() {
        true => all_parts & !Fragment::Later.bit(),
        false => all_parts,
    };
    let all = Entry {
        source: Some(prefix(rule.source, is_ip4)),
        destination: Some(prefix(rule.destination, is_ip4)),
        protocol: rule.protocol,
        tcp_flags: rule.tcp_flags.0,
        tcp_flags_mask: rule.tcp_flags.1,
        dscp: rule.dscp,
        fragments: parts,
        lengths: Range { first, last },
        ..Entry::default()
    };
    sources.into_iter().flat_map(move |source_ports| {
        let with = move |destination_ports| Entry { source_ports, destination_ports, ..all };
        destinations.clone().into_iter().map(with)
    })
}

/// How many entries a rule has.
pub(super) fn entry_count(rule: &RuleOfList) -> usize {
    rule.source_ports.len().max(1) * rule.destination_ports.len().max(1)
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
pub(super) fn build(entries: &[Entry], kernel: Kernel) -> Result<ClassifierReader, BuildError> {
    let capacity = ClassifierCapacity::for_rules(entries.len());
    let mut built = classifier::Classifier::new(capacity).ok_or(BuildError::NoMemory)?;
    built.replace_all((0..).zip(entries).map(|(number, entry)| (number, number, *entry)))?;
    built.publish();
    let reader = built.reader();
    Ok(reader.clone().with_kernel(kernel).unwrap_or(reader))
}

impl AccessListState {
    /// The entries of the lists of a set, and the rule of each.
    fn entries_of(&self, set: &Set) -> (Vec<Entry>, Vec<Rule>) {
        let family = if set.is_ip4 { 4 } else { 6 };
        let (mut all, mut rules) = (Vec::new(), Vec::new());
        let installed = set.lists.iter().flat_map(|acl| self.list(acl));
        for installed in installed.filter(|it| it.rule.rule.is_of(family)) {
            let rule = &installed.rule.rule;
            all.extend(entries(rule, set.is_ip4));
            let tracks = Tracks { rule: installed.number, profile: installed.profile };
            let tracks = rule.is_stateful.then_some(tracks);
            let of_workers = Rule { action: rule.action, tracks, hits: installed.hits.clone() };
            rules.resize(all.len(), of_workers);
        }
        (all, rules)
    }
}

impl ForwarderState {
    /// Compiles the lists of a set. Urgent work runs meanwhile.
    pub(super) fn compile_acls(
        &mut self,
        id: u32,
        set: &Set,
    ) -> Result<Arc<Classifier>, ApplyError> {
        let (entries, rules) = self.capabilities.acl.entries_of(set);
        let kernel = self.shared.kernel.lookup();
        let reader = match entries.len() {
            0 => self.empty_tree(kernel),
            1..=AT_ONCE => build(&entries, kernel),
            _ => self.build_aside(&entries, kernel),
        };
        self.pause(entries.len() as u32);
        match reader {
            Ok(reader) => Ok(Arc::new(Classifier { id, reader, rules })),
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
    fn empty_tree(&mut self, kernel: Kernel) -> Result<ClassifierReader, BuildError> {
        if let Some(tree) = &self.capabilities.acl.empty {
            return Ok(tree.clone());
        }
        let tree = build(&[], kernel)?;
        self.capabilities.acl.empty = Some(tree.clone());
        Ok(tree)
    }

    /// Builds a tree on a thread of its own.
    fn build_aside(
        &mut self,
        entries: &[Entry],
        kernel: Kernel,
    ) -> Result<ClassifierReader, BuildError> {
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
