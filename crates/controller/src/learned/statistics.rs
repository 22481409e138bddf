//! Counters of learned routes and audits, for monitoring.

use std::time::Duration;

use crate::config::vrf_name::VrfName;

/// State of a route source's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// No session since the route source was opened.
    Awaited,
    /// The daemon is announcing its routes.
    Begun,
    /// The daemon has announced all its routes.
    Complete,
    /// The session ended; its routes are retained for a while.
    Ended,
}

/// Summary of a route source.
#[derive(Clone, Debug)]
pub struct RouteSourceSummary {
    /// Its name in the configuration.
    pub name: String,
    /// The VRF of its routes.
    pub vrf: VrfName,
    /// State of its session.
    pub session: Session,
    /// Number of IPv4 routes.
    pub ip4: usize,
    /// Number of IPv6 routes.
    pub ip6: usize,
    /// Routes that the current session has not announced again, or whose session has ended.
    pub stale: usize,
    /// Time until the stale routes are removed; `None`: there are none.
    pub stale_time_left: Option<Duration>,
    /// Invalid prefixes.
    pub malformed: u64,
    /// Routes that are not usable because no gateway is resolved.
    pub waiting: u64,
    /// Why gateways are unresolved, and the number of routes that each reason affects.
    pub unresolved: Vec<(String, u32)>,
}

/// Counters of the table's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCounters {
    /// Time that the table has worked, microseconds.
    pub table_us: u64,
    /// Time of the forwarder's control thread, microseconds.
    pub forwarder_us: u64,
    /// Route changes received from route sources.
    pub received: u64,
    /// Routes that the forwarder refused.
    pub refused: u64,
}

/// Counters of audits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditCounters {
    /// Audits, automatic and requested.
    pub runs: u64,
    /// Routes that differed.
    pub different: u64,
    /// Differing routes that were sent again and accepted by the forwarder.
    pub repaired: u64,
    /// End of the last audit, seconds since 1970; 0: none yet.
    pub last_unix_s: u64,
    /// Whether the last audit compared all tables and found no difference.
    pub was_equal: bool,
}

/// All counters.
#[derive(Clone, Debug, Default)]
pub struct LearnedStatistics {
    /// Each route source, from the table's point of view.
    pub route_sources: Vec<RouteSourceSummary>,
    /// Counters of the table's work.
    pub work: WorkCounters,
    /// Counters of audits.
    pub audits: AuditCounters,
    /// Whether all route sources are complete and the stale routes of the previous controller are removed.
    pub is_complete: bool,
}
