//! The loop of the control thread: requests, punted packets, ports, time.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use stoa_api::v1;

use super::apply::Forwarder;
use super::limit_listing::limit;
use crate::neighbor::entry::Millis;

/// How long the loop sleeps at most: ports and neighbours are looked at this often.
const TICK: Duration = Duration::from_millis(100);
/// Requests that may wait.
const REQUESTS: usize = 256;

/// Requests done between two looks at everything else.
const REQUESTS_AT_ONCE: usize = 16;

/// Something to do on the control thread.
pub type Request = Box<dyn FnOnce(&mut Forwarder) + Send>;

enum Message {
    Do(Request),
    Stop,
}

/// The way to the control thread.
#[derive(Clone)]
pub struct Requests {
    sender: SyncSender<Message>,
    wakeup: Arc<EventFd>,
    waiting: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
}

impl Requests {
    /// Asks the control thread to do something; `false` when too much waits already.
    #[must_use]
    pub fn submit(&self, request: Request) -> bool {
        self.try_submit(request).is_ok()
    }

    /// The same; gives the request back when too much waits, so that it can be asked again.
    pub(super) fn try_submit(&self, request: Request) -> Result<(), Request> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let sent = self.sender.try_send(Message::Do(request));
        // Fails only when the counter is full, and then the loop wakes anyway.
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

    /// Requests that wait, for `stoa show limits`.
    pub fn limit(&self) -> v1::LimitState {
        let [waiting, refused] =
            [&self.waiting, &self.refused].map(|it| it.load(Ordering::Relaxed));
        let fix = "Ask less often, or one after the other.";
        limit("requests", Some(waiting), REQUESTS as u64, refused, fix)
    }

    /// Ends the control thread.
    pub fn stop(&self) {
        // It has ended already when nobody receives.
        let _ = self.sender.send(Message::Stop);
        let _ = self.wakeup.write(1);
    }
}

/// The control thread's own state.
pub struct ControlLoop {
    forwarder: Forwarder,
    requests: Receiver<Message>,
    waiting: Arc<AtomicU64>,
    wakeup: Arc<EventFd>,
}

impl ControlLoop {
    /// A control thread that is not running yet, and the way to it. `alias` marks devices in Linux
    /// as this forwarder's.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(alias: String) -> std::io::Result<(Requests, Self)> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let wakeup = Arc::new(EventFd::from_value_and_flags(0, flags)?);
        let (sender, requests) = sync_channel(REQUESTS);
        let (waiting, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let forwarder = Forwarder::default().with_alias(alias);
        let control_loop =
            Self { forwarder, requests, waiting: waiting.clone(), wakeup: wakeup.clone() };
        Ok((Requests { sender, wakeup, waiting, refused }, control_loop))
    }

    /// Runs until told to stop.
    pub fn run(mut self) {
        let mut ticked = Instant::now();
        let mut sampled = Instant::now();
        let mut is_port_ready = false;
        loop {
            let mut done = 0;
            while done < REQUESTS_AT_ONCE
                && let Ok(message) = self.requests.try_recv()
            {
                match message {
                    Message::Do(request) => {
                        self.waiting.fetch_sub(1, Ordering::Relaxed);
                        request(&mut self.forwarder);
                    }
                    Message::Stop => return self.end(),
                }
                done += 1;
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
            let due = self.forwarder.state().and_then(|state| state.run_bfd());
            let longest = if done < REQUESTS_AT_ONCE { TICK } else { Duration::ZERO };
            let longest = due.map_or(longest, |due| due.min(longest));
            is_port_ready = self.sleep(longest);
        }
    }

    /// The last thing that this thread does: whoever relies on this router hears that it goes.
    fn end(mut self) {
        if let Some(state) = self.forwarder.state() {
            state.announce_shutdown();
        }
    }

    /// Waits for something to do, at most so long; whether a port called.
    fn sleep(&mut self, longest: Duration) -> bool {
        let mut trace_capture = vec![PollFd::new(self.wakeup.as_fd(), PollFlags::POLLIN)];
        let mut timeout = longest;
        let mut is_port_ready = false;
        if let Some(state) = self.forwarder.state() {
            state.worker_pool.punt_wakeup.lie_down();
            // What was punted before the wakeup was set rings no wakeup.
            if state.has_punts() {
                timeout = Duration::ZERO;
            }
            timeout = timeout.min(state.time_to_next_timer());
            let state = &*state;
            trace_capture
                .push(PollFd::new(state.worker_pool.punt_wakeup.descriptor(), PollFlags::POLLIN));
            let of_ports = state.ports.values().map(|state| state.port.descriptors());
            let of_host_interfaces =
                state.host_interfaces.values().map(|state| state.descriptors());
            for descriptors in of_ports.chain(of_host_interfaces) {
                let ports = descriptors.into_iter();
                trace_capture.extend(ports.map(|port| PollFd::new(port, PollFlags::POLLIN)));
            }
            let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::ZERO);
            // An interrupted or failed wait is a short one.
            let _ = poll(&mut trace_capture, timeout);
            is_port_ready = trace_capture[2..].iter().any(|port| port.any().unwrap_or(true));
            state.worker_pool.punt_wakeup.get_up();
        } else {
            let _ = poll(&mut trace_capture, PollTimeout::try_from(timeout).unwrap_or(PollTimeout::ZERO));
        }
        // Empty already when something else woke the loop.
        let _ = self.wakeup.read();
        is_port_ready
    }
}

impl super::ForwarderState {
    /// Takes in punted packets and lets the ports work.
    pub fn poll(&mut self) {
        self.service_ports();
        self.process_punts();
    }

    /// Does what cannot wait for the next tick.
    pub fn run_due_timers(&mut self) {
        self.tick_virtual_routers();
        self.tick_advertising();
    }

    /// How long there is nothing for [`Self::run_due_timers`] to do.
    fn time_to_next_timer(&self) -> Duration {
        let both = [self.advertising_due(), self.virtual_routers_due()];
        let due = both.into_iter().flatten().min();
        let pause = due.map_or(Millis::MAX, |due| due.saturating_sub(self.now()));
        Duration::from_millis(pause)
    }

    /// Hosts hear that this router goes.
    fn announce_shutdown(&mut self) {
        // While those that are active still are: they speak for the virtual routers.
        self.end_advertising();
        self.end_virtual_routers();
        self.flush();
    }

    /// Does what time demands.
    pub fn tick(&mut self) {
        self.run_due_timers();
        self.tick_neighbors();
        self.tick_dad();
        self.follow_tracked_networks();
        self.tick_trace_capture();
        self.tick_reports();
        self.fib.settle();
        self.graveyard.sweep();
    }

    fn has_punts(&self) -> bool {
        self.worker_pool.workers.iter().any(stoa_engine::worker::WorkerHandle::has_punts)
    }
}
