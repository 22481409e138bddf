//! Access lists (RFC 8519): rules of an interface and direction, or between zones, that accept, drop or reject packets.
//!
//! Features of the arcs of received and of sent IP packets. The lists of an interface, direction and family are one
//! [`Classifier`]; the argument of the feature is its id. Packets to groups and to link-local addresses do not pass the
//! input arcs: `ip4-input` and `ip6-input` ask about them one by one ([`beside_arc4`], [`beside_arc6`]).

mod beside;
mod essential;
mod flow_keys;
pub mod interfaces;
pub mod keys;
mod limit;
pub mod log;
mod node;
mod place;
mod refusal;
pub mod reset;
mod stateful;
pub mod zones;

pub use beside::{beside_arc4, beside_arc6, pair_to_host4, pair_to_host6};
pub(crate) use flow_keys::flow_vrf;
pub use limit::RuleLimit;
pub use node::{EDGES4, EDGES6, make_input4, make_input6, make_output4, make_output6};

use std::sync::Arc;

use stoa_engine::counters::Counter;
use stoa_tables::classifier::{ClassifierReader, NO_RULE};

use crate::flow::tracker::Admission;
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

/// What matched a rule, on one worker.
#[derive(Default)]
#[repr(align(64))]
struct Cell {
    packets: Counter,
    bytes: Counter,
    /// The time stamp counter at the last match; 0: none.
    last: Counter,
}

/// The hit counters of a rule, by worker.
pub struct Hits(Box<[Cell]>);

impl std::fmt::Debug for Hits {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:?}", self.sum())
    }
}

/// Hits of all workers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HitSum {
    /// Packets.
    pub packets: u64,
    /// Bytes of these IP packets.
    pub bytes: u64,
    /// The time stamp counter at the last one; 0: none.
    pub last: u64,
}

impl Hits {
    /// Zero counters for so many workers.
    pub fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Cell::default()).collect())
    }

    /// Adds to the counters of a worker; only this worker calls it.
    #[inline]
    fn add(&self, worker: usize, packets: u64, bytes: u64, now: u64) {
        if let Some(cell) = self.0.get(worker) {
            cell.packets.add(packets);
            cell.bytes.add(bytes);
            cell.last.set(now);
        }
    }

    /// All workers together.
    pub fn sum(&self) -> HitSum {
        self.0.iter().fold(HitSum::default(), |sum, cell| HitSum {
            packets: sum.packets + cell.packets.get(),
            bytes: sum.bytes + cell.bytes.get(),
            last: sum.last.max(cell.last.get()),
        })
    }
}

/// What a stateful rule gives its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracks {
    /// The number of the rule, below 2^24.
    pub rule: u32,
    /// The number of its [`Profile`](crate::flow::profiles::Profile).
    pub profile: u8,
}

impl Tracks {
    /// Of a flow that a rule admits. `is_last`: no other one is asked about its packet.
    fn admission(self, policy: Policy, is_last: bool) -> Admission {
        let (Self { rule, profile }, Policy { epoch, has_outputs, .. }) = (self, policy);
        Admission { epoch, rule, profile, is_confirmed: is_last || !has_outputs }
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
    /// The rules of the entries.
    pub rules: Vec<Rule>,
    /// Whether some of them have a log.
    pub is_logged: bool,
    /// Whether some of them look at interfaces or VLANs.
    pub reads_interfaces: bool,
    /// Counters of packets that match none of them.
    pub unmatched: Arc<Hits>,
}

impl Classifier {
    /// The counters of an entry, or those of no entry ([`NO_RULE`]); `None`: of neither.
    #[inline]
    fn hits(&self, entry: u32) -> Option<&Hits> {
        match self.rules.get(entry as usize) {
            Some(rule) => Some(&rule.hits),
            None => (entry == NO_RULE).then_some(&*self.unmatched),
        }
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
