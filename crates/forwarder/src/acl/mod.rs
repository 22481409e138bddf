//! Access lists (RFC 8519): rules of an interface and direction, or between zones, that accept, drop or reject packets.
//!
//! Features of the arcs of received and of sent IP packets. The lists of an interface, direction and family are one
//! [`Classifier`]; the argument of the feature is its id. Packets to groups and to link-local addresses do not pass the
//! input arcs: `ip4-input` and `ip6-input` ask about them one by one ([`beside_arc4`], [`beside_arc6`]).

mod beside;
mod essential;
mod flow_keys;
pub mod hits;
pub mod interfaces;
pub mod keys;
mod limit;
pub mod log;
mod node;
mod place;
mod refusal;
pub mod reset;
mod rules;
mod stateful;
pub(crate) use stateful::{Reading, admission_of_deferred};
pub mod zones;

pub use beside::{beside_arc4, beside_arc6, pair_to_host4, pair_to_host6};
pub(crate) use flow_keys::flow_vrf;
pub use limit::RuleLimit;
pub(crate) use node::argument_of;
pub use node::{EDGES4, EDGES6, INPUT_EDGES4, INPUT_EDGES6};
pub use node::{make_input4, make_input6, make_output4, make_output6};
pub use rules::EntryRules;

use std::ops::Range;
use std::sync::Arc;

use stoa_tables::classifier::add_relevant_bits;
use stoa_tables::classifier::{self, ClassifierReader, NO_RULE, Owner, RelevantBits};

use crate::flow::alg::Alg;
use crate::flow::tracker::Admission;
use hits::Hits;
use keys::Family;
use log::RuleLog;

/// The most rules of all lists.
pub const RULES: usize = 131_072;

/// The most entries of all classifiers: each has those of its lists, and a rule has one for each way to combine a value
/// of each of its conditions.
pub const COMPILED: usize = stoa_api::acl::ENTRIES;

/// In place of the id of a classifier: the interface has none, but flows of its packets are followed.
pub const TRACK: u32 = u32::MAX;

/// What happens to packets that match a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// They go on.
    Accept,
    /// They are dropped silently.
    Drop,
    /// They are dropped, and the sender gets a TCP reset or an ICMP error.
    Reject,
}

/// What a stateful rule gives its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracks {
    /// The number of the rule, below 2^24.
    pub rule: u32,
    /// The number of its [`Profile`](crate::flow::profiles::Profile).
    pub profile: u8,
    /// The application level gateway of its flows.
    pub alg: Option<Alg>,
}

impl Tracks {
    /// Of a flow that a rule admits. `is_last`: no other one is asked about its packet, which the interface `received`
    /// has received.
    fn admission(self, policy: Policy, is_last: bool, received: u32) -> Admission {
        let (Self { rule, profile, .. }, Policy { epoch, has_outputs, .. }) = (self, policy);
        let is_confirmed = is_last || !has_outputs;
        Admission { epoch, rule, profile, is_confirmed, received }
    }
}

/// What flows of stateful rules are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Changes with each change of rules and of attachments.
    pub epoch: u16,
    /// Whether an interface has lists for packets that it sends, or a zone. Then flows wait for their verdict.
    pub has_outputs: bool,
    /// Whether some rule is stateful.
    pub is_stateful: bool,
    /// Whether IPv4 addresses are translated.
    pub has_nat: bool,
    /// Whether nothing decides about IPv4 packets: neither lists nor zones.
    pub is_bare: bool,
    /// Whether flows of some rule or policy have an application level gateway.
    pub has_algs: bool,
}

/// A rule as workers need it.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What happens to packets that match.
    pub action: Action,
    /// Of a stateful rule: what its flows have.
    pub tracks: Option<Tracks>,
    /// Of a rule that does not accept all: its limit.
    pub limit: Option<Arc<RuleLimit>>,
    /// Of a rule whose packets are logged.
    pub log: Option<Arc<RuleLog>>,
    /// Its counters.
    pub hits: Arc<Hits>,
}

/// The rules of some lists for packets of one family.
#[derive(Debug)]
pub struct Classifier {
    /// Its number, never that of another one.
    pub id: u32,
    /// Finds the first entry that a packet meets.
    pub reader: ClassifierReader,
    /// The bits of keys that some entry looks at, of IPv4 and IPv6.
    relevant: [RelevantBits; 2],
    /// The rules of the entries, those among them that a change has removed.
    pub rules: EntryRules,
    /// What most packets need of them, by entry.
    outcomes: Box<[Outcome]>,
    /// How many entries there are, without those that a change has removed.
    pub entries: usize,
    /// What some of the rules do.
    pub traits: Traits,
    /// Counters of packets that match none of them.
    pub unmatched: Arc<Hits>,
}

/// What some of the rules of a classifier do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// They have a log.
    pub is_logged: bool,
    /// They look at interfaces or VLANs.
    pub reads_interfaces: bool,
    /// They are stateful.
    pub is_stateful: bool,
    /// They name application level gateways.
    pub has_algs: bool,
}

/// The entries of a classifier.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Finds the first entry that a packet meets.
    pub reader: ClassifierReader,
    /// The bits of keys that some entry looks at, of IPv4 and IPv6.
    pub relevant: [RelevantBits; 2],
}

/// What becomes of most packets that an entry matches: four bytes in place of a [`Rule`].
#[derive(Clone, Copy, Debug)]
struct Outcome(u32);

