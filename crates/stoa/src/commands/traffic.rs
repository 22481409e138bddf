//! `stoa traffic`: tests a device with packets that are tracked one by one.

mod compare;
mod method;
mod run;
mod source;
mod table;

use clap::{Args, Subcommand};

use crate::failure::Outcome;

/// Test a device: send streams of packets through it, measure loss, delay and reordering
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa traffic run lab.yaml                           Run the streams of a run file
  stoa traffic run lab.yaml --rate 50% --seconds 60 --report lab.html
  stoa traffic rfc2544 lab.yaml --test throughput     Find the highest rate without loss
  stoa traffic compare before.json after.json
  stoa traffic run --port a=memif:/run/a.sock --port b=memif:/run/b.sock --rate 1mpps

No router of Stoa is needed: the device under test is anything with two links to this machine.")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Run(Box<run::Arguments>),
    Rfc2544(Box<method::Rfc2544>),
    Csit(Box<method::Csit>),
    Compare(compare::Arguments),
}

/// Runs the action.
pub fn execute(arguments: Arguments) -> Outcome {
    match arguments.action {
        Action::Run(arguments) => run::execute(*arguments),
        Action::Rfc2544(arguments) => method::rfc2544(&arguments),
        Action::Csit(arguments) => method::csit(&arguments),
        Action::Compare(arguments) => compare::execute(&arguments),
    }
}
