//! Counters of learned routes and audits, for monitoring.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot};

use super::run::{Request, Runner, WorkCounters};
use super::{Audit, Learned, RouteSourceSummary};

/// Time limit for a query while the table is busy.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Counters of audits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditCounters {
    /// Audits, automatic and requested.
    pub runs: u64,
    /// Routes that differed.
    pub different: u64,
    /// Differing routes that were sent again and accepted by the forwarder.
    pub repaired: u64,
    /// End of the last audit, seconds since 1970; 0: none yet.
    pub last_unix_s: u64,
    /// Whether the last audit compared all tables and found no difference.
    pub was_equal: bool,
}

impl AuditCounters {
    /// Counts an audit; the forwarder refused `refused` of the routes sent again.
    pub(super) fn note(&mut self, audit: &Audit, refused: u64) {
        let different = audit.tables.iter().map(|table| table.different).sum::<u64>();
        self.runs += 1;
        self.different += different;
        self.repaired += different.saturating_sub(refused);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last_unix_s = now.as_secs().max(1);
        self.was_equal = audit.is_equal();
    }
}

/// All counters.
#[derive(Clone, Debug, Default)]
pub struct LearnedStatistics {
    /// Each route source, from the table's point of view.
    pub route_sources: Vec<RouteSourceSummary>,
    /// Counters of the table's work.
    pub work: WorkCounters,
    /// Counters of audits.
    pub audits: AuditCounters,
    /// Whether all route sources are complete and the stale routes of the previous controller are removed.
    pub is_complete: bool,
}

/// A handle for monitoring; it does not keep the table alive.
#[derive(Clone, Debug)]
pub struct TableHandle {
    requests: mpsc::WeakSender<Request>,
}

impl TableHandle {
    /// The current counters; `None` when the table is busy or has ended.
    pub async fn statistics(&self) -> Option<LearnedStatistics> {
        self.ask(|runner| LearnedStatistics {
            route_sources: runner.table.route_source_states(),
            work: runner.work,
            audits: runner.audits,
            is_complete: runner.is_completed(),
        })
        .await
    }

    /// Runs a query on the table; `None` when it is busy or has ended.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Runner) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let request: Request = Box::new(move |runner| {
            // The requester may have given up.
            let _ = answer.send(ask(runner));
        });
        let asked = async {
            self.requests.upgrade()?.send(request).await.ok()?;
            answered.await.ok()
        };
        tokio::time::timeout(TIMEOUT, asked).await.ok()?
    }
}

impl Learned {
    /// A handle for monitoring.
    pub(super) fn handle(&self) -> TableHandle {
        TableHandle { requests: self.requests.downgrade() }
    }
}
