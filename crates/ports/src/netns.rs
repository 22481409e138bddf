//! Work inside another network namespace: where the drivers of Linux devices open their sockets.
//!
//! To enter one takes CAP_SYS_ADMIN, and capabilities belong to threads. [`start_entering_thread`] starts the one
//! thread that keeps it: all others of a forwarder can give it up.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel, sync_channel};

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
    let Some(name) = netns else { return Ok(work()) };
    let file = File::open(path(name)).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => OpenError::NoNamespace { netns: name.to_owned() },
        _ => OpenError::File { path: path(name), source },
    })?;
    let enter = || {
        setns(file, CloneFlags::CLONE_NEWNET).map_err(|errno| refused(name, errno))?;
        Ok(work())
    };
    if let Some(jobs) = JOBS.get() {
        return by_entering_thread(jobs, enter);
    }
    std::thread::scope(|scope| {
        // Only this short-lived thread changes its namespace: nothing has to be changed back.
        let inside = std::thread::Builder::new().name("netns".into()).spawn_scoped(scope, enter);
        inside.map_err(no_thread)?.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn no_thread(source: std::io::Error) -> OpenError {
    OpenError::System { doing: "make a thread for another network namespace", source }
}

/// What the thread that may enter namespaces does, each on a short-lived thread of its own.
type Job = Box<dyn FnOnce() + Send>;

/// Leads to the thread that may enter namespaces.
static JOBS: OnceLock<Sender<Job>> = OnceLock::new();

/// Starts the thread that enters namespaces for all others from now on, with the capabilities of the calling thread.
///
/// # Errors
/// No thread is left.
pub fn start_entering_thread() -> std::io::Result<()> {
    let (sender, jobs) = channel::<Job>();
    std::thread::Builder::new().name("netns".into()).spawn(move || {
        for job in jobs {
            // A job that finds no thread is dropped, which its sender notices. Nobody waits here: a job may have
            // another one done.
            drop(std::thread::Builder::new().name("netns".into()).spawn(job));
        }
    })?;
    // A second call leaves the first thread in place, and its own ends.
    let _ = JOBS.set(sender);
    Ok(())
}

/// Does `enter` on a thread of the one that may enter namespaces, and waits for its end.
fn by_entering_thread<T: Send>(
    jobs: &Sender<Job>,
    enter: impl FnOnce() -> Result<T, OpenError> + Send,
) -> Result<T, OpenError> {
    let (answer, answered) = sync_channel(1);
    let job: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
        // The receiver waits below.
        let _ = answer.send(catch_unwind(AssertUnwindSafe(enter)));
    });
    // SAFETY: only the lifetime changes. The job borrows from our caller, and we return only when it is gone: `recv`
    // ends when the job has sent its answer, as the last thing that uses what it borrows, or was dropped without
    // having run.
    let job: Job = unsafe { std::mem::transmute(job) };
    drop(jobs.send(job));
    let gone = |_| no_thread(std::io::ErrorKind::WouldBlock.into());
    answered.recv().map_err(gone)?.unwrap_or_else(|panic| resume_unwind(panic))
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

fn path(name: &str) -> PathBuf {
    if name.contains('/') { PathBuf::from(name) } else { PathBuf::from("/run/netns").join(name) }
}

fn refused(name: &str, errno: Errno) -> OpenError {
    match errno {
        Errno::EPERM => OpenError::Permission {
            what: format!("to enter network namespace {name}"),
            capability: "CAP_SYS_ADMIN",
        },
        // The file is there and is no namespace.
        Errno::EINVAL => OpenError::BadFile {
            path: path(name),
            reason: "this is not a network namespace: give one that `ip netns` lists".into(),
        },
        errno => OpenError::System { doing: "enter a network namespace", source: errno.into() },
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

    /// The thread that opens devices needs no capability to enter a namespace. In a process of its own: the thread that
    /// is started stays.
    #[test]
    fn only_the_entering_thread_needs_the_capability() {
        const ALONE: &str = "STOA_TEST_ENTERING";
        let name = "netns::tests::only_the_entering_thread_needs_the_capability";
        if !nix::unistd::geteuid().is_root() {
            println!("SKIPPED: needs root");
            return;
        }
        if std::env::var_os(ALONE).is_none() {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let ended = child.args(["--exact", name]).env(ALONE, "1").status().unwrap();
            assert!(ended.success());
            return;
        }
        let enter = || {
            std::thread::spawn(|| {
                stoa_engine::capabilities::keep(&[]).unwrap();
                let here = std::thread::current().id();
                let borrowed = String::from("answer");
                let inside = within(Some("/proc/self/ns/net"), || {
                    assert_ne!(std::thread::current().id(), here);
                    borrowed.as_str()
                });
                inside.map(str::to_owned).map_err(|error| error.to_string())
            })
        };
        assert!(enter().join().unwrap().unwrap_err().contains("CAP_SYS_ADMIN"));
        start_entering_thread().unwrap();
        assert_eq!(enter().join().unwrap().as_deref(), Ok("answer"));
        let panics = std::thread::spawn(|| within(Some("/proc/self/ns/net"), || panic!("inside")));
        assert!(panics.join().is_err(), "a panic comes back");
        assert_eq!(enter().join().unwrap().as_deref(), Ok("answer"), "and the thread stays");
    }

    #[test]
    fn without_a_name_we_stay() {
        let here = std::thread::current().id();
        assert_eq!(within(None, || std::thread::current().id()).unwrap(), here);
    }
}
