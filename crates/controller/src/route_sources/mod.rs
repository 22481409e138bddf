//! Route sources for routing daemons.
//!
//! `capability` has their configuration, state and metrics, `reconciler` opens and closes them, `state` has their
//! counters, `comparison` serves audits. The `linux` module and the BGP session receive routes, `learned` selects among
//! them.

mod capability;
mod comparison;
mod reconciler;
mod state;

use std::collections::BTreeMap;

use stoa_api::v1;

use crate::config::Interfaces;
use crate::linux::netns::identity;

pub(crate) use capability::RouteSources;

pub use crate::config::route_sources::{Kind, RouteSourceConfig};
pub use comparison::{ComparisonRequest, ComparisonRequests, ComparisonResult};
pub use reconciler::Reconciler;
pub use state::{RouteSourceState, RouteSourceStates, RouteSourceStatistics};

/// Namespaces that route sources and host interfaces need and that do not exist now, for checks of a
/// configuration. They may appear later: a route source tries again, but a running router refuses host
/// interfaces without their namespace.
pub fn missing_namespaces(
    route_sources: &[RouteSourceConfig],
    interfaces: &Interfaces,
) -> Vec<String> {
    let of_route_source = |route_source: &RouteSourceConfig| {
        (route_source.netns.clone(), format!("route source {}", route_source.source.name))
    };
    let of_host_interface = |interface: &v1::Interface| {
        let netns = interface.host_interface.as_ref()?.netns.clone();
        Some((netns, format!("host interface of {}", interface.name)))
    };
    let all = route_sources
        .iter()
        .map(of_route_source)
        .chain(interfaces.iter().filter_map(of_host_interface));
    let mut by_netns: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (netns, who) in all.filter(|(netns, _)| identity(netns).is_none()) {
        by_netns.entry(netns).or_default().push(who);
    }
    let message = |(netns, who): (String, Vec<String>)| {
        let need = if who.len() == 1 { "needs" } else { "need" };
        let who = who.join(", ");
        format!(
            "the network namespace \"{netns}\" does not exist, but {who} {need} it: ip netns add {netns}"
        )
    };
    by_netns.into_iter().map(message).collect()
}
