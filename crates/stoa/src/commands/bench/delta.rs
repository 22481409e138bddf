//! `stoa bench delta`: how soon the rows of a capability are in force, and equal after either half has restarted.

mod churn;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use stoa_api::rows::test;
use stoa_api::v1::forwarder_client::ForwarderClient;
use stoa_api::{unix, v1};
use stoa_controller::rows::{RowStream, RowTables, RowType};
use tonic::transport::Channel;

use crate::failure::{Failure, Outcome};
use crate::show;

/// Rows in a block.
const BLOCK: u64 = 4_096;
/// Longest time of one step.
const LIMIT: Duration = Duration::from_secs(120);

/// Measure a keyed delta stream: rows in force, verified by digest, and after restarts of both halves
#[derive(Debug, Args)]
pub struct Arguments {
    /// Number of rows, of 40 bytes each (1 to 2000000)
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=2_000_000))]
    rows: u64,
    /// Change rows of the running router with this forwarder at random, instead of a forwarder of its own; restart what
    /// you like meanwhile. At the end an audit must find them equal
    #[arg(long, value_name = "SOCKET")]
    forwarder: Option<PathBuf>,
    /// For so many seconds
    #[arg(long, default_value_t = 10, requires = "forwarder")]
    seconds: u64,
    /// Set all rows first
    #[arg(long, requires = "forwarder")]
    all: bool,
    /// Repeat the changes of a run
    #[arg(long, default_value_t = 1, requires = "forwarder")]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The rows of the forwarder's table for measurements.
struct TestRows;

impl RowType for TestRows {
    const TABLE: &'static str = test::TABLE;
    const FORMAT: u32 = test::FORMAT;
    type Key = test::Key;
    type Row = test::Row;
}

/// A folder that is removed with this value.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A forwarder of its own, in a process that is killed with this value.
struct Forwarder(Child);

impl Forwarder {
    fn start(folder: &Path) -> Result<Forwarder, Failure> {
        let failed = |error| Failure::context("cannot start a forwarder", error);
        let program = std::env::current_exe().map_err(failed)?;
        let child = Command::new(program)
            .arg("forwarder")
            .arg("--socket")
            .arg(folder.join("forwarder"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        Ok(Forwarder(child))
    }

    /// Waits until it serves, and applies a configuration without ports.
    async fn configure(channel: &Channel) -> Result<(), Failure> {
        let workers = v1::Workers {
            buffers: 1024,
            polling: v1::Polling::Interrupt.into(),
            huge_pages: v1::HugePages::Never.into(),
            ..Default::default()
        };
        let desired = v1::Desired { workers: Some(workers), ..Default::default() };
        let mut client = ForwarderClient::new(channel.clone());
        let deadline = Instant::now() + LIMIT;
        loop {
            match client.apply(desired.clone()).await {
                Ok(_) => return Ok(()),
                Err(status) if Instant::now() > deadline => return Err(status.into()),
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Seconds until each step was verified by an audit.
struct Figures {
    /// All rows in force.
    all_s: f64,
    /// One row in a thousand changed.
    changed_s: f64,
    /// After a new controller.
    controller_s: f64,
    /// After a new forwarder.
    forwarder_s: f64,
}

/// Measures and prints.
pub fn execute(arguments: Arguments) -> Outcome {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::context("cannot start threads", error))?;
    if let Some(socket) = &arguments.forwarder {
        return runtime.block_on(churned(socket, &arguments));
    }
    let figures = runtime.block_on(measure(arguments.rows))?;
    let Figures { all_s, changed_s, controller_s, forwarder_s } = figures;
    let text = if arguments.json {
        json!({
            "rows": arguments.rows, "all_s": all_s, "changed_s": changed_s,
            "controller_s": controller_s, "forwarder_s": forwarder_s, "audit": "equal",
        })
        .to_string()
    } else {
        let row = |seconds: f64, what: &str| format!("{seconds:>9.3} s  {what}");
        [
            format!("{} rows of 40 bytes, each step verified by an audit", arguments.rows),
            row(all_s, "all rows in force"),
            row(changed_s, "one row in a thousand changed"),
            row(controller_s, "equal after a restart of the controller"),
            row(forwarder_s, "equal after a restart of the forwarder"),
        ]
        .join("\n")
    };
    show::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Changes the rows of a running router, and prints what was done.
async fn churned(socket: &Path, arguments: &Arguments) -> Outcome {
    let Arguments { rows, seconds, all, seed, .. } = *arguments;
    let work = churn::Work { rows, time: Duration::from_secs(seconds), all, seed };
    let churn::Churned { rows, changes, streams, equal_s } = churn::churn(socket, work).await?;
    let text = match arguments.json {
        true => json!({
            "rows": rows, "changes": changes, "streams": streams, "equal_s": equal_s, "audit": "equal",
        })
        .to_string(),
        false => format!(
            "{changes} changes by {streams} streams, then {rows} rows; equal after {equal_s:.3} s"
        ),
    };
    show::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn measure(rows: u64) -> Result<Figures, Failure> {
    let folder = std::env::temp_dir().join(format!("stoa-bench-delta-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| Failure::context(folder.display(), error))?;
    let folder = Folder(folder);
    let forwarder = Forwarder::start(&folder.0)?;
    let channel = unix::connect_lazily(&folder.0.join("forwarder"));
    Forwarder::configure(&channel).await?;

    let (tables, started) = (RowTables::new(channel.clone()), Instant::now());
    let stream = tables.open::<TestRows>();
    tell(&stream, rows, 1, 1).await;
    stream.complete().await;
    let all_s = until_equal(&tables, rows, started).await?;

    let started = Instant::now();
    tell(&stream, rows, 1_000, 2).await;
    let changed_s = until_equal(&tables, rows, started).await?;

    // A new controller knows nothing of the old one.
    drop((stream, tables));
    let (tables, started) = (RowTables::new(channel.clone()), Instant::now());
    let stream = tables.open::<TestRows>();
    tell(&stream, rows, 1, 1).await;
    tell(&stream, rows, 1_000, 2).await;
    stream.complete().await;
    let controller_s = until_equal(&tables, rows, started).await?;

    let started = Instant::now();
    drop(forwarder);
    let _forwarder = Forwarder::start(&folder.0)?;
    Forwarder::configure(&channel).await?;
    let forwarder_s = until_equal(&tables, rows, started).await?;
    Ok(Figures { all_s, changed_s, controller_s, forwarder_s })
}

/// Tells each row of a step, with a version.
async fn tell(stream: &RowStream<TestRows>, rows: u64, step: usize, version: u8) {
    let mut block = Vec::new();
    for key in (0..rows).step_by(step) {
        let mut row = [version; 32];
        row[..8].copy_from_slice(&key.to_be_bytes());
        block.push((key, Some(row)));
        if block.len() as u64 == BLOCK {
            stream.update(std::mem::take(&mut block)).await;
        }
    }
    stream.update(block).await;
}

/// Seconds until an audit finds all rows equal.
async fn until_equal(tables: &RowTables, rows: u64, started: Instant) -> Result<f64, Failure> {
    while started.elapsed() < LIMIT {
        let audited = tables.audit(test::TABLE).await.unwrap_or_default();
        if audited.is_compared && audited.different == 0 && audited.held == rows {
            return Ok(started.elapsed().as_secs_f64());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(Failure::Message(format!("the {rows} rows are not equal after {} s", LIMIT.as_secs())))
}
