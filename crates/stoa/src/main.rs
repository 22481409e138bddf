//! The router, without plugins.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    stoa::Router::default().main()
}
