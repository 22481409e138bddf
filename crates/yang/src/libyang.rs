//! The errors that libyang reports, collected on the thread that called it.

use std::borrow::Cow;
use std::cell::RefCell;

use yang5::logging::LogCallback;

/// Errors of libyang that are kept for one call; the others are counted.
const ERROR_LIMIT: usize = 1_000;

/// An error that libyang reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibyangError {
    /// The message of libyang.
    pub message: String,
    /// The path in the data; may be empty.
    pub data_path: String,
    /// The path in the schema; may be empty.
    pub schema_path: String,
    /// Line of the text; 0 when unknown.
    pub line: u64,
    /// Errors after this one that were not kept.
    pub more: usize,
}

thread_local! {
    /// Errors of this thread since [`collect_errors`] began. libyang calls the logger on the thread that parses, so
    /// that calls on different threads do not mix.
    static ERRORS: RefCell<Vec<LibyangError>> = const { RefCell::new(Vec::new()) };
}

/// Receives what libyang logs.
pub(crate) struct ErrorCollector;

impl LogCallback for ErrorCollector {
    fn log<'a>(
        &'a self,
        level: yang5::ffi::LY_LOG_LEVEL::Type,
        message: Option<Cow<'a, str>>,
        data_path: Option<Cow<'a, str>>,
        schema_path: Option<Cow<'a, str>>,
        line: u64,
    ) {
        if level != yang5::ffi::LY_LOG_LEVEL::LY_LLERR {
            return;
        }
        ERRORS.with_borrow_mut(|errors| {
            if errors.len() >= ERROR_LIMIT {
                if let Some(last) = errors.last_mut() {
                    last.more += 1;
                }
                return;
            }
            errors.push(LibyangError {
                message: message.unwrap_or_default().into_owned(),
                data_path: data_path.unwrap_or_default().into_owned(),
                schema_path: schema_path.unwrap_or_default().into_owned(),
                line,
                more: 0,
            });
        });
    }
}

/// Runs `call` and returns its result with the errors that libyang reported meanwhile.
pub fn collect_errors<T>(call: impl FnOnce() -> T) -> (T, Vec<LibyangError>) {
    ERRORS.with_borrow_mut(Vec::clear);
    let result = call();
    (result, ERRORS.with_borrow_mut(std::mem::take))
}
