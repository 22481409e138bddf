//! One run: assembles the halves, monitors them, and collects their results.

use std::sync::atomic::Ordering;
use std::time::Duration;

use stoa_engine::clock;

use super::port_handle::PortIo;
use super::threads::{self, Shared, Team};
use super::{Load, Moment, RunError, Session, Watch};
use crate::analyse::{Expected, Receiver};
use crate::clock::Clock;
use crate::generate::{Pace, Sender, StreamConfig, TxStream};
use crate::progress::Counts;
use crate::results::{Cause, Fault, Results, Sample, gbps};
use crate::signature::{Key, UNIT_NS};

/// Seconds from starting the threads to the first packet.
const LEAD: f64 = 0.02;
/// The shortest interval between two samples, in seconds.
const SAMPLE: f64 = 0.1;
/// The most samples of a run.
const SAMPLES: f64 = 600.0;
/// How often the control side of the ports runs.
const ATTEND: Duration = Duration::from_millis(10);

/// Parameters of a run.
pub(super) struct RunParameters {
    pub(super) clock: Clock,
    pub(super) key: Key,
    /// Start of the transmit span, by the time stamp counter.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) seconds: f64,
    /// By stream.
    pub(super) rates: Vec<Option<f64>>,
    pub(super) counts: Vec<Option<u64>>,
}

/// What happened during a run.
#[derive(Default)]
pub(super) struct RunLog {
    pub(super) samples: Vec<Sample>,
    pub(super) faults: Vec<Fault>,
}

impl Session {
    pub(super) fn trial(&mut self, load: &Load, watch: Watch<'_>) -> Result<Results, RunError> {
        threads::check_cpus(&self.plan.cpus)?;
        let parameters = self.parameters(load)?;
        let started = std::time::SystemTime::now();
        let (senders, receivers) = self.halves(&parameters)?;
        let teams = threads::teams(self.plan.threads, senders, receivers);
        let shared = Shared::new(self.plan.streams.len(), parameters.clock.hz(), teams.len());
        let cpus = self.plan.cpus.clone();
        let (run_log, teams) = std::thread::scope(|scope| {
            let handles = threads::start(scope, teams, &cpus, &shared)?;
            let run_log = self.follow(&parameters, &shared, watch);
            shared.stop.store(true, Ordering::Relaxed);
            let teams: Vec<_> =
                handles.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            Ok::<_, RunError>((run_log, teams))
        })?;
        let teams: Result<Vec<Team>, _> = teams.into_iter().collect();
        let teams =
            teams.map_err(|_| RunError::Thread("panicked; report this as a bug".to_owned()))?;
        let started = started.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(self.gather(&parameters, run_log, teams, started))
    }

    fn parameters(&self, load: &Load) -> Result<RunParameters, RunError> {
        let clock = Clock::start();
        let seconds = load.seconds.unwrap_or(self.plan.seconds);
        let start = clock::tsc() + clock.ticks(LEAD);
        let mut rates = Vec::new();
        for stream in &self.plan.streams {
            let rate = stream.packets(load.rate.unwrap_or(stream.rate), &self.plan.ports);
            let error = |reason| RunError::Stream { stream: stream.name.clone(), reason };
            rates.push(rate.map_err(error)?);
        }
        let counts = self.plan.streams.iter().map(|stream| load.count.or(stream.count)).collect();
        let key = Key::of_run(self.run);
        let end = start + clock.ticks(seconds);
        Ok(RunParameters { clock, key, start, end, seconds, rates, counts })
    }

    /// The transmit halves of each port, one for each queue, and its receive half, in port order.
    fn halves(
        &mut self,
        parameters: &RunParameters,
    ) -> Result<(Vec<Vec<Sender>>, Vec<Receiver>), RunError> {
        let mut streams = self.streams(parameters)?;
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for (at, handle) in self.handles.iter_mut().enumerate() {
            // The port is up: the session waited for it.
            let Some(PortIo { queues, responder, answers }) = handle.io.take() else {
                return Err(
                    handle.error("the link went down; check the cable or peer and run again")
                );
            };
            if queues.tx.is_empty() {
                return Err(handle.error("the port has no queue to send by"));
            }
            let ours = (parameters.key, parameters.clock, (parameters.start, parameters.end));
            let shares = distribute(std::mem::take(&mut streams[at]), queues.tx.len());
            let mut answers = Some(answers);
            let of_queue =
                |(queue, share)| Sender::new((at, queue), share, answers.take(), ours, self.pool);
            senders.push(queues.tx.into_iter().zip(shares).map(of_queue).collect());
            let plan = self.plan.streams.iter().zip(&parameters.rates);
            let expected = plan.map(|(stream, rate)| Expected {
                is_ours: stream.to == at,
                is_replay: stream.replay.is_some(),
                rate: *rate,
            });
            let ours = (parameters.key, parameters.clock, parameters.start);
            receivers.push(Receiver::new(
                (at, queues.rx),
                expected.collect(),
                responder,
                ours,
                self.pool,
            ));
        }
        Ok((senders, receivers))
    }

