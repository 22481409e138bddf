//! Audits and route sources as protobuf messages.

use stoa_api::v1;

use super::{Audit, AuditedKernel, Learned, RouteSourceSummary, Session};
use crate::route_sources::{RouteSourceConfig, RouteSourceStatistics};

impl Session {
    /// The name that operators see.
    pub fn name(self) -> &'static str {
        match self {
            Session::Awaited => "awaited",
            Session::Begun => "begun",
            Session::Complete => "complete",
            Session::Ended => "ended",
        }
    }
}

/// A configured route source with its statistics and summary.
fn route_source(
    config: &RouteSourceConfig,
    statistics: RouteSourceStatistics,
    state: Option<RouteSourceSummary>,
) -> v1::RouteSourceState {
    let mut reported = v1::RouteSourceState {
        name: config.source.name.clone(),
        session: Session::Awaited.name().to_owned(),
        r#type: config.kind.short_name().to_owned(),
        vrf: config.source.vrf.to_string(),
        netns: config.netns.clone(),
        is_open: statistics.is_open,
        reason: statistics.reason,
        since_unix_s: statistics.since_unix_s,
        sessions: statistics.sessions,
        not_imported: statistics.not_imported,
        refused_connections: statistics.refused_connections,
        last_refusal: statistics.last_refusal,
        ..v1::RouteSourceState::default()
    };
    if let Some(state) = state {
        let unresolved = state.unresolved.into_iter();
        state.session.name().clone_into(&mut reported.session);
        reported.ip4_routes = state.ip4 as u64;
        reported.ip6_routes = state.ip6 as u64;
        reported.stale = state.stale as u64;
        reported.stale_time_left_s = state.stale_time_left.map(|left| left.as_secs() as u32);
        reported.malformed = state.malformed;
        reported.waiting = state.waiting;
        reported.unresolved =
            unresolved.map(|(reason, routes)| v1::UnresolvedGateway { reason, routes }).collect();
    }
    reported
}

fn tables(audit: Audit) -> Vec<v1::AuditedTable> {
    let table = |it: super::AuditedTable| v1::AuditedTable {
        vrf: it.vrf,
        family: it.family,
        desired: it.desired,
        held: it.held,
        different: it.different,
        is_compared: it.is_compared,
    };
    audit.tables.into_iter().map(table).collect()
}

fn kernel(audit: AuditedKernel) -> v1::AuditedKernel {
    let is_equal = audit.is_equal();
    let AuditedKernel { route_source, netns, table, routes, held, different, is_compared, reason } =
        audit;
    v1::AuditedKernel {
        route_source,
        netns,
        table,
        routes,
        held,
        different,
        is_compared,
        reason,
        is_equal,
    }
}

impl Learned {
    /// The route sources of the configuration, by name.
    pub async fn show_route_sources(&self) -> Vec<v1::RouteSourceState> {
        let mut states = self.route_sources().await;
        let configuration = self.connection.configuration();
        let route_sources = configuration.as_ref().map_or(&[][..], |it| &it.route_sources);
        let reported = route_sources.iter().map(|config| {
            let name = &config.source.name;
            let at = states.iter().position(|state| state.name == *name);
            let statistics = self.connection.route_sources().get(config.kind.name(), name);
            let statistics = statistics.map(|it| it.statistics()).unwrap_or_default();
            route_source(config, statistics, at.map(|at| states.swap_remove(at)))
        });
        reported.collect()
    }

    /// The route sources that import nothing now, because no daemon is connected or they are not open.
    pub async fn lost_route_sources(&self) -> Vec<v1::RouteSourceState> {
        let mut states = self.show_route_sources().await;
        states.retain(|state| state.since_unix_s == 0);
        states
    }

    /// Audits everything, repairs differences, and reports the route sources.
    pub async fn report(&self) -> v1::AuditLearnedReply {
        // The kernel tables come first: their repairs change what the forwarder has to hold.
        let kernels = self.audit_kernels().await;
        let audit = self.audit().await;
        let route_sources = self.show_route_sources().await;
        let work = self.work().await;
        let rest = self.ask(|runner| (runner.is_completed(), runner.reason.clone())).await;
        let (is_complete, reason) = rest.unwrap_or_default();
        v1::AuditLearnedReply {
            tables: tables(audit),
            route_sources,
            received: work.received,
            refused: work.refused,
            reason,
            table_us: work.table_us,
            forwarder_us: work.forwarder_us,
            is_complete,
            kernels: kernels.into_iter().map(kernel).collect(),
        }
    }
}
