//! Punts on the control thread: processes packets from workers, urgent ones first and in bounded batches, and
//! manages the policers.

use std::collections::{BTreeMap, VecDeque};

use stoa_api::{audit, v1};
use stoa_engine::Urgency;
use stoa_engine::node::Punt;

use super::capability::{CAPABILITIES, Capability, Start, Verbs};
use super::forwarder_state::ForwarderState;
use super::limit_listing::limit;
use crate::drops::Drop;
use crate::punt::policer::PolicerCounters;
use crate::punt::{Class, Limit, streamed};

/// Packets per worker in one round. An urgent packet waits for at most one round of the others.
const BATCHES: [(Urgency, usize); 2] = [(Urgency::Urgent, 256), (Urgency::Usual, 128)];

/// The state of punts on this thread.
#[derive(Default)]
pub(super) struct Punts {
    /// Policers that differ from their defaults.
    limits: BTreeMap<Class, Limit>,
    /// Punts deferred until older packets have joined the queue of their neighbour.
    deferred: Deferred,
}

impl Capability for Punts {
    const VERBS: Verbs = Verbs {
        apply: |state, step| {
            state.set_policers(&step.desired().punts);
            Ok(())
        },
        limits: |state, rows| {
            rows.extend(state.ring_limits());
            rows.extend(state.policer_limits());
        },
        entries: |state, tally| {
            for (class, limit) in &state.capabilities.punts.limits {
                let (rate, burst, total) = (limit.rate, limit.burst, limit.total);
                let class = class.name().to_owned();
                audit::punt(tally, &v1::PuntLimit { class, rate, burst, total });
            }
        },
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

/// Punts that were taken from the rings ahead of their turn, by worker. Empty at the end of each round.
#[derive(Default)]
struct Deferred {
    punts: VecDeque<(usize, Punt)>,
    /// How many more may be deferred in this round.
    capacity: usize,
}

/// The upper protocol of an IP packet without extension headers.
pub(super) fn protocol_of(bytes: &[u8]) -> Option<u8> {
    bytes.get(if is_ip4(bytes) { 9 } else { 6 }).copied()
}

/// Whether it is an IPv4 packet.
pub(super) fn is_ip4(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| first >> 4 == 4)
}

/// The classes in lists.
fn listed_classes() -> impl Iterator<Item = Class> {
    Class::ALL.into_iter().filter(|class| !streamed::is_hidden(*class))
}

impl ForwarderState {
    /// Processes the packets from the workers; returns their number.
    pub fn process_punts(&mut self) -> usize {
        let mut processed = 0;
        self.capabilities.punts.deferred.capacity = BATCHES[1].1 * self.worker_count();
        for (urgency, batch) in BATCHES {
            for at in 0..self.worker_count() {
                for _ in 0..batch {
                    let Some(punt) = self.next_punt(at, urgency) else { break };
                    processed += 1;
                    self.process_punt(at, punt);
                    // Older than what is still in the ring.
                    while let Some((at, punt)) = self.capabilities.punts.deferred.punts.pop_front()
                    {
                        self.process_punt(at, punt);
                    }
                }
            }
        }
        processed
    }

    /// Hands a packet to the capability that takes it, else to the controller if its class is one of the stream.
    fn process_punt(&mut self, worker: usize, punt: Punt) {
        let Punt { cause, packet } = punt;
        let all = CAPABILITIES.iter().flat_map(|capability| capability.punts);
        let mut of_class = all.filter(|punted| Some(punted.class) == Class::of(cause));
        match of_class.find(|punted| (punted.takes)(packet.bytes())) {
            Some(punted) => (punted.receive)(self, worker, packet),
            None => match Class::of(cause).and_then(streamed::index_of) {
                Some(streamed) => self.punt_to_controller(streamed, packet),
                None => self.count_drop(Drop::Ip4LocalProtocol),
            },
        }
    }

