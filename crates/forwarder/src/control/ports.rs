//! Ports: opening, closing, and what happens when their link goes up or down.

use std::time::Duration;

use stoa_engine::worker::Command;
use stoa_engine::{PortEvent, Queues};
use stoa_ports::{OpenError, PortConfig};

use super::plane::{Plane, PortState};

/// How long workers may take to let go of a port's queues.
const PATIENCE: Duration = Duration::from_secs(2);

impl Plane {
    /// Opens a port; its queues come when its link is up.
    pub(super) fn open_port(
        &self,
        config: &PortConfig,
        interface: u32,
    ) -> Result<PortState, OpenError> {
        let port = stoa_ports::open(&self.sized(config), self.pool)?;
        Ok(PortState {
            port,
            config: config.clone(),
            interface,
            is_up: false,
            queues: (0, 0),
            why_down: "not up yet".to_owned(),
        })
    }

    /// Fills in one transmit queue for each worker, where that was left open.
    fn sized(&self, config: &PortConfig) -> PortConfig {
        let mut config = config.clone();
        let workers = self.crew.workers.len() as u16;
        match &mut config {
            PortConfig::AfPacket(config) if config.tx_queues == 0 => config.tx_queues = workers,
            PortConfig::Null(config) if config.tx_queues == 0 => config.tx_queues = workers,
            _ => {}
        }
        config
    }

    /// Closes a port: the workers drop its queues first.
    pub(super) fn close_port(&mut self, name: &str) {
        let Some(state) = self.ports.remove(name) else { return };
        self.withdraw(state.interface);
        self.link_changed(state.interface, false);
    }

    fn withdraw(&mut self, base: u32) {
        self.tell(|| Command::RemovePort { base });
        for worker in &self.crew.workers {
            if !worker.settle(PATIENCE) {
                tracing::error!("a worker does not answer; its queues stay with it");
            }
        }
    }

    /// Lets all ports do what they have to.
    pub fn service_ports(&mut self) {
        let names: Vec<String> = self.ports.keys().cloned().collect();
        for name in names {
            let Some(state) = self.ports.get_mut(&name) else { continue };
            for event in state.port.service() {
                match event {
                    PortEvent::Up(queues) => self.port_up(&name, queues),
                    PortEvent::Down(why) => self.port_down(&name, why),
                }
            }
        }
    }

    fn port_up(&mut self, name: &str, queues: Queues) {
        let Some(state) = self.ports.get_mut(name) else { return };
        let was_up = std::mem::replace(&mut state.is_up, true);
        state.queues = (queues.rx.len() as u32, queues.tx.len() as u32);
        let (base, input) = (state.interface, state.config.index());
        let input = (crate::nodes::NODES.len() + 1 + input) as u16;
        if was_up {
            self.withdraw(base);
        }
        self.hand_out((name, base), input, queues);
        tracing::info!(port = name, "up");
        self.link_changed(base, true);
    }

    /// Spreads queues over the workers: receive queues in turn, transmit queues one
    /// each; workers without one hand their packets over.
    fn hand_out(&mut self, (name, base): (&str, u32), input: u16, queues: Queues) {
        let node = Self::entry();
        let workers = self.crew.workers.len();
        let senders = queues.tx.len().min(workers);
        for (at, queue) in queues.tx.into_iter().take(senders).enumerate() {
            self.crew.workers[at].tell(Command::AddTx { base, queue });
        }
        for at in senders..workers {
            if senders > 0 {
                self.crew.workers[at].tell(Command::TxVia { base, worker: at % senders });
            }
        }
        self.queues.retain(|(queue, _)| queue.rsplit_once(':').is_none_or(|q| q.0 != name));
        for (number, queue) in queues.rx.into_iter().enumerate() {
            let at = self.next_queue % workers;
            self.next_queue += 1;
            self.queues.push((format!("{name}:{number}"), at));
            self.crew.workers[at].tell(Command::AddRx { interface: base, input, node, queue });
        }
    }

    fn port_down(&mut self, name: &str, why: String) {
        let Some(state) = self.ports.get_mut(name) else { return };
        if state.is_up {
            tracing::warn!(port = name, why, "down");
        }
        (state.is_up, state.queues) = (false, (0, 0));
        state.why_down = why;
        let base = state.interface;
        self.withdraw(base);
        self.link_changed(base, false);
    }
}
