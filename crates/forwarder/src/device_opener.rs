//! The process that opens devices in other network namespaces for the forwarder ([`stoa_ports::device_opener`]): how it
//! is started, and what it may open.
//!
//! To enter a namespace takes CAP_SYS_ADMIN, with which whoever has taken over a process takes over the machine. The
//! forwarder reads packets of anybody and has threads that share its memory. The opener reads short requests of the
//! forwarder and nothing else.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use caps::{CapSet, Capability};
use landlock::{AccessFs, RulesetError, make_bitflags};
use nix::sys::signal::{SigSet, Signal};
use stoa_ports::device_opener::{self, Trouble};

use crate::control::file_access::{NAMESPACES, SETTINGS, create, enforce};

/// The hidden command of the program that runs [`DeviceOpener`].
const COMMAND: &str = "device-opener";

/// This program, even if its file has been replaced since.
const PROGRAM: &str = "/proc/self/exe";

/// What the process inherits: how to log, and where libraries are. Sockets of systemd, journald and the supervisor are
/// not for it.
const ENVIRONMENT: [&str; 3] = ["STOA_LOG", "STOA_LOG_FORMAT", "LD_LIBRARY_PATH"];

/// What it says about itself: capabilities, users.
const ITSELF: &str = "/proc/self";
/// What it reads: namespaces, and what the kernel says about its functions, its settings and this process.
const READ: [&str; 4] = [NAMESPACES, "/sys/kernel/btf", "/proc/sys", ITSELF];

/// Starts the device opener of this process, if this process may enter namespaces. To be called by the main thread,
/// with which the opener ends, before the forwarder gives up capabilities and the right to begin processes. Without an
/// opener the forwarder goes on: ports in other namespaces report it.
pub fn start() {
    if let Err(error) = try_start() {
        tracing::warn!(
            "the device opener was not started ({error}): ports in other network namespaces are not opened"
        );
    }
}

fn try_start() -> io::Result<()> {
    let may_enter = caps::has_cap(None, CapSet::Effective, Capability::CAP_SYS_ADMIN);
    if !may_enter.map_err(io::Error::other)? {
        return Ok(());
    }
    let mut program = Command::new(PROGRAM);
    // The name of the program in lists of processes, not that of the link.
    program.arg0("stoa").arg(COMMAND).env_clear();
    program.envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    device_opener::start(&mut program)
}

/// The device opener, in its process.
#[derive(Debug)]
pub struct DeviceOpener {
    socket: OwnedFd,
    /// Folders of /proc that Linux must not forget: it would create them anew, and the rules would be for the earlier
    /// ones.
    _pinned: [Option<File>; 2],
}

impl DeviceOpener {
    /// Takes the socket that [`start`] passed, and gives up all files that no request needs.
    ///
    /// # Errors
    /// Somebody else started this process, or the forwarder has ended.
    pub fn new() -> io::Result<Self> {
        let socket = device_opener::inherited_socket()?;
        nix::sys::prctl::set_name(c"stoa")?;
        device_opener::end_with_parent(&socket)?;
        // Nobody may read its memory or trace it, whatever rights they share.
        nix::sys::prctl::set_dumpable(false)?;
        // It ends after the forwarder, which deletes its devices in the end: signals for a group of processes or for a
        // unit are for the forwarder.
        let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
        signals.thread_block()?;
        let pinned = [SETTINGS, ITSELF].map(|path| File::open(path).ok());
        if let Err(error) = restrict() {
            tracing::warn!("Linux does not restrict the files of the device opener: {error}");
        }
        Ok(Self { socket, _pinned: pinned })
    }

    /// Answers the forwarder until it ends.
    ///
    /// # Errors
    /// The system refuses to receive or to send.
    pub fn serve(self) -> io::Result<()> {
        let mut has_warned = [false; 2];
        device_opener::serve(&self.socket, |trouble| match trouble {
            Trouble::Invalid if !std::mem::replace(&mut has_warned[0], true) => tracing::warn!(
                "refused a request that the forwarder never makes by itself; an attacker may have taken it over"
            ),
            Trouble::Lost(error) if !std::mem::replace(&mut has_warned[1], true) => {
                tracing::warn!("the device opener lost a message, for the first time: {error}");
            }
            _ => {}
        })
    }
}

/// By Landlock, as far as this version of Linux has it; the forwarder's log says so where it has not.
fn restrict() -> Result<(), RulesetError> {
    // Where this user may not create it, nobody names a namespace yet.
    create(Path::new(NAMESPACES), 0o755);
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let written = vec!["/dev/net/tun", SETTINGS];
    enforce([(READ.to_vec(), read), (written, read | AccessFs::WriteFile)]).map(drop)
}
