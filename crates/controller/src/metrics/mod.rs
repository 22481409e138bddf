//! Metrics: all counters of the forwarder in the OpenMetrics format, for Prometheus.
//!
//! Each scrape requests the state from the control thread of the forwarder and from the table of learned routes. It
//! does not disturb workers or walk a table: routes and neighbours are only counted.

mod audits;
mod families;
mod learned;
pub mod page;
mod process;

use std::fmt;
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use crate::apply::{DesiredAudits, ForwarderConnection};
use crate::capability::{Facts, list};
use crate::learned::LearnedStatistics;
use crate::operational_state::{OperationalState, RouteFilter, StateSection};
use crate::route_sources;

/// The media type of OpenMetrics 1.0.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics as text. A forwarder that does not answer is no error but a metric: `stoa_forwarder_up 0`.
pub async fn render(connection: &ForwarderConnection) -> String {
    let started = Instant::now();
    let none = RouteFilter { table: None, at_most: 0 };
    let operational = OperationalState::ask(connection, &StateSection::OVERVIEW, &none).await.ok();
    let forwarder = connection.identity().and_then(|hello| u32::try_from(hello.pid).ok());
    let processes = [("controller", std::process::id())].into_iter();
    let processes = processes.chain(forwarder.map(|pid| ("forwarder", pid)));
    let processes = processes.filter_map(|(name, pid)| Some((name, process::read(pid)?))).collect();
    let learned = connection.learned().await;
    text(Scrape {
        operational,
        learned,
        route_sources: connection.route_sources().all(),
        audits: connection.desired_audits(),
        processes,
        started,
    })
}

fn text(scrape: Scrape) -> String {
    let mut registry = Registry::with_prefix("stoa");
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

/// The state that a scrape reads.
#[derive(Debug)]
struct Scrape {
    /// `None`: the forwarder does not answer.
    operational: Option<OperationalState>,
    /// `None`: the table of learned routes is busy.
    learned: Option<LearnedStatistics>,
    route_sources: Vec<(&'static str, String, route_sources::RouteSourceStatistics)>,
    audits: DesiredAudits,
    processes: Vec<(&'static str, process::ProcessStatistics)>,
    started: Instant,
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut page = page::Page::new(encoder);
        families::program(&mut page, self.operational.as_ref())?;
        process::render(&mut page, &self.processes)?;
        let learned = self.learned.as_ref();
        let own = Facts {
            route_sources: Some(&self.route_sources),
            learned_routes: learned.map(|it| it.route_sources.as_slice()),
            ..Facts::default()
        };
        if let Some(operational) = &self.operational {
            families::interfaces(&mut page, &operational.interfaces)?;
            families::nodes(&mut page, &operational.nodes)?;
            families::drops(&mut page, &operational.drops)?;
            families::routes(&mut page, &operational.route_counts)?;
            families::limits(&mut page, &operational.limits)?;
            families::flows(&mut page, &operational.flows)?;
            families::algs(&mut page, operational.algs.as_ref())?;
            families::accounting(&mut page, &operational.conservation)?;
            let facts = Facts {
                interfaces: &operational.interfaces,
                punts: Some(&operational.punts),
                rules: Some(&operational.rules),
                acls: Some(&operational.acls),
                zone_pairs: Some(&operational.zone_pairs),
                nat: operational.nat_facts(),
                ipfix: operational.ipfix.as_ref(),
                ipsec: operational.ipsec.as_ref(),
                flow_sync: operational.flow_sync.as_ref(),
                logins: Some(&operational.logins),
                drops: Some(&operational.drops),
                workers: Some(&operational.workers),
                ..own
            };
            for capability in list::all() {
                capability.metrics(&facts, &mut page)?;
            }
        }
        for capability in list::all() {
            capability.own_metrics(&own, &mut page)?;
        }
        if let Some(statistics) = learned {
            learned::table(&mut page, statistics)?;
        }
        audits::render(&mut page, &self.audits)?;
        let took = self.started.elapsed().as_secs_f64();
        page.gauge("scrape", "seconds", "Time to collect these metrics", took)
    }
}

#[cfg(test)]
mod tests;
