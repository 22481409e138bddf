//! Adds the route source of learned routes in use, and whether they are stale, to route listings of the
//! forwarder, which knows neither.

use ipnet::IpNet;
use stoa_api::v1;

use super::prefixes::{Address, Ip6Words};
use super::statics::is_own;
use super::statistics::TableHandle;
use super::table::{Family, Table};
use crate::rib;
use crate::routes::{Key, VrfName};

/// The origin of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    /// The name of the route source; "": the configuration.
    pub(super) route_source: String,
    /// Whether the current session has not announced the route again.
    pub(super) is_stale: bool,
}

impl TableHandle {
    /// Sets the route source of each learned route. Leaves the routes unchanged when the table is busy.
    pub(crate) async fn name_route_sources(&self, routes: &mut [v1::RouteState]) {
        let learned: Vec<usize> = (0..routes.len())
            .filter(|at| routes[*at].is_learned && routes[*at].route_source.is_empty())
            .collect();
        if learned.is_empty() {
            return;
        }
        let keys: Vec<Option<Key>> = learned.iter().map(|at| rib::key_of(&routes[*at])).collect();
        let origins = self.ask(move |runner| {
            let of = |key: &Option<Key>| key.as_ref().and_then(|key| runner.table.origin(key));
            keys.iter().map(of).collect::<Vec<_>>()
        });
        for (at, origin) in learned.into_iter().zip(origins.await.unwrap_or_default()) {
            let Some(Origin { route_source, is_stale }) = origin else { continue };
            routes[at].route_source = route_source;
            routes[at].is_stale |= is_stale;
        }
    }
}

impl Table {
    /// The origin of the learned route that wins a prefix.
    pub(super) fn origin(&self, (vrf, net): &Key) -> Option<Origin> {
        match net {
            IpNet::V4(net) => self.origin_of::<u32>(vrf, net.addr().to_bits(), net.prefix_len()),
            IpNet::V6(net) => self.origin_of::<Ip6Words>(
                vrf,
                Ip6Words::narrow(net.addr().to_bits()),
                net.prefix_len(),
            ),
        }
    }

    fn origin_of<A: Family>(&self, vrf: &VrfName, address: A, length: u8) -> Option<Origin> {
        let group = self.groups.get(self.winner(vrf, address, length)?)?;
        let entry = self.sources.get(group.source)?.as_ref()?;
        let is_stale = A::of(entry).is_stale(address, length);
        Some(Origin { route_source: self.route_source_of(group.source), is_stale })
    }

    /// The name of the route source at an index; "": the configuration.
    pub(super) fn route_source_of(&self, source_index: usize) -> String {
        let entry = self.sources.get(source_index).and_then(Option::as_ref);
        let route_source = entry.map(|entry| &entry.source).filter(|source| !is_own(source));
        route_source.map(|source| source.name.clone()).unwrap_or_default()
    }
}
