//! Routes that daemons have learned: what each route source hears, which of them wins, and how the winners reach the forwarder.
//!
//! ```text
//! fpm ───┐
//! linux ─┼─ Route source::tell ─► bounded queue ─► table (one thread) ─► link ─► forwarder
//! bgp ───┘
//! ```
//!
//! A route source is one session with one daemon. It says what it hears in batches and waits while the queue is full, so that a
//! daemon that floods is slowed down by its own socket. Static and connected routes are no business of this room: they are in the
//! desired state, go before learned ones in the forwarder, and are looked at here to resolve gateways.

mod audit;
mod configured_routes;
mod groups;
mod inactive;
mod kernel;
mod message_queue;
mod origin;
mod prefixes;
mod report;
mod resolve;
mod restart;
mod route_source;
mod route_source_summary;
mod run;
mod select;
mod statics;
mod statistics;
mod stream;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

pub use audit::{Audit, AuditedTable};
pub use statistics::{AuditCounters, LearnedStatistics, TableHandle};
pub use inactive::{Inactive, Query};
pub use kernel::AuditedKernel;
pub use route_source::{CountReply, Event, RouteSource, Source, Target, Update, NextHopPath};
pub use route_source_summary::RouteSourceSummary;
pub use run::WorkCounters;
pub use table::Session;

pub use crate::routes::VrfName;

use crate::apply::ForwarderConnection;
use run::{Request, Runner, SourceEvents};

/// What route sources may have said that the table has not looked at yet, in batches.
const QUEUE: usize = 32;
/// Questions that may wait.
const REQUESTS: usize = 64;

/// The way to the table.
#[derive(Clone, Debug)]
pub struct Learned {
    queue: mpsc::Sender<SourceEvents>,
    requests: mpsc::Sender<Request>,
    connection: Arc<ForwarderConnection>,
}

impl Learned {
    /// Starts the table on a thread of its own; it ends when nobody holds the way to it.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(connection: Arc<ForwarderConnection>) -> std::io::Result<Learned> {
        let (queue, events) = mpsc::channel(QUEUE);
        let (requests, received) = mpsc::channel(REQUESTS);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let for_thread = Arc::clone(&connection);
        std::thread::Builder::new().name("learned".into()).spawn(move || {
            runtime.block_on(Runner::new().run(for_thread, events, received));
        })?;
        let learned = Learned { queue, requests, connection };
        learned.connection.set_learned(learned.handle());
        Ok(learned)
    }

    /// A route source for a source.
    pub fn open(&self, source: Source) -> RouteSource {
        RouteSource::new(source, self.queue.clone())
    }

    /// Which route sources the configuration has, by name: routes that the forwarder still holds of a former controller go when each
    /// of them has said all that it has.
    pub async fn expect(&self, route_sources: Vec<String>) {
        self.ask(move |runner| runner.route_sources = Some(route_sources)).await;
    }

    /// What it has cost so far.
    pub async fn work(&self) -> WorkCounters {
        self.ask(|runner| runner.work).await.unwrap_or_default()
    }

    /// How all route sources do.
    pub async fn route_sources(&self) -> Vec<RouteSourceSummary> {
        self.ask(|runner| runner.table.route_source_states()).await.unwrap_or_default()
    }

    /// Asks the table; `None` when the controller ends.
    async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Runner) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let request: Request = Box::new(move |runner| {
            // Who asked may have gone away.
            let _ = answer.send(ask(runner));
        });
        self.requests.send(request).await.ok()?;
        answered.await.ok()
    }
}
