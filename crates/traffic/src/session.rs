//! Open ports for a sequence of runs: links up, gateways resolved, paths learned.

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

/// Why a run could not start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A port could not be opened.
    #[error("port {port}: {reason}")]
    Port {
        /// The port's name.
        port: String,
        /// The error and the fix.
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
        /// The timeout.
        seconds: f64,
        /// Details from the driver.
        detail: String,
    },
    /// A gateway did not reply.
    #[error(
        "port {port}: no answer for {gateway}: is it the device's address on this link? Else \
         give the streams an ethernet destination"
    )]
    NoGateway {
        /// The port's name.
        port: String,
        /// The requested address.
        gateway: std::net::IpAddr,
    },
    /// A stream cannot be sent.
    #[error("stream {stream}: {reason}")]
    Stream {
        /// The stream's name.
        stream: String,
        /// The error and the fix.
        reason: String,
    },
    /// Packet memory could not be allocated.
    #[error(transparent)]
    Memory(#[from] PoolError),
    /// A thread could not be started or panicked.
    #[error("a thread: {0}")]
    Thread(String),
    /// The operator stopped before the first packet.
    #[error("stopped before the run began")]
    Stopped,
}

/// Parameters that differ between runs of a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// The rate of each stream; `None`: from the plan.
    pub rate: Option<Rate>,
    /// The number of packets of each stream; `None`: from the plan.
    pub count: Option<u64>,
    /// The duration in seconds; `None`: from the plan.
    pub seconds: Option<f64>,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Seconds since the start; 0 before it.
    pub at: f64,
    /// Total duration in seconds.
    pub of: f64,
    /// All streams since the start.
    pub total: Counts,
    /// All streams since the previous callback, `since` seconds ago.
    pub last: Counts,
    /// Seconds since the previous callback.
    pub since: f64,
}

/// Progress callback, called about ten times a second; returns whether to continue.
pub type Watch<'a> = &'a mut dyn FnMut(&Moment) -> bool;

/// Open ports.
pub struct Session {
    plan: Plan,
    pool: &'static Pool,
    handles: Vec<PortHandle>,
    /// The number of the next run, which distinguishes its packets from those of other runs.
    run: u64,
}

impl Session {
    /// Opens the ports of a plan, waits for their links, and resolves the gateways.
    ///
    /// # Errors
    ///
    /// A port that cannot be opened or does not come up, a gateway that does not reply, or streams
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

    /// Replaces the streams; the ports stay the same.
    ///
    /// # Errors
    ///
    /// As [`Self::open`], for the streams.
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

    /// Checks that all frames fit the ports.
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
    ///
    /// An invalid rate, or a thread that cannot be started. Later errors are in the results, which
    /// are then not valid.
    pub fn run(&mut self, load: &Load, watch: Watch<'_>) -> Result<Results, RunError> {
        self.wait_up(watch)?;
        let results = self.trial(load, watch);
        self.run = self.run.wrapping_add(1);
        results
    }
}

/// A first run number that differs between concurrent programs.
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
