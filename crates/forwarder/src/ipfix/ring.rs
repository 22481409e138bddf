//! From workers to the exporter: what is exported, and a ring for each worker and family. Nobody waits: what finds no
//! room is counted.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stoa_engine::counters::Counter;
use stoa_tables::flow_table::{FlowEntry, FlowKey, Tuple};

use super::record::{EndReason, FlowRecord, NatEvent, Record};
use super::settings::Settings;
use super::walk::Walk;
use crate::reports::{Reporter, Reports};

/// Records that wait for the exporter, of a worker and family. It takes them 50 times a second. Memory that was never
/// used takes no room.
pub const RING: usize = 16_384;
/// Events of address translation that a worker reports in a second.
const EVENTS: u32 = 100;

/// Bits of what workers report.
const FLOWS: u32 = 1;
const SESSIONS: u32 = 2;
const NAT_EVENTS: u32 = 4;

/// What workers report.
#[derive(Debug, Default)]
struct Switches {
    what: AtomicU32,
    /// One of so many flows.
    sampling: AtomicU32,
    /// Nobody can choose flows that are not exported.
    secret: u32,
}

impl Switches {
    #[inline(always)]
    fn has(&self, what: u32) -> bool {
        self.what.load(Ordering::Relaxed) & what != 0
    }

    fn follow(&self, settings: &Settings) {
        let bits = [
            (settings.flows, FLOWS),
            (settings.nat_sessions, SESSIONS),
            (settings.nat_events, NAT_EVENTS),
        ];
        let what = bits.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum::<u32>();
        self.sampling.store(settings.sampling, Ordering::Relaxed);
        self.what.store(what, Ordering::Relaxed);
    }

    fn samples(&self, key: &FlowKey) -> bool {
        let one_of = self.sampling.load(Ordering::Relaxed);
        let hash = match key.tuple {
            _ if one_of <= 1 => return true,
            Tuple::Ip4(it) => it.symmetric_hash(self.secret),
            Tuple::Ip6(it) => it.symmetric_hash(self.secret),
        };
        (u64::from(hash) * u64::from(one_of)) >> 32 == 0
    }
}

/// The end of a worker.
pub struct Writer {
    switches: Arc<Switches>,
    reporter: Reporter<Record>,
    /// Events of a second.
    events: (u32, u32),
    counts: Arc<Counts>,
}

/// What a worker has left out.
#[derive(Default)]
struct Counts {
    /// Events beyond the limit of a second.
    suppressed: Counter,
    /// Flows that have found no room.
    lost_flows: Counter,
}

impl Writer {
    /// A flow ends. It is still there, or its id waits for a grace period.
    #[inline(always)]
    pub fn ended(&mut self, flow: &FlowEntry<'_>, reason: impl FnOnce() -> EndReason) {
        if self.switches.has(FLOWS | SESSIONS) {
            self.push_ended(flow, reason());
        }
    }

    #[cold]
    #[inline(never)]
    fn push_ended(&mut self, flow: &FlowEntry<'_>, reason: EndReason) {
        let is_session = self.switches.has(SESSIONS) && flow.has_second();
        let is_flow = self.switches.has(FLOWS) && self.switches.samples(&flow.key());
        if (is_session || is_flow)
            && !self.reporter.push(Record::Ended(FlowRecord::of(flow, reason)))
        {
            self.counts.lost_flows.add(is_flow.into());
        }
    }

    /// A translated flow begins.
    #[inline(always)]
    pub fn began(&mut self, flow: &FlowEntry<'_>) {
        if self.switches.has(SESSIONS) {
            self.reporter.push(Record::Began(FlowRecord::of(flow, EndReason::Active)));
        }
    }

    /// Something has happened to address translation at this tick: what exceeds the limit of a second is counted
    /// only.
    #[cold]
    pub fn nat(&mut self, event: NatEvent, tick: u32) {
        let (second, before) = self.events;
        let count = if second == tick { before + 1 } else { 1 };
        self.events = (tick, count);
        if !self.switches.has(NAT_EVENTS) {
            return;
        }
        if count <= EVENTS {
            self.reporter.push(Record::Nat(event));
        } else {
            self.counts.suppressed.add(1);
        }
    }

    /// Reports a record, whatever is exported; whether there was room.
    pub fn report(&mut self, record: Record) -> bool {
        self.reporter.try_push(record)
    }
}

/// What is exported, and the ends of the exporter.
pub struct Exports {
    switches: Arc<Switches>,
    records: Reports<Record>,
    counts: Mutex<Vec<Arc<Counts>>>,
    /// The number of the last exporter. Switches change under this lock.
    exporter: Mutex<u32>,
    /// What was reported of IPv4 and of IPv6 flows that go on. The exporter that works has it: the next one begins when
    /// that is over, and reports what came since then.
    walks: Mutex<[Walk; 2]>,
}

impl Exports {
    /// Nothing is exported. `secret`: a random word.
    pub fn new(secret: u64) -> Self {
        let switches = Switches { secret: secret as u32, ..Switches::default() };
        Self {
            switches: Arc::new(switches),
            records: Reports::new(RING),
            counts: Mutex::default(),
            exporter: Mutex::default(),
            walks: Mutex::default(),
        }
    }