impl Outcome {
    /// The rule accepts all packets, and begins no flow.
    const ACCEPTS: u32 = 1 << 31;

    fn of(rule: &Rule) -> Self {
        let accepts =
            rule.action == Action::Accept && rule.limit.is_none() && rule.tracks.is_none();
        Self(rule.hits.place() | if accepts { Self::ACCEPTS } else { 0 })
    }

    #[inline(always)]
    fn accepts(self) -> bool {
        self.0 & Self::ACCEPTS != 0
    }

    /// Where its counters are.
    #[inline(always)]
    fn place(self) -> usize {
        (self.0 & !Self::ACCEPTS) as usize
    }
}

impl Classifier {
    /// The rules of a tree's entries, in their order, and counters of packets that match none.
    pub fn new(
        id: u32,
        (tree, rules): (Tree, Vec<Rule>),
        traits: Traits,
        unmatched: Arc<Hits>,
    ) -> Self {
        let outcomes: Box<[Outcome]> = rules.iter().map(Outcome::of).collect();
        let Tree { reader, relevant } = tree;
        let (entries, rules) = (rules.len(), rules.into());
        Self { id, reader, relevant, rules, outcomes, entries, traits, unmatched }
    }

    /// The classifier after a change, with this number and tree: without the entries `removed`, and with others of the
    /// rules `added` behind the last one. What the tree does not lead to any more keeps no rule.
    pub fn changed(
        &self,
        (id, reader): (u32, ClassifierReader),
        (removed, added): (&[Range<u32>], Vec<(classifier::Rule, Rule)>),
        traits: Traits,
    ) -> Self {
        let (mut rules, mut relevant) = (self.rules.clone(), self.relevant);
        let (unmatched, entries) = (self.unmatched.clone(), self.entries + added.len());
        // A bit that only removed entries look at stays: it costs some results, and is never wrong.
        added.iter().for_each(|(entry, _)| add_relevant_bits(entry, &mut relevant));
        let new = added.iter().map(|(_, rule)| Outcome::of(rule));
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(self.outcomes.len() + added.len());
        outcomes.extend(self.outcomes.iter().copied().chain(new));
        rules.extend(added.into_iter().map(|(_, rule)| rule));
        let none = Rule {
            action: Action::Drop,
            tracks: None,
            limit: None,
            log: None,
            hits: unmatched.clone(),
        };
        for entry in removed.iter().cloned().flatten().map(|entry| entry as usize) {
            rules.replace(entry, none.clone());
            if let Some(outcome) = outcomes.get_mut(entry) {
                *outcome = Outcome::of(&none);
            }
        }
        let entries = entries - removed.iter().map(ExactSizeIterator::len).sum::<usize>();
        let outcomes = outcomes.into();
        Self { id, reader, relevant, rules, outcomes, entries, traits, unmatched }
    }

    /// Whose results a node keeps of a family.
    #[inline(always)]
    fn owner<F: Family>(&self) -> Owner<'_> {
        let relevant = &self.relevant[usize::from(!F::IS_IP4)];
        Owner { number: self.id, relevant, rules: self.entries }
    }

    /// The counters of an entry, or those of no entry ([`NO_RULE`]); `None`: of neither.
    #[inline]
    fn hits(&self, entry: u32) -> Option<&Hits> {
        match self.rules.get(entry as usize) {
            Some(rule) => Some(&rule.hits),
            None => (entry == NO_RULE).then_some(&*self.unmatched),
        }
    }

    /// Where the counters are of an entry, or of no entry; `None`: of neither.
    #[inline(always)]
    fn place_of_hits(&self, entry: u32) -> Option<usize> {
        match self.outcomes.get(entry as usize) {
            Some(outcome) => Some(outcome.place()),
            None => (entry == NO_RULE).then(|| self.unmatched.place() as usize),
        }
    }

    /// The same tree, for other rules.
    #[cfg(test)]
    pub(crate) fn tree(&self) -> Tree {
        Tree { reader: self.reader.clone(), relevant: self.relevant }
    }

    /// Whether the rule of an entry accepts all packets, and begins no flow.
    #[inline(always)]
    fn accepts(&self, entry: u32) -> bool {
        self.outcomes.get(entry as usize).is_some_and(|outcome| outcome.accepts())
    }
}

/// All classifiers, by id.
#[derive(Clone, Debug, Default)]
pub struct AccessLists {
    all: Vec<Arc<Classifier>>,
    policy: Option<Policy>,
    /// `None`: there are no zones.
    zones: Option<Arc<zones::Zones>>,
}

impl AccessLists {
    /// Of these classifiers. `policy`: if some of their rules are stateful, or addresses are translated.
    pub fn of(mut all: Vec<Arc<Classifier>>, policy: Option<Policy>) -> Self {
        all.sort_by_key(|classifier| classifier.id);
        Self { all, policy, zones: None }
    }

    /// With these zones.
    #[must_use]
    pub fn with_zones(self, zones: Option<Arc<zones::Zones>>) -> Self {
        Self { zones, ..self }
    }

    /// What flows are compared with; `None`: no rule is stateful, and nothing is translated.
    #[inline(always)]
    pub fn policy(&self) -> Option<Policy> {
        self.policy
    }

    /// The one with this id; `None`: it was removed.
    #[inline]
    pub fn get(&self, id: u32) -> Option<&Classifier> {
        let at = self.all.binary_search_by_key(&id, |classifier| classifier.id).ok()?;
        Some(&self.all[at])
    }
}

#[cfg(test)]
mod tests;
