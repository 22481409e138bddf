//! Ports that are open for one run after the other: up, their gateways known, their paths learned.

mod gateways;
mod gather;
mod port_handle;
mod threads;
mod trial;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use stoa_engine::Pool;
use stoa_engine::pool::{HugePages, PoolError};

use crate::generate::template::FCS;
use crate::plan::{Plan, Rate};
use crate::progress::Counts;
use crate::results::Results;
use port_handle::PortHandle;

/// Buffers of a session.
const BUFFERS: u32 = 16_384;
/// Bytes of an Ethernet header and two tags.
const LINK_HEADER: usize = 14 + 8;

/// Why nothing could be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A port cannot be opened.
    #[error("port {port}: {reason}")]
    Port {
        /// The port's name.
        port: String,
        /// What is wrong, and what to do about it.
        reason: String,
    },
    /// A port's link did not come up.
    #[error(
        "port {port} did not come up within {seconds} s: {detail}; start the other end, or give \
         more patience"
    )]
    NoLink {
        /// The port's name.
        port: String,
        /// How long it was waited for.
        seconds: f64,
        /// Details from the driver.
        detail: String,
    },
    /// A gateway did not answer.
    #[error(
        "port {port}: no answer for {gateway}: is it the device's address on this link? Else \
         give the streams an ethernet destination"
    )]
    NoGateway {
        /// The port's name.
        port: String,
        /// The address that was asked for.
        gateway: std::net::IpAddr,
    },
    /// A stream cannot be sent as it is.
    #[error("stream {stream}: {reason}")]
    Stream {
        /// The stream's name.
        stream: String,
        /// What is wrong, and what to do about it.
        reason: String,
    },
    /// There is no packet memory.
    #[error(transparent)]
    Memory(#[from] PoolError),
    /// A thread could not be started or broke down.
    #[error("a thread: {0}")]
    Thread(String),
    /// Somebody stopped before anything was sent.
    #[error("stopped before the run began")]
    Stopped,
}

/// What differs from one run of a plan to the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// The rate of each stream, in place of its own.
    pub rate: Option<Rate>,
    /// Packets of each stream, in place of its own number.
    pub count: Option<u64>,
    /// Seconds, in place of the plan's.
    pub seconds: Option<f64>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Seconds since the start; 0 before it.
    pub at: f64,
    /// Seconds that it will take.
    pub of: f64,
    /// All streams until now.
    pub total: Counts,
    /// All streams since the moment before, which was `since` seconds ago.
    pub last: Counts,
    /// Seconds since the moment before.
    pub since: f64,
}

/// Watches a run: called some ten times a second; returns whether to continue.
pub type Watch<'a> = &'a mut dyn FnMut(&Moment) -> bool;

/// Open ports.
pub struct Session {
    plan: Plan,
    pool: &'static Pool,
    handles: Vec<PortHandle>,
    /// The next run's number: what tells its packets from those of others.
    run: u64,
}

impl Session {
    /// Opens the ports of a plan, waits for their links, and finds the gateways.
    ///
    /// # Errors
    /// A port that cannot be opened or does not come up, a gateway that does not answer, streams
    /// whose frames are too long for a port.
    pub fn open(plan: Plan, watch: Watch<'_>) -> Result<Self, RunError> {
        let pool = Pool::leak(BUFFERS, HugePages::IfAvailable)?;
        let handles: Result<Vec<PortHandle>, RunError> =
            plan.ports.iter().map(|port| PortHandle::open(port, pool)).collect();
        let mut session = Self { plan, pool, handles: handles?, run: first_run() };
        session.wait_up(watch)?;
        session.fit()?;
        session.resolve_gateways(watch)?;
        session.warm_up();
        Ok(session)
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Takes other streams between the same ports.
    ///
    /// # Errors
    /// As [`Self::open`], of the streams.
    pub(crate) fn replace_streams(&mut self, plan: Plan, watch: Watch<'_>) -> Result<(), RunError> {
        self.plan.streams = plan.streams;
        self.wait_up(watch)?;
        self.fit()?;
        self.resolve_gateways(watch)?;
        self.warm_up();
        Ok(())
    }

    /// Waits until all links are up.
    fn wait_up(&mut self, watch: Watch<'_>) -> Result<(), RunError> {
        let began = Instant::now();
        loop {
            self.handles.iter_mut().for_each(PortHandle::service);
            let Some(waiting) = self.handles.iter().position(|handle| !handle.is_up()) else {
                return Ok(());
            };
            if began.elapsed().as_secs_f64() > self.plan.patience {
                return Err(RunError::NoLink {
                    port: self.plan.ports[waiting].name.clone(),
                    seconds: self.plan.patience,
                    detail: self.handles[waiting].detail(),
                });
            }
            self.go_on(watch)?;
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn go_on(&self, watch: Watch<'_>) -> Result<(), RunError> {
        let none = Counts::default();
        let moment = Moment { at: 0.0, of: self.plan.seconds, total: none, last: none, since: 0.0 };
        if watch(&moment) { Ok(()) } else { Err(RunError::Stopped) }
    }

    /// Whether all frames fit the ports.
    fn fit(&self) -> Result<(), RunError> {
        for stream in &self.plan.streams {
            let longest = stream.longest();
            for place in [stream.from, stream.to] {
                let mtu = self.handles[place].mtu() as usize;
                let most = mtu + LINK_HEADER + FCS;
                if longest > most {
                    let reason = format!(
                        "frames of {longest} bytes do not fit port {} with an MTU of {mtu}: make \
                         them shorter or the MTU greater",
                        self.plan.ports[place].name
                    );
                    return Err(RunError::Stream { stream: stream.name.clone(), reason });
                }
            }
        }
        Ok(())
    }

    /// Runs the plan once.
    ///
    /// # Errors
    /// A rate that makes no sense, a thread that cannot be started. What goes wrong later is in
    /// the results, which are then not valid.
    pub fn run(&mut self, load: &Load, watch: Watch<'_>) -> Result<Results, RunError> {
        self.wait_up(watch)?;
        let results = self.trial(load, watch);
        self.run = self.run.wrapping_add(1);
        results
    }
}

/// A number that no other program begins with at the same time.
fn first_run() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id()) << 40
}

/// Opens the ports of a plan, runs it once, and closes them.
///
/// # Errors
/// As [`Session::open`] and [`Session::run`].
pub fn run(plan: Plan, load: &Load, watch: Watch<'_>) -> Result<Results, RunError> {
    Session::open(plan, watch)?.run(load, watch)
}
