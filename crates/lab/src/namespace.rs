//! Named network namespaces, deleted when dropped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Command, LabError, Result, Tool, interrupt};

static NEXT: AtomicU32 = AtomicU32::new(0);
static SWEPT: Once = Once::new();

/// Prefix of the names of all namespaces of a lab: `stoa-PID-NUMBER-LABEL`.
const PREFIX: &str = "stoa-";

/// Settings of every new namespace: no duplicate address detection, no router solicitations, no autoconfigured
/// addresses, so that captures contain only test traffic.
const QUIET: [(&str, &str); 8] = [
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/all/accept_ra", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/all/router_solicitations", "0"),
    ("ipv6/conf/default/router_solicitations", "0"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
];

/// A network namespace that `ip netns` lists by name. Dropping it kills the processes inside and deletes it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Creates a namespace whose name ends with `label`.
    ///
    /// # Errors
    ///
    /// [`LabError::NotRoot`] without the privileges; [`LabError::ToolMissing`] without iproute2.
    pub fn new(label: &str) -> Result<Self> {
        if !nix::unistd::geteuid().is_root() {
            return Err(LabError::NotRoot("this user is not root".to_owned()));
        }
        interrupt::watch();
        SWEPT.call_once(sweep);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}-{label}", std::process::id());
        let output = Command::tool(Tool::IP)?.args(["netns", "add", &name]).run()?;
        if !output.success() {
            return Err(LabError::NotRoot(output.stderr.trim().to_owned()));
        }
        let made = Self { name };
        made.ip(&["link", "set", "lo", "up"])?;
        for (key, value) in QUIET {
            made.sysctl(key, value)?;
        }
        Ok(made)
    }

    /// Its name, for `ip netns exec NAME`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command to run inside.
    ///
    /// # Errors
    ///
    /// [`LabError::ToolMissing`] when the tool is not installed.
    pub fn command(&self, tool: Tool) -> Result<Command> {
        Ok(Command::tool(tool)?.inside(&self.name))
    }

    /// Runs `ip` on this namespace and returns its output.
    ///
    /// # Errors
    ///
    /// [`LabError::CommandFailed`] when `ip` fails.
    pub fn ip(&self, arguments: &[&str]) -> Result<String> {
        let command = Command::tool(Tool::IP)?.args(["-n", &self.name]).args(arguments);
        Ok(command.run()?.ok()?.stdout)
    }

    /// Sets the kernel parameter `net/KEY` of this namespace.
    ///
    /// # Errors
    ///
    /// There is no such parameter, or it cannot be written.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<()> {
        let file = format!("/proc/sys/net/{key}");
        let content = value.to_owned();
        self.enter(move || {
            std::fs::write(&file, &content)
                .map_err(|error| LabError::system(format!("set {file} to {content}"), error))
        })?
    }

    /// A handle for a thread that enters the namespace permanently.
    ///
    /// # Errors
    ///
    /// The namespace is gone.
    pub fn handle(&self) -> Result<Handle> {
        let path = PathBuf::from("/run/netns").join(&self.name);
        let file = File::open(&path)
            .map_err(|error| LabError::system(format!("open {}", path.display()), error))?;
        Ok(Handle(file))
    }

    /// Runs `work` on a new thread inside this namespace.
    ///
    /// # Errors
    ///
    /// The namespace cannot be entered.
    pub fn enter<T, F>(&self, work: F) -> Result<T>
    where
        T: Send,
        F: FnOnce() -> T + Send,
    {
        let handle = self.handle()?;
        std::thread::scope(|scope| {
            // Only this short-lived thread changes its namespace, so nothing has to be restored.
            let inside = scope.spawn(move || handle.pass().map(|()| work()));
            match inside.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

/// A handle of a namespace, which exists as long as the handle does.
#[derive(Debug)]
pub struct Handle(File);

impl Handle {
    /// Moves the calling thread into the namespace, permanently.
    ///
    /// # Errors
    ///
    /// An error of the kernel.
    pub fn pass(self) -> Result<()> {
        setns(self.0, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| LabError::system("enter a namespace", errno))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Removes what labs of dead processes have left behind: their namespaces with the processes inside, and their
/// folders.
pub fn sweep() {
    for name in orphans(Path::new("/run/netns")) {
        remove(&name);
    }
    let folders = std::env::temp_dir();
    for name in orphans(&folders) {
        // Another user's folder cannot be removed, which is no error.
        let _ = std::fs::remove_dir_all(folders.join(name));
    }
}

/// Entries of a folder named `stoa-PID-...` whose process is dead.
fn orphans(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| {
            let rest = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
            let pid = rest.and_then(|(pid, _)| pid.parse::<i32>().ok()).filter(|pid| *pid > 0);
            pid.is_some_and(|pid| kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH))
        })
        .collect()
}

/// Kills the processes inside and deletes the namespace. It continues after errors: it runs while unwinding and after
/// Ctrl-C, when the bounded commands of this crate no longer start.
fn remove(name: &str) {
    let Ok(ip) = Tool::IP.find() else { return };
    let call = |arguments: &[&str]| {
        std::process::Command::new(&ip).args(arguments).stderr(std::process::Stdio::null()).output()
    };
    if let Ok(output) = call(&["netns", "pids", name]) {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for pid in text.lines().filter_map(|line| line.trim().parse::<i32>().ok()) {
            // All processes inside a lab's namespace belong to the lab.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    // An error means that the namespace is already gone.
    let _ = call(&["netns", "delete", name]);
}
