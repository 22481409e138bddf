//! `port-output`: the end of the graph. It counts what each interface sends and
//! gives the lanes to the port's transmit queue, or to the worker that owns it.

use crate::INTERFACES;
use crate::counters::WorkerCounters;
use crate::drops::{self, Reason};
use crate::graph::Walk;
use crate::pool::Pool;
use crate::port::{Refused, TxQueue};
use crate::trace_capture::trace::Event;
use crate::vector::{Lanes, Vector};
use crate::worker::Inject;

/// No interface.
pub const NO_INTERFACE: u32 = u32::MAX;

/// How this worker reaches a port.
#[derive(Default)]
pub enum TxSlot {
    /// The port does not send now.
    #[default]
    Closed,
    /// By a queue of its own; refusals that no burst was large enough to be counted against.
    Own(Box<dyn TxQueue>, Refused),
    /// Through another worker.
    Via(usize),
}

/// The ports that one worker sends to.
pub struct Output {
    /// By interface: the interface of its port.
    base: Box<[u32]>,
    /// By the port's interface.
    slots: Vec<TxSlot>,
    /// Ports with a queue of our own, by their interfaces.
    own: Vec<u32>,
    /// Rings to the other workers, by worker; the own slot is empty.
    pub(crate) handoff: Vec<Option<rtrb::Producer<Inject>>>,
    /// Workers that got packets in this walk, one bit each: they must be woken.
    pub(crate) handed: u64,
    /// The index of `port-output` in the graph.
    pub(crate) node: u16,
    scratch: Option<Box<Vector>>,
}

impl Output {
    pub(crate) fn new(pool: &'static Pool, node: u16) -> Self {
        Self {
            base: vec![NO_INTERFACE; INTERFACES].into_boxed_slice(),
            slots: (0..INTERFACES).map(|_| TxSlot::Closed).collect(),
            own: Vec::new(),
            handoff: Vec::new(),
            handed: 0,
            node,
            scratch: Some(Vector::new(pool)),
        }
    }

    /// Maps an interface to the port that carries it; [`NO_INTERFACE`]: to none.
    pub fn map(&mut self, interface: u32, base: u32) {
        if let Some(cell) = self.base.get_mut(interface as usize) {
            *cell = base;
        }
    }

    /// Replaces the path to a port, and counts what the old queue has not reported yet.
    pub fn set(&mut self, base: u32, slot: TxSlot, counters: &WorkerCounters) {
        let Some(place) = self.slots.get_mut(base as usize) else { return };
        self.own.retain(|own| *own != base);
        if matches!(slot, TxSlot::Own(..)) {
            self.own.push(base);
        }
        if let TxSlot::Own(mut queue, mut owed) = std::mem::replace(place, slot) {
            let mut left = queue.close();
            owed += queue.refused();
            correct(base, &mut owed, drops::TX_REFUSED, counters);
            correct(base, &mut left, drops::TX_NO_PORT, counters);
        }
    }

    /// Counts frames that devices refused after the last burst.
    pub(crate) fn settle(&mut self, counters: &WorkerCounters) {
        for base in &self.own {
            if let Some(TxSlot::Own(queue, owed)) = self.slots.get_mut(*base as usize) {
                *owed += queue.refused();
                correct(*base, owed, drops::TX_REFUSED, counters);
            }
        }
    }

    /// Sends all lanes, each by its `tx_if`; the vector is empty afterwards.
    pub(crate) fn send(&mut self, vector: &mut Vector, walk: &mut Walk<'_>) {
        if let Some(interface) = vector.tx_if.uniform(vector.len()) {
            return self.send_one(interface, vector, walk);
        }
        let mut left = Lanes::first_of(vector.len());
        while let Some(lane) = left.lowest() {
            let interface = vector.tx_if[lane];
            let lanes = left.take_equal(&vector.tx_if, interface);
            let Some(mut scratch) = self.scratch.take() else { return };
            vector.move_lanes(&lanes, &mut scratch);
            self.send_one(interface, &mut scratch, walk);
            self.scratch = Some(scratch);
        }
        vector.forget_lanes();
    }

