//! Learned routes: the routes of each route source, their selection, and their transfer to the forwarder.
//!
//! ```text
//! fpm ─────┐
//! netlink ─┼─ RouteSource::send ─► bounded queue ─► table (one thread) ─► stream ─► forwarder
//! bgp ─────┘
//! ```
//!
//! A route source is one session with one daemon. It sends routes in batches and waits while the queue is full, so
//! that TCP or the kernel's socket buffer slows down a daemon that floods. Static and connected routes are part of the
//! desired state and win over learned ones in the forwarder; this module only uses them to resolve gateways.

mod announcements;
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
mod session;
mod statics;
mod statistics;
mod stream;
mod table;
mod table_handle;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

pub use audit::{Audit, AuditedTable};
pub use inactive::{Inactive, Query};
pub use kernel::AuditedKernel;
pub use route_source::{CountReply, Event, NextHopPath, RouteSource, Source, Target, Update};
pub use statistics::{AuditCounters, LearnedStatistics, RouteSourceSummary, Session, WorkCounters};
pub use table_handle::TableHandle;

pub use crate::config::routes::VrfName;

use crate::apply::ForwarderConnection;
use run::{Request, Runner, SourceEvents};

/// Batches of events that may be queued.
const QUEUE: usize = 32;
/// Requests that may be queued.
const REQUESTS: usize = 64;

/// A handle to the table.
#[derive(Clone, Debug)]
pub struct Learned {
    queue: mpsc::Sender<SourceEvents>,
    requests: mpsc::Sender<Request>,
    connection: Arc<ForwarderConnection>,
}

impl Learned {
    /// Starts the table on a thread of its own; it ends when the last handle is dropped.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(connection: Arc<ForwarderConnection>) -> std::io::Result<Learned> {
        let (queue, events) = mpsc::channel(QUEUE);
        let (requests, received) = mpsc::channel(REQUESTS);
        let (handle, queries) = TableHandle::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let for_thread = Arc::clone(&connection);
        std::thread::Builder::new().name("learned".into()).spawn(move || {
            runtime.block_on(Runner::new().run(for_thread, events, received, queries));
        })?;
        connection.set_learned(handle);
        Ok(Learned { queue, requests, connection })
    }

    /// Opens a route source.
    pub fn open(&self, source: Source) -> RouteSource {
        RouteSource::new(source, self.queue.clone())
    }

    /// Sets the route sources of the configuration, by name. Once all of them are complete, the forwarder
    /// removes the routes that the previous controller left behind.
    pub async fn expect(&self, route_sources: Vec<String>) {
        self.ask(move |runner| runner.route_sources = Some(route_sources)).await;
    }

    /// Counters of the table's work.
    pub async fn work(&self) -> WorkCounters {
        self.ask(|runner| runner.work).await.unwrap_or_default()
    }

    /// A summary of each route source.
    pub async fn route_sources(&self) -> Vec<RouteSourceSummary> {
        self.ask(|runner| runner.table.route_source_states(std::time::Instant::now()))
            .await
            .unwrap_or_default()
    }

    /// Runs a query on the table; `None` when the controller is shutting down.
    async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Runner) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let request: Request = Box::new(move |runner| {
            // The requester may have given up.
            let _ = answer.send(ask(runner));
        });
        self.requests.send(request).await.ok()?;
        answered.await.ok()
    }
}
