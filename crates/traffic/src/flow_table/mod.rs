//! `stoa bench flow`: speed and memory of the flow table alone.
//!
//! One worker creates flows at a steady pace, as many for each tick, whose timeouts differ so that they end in
//! another order than they began. When as many live as were asked for, look-ups in vectors and the steady pace
//! are timed; the least disturbed of many passes is reported.

mod keys;
#[cfg(test)]
mod tests;

use std::hint::black_box;

use serde::Serialize;
use stoa_engine::{VECTOR, clock, heap};
use stoa_tables::Reclaim;
use stoa_tables::flow_table::{
    Created, FlowCapacity, FlowError, FlowKey, FlowOwner, FlowReader, FlowTable, Match, NewFlow,
    Secret,
};
use stoa_tables::lpm::Kernel;

use crate::random::Random;
use keys::Packets;

/// The most flows.
pub const FLOWS_MAX: u32 = 16_000_000;
/// Flows of a tick when there are many, so that all of them take most of a turn of the table's wheel.
const TICKS: u32 = 2600;
/// The least number of flows of a tick, so that calls are not what is measured.
const TICK_LEAST: u32 = 64;
/// Timeout classes in use.
const CLASSES: u32 = 16;
/// Packets to look up, least and most.
const PACKETS: [usize; 2] = [1 << 12, 1 << 22];
/// Default look-ups of a round.
pub const LOOKUPS: u32 = 1 << 21;
/// The least look-ups of a round.
pub const LOOKUPS_MIN: u32 = PACKETS[0] as u32;
/// The most look-ups of a round.
pub const LOOKUPS_MAX: u32 = 1 << 30;
/// Packets that are timed together: each such part counts with its least disturbed pass.
const PART: usize = 16 * VECTOR;
/// Flows created in a sample of the steady pace, at least.
const SAMPLE: u32 = 1024;
/// Look-ups of a round for each sample of the steady pace.
const LOOKUPS_PER_SAMPLE: u32 = LOOKUPS / 200;

/// The workload.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Live flows: 1 to [`FLOWS_MAX`].
    pub flows: u32,
    /// IPv6 in place of IPv4.
    pub is_ip6: bool,
    /// With a second key for the replies; that of IPv6 flows is IPv4, as in NAT64.
    pub is_translated: bool,
    /// How vectors are looked up.
    pub kernel: Kernel,
    /// Rounds of measurement: 1 to 100.
    pub rounds: u32,
    /// Look-ups of a round, at least: [`LOOKUPS_MIN`] to [`LOOKUPS_MAX`]. The flows created in a round are
    /// a tenth of it.
    pub lookups: u32,
}

/// Results of the measurement. Cycles are ticks of the time stamp counter.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Of a look-up that finds a flow, in either direction.
    pub cycles_per_lookup: f64,
    /// The same, storing the time of the packet and counting it.
    pub cycles_per_lookup_and_count: f64,
    /// Of a look-up that finds none.
    pub cycles_per_miss: f64,
    /// Flows created, each after a look-up in vain, and as many collected.
    pub creates_per_second: f64,
    /// Cycles of creating and collecting one flow.
    pub cycles_per_create: f64,
    /// Bytes of the table when it is full, for each flow.
    pub bytes_per_flow: f64,
    /// Live flows.
    pub flows: u32,
    /// `ip4` or `ip6`.
    pub family: &'static str,
    /// Whether flows have a second key.
    pub translated: bool,
    /// How vectors were looked up.
    pub kernel: &'static str,
    /// Ticks of the counter per second.
    pub tsc_hz: u64,
}

/// Why the measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum FlowTableError {
    /// A number out of range.
    #[error("{0}")]
    Range(String),
    /// The table refused.
    #[error("the flow table refused: {0}")]
    Refused(#[from] FlowError),
}

/// Measures; `progress` receives the completed share.
///
/// # Errors
///
/// A workload that is out of range, or no memory.
pub fn run(workload: &Workload, progress: impl Fn(f64)) -> Result<Figures, FlowTableError> {
    check(workload)?;
    let mut bench = Bench::new(workload)?;
    bench.fill(|share| progress(share * 0.6))?;
    let done = |round: u32| progress(0.6 + 0.2 * f64::from(round) / f64::from(workload.rounds));
    let mut create = f64::MAX;
    // First, because counting packets keeps flows alive.
    for round in 0..workload.rounds {
        create = create.min(bench.pace()?);
        done(round);
    }
    let [mut hits, mut counted, mut misses] =
        [Timed::new(bench.hits()), Timed::new(bench.hits()), Timed::new(bench.misses())];
    for round in 0..workload.rounds {
        bench.lookup(&mut hits, false);
        bench.lookup(&mut counted, true);
        bench.lookup(&mut misses, false);
        done(workload.rounds + round);
    }
    Ok(Figures {
        cycles_per_lookup: hits.cycles(),
        cycles_per_lookup_and_count: counted.cycles(),
        cycles_per_miss: misses.cycles(),
        creates_per_second: clock::tsc_hz() as f64 / create,
        cycles_per_create: create,
        bytes_per_flow: bench.table.bytes() as f64 / f64::from(bench.capacity),
        flows: workload.flows,
        family: if workload.is_ip6 { "ip6" } else { "ip4" },
        translated: workload.is_translated,
        kernel: crate::table::name(bench.reader.kernel()),
        tsc_hz: clock::tsc_hz(),
    })
}

