//! The log: what of it is told, how, and where to.
//!
//! Each process of Stoa has one. It begins as the environment says and follows the configuration
//! when that comes into force. Workers log nothing; all others may, for nothing here waits: who
//! does not take the lines in time misses some, and is told how many.
#![forbid(unsafe_code)]

mod directives;
mod journal;
mod record;
mod rfc5424;
mod syslog;

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use stoa_api::v1;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use crate::syslog::Syslog;

/// How much is told, least first.
pub const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

type Told = Box<dyn Layer<Registry> + Send + Sync>;

/// The log of this process.
struct Log {
    /// What is told when nobody says else.
    usual: String,
    filter: reload::Handle<EnvFilter, Registry>,
    lines: reload::Handle<Told, Registry>,
    syslog: Arc<Syslog>,
    /// What it follows.
    wanted: Mutex<v1::Logging>,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Json,
    /// As journald wants it, with fields of their own.
    Journal,
}

/// Begins to log as `program`, from `usual` up unless STOA_LOG says else: to journald when standard
/// error leads there, else to standard error, as STOA_LOG_FORMAT says.
///
/// # Errors
/// Wrong usage: STOA_LOG or STOA_LOG_FORMAT is not understood.
pub fn start(program: &'static str, usual: &str) -> Result<(), String> {
    let level = environment("STOA_LOG").unwrap_or_else(|| usual.to_owned());
    let directives = directives::of(&level)?;
    let format = match environment("STOA_LOG_FORMAT").as_deref() {
        None | Some("text") => usual_format("text"),
        Some("json") => Format::Json,
        Some(other) => {
            return Err(format!("STOA_LOG_FORMAT={other} is not understood; give text or json"));
        }
    };
    let syslog = Arc::new(Syslog::new(program));
    let (lines, lines_handle) = reload::Layer::new(lines(format));
    let (filter, filter_handle) = reload::Layer::new(EnvFilter::new(directives));
    let log = Log {
        usual: usual.to_owned(),
        filter: filter_handle,
        lines: lines_handle,
        syslog: Arc::clone(&syslog),
        wanted: Mutex::default(),
    };
    // Only a test starts a second one; it has no log then.
    let begun = tracing_subscriber::registry()
        .with(filter.and_then(lines).and_then(syslog::Told(syslog)))
        .try_init();
    if begun.is_ok() {
        let _ = LOG.set(log);
    }
    Ok(())
}

/// Follows the configuration: level, format and syslog destinations. What the environment says
/// stands above it. Does nothing where [`start`] was not called.
pub fn follow(wanted: &v1::Logging) {
    let Some(log) = LOG.get() else { return };
    let mut former = log.wanted.lock().unwrap_or_else(PoisonError::into_inner);
    if *former == *wanted {
        return;
    }
    former.clone_from(wanted);
    if environment("STOA_LOG").is_none() {
        let level = if wanted.level.is_empty() { &log.usual } else { &wanted.level };
        if let Ok(directives) = directives::of(level) {
            let _ = log.filter.reload(EnvFilter::new(directives));
        }
    }
    if environment("STOA_LOG_FORMAT").is_none() {
        let _ = log.lines.reload(lines(usual_format(&wanted.format)));
    }
    log.syslog.follow(&wanted.syslog);
}

/// What the environment says; nothing where it says "".
fn environment(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?.to_string_lossy().into_owned();
    (!value.is_empty()).then_some(value)
}

fn usual_format(wanted: &str) -> Format {
    match wanted {
        "json" => Format::Json,
        _ if journal::is_there() => Format::Journal,
        _ => Format::Text,
    }
}

fn lines(format: Format) -> Told {
    let to_stderr = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // Told by `eprintln!`, which panics: a router must outlive who read its log.
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
