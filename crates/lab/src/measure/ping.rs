//! `ping`: replies and their mean round-trip time.

use std::net::IpAddr;
use std::time::Duration;

use crate::{Host, LabError, Result, Tool};

/// Result of a series of pings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pings {
    /// Requests sent.
    pub sent: u32,
    /// Replies received.
    pub received: u32,
    /// Mean round-trip time in milliseconds; 0 without replies.
    pub mean_ms: f64,
}

impl Pings {
    /// Whether every request got a reply.
    #[must_use]
    pub fn all(&self) -> bool {
        self.sent > 0 && self.sent == self.received
    }
}

/// Sends `count` echo requests from `host`, five a second; `more` are further arguments of ping.
///
/// # Errors
///
/// ping is missing or its output cannot be parsed. Lost packets are no error.
pub fn ping(host: &Host, to: IpAddr, count: u32, more: &[&str]) -> Result<Pings> {
    let (count_text, address) = (count.to_string(), to.to_string());
    let output = host
        .command(Tool::PING)?
        .args(["-n", "-q", "-c", &count_text, "-i", "0.2", "-W", "2"])
        .args(more)
        .args([&address])
        .deadline(Duration::from_secs(u64::from(count)) + Duration::from_secs(10))
        .run()?;
    read(&output.stdout).ok_or_else(|| LabError::ParseFailed {
        what: output.command.clone(),
        reason: crate::error::last_lines(&format!("{}\n{}", output.stdout, output.stderr), 3),
    })
}

fn read(text: &str) -> Option<Pings> {
    let summary = text.lines().find(|line| line.contains("packets transmitted"))?;
    let mut parts = summary.split(',');
    let mut number = || parts.next()?.split_whitespace().next()?.parse().ok();
    let (sent, received) = (number()?, number()?);
    let times = text.lines().find_map(|line| line.split_once("min/avg/max/mdev = "));
    let mean = times.and_then(|(_, times)| times.split('/').nth(1)?.parse().ok());
    Some(Pings { sent, received, mean_ms: mean.unwrap_or(0.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_ping_output() {
        let good = "--- 198.18.2.2 ping statistics ---\n\
            5 packets transmitted, 4 received, 20% packet loss, time 804ms\n\
            rtt min/avg/max/mdev = 0.051/0.062/0.081/0.010 ms\n";
        assert_eq!(read(good), Some(Pings { sent: 5, received: 4, mean_ms: 0.062 }));
        let none = "2 packets transmitted, 0 received, +2 errors, 100% packet loss, time 1ms\n";
        assert_eq!(read(none), Some(Pings { sent: 2, received: 0, mean_ms: 0.0 }));
        assert_eq!(read("ping: unknown host"), None);
    }
}
