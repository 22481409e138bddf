//! The log: level, format and destinations.
//!
//! Each process of Stoa has one. It starts with the settings of the environment and follows the configuration. Workers
//! do not log. Other threads may, since logging never blocks: a slow syslog destination loses messages and receives
//! their number.
#![forbid(unsafe_code)]

mod directives;
mod journal;
mod recent;
mod record;
mod rfc5424;
mod syslog;

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use stoa_api::v1;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use crate::recent::Recent;
use crate::syslog::Syslog;

/// The levels, from the fewest messages to the most.
pub const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// The log of this process.
struct Log {
    /// The level without any setting.
    default_level: String,
    filter: reload::Handle<EnvFilter, Registry>,
    lines: reload::Handle<BoxedLayer, Registry>,
    syslog: Arc<Syslog>,
    recent: Arc<Recent>,
    /// The settings in effect.
    current: Mutex<v1::Logging>,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// The format of standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Json,
    /// The native protocol of journald, with structured fields.
    Journal,
}

/// Starts the log of `program` at `default_level` or the level of STOA_LOG. The log goes to journald if standard error
/// is connected to it, else to standard error in the format of STOA_LOG_FORMAT.
///
/// # Errors
/// When STOA_LOG or STOA_LOG_FORMAT has an unknown value.
pub fn start(program: &'static str, default_level: &str) -> Result<(), String> {
    let level = environment("STOA_LOG").unwrap_or_else(|| default_level.to_owned());
    let directives = directives::of(&level)?;
    let format = match environment("STOA_LOG_FORMAT").as_deref() {
        None | Some("text") => default_format("text"),
        Some("json") => Format::Json,
        Some(other) => {
            return Err(format!("STOA_LOG_FORMAT={other} is not understood; use text or json"));
        }
    };
    let (syslog, recent) = (Arc::new(Syslog::new(program)), Arc::<Recent>::default());
    let (lines, lines_handle) = reload::Layer::new(lines(format));
    let (filter, filter_handle) = reload::Layer::new(EnvFilter::new(directives));
    let log = Log {
        default_level: default_level.to_owned(),
        filter: filter_handle,
        lines: lines_handle,
        syslog: Arc::clone(&syslog),
        recent: Arc::clone(&recent),
        current: Mutex::default(),
    };
    // Fails only when a test starts a second log in one process.
    let kept = recent::RecentLayer(recent);
    let started = tracing_subscriber::registry()
        .with(filter.and_then(lines).and_then(syslog::SyslogLayer(syslog)).and_then(kept))
        .try_init();
    if started.is_ok() {
        let _ = LOG.set(log);
    }
    Ok(())
}

/// Applies the configured level, format and syslog destinations. Environment variables override the configuration.
/// Does nothing if [`start`] was not called.
pub fn follow(desired: &v1::Logging) {
    let Some(log) = LOG.get() else { return };
    let mut current = log.current.lock().unwrap_or_else(PoisonError::into_inner);
    if *current == *desired {
        return;
    }
    current.clone_from(desired);
    if environment("STOA_LOG").is_none() {
        let level = if desired.level.is_empty() { &log.default_level } else { &desired.level };
        if let Ok(directives) = directives::of(level) {
            let _ = log.filter.reload(EnvFilter::new(directives));
        }
    }
    if environment("STOA_LOG_FORMAT").is_none() {
        let _ = log.lines.reload(lines(default_format(&desired.format)));
    }
    log.syslog.follow(&desired.syslog);
}

/// The settings in effect, but for what environment variables override. `None`: [`start`] was not called.
pub fn current() -> Option<v1::Logging> {
    let log = LOG.get()?;
    Some(log.current.lock().unwrap_or_else(PoisonError::into_inner).clone())
}

/// The last messages of this process, oldest first: those since [`start`], up to a limit. Secrets are hidden.
pub fn recent() -> Vec<v1::LogMessage> {
    LOG.get().map(|log| log.recent.messages()).unwrap_or_default()
}

/// An environment variable that is set and not empty.
fn environment(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?.to_string_lossy().into_owned();
    (!value.is_empty()).then_some(value)
}

fn default_format(configured: &str) -> Format {
    match configured {
        "json" => Format::Json,
        _ if journal::is_connected() => Format::Journal,
        _ => Format::Text,
    }
}

fn lines(format: Format) -> BoxedLayer {
    let to_stderr = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // They would be printed by `eprintln!`, which panics when the reader of standard error has exited.
        .log_internal_errors(false);
    if format == Format::Json {
        let json = to_stderr.json().flatten_event(true).with_current_span(false);
        return json.with_span_list(false).boxed();
    }
    let journal = if format == Format::Journal { journal::layer() } else { None };
    journal.unwrap_or_else(|| {
        to_stderr.with_ansi(std::io::stderr().is_terminal()).with_target(false).boxed()
    })
}
