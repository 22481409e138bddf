//! Errors while setting up or using a lab; each message contains the fix.

use std::time::Duration;

/// An error of the lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The process lacks the rights to make network namespaces.
    #[error(
        "network namespaces need root (CAP_SYS_ADMIN and CAP_NET_ADMIN): {0}. Run it with sudo, e.g. `sudo make run`"
    )]
    NotRoot(String),
    /// A required program is not installed.
    #[error(
        "`{program}` is not installed; install it with `apt-get install {package}` (or run `scripts/setup {group}`)"
    )]
    ToolMissing {
        /// The missing program.
        program: &'static str,
        /// The Debian and Ubuntu package that contains it.
        package: &'static str,
        /// The group of `scripts/setup` it belongs to.
        group: &'static str,
    },
    /// A command failed.
    #[error("`{command}` ended with {status}; last output: {printed}")]
    CommandFailed {
        /// The command line.
        command: String,
        /// The exit status.
        status: String,
        /// The last lines of its output.
        printed: String,
    },
    /// A command did not exit in time and was killed.
    #[error("`{command}` did not end within {deadline:?} and was stopped; last output: {printed}")]
    CommandDeadline {
        /// The command line.
        command: String,
        /// Its timeout.
        deadline: Duration,
        /// The last lines of its output.
        printed: String,
    },
    /// A condition was not met in time.
    #[error("timed out after {deadline:?} waiting until {what}{last}")]
    WaitDeadline {
        /// The condition.
        what: String,
        /// The timeout.
        deadline: Duration,
        /// The last observed state, empty or starting with a semicolon.
        last: String,
    },
    /// The kernel rejects both methods of putting a VLAN tag on a link.
    #[error(
        "cannot tag {device} with VLAN {vid}: BPF at the link (TCX, Linux 6.6 or newer): {bpf}; \
         a VLAN device: {device_error}. Grant CAP_BPF and CAP_NET_ADMIN, or load the module 8021q (`modprobe 8021q`)"
    )]
    NoVlan {
        /// The link.
        device: String,
        /// The outermost VLAN id.
        vid: u16,
        /// Why BPF failed.
        bpf: String,
        /// Why the VLAN device failed.
        device_error: String,
    },
    /// Ctrl-C or a termination signal arrived; everything is cleaned up.
    #[error("interrupted")]
    Interrupted,
    /// The router exited by itself.
    #[error("the router exited ({status}); last log lines: {printed}")]
    RouterExited {
        /// The exit status.
        status: String,
        /// The end of its log.
        printed: String,
    },
    /// The router binary is missing.
    #[error("{0}: no router binary; build it with `make build`, or set STOA_BIN")]
    NoBinary(String),
    /// Output or input that cannot be parsed.
    #[error("{what} cannot be read: {reason}")]
    ParseFailed {
        /// The parsed output.
        what: String,
        /// Why it cannot be parsed.
        reason: String,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: String,
        /// The error of the system call.
        source: std::io::Error,
    },
}

impl LabError {
    /// Wraps a system error with its operation.
    pub fn system(what: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::System { what: what.into(), source: source.into() }
    }
}

/// The last `lines` lines of `text`, as one line for a message.
pub(crate) fn last_lines(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let from = all.len().saturating_sub(lines);
    if all.is_empty() { "(nothing)".to_owned() } else { all[from..].join(" | ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_the_last_lines() {
        assert_eq!(last_lines("a\n\n b \nc\n", 2), "b | c");
        assert_eq!(last_lines("", 2), "(nothing)");
    }
}
