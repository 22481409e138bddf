//! `traceroute`: the routers on a path.

use std::net::IpAddr;
use std::time::Duration;

use crate::{Host, LabError, Result, Tool};

/// One line of a traceroute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The address of the hop; `None` for `*`.
    pub address: Option<IpAddr>,
    /// Annotation such as `!N`, `!H`, `!X`; empty when there is none.
    pub mark: String,
}

/// Traces the path from `host`, one UDP probe per hop, at most eight hops; `more` are further arguments of
/// traceroute.
///
/// # Errors
///
/// traceroute is missing, does not exit, or its output cannot be parsed.
pub fn traceroute(host: &Host, to: IpAddr, more: &[&str]) -> Result<Vec<Hop>> {
    let address = to.to_string();
    let output = host
        .command(Tool::TRACEROUTE)?
        // One probe at a time: with several, traceroute 2.1.2 has missed replies that its kernel had counted.
        .args(["-n", "-q", "1", "-N", "1", "-w", "2", "-m", "8"])
        .args(more)
        .args([&address])
        .deadline(Duration::from_secs(30))
        .run()?;
    let hops = read(&output.stdout);
    if hops.is_empty() {
        return Err(LabError::ParseFailed {
            what: output.command.clone(),
            reason: crate::error::last_lines(&format!("{}\n{}", output.stdout, output.stderr), 3),
        });
    }
    Ok(hops)
}

fn read(text: &str) -> Vec<Hop> {
    let mut hops = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(Ok(_number)) = words.next().map(str::parse::<u8>) else { continue };
        let address = words.next().and_then(|word| word.parse().ok());
        let mark = words.find(|word| word.starts_with('!')).unwrap_or_default().to_owned();
        hops.push(Hop { address, mark });
    }
    hops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_traceroute_output() {
        let text = "traceroute to 198.18.2.2 (198.18.2.2), 8 hops max, 60 byte packets\n \
            1  198.18.1.1  0.066 ms\n 2  *\n 3  198.18.2.2  0.012 ms !X\n";
        let hop = |address: Option<&str>, mark: &str| Hop {
            address: address.map(|one| one.parse().expect("an address")),
            mark: mark.to_owned(),
        };
        assert_eq!(
            read(text),
            [hop(Some("198.18.1.1"), ""), hop(None, ""), hop(Some("198.18.2.2"), "!X")]
        );
    }
}
