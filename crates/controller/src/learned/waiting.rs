//! Static routes whose gateways the configuration alone does not reach: learned routes may lead there, as those of an IGP do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stoa_api::v1;

use super::door::{Event, Source, Target, Update, Way};
use super::table::Table;
use crate::configuration::Configuration;
use crate::routes::VrfName;

/// How much they count against learned routes: as static routes do everywhere, before all of them.
const PREFERENCE: u8 = 1;

/// The table's own door for those of a VRF. No protocol instance has such a name.
fn source(vrf: &VrfName) -> Arc<Source> {
    let name = format!("/static/{vrf}");
    let (preference, stale_time) = (Some(PREFERENCE), Duration::from_secs(1));
    Arc::new(Source { name, vrf: vrf.clone(), preference, stale_time })
}

/// Whether this is no door of a daemon.
pub fn is_own(source: &Source) -> bool {
    source.name.starts_with('/')
}

impl Table {
    /// Takes over the static routes that wait, and lets go of those that do no more.
    pub(super) fn take_waiting(&mut self, configuration: &Configuration, now: Instant) {
        let mut by_vrf: BTreeMap<VrfName, Vec<Event>> = BTreeMap::new();
        let known = self.held.iter().flatten().filter(|held| is_own(&held.source));
        for vrf in known.map(|held| held.source.vrf.clone()) {
            by_vrf.insert(vrf, Vec::new());
        }
        for ((vrf, prefix), note) in configuration.notes.iter().filter(|(_, it)| it.is_inactive) {
            let way = |hop: &v1::NextHop| Way {
                interface: None,
                gateway: stoa_api::text::ip(&hop.gateway),
                weight: u16::try_from(hop.weight.max(1)).unwrap_or(u16::MAX),
            };
            let ways: Arc<[Way]> = note.next_hops.iter().map(way).collect();
            let target = Some(Target::Ways(ways, [].into()));
            let mut update =
                Update { protocol: v1::Protocol::Static, target, ip4: vec![], ip6: vec![] };
            match prefix.addr() {
                std::net::IpAddr::V4(ip) => update.ip4.push((ip.to_bits(), prefix.prefix_len())),
                std::net::IpAddr::V6(ip) => update.ip6.push((ip.to_bits(), prefix.prefix_len())),
            }
            by_vrf.entry(vrf.clone()).or_default().push(Event::Update(update));
        }
        for (vrf, updates) in by_vrf {
            let last = if updates.is_empty() { Event::Closed } else { Event::Complete };
            let events = [Event::Up].into_iter().chain(updates).chain([last]).collect();
            self.hear(&source(&vrf), events, now);
        }
    }
}