    /// Sends all lanes through one interface.
    fn send_one(&mut self, interface: u32, vector: &mut Vector, walk: &mut Walk<'_>) {
        let packets = vector.len();
        let base = self.base.get(interface as usize).copied().unwrap_or(NO_INTERFACE);
        match self.slots.get_mut(base as usize) {
            Some(TxSlot::Own(queue, owed)) => {
                vector.watch(walk.trace_capture.sees_sent());
                let taken = queue.transmit(vector, walk.pool).min(packets);
                *owed += queue.refused();
                let bytes = total(vector, taken);
                let refused = owed.settle(taken as u64, bytes);
                let (lost, bytes) = (refused.packets as usize, bytes - refused.bytes);
                let sent = taken - lost;
                count(interface, base, sent, bytes, packets - sent, walk);
                walk.counters.ledger.sent.add(sent as u64);
                dropped(drops::TX_REFUSED, lost, walk);
                dropped(drops::TX_FULL, packets - taken, walk);
                walk.trace_capture.sent(vector, (taken, drops::TX_FULL), interface, base);
            }
            Some(TxSlot::Via(worker)) => {
                let worker = *worker;
                return self.hand_over(worker, (interface, base), vector, walk);
            }
            _ => {
                count(interface, base, 0, 0, packets, walk);
                dropped(drops::TX_NO_PORT, packets, walk);
                walk.trace_capture.sent(vector, (0, drops::TX_NO_PORT), interface, base);
            }
        }
        walk.pool.free_from(vector, 0);
    }

    fn hand_over(
        &mut self,
        worker: usize,
        (interface, base): (u32, u32),
        vector: &mut Vector,
        walk: &mut Walk<'_>,
    ) {
        let Some(Some(ring)) = self.handoff.get_mut(worker) else {
            walk.counters.drops[drops::TX_NO_PORT.0 as usize].add(vector.len() as u64);
            walk.trace_capture.sent(vector, (0, drops::TX_NO_PORT), interface, base);
            return walk.pool.free_from(vector, 0);
        };
        let capacity = ring.slots().min(vector.len());
        for lane in 0..capacity {
            walk.trace_capture.happened(vector, lane, Event::HandedOver { to: worker as u16 });
            if let Some(packet) = vector.take(lane) {
                // Space was checked, and this thread is the only producer.
                let _ = ring.push(Inject { packet, node: self.node });
            }
        }
        let left = vector.len() - capacity;
        walk.counters.ledger.handed_out.add(capacity as u64);
        walk.counters.drops[drops::HANDOFF_FULL.0 as usize].add(left as u64);
        // Lanes that were taken over are not there any more.
        walk.trace_capture.sent(vector, (capacity, drops::HANDOFF_FULL), interface, base);
        self.handed |= 1 << worker;
        walk.pool.free_from(vector, 0);
    }
}

fn dropped(reason: Reason, packets: usize, walk: &Walk<'_>) {
    if packets > 0 {
        walk.counters.drops[reason.0 as usize].add(packets as u64);
    }
}

fn total(vector: &Vector, lanes: usize) -> u64 {
    vector.length[..lanes].iter().map(|length| u32::from(*length)).sum::<u32>().into()
}

fn count(interface: u32, base: u32, sent: usize, bytes: u64, lost: usize, walk: &Walk<'_>) {
    let add = |at: u32| {
        if let Some(counters) = walk.counters.interfaces.get(at as usize) {
            counters.tx_packets.add(sent as u64);
            counters.tx_bytes.add(bytes);
            counters.tx_drops.add(lost as u64);
        }
    };
    add(interface);
    if base != interface {
        add(base);
    }
}

