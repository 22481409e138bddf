//! The thread that exports: takes what workers report, reads long and idle flows, and serves the collectors.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use stoa_api::v1;
use stoa_engine::clock;

use super::collector::Collector;
use super::encode::{Encoder, Moment};
use super::record::{Denial, FlowRecord, NatEvent, NatEventKind, Record};
use super::reported::since;
use super::ring::RING;
use super::settings::Settings;
use super::walk::{Due, SLICE, Walk};
use crate::flow::flows::Flows;
use crate::mailbox::Mailbox;
use crate::nat64::hosts::Hosts;

/// How often it takes what workers report.
const STEP: Duration = Duration::from_millis(20);
/// Refused packets, and events, that the control thread has reported and that wait for it.
const WAITING: usize = 4_096;
/// Records of a step after which it does not wait for the next one.
const MANY: u64 = RING as u64 / 4;
/// How long it goes on when the export ends: for the last records, and for collectors that take them slowly.
const LAST: Duration = Duration::from_millis(500);
/// Events of address translation that are logged in a second.
const LOGGED: u32 = 10;

/// What the exporter does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Records.
    pub state: v1::IpfixState,
    /// Collectors, in the order of the settings.
    pub collectors: Vec<v1::IpfixCollectorState>,
}

/// What the control thread and the exporter share.
#[derive(Default)]
struct Contents {
    settings: Option<Settings>,
    waiting: Waiting,
    lost: u64,
    is_ended: bool,
    is_over: bool,
    snapshot: Snapshot,
}

/// What the control thread has reported.
#[derive(Default)]
struct Waiting {
    denials: Vec<Denial>,
    events: Vec<NatEvent>,
}

/// Adds reports as long as there is room; how many found none.
fn add<T>(all: &mut Vec<T>, more: impl Iterator<Item = T>) -> u64 {
    let mut lost = 0;
    for one in more {
        if all.len() < WAITING {
            all.push(one);
        } else {
            lost += 1;
        }
    }
    lost
}

/// The exporter, for the control thread. It ends when this is dropped.
pub struct Exporter {
    mailbox: Arc<Mailbox<Contents>>,
    settings: Settings,
}

impl Exporter {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(flows: &Arc<Flows>, settings: &Settings) -> io::Result<Self> {
        let mailbox = Arc::new(Mailbox::default());
        let mut thread = Thread::new(flows, settings, &mailbox);
        thread.publish();
        let (builder, flows) =
            (std::thread::Builder::new().name("ipfix".to_owned()), flows.clone());
        builder.spawn(move || thread.run(&mut flows.exports().walks()))?;
        Ok(Self { mailbox, settings: settings.clone() })
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Has it export by other settings.
    pub fn follow(&mut self, flows: &Flows, settings: &Settings) {
        flows.exports().follow(settings);
        self.settings = settings.clone();
        self.mailbox.lock().settings = Some(settings.clone());
        self.mailbox.wake();
    }

    /// Reports refused packets.
    pub fn deny(&self, denials: impl Iterator<Item = Denial>) {
        let contents = &mut *self.mailbox.lock();
        contents.lost += add(&mut contents.waiting.denials, denials);
    }

    /// Reports events of address translation that the control thread has logged.
    pub fn report(&self, events: impl Iterator<Item = NatEvent>) {
        let contents = &mut *self.mailbox.lock();
        contents.lost += add(&mut contents.waiting.events, events);
    }

    /// What it has done.
    pub fn snapshot(&self) -> Snapshot {
        self.mailbox.lock().snapshot.clone()
    }

