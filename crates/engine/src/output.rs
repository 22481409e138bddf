//! `port-output`: the end of the graph. It counts what each interface sends and
//! gives the lanes to the port's transmit queue, or to the worker that owns it.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::INTERFACES;
use crate::column::Column;
use crate::counters::{OutOfMemory, WorkerCounters, zeroed};
use crate::drops::{self, Reason};
use crate::gather::gather_32;
use crate::graph::Walk;
use crate::pool::Pool;
use crate::port::{Refused, TxQueue};
use crate::vector::{Carry, Keys, Order, Vector, flags};
use crate::worker::Inject;
use crate::worker::hand_off::{self, Recipient};

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
    /// By interface: the inverted index of its port's interface. That of [`NO_INTERFACE`] is 0, so
    /// that memory is touched only for interfaces that exist.
    base: Box<[AtomicU32]>,
    /// Interfaces that another one carries.
    carried: usize,
    /// By the port's interface: its place in `slots`; 0 is closed for ever.
    slot_of: Box<[AtomicU32]>,
    /// Paths to ports, the first one closed. Freed places are used again.
    slots: Vec<TxSlot>,
    free: Vec<u32>,
    /// Ports with a queue of our own, by their interfaces.
    own: Vec<u32>,
    /// Rings to the other workers, by worker; the own slot is empty.
    pub(crate) handoff: Vec<Option<rtrb::Producer<Inject>>>,
    /// Workers that got packets in this walk, one bit each: they must be woken.
    pub(crate) handed: u64,
    /// The index of `port-output` in the graph.
    pub(crate) node: u16,
    scratch: Option<Scratch>,
}

/// For vectors of several interfaces.
struct Scratch {
    /// By lane: its port, inverted as in [`Output::base`].
    ports: Box<Column<u32>>,
    /// The lanes of one port.
    burst: Box<Vector>,
    /// Space for a list of them.
    order: Box<Order>,
}

impl Output {
    pub(crate) fn new(pool: &'static Pool, node: u16) -> Result<Self, OutOfMemory> {
        let (ports, order) = (Box::new(Column::of(0)), Box::new(Order::new()));
        let scratch = Scratch { ports, burst: Vector::new(pool), order };
        Ok(Self {
            base: zeroed(INTERFACES)?,
            carried: 0,
            slot_of: zeroed(INTERFACES)?,
            slots: vec![TxSlot::Closed],
            free: Vec::new(),
            own: Vec::new(),
            handoff: Vec::new(),
            handed: 0,
            node,
            scratch: Some(scratch),
        })
    }

    /// Maps an interface to the port that carries it; [`NO_INTERFACE`]: to none.
    pub fn map(&mut self, interface: u32, base: u32) {
        let Some(cell) = self.base.get_mut(interface as usize) else { return };
        let is_carried = |base: u32| usize::from(base != interface && base != NO_INTERFACE);
        let before = !std::mem::replace(cell.get_mut(), !base);
        self.carried = self.carried + is_carried(base) - is_carried(before);
    }

    /// Replaces the path to a port, and counts what the old queue has not reported yet.
    pub fn set(&mut self, base: u32, slot: TxSlot, counters: &WorkerCounters) {
        if base as usize >= INTERFACES {
            return;
        }
        self.own.retain(|own| *own != base);
        if matches!(slot, TxSlot::Own(..)) {
            self.own.push(base);
        }
        if let TxSlot::Own(mut queue, mut owed) = self.replace(base, slot) {
            let mut left = queue.close();
            owed += queue.refused();
            correct(base, &mut owed, drops::TX_REFUSED, counters);
            correct(base, &mut left, drops::TX_NO_PORT, counters);
        }
    }

