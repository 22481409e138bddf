//! The audit of the desired state: whether all entries that the controller desires are in force in the forwarder, by
//! kind. Differences are reported, counted, and repaired.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stoa_api::audit::{Kind, Sum, Tally, desired};
use stoa_api::v1;
use stoa_api::v1::desired_audit_client::DesiredAuditClient;
use tonic::Request;
use tonic::transport::Channel;

use super::{ForwarderConnection, Held};
use crate::configuration::Configuration;

/// Interval of the automatic audit.
const INTERVAL: Duration = Duration::from_secs(60);
/// The least part of the time without an audit: audits of large states take longer, and are rarer.
const REST: u32 = 100;
/// Time limit of a repair: it may concern all interfaces.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(120);
/// Attempts while the desired state changes, and the pause between them.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);
/// Keys of different entries in the log.
const LOGGED: usize = 5;

/// The result of an audit for one kind of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedKind {
    /// The kind.
    pub kind: Kind,
    /// Entries that should be in force.
    pub desired: u64,
    /// Entries in force, before a repair.
    pub held: u64,
    /// Entries that were missing, that differed, or that should not have been there.
    pub different: u64,
    /// The digest of the entries in force.
    pub digest: u64,
}

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditedState {
    /// The number of the desired state in force.
    pub generation: u64,
    /// All kinds that the forwarder counts.
    pub kinds: Vec<AuditedKind>,
}

/// What audits have found since the start.
#[derive(Clone, Debug, Default)]
pub struct DesiredAudits {
    /// Audits that compared both sides.
    pub runs: u64,
    /// Entries that differed, by kind.
    pub different: BTreeMap<Kind, u64>,
    /// Whether the last audit found no difference, or all of them could be repaired.
    pub is_equal: bool,
}

/// What differs, as the sums of both sides. Nothing: the forwarder did not say.
pub(super) type Differences = Vec<(Kind, Sum, Sum)>;

/// What both sides have.
struct Compared {
    generation: u64,
    ours: Tally,
    theirs: Tally,
    /// The kinds that differ.
    differing: Vec<Kind>,
}

impl ForwarderConnection {
    /// What audits have found.
    pub fn desired_audits(&self) -> DesiredAudits {
        self.state().audits.clone()
    }

    /// Audits the desired state after each synchronization and periodically, forever.
    pub async fn watch_desired(&self) {
        let mut pause = INTERVAL;
        loop {
            // Early where the forwarder has got its state anew.
            let _ = tokio::time::timeout(pause, self.synced.notified()).await;
            let started = Instant::now();
            self.audit_desired().await;
            pause = INTERVAL.max(started.elapsed() * REST);
        }
    }

    /// Compares both sides and repairs differences. What a repair leaves has the whole state sent, once: if it differs
    /// in the same way afterwards, that does not help. `None`: the forwarder does not answer, has another state, or is
    /// too old to be audited.
    pub async fn audit_desired(&self) -> Option<AuditedState> {
        let compared = self.compare_desired().await?;
        let audited = compared.audited();
        self.count_audit(&audited);
        if compared.differing.is_empty() {
            self.state().sent_for = None;
            return Some(audited);
        }
        compared.log();
        if let Some(left) = self.left_by_repair(&compared).await {
            let mut state = self.state();
            state.audits.is_equal = false;
            if state.sent_for.as_ref() == Some(&left) {
                tracing::error!("what differs stays so, although the whole desired state was sent");
            } else {
                tracing::error!(
                    "not all differences were repaired: sending the whole desired state"
                );
                state.sent_for = Some(left);
                (state.held, state.synced) = (None, None);
            }
        }
        Some(audited)
    }

    fn count_audit(&self, audited: &AuditedState) {
        let mut state = self.state();
        let audits = &mut state.audits;
        audits.runs += 1;
        audits.is_equal = true;
        for AuditedKind { kind, different, .. } in &audited.kinds {
            *audits.different.entry(*kind).or_default() += different;
        }
    }

    /// Brings the entries of differing kinds into force again; what differs then. `None`: nothing.
    async fn left_by_repair(&self, compared: &Compared) -> Option<Differences> {
        // No commit in between.
        let _one = self.transaction.lock().await;
        let kinds = compared.differing.iter().map(|kind| kind.name().to_owned()).collect();
        let repair = v1::RepairDesiredRequest { generation: compared.generation, kinds };
        let mut request = Request::new(repair);
        request.set_timeout(REPAIR_TIMEOUT);
        if let Err(status) = self.audit_client().repair_desired(request).await {
            // Other kinds may be repaired.
            tracing::error!("the forwarder could not repair its state: {}", status.message());
        }
        let left = self.compare_desired().await.map(|compared| compared.sums());
        left.as_ref().is_none_or(|left| !left.is_empty()).then(|| left.unwrap_or_default())
    }

