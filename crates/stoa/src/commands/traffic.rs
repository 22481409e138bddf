//! `stoa traffic`: test a device with packets that are counted one by one.

mod compare;
mod method;
mod run;
mod source;
mod table;

use clap::{Args, Subcommand};

use crate::failure::Outcome;

/// Test a device: send streams of packets through it, find what is lost, late or out of order
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa traffic run lab.yaml                           What a run file says
  stoa traffic run lab.yaml --rate 50% --seconds 60 --report lab.html
  stoa traffic rfc2544 lab.yaml --test throughput     How fast is it?
  stoa traffic compare before.json after.json
  stoa traffic run --port a=memif:/run/a.sock --port b=memif:/run/b.sock --rate 1mpps

It needs no router of ours: any device will do that has two links to this machine.")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Run(Box<run::Arguments>),
    Rfc2544(Box<method::Rfc2544>),
    Csit(Box<method::Csit>),
    Compare(compare::Arguments),
}

/// Does it.
pub fn execute(arguments: Arguments) -> Outcome {
    match arguments.what {
        What::Run(arguments) => run::execute(*arguments),
        What::Rfc2544(arguments) => method::rfc2544(&arguments),
        What::Csit(arguments) => method::csit(&arguments),
        What::Compare(arguments) => compare::execute(&arguments),
    }
}
