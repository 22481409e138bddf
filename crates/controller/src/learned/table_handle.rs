//! Queries that monitoring has for the table of learned routes, and the handle that sends them: plain data, so that the
//! connection to the forwarder can offer both without knowing the table.

use std::time::Duration;

use stoa_api::v1;
use tokio::sync::{mpsc, oneshot};

use super::statistics::LearnedStatistics;
use crate::config::routes::Key;
use crate::rib;

/// Time limit for a query while the table is busy.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Queries that may be queued.
const QUERIES: usize = 64;

/// The origin of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The name of the route source; "": the configuration.
    pub route_source: String,
    /// Whether the current session has not announced the route again.
    pub is_stale: bool,
}

/// A query, with where its answer goes.
#[derive(Debug)]
pub enum TableQuery {
    /// All counters.
    Statistics(oneshot::Sender<LearnedStatistics>),
    /// The origins of the learned routes that win these prefixes.
    Origins(Vec<Option<Key>>, oneshot::Sender<Vec<Option<Origin>>>),
}

/// A handle for monitoring; it does not keep the table alive.
#[derive(Clone, Debug)]
pub struct TableHandle {
    queries: mpsc::Sender<TableQuery>,
}

impl TableHandle {
    /// A handle, and the queries that the table answers.
    pub(super) fn new() -> (TableHandle, mpsc::Receiver<TableQuery>) {
        let (queries, received) = mpsc::channel(QUERIES);
        (TableHandle { queries }, received)
    }

    /// The current counters; `None` when the table is busy or has ended.
    pub async fn statistics(&self) -> Option<LearnedStatistics> {
        self.ask(TableQuery::Statistics).await
    }

    /// Sets the route source of each learned route. Leaves the routes unchanged when the table is busy.
    pub(crate) async fn name_route_sources(&self, routes: &mut [v1::RouteState]) {
        let learned: Vec<usize> = (0..routes.len())
            .filter(|at| routes[*at].is_learned && routes[*at].route_source.is_empty())
            .collect();
        if learned.is_empty() {
            return;
        }
        let keys: Vec<Option<Key>> = learned.iter().map(|at| rib::key_of(&routes[*at])).collect();
        let origins = self.ask(|answer| TableQuery::Origins(keys, answer));
        for (at, origin) in learned.into_iter().zip(origins.await.unwrap_or_default()) {
            let Some(Origin { route_source, is_stale }) = origin else { continue };
            routes[at].route_source = route_source;
            routes[at].is_stale |= is_stale;
        }
    }

    /// Asks the table; `None` when it is busy or has ended.
    async fn ask<T>(&self, query: impl FnOnce(oneshot::Sender<T>) -> TableQuery) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let asked = async {
            self.queries.send(query(answer)).await.ok()?;
            answered.await.ok()
        };
        tokio::time::timeout(TIMEOUT, asked).await.ok()?
    }
}