    /// Moves packets that wait for a neighbour from the rings to its queue before a reply resolves it, at
    /// most a batch of each worker, so that later packets do not overtake them. Other punts are deferred: one
    /// of them may resolve another neighbour, which needs the same.
    pub(super) fn drain_resolves(&mut self) {
        let (urgency, batch) = BATCHES[1];
        for at in 0..self.worker_count() {
            for _ in 0..batch {
                if self.capabilities.punts.deferred.capacity == 0 {
                    return;
                }
                let Some(punt) = self.next_punt(at, urgency) else { break };
                match Class::of(punt.cause) {
                    Some(Class::Resolve | Class::LocalResolve) => self.resolve(at, punt.packet),
                    _ => {
                        self.capabilities.punts.deferred.capacity -= 1;
                        self.capabilities.punts.deferred.punts.push_back((at, punt));
                    }
                }
            }
        }
    }

    /// Sets a policer to its default, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(super) fn lose_punt_limit(&mut self, class: Class) {
        self.capabilities.punts.limits.remove(&class).expect("a limit");
        self.shared.policers.set(class, class.default_limit());
    }

    /// Sets the policers; those that are not configured have their defaults.
    fn set_policers(&mut self, desired: &BTreeMap<Class, Limit>) {
        for class in Class::ALL {
            let of = |limits: &BTreeMap<Class, Limit>| {
                limits.get(&class).copied().unwrap_or(class.default_limit())
            };
            if of(&self.capabilities.punts.limits) != of(desired) {
                self.shared.policers.set(class, of(desired));
            }
        }
        self.capabilities.punts.limits = desired.clone();
    }

    /// The policer counters of an interface.
    pub(super) fn policed(&self, interface: u32) -> [PolicerCounters; Class::ALL.len()] {
        Class::ALL.map(|class| self.shared.policers.counters(class, interface))
    }

    /// Each class but those for tests: first the sum of all interfaces, then each interface with packets of the class.
    /// The cost grows with the interfaces that have sent packets to the control plane, not with all of them.
    pub fn list_punts(&self) -> Vec<v1::PuntState> {
        self.list_punts_from(0, usize::MAX).0
    }

    /// The same of at most so many interfaces, and the number of the next one, if there are more: a page, which
    /// [`stoa_api::punts::Listing`] adds to others.
    pub(super) fn list_punts_from(
        &self,
        first: usize,
        at_most: usize,
    ) -> (Vec<v1::PuntState>, Option<usize>) {
        let end = first.saturating_add(at_most);
        let mut all = Vec::new();
        let counted = self.shared.policers.counted_interfaces();
        let is_on_page = |index: &u32| (first..end).contains(&(*index as usize));
        let interfaces: Vec<u32> = counted.into_iter().filter(is_on_page).collect();
        for class in listed_classes() {
            let limit = self.policer_limit(class);
            let row =
                |interface: &str, counters: PolicerCounters, rate: u32, burst: u32| v1::PuntState {
                    class: class.name().to_owned(),
                    description: class.description().to_owned(),
                    interface: interface.to_owned(),
                    passed: counters.passed,
                    dropped: counters.dropped,
                    rate,
                    burst,
                    urgent: class.urgency().is_first(),
                };
            let mut rows = Vec::new();
            let mut total_of = PolicerCounters::default();
            for index in &interfaces {
                let counters = self.shared.policers.counters(class, *index);
                total_of.passed += counters.passed;
                total_of.dropped += counters.dropped;
                let Some(state) = self.interface(*index) else { continue };
                let counters = counters.since(state.policed[class as usize]);
                if counters != PolicerCounters::default() {
                    rows.push(row(&state.name, counters, limit.rate, limit.burst));
                }
            }
            all.push(row("", total_of, limit.total, 0));
            all.extend(rows);
        }
        (all, (end < self.interface_indexes().end as usize).then_some(end))
    }

    /// The policer of a class.
    fn policer_limit(&self, class: Class) -> Limit {
        let configured = self.capabilities.punts.limits.get(&class).copied();
        configured.unwrap_or(class.default_limit())
    }

    /// The total rate of each control-plane policer.
    fn policer_limits(&self) -> impl Iterator<Item = v1::LimitState> {
        listed_classes().map(|class| {
            let (total, sum) = (self.policer_limit(class).total, self.shared.policers.sum(class));
            let fix =
                format!("Packets per second: {}. See `stoa show punts`.", class.description());
            let name = format!("policer-{}", class.name());
            limit(&name, None, total.into(), sum.dropped, &fix)
        })
    }
}
