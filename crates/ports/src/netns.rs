//! Work inside another network namespace, by a program that may enter it.
//!
//! A forwarder does not: its device opener does (`device_opener`).

use std::fs::OpenOptions;
use std::io::Error;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::resume_unwind;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};

use crate::error::OpenError;

/// Does `work` in the namespace `netns`: a name below `/run/netns`, a path, or `None` for our
/// own. What `work` opens stays in that namespace. Takes some 50 µs.
///
/// # Errors
/// No such namespace; no right to enter it (CAP_SYS_ADMIN); no thread left for the work.
pub(crate) fn within<T: Send>(
    netns: Option<&str>,
    work: impl FnOnce() -> T + Send,
) -> Result<T, OpenError> {
    match netns {
        Some(name) => enter(name, work).map_err(|error| explain(name, error)),
        None => Ok(work()),
    }
}

/// Why a namespace was not entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotEntered {
    /// What failed.
    pub step: Step,
    /// The system's error number.
    pub errno: i32,
}

/// A step on the way into a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To open its file.
    Open,
    /// To begin a thread for the work.
    Thread,
    /// To enter it.
    Enter,
}

impl Step {
    fn failed(self) -> impl Fn(Error) -> NotEntered {
        move |error| NotEntered { step: self, errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }
}

/// Does `work` in the namespace of that name, on a thread of its own.
pub(crate) fn enter<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> Result<T, NotEntered> {
    let mut options = OpenOptions::new();
    // A pipe of that name does not keep us waiting.
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path(name)).map_err(Step::Open.failed())?;
    std::thread::scope(|scope| {
        // Only this short-lived thread changes its namespace: nothing has to be changed back.
        let inside = std::thread::Builder::new().name("netns".into()).spawn_scoped(scope, || {
            let entered = setns(file, CloneFlags::CLONE_NEWNET).map_err(Error::from);
            entered.map_err(Step::Enter.failed())?;
            Ok(work())
        });
        let inside = inside.map_err(Step::Thread.failed())?;
        inside.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Which namespace a name means now: device and inode of its file.
pub(crate) type Identity = (u64, u64);

/// The namespace that `netns` names now; `None`: there is none of that name. Our own namespace is always there.
pub(crate) fn identity(netns: Option<&str>) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let Some(name) = netns else { return Some((0, 0)) };
    let file = std::fs::metadata(path(name)).ok()?;
    Some((file.dev(), file.ino()))
}

/// Checks that a name is still that of the namespace `before`: what was opened by that name since is in one namespace.
///
/// # Errors
/// It was made anew, or is gone.
pub(crate) fn check_same(netns: Option<&str>, before: Option<Identity>) -> Result<(), OpenError> {
    match netns {
        Some(name) if identity(netns) != before || before.is_none() => {
            Err(OpenError::NoNamespace { netns: name.to_owned() })
        }
        _ => Ok(()),
    }
}

fn path(name: &str) -> PathBuf {
    if name.contains('/') { PathBuf::from(name) } else { PathBuf::from("/run/netns").join(name) }
}

/// The error about the namespace `name`, with what to do about it.
pub(crate) fn explain(name: &str, NotEntered { step, errno }: NotEntered) -> OpenError {
    let source = Error::from_raw_os_error(errno);
    match (step, Errno::from_raw(errno)) {
        (Step::Open, Errno::ENOENT) => OpenError::NoNamespace { netns: name.to_owned() },
        (Step::Open, _) => OpenError::File { path: path(name), source },
        (Step::Enter, Errno::EPERM) => OpenError::Permission {
            what: format!("to enter network namespace {name}"),
            capability: "CAP_SYS_ADMIN",
        },
        // The file is there and is no namespace.
        (Step::Enter, Errno::EINVAL) => OpenError::BadFile {
            path: path(name),
            reason: "this is not a network namespace: give one that `ip netns` lists".into(),
        },
        (Step::Enter, _) => OpenError::System { doing: "enter a network namespace", source },
        (Step::Thread, _) => {
            OpenError::System { doing: "make a thread for another network namespace", source }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_namespace_is_named() {
        let error = within(Some("stoa-no-such-namespace"), || ()).unwrap_err();
        assert!(matches!(error, OpenError::NoNamespace { .. }), "{error}");
        assert!(error.to_string().contains("stoa-no-such-namespace"));
    }

    /// In a process of its own, whose limit on memory does not disturb other tests: a stack
    /// finds no space.
    #[test]
    fn a_missing_thread_is_an_error() {
        const ALONE: &str = "STOA_TEST_NO_THREAD";
        let name = "netns::tests::a_missing_thread_is_an_error";
        if std::env::var_os(ALONE).is_none() {
            let us = std::env::current_exe().unwrap();
            let mut child = std::process::Command::new(us);
            let ended = child.args(["--exact", name]).env(ALONE, "1").status().unwrap();
            assert!(ended.success());
            return;
        }
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
        let limit = |bytes| {
            let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: the limit lives through the call.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
        };
        limit(pages * 4096 + (1 << 20));
        let answer = within(Some("/proc/self/ns/net"), || ());
        limit(libc::RLIM_INFINITY);
        let error = answer.unwrap_err().to_string();
        assert!(error.contains("make a thread"), "{error}");
    }

    #[test]
    fn to_enter_takes_a_capability() {
        let enter = || within(Some("/proc/self/ns/net"), || ()).map_err(|error| error.to_string());
        let without = std::thread::spawn(move || {
            stoa_engine::capabilities::keep(&[]).unwrap();
            enter()
        });
        assert!(without.join().unwrap().unwrap_err().contains("CAP_SYS_ADMIN"));
        if !nix::unistd::geteuid().is_root() {
            println!("SKIPPED: the rest needs root");
            return;
        }
        assert_eq!(enter(), Ok(()));
        let panics = std::thread::spawn(|| within(Some("/proc/self/ns/net"), || panic!("inside")));
        assert!(panics.join().is_err(), "a panic comes back");
        let error = within(Some("/dev/null"), || ()).unwrap_err().to_string();
        assert!(error.contains("not a network namespace"), "{error}");
    }

    #[test]
    fn a_name_that_means_another_namespace_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("blue");
        let name = path.to_str();
        let link = |to: &str| std::os::unix::fs::symlink(to, &path).unwrap();
        link("/proc/self/ns/net");
        let before = identity(name);
        assert!(check_same(name, before).is_ok());
        std::fs::remove_file(&path).unwrap();
        assert!(check_same(name, before).unwrap_err().may_pass(), "it is gone");
        link("/proc/self/ns/mnt");
        assert!(check_same(name, before).unwrap_err().may_pass(), "another one has its name");
        assert!(check_same(None, identity(None)).is_ok());
    }

    #[test]
    fn without_a_name_we_stay() {
        let here = std::thread::current().id();
        assert_eq!(within(None, || std::thread::current().id()).unwrap(), here);
    }
}
