//! What to send when, and what becomes of each request: without sockets or clocks. Times are microseconds since the
//! start.

use std::collections::BTreeMap;

use stoa_api::v1;
use tonic::Status;

use super::packet::DEFAULT_TTL;

/// Most data bytes of a request: the longest jumbo frame, without its headers.
const SIZE_MAX: u32 = 9000;
/// Shortest interval between requests.
const INTERVAL_MIN_MS: u32 = 10;
/// Longest interval and longest wait for an answer.
const WAIT_MAX_MS: u32 = 60_000;

/// How a series runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Requests, or requests to each hop.
    pub(super) count: u16,
    /// TTL of the requests, or the largest one of a trace.
    pub(super) ttl: u8,
    pub(super) interval_us: u64,
    pub(super) timeout_us: u64,
    /// Starts with a TTL of 1 and adds 1 when all requests with the former TTL have their result.
    pub(super) is_trace: bool,
}

/// Checks the numbers of a request. Returns the plan and the data bytes of each request.
pub(super) fn plan(request: &v1::ProbeRequest) -> Result<(Plan, usize), Status> {
    let or = |value: u32, usual: u32| if value == 0 { usual } else { value };
    let is_trace = request.is_trace;
    let count = or(request.count, if is_trace { 3 } else { 5 });
    let ttl = or(request.ttl, if is_trace { 30 } else { DEFAULT_TTL.into() });
    let interval_ms = or(request.interval_ms, 1000);
    let timeout_ms = or(request.timeout_ms, 2000);
    let size = request.size.unwrap_or(56);
    let ranges = [
        ("count", count, 1, if is_trace { 10 } else { u16::MAX.into() }),
        ("ttl", ttl, 1, u8::MAX.into()),
        ("size", size, 0, SIZE_MAX),
        ("interval in milliseconds", interval_ms, INTERVAL_MIN_MS, WAIT_MAX_MS),
        ("timeout in milliseconds", timeout_ms, 1, WAIT_MAX_MS),
    ];
    for (name, value, least, most) in ranges {
        if !(least..=most).contains(&value) {
            return Err(Status::invalid_argument(format!(
                "{name} {value} is out of range: choose {least} to {most}"
            )));
        }
    }
    let us = |ms: u32| u64::from(ms) * 1000;
    let plan = Plan {
        count: count as u16,
        ttl: ttl as u8,
        interval_us: us(interval_ms),
        timeout_us: us(timeout_ms),
        is_trace,
    };
    Ok((plan, size as usize))
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Send this request now.
    Send {
        /// From 1.
        sequence: u16,
        ttl: u8,
    },
    /// Wait for answers until then.
    WaitUntil(u64),
    /// All requests have their results.
    Done,
}

/// A request without an answer so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outstanding {
    pub(super) ttl: u8,
    /// By the forwarder's clock, since 1970.
    pub(super) sent_unix_us: u64,
    deadline_us: u64,
}

/// The progress of a series.
#[derive(Debug)]
pub(super) struct Series {
    plan: Plan,
    /// Requests so far.
    sent: u16,
    /// TTL of the next request.
    ttl: u8,
    /// Requests of this TTL that are still to be sent.
    left: u16,
    /// Earliest time of the next request.
    due_us: u64,
    outstanding: BTreeMap<u16, Outstanding>,
    /// A trace has arrived.
    is_at_end: bool,
}

impl Series {
    pub(super) fn new(plan: Plan) -> Series {
        let ttl = if plan.is_trace { 1 } else { plan.ttl };
        let outstanding = BTreeMap::new();
        Series { plan, sent: 0, ttl, left: plan.count, due_us: 0, outstanding, is_at_end: false }
    }

    /// What to do at `now_us`. Requests without an answer in time must have been taken by [`Self::expired`] before.
    pub(super) fn step(&mut self, now_us: u64) -> Step {
        if self.left == 0 && self.outstanding.is_empty() && self.goes_on() {
            (self.ttl, self.left) = (self.ttl + 1, self.plan.count);
        }
        let deadline = self.outstanding.values().map(|it| it.deadline_us).min();
        if self.left == 0 || self.sent == u16::MAX {
            return deadline.map_or(Step::Done, Step::WaitUntil);
        }
        if now_us < self.due_us {
            return Step::WaitUntil(deadline.unwrap_or(u64::MAX).min(self.due_us));
        }
        Step::Send { sequence: self.sent + 1, ttl: self.ttl }
    }

    fn goes_on(&self) -> bool {
        self.plan.is_trace && !self.is_at_end && self.ttl < self.plan.ttl
    }

