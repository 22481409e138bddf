//! The crypto engines of the process: all workers share them, and each proves itself once.

use std::sync::OnceLock;

use stoa_crypto::{Engines, ForceError};

static ENGINES: OnceLock<Engines> = OnceLock::new();

/// The engines. The fastest one of each algorithm is in use, unless [`force`] was called before.
///
/// # Panics
/// If an engine cannot start that nobody has asked for: an error found at start.
pub fn engines() -> &'static Engines {
    let start = || Engines::start(&[]).unwrap_or_else(|error| panic!("crypto engines: {error}"));
    ENGINES.get_or_init(start)
}

/// Prefers the engines of these names, in this order, for all algorithms that they have. `false`: engines are in use
/// already.
///
/// # Errors
/// A name is unknown, or its engine is refused.
pub fn force(names: &[&str]) -> Result<bool, ForceError> {
    Ok(ENGINES.set(Engines::start(names)?).is_ok())
}
