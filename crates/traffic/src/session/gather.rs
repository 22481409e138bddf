//! After a run: merges the results of the senders and receivers, and checks that the run is valid.

use super::Session;
use super::port_handle::PortIo;
use super::threads::Team;
use super::trial::{RunLog, RunParameters};
use crate::analyse::StreamCounters;
use crate::generate::Sent;
use crate::results::{Cause, Fault, Port, Results, Stream};

/// The share of due packets that may be missing from a valid run.
const TOLERANCE: f64 = 0.005;

impl Session {
    /// Collects the results of the threads and returns the queues to the ports.
    pub(super) fn gather(
        &mut self,
        parameters: &RunParameters,
        run_log: RunLog,
        teams: Vec<Team>,
        started: u64,
    ) -> Results {
        let count = self.plan.streams.len();
        let mut sent = vec![Sent::default(); count];
        let mut seen: Vec<Option<Box<StreamCounters>>> = (0..count).map(|_| None).collect();
        let mut stray = vec![0; count];
        let mut ports: Vec<Port> = self
            .handles
            .iter()
            .zip(&self.plan.ports)
            .map(|(handle, plan)| Port {
                name: plan.name.clone(),
                driver: handle.driver().to_owned(),
                detail: handle.detail(),
                missed: handle.missed(),
                ..Port::default()
            })
            .collect();
        let mut last = parameters.start;
        let (senders, receivers): (Vec<_>, Vec<_>) =
            teams.into_iter().map(|team| (team.senders, team.receivers)).unzip();
        let done = senders.into_iter().flatten().map(crate::generate::Sender::finish);
        let mut done: Vec<_> = done.collect();
        let mut receivers: Vec<_> = receivers.into_iter().flatten().collect();
        receivers.sort_by_key(|one| one.port);
        for mut other in receivers {
            let at = other.port;
            let port = &mut ports[at];
            (port.foreign, port.neighbor) = (other.foreign.packets, other.foreign.neighbor);
            for (id, what) in other.seen.iter_mut().enumerate() {
                stray[id] += other.stray[id];
                if let Some(mut what) = what.take() {
                    what.flush_latency();
                    seen[id] = Some(what);
                }
            }
            let mut queues = stoa_engine::Queues { rx: other.queues, tx: Vec::new() };
            let mut answers = None;
            for one in done.extract_if(.., |one| one.port == at) {
                one.sent.iter().for_each(|(id, what)| sent[usize::from(*id)] = *what);
                last = last.max(one.last);
                port.refused += one.refused;
                queues.tx.push(one.queue);
                answers = answers.or(one.answers);
            }
            if let Some(answers) = answers {
                self.handles[at].return_io(PortIo { queues, responder: other.responder, answers });
            }
        }
        let seconds = self.seconds(parameters, last, &sent);
        let streams = self.stream_results(parameters, &sent, &seen, &stray, seconds);
        let total = total(&streams, &sent, &mut seen, seconds);
        let mut faults = run_log.faults;
        check_validity(&streams, &ports, parameters, &mut faults);
        Results {
            tool: "stoa traffic".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started,
            duration_seconds: parameters.seconds,
            seconds,
            valid: faults.is_empty(),
            faults,
            total,
            streams,
            ports,
            samples: run_log.samples,
        }
    }

    /// The transmit time: the whole span, unless all packets were sent earlier.
    fn seconds(&self, parameters: &RunParameters, last: u64, sent: &[Sent]) -> f64 {
        let counted = parameters.counts.iter().zip(sent);
        let is_counted = counted
            .into_iter()
            .all(|(count, sent)| count.is_some_and(|count| sent.packets >= count));
        let until = if is_counted { last } else { last.max(parameters.start) };
        let measured = parameters.clock.seconds(until.saturating_sub(parameters.start));
        // The gap after the last packet is part of the time of a steady stream.
        let is_whole = !is_counted && measured > parameters.seconds * 0.99;
        if is_whole { parameters.seconds } else { measured }
    }

    fn stream_results(
        &self,
        parameters: &RunParameters,
        sent: &[Sent],
        seen: &[Option<Box<StreamCounters>>],
        stray: &[u64],
        seconds: f64,
    ) -> Vec<Stream> {
        let name = |port: usize| self.plan.ports[port].name.clone();
        let streams = self.plan.streams.iter().enumerate().map(|(at, plan)| {
            let mut stream = Stream {
                name: plan.name.clone(),
                from: name(plan.from),
                to: name(plan.to),
                intended_pps: parameters.rates[at],
                stray: stray[at],
                ..Stream::default()
            };
            stream.fill(&sent[at], seen[at].as_deref(), seconds);
            stream
        });
        streams.collect()
    }
}

/// The sum of all streams.
fn total(
    streams: &[Stream],
    sent: &[Sent],
    seen: &mut [Option<Box<StreamCounters>>],
    seconds: f64,
) -> Stream {
    let mut total = Stream { name: "all".to_owned(), ..Stream::default() };
    let mut bytes = (0, 0);
    // Merges into the first histogram; the results of its stream are already computed.
    let mut all: Option<Box<StreamCounters>> = None;
    for ((stream, sent), seen) in streams.iter().zip(sent).zip(seen) {
        total.sent += stream.sent;
        total.received += stream.received;
        // Not the difference of the totals: surplus packets of one stream do not offset the loss of
        // another.
        total.lost += stream.lost;
        total.duplicates += stream.duplicates;
        total.reordered += stream.reordered;
        total.reorder_extent = total.reorder_extent.max(stream.reorder_extent);
        total.stray += stream.stray;
        total.not_taken += stream.not_taken;
        total.late += stream.late;
        bytes.0 += sent.bytes;
        let Some(seen) = seen.take() else { continue };
        bytes.1 += crate::results::unique_bytes(&seen);
        match &mut all {
            Some(all) => all.join(&seen),
            None => all = Some(seen),
        }
    }
    total.latency = all.as_deref().and_then(crate::results::Latency::of);
    let intended: Option<f64> = streams.iter().map(|stream| stream.intended_pps).sum();
    total.intended_pps = intended;
    total.rates(bytes, seconds);
    total
}

/// Adds the reasons why a run is not valid.
fn check_validity(
    streams: &[Stream],
    ports: &[Port],
    parameters: &RunParameters,
    faults: &mut Vec<Fault>,
) {
    for stream in streams {
        let due = stream.sent + stream.late + stream.not_taken;
        let allowed = (due as f64 * TOLERANCE).max(1.0);
        let share = |part: u64| part as f64 * 100.0 / due.max(1) as f64;
        if stream.late as f64 > allowed {
            let reason = format!(
                "stream {}: {:.2} % of its packets could not be made in time: other programs use \
                 the processor, or the rate is more than it can do; give cpus, or a lower rate",
                stream.name,
                share(stream.late)
            );
            faults.push(Fault { cause: Cause::Late, reason });
        }
        if stream.not_taken as f64 > allowed {
            let reason = format!(
                "stream {}: port {} took only {:.0} of {:.0} packets per second",
                stream.name,
                stream.from,
                stream.sent_pps,
                stream.intended_pps.unwrap_or(0.0)
            );
            faults.push(Fault { cause: Cause::NotTaken, reason });
        }
        if due == 0 && parameters.seconds > 0.0 && faults.is_empty() {
            let reason = format!("stream {}: nothing was sent", stream.name);
            faults.push(Fault { cause: Cause::Late, reason });
        }
    }
    for port in ports.iter().filter(|port| port.refused > 0) {
        let reason = format!("port {}: its device refused {} frames", port.name, port.refused);
        faults.push(Fault { cause: Cause::Refused, reason });
    }
}