fn check(workload: &Workload) -> Result<(), FlowTableError> {
    if !(1..=FLOWS_MAX).contains(&workload.flows) {
        let reason = format!("{} flows: give 1 to {FLOWS_MAX}", workload.flows);
        return Err(FlowTableError::Range(reason));
    }
    if !(1..=100).contains(&workload.rounds) {
        return Err(FlowTableError::Range(format!("{} rounds: give 1 to 100", workload.rounds)));
    }
    if !(LOOKUPS_MIN..=LOOKUPS_MAX).contains(&workload.lookups) {
        let reason = format!("{} look-ups: give {LOOKUPS_MIN} to {LOOKUPS_MAX}", workload.lookups);
        return Err(FlowTableError::Range(reason));
    }
    Ok(())
}

/// A table with one worker.
struct Bench {
    workload: Workload,
    table: FlowTable,
    owner: FlowOwner,
    reader: FlowReader,
    random: Random,
    timeouts: [u32; 256],
    capacity: u32,
    per_tick: u32,
    now: u32,
    /// Keys of the flows of the next tick.
    next: Vec<(FlowKey, Option<FlowKey>)>,
    packets: Packets,
}

impl Bench {
    fn new(workload: &Workload) -> Result<Self, FlowTableError> {
        let per_tick = workload.flows.div_ceil(TICKS).max(TICK_LEAST.min(workload.flows));
        let ticks = workload.flows.div_ceil(per_tick);
        let mut timeouts = [u32::MAX; 256];
        for (class, timeout) in (0..CLASSES).zip(&mut timeouts) {
            // From half the mean to one and a half.
            *timeout = (ticks * (2 * class + CLASSES + 1)).div_ceil(2 * CLASSES).max(1);
        }
        // Flows vary by chance, and removed ones wait.
        let capacity = workload.flows + workload.flows / 50 + 4 * per_tick;
        let mut all = FlowCapacity::default();
        let of_kind = match (workload.is_ip6, workload.is_translated) {
            (false, false) => &mut all.ip4,
            (false, true) => &mut all.translated_ip4,
            (true, false) => &mut all.ip6,
            (true, true) => &mut all.translated_ip6,
        };
        *of_kind = capacity;
        let mut random = Random::new(11);
        let secret = Secret(std::array::from_fn(|_| random.next() as u8));
        let mut table = FlowTable::new(&all, &secret)?;
        for region in table.regions() {
            heap::prefer_huge_pages(region.start, region.bytes);
        }
        // No other owner has the number.
        let owner = table.owner(0, 0).ok_or(FlowError::Contended)?;
        let reader = table.reader();
        let reader = reader.clone().with_kernel(workload.kernel).unwrap_or(reader);
        let workload = *workload;
        let (next, packets) = (Vec::new(), Packets::default());
        let now = 0;
        Ok(Self {
            workload,
            table,
            owner,
            reader,
            random,
            timeouts,
            capacity,
            per_tick,
            now,
            next,
            packets,
        })
    }

    /// Runs until as many flows end as begin.
    fn fill(&mut self, progress: impl Fn(f64)) -> Result<(), FlowTableError> {
        let ticks = 2 * self.workload.flows.div_ceil(self.per_tick) + 16;
        for tick in 0..ticks {
            self.prepare();
            self.tick()?;
            if tick.is_multiple_of(16) {
                progress(f64::from(tick) / f64::from(ticks));
            }
        }
        Ok(())
    }

    /// Chooses the flows of the next tick.
    fn prepare(&mut self) {
        let Self { next, random, workload, per_tick, .. } = self;
        next.clear();
        next.extend(
            (0..*per_tick).map(|_| keys::flow(random, workload.is_ip6, workload.is_translated)),
        );
        self.packets.clear();
        self.next.iter().for_each(|(key, _)| self.packets.push(key));
    }

