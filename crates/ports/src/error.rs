//! Why a port could not be opened, and what to do about it.

use std::path::PathBuf;

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A value that the driver cannot work with.
    #[error("{field}: {reason}")]
    Config {
        /// The field of the configuration.
        field: &'static str,
        /// What is wrong, and the valid values.
        reason: String,
    },
    /// The device does not support the settings in its present state.
    #[error("{field}: {reason}")]
    Unsupported {
        /// The field of the configuration.
        field: &'static str,
        /// What the device lacks and what to do about it.
        reason: String,
    },
    /// This program has no such driver.
    #[error(
        "this build has no {driver} driver: choose another, or build Stoa with it (`scripts/setup {driver}`, \
         then `make build`; of cargo: `--features {driver}`)"
    )]
    NotBuilt {
        /// The driver.
        driver: &'static str,
    },
    /// A capability is missing.
    #[error("{what} needs {capability}: {}", stoa_engine::capabilities::fix(&[*capability]))]
    Permission {
        /// What was tried.
        what: String,
        /// The capability that it needs.
        capability: &'static str,
    },
    /// The system refuses, for one of several reasons.
    #[error("{what}: {source}; {reason}")]
    Rights {
        /// What was tried.
        what: String,
        /// The system's answer.
        source: std::io::Error,
        /// What is missing, and what to do about it.
        reason: String,
    },
    /// There is no such network device.
    #[error("there is no device {device:?}{} yet: create it, or fix the name", in_netns(netns))]
    NoDevice {
        /// The device.
        device: String,
        /// Where it was looked for.
        netns: Option<String>,
    },
    /// There is no such network namespace.
    #[error("no network namespace {netns}: create it first, or fix the name")]
    NoNamespace {
        /// Name or path.
        netns: String,
    },
    /// Another network namespace has the name since the device was looked up.
    #[error(
        "network namespace {netns} was deleted and made again: the device is opened anew there"
    )]
    OtherNamespace {
        /// Name or path.
        netns: String,
    },
    /// The process that opens devices in other network namespaces does not do it.
    #[error(
        "the device opener, by which the forwarder reaches other network namespaces, {reason}: restart the forwarder"
    )]
    NoOpener {
        /// What it did or did not do.
        reason: String,
    },
    /// Another program holds it.
    #[error("{what} is in use: stop the other user or choose another")]
    Busy {
        /// The device, socket or file.
        what: String,
    },
    /// The system has no TUN/TAP devices.
    #[error(
        "/dev/net/tun: {source}; load the module (modprobe tun) and restart the forwarder, or give the container the \
         device (--device /dev/net/tun)"
    )]
    NoTun {
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: {reason}", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        reason: String,
    },
    /// The pool has too few buffers for this port.
    #[error(
        "the port needs {required} packet buffers, {buffers} exist: raise /stoa-system:system/workers/buffers"
    )]
    Buffers {
        /// Buffers that the port would hold.
        required: u64,
        /// Buffers of the pool.
        buffers: u32,
    },
    /// The system refused.
    #[error("{doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl OpenError {
    /// Whether the error may pass by itself: the device, namespace or socket is not there yet, or
    /// still in use, or the device cannot do now what it can when it is set up otherwise.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NoDevice { .. } | Self::NoNamespace { .. } | Self::Busy { .. } => true,
            Self::OtherNamespace { .. } => true,
            Self::System { .. } | Self::Unsupported { .. } | Self::NoOpener { .. } => true,
            Self::File { source, .. } => source.kind() == std::io::ErrorKind::AddrInUse,
            Self::Config { .. } | Self::NotBuilt { .. } | Self::Permission { .. } => false,
            Self::Rights { .. } => false,
            Self::BadFile { .. } | Self::Buffers { .. } | Self::NoTun { .. } => false,
        }
    }
}

fn in_netns(netns: &Option<String>) -> String {
    netns.as_ref().map(|name| format!(" in network namespace {name}")).unwrap_or_default()
}
