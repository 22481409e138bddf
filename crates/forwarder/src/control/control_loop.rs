//! The loop of the control thread: requests, punted packets, ports, timers.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use stoa_api::v1;
use stoa_ports::Folders;
use stoa_warm_restart::Regions;

use super::apply::Forwarder;
use super::capability::CAPABILITIES;
use super::limit_listing::limit;
use super::topology::Topology;

/// Longest sleep: the interval at which ports and neighbours are serviced.
const TICK: Duration = Duration::from_millis(100);
/// Capacity of the request queue.
const REQUESTS: usize = 256;

/// Most requests in a row before other work.
const REQUESTS_AT_ONCE: usize = 16;
/// No further request is begun after this time: BFD, VRRP and ARP wait for at most one request more.
const REQUESTS_TIME: Duration = Duration::from_millis(5);

/// A function to run on the control thread.
pub type Request = Box<dyn FnOnce(&mut Forwarder) + Send>;

enum Message {
    Do(Request),
    Stop,
}

/// The queue after some requests.
#[derive(Debug, PartialEq, Eq)]
enum Queue {
    Empty,
    /// Requests may be waiting.
    Waiting,
    Stopped,
}

/// The request queue of the control thread.
#[derive(Clone)]
pub struct Requests {
    sender: SyncSender<Message>,
    wakeup: Arc<EventFd>,
    waiting: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
}

impl Requests {
    /// Submits a request; `false` when the queue is full.
    #[must_use]
    pub fn submit(&self, request: Request) -> bool {
        self.try_submit(request).is_ok()
    }

    /// The same; returns the request when the queue is full, for another attempt.
    pub(super) fn try_submit(&self, request: Request) -> Result<(), Request> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let sent = self.sender.try_send(Message::Do(request));
        // Fails only when the counter saturates, and then the loop wakes up anyway.
        let _ = self.wakeup.write(1);
        let Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) = sent else {
            return Ok(());
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.refused.fetch_add(1, Ordering::Relaxed);
        match message {
            Message::Do(request) => Err(request),
            Message::Stop => Ok(()),
        }
    }

    /// The request queue in `stoa show limits`.
    pub fn limit(&self) -> v1::LimitState {
        let [waiting, refused] =
            [&self.waiting, &self.refused].map(|it| it.load(Ordering::Relaxed));
        let fix = "Send fewer requests at a time.";
        limit("requests", Some(waiting), REQUESTS as u64, refused, fix)
    }

    /// Ends the control thread.
    pub fn stop(&self) {
        // A receiver that is gone means that the thread has ended.
        let _ = self.sender.send(Message::Stop);
        let _ = self.wakeup.write(1);
    }
}

/// The state of the control thread.
pub struct ControlLoop {
    forwarder: Forwarder,
    requests: Receiver<Message>,
    waiting: Arc<AtomicU64>,
    wakeup: Arc<EventFd>,
}

impl ControlLoop {
    /// A control thread that is not running yet, and its request queue. `alias` marks the devices in Linux of
    /// this forwarder; its ports open files and sockets in `folders`.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new(alias: String, folders: Folders) -> std::io::Result<(Requests, Self)> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let wakeup = Arc::new(EventFd::from_value_and_flags(0, flags)?);
        let (sender, requests) = sync_channel(REQUESTS);
        let (waiting, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let topology = Topology::read(Path::new("/"));
        let forwarder = Forwarder::confined(folders).with_alias(alias).with_topology(topology);
        let control_loop =
            Self { forwarder, requests, waiting: waiting.clone(), wakeup: wakeup.clone() };
        Ok((Requests { sender, wakeup, waiting, refused }, control_loop))
    }

    /// The same with memory that outlives this process.
    #[must_use]
    pub fn with_regions(mut self, regions: Regions) -> Self {
        self.forwarder = self.forwarder.with_regions(regions);
        self
    }

    /// Runs until [`Requests::stop`].
    pub fn run(mut self) {
        let mut ticked = Instant::now();
        let mut sampled = Instant::now();
        let mut is_port_ready = false;
        loop {
            let queue = self.serve_requests();
            if queue == Queue::Stopped {
                return self.end();
            }
            if let Some(state) = self.forwarder.state() {
                state.process_punts();
                if is_port_ready || ticked.elapsed() >= TICK {
                    state.service_ports();
                }
                state.run_due_timers();
                if ticked.elapsed() >= TICK {
                    ticked = Instant::now();
                    state.tick();
                }
                if sampled.elapsed() >= Duration::from_secs(1) {
                    sampled = Instant::now();
                    state.sample();
                }
            }
            let longest = if queue == Queue::Empty { TICK } else { Duration::ZERO };
            is_port_ready = self.sleep(longest);
        }
    }

