//! Network namespaces by name, and work inside one, by a program that may enter it.
//!
//! A forwarder does not: its device opener does (`device_opener`).

use std::fs::{Metadata, OpenOptions};
use std::io::Error;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::resume_unwind;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};

use crate::error::OpenError;

/// Which namespace a name means: device and inode of its file. The kernel may give both to a later namespace, once
/// nothing holds this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

impl From<Metadata> for Identity {
    fn from(file: Metadata) -> Self {
        Self { device: file.dev(), inode: file.ino() }
    }
}

/// The namespace of a device: the name, and which namespace had it when the driver looked it up. All that the driver
/// opens for the device is in that one: a name may be deleted and given to another namespace at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Namespace(Option<(String, Identity)>);

impl Namespace {
    /// Our own.
    pub const OWN: Self = Self(None);

    /// The one that `netns` names now: a name below `/run/netns`, a path, or `None` for our own.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn find(netns: Option<&str>) -> Result<Self, OpenError> {
        let Some(name) = netns else { return Ok(Self::OWN) };
        let file = std::fs::metadata(path(name)).map_err(Step::Open.failed());
        let file = file.map_err(|error| explain(name, error))?;
        Ok(Self(Some((name.to_owned(), file.into()))))
    }

    /// The name, unless it is our own, and which one that was.
    pub fn named(&self) -> Option<(&str, Identity)> {
        self.0.as_ref().map(|(name, identity)| (name.as_str(), *identity))
    }

    /// Whether it still has its name. Our own always has.
    pub fn is_current(&self) -> bool {
        let Some((name, identity)) = self.named() else { return true };
        std::fs::metadata(path(name)).is_ok_and(|file| Identity::from(file) == identity)
    }

    /// Which one it is, our own, too.
    pub fn identity(&self) -> Identity {
        let own = || std::fs::metadata("/proc/thread-self/ns/net").map(Identity::from);
        self.named().map_or_else(|| own().unwrap_or_default(), |(_, identity)| identity)
    }

    /// Does `work` in the namespace. What `work` opens stays there. Takes some 50 µs.
    ///
    /// # Errors
    /// It is gone, or another one has its name; no right to enter it (CAP_SYS_ADMIN); no thread left for the work.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, OpenError> {
        match self.named() {
            Some((name, identity)) => {
                enter(name, identity, work).map_err(|error| explain(name, error))
            }
            None => Ok(work()),
        }
    }
}

/// Why a namespace was not entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotEntered {
    /// What failed.
    pub step: Step,
    /// The system's error number; ESTALE of [`Step::Compare`].
    pub errno: i32,
}

/// A step on the way into a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To open its file.
    Open,
    /// To find the expected namespace there.
    Compare,
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

/// Does `work` in the namespace of that name, if it is the expected one, on a thread of its own.
pub(crate) fn enter<T: Send>(
    name: &str,
    expected: Identity,
    work: impl FnOnce() -> T + Send,
) -> Result<T, NotEntered> {
    let mut options = OpenOptions::new();
    // A pipe of that name does not keep us waiting.
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path(name)).map_err(Step::Open.failed())?;
    // What is open cannot change its identity before it is entered.
    if Identity::from(file.metadata().map_err(Step::Open.failed())?) != expected {
        return Err(NotEntered { step: Step::Compare, errno: libc::ESTALE });
    }
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

fn path(name: &str) -> PathBuf {
    if name.contains('/') { PathBuf::from(name) } else { PathBuf::from("/run/netns").join(name) }
}

/// The error about the namespace `name`, with what to do about it.
pub(crate) fn explain(name: &str, NotEntered { step, errno }: NotEntered) -> OpenError {
    let source = Error::from_raw_os_error(errno);
    match (step, Errno::from_raw(errno)) {
        (Step::Open, Errno::ENOENT) => OpenError::NoNamespace { netns: name.to_owned() },
        (Step::Open, _) => OpenError::File { path: path(name), source },
        (Step::Compare, _) => OpenError::OtherNamespace { netns: name.to_owned() },
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

    fn within<T: Send>(netns: &str, work: impl FnOnce() -> T + Send) -> Result<T, OpenError> {
        Namespace::find(Some(netns))?.within(work)
    }

    #[test]
    fn a_missing_namespace_is_named() {
        let error = Namespace::find(Some("stoa-no-such-namespace")).unwrap_err();
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
        let answer = within("/proc/self/ns/net", || ());
        limit(libc::RLIM_INFINITY);
        let error = answer.unwrap_err().to_string();
        assert!(error.contains("make a thread"), "{error}");
    }

    #[test]
    fn to_enter_takes_a_capability() {
        let enter = || within("/proc/self/ns/net", || ()).map_err(|error| error.to_string());
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
        let panics = std::thread::spawn(|| within("/proc/self/ns/net", || panic!("inside")));
        assert!(panics.join().is_err(), "a panic comes back");
        let error = within("/dev/null", || ()).unwrap_err().to_string();
        assert!(error.contains("not a network namespace"), "{error}");
    }

    #[test]
    fn a_name_that_means_another_namespace_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("blue");
        let name = path.to_str();
        let link = |to: &str| std::os::unix::fs::symlink(to, &path).unwrap();
        link("/proc/self/ns/net");
        let before = Namespace::find(name).unwrap();
        let identity = before.identity();
        assert_eq!(identity, Namespace::OWN.identity());
        assert!(before.is_current() && Namespace::OWN.is_current());
        std::fs::remove_file(&path).unwrap();
        assert!(!before.is_current());
        let gone = before.within(|| ()).unwrap_err();
        assert!(gone.may_pass() && matches!(gone, OpenError::NoNamespace { .. }), "{gone}");
        link("/proc/self/ns/mnt");
        assert!(!before.is_current());
        assert_eq!(before.identity(), identity, "what was looked up stays, also for the lock");
        // Without the right to enter namespaces, too: it is compared before.
        let other = before.within(|| ()).unwrap_err();
        assert!(other.may_pass() && other.to_string().contains("made again"), "{other}");
    }

    #[test]
    fn without_a_name_we_stay() {
        let here = std::thread::current().id();
        let own = Namespace::find(None).unwrap();
        assert_eq!(own.within(|| std::thread::current().id()).unwrap(), here);
    }
}
