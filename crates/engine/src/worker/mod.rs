//! Workers: threads that run to completion, from receive to transmit.
//!
//! A worker owns its queues. The control thread talks to it through bounded rings
//! only: commands, packets to inject, packets punted.

pub(crate) mod hand_off;
mod main_loop;
mod polling;
mod software_rss;
mod spawn;
mod urgency;
mod wakeup;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub use polling::Polling;
pub use software_rss::{FlowOf, SeededFlows};
pub use spawn::{Plan, SpawnError, WORKERS_MAX, WorkerHandle, WorkerPool};
pub use wakeup::Wakeup;

use crate::packet::Packet;
use crate::port::{RxQueue, TxQueue};
use crate::trace_capture::capture::Tap;
use crate::trace_capture::trace::Tracer;

/// Commands that may wait for one worker.
pub(crate) const COMMANDS: usize = 1024;
/// Packets that may wait on one ring (inject, punt, hand-off).
pub const RING: usize = 1024;
/// Urgent packets that may wait for the control thread.
pub const URGENT_RING: usize = 256;

/// A command of the control thread to a worker.
pub enum Command {
    /// Receive from this queue.
    AddRx {
        /// The port's interface.
        interface: u32,
        /// Which driver, as an index into the list of inputs, for the counters.
        input: u16,
        /// The node that received packets go to.
        node: u16,
        /// The queue.
        queue: Box<dyn RxQueue>,
        /// Share its packets out among all workers, by flow.
        software_rss: Option<SeededFlows>,
    },
    /// Send the port's packets through this queue.
    AddTx {
        /// The port's interface.
        base: u32,
        /// The queue.
        queue: Box<dyn TxQueue>,
    },
    /// Hand the port's packets to another worker.
    TxVia {
        /// The port's interface.
        base: u32,
        /// The worker that owns a queue.
        worker: usize,
    },
    /// Drop all queues of a port.
    RemovePort {
        /// The port's interface.
        base: u32,
    },
    /// Map an interface to the port that carries it.
    Map {
        /// The interface.
        interface: u32,
        /// The port's interface, or [`crate::output::NO_INTERFACE`].
        base: u32,
    },
    /// Begin or end a trace.
    Trace(Option<Box<Tracer>>),
    /// Begin or end the capture in one of the slots.
    Capture {
        /// Below [`crate::trace_capture::CAPTURES`].
        slot: usize,
        /// What to write to.
        tap: Option<Box<Tap>>,
    },
    /// End the thread.
    Stop,
}

/// A packet that enters the graph from the control thread.
pub struct Inject {
    /// The packet.
    pub packet: Packet,
    /// The node that it goes to.
    pub node: u16,
}

/// The status that a worker publishes.
#[derive(Default)]
pub struct WorkerStatus {
    /// Commands executed so far.
    pub done: AtomicU64,
    /// How the worker waits: a [`Polling`] as a number.
    pub polling: AtomicU32,
}

impl WorkerStatus {
    /// How the worker waits.
    pub fn polling(&self) -> Polling {
        Polling::from_number(self.polling.load(Ordering::Relaxed))
    }
}

/// Shared by a worker and its handle.
pub(crate) struct WorkerLink {
    pub(crate) wakeup: Arc<Wakeup>,
    pub(crate) status: Arc<WorkerStatus>,
}
