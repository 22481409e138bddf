//! `stoa traffic rfc2544` and `stoa traffic csit`: methods that find the rates of a device.

use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::{Args, ValueEnum};
use comfy_table::Cell;
use indicatif::{ProgressBar, ProgressStyle};
use stoa_traffic::method::{self, Method, Report, Row, SIZES, Test};
use stoa_traffic::plan::quantity::{Rate, Size};
use stoa_traffic::{Moment, report};

use super::source::Source;
use super::{run, table};
use crate::failure::{Failure, Outcome};
use crate::show;

/// Seconds of a trial (RFC 2544, section 24).
const RFC_SECONDS: f64 = 60.0;

/// Measure a device as in RFC 2544, with RFC 9004 (bursts) and RFC 5180 (IPv6)
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa traffic rfc2544 lab.yaml --test throughput --seconds 10
  stoa traffic rfc2544 lab.yaml --test frame-loss --size 64,imix1 --report loss.html
  stoa traffic rfc2544 lab.yaml --test latency --max-rate 1mpps --json > new.json
  stoa traffic compare old.json new.json

The highest load is the ports' line rate, --max-rate for each stream, or what the ports can send. A
load that could not be offered never counts as loss; the row shows what limited it.")]
pub struct Rfc2544 {
    #[command(flatten)]
    source: Source,
    /// Test to run
    #[arg(long, value_enum)]
    test: RfcTest,
    /// Step between the loads of frame-loss, in % of the highest load (RFC 2544: 10 or less)
    #[arg(long, default_value = "25", value_name = "PERCENT")]
    step: f64,
    /// Number of trials of the last step [default: 20 for latency, 50 for back-to-back]
    #[arg(long)]
    repeat: Option<u32>,
    /// Seconds of each trial [default: 60, as in RFC 2544]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    #[command(flatten)]
    common: CommonOptions,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RfcTest {
    /// The highest rate without loss
    Throughput,
    /// Latency at that rate
    Latency,
    /// Loss at loads in steps
    FrameLoss,
    /// The longest burst without loss
    BackToBack,
}

/// Measure the rates of FD.io's CSIT: NDR and PDR, or MRR
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa traffic csit lab.yaml --test ndrpdr --size 64
  stoa traffic csit lab.yaml --test mrr --repeat 10")]
pub struct Csit {
    #[command(flatten)]
    source: Source,
    /// Test to run
    #[arg(long, value_enum)]
    test: CsitTest,
    /// Loss that PDR allows, in %
    #[arg(long, default_value = "0.5", value_name = "PERCENT")]
    tolerance: f64,
    /// Number of trials of MRR
    #[arg(long, default_value_t = 10)]
    repeat: u32,
    /// Seconds of each trial [default: 30; MRR: 1]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    #[command(flatten)]
    common: CommonOptions,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CsitTest {
    /// The highest rates without loss (NDR) and with partial loss (PDR)
    Ndrpdr,
    /// The received rate at the highest load
    Mrr,
}

/// Options of all methods.
#[derive(Debug, Args)]
struct CommonOptions {
    /// Frame sizes with FCS, imix1 to imix3, campus, or `file` for the sizes of the streams
    /// [default: 64,128,256,512,1024,1280,1518; the first is the shortest that the streams allow]
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    size: Vec<String>,
    /// Highest load of each stream
    #[arg(long, value_name = "RATE")]
    max_rate: Option<Rate>,
    /// Resolution of a search, in % of the highest load
    #[arg(long, default_value = "0.5", value_name = "PERCENT")]
    resolution: f64,
    /// Write a report with plots as one HTML file
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl CommonOptions {
    fn sizes(&self) -> Result<Vec<Size>, Failure> {
        match self.size.as_slice() {
            [] => Ok(SIZES.map(Size::Fixed).into()),
            [file] if file == "file" => Ok(Vec::new()),
            sizes => {
                let sizes = sizes.iter().map(|size| size.parse());
                sizes.collect::<Result<_, String>>().map_err(Failure::Usage)
            }
        }
    }

    fn method(&self, test: Test, seconds: f64, repeat: u32) -> Result<Method, Failure> {
        let resolution = self.resolution / 100.0;
        let (sizes, most) = (self.sizes()?, self.max_rate);
        Ok(Method { test, sizes, seconds, repeat, most, resolution, step: 0.25, tolerance: 0.005 })
    }
}

/// Measures as in RFC 2544.
pub fn rfc2544(arguments: &Rfc2544) -> Outcome {
    let (test, default_repeat) = match arguments.test {
        RfcTest::Throughput => (Test::Throughput, 1),
        RfcTest::Latency => (Test::Latency, 20),
        RfcTest::FrameLoss => (Test::FrameLoss, 1),
        RfcTest::BackToBack => (Test::BackToBack, 50),
    };
    let seconds = arguments.seconds.unwrap_or(RFC_SECONDS);
    let mut method =
        arguments.common.method(test, seconds, arguments.repeat.unwrap_or(default_repeat))?;
    method.step = arguments.step / 100.0;
    execute(&arguments.source, &arguments.common, &method)
}

/// Measures as in CSIT.
pub fn csit(arguments: &Csit) -> Outcome {
    let (test, default_seconds) = match arguments.test {
        CsitTest::Ndrpdr => (Test::NdrPdr, 30.0),
        CsitTest::Mrr => (Test::Mrr, 1.0),
    };
    let seconds = arguments.seconds.unwrap_or(default_seconds);
    let mut method = arguments.common.method(test, seconds, arguments.repeat)?;
    method.tolerance = arguments.tolerance / 100.0;
    execute(&arguments.source, &arguments.common, &method)
}

fn execute(source: &Source, options: &CommonOptions, method: &Method) -> Outcome {
    let file = source.run_file(None)?;
    let stop = run::stop_by_signal();
    options.report.as_deref().map_or(Ok(()), run::writable)?;
    let has_progress = !options.json && stderr().is_terminal();
    let bar = if has_progress { ProgressBar::new(1000) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:20} {elapsed}  {msg}") {
        bar.set_style(style);
    }
    let mut on_progress = |what: &str, moment: &Moment| {
        bar.set_position((moment.at / moment.of * 1000.0).min(1000.0) as u64);
        bar.set_message(format!("{what}: {}", table::progress(moment)));
        !stop.load(Ordering::Relaxed)
    };
    let report = method::run(file, method, &mut on_progress);
    bar.finish_and_clear();
    let report = report.map_err(|error| Failure::Message(error.to_string()))?;
    let text = if options.json {
        serde_json::to_string(&report)
            .map_err(|error| Failure::context("cannot write JSON", error))?
    } else {
        text(&report)
    };
    // Print before writing the report, which may fail: measuring takes hours.
    show::print(&text)?;
    if let Some(path) = &options.report {
        std::fs::write(path, report::method_html(&report))
            .map_err(|error| run::unwritable(path, error))?;
    }
    Ok(if report.ended.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The report as a table.
fn text(report: &Report) -> String {
    let mut rows = show::table(&["size", "figure", ">value"]);
    for row in &report.rows {
        for (at, (figure, value)) in row.figures.values.iter().enumerate() {
            let size = if at == 0 { row.size.as_str() } else { "" };
            let (name, value) = report::figure(figure, *value);
            rows.add_row([Cell::new(size), Cell::new(name), Cell::new(value)]);
        }
    }
    let mut out = Vec::new();
    // Writing to memory does not fail.
    let _ = show::write(&rows, &mut out);
    let mut text = String::from_utf8_lossy(&out).into_owned();
    let trials = report.trials.len();
    text.push_str(&format!("\n{}, {trials} trials of {} s", report.test, report.seconds));
    if let Some(reason) = &report.ended {
        text.push_str(&format!("\nENDED EARLY: {reason}"));
    }
    for Row { size, figures } in &report.rows {
        if let Some(warning) = figures.bound.and_then(method::Bound::warning) {
            text.push_str(&format!("\n{size}: {warning}"));
        }
    }
    text
}
