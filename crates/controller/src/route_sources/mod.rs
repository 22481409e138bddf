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
use stoa_api::v1::port::Driver;

use crate::config::Interfaces;
use crate::linux::netns::identity;

pub(crate) use capability::RouteSources;

pub use crate::config::route_sources::{Kind, RouteSourceConfig};
pub use comparison::{ComparisonRequest, ComparisonRequests, ComparisonResult};
pub use reconciler::Reconciler;
pub use state::{RouteSourceState, RouteSourceStates, RouteSourceStatistics};

/// Namespaces that route sources, ports and host interfaces need and that do not exist now, for checks of a
/// configuration. They may appear later: a route source and a port try again, but a running router refuses new ports
/// and host interfaces without their namespace.
pub fn missing_namespaces(
    route_sources: &[RouteSourceConfig],
    interfaces: &Interfaces,
    ports: &[v1::Port],
) -> Vec<String> {
    let of_route_source = |route_source: &RouteSourceConfig| {
        (route_source.netns.clone(), format!("route source {}", route_source.source.name))
    };
    let of_host_interface = |interface: &v1::Interface| {
        let netns = interface.host_interface.as_ref()?.netns.clone();
        Some((netns, format!("host interface of {}", interface.name)))
    };
    let of_port = |port: &v1::Port| {
        let netns = match port.driver.as_ref()? {
            Driver::AfPacket(it) => &it.netns,
            Driver::AfXdp(it) => &it.netns,
            Driver::Tap(it) => &it.netns,
            _ => return None,
        };
        Some((netns.clone(), format!("port {}", port.interface)))
    };
    let all = route_sources
        .iter()
        .map(of_route_source)
        .chain(ports.iter().filter_map(of_port))
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
