//! The control thread: applies the desired state, writes the tables, and services ports and neighbours.
//! Workers never wait for it.

mod acl;
mod adoption;
mod advertising;
mod apply;
mod apply_ports;
mod apply_routes;
mod bfd;
mod call_slices;
mod callers;
mod capability;
mod clock;
mod control_loop;
mod converge;
pub mod desired;
mod desired_audit;
mod desired_port;
mod drop_counts;
mod dry_run;
mod duplicate_detection;
mod features;
mod fib;
pub(crate) mod file_access;
mod flow_limits;
mod flow_service;
mod flow_sync;
mod forwarder_state;
mod host_interfaces;
mod interface_index;
mod interface_statistics;
mod interfaces;
mod ipfix;
pub mod ipsec;
mod learned;
mod limit_listing;
mod limits;
mod listing;
mod log_service;
mod logging;
mod login;
mod mld_reports;
mod multipath;
mod nat;
mod neighbors;
mod nptv6;
mod output_features;
mod own_frames;
mod paging;
mod path_mtu;
mod pending_port;
mod placement;
mod plugins;
mod policy;
mod ports;
mod publication;
mod punt_stream;
mod punts;
mod reassembly;
mod refusals;
mod reopen;
mod route_counts;
mod route_listing;
mod routes;
mod rows;
mod service;
mod siit;
mod slices;
mod test_sequences;
mod topology;
pub mod trace_capture;
mod tunnels;
mod vlans;
mod vrfs;
mod vrrp;
mod worker_load;

use std::path::PathBuf;

use caps::Capability;

pub use acl::Logged;
pub use apply::{ApplyError, ChangeError, Forwarder};
pub use control_loop::{ControlLoop, Request};
pub use desired_audit::DesiredAudit;
pub use dry_run::{audit, check};
pub use forwarder_state::{ForwarderState, StartError};
pub use interface_statistics::InterfaceStatistics;
pub use learned::{Audit, Message, RouteUpdate};
pub use limits::{LimitOverrides, LimitState, Limits, Table, TableFull};
pub use ports::PortOpener;
pub use route_listing::RouteListing;
pub use slices::PauseHook;
pub use topology::Topology;
pub use vrfs::VRFS;

use stoa_ports::Folders;
use stoa_warm_restart::probe::Journal;

/// How to run the forwarder.
#[derive(Clone, Debug)]
pub struct Options {
    /// The Unix socket on which the contract is served.
    pub socket: PathBuf,
    /// Where ports may open files and sockets.
    pub folders: Folders,
}

/// Why the forwarder ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket cannot be opened.
    #[error(transparent)]
    Socket(#[from] stoa_api::unix::Error),
    /// The service failed.
    #[error("the contract's service ended: {0}")]
    Service(#[from] tonic::transport::Error),
    /// The system refused a thread, a descriptor or a signal handler.
    #[error("the system refused: {0}")]
    System(#[from] std::io::Error),
}

/// A forwarder that may open its own files alone, and has no threads yet: its program then gives up more.
pub struct Prepared {
    options: Options,
    listener: std::os::unix::net::UnixListener,
    regions: stoa_warm_restart::Regions,
    _pinned: file_access::Pinned,
}

impl Prepared {
    /// Binds the socket, takes the state of an earlier forwarder (docs/dev/warm-restart.md), and gives up all files
    /// that ports do not need. To be called before there are threads, which inherit what this one may open.
    ///
    /// # Errors
    /// The socket is in use, or the system refuses.
    pub fn new(options: Options) -> Result<Self, Error> {
        stoa_engine::heap::keep_large_blocks_apart();
        end_on_panic();
        let listener = stoa_api::unix::bind(&options.socket)?;
        // Tests may have their journal anywhere.
        let regions = stoa_warm_restart::regions().with_journal(Journal::of("forwarder")?);
        let _pinned = file_access::restrict(&options.folders);
        Ok(Self { options, listener, regions, _pinned })
    }

    /// Forwards until SIGTERM or SIGINT.
    ///
    /// # Errors
    /// The system refuses a thread or a descriptor.
    pub fn run(self) -> Result<(), Error> {
        run(self)
    }
}

fn run(Prepared { options, listener, regions, _pinned }: Prepared) -> Result<(), Error> {
    let owner = format!("stoa host interface of {}", options.socket.display());
    let (requests, control_loop) = ControlLoop::new(owner, options.folders.clone())?;
    let control_loop = control_loop.with_regions(regions);
    // Only the control thread opens devices, in other namespaces by the device opener.
    keep(&OF_DEVICES)?;
    let thread =
        std::thread::Builder::new().name("control".to_owned()).spawn(|| control_loop.run())?;
    // Threads that the runtime starts have what this one has: nothing, as they serve an open socket.
    keep(&[])?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .thread_name("contract")
        .build()?;
    tracing::info!(socket = %options.socket.display(), "the forwarder listens");
    let served = runtime.block_on(service::serve(listener, requests.clone()));
    // Where this process may not, its supervisor does.
    let _ = std::fs::remove_file(&options.socket);
    requests.stop();
    // A control thread that panicked has reported it on stderr.
    let _ = thread.join();
    // Its last work was to delete host interfaces.
    stoa_ports::device_opener::end();
    served
}

/// Capabilities of the thread that opens devices, where the forwarder was started with them: network devices and packet
/// sockets, XDP programs, memory of AF_XDP, workers, and files in folders of others.
const OF_DEVICES: [Capability; 9] = [
    Capability::CAP_NET_ADMIN,
    Capability::CAP_NET_RAW,
    Capability::CAP_BPF,
    Capability::CAP_IPC_LOCK,
    Capability::CAP_SYS_NICE,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_DAC_READ_SEARCH,
    Capability::CAP_CHOWN,
    Capability::CAP_FOWNER,
];

/// Drops all capabilities of this thread but these.
fn keep(kept: &[Capability]) -> std::io::Result<()> {
    stoa_engine::capabilities::keep(kept).map_err(std::io::Error::other)
}

/// Ends the process when a thread panics: the supervisor restarts it, instead of leaving a forwarder
/// without that thread.
fn end_on_panic() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        default_hook(info);
        std::process::exit(EXIT_PANIC);
    }));
}

/// Exit status after a panic.
const EXIT_PANIC: i32 = 101;
