//! Zones: their interfaces, and what passes between them.

use std::collections::BTreeMap;

use stoa_api::v1;
use stoa_api::zones::ROUTER;
use tonic::Status;

use super::{Service, failed};

impl Service {
    /// The zones that interfaces have or that pairs name, and the pairs with their counters.
    pub(super) async fn zones(&self) -> Result<v1::ShowZonesReply, Status> {
        let ask = v1::ListZonePairsRequest {};
        let listed =
            self.connection.client().list_zone_pairs(ask).await.map_err(failed)?.into_inner();
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
}
