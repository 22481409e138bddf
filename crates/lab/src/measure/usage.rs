//! Resource usage of processes: processor time and memory, as the kernel counts them.

use std::time::{Duration, Instant};

use crate::{LabError, Result};

/// Share of one core that these processes use together during this time, 0..=cores.
///
/// # Errors
///
/// A process has exited.
pub fn busy(pids: &[u32], during: Duration) -> Result<f64> {
    let (began, before) = (Instant::now(), spent(pids)?);
    std::thread::sleep(during);
    let used = spent(pids)?.saturating_sub(before);
    Ok(used.as_secs_f64() / began.elapsed().as_secs_f64())
}

/// Resident memory of these processes in bytes; shared memory counts for each process.
///
/// # Errors
///
/// A process has exited.
pub fn resident(pids: &[u32]) -> Result<u64> {
    let one = |pid: &u32| -> Result<u64> {
        let status = read(*pid, "status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: Option<u64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        Ok(kib.ok_or_else(|| not_understood(*pid, "status"))? * 1024)
    };
    pids.iter().map(one).sum()
}

/// Processor time of all live threads of these processes, exact to a nanosecond.
///
/// # Errors
///
/// A process has exited.
pub fn spent(pids: &[u32]) -> Result<Duration> {
    pids.iter().map(|pid| spent_by(*pid, "")).sum()
}

/// Processor time of the threads of one process whose name starts with `name`.
///
/// # Errors
///
/// The process has exited.
pub fn spent_by(pid: u32, name: &str) -> Result<Duration> {
    let folder = format!("/proc/{pid}/task");
    let threads = std::fs::read_dir(&folder)
        .map_err(|error| LabError::system(format!("read {folder}"), error))?;
    let mut sum = 0;
    for thread in threads.flatten() {
        let file = |name: &str| std::fs::read_to_string(thread.path().join(name));
        // A thread may exit meanwhile.
        let (Ok(called), Ok(text)) = (file("comm"), file("schedstat")) else { continue };
        if called.starts_with(name) {
            let word = text.split_whitespace().next();
            let nanoseconds = word.and_then(|word| word.parse::<u64>().ok());
            sum += nanoseconds.ok_or_else(|| not_understood(pid, "schedstat"))?;
        }
    }
    Ok(Duration::from_nanos(sum))
}

fn read(pid: u32, what: &str) -> Result<String> {
    let file = format!("/proc/{pid}/{what}");
    std::fs::read_to_string(&file).map_err(|error| LabError::system(format!("read {file}"), error))
}

fn not_understood(pid: u32, what: &str) -> LabError {
    let what = format!("/proc/{pid}/{what}");
    LabError::ParseFailed { what, reason: "it has another form than expected".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_a_busy_thread() {
        let me = [std::process::id()];
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let share = busy(&me, Duration::from_millis(200)).expect("we run");
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(share > 0.0, "{share}");
        });
        assert!(resident(&me).expect("we run") > 1 << 20);
    }
}
