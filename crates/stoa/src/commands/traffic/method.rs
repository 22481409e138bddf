//! `stoa traffic rfc2544` and `stoa traffic csit`: methods that find out how fast a device is.

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

/// Seconds of a trial that RFC 2544, section 24, asks for.
const RFC_SECONDS: f64 = 60.0;

/// How fast is a device? RFC 2544 with RFC 9004 (bursts) and RFC 5180 (IPv6)
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa traffic rfc2544 lab.yaml --test throughput --seconds 10
  stoa traffic rfc2544 lab.yaml --test frame-loss --size 64,imix1 --report loss.html
  stoa traffic rfc2544 lab.yaml --test latency --max-rate 1mpps --json > new.json
  stoa traffic compare old.json new.json

The highest load is the ports' line rate, --max-rate for each stream, or what the ports take. A load that
could not be offered is never counted as loss: the row says what was the limit.")]
pub struct Rfc2544 {
    #[command(flatten)]
    source: Source,
    /// What is measured
    #[arg(long, value_enum)]
    test: RfcTest,
    /// From one load to the next of frame-loss, in % of the highest (RFC 2544 asks for 10 or less)
    #[arg(long, default_value = "25", value_name = "PERCENT")]
    step: f64,
    /// Trials of the last step [default: 20 of latency, 50 of back-to-back]
    #[arg(long)]
    repeat: Option<u32>,
    /// Seconds of each trial [default: 60, as RFC 2544 asks for]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    #[command(flatten)]
    common: Wishes,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RfcTest {
    /// The highest rate without loss
    Throughput,
    /// How long packets take at that rate
    Latency,
    /// How much is lost at loads in steps
    FrameLoss,
    /// The longest burst without loss
    BackToBack,
}

/// How fast is a device? The rates of FD.io's CSIT: NDR and PDR, or MRR
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa traffic csit lab.yaml --test ndrpdr --size 64
  stoa traffic csit lab.yaml --test mrr --repeat 10")]
pub struct Csit {
    #[command(flatten)]
    source: Source,
    /// What is measured
    #[arg(long, value_enum)]
    test: CsitTest,
    /// The loss that PDR allows, in %
    #[arg(long, default_value = "0.5", value_name = "PERCENT")]
    tolerance: f64,
    /// Trials of MRR
    #[arg(long, default_value_t = 10)]
    repeat: u32,
    /// Seconds of each trial [default: 30, of MRR 1]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    #[command(flatten)]
    common: Wishes,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CsitTest {
    /// The highest rates without loss and with a little of it
    Ndrpdr,
    /// What comes through at the highest load
    Mrr,
}

/// What all methods have.
#[derive(Debug, Args)]
struct Wishes {
    /// Frame sizes with FCS, imix1 to imix3, or `file`: those of the streams
    /// [default: 64,128,256,512,1024,1280,1518; the first is the shortest that the streams allow]
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    size: Vec<String>,
    /// The highest load of each stream
    #[arg(long, value_name = "RATE")]
    max_rate: Option<Rate>,
    /// Where a search ends, in % of the highest load
    #[arg(long, default_value = "0.5", value_name = "PERCENT")]
    resolution: f64,
    /// Write a report with plots, for a browser: one file that needs no network
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Wishes {
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

/// Measures as RFC 2544 says.
pub fn rfc2544(arguments: &Rfc2544) -> Outcome {
    let (test, usual) = match arguments.test {
        RfcTest::Throughput => (Test::Throughput, 1),
        RfcTest::Latency => (Test::Latency, 20),
        RfcTest::FrameLoss => (Test::FrameLoss, 1),
        RfcTest::BackToBack => (Test::BackToBack, 50),
    };
    let seconds = arguments.seconds.unwrap_or(RFC_SECONDS);
    let mut method = arguments.common.method(test, seconds, arguments.repeat.unwrap_or(usual))?;
    method.step = arguments.step / 100.0;
    execute(&arguments.source, &arguments.common, &method)
}

/// Measures as CSIT does.
pub fn csit(arguments: &Csit) -> Outcome {
    let (test, usual) = match arguments.test {
        CsitTest::Ndrpdr => (Test::NdrPdr, 30.0),
        CsitTest::Mrr => (Test::Mrr, 1.0),
    };
    let seconds = arguments.seconds.unwrap_or(usual);
    let mut method = arguments.common.method(test, seconds, arguments.repeat)?;
    method.tolerance = arguments.tolerance / 100.0;
    execute(&arguments.source, &arguments.common, &method)
}

fn execute(source: &Source, wishes: &Wishes, method: &Method) -> Outcome {
    let file = source.run_file(None)?;
    let stop = run::stop_by_signal();
    wishes.report.as_deref().map_or(Ok(()), run::writable)?;
    let is_watched = !wishes.json && stderr().is_terminal();
    let bar = if is_watched { ProgressBar::new(1000) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:20} {elapsed}  {msg}") {
        bar.set_style(style);
    }
    let mut watch = |what: &str, moment: &Moment| {
        bar.set_position((moment.at / moment.of * 1000.0).min(1000.0) as u64);
        bar.set_message(format!("{what}: {}", table::progress(moment)));
        !stop.load(Ordering::Relaxed)
    };
    let report = method::run(file, method, &mut watch);
    bar.finish_and_clear();
    let report = report.map_err(|error| Failure::Words(error.to_string()))?;
    let text = if wishes.json {
        serde_json::to_string(&report).map_err(|error| Failure::because("no JSON", error))?
    } else {
        text(&report)
    };
    // First what nobody can take away: measuring takes hours.
    show::print(&text)?;
    if let Some(path) = &wishes.report {
        std::fs::write(path, report::method_html(&report))
            .map_err(|error| run::unwritable(path, error))?;
    }
    Ok(if report.ended.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All of it, for eyes.
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
    // Writing into memory does not fail.
    let _ = show::write(&rows, &mut out);
    let mut text = String::from_utf8_lossy(&out).into_owned();
    let trials = report.trials.len();
    text.push_str(&format!("\n{}, {trials} trials of {} s", report.test, report.seconds));
    if let Some(reason) = &report.ended {
        text.push_str(&format!("\nENDED EARLY: {reason}"));
    }
    for Row { size, figures } in &report.rows {
        if let Some(words) = figures.bound.and_then(method::Bound::warning) {
            text.push_str(&format!("\n{size}: {words}"));
        }
    }
    text
}
