//! `iperf3`: how much gets through.

use std::time::Duration;

use serde_json::Value;

use crate::{Host, LabError, Result, Tool};

/// How long the server may take to listen and both ends to part.
const MARGIN: Duration = Duration::from_secs(15);

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// One TCP connection, as fast as it goes.
    Tcp,
    /// UDP datagrams of 1,400 bytes at this rate, bits per second.
    Udp {
        /// Bits per second of payload.
        bits_per_second: u64,
    },
}

/// What got through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Bits per second of payload that the receiver saw.
    pub bits_per_second: f64,
    /// Share of datagrams lost, 0..=100; 0 for TCP.
    pub lost_percent: f64,
    /// Segments sent again; 0 for UDP.
    pub retransmits: u64,
}

/// Sends from one host to another for `seconds`.
///
/// # Errors
/// When iperf3 is missing or fails; its own words are in the error.
pub fn iperf(from: &Host, to: &Host, six: bool, load: Load, seconds: u32) -> Result<Rate> {
    let server = to.command(Tool::IPERF3)?.args(["-s", "-1", "--forceflush"]).spawn()?;
    server.wait_for("listening", MARGIN)?;
    let (address, time) = (to.address(six)?.to_string(), seconds.to_string());
    let mut client = from.command(Tool::IPERF3)?.args(["-c", &address, "-t", &time, "--json"]);
    if let Load::Udp { bits_per_second } = load {
        client = client.args(["-u", "-l", "1400", "-b", &bits_per_second.to_string()]);
    }
    let output = client.deadline(Duration::from_secs(u64::from(seconds)) + MARGIN).run()?;
    read(&output.stdout, load)
        .map_err(|why| LabError::NotUnderstood { what: output.command.clone(), why })
}

fn read(text: &str, load: Load) -> std::result::Result<Rate, String> {
    let report: Value =
        serde_json::from_str(text).map_err(|_| crate::error::last_words(text, 2))?;
    if let Some(error) = report["error"].as_str() {
        return Err(error.to_owned());
    }
    let end = &report["end"];
    let (sum, lost) = match load {
        Load::Tcp => (&end["sum_received"], 0.0),
        Load::Udp { .. } => (&end["sum"], end["sum"]["lost_percent"].as_f64().unwrap_or(100.0)),
    };
    let bits = sum["bits_per_second"].as_f64().ok_or("it says no rate")?;
    Ok(Rate {
        // The rate of UDP is that of the sender.
        bits_per_second: bits * (1.0 - lost / 100.0),
        lost_percent: lost,
        retransmits: end["sum_sent"]["retransmits"].as_u64().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_iperf3_says() {
        let tcp =
            r#"{"end":{"sum_sent":{"retransmits":3},"sum_received":{"bits_per_second":2.5e9}}}"#;
        let rate = read(tcp, Load::Tcp).expect("it is whole");
        assert_eq!(rate, Rate { bits_per_second: 2.5e9, lost_percent: 0.0, retransmits: 3 });
        let udp = r#"{"end":{"sum":{"bits_per_second":1e8,"lost_percent":50}}}"#;
        let rate = read(udp, Load::Udp { bits_per_second: 1 }).expect("it is whole");
        assert_eq!((rate.bits_per_second, rate.lost_percent), (5e7, 50.0));
        let error = r#"{"error":"unable to connect to server"}"#;
        assert_eq!(read(error, Load::Tcp), Err("unable to connect to server".to_owned()));
    }
}