    /// The request that [`Self::step`] named was sent at `now_us`, or refused if `sent_unix_us` is `None`.
    pub(super) fn sent(&mut self, now_us: u64, sent_unix_us: Option<u64>) {
        (self.sent, self.left) = (self.sent + 1, self.left - 1);
        // The requests to a hop go out together.
        self.due_us = if self.plan.is_trace { now_us } else { now_us + self.plan.interval_us };
        if let Some(sent_unix_us) = sent_unix_us {
            let deadline_us = now_us + self.plan.timeout_us;
            let outstanding = Outstanding { ttl: self.ttl, sent_unix_us, deadline_us };
            self.outstanding.insert(self.sent, outstanding);
        }
    }

    /// The request that an answer belongs to; `None`: it has one already, or was never sent. `is_final`: the
    /// destination replied, or an error says that it cannot be reached.
    pub(super) fn answered(&mut self, sequence: u16, is_final: bool) -> Option<Outstanding> {
        let outstanding = self.outstanding.remove(&sequence)?;
        self.is_at_end |= is_final;
        Some(outstanding)
    }

    /// The requests without an answer in time: sequence and TTL.
    pub(super) fn expired(&mut self, now_us: u64) -> Vec<(u16, u8)> {
        let is_late = |outstanding: &Outstanding| outstanding.deadline_us <= now_us;
        let late = self.outstanding.iter().filter(|(_, it)| is_late(it));
        let late: Vec<(u16, u8)> = late.map(|(sequence, it)| (*sequence, it.ttl)).collect();
        self.outstanding.retain(|_, it| !is_late(it));
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: Plan =
        Plan { count: 2, ttl: 64, interval_us: 1000, timeout_us: 2500, is_trace: false };

    #[test]
    fn numbers_out_of_range_are_refused_with_the_range() {
        let refused = |request: v1::ProbeRequest| plan(&request).unwrap_err().message().to_owned();
        let all = v1::ProbeRequest::default;
        assert!(refused(v1::ProbeRequest { size: Some(9001), ..all() }).contains("0 to 9000"));
        assert!(refused(v1::ProbeRequest { interval_ms: 9, ..all() }).contains("10 to 60000"));
        assert!(refused(v1::ProbeRequest { ttl: 256, ..all() }).contains("1 to 255"));
        let trace = v1::ProbeRequest { count: 11, is_trace: true, ..all() };
        assert!(refused(trace).contains("1 to 10"));
        let (plan, size) = plan(&all()).unwrap();
        assert_eq!((plan.count, plan.ttl, plan.timeout_us, size), (5, 64, 2_000_000, 56));
    }

    #[test]
    fn a_ping_sends_at_its_interval_and_waits_for_the_last_answer() {
        let mut series = Series::new(PING);
        assert_eq!(series.step(0), Step::Send { sequence: 1, ttl: 64 });
        series.sent(0, Some(7));
        assert_eq!(series.step(0), Step::WaitUntil(1000));
        assert_eq!(series.answered(1, true).map(|it| (it.ttl, it.sent_unix_us)), Some((64, 7)));
        assert_eq!(series.answered(1, true), None, "a duplicate");
        assert_eq!(series.step(1000), Step::Send { sequence: 2, ttl: 64 });
        series.sent(1010, Some(8));
        assert_eq!(series.step(1010), Step::WaitUntil(3510));
        assert_eq!(series.expired(3509), []);
        assert_eq!(series.expired(3510), [(2, 64)]);
        assert_eq!(series.step(3510), Step::Done);
        assert_eq!(series.answered(2, true), None, "too late");
    }

    #[test]
    fn a_refused_request_is_not_waited_for() {
        let mut series = Series::new(Plan { count: 1, ..PING });
        series.step(0);
        series.sent(0, None);
        assert_eq!(series.step(0), Step::Done);
    }

    #[test]
    fn a_trace_goes_hop_by_hop_to_the_destination() {
        let mut series = Series::new(Plan { ttl: 5, is_trace: true, ..PING });
        for (hop, is_final) in [(1, false), (2, true)] {
            for number in 1..=2 {
                let sequence = (hop - 1) * 2 + number;
                let expected = Step::Send { sequence, ttl: hop as u8 };
                assert_eq!(series.step(10), expected);
                series.sent(10, Some(0));
            }
            assert_eq!(series.step(10), Step::WaitUntil(2510));
            series.answered(hop * 2 - 1, is_final);
            assert_eq!(series.step(10), Step::WaitUntil(2510), "one is outstanding");
            series.answered(hop * 2, false);
        }
        assert_eq!(series.step(10), Step::Done);
    }

    #[test]
    fn a_trace_into_silence_ends() {
        let mut series = Series::new(Plan { count: 1, ttl: 3, is_trace: true, ..PING });
        let (mut now, mut late) = (0, vec![]);
        loop {
            late.extend(series.expired(now));
            match series.step(now) {
                Step::Send { .. } => series.sent(now, Some(0)),
                Step::WaitUntil(until) => now = until,
                Step::Done => break,
            }
        }
        assert_eq!((late, now), (vec![(1, 1), (2, 2), (3, 3)], 7500));
    }
}
