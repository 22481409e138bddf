//! The commands: one file each, one line each in the list below.

mod acl;
mod activate;
mod annotate;
mod bench;
mod capture;
mod check;
mod clear;
mod commit;
mod compare;
mod completions;
mod console;
mod controller;
mod copy;
mod deactivate;
mod delete;
mod demo;
mod device_opener;
mod discard;
mod doctor;
mod forwarder;
mod insert;
mod load;
mod man;
mod nat;
mod ping;
mod reload;
mod rename;
mod rollback;
mod run;
mod save;
mod set;
mod show;
mod status;
mod top;
mod trace;
mod traceroute;
mod traffic;
mod upgrade;
mod user;

use crate::failure::Outcome;

pub use show::execute_topic as show_topic;
pub use user::NewUser;

macro_rules! commands {
    ($($(#[$attribute:meta])* $variant:ident $module:ident,)*) => {
        /// The commands of the program.
        #[derive(Debug, clap::Subcommand)]
        pub enum Command {
            $($(#[$attribute])* $variant($module::Arguments),)*
        }

        impl Command {
            /// Runs the command.
            pub fn execute(self) -> Outcome {
                match self {
                    $(Command::$variant(arguments) => $module::execute(arguments),)*
                }
            }
        }
    };
}

impl Command {
    /// The console on the default socket.
    pub fn console() -> Command {
        Command::Console(console::Arguments::default())
    }

    /// The program name in log messages.
    pub fn log_name(&self) -> &'static str {
        match self {
            Command::Controller(_) => "stoa-controller",
            Command::Forwarder(_) => "stoa-forwarder",
            Command::DeviceOpener(_) => "stoa-device-opener",
            _ => "stoa",
        }
    }

    /// The default log level. Checks and measurements print only their results.
    pub fn log_level(&self) -> &'static str {
        match self {
            Command::Bench(_) | Command::Check(_) | Command::Traffic(_) => "warn",
            _ => "info",
        }
    }
}

// A command is `Arguments` (its doc comment is the help) and `execute`.
commands! {
    Run run,
    Check check,
    Reload reload,
    Set set,
    Delete delete,
    Copy copy,
    Rename rename,
    Insert insert,
    Deactivate deactivate,
    Activate activate,
    Annotate annotate,
    Compare compare,
    Commit commit,
    Rollback rollback,
    Discard discard,
    Load load,
    Save save,
    Status status,
    Upgrade upgrade,
    Show show,
    Clear clear,
    Top top,
    Console console,
    Ping ping,
    Traceroute traceroute,
    Trace trace,
    Capture capture,
    Acl acl,
    Nat nat,
    Doctor doctor,
    Demo demo,
    Bench bench,
    Traffic traffic,
    User user,
    Completions completions,
    #[command(hide = true)] Man man,
    #[command(hide = true)] Controller controller,
    #[command(hide = true)] Forwarder forwarder,
    #[command(hide = true)] DeviceOpener device_opener,
}