    /// Has it report all flows and end, and waits for that, at most for so long.
    pub fn end(self, at_most: Duration) {
        let mut contents = self.mailbox.lock();
        contents.is_ended = true;
        self.mailbox.wake();
        let until = Instant::now() + at_most;
        while !contents.is_over && Instant::now() < until {
            let rest = until.saturating_duration_since(Instant::now());
            contents = self.mailbox.wait(contents, rest);
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.mailbox.lock().is_ended = true;
        self.mailbox.wake();
    }
}

/// The thread.
struct Thread {
    mailbox: Arc<Mailbox<Contents>>,
    flows: Arc<Flows>,
    settings: Settings,
    encoder: Encoder,
    /// Reports that were left out.
    left_out: u64,
    /// Records that found no room, in the end and at the begin.
    unmade: (u64, u64),
    /// Events that workers had suppressed before the begin, and flows that they had lost.
    suppressed_before: u64,
    lost_flows_before: u64,
    statistics: Option<Instant>,
    /// Events that were logged in a second.
    logged: (u32, u32),
    /// Its number.
    number: u32,
}

impl Thread {
    fn new(flows: &Arc<Flows>, settings: &Settings, mailbox: &Arc<Mailbox<Contents>>) -> Self {
        let before = flows.exports().lost();
        Self {
            mailbox: mailbox.clone(),
            flows: flows.clone(),
            settings: settings.clone(),
            encoder: Encoder::new(settings),
            left_out: 0,
            unmade: (before, before),
            suppressed_before: flows.exports().suppressed(),
            lost_flows_before: flows.exports().lost_flows(),
            statistics: None,
            logged: (0, 0),
            number: flows.exports().begin(settings),
        }
    }

    fn run(mut self, walks: &mut [Walk; 2]) {
        loop {
            let taken = self.step(walks, false);
            let contents = self.mailbox.lock();
            if contents.is_ended {
                break;
            }
            if taken < MANY && contents.settings.is_none() {
                drop(self.mailbox.wait(contents, STEP));
            }
        }
        self.finish(walks);
        self.mailbox.lock().is_over = true;
        self.mailbox.wake();
    }

    /// Reports all flows, and lets collectors take what waits.
    fn finish(&mut self, walks: &mut [Walk; 2]) {
        walks.iter_mut().for_each(Walk::restart);
        self.step(walks, true);
        let until = Instant::now() + LAST;
        let now = self.now();
        if self.flows.exports().end(self.number) {
            self.drain(walks, now);
        }
        // With what was lost until the end.
        self.encoder.statistics(self.lost_flows(), now);
        while !self.encoder.collectors.iter().all(Collector::is_idle) && Instant::now() < until {
            std::thread::sleep(STEP / 4);
            self.encoder.service(self.now());
        }
        self.publish();
    }

    fn now(&self) -> Moment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ms = since.as_millis() as u64;
        let tick = self.flows.now(clock::tsc()).tick;
        Moment { tick, unix_ms, instant: Instant::now() }
    }

    /// Does what is to be done; how many records there were.
    fn step(&mut self, walks: &mut [Walk; 2], is_last: bool) -> u64 {
        let now = self.now();
        let waiting = self.receive();
        self.encoder.service(now);
        let taken = self.drain(walks, now);
        if self.settings.flows {
            self.walk(walks, is_last, now);
        }
        let hosts = self.flows.nat64_hosts();
        waiting.events.iter().for_each(|event| self.encoder.event((event, hosts), now));
        waiting.denials.iter().for_each(|denial| self.encoder.denial(denial, now));
        self.encoder.flush(now);
        let interval = Duration::from_secs(self.settings.template_s.into());
        let is_due = |at: Instant| now.instant.duration_since(at) >= interval;
        if !is_last && self.statistics.is_none_or(is_due) {
            self.statistics = Some(now.instant);
            self.encoder.statistics(self.lost_flows(), now);
        }
        self.publish();
        taken
    }

    /// Follows other settings; what the control thread has reported.
    fn receive(&mut self) -> Waiting {
        let mut contents = self.mailbox.lock();
        let (settings, waiting) = (contents.settings.take(), std::mem::take(&mut contents.waiting));
        drop(contents);
        if let Some(settings) = settings {
            self.encoder.flush(self.now());
            self.encoder.follow(&settings);
            self.settings = settings;
            self.statistics = None;
        }
        waiting
    }

    /// Takes what workers report; how many records.
    fn drain(&mut self, walks: &mut [Walk; 2], now: Moment) -> u64 {
        let Self { flows, encoder, settings, logged, .. } = self;
        let (exports, hosts, mut taken) = (flows.exports(), flows.nat64_hosts(), 0);
        let mut each = |record| match record {
            Record::Began(flow) if settings.nat_sessions => {
                encoder.session((&flow, hosts), true, now)
            }
            Record::Began(_) => {}
            Record::Ended(flow) => {
                if settings.nat_sessions {
                    encoder.session((&flow, hosts), false, now);
                }
                if settings.flows && exports.samples(&flow.key) {
                    let walk = &mut walks[usize::from(!flow.is_ip4())];
                    end_flow(encoder, walk, (flow, hosts), now);
                }
            }
            Record::Nat(event) if settings.nat_events => {
                log((&event, hosts), logged, now.tick);
                encoder.event((&event, hosts), now);
            }
            Record::Nat(_) => {}
        };
        self.unmade.0 = exports.drain(|record| {
            taken += 1;
            each(record);
        });
        taken
    }