    fn audit_client(&self) -> DesiredAuditClient<Channel> {
        let client = DesiredAuditClient::new(self.channel.clone());
        client.max_decoding_message_size(stoa_api::MESSAGE_LIMIT_BYTES)
    }

    async fn compare_desired(&self) -> Option<Compared> {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            let (held, version) = self.held();
            // A transaction is going on.
            let Some((generation, configuration)) = held else { continue };
            let reply = self.ask_audit(&[]).await?;
            if reply.is_changing || reply.generation != generation {
                continue;
            }
            let defaults =
                v1::Desired { punts: reply.punt_defaults, ..reply.defaults.unwrap_or_default() };
            let defaults = Arc::new(self.with_own_defaults(defaults));
            let mut theirs = Tally::from_messages(reply.kinds, &version);
            let mut ours = count(&configuration, &defaults, Vec::new()).await?;
            let differing = ours.differing(&theirs);
            if !differing.is_empty() {
                // Their keys: what both sides have, listed.
                let listed = self.ask_audit(&differing).await?;
                if listed.is_changing || listed.generation != generation {
                    continue;
                }
                theirs = Tally::from_messages(listed.kinds, &version);
                ours = count(&configuration, &defaults, differing).await?;
            }
            let differing = ours.differing(&theirs);
            return Some(Compared { generation, ours, theirs, differing });
        }
        None
    }

    /// The state that the forwarder holds, with its number, and the version of its program.
    fn held(&self) -> (Option<(u64, Arc<Configuration>)>, String) {
        let state = self.state();
        let held = state.held.as_ref().map(|held: &Held| {
            let Held { generation, configuration, .. } = held;
            (*generation, Arc::clone(configuration))
        });
        let version = state.hello.as_ref().map(|hello| hello.version.clone());
        (held, version.unwrap_or_default())
    }

    /// What is in force where nothing is configured: this router may have sent a seed of its own.
    fn with_own_defaults(&self, defaults: v1::Desired) -> v1::Desired {
        let own = Some(self.multipath(None)).filter(|own| own.hash_seed != 0);
        v1::Desired { multipath: own.or(defaults.multipath), ..defaults }
    }

    async fn ask_audit(&self, listed: &[Kind]) -> Option<v1::AuditDesiredReply> {
        let listed = listed.iter().map(|kind| kind.name().to_owned()).collect();
        let request = v1::AuditDesiredRequest { listed };
        self.audit_client().audit_desired(request).await.ok().map(tonic::Response::into_inner)
    }
}

/// Counts the desired entries, which takes a while where there are many.
async fn count(
    configuration: &Arc<Configuration>,
    defaults: &Arc<v1::Desired>,
    listed: Vec<Kind>,
) -> Option<Tally> {
    let (configuration, defaults) = (Arc::clone(configuration), Arc::clone(defaults));
    let count = move || {
        let Configuration { interfaces, routes, .. } = &*configuration;
        desired(&configuration.desired, (interfaces.iter(), routes.iter()), &defaults, &listed)
    };
    tokio::task::spawn_blocking(count).await.ok()
}

impl Compared {
    /// What differs.
    fn sums(&self) -> Differences {
        let sums = |kind: &Kind| (*kind, self.ours.sum(*kind), self.theirs.sum(*kind));
        self.differing.iter().map(sums).collect()
    }

    fn audited(&self) -> AuditedState {
        let kind = |kind: Kind| {
            let (Sum { entries: desired, .. }, held) = (self.ours.sum(kind), self.theirs.sum(kind));
            let different = match self.differing.contains(&kind) {
                // More entries than are listed may hide the one that differs.
                true => self.ours.differing_keys(&self.theirs, kind).len().max(1) as u64,
                false => 0,
            };
            AuditedKind { kind, desired, held: held.entries, different, digest: held.digest }
        };
        let counted = Kind::ALL.into_iter().filter(|kind| self.theirs.counts(*kind));
        AuditedState { generation: self.generation, kinds: counted.map(kind).collect() }
    }

    fn log(&self) {
        for kind in &self.differing {
            let keys = self.ours.differing_keys(&self.theirs, *kind);
            let (different, kind) = (keys.len(), kind.name());
            let some = keys.into_iter().take(LOGGED).collect::<Vec<_>>().join("; ");
            tracing::error!(
                kind,
                different,
                "entries of the desired state were not in force, and are brought into force again: {some}"
            );
        }
    }
}
