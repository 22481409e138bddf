//! `stoa ping`: echo requests from the router's own addresses, through its own routes.

use std::process::ExitCode;

use serde_json::json;
use stoa_api::text::ip_text;
use stoa_api::v1::{ProbeResult, ProbeStarted, ProbeState};

use crate::failure::Outcome;
use crate::operator::block_on;
use crate::probe::{self, Options, Results, milliseconds, seconds, time};
use crate::show;

/// Send echo requests from the router's addresses, through its own interfaces and routes
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa ping 192.0.2.1
  stoa ping 2001:db8::1 --count 100 --interval 0.1
  stoa ping 192.0.2.1 --source 10.0.0.1 --vrf red
  stoa ping 192.0.2.1 --size 1472 --df       Whether packets of 1,500 bytes get through
  stoa ping fe80::1%eth0

Ctrl-C ends it. The exit code is 0 if the destination replied. Round-trip times are those between
the request and the answer in the forwarder.")]
pub struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Number of requests
    #[arg(long, short = 'c', value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=65_535))]
    count: u32,
    /// Time between requests
    #[arg(long, short = 'i', value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// Time to live of the requests
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=255))]
    ttl: u32,
}

/// Prints results as they arrive, and a summary.
pub fn execute(arguments: Arguments) -> Outcome {
    let (destination, mut request) = arguments.options.request()?;
    request.count = arguments.count;
    request.ttl = arguments.ttl;
    request.interval_ms = milliseconds(arguments.interval);
    let is_json = arguments.options.json;
    block_on(async {
        let (started, mut results) = Results::start(&arguments.options.socket, request).await?;
        if !is_json {
            let ProbeStarted { source, interface, size, .. } = &started;
            show::print(&format!(
                "Ping {destination} from {} ({interface}), {size} data bytes",
                ip_text(source)
            ))?;
        }
        let mut all = vec![];
        while let Some(result) = results.next().await? {
            if !is_json {
                show::print(&line(&result, started.timeout_ms))?;
            }
            all.push(result);
        }
        let summary = Summary::of(&all);
        if is_json {
            let results: Vec<_> = all.iter().map(probe::json).collect();
            let source = ip_text(&started.source);
            show::print(
                &json!({
                    "destination": destination.to_string(), "source": source,
                    "interface": started.interface, "sent": summary.sent,
                    "received": summary.received, "results": results,
                })
                .to_string(),
            )?;
        } else {
            show::print(&format!("\n{}", summary.text()))?;
        }
        Ok(if summary.received > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// A result as a line.
fn line(result: &ProbeResult, timeout_ms: u32) -> String {
    let ProbeResult { sequence, from, size, answer_ttl, rtt_us, reason, .. } = result;
    let from = ip_text(from);
    match result.state() {
        ProbeState::ProbeReply => format!(
            "{size} bytes from {from}: seq={sequence} ttl={answer_ttl} time={}",
            time(*rtt_us)
        ),
        ProbeState::ProbeError => format!("from {from}: seq={sequence} {reason}"),
        ProbeState::ProbeTimeout => {
            format!("seq={sequence} no answer within {} s", f64::from(timeout_ms) / 1000.0)
        }
        ProbeState::ProbeRefused => format!("seq={sequence} not sent: {reason}"),
    }
}

/// The counts and times of a series.
#[derive(Debug, PartialEq, Eq)]
struct Summary {
    sent: usize,
    received: usize,
    /// Least, mean and largest time of replies, in microseconds.
    times: Option<(u32, u32, u32)>,
}

impl Summary {
    fn of(results: &[ProbeResult]) -> Summary {
        let of = |state| results.iter().filter(move |result| result.state() == state);
        let times: Vec<u32> = of(ProbeState::ProbeReply).map(|result| result.rtt_us).collect();
        let sum: u64 = times.iter().map(|us| u64::from(*us)).sum();
        let mean = sum.checked_div(times.len() as u64).unwrap_or(0) as u32;
        Summary {
            sent: results.len() - of(ProbeState::ProbeRefused).count(),
            received: times.len(),
            times: times.iter().min().zip(times.iter().max()).map(|(min, max)| (*min, mean, *max)),
        }
    }

    fn text(&self) -> String {
        let Summary { sent, received, times } = self;
        let lost = (sent - received) * 100 / sent.max(&1);
        let counts = format!("{sent} sent, {received} received, {lost} % lost");
        match times {
            Some((min, mean, max)) => format!(
                "{counts}; round trip min/avg/max {}/{}/{}",
                time(*min).trim_end_matches(" ms"),
                time(*mean).trim_end_matches(" ms"),
                time(*max)
            ),
            None => counts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(state: ProbeState, rtt_us: u32) -> ProbeResult {
        ProbeResult {
            sequence: 2,
            from: vec![192, 0, 2, 1],
            size: 64,
            answer_ttl: 63,
            rtt_us,
            reason: "why".into(),
            state: state.into(),
            ..Default::default()
        }
    }

    #[test]
    fn results_are_lines_and_a_summary() {
        let all = [
            result(ProbeState::ProbeReply, 412),
            result(ProbeState::ProbeReply, 1_200),
            result(ProbeState::ProbeTimeout, 0),
            result(ProbeState::ProbeRefused, 0),
            result(ProbeState::ProbeError, 9),
        ];
        let lines: Vec<String> = all.iter().map(|result| line(result, 2000)).collect();
        let expected = [
            "64 bytes from 192.0.2.1: seq=2 ttl=63 time=0.412 ms",
            "64 bytes from 192.0.2.1: seq=2 ttl=63 time=1.200 ms",
            "seq=2 no answer within 2 s",
            "seq=2 not sent: why",
            "from 192.0.2.1: seq=2 why",
        ];
        assert_eq!(lines, expected);
        let text = Summary::of(&all).text();
        let expected = "4 sent, 2 received, 50 % lost; round trip min/avg/max 0.412/0.806/1.200 ms";
        assert_eq!(text, expected);
        assert_eq!(Summary::of(&all[3..4]).text(), "0 sent, 0 received, 0 % lost");
    }
}
