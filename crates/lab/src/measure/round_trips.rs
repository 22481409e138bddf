//! Many single pings: the distribution of round-trip times.

use std::net::IpAddr;
use std::time::Duration;

use serde::Serialize;

use crate::error::last_lines;
use crate::{Host, LabError, Result, Tool};

/// Seconds between two requests; only root may send as often.
const INTERVAL: f64 = 0.005;

/// Round-trip times of a series of pings, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RoundTrips {
    /// Requests sent.
    pub sent: u32,
    /// Replies received.
    pub received: u32,
    /// Median.
    pub median_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Maximum.
    pub max_us: f64,
}

/// Sends `count` echo requests from `host`, 200 a second.
///
/// # Errors
///
/// ping is missing, or no reply arrived.
pub fn round_trips(host: &Host, to: IpAddr, count: u32) -> Result<RoundTrips> {
    let (interval, count_text, to) = (INTERVAL.to_string(), count.to_string(), to.to_string());
    let lasts = Duration::from_secs_f64(INTERVAL * f64::from(count));
    let output = host
        .command(Tool::PING)?
        .args(["-n", "-c", &count_text, "-i", &interval, "-W", "1", &to])
        // On a busy machine ping itself is scheduled late, and all its requests with it.
        .deadline(lasts * 10 + Duration::from_secs(30))
        .run()?;
    read(&output.stdout, count).ok_or_else(|| LabError::ParseFailed {
        what: output.command.clone(),
        reason: last_lines(&format!("{}\n{}", output.stdout, output.stderr), 3),
    })
}

fn read(text: &str, sent: u32) -> Option<RoundTrips> {
    let time = |line: &str| -> Option<f64> {
        let (_, after) = line.split_once(" time=")?;
        after.split_whitespace().next()?.parse().ok()
    };
    let mut times: Vec<f64> = text.lines().filter_map(time).map(|ms| ms * 1e3).collect();
    times.sort_by(f64::total_cmp);
    let at = |part: usize| times.get((times.len() * part).div_ceil(100).max(1) - 1).copied();
    Some(RoundTrips {
        sent,
        received: u32::try_from(times.len()).ok()?,
        median_us: at(50)?,
        p99_us: at(99)?,
        max_us: at(100)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_round_trip_times() {
        let line =
            |ms: u32| format!("64 bytes from 198.18.2.2: icmp_seq=1 ttl=63 time=0.{ms:03} ms");
        let text: Vec<String> = (1..=200).rev().map(line).collect();
        let show_output = read(&text.join("\n"), 201).expect("it is whole");
        assert_eq!((show_output.sent, show_output.received), (201, 200));
        assert_eq!(
            (show_output.median_us, show_output.p99_us, show_output.max_us),
            (100.0, 198.0, 200.0)
        );
        assert_eq!(read("no answer\n", 1), None);
    }
}