    /// Reports flows that go on and are due; all of them if the export ends.
    fn walk(&mut self, walks: &mut [Walk; 2], is_last: bool, now: Moment) {
        let until = now.instant + LAST;
        for (at, is_ip4) in [true, false].into_iter().enumerate() {
            let mut left = Walk::ids_of_turn(self.flows.capacity(is_ip4));
            loop {
                let Self { flows, encoder, settings, left_out, .. } = self;
                let each = |Due { record, reported_at }: Due| {
                    let from = reported_at.unwrap_or(record.start);
                    encoder.flow((&record, flows.nat64_hosts()), now.ms_of(from), now);
                };
                let of: (&Flows, bool) = (flows, is_ip4);
                let turn = walks[at].turn(of, settings, (now.tick, is_last), each);
                *left_out += turn.left_out;
                left = left.saturating_sub(SLICE);
                if turn.is_done || left == 0 && !is_last || is_last && Instant::now() > until {
                    break;
                }
                // Rings do not fill while a large table is looked through.
                self.drain(walks, now);
            }
        }
    }

    fn lost(&self) -> u64 {
        self.unmade.0.saturating_sub(self.unmade.1) + self.mailbox.lock().lost
    }

    /// Flows of which no record was made, as workers found no room.
    fn lost_flows(&self) -> u64 {
        self.flows.exports().lost_flows().saturating_sub(self.lost_flows_before)
    }

    fn publish(&mut self) {
        let lost_records = self.lost();
        let made = self.encoder.made;
        let state = v1::IpfixState {
            flow_records: made.flows,
            nat_records: made.nat,
            denial_records: made.denials,
            other_records: made.others,
            lost_records,
            unreported_flows: self.left_out,
            suppressed_nat_events: self.flows.exports().suppressed() - self.suppressed_before,
        };
        let collectors = self.encoder.collectors.iter().map(collector_state).collect();
        self.mailbox.lock().snapshot = Snapshot { state, collectors };
    }
}

/// Adds the last record of a flow: what has passed since the last report, if there was one.
fn end_flow(encoder: &mut Encoder, walk: &mut Walk, of: (FlowRecord, &Hosts), now: Moment) {
    let (mut flow, hosts) = of;
    let former = walk.reported.take(flow.id, flow.start);
    flow.counters = since(flow.counters, former.as_ref());
    if flow.counters.iter().any(|it| it.packets > 0) {
        let from = former.map_or(flow.start, |it| it.at);
        encoder.flow((&flow, hosts), now.ms_of(from), now);
    }
}

/// Writes an event of address translation to the log, if there are few in this second.
fn log((event, hosts): (&NatEvent, &Hosts), (second, count): &mut (u32, u32), tick: u32) {
    if *second != tick {
        if let Some(events) = count.checked_sub(LOGGED).filter(|it| *it > 0) {
            tracing::warn!(events, "NAT has refused more hosts in a second than were logged");
        }
        (*second, *count) = (tick, 0);
    }
    *count += 1;
    if *count > LOGGED {
        return;
    }
    let (instance, host) = (event.instance, hosts.shown(event.subscriber));
    match event.kind {
        NatEventKind::AddressesExhausted => {
            tracing::warn!(instance, %host, "NAT has no external address for a host");
        }
        NatEventKind::PortsExhausted => {
            tracing::warn!(instance, %host, "NAT has no free port for a host");
        }
        NatEventKind::QuotaExceeded => {
            tracing::warn!(instance, %host, "NAT subscriber is at its limit");
        }
        // The control thread logs them.
        NatEventKind::PortBlock { .. } => {}
    }
}

fn collector_state(collector: &Collector) -> v1::IpfixCollectorState {
    let counts = collector.counts();
    v1::IpfixCollectorState {
        name: collector.settings().name.clone(),
        state: collector.state().to_owned(),
        error: collector.error().to_owned(),
        messages: counts.messages,
        records: counts.records,
        bytes: counts.bytes,
        lost_messages: counts.lost_messages,
        lost_records: counts.lost_records,
        connections: counts.connections,
        queued_bytes: collector.queued() as u64,
    }
}