/// Counts as dropped what was counted as sent through a port. The sending interface is unknown by
/// now, so only the counters of the port's own interface are corrected.
fn correct(base: u32, owed: &mut Refused, reason: Reason, counters: &WorkerCounters) {
    let Some(port) = counters.interfaces.get(base as usize) else { return };
    let lost = owed.settle(port.tx_packets.get(), port.tx_bytes.get());
    if lost == Refused::default() {
        return;
    }
    port.tx_packets.set(port.tx_packets.get() - lost.packets);
    port.tx_bytes.set(port.tx_bytes.get() - lost.bytes);
    port.tx_drops.add(lost.packets);
    counters.ledger.sent.set(counters.ledger.sent.get().saturating_sub(lost.packets));
    counters.drops[reason.0 as usize].add(lost.packets);
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::node::Punts;
    use crate::pool::{HugePages, PoolCache};
    use crate::quiescence::{Quiescence, Reader};

    /// Takes `capacity` lanes, of which its device refuses the second.
    struct Picky {
        capacity: usize,
        refused: Refused,
    }

    impl TxQueue for Picky {
        fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
            self.refused.add(vector, 1..2);
            self.capacity
        }

        fn refused(&mut self) -> Refused {
            std::mem::take(&mut self.refused)
        }
    }

    /// Takes all lanes; its device refuses ten frames of earlier bursts with the first one.
    struct Late(Refused);

    impl TxQueue for Late {
        fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
            vector.len()
        }

        fn refused(&mut self) -> Refused {
            std::mem::take(&mut self.0)
        }
    }

    /// Takes all lanes; of the first burst its device refuses one frame after a while, and keeps
    /// two when it goes.
    #[derive(Default)]
    struct Slow {
        counted: bool,
    }

    impl TxQueue for Slow {
        fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
            vector.len()
        }

        fn refused(&mut self) -> Refused {
            // Right after the burst nothing is known yet.
            match std::mem::replace(&mut self.counted, true) {
                false => Refused::default(),
                true => Refused { packets: 1, bytes: 100 },
            }
        }

        fn close(&mut self) -> Refused {
            Refused { packets: 2, bytes: 500 }
        }
    }

    /// Sends six lanes of 100 to 600 bytes each time, by interfaces and their ports, of which 3
    /// has the queue.
    fn counted(queue: Box<dyn TxQueue>, paths: &[(u32, u32)]) -> WorkerCounters {
        sent(queue, paths).1
    }

    fn sent(queue: Box<dyn TxQueue>, paths: &[(u32, u32)]) -> (Output, WorkerCounters) {
        let pool = Pool::leak(512, HugePages::Never).unwrap();
        let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
        let counters = WorkerCounters::new(1, drops::ENGINE.len(), 1);
        let ((urgent, _urgent), (usual, _usual)) =
            (rtrb::RingBuffer::new(1), rtrb::RingBuffer::new(1));
        let mut punts = Punts { urgent, usual };
        let quiescence = Quiescence::new(1);
        // SAFETY: nothing is published here.
        let reader = unsafe { Reader::new(&quiescence) };
        let mut trace_capture = crate::trace_capture::TraceCapture::default();
        let mut output = Output::new(pool, 0);
        output.set(3, TxSlot::Own(queue, Refused::default()), &counters);
        for (interface, base) in paths {
            output.map(*interface, *base);
            assert_eq!(cache.fill(&mut vector, 6), 6);
            for lane in 0..6 {
                vector.length[lane] = 100 * (lane as u16 + 1);
                vector.tx_if[lane] = *interface;
            }
            let mut walk = Walk {
                worker: 0,
                counters: &counters,
                pool: &mut cache,
                punts: &mut punts,
                reader: &reader,
                trace_capture: &mut trace_capture,
            };
            output.send(&mut vector, &mut walk);
            assert!(vector.is_empty());
        }
        let drops = counters.dropped();
        assert_eq!(counters.ledger.sent.get() + drops, 6 * paths.len() as u64, "conserved");
        (output, counters)
    }

    /// Packets and bytes sent, packets dropped.
    fn of(counters: &WorkerCounters, interface: usize) -> [u64; 3] {
        let counters = &counters.interfaces[interface];
        [&counters.tx_packets, &counters.tx_bytes, &counters.tx_drops].map(|it| it.get())
    }

    fn dropped_by<const N: usize>(counters: &WorkerCounters, reasons: [Reason; N]) -> [u64; N] {
        reasons.map(|reason| counters.drops[reason.0 as usize].get())
    }

    #[test]
    fn what_is_not_sent_is_dropped_by_name() {
        let queue = Picky { capacity: 4, refused: Refused::default() };
        let counters = counted(Box::new(queue), &[(7, 3), (3, 3), (9, NO_INTERFACE)]);
        // Lanes 0, 2 and 3 of four taken: 100 + 300 + 400 bytes.
        let by = [7, 3, 9].map(|interface| of(&counters, interface));
        assert_eq!(by, [[3, 800, 3], [6, 1600, 6], [0, 0, 6]]);
        let by = dropped_by(&counters, [drops::TX_REFUSED, drops::TX_FULL, drops::TX_NO_PORT]);
        assert_eq!((counters.ledger.sent.get(), by), (6, [2, 4, 6]));
    }

    #[test]
    fn more_refusals_than_a_burst_has_packets_count_with_the_next() {
        let refused = Refused { packets: 10, bytes: 3000 };
        let counters = counted(Box::new(Late(refused)), &[(3, 3), (3, 3), (3, 3)]);
        // 18 packets of 6300 bytes, less the ten.
        assert_eq!(of(&counters, 3), [8, 3300, 10]);
        assert_eq!(dropped_by(&counters, [drops::TX_REFUSED]), [10]);
    }

    #[test]
    fn what_is_refused_late_is_booked_without_another_burst() {
        let (mut output, counters) = sent(Box::new(Slow::default()), &[(3, 3)]);
        assert_eq!(of(&counters, 3), [6, 2100, 0]);
        output.settle(&counters);
        assert_eq!(of(&counters, 3), [5, 2000, 1]);
        assert_eq!(dropped_by(&counters, [drops::TX_REFUSED, drops::TX_NO_PORT]), [1, 0]);
        // And when the port goes, with what it still has.
        output.set(3, TxSlot::Closed, &counters);
        assert_eq!(of(&counters, 3), [2, 1400, 4]);
        assert_eq!(dropped_by(&counters, [drops::TX_REFUSED, drops::TX_NO_PORT]), [2, 2]);
        assert_eq!(counters.ledger.sent.get() + counters.dropped(), 6, "conserved");
        output.settle(&counters);
        assert_eq!(of(&counters, 3), [2, 1400, 4]);
    }
}
