//! `stoa device-opener`: the process that opens devices in other network namespaces. `stoa forwarder` starts it.

use std::process::ExitCode;

use stoa_controller::privileges;
use stoa_forwarder::device_opener::DeviceOpener;

use crate::failure::{Failure, Outcome};

/// Open devices in other network namespaces (`stoa forwarder` starts it)
#[derive(Debug, clap::Args)]
pub struct Arguments {}

/// Answers the forwarder until it ends.
pub fn execute(_: Arguments) -> Outcome {
    let failed = |error| Failure::context("the device opener ended", error);
    // The filter of system calls comes last: it does not let the process restrict its files.
    let opener = DeviceOpener::new().map_err(failed)?;
    privileges::confine(privileges::Process::DeviceOpener).map_err(failed)?;
    opener.serve().map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