    /// The streams of each port.
    fn streams(&self, parameters: &RunParameters) -> Result<Vec<Vec<TxStream>>, RunError> {
        let mut streams: Vec<Vec<TxStream>> = self.handles.iter().map(|_| Vec::new()).collect();
        // Zero marks an empty buffer.
        let mut first_mark = 1;
        for (at, plan) in self.plan.streams.iter().enumerate() {
            let (rate, count) = (parameters.rates[at], parameters.counts[at].unwrap_or(u64::MAX));
            let config = StreamConfig {
                id: at as u16,
                shapes: &plan.shapes,
                order: &plan.order,
                fields: &plan.fields,
                rate,
                pace: Pace::new(rate, parameters.clock.hz(), parameters.start, plan.burst.into()),
                count,
                first_mark,
                replay: plan.replay.as_ref().map(|replay| replay.frames.clone()),
            };
            first_mark += plan.shapes.len() as u32;
            let stream = TxStream::new(config, &parameters.key).map_err(|error| {
                RunError::Stream { stream: plan.name.clone(), reason: error.to_string() }
            })?;
            streams[plan.from].push(stream);
        }
        Ok(streams)
    }

    /// Monitors a run until all packets have arrived or the time is over.
    fn follow(&mut self, parameters: &RunParameters, shared: &Shared, watch: Watch<'_>) -> RunLog {
        let mut run_log = RunLog::default();
        let interval = (parameters.seconds / SAMPLES).max(SAMPLE);
        let all = parameters
            .counts
            .iter()
            .try_fold(0_u64, |sum, count| Some(sum.saturating_add((*count)?)));
        let (mut before, mut before_at, mut next) = (Counts::default(), 0.0, interval);
        let mut ended_at = parameters.seconds;
        loop {
            std::thread::sleep(ATTEND);
            let at = parameters.clock.seconds(clock::tsc().saturating_sub(parameters.start));
            for (handle, plan) in self.handles.iter_mut().zip(&self.plan.ports) {
                handle.service();
                if let Some(reason) = handle.down.clone() {
                    let reason = format!("the link of port {} went down: {reason}", plan.name);
                    run_log.faults.push(Fault { cause: Cause::LinkDown, reason });
                    return run_log;
                }
            }
            let total = shared.progress.total();
            if at < ended_at && all.is_some_and(|all| total.sent >= all) {
                ended_at = at;
            }
            let is_over = at >= ended_at + 0.01;
            let is_whole = is_over && total.missing() == 0;
            if at >= next || is_whole {
                let (last, since) = (total.since(&before), at - before_at);
                next = (at / interval).floor() * interval + interval;
                if since > interval / 2.0 {
                    run_log.samples.push(sample(at, &last, since, total.missing()));
                    (before, before_at) = (total, at);
                }
                let of = parameters.seconds;
                if !watch(&Moment { at, of, total, last, since }) {
                    let reason = format!("it was stopped after {at:.1} of {of} s");
                    run_log.faults.push(Fault { cause: Cause::Stopped, reason });
                    return run_log;
                }
            }
            if is_whole || at > ended_at + self.plan.settle {
                return run_log;
            }
        }
    }
}

/// Distributes streams to queues. A stream stays on one queue, which preserves the order of its
/// packets.
fn distribute(streams: Vec<TxStream>, queues: usize) -> Vec<Vec<TxStream>> {
    let mut shares: Vec<Vec<TxStream>> = (0..queues).map(|_| Vec::new()).collect();
    for (at, stream) in streams.into_iter().enumerate() {
        shares[at % queues].push(stream);
    }
    shares
}

fn sample(at: f64, last: &Counts, since: f64, missing: u64) -> Sample {
    Sample {
        at,
        sent_pps: last.sent as f64 / since,
        received_pps: last.received as f64 / since,
        sent_gbps: gbps(last.sent, last.sent_bytes, since),
        received_gbps: gbps(last.received, last.received_bytes, since),
        missing,
        latency: (last.latency_sum * UNIT_NS) as f64 / last.timed.max(1) as f64,
    }
}
