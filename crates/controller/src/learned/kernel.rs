//! Audits kernel tables: compares each table that a route source imports with what the table of learned
//! routes holds of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::Learned;
use crate::route_sources::{Kind, RouteSourceState};

/// Time limit for a route source's comparison: a million routes take it a second or two, and the table as
/// long to process them.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The result for one kernel table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditedKernel {
    /// The route source that imports it.
    pub route_source: String,
    /// The network namespace; "" is the controller's own.
    pub netns: String,
    /// The table's number.
    pub table: u32,
    /// Prefixes of it that lead through host interfaces.
    pub routes: u64,
    /// Prefixes that the table of learned routes holds of it.
    pub held: u64,
    /// Prefixes that differed or were missing, and were sent again.
    pub different: u64,
    /// Whether the comparison succeeded; it fails while routes keep changing or the route source is not open.
    pub is_compared: bool,
    /// Why the comparison failed.
    pub reason: String,
}

impl AuditedKernel {
    /// Whether the table of learned routes holds exactly the kernel's routes.
    pub fn is_equal(&self) -> bool {
        self.is_compared && self.different == 0 && self.routes == self.held
    }
}

impl Learned {
    /// Makes all netlink route sources compare at the same time. Differences are sent again and counted by
    /// the route source.
    pub async fn audit_kernels(&self) -> Vec<AuditedKernel> {
        let mut audits = JoinSet::new();
        let route_sources = self
            .connection
            .configuration()
            .map(|it| Arc::clone(&it.route_sources))
            .unwrap_or_default();
        for route_source in route_sources.iter() {
            let Kind::Netlink { table, .. } = route_source.kind else { continue };
            let audit = AuditedKernel {
                route_source: route_source.source.name.clone(),
                netns: route_source.netns.clone(),
                table,
                ..AuditedKernel::default()
            };
            let state =
                self.connection.route_sources().get(route_source.kind.name(), &audit.route_source);
            audits.spawn(audit_kernel(audit, state));
        }
        let mut audited = audits.join_all().await;
        audited.sort_by(|one, other| one.route_source.cmp(&other.route_source));
        audited
    }
}