    /// Serves some requests.
    fn serve_requests(&mut self) -> Queue {
        let started = Instant::now();
        for _ in 0..REQUESTS_AT_ONCE {
            match self.requests.try_recv() {
                Ok(Message::Do(request)) => {
                    self.waiting.fetch_sub(1, Ordering::Relaxed);
                    request(&mut self.forwarder);
                }
                Ok(Message::Stop) => return Queue::Stopped,
                Err(_) => return Queue::Empty,
            }
            if started.elapsed() >= REQUESTS_TIME {
                break;
            }
        }
        Queue::Waiting
    }

    /// Ends: neighbours of this router are notified.
    fn end(mut self) {
        if let Some(state) = self.forwarder.state() {
            state.announce_shutdown();
        }
    }

    /// Sleeps until there is work or `longest` has passed; returns whether a port is ready.
    fn sleep(&mut self, longest: Duration) -> bool {
        let mut trace_capture = vec![PollFd::new(self.wakeup.as_fd(), PollFlags::POLLIN)];
        let mut timeout = longest;
        let mut is_port_ready = false;
        if let Some(state) = self.forwarder.state() {
            state.worker_pool.punt_wakeup.prepare_to_sleep();
            // Packets punted before the wakeup was armed do not trigger it.
            if state.has_punts() {
                timeout = Duration::ZERO;
            }
            timeout = timeout.min(state.time_to_next_timer());
            let state = &*state;
            trace_capture
                .push(PollFd::new(state.worker_pool.punt_wakeup.descriptor(), PollFlags::POLLIN));
            let of_ports = state.port_descriptors();
            let of_capabilities =
                CAPABILITIES.iter().map(|capability| (capability.descriptors)(state));
            for descriptors in of_ports.chain(of_capabilities) {
                let ports = descriptors.into_iter();
                trace_capture.extend(ports.map(|port| PollFd::new(port, PollFlags::POLLIN)));
            }
            let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::ZERO);
            // An interrupted or failed poll counts as a short one.
            let _ = poll(&mut trace_capture, timeout);
            is_port_ready = trace_capture[2..].iter().any(|port| port.any().unwrap_or(true));
            state.worker_pool.punt_wakeup.finish_sleep();
        } else {
            let _ = poll(
                &mut trace_capture,
                PollTimeout::try_from(timeout).unwrap_or(PollTimeout::ZERO),
            );
        }
        // Empty when something else woke the loop.
        let _ = self.wakeup.read();
        is_port_ready
    }
}

impl super::ForwarderState {
    /// Services the ports and processes punted packets.
    pub fn poll(&mut self) {
        self.service_ports();
        self.process_punts();
    }

    /// Runs the timers that cannot wait for the next tick.
    pub fn run_due_timers(&mut self) {
        CAPABILITIES.iter().for_each(|capability| (capability.run_due)(self));
    }

    /// Time until [`Self::run_due_timers`] has something to do.
    fn time_to_next_timer(&self) -> Duration {
        let due = CAPABILITIES.iter().filter_map(|capability| (capability.due_in)(self));
        due.min().unwrap_or(Duration::MAX)
    }

    /// Sends the final messages of this router.
    fn announce_shutdown(&mut self) {
        CAPABILITIES.iter().rev().for_each(|capability| (capability.end)(self));
        self.flush();
    }

    /// Runs the periodic work.
    pub fn tick(&mut self) {
        self.run_due_timers();
        CAPABILITIES.iter().for_each(|capability| (capability.tick)(self));
        self.fib.settle();
        self.graveyard.sweep();
        if let Some(status) = stoa_ports::device_opener::newly_ended() {
            tracing::error!(
                "the device opener has ended ({status}): devices in other network namespaces that come later are not \
                 opened; restart the forwarder"
            );
        }
    }

    fn has_punts(&self) -> bool {
        self.worker_pool.workers.iter().any(stoa_engine::worker::WorkerHandle::has_punts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_requests_leave_time_for_urgent_work() {
        let (requests, mut control_loop) =
            ControlLoop::new("test".to_owned(), Folders::default()).expect("a loop");
        let done = Arc::new(AtomicU64::new(0));
        for _ in 0..4 {
            let done = done.clone();
            assert!(requests.submit(Box::new(move |_| {
                std::thread::sleep(REQUESTS_TIME / 2);
                done.fetch_add(1, Ordering::Relaxed);
            })));
        }
        assert_eq!(control_loop.serve_requests(), Queue::Waiting);
        let first = done.load(Ordering::Relaxed);
        assert!((1..=2).contains(&first), "{first} requests in a row");
        while control_loop.serve_requests() == Queue::Waiting {}
        assert_eq!(done.load(Ordering::Relaxed), 4);
        requests.stop();
        assert_eq!(control_loop.serve_requests(), Queue::Stopped);
    }
}
