//! Why Stoa did not start, or ended.

use std::path::PathBuf;

use stoa_yang::error::ValidationError;

/// Why Stoa did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong.
    #[error("the configuration is refused")]
    Refused(Vec<ValidationError>),
    /// A port needs a capability that this process lacks.
    #[error("a privilege is missing")]
    Privileges(Vec<ValidationError>),
    /// Another Stoa serves the socket.
    #[error(
        "Stoa already runs on {} (process {pid}): stop it, use `stoa reload`, \
         or use another --socket", socket.display()
    )]
    Runs {
        /// Its socket.
        socket: PathBuf,
        /// Its supervisor.
        pid: String,
    },
    /// Another Stoa uses the state folder.
    #[error(
        "another Stoa uses {} (process {pid}), and would commit over this one: stop it, or use another configuration \
         with another --state", state.display()
    )]
    StateInUse {
        /// The folder.
        state: PathBuf,
        /// The supervisor, or the controller that has none.
        pid: String,
    },
    /// A system call failed.
    #[error("{what}: {error}{}", hint(error))]
    System {
        /// The operation.
        what: String,
        /// The error of the system call.
        error: std::io::Error,
    },
    /// A child exits repeatedly; the log has its messages.
    #[error("the {0} exits again and again: see its messages above")]
    KeepsExiting(&'static str),
    /// The controller or the forwarder refused the configuration and logged the errors.
    #[error("not started: see the errors above")]
    RefusedByChild,
}

fn hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied if nix::unistd::geteuid().is_root() => {
            "; root lacks CAP_DAC_OVERRIDE here: start the container with --cap-add DAC_OVERRIDE, or use a --socket in a \
             folder of root"
        }
        std::io::ErrorKind::PermissionDenied => {
            "; run as root, or use a --socket in a folder of your own"
        }
        _ => "",
    }
}

pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
    |error| Error::System { what: what.into(), error }
}
