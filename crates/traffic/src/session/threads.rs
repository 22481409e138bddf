//! The threads of a run: each runs some senders and receivers until the stop flag is set.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use stoa_engine::clock;

use super::RunError;
use crate::analyse::Receiver;
use crate::generate::Sender;
use crate::plan::Threads;
use crate::progress::Progress;

/// Loop iterations between two checks for replies to neighbours while busy.
const ANSWER_INTERVAL: u32 = 64;
/// Seconds between two progress updates.
const PUBLISH: f64 = 0.002;

/// Shared by all threads of a run.
pub(super) struct Shared {
    pub(super) progress: Progress,
    pub(super) stop: AtomicBool,
    /// Ticks between two progress updates.
    interval: u64,
    /// Whether there are more threads than processors: idle threads then yield.
    is_polite: bool,
}

/// The halves of one thread.
#[derive(Default)]
pub(super) struct Team {
    pub(super) senders: Vec<Sender>,
    pub(super) receivers: Vec<Receiver>,
}

impl Shared {
    pub(super) fn new(streams: usize, hz: u64, teams: usize) -> Self {
        Self {
            progress: Progress::new(streams),
            stop: AtomicBool::new(false),
            interval: (hz as f64 * PUBLISH) as u64,
            is_polite: teams >= processors(),
        }
    }
}

/// Processors that this program may use.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Distributes the halves of the ports to threads, as configured or by the number of processors;
/// the main thread needs one too.
pub(super) fn teams(
    requested: Option<Threads>,
    senders: Vec<Vec<Sender>>,
    receivers: Vec<Receiver>,
) -> Vec<Team> {
    let ports = receivers.len();
    let threads = requested.unwrap_or_else(|| match processors() {
        enough if enough > 2 * ports => Threads::PerDirection,
        enough if enough > ports => Threads::PerPort,
        _ => Threads::One,
    });
    match threads {
        Threads::One => vec![Team { senders: senders.into_iter().flatten().collect(), receivers }],
        Threads::PerPort => {
            let pairs = senders.into_iter().zip(receivers);
            pairs.map(|(senders, other)| Team { senders, receivers: vec![other] }).collect()
        }
        Threads::PerDirection => {
            let senders = senders.into_iter();
            let senders = senders.map(|senders| Team { senders, ..Team::default() });
            let receivers = receivers.into_iter();
            let receivers = receivers.map(|one| Team { receivers: vec![one], ..Team::default() });
            senders.chain(receivers).collect()
        }
    }
}

/// Starts a thread for each team, on the given CPUs in turn.
pub(super) fn start<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    teams: Vec<Team>,
    cpus: &[usize],
    shared: &'env Shared,
) -> Result<Vec<ScopedJoinHandle<'scope, Team>>, RunError> {
    let mut handles = Vec::new();
    for (at, team) in teams.into_iter().enumerate() {
        let cpu = if cpus.is_empty() { None } else { Some(cpus[at % cpus.len()]) };
        let thread = std::thread::Builder::new().name(format!("traffic-{at}"));
        match thread.spawn_scoped(scope, move || team.work(shared, cpu)) {
            Ok(handle) => handles.push(handle),
            Err(error) => {
                shared.stop.store(true, Ordering::Relaxed);
                return Err(RunError::Thread(error.to_string()));
            }
        }
    }
    Ok(handles)
}

/// Checks that threads may run on these CPUs.
pub(super) fn check_cpus(cpus: &[usize]) -> Result<(), RunError> {
    for cpu in cpus {
        let mut set = CpuSet::new();
        let allowed = nix::sched::sched_getaffinity(Pid::from_raw(0));
        let allowed = allowed.is_ok_and(|allowed| allowed.is_set(*cpu).unwrap_or(false));
        if set.set(*cpu).is_err() || !allowed {
            return Err(RunError::Thread(format!("there is no processor {cpu} for this program")));
        }
    }
    Ok(())
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    if set.set(cpu).is_ok() {
        // Checked before; if it fails nevertheless, the thread runs unpinned.
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}

impl Team {
    fn work(mut self, shared: &Shared, cpu: Option<usize>) -> Self {
        if let Some(cpu) = cpu {
            pin(cpu);
        }
        let (mut iterations, mut publish_at) = (0_u32, 0);
        loop {
            let now = clock::tsc();
            let mut is_busy = false;
            for sender in &mut self.senders {
                is_busy |= sender.run_once(now);
            }
            for receiver in &mut self.receivers {
                is_busy |= receiver.run_once();
            }
            iterations = iterations.wrapping_add(1);
            if !is_busy || iterations.is_multiple_of(ANSWER_INTERVAL) {
                self.senders.iter_mut().for_each(Sender::answer);
            }
            if now >= publish_at {
                publish_at = now + shared.interval;
                let is_over = shared.stop.load(Ordering::Relaxed);
                self.senders.iter().for_each(|sender| sender.publish(&shared.progress));
                self.receivers.iter_mut().for_each(|one| one.publish(&shared.progress));
                if is_over {
                    return self;
                }
            }
            if !is_busy {
                match shared.is_polite {
                    true => std::thread::yield_now(),
                    false => std::hint::spin_loop(),
                }
            }
        }
    }
}
