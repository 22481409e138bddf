//! What is counted of learned routes and audits, for whoever watches.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot};

use super::run::{Request, Runner, WorkCounters};
use super::{Audit, Learned, RouteSourceSummary};

/// How long whoever watches waits for a table that is busy.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Audits so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditCounters {
    /// How many were made, by themselves or on demand.
    pub runs: u64,
    /// Routes that were not as desired.
    pub different: u64,
    /// Routes of them that were told again, and that the forwarder took.
    pub repaired: u64,
    /// When the last one ended, seconds since 1970; 0: there was none.
    pub last_unix_s: u64,
    /// Whether it compared all tables and found no difference.
    pub was_equal: bool,
}

impl AuditCounters {
    /// Another one ended; `refused` routes of those that it told again were not taken.
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

/// All that is counted.
#[derive(Clone, Debug, Default)]
pub struct LearnedStatistics {
    /// Each route source, as the table sees it.
    pub route_sources: Vec<RouteSourceSummary>,
    /// What the table has done.
    pub work: WorkCounters,
    /// Audits so far.
    pub audits: AuditCounters,
    /// Whether all route sources have said all, and what a former controller left is gone.
    pub is_complete: bool,
}

/// A way to the table for those that look: it does not keep the table alive.
#[derive(Clone, Debug)]
pub struct TableHandle {
    requests: mpsc::WeakSender<Request>,
}

impl TableHandle {
    /// What is counted now; `None` when the table has no time for that, or ended.
    pub async fn statistics(&self) -> Option<LearnedStatistics> {
        self.ask(|runner| LearnedStatistics {
            route_sources: runner.table.route_source_states(),
            work: runner.work,
            audits: runner.audits,
            is_complete: runner.is_completed(),
        })
        .await
    }

    /// Asks the table; `None` when it has no time, or ended.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Runner) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let request: Request = Box::new(move |runner| {
            // Who asked may have gone away.
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
    /// A way to look at it.
    pub(super) fn handle(&self) -> TableHandle {
        TableHandle { requests: self.requests.downgrade() }
    }
}
