//! The route source of a learned route in use, and whether it is stale: the forwarder knows neither.

use ipnet::IpNet;

use super::prefixes::{Address, Ip6Words};
use super::statics::is_own;
use super::table::{Family, Table};
use super::table_handle::Origin;
use crate::config::routes::{Key, VrfName};

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
