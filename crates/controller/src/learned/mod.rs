//! Routes that daemons have learned: what each door hears, which of them wins, and how the winners reach the forwarder.
//!
//! ```text
//! fpm ───┐
//! linux ─┼─ Door::tell ─► bounded queue ─► table (one thread) ─► link ─► forwarder
//! bgp ───┘
//! ```
//!
//! A door is one session with one daemon. It says what it hears in batches and waits while the queue is full, so that a
//! daemon that floods is slowed down by its own socket. Static and connected routes are no business of this room: they are in the
//! wanted state, go before learned ones in the forwarder, and are looked at here to resolve gateways.

mod audit;
mod door;
mod door_state;
mod figures;
mod groups;
mod inactive;
mod kernel;
mod leftover;
mod link;
mod origin;
mod outbox;
mod prefixes;
mod report;
mod resolve;
mod run;
mod select;
mod statics;
mod table;
#[cfg(test)]
mod tests;
mod wanted;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

pub use audit::{Audit, AuditedTable};
pub use door::{Asker, Door, Event, Source, Target, Update, Way};
pub use door_state::DoorState;
pub use figures::{Audits, Figures, Look};
pub use inactive::{Inactive, Query};
pub use kernel::AuditedKernel;
pub use run::Work;
pub use table::Session;

pub use crate::routes::VrfName;

use crate::apply::Line;
use run::{Request, Runner, Said};

/// What doors may have said that the table has not looked at yet, in batches.
const QUEUE: usize = 32;
/// Questions that may wait.
const REQUESTS: usize = 64;

/// The way to the table.
#[derive(Clone, Debug)]
pub struct Learned {
    queue: mpsc::Sender<Said>,
    requests: mpsc::Sender<Request>,
    line: Arc<Line>,
}

impl Learned {
    /// Starts the table on a thread of its own; it ends when nobody holds the way to it.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(line: Arc<Line>) -> std::io::Result<Learned> {
        let (queue, said) = mpsc::channel(QUEUE);
        let (requests, asked) = mpsc::channel(REQUESTS);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let of_thread = Arc::clone(&line);
        std::thread::Builder::new().name("learned".into()).spawn(move || {
            runtime.block_on(Runner::new().run(of_thread, said, asked));
        })?;
        let learned = Learned { queue, requests, line };
        learned.line.show_learned(learned.look());
        Ok(learned)
    }

    /// A door for a source.
    pub fn open(&self, source: Source) -> Door {
        Door::new(source, self.queue.clone())
    }

    /// Which doors the configuration has, by name: routes that the forwarder still holds of a former controller go when each
    /// of them has said all that it has.
    pub async fn expect(&self, doors: Vec<String>) {
        self.ask(move |runner| runner.doors = Some(doors)).await;
    }

    /// What it has cost so far.
    pub async fn work(&self) -> Work {
        self.ask(|runner| runner.work).await.unwrap_or_default()
    }

    /// How all doors do.
    pub async fn doors(&self) -> Vec<DoorState> {
        self.ask(|runner| runner.table.door_states()).await.unwrap_or_default()
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