async fn audit_kernel(
    mut audit: AuditedKernel,
    state: Option<Arc<RouteSourceState>>,
) -> AuditedKernel {
    let Some(state) = state else {
        "the route source is not open yet".clone_into(&mut audit.reason);
        return audit;
    };
    for is_second in [false, true] {
        let Some(compared) = state.comparison_requests.request(is_second, TIMEOUT).await else {
            let reason = state.statistics().reason;
            audit.is_compared = false;
            audit.reason = if reason.is_empty() {
                "the route source did not answer".to_owned()
            } else {
                reason
            };
            return audit;
        };
        audit.different += compared.different;
        audit.routes = compared.routes;
        let Some(held) = compared.held else {
            audit.is_compared = false;
            "the table of learned routes is busy: ask again".clone_into(&mut audit.reason);
            return audit;
        };
        audit.held = held;
        audit.is_compared = compared.is_complete;
        if audit.held == audit.routes || !compared.is_complete {
            break;
        }
        // Announcements were lost on the way: they are sent again and counted once more.
        if !is_second {
            let lost = audit.held.abs_diff(audit.routes);
            audit.different += lost;
            state.repaired(lost);
        }
    }
    if !audit.is_compared {
        "the kernel's routes change: ask again".clone_into(&mut audit.reason);
    }
    audit
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;
    use stoa_api::{unix, v1};

    use super::*;
    use crate::apply::ForwarderConnection;
    use crate::configuration::Configuration;
    use crate::learned::{Event, NextHopPath, RouteSource, Source, Target, Update};
    use crate::route_sources::ComparisonResult;

    /// A connection whose configuration has a route source for kernel table 254.
    fn connection() -> Arc<ForwarderConnection> {
        let interface = json!({
            "name": "a", "type": "iana-if-type:ethernetCsmacd",
            "stoa-interfaces:port": { "null": {} }, "stoa-host-interface:host-interface": { "netns": "local" },
        });
        let route_source = json!({
            "type": "stoa-routing:netlink", "name": "kernel", "stoa-routing:route-source": { "netns": "local" },
        });
        let text = json!({
            "ietf-interfaces:interfaces": { "interface": [interface] },
            "ietf-routing:routing": { "control-plane-protocols": { "control-plane-protocol": [route_source] } },
        });
        let configuration = Configuration::parse(Path::new("test"), text.to_string()).unwrap();
        Arc::new(ForwarderConnection::new(
            unix::connect_lazily(Path::new("/nowhere/f.sock")),
            configuration,
        ))
    }

    fn routes(count: u32) -> Event {
        let path = NextHopPath { interface: Some("a".into()), gateway: None, weight: 1 };
        Event::Update(Update {
            protocol: v1::Protocol::Kernel,
            target: Some(Target::Paths([path].into(), [].into())),
            ip4: (0..count).map(|number| (0x1400_0000 + (number << 8), 24)).collect(),
            ip6: vec![],
        })
    }

    /// Answers every request with `found`, and resends everything on request.
    fn answer(
        state: Arc<RouteSourceState>,
        route_source: RouteSource,
        found: ComparisonResult,
    ) -> tokio::task::JoinHandle<()> {
        tokio::spawn(async move {
            loop {
                let asked = state.comparison_requests.next_requests().await;
                if asked.iter().any(|request| request.resend_all) {
                    route_source.send(vec![Event::Up, routes(9), Event::Complete]).await;
                }
                let held = route_source.count().await.await.ok();
                let found = ComparisonResult { held, ..found };
                asked.into_iter().for_each(|request| request.reply(found));
            }
        })
    }

    #[tokio::test]
    async fn a_kernel_table_is_compared_with_the_learned_routes() {
        let connection = connection();
        let learned = Learned::start(Arc::clone(&connection)).unwrap();
        let audited = learned.audit_kernels().await;
        assert_eq!((audited.len(), audited[0].table, audited[0].netns.as_str()), (1, 254, "local"));
        assert!(!audited[0].is_equal() && audited[0].reason.contains("not open"), "{audited:?}");

        let state = connection.route_sources().open("stoa-routing:netlink", "kernel");
        let (name, vrf) = ("kernel".to_owned(), "".into());
        let stale_time = Duration::from_secs(60);
        let route_source = learned.open(Source { name, vrf, preference: None, stale_time });
        route_source.send(vec![Event::Up, routes(9), Event::Complete]).await;
        let found = ComparisonResult { routes: 9, held: None, different: 0, is_complete: true };
        let task = answer(Arc::clone(&state), route_source.clone(), found);
        let audited = learned.audit_kernels().await;
        assert!(audited[0].is_equal() && audited[0].held == 9, "{audited:?}");

        // Two routes are lost between the route source and the table: they are sent again and counted.
        route_source.send(vec![Event::Up, routes(7), Event::Complete]).await;
        assert_eq!(route_source.count().await.await, Ok(7));
        let audited = learned.audit_kernels().await;
        let it = &audited[0];
        assert_eq!((it.routes, it.held, it.different, it.is_compared), (9, 9, 2, true), "{it:?}");
        assert_eq!(state.statistics().repaired, 2);
        assert!(learned.audit_kernels().await[0].is_equal());
        task.abort();

        // A table that does not answer in time proves nothing.
        let busy = Arc::clone(&state);
        let task = tokio::spawn(async move {
            busy.comparison_requests
                .next_requests()
                .await
                .into_iter()
                .for_each(|request| request.reply(found));
        });
        let audited = learned.audit_kernels().await;
        assert!(!audited[0].is_compared && audited[0].reason.contains("busy"), "{audited:?}");
        task.await.unwrap();

        // A kernel table that keeps changing proves nothing.
        let found = ComparisonResult { is_complete: false, ..found };
        let task = answer(state, route_source, found);
        let audited = learned.audit_kernels().await;
        assert!(!audited[0].is_compared && audited[0].reason.contains("ask again"), "{audited:?}");
        task.abort();
    }
}