    /// One tick: collects what has ended, and creates the prepared flows.
    fn tick(&mut self) -> Result<(), FlowTableError> {
        self.now += 1;
        let epoch = u64::from(self.now);
        self.owner.reclaim(epoch - 1);
        while self.owner.expire(self.now, &self.timeouts, VECTOR, |flow| {
            black_box(flow.id());
        }) {}
        let mut found = [Match::NONE; VECTOR];
        for (at, flows) in self.next.chunks(VECTOR).enumerate() {
            self.packets.look_up(&self.reader, at * VECTOR, &mut found);
            for ((key, reply_key), number) in flows.iter().zip(0..) {
                let class = (number % CLASSES) as u8;
                let flow = NewFlow { class, ..NewFlow::new(*key, *reply_key) };
                let look = self.now + self.timeouts[usize::from(class)];
                match self.owner.create(&flow, self.now, look) {
                    // By chance, or two prepared ones are the same.
                    Ok(Created::New(_) | Created::Existing(_)) | Err(FlowError::ReplyKeyTaken) => {}
                    Err(refused) => return Err(refused.into()),
                }
            }
        }
        self.owner.retire_mark(epoch);
        Ok(())
    }

    /// Cycles of creating and collecting one flow, of the least disturbed of some samples.
    fn pace(&mut self) -> Result<f64, FlowTableError> {
        let mut best = f64::MAX;
        for _ in 0..(self.workload.lookups / LOOKUPS_PER_SAMPLE).max(1) {
            let (mut cycles, mut changed) = (0, 0);
            for _ in 0..SAMPLE.div_ceil(self.per_tick) {
                self.prepare();
                let before = self.owner.live();
                let begin = clock::tsc();
                self.tick()?;
                cycles += clock::tsc() - begin;
                // Twice the created ones, and those by which the collected ones were more.
                changed +=
                    i64::from(2 * self.per_tick) + i64::from(before) - i64::from(self.owner.live());
            }
            best = best.min(2.0 * cycles as f64 / changed as f64);
        }
        Ok(best)
    }

    /// Packets of live flows, chosen at random.
    fn hits(&mut self) -> Packets {
        let live: Vec<u32> =
            (0..self.capacity).filter(|id| self.reader.entry(*id).is_live()).collect();
        let mut packets = Packets::default();
        for _ in 0..self.count() {
            let entry = self.reader.entry(live[self.random.below(live.len())]);
            let is_reply = self.random.next().is_multiple_of(2);
            // Columns hold one family: the replies of NAT64 are of the other one.
            let is_reply = is_reply && !(self.workload.is_ip6 && self.workload.is_translated);
            packets.push(&if is_reply { entry.reply_key() } else { entry.key() });
        }
        packets
    }

    /// Packets without a flow.
    fn misses(&mut self) -> Packets {
        let mut packets = Packets::default();
        for _ in 0..self.count() {
            packets.push(&keys::flow(&mut self.random, self.workload.is_ip6, false).0.reversed());
        }
        packets
    }

    fn count(&self) -> usize {
        (self.workload.flows as usize).next_power_of_two().clamp(PACKETS[0], PACKETS[1])
    }

    /// Looks up packets.
    fn lookup(&self, timed: &mut Timed, is_counted: bool) {
        let passes = (self.workload.lookups as usize / timed.packets.len()).max(2);
        let mut found = [Match::NONE; VECTOR];
        for pass in 0..passes {
            let now = self.now + pass as u32 % 2;
            for (part, best) in timed.best.iter_mut().enumerate() {
                let begin = clock::tsc();
                for at in (part * PART..(part + 1) * PART).step_by(VECTOR) {
                    timed.packets.look_up(&self.reader, at, &mut found);
                    black_box(&found);
                    if is_counted {
                        count(&self.owner, &found, now);
                    }
                }
                *best = (*best).min(clock::tsc() - begin);
            }
        }
    }
}

/// Packets, and the cycles of the least disturbed pass over each part of them.
struct Timed {
    packets: Packets,
    best: Vec<u64>,
}

impl Timed {
    fn new(packets: Packets) -> Self {
        let parts = packets.len() / PART;
        Self { packets, best: vec![u64::MAX; parts] }
    }

    /// Of one packet.
    fn cycles(&self) -> f64 {
        self.best.iter().sum::<u64>() as f64 / (self.best.len() * PART) as f64
    }
}

/// What each packet of a flow stores.
fn count(owner: &FlowOwner, found: &[Match], now: u32) {
    for found in found {
        if let Some(id) = found.id() {
            let entry = owner.entry(id);
            entry.refresh(now);
            entry.count(found.direction(), 1, 64);
        }
    }
}
