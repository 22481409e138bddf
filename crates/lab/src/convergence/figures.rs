//! The results of a measurement, as printed.

use serde::Serialize;

use super::{Daemon, Protocol, Target, Workload};

/// Results. A time is `None` when the deadline passed first, or where it does not apply.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The daemon.
    pub daemon: Daemon,
    /// Its protocol.
    pub protocol: Protocol,
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// Where the daemon's routes went.
    pub route_source: Target,
    /// Number of routes.
    pub routes: usize,
    /// Number of peers that announced them.
    pub peers: u8,
    /// Seconds from the session's establishment (OSPF: from the start of the database exchange) until the test packet
    /// of every prefix arrived; for the baseline: until the kernel held all routes.
    pub learn_s: Option<f64>,
    /// Prefixes whose test packet arrived.
    pub verified_by_traffic: usize,
    /// Prefixes that more specific ones cover entirely, so that no packet can verify them.
    pub covered: usize,
    /// Seconds from when the first peer began to withdraw all routes and announce them with other next hops, until
    /// all packets arrived there.
    pub reconverge_s: Option<f64>,
    /// Milliseconds from when Stoa detected that the link of all best paths is down, until packets arrived by another
    /// peer's path; with two or more peers.
    pub repair_ms: Option<f64>,
    /// The same with 1,000 routes.
    pub repair_ms_1k: Option<f64>,
    /// `repair_ms` plus the time until Stoa detected the failure.
    pub repair_from_failure_ms: Option<f64>,
    /// Test packets lost after the link was cut, at 50,000 a second.
    pub repair_lost: Option<usize>,
    /// Seconds from the controller's death (its supervisor restarts it) until the daemon had announced as many routes
    /// to the new controller and the audit was equal.
    pub kill_controller_s: Option<f64>,
    /// Test packets lost after the controller was killed, at 10,000 a second.
    pub kill_controller_lost: Option<usize>,
    /// Result of the first audit that could compare everything.
    pub kill_controller_audit: Option<String>,
    /// Seconds from the daemon's restart until it had announced as many routes again and the audit was equal. `None`
    /// with [`Target::Netlink`](super::Target::Netlink): the routes stay in the kernel and are not announced again.
    pub kill_daemon_s: Option<f64>,
    /// Seconds of that time until the daemon itself had learned all routes.
    pub kill_daemon_learned_s: Option<f64>,
    /// Test packets lost after the daemon was killed, at 10,000 a second.
    pub kill_daemon_lost: Option<usize>,
    /// Result of the first audit that could compare everything.
    pub kill_daemon_audit: Option<String>,
    /// Processor seconds of controller and forwarder until all routes were learned.
    pub ours_s: f64,
    /// The controller's share of them.
    pub controller_s: f64,
    /// The share of the forwarder without its workers.
    pub forwarder_s: f64,
    /// The share of the forwarder's workers: test packets, and the daemon's sessions.
    pub workers_s: f64,
    /// Processor seconds of the daemon until all routes were learned.
    pub daemon_s: f64,
    /// Seconds until TCP accepted the last byte of the peers' messages.
    pub transfer_s: Option<f64>,
    /// Memory of controller and forwarder for the routes, in 10^6 bytes: resident after minus before.
    pub rss_mb: f64,
    /// Memory of the daemon, 10^6 bytes.
    pub daemon_rss_mb: f64,
    /// Final result of `stoa show routes audit`: `equal`, or the differences.
    pub audit: String,
}

impl Figures {
    /// Empty results.
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
