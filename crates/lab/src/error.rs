//! What can go wrong while a lab is set up or used, in words that tell the operator what to do.

use std::time::Duration;

/// An error of the lab. The text says what to do about it where something can be done.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The process lacks the rights to make network namespaces.
    #[error(
        "network namespaces need root (CAP_SYS_ADMIN and CAP_NET_ADMIN): {0}. Run it with sudo, e.g. `sudo make run`"
    )]
    NotRoot(String),
    /// A program that is needed is not installed.
    #[error(
        "`{program}` is not installed; install it with `apt-get install {package}` (or run `scripts/setup {group}`)"
    )]
    ToolMissing {
        /// The program that was looked for.
        program: &'static str,
        /// The Debian and Ubuntu package that has it.
        package: &'static str,
        /// The group of `scripts/setup` it belongs to.
        group: &'static str,
    },
    /// A command ended with an error.
    #[error("`{command}` ended with {status}: {said}")]
    CommandFailed {
        /// The command as one would type it.
        command: String,
        /// How it ended.
        status: String,
        /// The last lines of what it said.
        said: String,
    },
    /// A command did not end in time and was killed.
    #[error("`{command}` did not end within {deadline:?} and was stopped; it said: {said}")]
    CommandDeadline {
        /// The command as one would type it.
        command: String,
        /// How long it had.
        deadline: Duration,
        /// The last lines of what it said.
        said: String,
    },
    /// A condition did not come true in time.
    #[error("waited {deadline:?} in vain until {what}{last}")]
    WaitDeadline {
        /// What was waited for.
        what: String,
        /// How long.
        deadline: Duration,
        /// What was seen last, empty or starting with a semicolon.
        last: String,
    },
    /// The kernel refuses both ways of putting a VLAN tag on a link.
    #[error(
        "cannot tag {device} with VLAN {vid}: BPF at the link (TCX, Linux 6.6 or newer) said: {bpf}; \
         a VLAN device said: {device_said}. Either needs CAP_BPF and CAP_NET_ADMIN, or the module 8021q (`modprobe 8021q`)"
    )]
    NoVlan {
        /// The link.
        device: String,
        /// The outermost VLAN id.
        vid: u16,
        /// Why BPF did not do.
        bpf: String,
        /// Why a VLAN device did not do.
        device_said: String,
    },
    /// Ctrl-C or a termination signal came; everything is being cleaned up.
    #[error("interrupted")]
    Interrupted,
    /// The router ended by itself.
    #[error("the router ended ({status}); its last words: {said}")]
    RouterEnded {
        /// How it ended.
        status: String,
        /// The end of its log.
        said: String,
    },
    /// The router binary is not there.
    #[error("no router at {0}; build it with `make build`, or set STOA_BIN")]
    NoBinary(String),
    /// What was said was not understood.
    #[error("{what} cannot be read: {reason}")]
    NotUnderstood {
        /// What was read.
        what: String,
        /// Why it cannot be read.
        reason: String,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl LabError {
    /// Wraps a system error with what was tried.
    pub fn system(what: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::System { what: what.into(), source: source.into() }
    }
}

/// The last `lines` lines of `text`, as one line for a message.
pub(crate) fn last_words(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let from = all.len().saturating_sub(lines);
    if all.is_empty() { "(nothing)".to_owned() } else { all[from..].join(" | ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_the_last_lines_in_one() {
        assert_eq!(last_words("a\n\n b \nc\n", 2), "b | c");
        assert_eq!(last_words("", 2), "(nothing)");
    }
}
