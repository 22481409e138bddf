//! `stoa traceroute`: the routers on the way to a host, by echo requests with a rising TTL.

use std::process::ExitCode;

use serde_json::json;
use stoa_api::text::ip_text;
use stoa_api::v1::{ProbeResult, ProbeState};

use crate::failure::Outcome;
use crate::operator::block_on;
use crate::probe::{self, Options, Results, time};
use crate::show;

/// Show the routers on the way to a host, through the router's own interfaces and routes
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa traceroute 192.0.2.1
  stoa traceroute 2001:db8::1 --source 2001:db8:1::1 --vrf red
  stoa traceroute 192.0.2.1 --hops 5 --count 1

It sends echo requests with a TTL of 1, 2, ... A hop that does not answer in time is shown as \"*\".")]
pub struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Requests to each hop
    #[arg(long, short = 'c', value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10))]
    count: u32,
    /// Most hops
    #[arg(long, short = 'm', value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=255))]
    hops: u32,
}

/// Prints each hop when all its results are there.
pub fn execute(arguments: Arguments) -> Outcome {
    let (destination, mut request) = arguments.options.request()?;
    (request.count, request.ttl, request.is_trace) = (arguments.count, arguments.hops, true);
    let is_json = arguments.options.json;
    block_on(async {
        let (started, mut results) = Results::start(&arguments.options.socket, request).await?;
        if !is_json {
            show::print(&format!(
                "Path to {destination} from {} ({}), at most {} hops",
                ip_text(&started.source),
                started.interface,
                started.ttl
            ))?;
        }
        let (mut all, mut hop) = (vec![], vec![]);
        while let Some(result) = results.next().await? {
            all.push(result.clone());
            hop.push(result);
            if hop.len() as u32 == started.count {
                let hop = std::mem::take(&mut hop);
                if !is_json {
                    show::print(&line(hop))?;
                }
            }
        }
        if !hop.is_empty() && !is_json {
            show::print(&line(hop))?;
        }
        let is_reached = all.iter().any(|result| result.state() == ProbeState::ProbeReply);
        if is_json {
            let results: Vec<_> = all.iter().map(probe::json).collect();
            show::print(
                &json!({
                    "destination": destination.to_string(), "source": ip_text(&started.source),
                    "interface": started.interface, "reached": is_reached, "results": results,
                })
                .to_string(),
            )?;
        }
        Ok(if is_reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// The results of a hop as a line: each router once, before its times.
fn line(mut hop: Vec<ProbeResult>) -> String {
    hop.sort_by_key(|result| result.sequence);
    let mut line = format!("{:>3} ", hop.first().map_or(0, |result| result.ttl));
    let mut last: &[u8] = &[];
    for result in &hop {
        if !result.from.is_empty() && result.from != last {
            line += &format!(" {}", ip_text(&result.from));
            last = &result.from;
        }
        line += &match result.state() {
            ProbeState::ProbeReply => format!("  {}", time(result.rtt_us)),
            // The usual answer on the way.
            ProbeState::ProbeError if result.reason == "time to live exceeded" => {
                format!("  {}", time(result.rtt_us))
            }
            ProbeState::ProbeError => format!("  {} ({})", time(result.rtt_us), result.reason),
            ProbeState::ProbeTimeout => "  *".to_owned(),
            ProbeState::ProbeRefused => format!("  not sent ({})", result.reason),
        };
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_is_a_line_with_each_router_once() {
        let result = |sequence, from: &[u8], state: ProbeState, reason: &str| ProbeResult {
            sequence,
            ttl: 2,
            from: from.to_vec(),
            rtt_us: 1_500,
            reason: reason.into(),
            state: state.into(),
            ..Default::default()
        };
        let hop = vec![
            result(2, &[10, 0, 0, 2], ProbeState::ProbeError, "time to live exceeded"),
            result(1, &[10, 0, 0, 2], ProbeState::ProbeError, "time to live exceeded"),
            result(3, &[10, 0, 0, 3], ProbeState::ProbeError, "host unreachable"),
            result(4, &[], ProbeState::ProbeTimeout, ""),
        ];
        let expected = "  2  10.0.0.2  1.500 ms  1.500 ms 10.0.0.3  1.500 ms (host unreachable)  *";
        assert_eq!(line(hop), expected);
    }
}