    /// Puts a path in its place and returns the former one. A closed path takes no place.
    fn replace(&mut self, base: u32, slot: TxSlot) -> TxSlot {
        let at = self.slot_of(base);
        if matches!(slot, TxSlot::Closed) {
            if at == 0 {
                return TxSlot::Closed;
            }
            self.slot_of[base as usize].store(0, Ordering::Relaxed);
            self.free.push(at as u32);
            return std::mem::take(&mut self.slots[at]);
        }
        if at > 0 {
            return std::mem::replace(&mut self.slots[at], slot);
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(TxSlot::Closed);
            self.slots.len() as u32 - 1
        });
        self.slot_of[base as usize].store(at, Ordering::Relaxed);
        std::mem::replace(&mut self.slots[at as usize], slot)
    }

    /// The place of the path to a port in `slots`; 0: there is none.
    #[inline(always)]
    fn slot_of(&self, base: u32) -> usize {
        self.slot_of.get(base as usize).map_or(0, |at| at.load(Ordering::Relaxed) as usize)
    }

    /// Counts frames that devices refused after the last burst.
    pub(crate) fn settle(&mut self, counters: &WorkerCounters) {
        for base in &self.own {
            let at = self.slot_of[*base as usize].load(Ordering::Relaxed);
            if let Some(TxSlot::Own(queue, owed)) = self.slots.get_mut(at as usize) {
                *owed += queue.refused();
                correct(*base, owed, drops::TX_REFUSED, counters);
            }
        }
    }

    /// Sends all lanes, each by its `tx_if`; the vector is empty afterwards.
    pub(crate) fn send(&mut self, vector: &mut Vector, walk: &mut Walk<'_>) {
        let lanes = vector.len();
        if let Some(interface) = vector.tx_if.uniform(lanes) {
            let base = self.port_of(interface);
            self.send_burst((Some(interface), base), vector, walk);
            return walk.pool.free_from(vector, 0);
        }
        let Some(mut scratch) = self.scratch.take() else { return };
        let Scratch { ports, burst, order } = &mut scratch;
        if self.carried == 0 {
            // Each interface is a port of its own, or has none.
            self.send_split((vector, Keys::TxIf), (burst, order), walk);
        } else {
            self.find_ports(vector, ports);
            match ports.uniform(lanes) {
                Some(base) => {
                    self.send_burst((None, !base), vector, walk);
                    walk.pool.free_from(vector, 0);
                }
                None => self.send_split((vector, Keys::Column(ports)), (burst, order), walk),
            }
        }
        self.scratch = Some(scratch);
    }

    /// The port of an interface.
    #[inline(always)]
    fn port_of(&self, interface: u32) -> u32 {
        self.base.get(interface as usize).map_or(NO_INTERFACE, |base| !base.load(Ordering::Relaxed))
    }

    /// The inverted port of each lane.
    fn find_ports(&self, vector: &Vector, ports: &mut Column<u32>) {
        const { assert!(INTERFACES.is_power_of_two()) };
        let lanes = vector.len();
        gather_32(&self.base, &vector.tx_if, lanes, ports);
        // The gather takes an index that is too large for that of another interface.
        let any = vector.tx_if[..lanes].iter().fold(0, |any, interface| any | interface);
        if any as usize >= INTERFACES {
            for (base, interface) in ports.iter_mut().zip(&vector.tx_if[..lanes]) {
                *base = !self.port_of(*interface);
            }
        }
    }

    /// Sends the lanes of each port together.
    fn send_split(
        &mut self,
        (vector, keys): (&mut Vector, Keys<'_>),
        (burst, order): (&mut Vector, &mut Order),
        walk: &mut Walk<'_>,
    ) {
        let is_watched = walk.trace_capture.sees_sent();
        let mut split = vector.split_by(keys, order);
        while let Some(key) = split.key() {
            let (interface, base) = match keys {
                Keys::TxIf => (Some(key), self.port_of(key)),
                Keys::Column(_) => (None, !key),
            };
            // Traces, captures and another worker get whole packets.
            let is_own = matches!(self.slots.get(self.slot_of(base)), Some(TxSlot::Own(..)));
            let carry = if is_own && !is_watched { Carry::Frame } else { Carry::All };
            split.take(key, carry, burst);
            self.send_burst((interface, base), burst, walk);
            split.take_back(burst, walk.pool);
        }
        split.free(walk.pool);
    }

    /// Sends all lanes through one port, of one interface or (`None`) of several. Buffers that no queue
    /// took stay in the vector, to be freed.
    fn send_burst(
        &mut self,
        (interface, base): (Option<u32>, u32),
        vector: &mut Vector,
        walk: &mut Walk<'_>,
    ) {
        let lanes = vector.len();
        let interface = interface.or_else(|| vector.tx_if.uniform(lanes));
        let at = self.slot_of(base);
        match self.slots.get_mut(at) {
            Some(TxSlot::Own(queue, owed)) => {
                vector.watch(walk.trace_capture.sees_sent());
                let taken = queue.transmit(vector, walk.pool).min(lanes);
                *owed += queue.refused();
                match interface {
                    Some(interface) => sent((interface, base), (vector, taken), owed, walk),
                    None => sent_each(base, (vector, taken), owed, walk),
                }
                dropped(drops::TX_FULL, lanes - taken, walk);
                walk.trace_capture.sent(vector, (taken, drops::TX_FULL), base);
            }
            Some(TxSlot::Via(worker)) => {
                let worker = *worker;
                self.hand_over((worker, base), vector, walk);
            }
            _ => {
                match interface {
                    Some(interface) => count(interface, base, 0, 0, lanes, walk),
                    None => count_each(base, vector, |_| false, walk),
                }
                dropped(drops::TX_NO_PORT, lanes, walk);
                walk.trace_capture.sent(vector, (0, drops::TX_NO_PORT), base);
            }
        }
    }

    fn hand_over(
        &mut self,
        (worker, base): (usize, u32),
        vector: &mut Vector,
        walk: &mut Walk<'_>,
    ) {
        let Some(Some(ring)) = self.handoff.get_mut(worker) else {
            walk.counters.drops[drops::TX_NO_PORT.0 as usize].add(vector.len() as u64);
            return walk.trace_capture.sent(vector, (0, drops::TX_NO_PORT), base);
        };
        let (to, lanes) = (Recipient { worker, node: self.node }, vector.len());
        let tools = (&mut *walk.trace_capture, walk.counters);
        let capacity = hand_off::give(ring, to, vector, (0..lanes, lanes), tools);
        let left = lanes - capacity;
        walk.counters.drops[drops::HANDOFF_FULL.0 as usize].add(left as u64);
        // Lanes that were taken over are not there any more.
        walk.trace_capture.sent(vector, (capacity, drops::HANDOFF_FULL), base);
        self.handed |= 1 << worker;
    }
}

