//! Starts DPDK's environment (EAL), once per process, and keeps its log.

use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::shim;
use crate::error::OpenError;

/// Lines of DPDK's log that are kept.
const LINES: usize = 16;
/// Lines that go into a reason.
const REASON_LINES: usize = 2;
/// Free bytes of huge pages from which on DPDK's own memory is taken from them.
const HUGE_BYTES: u64 = 64 << 20;
/// Processors that DPDK counts.
const PROCESSORS: usize = 128;

static LOG: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
/// One call at a time: the log lines belong to it, and DPDK's list of devices has no lock.
static CALLING: Mutex<()> = Mutex::new(());
static STARTED: Mutex<Option<Result<(), String>>> = Mutex::new(None);

fn lock<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a log line of DPDK. A worker may be the caller: when another thread holds the lock, the line is lost.
extern "C" fn keep_line(text: *const u8, length: usize) {
    // SAFETY: the shim gives the start and the length of one piece of text.
    let text = unsafe { std::slice::from_raw_parts(text, length) };
    let Ok(mut log) = LOG.try_lock() else { return };
    for line in String::from_utf8_lossy(text).lines().map(str::trim).filter(|it| !it.is_empty()) {
        if log.len() == LINES {
            log.pop_front();
        }
        log.push_back(line.to_owned());
    }
}

/// DPDK's log lines about a failure, without the lines that accompany every failure.
fn explanation() -> Option<String> {
    const NOISE: [&str; 4] = ["mp action callback", "to attach", "cannot attach", "FATAL"];
    let log = lock(&LOG);
    let lines = log.iter().filter(|line| !NOISE.iter().any(|noise| line.contains(noise)));
    let lines: Vec<&str> = lines.map(|line| line.trim_start_matches("EAL: ")).collect();
    let last = &lines[lines.len().saturating_sub(REASON_LINES)..];
    (!last.is_empty()).then(|| last.join("; "))
}

/// Why a call of DPDK failed.
pub(super) struct Failure {
    /// A positive errno.
    pub(super) errno: c_int,
    /// DPDK's text, else the system's.
    pub(super) reason: String,
}

/// Calls DPDK and keeps its log lines for a failure.
pub(super) fn attempt(call: impl FnOnce() -> c_int) -> Result<(), Failure> {
    let _calling = lock(&CALLING);
    lock(&LOG).clear();
    let result = call();
    if result >= 0 {
        return Ok(());
    }
    let system = || match -result {
        // Drivers return -1 for any failure, which equals -EPERM.
        libc::EPERM => "the driver refuses it (an argument may be missing or unknown)".to_owned(),
        errno => std::io::Error::from_raw_os_error(errno).to_string(),
    };
    Err(Failure { errno: -result, reason: explanation().unwrap_or_else(system) })
}

/// Calls what cannot fail, while no other call runs: a device that is removed leaves the list that a probe walks.
pub(super) fn alone(call: impl FnOnce()) {
    let _calling = lock(&CALLING);
    call();
}

/// Starts DPDK unless it runs; `for_card`: for a device on a bus, which is faster with
/// its memory on huge pages.
pub(super) fn start(for_card: bool) -> Result<(), OpenError> {
    let mut started = lock(&STARTED);
    let result = started.get_or_insert_with(|| {
        // DPDK ties the thread that starts it to processors: not the control thread.
        let start = std::thread::Builder::new().name("dpdk-start".into());
        match start.spawn(move || start_here(for_card)).map(std::thread::JoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err("the thread that starts it panicked".into()),
            Err(error) => Err(error.to_string()),
        }
    });
    result.clone().map_err(|reason| OpenError::Config {
        field: "dpdk",
        reason: format!(
            "DPDK does not start: {reason}; remove the cause and restart Stoa, because DPDK starts \
             only once in a process"
        ),
    })
}

fn start_here(for_card: bool) -> Result<(), String> {
    let words: Result<Vec<CString>, _> =
        arguments(for_card && free_huge() >= HUGE_BYTES).into_iter().map(CString::new).collect();
    let words = words.map_err(|error| error.to_string())?;
    // DPDK may keep and reorder them: they stay for ever.
    let words: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
    let count = words.len() as c_int;
    let words = Box::leak(words.into_boxed_slice()).as_mut_ptr();
    // SAFETY: `count` strings that end in zero, which are never freed.
    attempt(|| unsafe { shim::stoa_dpdk_start(count, words, keep_line) }).map_err(|it| it.reason)
}

/// What DPDK is started with.
fn arguments(on_huge_pages: bool) -> Vec<String> {
    let prefix = format!("stoa-{}", std::process::id());
    let mut words = vec!["stoa".to_owned(), "--no-telemetry".into()];
    // One thread of ours is known to it, which may run where this process may.
    words.extend(["--lcores".into(), format!("0@({})", processors().join(","))]);
    // Only requested devices: the first address is that of a host bridge, which no driver takes.
    words.extend(["-a".into(), "0000:00:00.0".into(), "--file-prefix".into(), prefix]);
    // Buffers are known to devices by their addresses here: a card without an IOMMU is refused.
    words.push("--iova-mode=va".into());
    if on_huge_pages {
        words.push("--in-memory".into());
    } else {
        words.extend(["--no-huge".into(), "--no-shconf".into()]);
    }
    words
}

/// The processors that this process may use.
fn processors() -> Vec<String> {
    let this = nix::unistd::Pid::from_raw(0);
    let set = nix::sched::sched_getaffinity(this).unwrap_or_default();
    let ours = (0..PROCESSORS).filter(|at| set.is_set(*at).unwrap_or(false));
    let ours: Vec<String> = ours.map(|at| at.to_string()).collect();
    if ours.is_empty() { vec!["0".into()] } else { ours }
}

/// Bytes of free huge pages.
fn free_huge() -> u64 {
    let path = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    let free = std::fs::read_to_string(path).ok();
    free.and_then(|free| free.trim().parse::<u64>().ok()).unwrap_or(0) << 21
}
