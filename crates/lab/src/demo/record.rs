//! The step of the demo with a record of a translated flow, which Stoa exports by IPFIX, at a collector: nfcapd, whose
//! files nfdump reads.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::steps::Outcome;
use crate::measure::{Load, iperf};
use crate::{Background, Host, LabError, Namespace, Result, Router, Scratch, Tool, wait_until};

const ADDRESS: &str = "127.0.0.1";
const PORT: u16 = 4739;
/// How long a program may take to listen, and records to arrive.
const DEADLINE: Duration = Duration::from_secs(10);

/// A translated flow as its collector has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FlowRecord {
    /// Address and port of the host that has begun it, inside.
    inside: (Ipv4Addr, u16),
    /// The same outside.
    outside: (Ipv4Addr, u16),
    /// Address and port of the other end.
    remote: (Ipv4Addr, u16),
    /// Packets of both directions.
    packets: u64,
    /// Bytes of both directions.
    bytes: u64,
}

/// Exports the flows of a download to a collector, and shows the largest one as the collector has it.
///
/// `all` is the configuration without export, to which the router returns.
///
/// # Errors
/// A tool does not start or fails.
pub(crate) fn exported(
    (router, namespace): (&Router, &Namespace),
    [a, b]: [&Host; 2],
    all: &Value,
) -> Result<Outcome> {
    let scratch = Scratch::new()?;
    let nfcapd = collector(namespace, scratch.path())?;
    let mut exporting = all.clone();
    exporting["stoa-ipfix:ipfix"] =
        json!({ "collector": [{ "name": "demo", "address": ADDRESS, "port": PORT }] });
    let on = router.reload(&exporting)?;
    if !on.success() {
        return Ok(Err(on.stderr.trim().to_owned()));
    }
    iperf(a, b, false, Load::Tcp, 1)?;
    // The end of the export sends what is left of all flows.
    let off = router.reload(all)?;
    if !off.success() {
        return Ok(Err(off.stderr.trim().to_owned()));
    }
    // The forwarder's thread sends them, and nfcapd writes what it has got every two seconds and when it ends.
    wait_until("nfcapd writes a record of a translated flow", DEADLINE, || {
        match by_nfdump(scratch.path()) {
            Ok(records) if records.is_empty() => Err("no record".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    })?;
    nfcapd.stop()?;
    let records = by_nfdump(scratch.path())?;
    let Some(it) = records.iter().max_by_key(|it| it.bytes) else {
        return Ok(Err("nfdump has no record of a translated flow".to_owned()));
    };
    let end = |(address, port): (Ipv4Addr, u16)| format!("{address}:{port}");
    let printed = format!(
        "nfdump has {} as {} -> {}: {} packets, {:.1} MB",
        end(it.inside),
        end(it.outside),
        end(it.remote),
        it.packets,
        it.bytes as f64 / 1e6
    );
    let is_whole = it.inside.0 == a.address(false)?
        && it.outside.0 == b.gateway(false)?
        && it.remote.0 == b.address(false)?
        && ![it.inside.1, it.outside.1, it.remote.1].contains(&0)
        && it.packets > 0;
    Ok(if is_whole { Ok(printed) } else { Err(printed) })
}

/// Starts nfcapd in the namespace of the router; it writes to a folder.
fn collector(namespace: &Namespace, folder: &Path) -> Result<Background> {
    let (folder, port) = (folder.display().to_string(), PORT.to_string());
    let arguments = ["-w", &folder, "-b", ADDRESS, "-p", &port, "-t", "2"];
    let nfcapd = namespace.command(Tool::NFCAPD)?.args(arguments).spawn()?;
    nfcapd.wait_for("Startup", DEADLINE)?;
    Ok(nfcapd)
}

/// The translated flows in the files of a folder.
fn by_nfdump(folder: &Path) -> Result<Vec<FlowRecord>> {
    let folder = folder.display().to_string();
    let command = crate::Command::tool(Tool::NFDUMP)?.args(["-R", &folder, "-o", "json", "-q"]);
    let printed = command.run()?.ok()?.stdout;
    // Its rows have commas between them, and no brackets around them. Without a row it prints words.
    if !printed.starts_with('{') {
        return Ok(Vec::new());
    }
    let rows: Vec<Value> = serde_json::from_str(&format!("[{printed}]")).map_err(|error| {
        LabError::ParseFailed { what: "nfdump".to_owned(), reason: error.to_string() }
    })?;
    Ok(rows.iter().filter_map(row).collect())
}

fn row(row: &Value) -> Option<FlowRecord> {
    // It prints the translated ports as text.
    let number = |key: &str| match &row[key] {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    };
    let port = |key: &str| number(key).and_then(|it| u16::try_from(it).ok());
    let address = |key: &str| -> Option<Ipv4Addr> { row[key].as_str()?.parse().ok() };
    let both = |a: &str, b: &str| Some(number(a)? + number(b).unwrap_or(0));
    Some(FlowRecord {
        inside: (address("src4_addr")?, port("src_port")?),
        outside: (address("src4_xlt_ip")?, port("src_xlt_port")?),
        remote: (address("dst4_addr")?, port("dst_port")?),
        packets: both("in_packets", "out_packets")?,
        bytes: both("in_bytes", "out_bytes")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_nfdump_is_read() {
        let mut printed = json!({
            "src4_addr": "198.18.1.2", "src_port": 40_000, "dst4_addr": "198.18.2.2", "dst_port": 5_201,
            "src4_xlt_ip": "198.18.2.1", "src_xlt_port": "1025",
            "in_packets": 10, "in_bytes": 9_000, "out_packets": 5, "out_bytes": 300,
        });
        let read = row(&printed).expect("a record");
        assert_eq!((read.outside.1, read.packets, read.bytes), (1_025, 15, 9_300));
        printed["src_xlt_port"] = json!("none");
        assert_eq!(row(&printed), None);
    }
}