fn dropped(reason: Reason, packets: usize, walk: &Walk<'_>) {
    if packets > 0 {
        walk.counters.drops[reason.0 as usize].add(packets as u64);
    }
}

/// Counts the `taken` lanes of a burst of one interface as sent, less what the device refused, and
/// the others at the interfaces.
fn sent(
    (interface, base): (u32, u32),
    (vector, taken): (&Vector, usize),
    owed: &mut Refused,
    walk: &Walk<'_>,
) {
    let bytes = u64::from(vector.length.sum(taken));
    let refused = owed.settle(taken as u64, bytes);
    let (lost, bytes) = (refused.packets as usize, bytes - refused.bytes);
    let sent = taken - lost;
    count(interface, base, sent, bytes, vector.len() - sent, walk);
    walk.counters.ledger.sent.add(sent as u64);
    dropped(drops::TX_REFUSED, lost, walk);
}

/// [`sent`] for a burst of several interfaces. A lane that the queue has marked as refused is
/// dropped at its own interface. Which lanes other refusals were of is unknown, as it is of those
/// that are reported after the burst, and like them they correct the counters of the port only.
fn sent_each(base: u32, (vector, taken): (&Vector, usize), owed: &mut Refused, walk: &Walk<'_>) {
    if taken == vector.len() && *owed == Refused::default() {
        count_each(base, vector, |_| true, walk);
        return walk.counters.ledger.sent.add(taken as u64);
    }
    let is_refused = |lane: usize| vector.flags[lane] & flags::REFUSED != 0;
    let mut marked = Refused::default();
    for lane in (0..taken).filter(|lane| is_refused(*lane)) {
        marked += Refused { packets: 1, bytes: vector.length[lane].into() };
    }
    count_each(base, vector, |lane| lane < taken && !is_refused(lane), walk);
    walk.counters.ledger.sent.add(taken as u64 - marked.packets);
    dropped(drops::TX_REFUSED, marked.packets as usize, walk);
    // They are accounted for.
    let _ = owed.settle(marked.packets, marked.bytes);
    correct(base, owed, drops::TX_REFUSED, walk.counters);
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

/// Counts each lane at its interface, and all of them at the port.
#[inline(always)]
fn count_each(base: u32, vector: &Vector, is_sent: impl Fn(usize) -> bool, walk: &Walk<'_>) {
    let interfaces = &walk.counters.interfaces;
    // Of the port: all lanes that are not of its own interface.
    let (mut sent, mut bytes, mut lost) = (0, 0, 0);
    let columns = vector.tx_if.iter().zip(vector.length.iter());
    for (lane, (interface, length)) in columns.enumerate().take(vector.len()) {
        let (length, is_other) = (u64::from(*length), u64::from(*interface != base));
        let Some(counters) = interfaces.get(*interface as usize) else { continue };
        if is_sent(lane) {
            counters.tx_packets.add(1);
            counters.tx_bytes.add(length);
            sent += is_other;
            bytes += is_other * length;
        } else {
            counters.tx_drops.add(1);
            lost += is_other;
        }
    }
    if let Some(counters) = interfaces.get(base as usize) {
        counters.tx_packets.add(sent);
        counters.tx_bytes.add(bytes);
        counters.tx_drops.add(lost);
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
mod tests;
