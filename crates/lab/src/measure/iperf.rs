//! `iperf3`: throughput.

use std::time::Duration;

use serde_json::Value;

use crate::{Host, LabError, Result, Tool};

/// Timeout for the server to start and for both ends to exit.
const MARGIN: Duration = Duration::from_secs(15);

/// The traffic to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// One TCP connection at full speed.
    Tcp,
    /// UDP datagrams of 1,400 bytes at this rate in bits per second.
    Udp {
        /// Bits per second of payload.
        bits_per_second: u64,
    },
}

/// The received traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Received payload in bits per second.
    pub bits_per_second: f64,
    /// Lost datagrams in percent; 0 for TCP.
    pub lost_percent: f64,
    /// Datagrams in percent that arrived but overflowed the receiver's socket buffer; 0 for TCP.
    pub late_percent: f64,
    /// Retransmitted segments; 0 for UDP.
    pub retransmits: u64,
}

/// Sends from one host to another for `seconds`.
///
/// # Errors
///
/// iperf3 is missing or fails; the error contains its message.
pub fn iperf(from: &Host, to: &Host, six: bool, load: Load, seconds: u32) -> Result<Rate> {
    let before = overflows(to)?;
    let server = to.command(Tool::IPERF3)?.args(["-s", "-1", "--forceflush"]).spawn()?;
    server.wait_for("listening", MARGIN)?;
    let (address, time) = (to.address(six)?.to_string(), seconds.to_string());
    let mut client = from.command(Tool::IPERF3)?.args(["-c", &address, "-t", &time, "--json"]);
    if let Load::Udp { bits_per_second } = load {
        client = client.args(["-u", "-l", "1400", "-b", &bits_per_second.to_string()]);
    }
    let output = client.deadline(Duration::from_secs(u64::from(seconds)) + MARGIN).run()?;
    let late = overflows(to)?.saturating_sub(before);
    read(&output.stdout, load, late)
        .map_err(|reason| LabError::ParseFailed { what: output.command.clone(), reason })
}

/// Datagrams that a host dropped because the receiver's socket buffer was full.
fn overflows(host: &Host) -> Result<u64> {
    let text = host.namespace().enter(|| {
        // By thread: only the thread is in the host's namespace.
        let [four, six] = ["snmp", "snmp6"].map(|name| format!("/proc/thread-self/net/{name}"));
        Ok::<_, std::io::Error>(std::fs::read_to_string(four)? + &std::fs::read_to_string(six)?)
    })?;
    text.map(|text| count(&text)).map_err(|error| LabError::system("read /proc/net/snmp", error))
}

fn count(text: &str) -> u64 {
    let mut rows = text.lines().filter(|line| line.starts_with("Udp:")).map(str::split_whitespace);
    let (names, values) = (rows.next(), rows.next());
    let four = names.into_iter().flatten().zip(values.into_iter().flatten());
    let six = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    four.chain(six)
        .filter(|(name, _)| matches!(*name, "RcvbufErrors" | "Udp6RcvbufErrors"))
        .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .sum()
}

fn read(text: &str, load: Load, late: u64) -> std::result::Result<Rate, String> {
    let report: Value =
        serde_json::from_str(text).map_err(|_| crate::error::last_lines(text, 2))?;
    if let Some(error) = report["error"].as_str() {
        return Err(error.to_owned());
    }
    let end = &report["end"];
    let number = |value: &Value| value.as_f64().ok_or("its output contains no rate");
    if load == Load::Tcp {
        return Ok(Rate {
            bits_per_second: number(&end["sum_received"]["bits_per_second"])?,
            lost_percent: 0.0,
            late_percent: 0.0,
            retransmits: end["sum_sent"]["retransmits"].as_u64().unwrap_or(0),
        });
    }
    let sum = &end["sum"];
    let sent = number(&sum["packets"])?.max(1.0);
    let lost = number(&sum["lost_packets"])?;
    #[allow(clippy::cast_precision_loss, reason = "a share for people")]
    let late = (late as f64).min(lost);
    Ok(Rate {
        // iperf3 reports the sender's rate for UDP.
        bits_per_second: number(&sum["bits_per_second"])? * (1.0 - (lost - late) / sent),
        lost_percent: 100.0 * (lost - late) / sent,
        late_percent: 100.0 * late / sent,
        retransmits: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_iperf3_output() {
        let tcp =
            r#"{"end":{"sum_sent":{"retransmits":3},"sum_received":{"bits_per_second":2.5e9}}}"#;
        let rate = read(tcp, Load::Tcp, 0).expect("it is whole");
        assert_eq!((rate.bits_per_second, rate.retransmits), (2.5e9, 3));
        let udp = r#"{"end":{"sum":{"bits_per_second":1e8,"packets":100,"lost_packets":50}}}"#;
        let rate = read(udp, Load::Udp { bits_per_second: 1 }, 30).expect("it is whole");
        assert_eq!((rate.bits_per_second, rate.lost_percent, rate.late_percent), (8e7, 20.0, 30.0));
        let error = r#"{"error":"unable to connect to server"}"#;
        assert_eq!(read(error, Load::Tcp, 0), Err("unable to connect to server".to_owned()));
    }

    #[test]
    fn parses_udp_buffer_errors() {
        let text = "Udp: InDatagrams RcvbufErrors SndbufErrors\nUdp: 9 7 0\n\
            UdpLite: InDatagrams RcvbufErrors\nUdpLite: 0 0\n\
            Udp6InDatagrams                 \t5\nUdp6RcvbufErrors                \t2\n";
        assert_eq!(count(text), 9);
    }
}
