//! Punts on the control thread: processes packets from workers, urgent ones first and in bounded batches, and
//! manages the policers.

use std::collections::{BTreeMap, VecDeque};

use stoa_api::v1;
use stoa_engine::node::Punt;
use stoa_engine::{Packet, Urgency};
use stoa_wire::protocol;

use super::forwarder_state::ForwarderState;
use crate::drops::Drop;
use crate::punt::policer::PolicerCounters;
use crate::punt::{Class, Limit};

/// Packets per worker in one round. An urgent packet waits for at most one round of the others.
const BATCHES: [(Urgency, usize); 2] = [(Urgency::Urgent, 256), (Urgency::Usual, 128)];

/// Punts that were taken from the rings ahead of their turn, by worker. Empty at the end of each round.
#[derive(Default)]
pub(super) struct Deferred {
    punts: VecDeque<(usize, Punt)>,
    /// How many more may be deferred in this round.
    capacity: usize,
}

impl ForwarderState {
    /// Processes the packets from the workers; returns their number.
    pub fn process_punts(&mut self) -> usize {
        let mut processed = 0;
        self.deferred.capacity = BATCHES[1].1 * self.worker_pool.workers.len();
        for (urgency, batch) in BATCHES {
            for at in 0..self.worker_pool.workers.len() {
                for _ in 0..batch {
                    let Some(punt) = self.worker_pool.workers[at].punted(urgency) else { break };
                    processed += 1;
                    self.process_punt(at, punt);
                    // Older than what is still in the ring.
                    while let Some((at, punt)) = self.deferred.punts.pop_front() {
                        self.process_punt(at, punt);
                    }
                }
            }
        }
        processed
    }

    fn process_punt(&mut self, worker: usize, punt: Punt) {
        match Class::of(punt.cause) {
            Some(Class::Arp | Class::ArpReply) => self.receive_arp(&punt.packet),
            Some(Class::Nd | Class::NdReply) => self.receive_nd(&punt.packet),
            Some(Class::Resolve | Class::LocalResolve) => self.resolve(worker, punt.packet),
            Some(Class::Redirect) => self.send_redirect(&punt.packet),
            Some(Class::Routing) => self.receive_routing(&punt.packet),
            Some(Class::Listener) => self.answer_query(punt.packet.rx_if),
            Some(Class::Solicitation) => match punt.packet.bytes().first().map(|byte| byte >> 4) {
                Some(4) => self.receive_router_discovery(&punt.packet),
                _ => self.receive_nd(&punt.packet),
            },
            _ => self.count_drop(Drop::Ip4LocalProtocol),
        }
    }

    /// Handles a packet of a protocol that this thread implements.
    fn receive_routing(&mut self, packet: &Packet) {
        let bytes = packet.bytes();
        let protocol = match bytes.first().map(|byte| byte >> 4) {
            Some(4) => bytes.get(9),
            _ => bytes.get(6),
        };
        match protocol.copied() {
            Some(protocol::UDP) => self.receive_bfd(packet),
            Some(protocol::VRRP) => self.receive_vrrp(packet),
            _ => self.count_drop(Drop::Ip4LocalProtocol),
        }
    }

    /// Moves packets that wait for a neighbour from the rings to its queue before a reply resolves it, at
    /// most a batch of each worker, so that later packets do not overtake them. Other punts are deferred: one
    /// of them may resolve another neighbour, which needs the same.
    pub(super) fn drain_resolves(&mut self) {
        let (urgency, batch) = BATCHES[1];
        for at in 0..self.worker_pool.workers.len() {
            for _ in 0..batch {
                if self.deferred.capacity == 0 {
                    return;
                }
                let Some(punt) = self.worker_pool.workers[at].punted(urgency) else { break };
                match Class::of(punt.cause) {
                    Some(Class::Resolve | Class::LocalResolve) => self.resolve(at, punt.packet),
                    _ => {
                        self.deferred.capacity -= 1;
                        self.deferred.punts.push_back((at, punt));
                    }
                }
            }
        }
    }

    /// Sets the policers; those that are not configured have their defaults.
    pub(super) fn set_policers(&mut self, desired: &BTreeMap<Class, Limit>) {
        for class in Class::ALL {
            let of = |limits: &BTreeMap<Class, Limit>| {
                limits.get(&class).copied().unwrap_or(class.default_limit())
            };
            if of(&self.punts) != of(desired) {
                self.shared.policers.set(class, of(desired));
            }
        }
        self.punts = desired.clone();
    }

    /// The policer counters of an interface.
    pub(super) fn policed(&self, interface: u32) -> [PolicerCounters; Class::ALL.len()] {
        Class::ALL.map(|class| self.shared.policers.counters(class, interface))
    }

    /// Each class: first the sum of all interfaces, then each interface with packets of the class.
    pub fn list_punts(&self) -> Vec<v1::PuntState> {
        let mut rows = Vec::new();
        for class in Class::ALL {
            let limit = self.punts.get(&class).copied().unwrap_or(class.default_limit());
            let row =
                |interface: &str, counters: PolicerCounters, rate: u32, burst: u32| v1::PuntState {
                    class: class.name().to_owned(),
                    description: class.description().to_owned(),
                    interface: interface.to_owned(),
                    passed: counters.passed,
                    dropped: counters.dropped,
                    rate,
                    burst,
                    urgent: class.urgency() == Urgency::Urgent,
                };
            let at = rows.len();
            let mut total_of = PolicerCounters::default();
            for (index, state) in self.interfaces.iter().enumerate() {
                let counters = self.shared.policers.counters(class, index as u32);
                total_of.passed += counters.passed;
                total_of.dropped += counters.dropped;
                let Some(state) = state else { continue };
                let counters = counters.since(state.policed[class as usize]);
                if counters != PolicerCounters::default() {
                    rows.push(row(&state.name, counters, limit.rate, limit.burst));
                }
            }
            rows.insert(at, row("", total_of, limit.total, 0));
        }
        rows
    }
}
