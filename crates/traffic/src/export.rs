//! `stoa bench flow --export`: how many records of flows a second the exporter takes from workers and sends, and what
//! it is set to for measurements.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use stoa_engine::quiescence::Quiescence;
use stoa_forwarder::flow::flows::{Flows, Sizes};
use stoa_forwarder::ipfix::{CollectorSettings, EndReason, Exporter, FlowRecord, Record, Settings};
use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{Counters, FlowKey};
use stoa_tables::lpm::Kernel;

/// Records of a round.
const RECORDS: u64 = 2_000_000;
/// The longest time of a round.
const LIMIT: Duration = Duration::from_secs(60);
/// The port at which nobody listens: discard.
const NOBODY: u16 = 9;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The system has no memory, no socket or no thread.
    #[error("the system has no {0}: {1}")]
    System(&'static str, String),
    /// It takes too long.
    #[error("{0} of {RECORDS} records were exported in a minute; stop other programs")]
    Slow(u64),
}

/// Results.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Records that were taken from a ring, encoded and sent over UDP, in a second.
    pub records_per_second: f64,
    /// Records of a round.
    pub records: u64,
    /// Bytes of a record in its message.
    pub bytes_per_record: f64,
}

/// Exports all flows to this address.
fn settings_to(to: SocketAddr) -> Settings {
    Settings {
        collectors: vec![CollectorSettings {
            name: "bench".to_owned(),
            to,
            source: None,
            is_tcp: false,
        }],
        active_s: 300,
        idle_s: 60,
        template_s: 60,
        sampling: 1,
        domain: 1,
        message_size: 1_400,
        is_biflow: true,
        flows: true,
        nat_sessions: false,
        nat_events: true,
        denials: false,
    }
}

/// Exports all flows to nobody.
pub fn settings() -> Settings {
    settings_to(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), NOBODY))
}

fn record(number: u64) -> Record {
    let flow = Flow {
        source: 0x0a00_0000 | (number as u32 & 0xff_ffff),
        destination: 0xc633_6401,
        source_port: number as u16,
        destination_port: 443,
        protocol: 6,
    };
    let counters = [Counters { packets: 9, bytes: 1_800 }, Counters { packets: 12, bytes: 9_000 }];
    Record::Ended(FlowRecord {
        key: FlowKey::ip4(flow, 0),
        translated: None,
        id: number as u32 & 0xffff,
        start: number as u32,
        seen: number as u32,
        counters,
        reason: EndReason::Finished,
    })
}

/// Measures the best of some rounds.
///
/// # Errors
/// See [`ExportError`].
pub fn run(rounds: u32) -> Result<Figures, ExportError> {
    let mut best = round()?;
    for _ in 1..rounds {
        let next = round()?;
        if next.records_per_second > best.records_per_second {
            best = next;
        }
    }
    Ok(best)
}

fn round() -> Result<Figures, ExportError> {
    let sizes = Sizes { ip4: 1_024, ip6: 1_024, translated: 1_024, mappings: 1_024 };
    let quiescence = Quiescence::new(1);
    let flows = Flows::new(sizes, Kernel::detect(), 1, &quiescence);
    let flows = Arc::new(flows.map_err(|error| ExportError::System("memory", error.to_string()))?);
    // It takes what it can, and reads nothing: the rest is lost in its socket, after it was sent.
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let socket = socket.map_err(|error| ExportError::System("socket", error.to_string()))?;
    let to = socket.local_addr().map_err(|it| ExportError::System("socket", it.to_string()))?;
    let mut writer = flows.exports().writer();
    let exporter = Exporter::start(&flows, &settings_to(to));
    let exporter = exporter.map_err(|error| ExportError::System("thread", error.to_string()))?;
    let begin = Instant::now();
    let exported = || exporter.snapshot().state.flow_records;
    for number in 0..RECORDS {
        while !writer.report(record(number)) {
            std::thread::sleep(Duration::from_micros(200));
            if begin.elapsed() > LIMIT {
                return Err(ExportError::Slow(exported()));
            }
        }
    }
    while exported() < RECORDS {
        std::thread::sleep(Duration::from_micros(200));
        if begin.elapsed() > LIMIT {
            return Err(ExportError::Slow(exported()));
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let bytes: u64 = exporter.snapshot().collectors.iter().map(|it| it.bytes).sum();
    Ok(Figures {
        records_per_second: RECORDS as f64 / seconds,
        records: RECORDS,
        bytes_per_record: bytes as f64 / RECORDS as f64,
    })
}
