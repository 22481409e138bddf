//! Metrics: every counter of the forwarder as OpenMetrics text, for Prometheus and its kin.
//!
//! Nothing is counted here. At each scrape the forwarder's control thread is asked for its facts, and the
//! table of learned routes for its; workers are not disturbed, and nobody walks a table: of routes and neighbours only the numbers
//! are told.

mod families;
mod learned;
mod page;
mod process;

use std::fmt;
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use crate::apply::ForwarderConnection;
use crate::operational_state::{OperationalState, StateSection, RouteFilter};
use crate::learned::LearnedStatistics;
use crate::route_sources;

/// What an HTTP server says of the text: OpenMetrics 1.0.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics as text. A forwarder that does not answer is one of them (`stoa_forwarder_up 0`)
/// and no error: whoever watches shall see that.
pub async fn render(connection: &ForwarderConnection) -> String {
    let begun = Instant::now();
    let none = RouteFilter { table: None, at_most: 0 };
    let operational = OperationalState::ask(connection, &StateSection::OVERVIEW, &none).await.ok();
    let forwarder = connection.identity().and_then(|hello| u32::try_from(hello.pid).ok());
    let processes = [("controller", std::process::id())].into_iter();
    let processes = processes.chain(forwarder.map(|pid| ("forwarder", pid)));
    let processes = processes.filter_map(|(name, pid)| Some((name, process::look(pid)?))).collect();
    let learned = connection.learned().await;
    text(Scrape { operational, learned, route_sources: connection.route_sources().all(), processes, begun })
}

fn text(scrape: Scrape) -> String {
    let mut registry = Registry::with_prefix("stoa");
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    // Writing into a string does not fail, and no figure is beyond what the text can hold.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

/// What one scrape found.
#[derive(Debug)]
struct Scrape {
    /// `None`: the forwarder does not answer.
    operational: Option<OperationalState>,
    /// `None`: the table of learned routes has no time.
    learned: Option<LearnedStatistics>,
    route_sources: Vec<(&'static str, String, route_sources::RouteSourceStatistics)>,
    processes: Vec<(&'static str, process::Figures)>,
    begun: Instant,
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut page = page::Page::new(encoder);
        families::program(&mut page, self.operational.as_ref())?;
        process::render(&mut page, &self.processes)?;
        if let Some(operational) = &self.operational {
            families::interfaces(&mut page, &operational.interfaces)?;
            families::nodes(&mut page, &operational.nodes)?;
            families::workers(&mut page, &operational.workers)?;
            families::drops(&mut page, &operational.drops)?;
            families::punts(&mut page, &operational.punts)?;
            families::routes(&mut page, &operational.route_counts)?;
            families::limits(&mut page, &operational.limits)?;
            families::accounting(&mut page, &operational.conservation)?;
        }
        learned::sessions(&mut page, &self.route_sources)?;
        if let Some(statistics) = &self.learned {
            learned::table(&mut page, statistics)?;
        }
        let took = self.begun.elapsed().as_secs_f64();
        page.gauge("scrape", "seconds", "What it took to gather these metrics", took)
    }
}

#[cfg(test)]
mod tests;