    /// The end of one more worker.
    pub fn writer(&self) -> Writer {
        let (reporter, counts) = (self.records.writer(), Arc::new(Counts::default()));
        self.counts().push(counts.clone());
        Writer { switches: self.switches.clone(), reporter, events: (0, 0), counts }
    }

    fn counts(&self) -> MutexGuard<'_, Vec<Arc<Counts>>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Events of address translation beyond the limit of a second, so far.
    pub fn suppressed(&self) -> u64 {
        self.counts().iter().map(|it| it.suppressed.get()).sum()
    }

    /// Flows whose end has found no room so far.
    pub fn lost_flows(&self) -> u64 {
        self.counts().iter().map(|it| it.lost_flows.get()).sum()
    }

    /// Waits for the end of the exporter that works, and takes its place.
    pub fn walks(&self) -> MutexGuard<'_, [Walk; 2]> {
        self.walks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exporter(&self) -> MutexGuard<'_, u32> {
        self.exporter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another exporter begins, with this number and these settings.
    pub fn begin(&self, settings: &Settings) -> u32 {
        let mut last = self.exporter();
        *last = last.wrapping_add(1);
        self.switches.follow(settings);
        *last
    }

    /// The exporter with this number ends: workers report nothing any more, unless another one has begun. Whether it is
    /// the last one.
    pub fn end(&self, number: u32) -> bool {
        let last = self.exporter();
        let is_last = *last == number;
        if is_last {
            self.switches.what.store(0, Ordering::Relaxed);
        }
        is_last
    }

    /// Records that have found no room so far.
    pub fn lost(&self) -> u64 {
        self.records.lost()
    }

    /// Has workers report what these settings say.
    pub fn follow(&self, settings: &Settings) {
        let _last = self.exporter();
        self.switches.follow(settings);
    }

    /// Whether flows with this key are exported: one of so many.
    pub fn samples(&self, key: &FlowKey) -> bool {
        self.switches.samples(key)
    }

    /// Takes what workers have reported; returns how many records have found no room so far.
    pub fn drain(&self, each: impl FnMut(Record)) -> u64 {
        self.records.drain(each)
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::NatEventKind;
    use super::*;

    fn event(subscriber: u32) -> NatEvent {
        let kind = NatEventKind::PortsExhausted;
        NatEvent { kind, instance: 1, subscriber, protocol: 6, vrf: 0 }
    }

    fn on() -> Settings {
        Settings {
            collectors: vec![super::super::settings::tests::collector()],
            nat_events: true,
            ..Settings::default()
        }
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let exports = Exports::new(1);
        let mut writer = exports.writer();
        writer.nat(event(1), 1);
        assert_eq!(exports.drain(|_| panic!("nothing is exported")), 0);
        exports.follow(&on());
        for at in 0..RING as u32 + 3 {
            writer.nat(event(at), at);
        }
        let mut taken = 0;
        assert_eq!(exports.drain(|_| taken += 1), 3);
        assert_eq!(taken, RING);
        let number = exports.begin(&on());
        assert!(!exports.end(number.wrapping_sub(1)));
        writer.nat(event(1), 1);
        assert_eq!(exports.drain(|_| taken += 1), 3);
        assert_eq!(taken, RING + 1, "another exporter has begun");
        assert!(exports.end(number));
        writer.nat(event(1), 1);
        assert_eq!(exports.drain(|_| panic!("nothing is exported any more")), 3);
    }

    #[test]
    fn events_that_find_no_room_are_no_lost_flows() {
        use stoa_tables::flow_table::{FlowCapacity, FlowTable, Secret};
        let capacity = FlowCapacity { ip4: 8, ..FlowCapacity::default() };
        let table = FlowTable::new(&capacity, &Secret([7; 64])).unwrap();
        let (exports, reader) = (Exports::new(1), table.reader());
        let mut writer = exports.writer();
        exports.follow(&Settings { flows: true, sampling: 1, ..on() });
        (0..RING + 3).for_each(|_| writer.ended(&reader.entry(0), || EndReason::Idle));
        (0..5).for_each(|at| writer.nat(event(at), at));
        assert_eq!((exports.lost(), exports.lost_flows()), (8, 3));
    }

    #[test]
    fn events_of_a_second_are_limited() {
        let exports = Exports::new(1);
        let mut writer = exports.writer();
        exports.follow(&on());
        (0..1_000).for_each(|at| writer.nat(event(at), at / 500));
        let mut taken = 0;
        exports.drain(|_| taken += 1);
        assert_eq!((taken, exports.suppressed()), (2 * EVENTS, 1_000 - 2 * u64::from(EVENTS)));
    }

    #[test]
    fn sampling_takes_one_of_so_many_flows() {
        use stoa_tables::flow_hash::Flow;
        let exports = Exports::new(0x1234_5678);
        exports.follow(&Settings { sampling: 10, flows: true, ..on() });
        let key = |source| {
            let (destination, protocol) = (0x0a00_0001, 17);
            let (source_port, destination_port) = (4_000, 53);
            FlowKey::ip4(Flow { source, destination, source_port, destination_port, protocol }, 0)
        };
        let taken = (0..10_000).filter(|source| exports.samples(&key(*source))).count();
        assert!((800..1_200).contains(&taken), "{taken}");
        let both =
            |source| exports.samples(&key(source)) == exports.samples(&key(source).reversed());
        assert!((0..1_000).all(both));
    }
}
