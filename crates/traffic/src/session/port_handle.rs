//! An open port between runs: its control side, its queues, and its known neighbours.

use std::sync::mpsc::{Receiver, sync_channel};

use stoa_engine::{Pool, PoolCache, Port, PortEvent, Queues, Vector};

use super::RunError;
use crate::neighbor::Responder;
use crate::plan::PortPlan;

/// Replies to neighbours that may be queued.
const ANSWERS: usize = 64;
/// The most vectors received at once from a queue.
const VECTORS: usize = 16;

/// An open port.
pub(super) struct PortHandle {
    name: String,
    port: Box<dyn Port>,
    pub(super) mac: [u8; 6],
    /// Borrowed by a run and returned by it.
    pub(super) io: Option<PortIo>,
    /// Why the link last went down.
    pub(super) down: Option<String>,
    /// The responder while there are no queues.
    spare: Option<(Responder, Receiver<Vec<u8>>)>,
    vector: Box<Vector>,
    cache: PoolCache,
}

/// Queues and responder that a run borrows.
pub(super) struct PortIo {
    pub(super) queues: Queues,
    pub(super) responder: Responder,
    pub(super) answers: Receiver<Vec<u8>>,
}

impl PortHandle {
    pub(super) fn open(plan: &PortPlan, pool: &'static Pool) -> Result<Self, RunError> {
        let port_error = |reason: String| RunError::Port { port: plan.name.clone(), reason };
        let port =
            stoa_ports::open(&plan.config, pool).map_err(|error| port_error(error.to_string()))?;
        let mac = plan.mac.unwrap_or_else(|| port.mac());
        let (sender, answers) = sync_channel(ANSWERS);
        let spare = Some((Responder::new(mac, &plan.addresses, sender), answers));
        let (vector, cache) = (Vector::new(pool), PoolCache::new(pool));
        let name = plan.name.clone();
        Ok(Self { name, port, mac, io: None, down: None, spare, vector, cache })
    }

    pub(super) fn is_up(&self) -> bool {
        self.io.is_some()
    }

    pub(super) fn mtu(&self) -> u32 {
        self.port.mtu()
    }

    pub(super) fn driver(&self) -> &'static str {
        self.port.driver()
    }

    pub(super) fn detail(&self) -> String {
        self.port.detail()
    }

    pub(super) fn missed(&self) -> u64 {
        self.port.missed()
    }

    /// Runs the port's control side.
    pub(super) fn service(&mut self) {
        for event in self.port.service() {
            match event {
                PortEvent::Up(queues) => {
                    let former = self.io.take().map(|io| (io.responder, io.answers));
                    match former.or_else(|| self.spare.take()) {
                        Some((responder, answers)) => {
                            self.io = Some(PortIo { queues, responder, answers });
                            self.down = None;
                        }
                        // A run holds the responder and ends on link loss.
                        None => self.down = Some("the link went down and came back".to_owned()),
                    }
                }
                PortEvent::Down(reason) => {
                    self.spare =
                        self.io.take().map(|it| (it.responder, it.answers)).or(self.spare.take());
                    self.down = Some(reason);
                }
            }
        }
    }

    /// Returns what a run borrowed.
    pub(super) fn return_io(&mut self, io: PortIo) {
        match self.down {
            None => self.io = Some(io),
            Some(_) => self.spare = Some((io.responder, io.answers)),
        }
    }

    /// Receives ARP and neighbour discovery and replies; between runs only.
    pub(super) fn answer_neighbors(&mut self) {
        let Some(io) = &mut self.io else { return };
        for queue in &mut io.queues.rx {
            for _ in 0..VECTORS {
                if queue.receive(&mut self.vector, &mut self.cache) == 0 {
                    break;
                }
                for lane in 0..self.vector.len() {
                    io.responder.receive(self.vector.bytes(lane));
                }
                self.cache.free_from(&mut self.vector, 0);
            }
        }
        while let Ok(frame) = io.answers.try_recv() {
            transmit(io, (&mut self.vector, &mut self.cache), &frame);
        }
    }

    /// Sends one frame; between runs only.
    pub(super) fn send(&mut self, frame: &[u8]) {
        if let Some(io) = &mut self.io {
            transmit(io, (&mut self.vector, &mut self.cache), frame);
        }
    }

    /// An error of this port.
    pub(super) fn error(&self, reason: impl Into<String>) -> RunError {
        RunError::Port { port: self.name.clone(), reason: reason.into() }
    }
}

fn transmit(io: &mut PortIo, (vector, cache): (&mut Vector, &mut PoolCache), frame: &[u8]) {
    let Some(queue) = io.queues.tx.first_mut() else { return };
    if cache.fill(vector, 1) == 1
        && (frame.len() <= vector.slot_mut(0).len() / 2 || cache.enlarge(vector, 0))
    {
        vector.length[0] = frame.len() as u16;
        vector.bytes_mut(0).copy_from_slice(frame);
        queue.transmit(vector, cache);
    }
    cache.free_from(vector, 0);
}
