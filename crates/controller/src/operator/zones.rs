//! Zones: their interfaces, and what passes between them.

use std::collections::BTreeMap;

use stoa_api::v1;
use stoa_api::zones::ROUTER;
use tonic::Status;

use super::{Service, failed};

impl Service {
    /// The zones that interfaces have or that pairs name, and the pairs with their counters.
    pub(super) async fn zones(&self) -> Result<v1::ShowZonesReply, Status> {
        let mut listed = self.listed_pairs().await?;
        self.cleared_acls.zones.subtract(&mut listed);
        let v1::ListZonePairsReply { pairs, unpaired_packets, unpaired_bytes, .. } = &listed;
        let (unpaired_packets, unpaired_bytes) = (*unpaired_packets, *unpaired_bytes);
        let mut zones: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let named = pairs.iter().filter_map(|state| state.pair.as_ref());
        for zone in named.flat_map(|pair| [&pair.from, &pair.to]).filter(|zone| *zone != ROUTER) {
            zones.entry(zone.clone()).or_default();
        }
        let configuration = self.connection.configuration();
        for interface in configuration.iter().flat_map(|it| it.interfaces.iter()) {
            if !interface.zone.is_empty() {
                zones.entry(interface.zone.clone()).or_default().push(interface.name.clone());
            }
        }
        let zone = |(name, interfaces)| v1::Zone { name, interfaces };
        let zones = zones.into_iter().map(zone).collect();
        let v1::ListZonePairsReply { pairs, syn_cookies, syn_cookies_refused, .. } = listed;
        Ok(v1::ShowZonesReply {
            zones,
            pairs,
            unpaired_packets,
            unpaired_bytes,
            syn_cookies,
            syn_cookies_refused,
        })
    }

    /// The pairs with their counters, as the forwarder has them.
    async fn listed_pairs(&self) -> Result<v1::ListZonePairsReply, Status> {
        let ask = v1::ListZonePairsRequest {};
        let listed = self.connection.client().list_zone_pairs(ask).await;
        Ok(listed.map_err(failed)?.into_inner())
    }

    /// Has the counters of zones begin at 0 for operators.
    pub(super) async fn clear_pairs(&self) -> Result<v1::ClearZonesReply, Status> {
        let pairs = self.cleared_acls.zones.clear(self.listed_pairs().await?);
        Ok(v1::ClearZonesReply { pairs })
    }
}
