//! What is measured, as it is printed.

use serde::Serialize;

use super::{Daemon, Protocol, Target, Workload};

/// What was measured. A time is `None` when the deadline passed before, or where it does not apply.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Who learned.
    pub daemon: Daemon,
    /// By which protocol.
    pub protocol: Protocol,
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// Where the routes went.
    pub route_source: Target,
    /// How many there were.
    pub routes: usize,
    /// Peers that said them.
    pub peers: u8,
    /// Seconds from the session's establishment (OSPF: from when databases are exchanged) until the test packet of every prefix had
    /// arrived; of the comparison: until the kernel held all.
    pub learn_s: Option<f64>,
    /// Prefixes whose test packet arrived.
    pub verified_by_traffic: usize,
    /// Prefixes that more specific ones cover, so that no packet can prove them.
    pub covered: usize,
    /// Seconds from when the first peer began to take all back, and to say it anew with other next hops, until all packets arrived there.
    pub reconverge_s: Option<f64>,
    /// Milliseconds from when Stoa saw that the link of all best paths is down until packets arrived by another peer's; with two peers
    /// or more.
    pub repair_ms: Option<f64>,
    /// The same with 1,000 routes.
    pub repair_ms_1k: Option<f64>,
    /// Milliseconds of `repair_ms` and those until Stoa saw it.
    pub repair_from_failure_ms: Option<f64>,
    /// Test packets that were lost from when the link was cut, of 50,000 a second.
    pub repair_lost: Option<usize>,
    /// Seconds from when the controller was killed, and its supervisor had to start another one, until the daemon had said all to that one
    /// and the audit was equal, of as many routes.
    pub kill_controller_s: Option<f64>,
    /// Test packets that were lost from when it was killed, of 10,000 a second.
    pub kill_controller_lost: Option<usize>,
    /// What the first audit said that could compare all.
    pub kill_controller_audit: Option<String>,
    /// Seconds from when the killed daemon was started again until it had said all anew and the audit was equal, of as many routes.
    /// `None` with [`Target::Netlink`](super::Target::Netlink): the routes stay in the kernel, and nothing is said anew.
    pub kill_daemon_s: Option<f64>,
    /// Seconds of them until the daemon had learned all itself.
    pub kill_daemon_learned_s: Option<f64>,
    /// Test packets that were lost from when it was killed, of 10,000 a second.
    pub kill_daemon_lost: Option<usize>,
    /// What the first audit said that could compare all.
    pub kill_daemon_audit: Option<String>,
    /// Processor seconds of controller and forwarder until all was learned.
    pub ours_s: f64,
    /// Those of them that the controller took.
    pub controller_s: f64,
    /// Those of them that the forwarder took beside its workers.
    pub forwarder_s: f64,
    /// Those of them that the forwarder's workers took: test packets, and the daemon's sessions.
    pub workers_s: f64,
    /// Processor seconds of the daemon until all was learned.
    pub daemon_s: f64,
    /// Seconds until TCP had taken the last byte of what the peers said.
    pub transfer_s: Option<f64>,
    /// Memory of controller and forwarder that the routes take, 10^6 bytes: resident after, less before.
    pub rss_mb: f64,
    /// Memory of the daemon, 10^6 bytes.
    pub daemon_rss_mb: f64,
    /// What `stoa show routes audit` says in the end: `equal`, or what is not.
    pub audit: String,
}

impl Figures {
    /// None yet.
    pub(super) fn new(workload: &Workload) -> Self {
        let routes = workload.table.len();
        Self {
            daemon: workload.daemon,
            protocol: workload.protocol,
            family: if workload.table.is_six() { "ipv6" } else { "ipv4" },
            route_source: workload.target,
            routes,
            peers: workload.peers,
            learn_s: None,
            verified_by_traffic: 0,
            covered: routes - workload.table.provable(),
            reconverge_s: None,
            repair_ms: None,
            repair_ms_1k: None,
            repair_from_failure_ms: None,
            repair_lost: None,
            kill_controller_s: None,
            kill_controller_lost: None,
            kill_controller_audit: None,
            kill_daemon_s: None,
            kill_daemon_learned_s: None,
            kill_daemon_lost: None,
            kill_daemon_audit: None,
            ours_s: 0.0,
            controller_s: 0.0,
            forwarder_s: 0.0,
            workers_s: 0.0,
            daemon_s: 0.0,
            transfer_s: None,
            rss_mb: 0.0,
            daemon_rss_mb: 0.0,
            audit: "unknown".to_owned(),
        }
    }
}
