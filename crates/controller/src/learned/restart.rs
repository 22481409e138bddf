//! Decides when the forwarder may remove routes that the previous controller left behind.
//!
//! A daemon that was started together with this controller marks the end of its announcements, or goes quiet, while it
//! waits for its own neighbours (`session`). So before stale routes are removed, the announced routes are compared with
//! those that the forwarder holds, by VRF, family and protocol. Only a route source that announces exactly what exists
//! (netlink) is trusted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stoa_api::v1;
use tokio::sync::mpsc;

use super::announcements::covers;
use super::prefixes::Ip6Words;
use super::run::Runner;
use super::statics;
use super::stream::StreamEvent;
use super::table::Table;
use crate::apply::ForwarderConnection;

/// Interval between queries of the forwarder.
const INTERVAL: Duration = Duration::from_secs(1);

/// Routes by VRF, family (4 or 6) and protocol.
type Counts = BTreeMap<(String, u32, i32), u64>;

/// State of the decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RestartState {
    /// Stale routes may be removed, now and for the lifetime of this controller.
    sweep_allowed: bool,
    /// When the forwarder was last queried.
    last_query: Option<Instant>,
    /// After this time stale routes are removed in any case.
    deadline: Option<Instant>,
}

/// Whether at least nine tenths of the forwarder's routes were announced, of each VRF, family and protocol
/// that route sources announce.
fn covers_most_of(received: &Counts, held: &[v1::RouteCount]) -> bool {
    let mut sums = Counts::new();
    for count in held {
        let is_of_route_sources =
            !matches!(count.protocol(), v1::Protocol::Direct | v1::Protocol::Static);
        if is_of_route_sources {
            *sums.entry((count.vrf.clone(), count.family, count.protocol)).or_default() +=
                count.routes;
        }
    }
    covers(received, &sums, true)
}

impl Table {
    /// Whether one of these route sources only counts as complete.
    fn is_presumed_complete(&self, route_sources: &[String]) -> bool {
        let held = self.sources.iter().flatten();
        held.filter(|held| route_sources.contains(&held.source.name))
            .any(|held| held.is_presumed_complete)
    }

    fn route_counts(&self) -> Counts {
        let mut counts = Counts::new();
        for held in self.sources.iter().flatten().filter(|held| !statics::is_own(&held.source)) {
            let vrf = held.source.vrf.to_string();
            for (protocol, routes) in self.by_protocol::<u32>(held, true) {
                *counts.entry((vrf.clone(), 4, protocol)).or_default() += routes;
            }
            for (protocol, routes) in self.by_protocol::<Ip6Words>(held, true) {
                *counts.entry((vrf.clone(), 6, protocol)).or_default() += routes;
            }
        }
        counts
    }

    /// The longest time that a route source may take to announce its routes again.
    fn longest_stale_time(&self) -> Duration {
        let route_sources =
            self.sources.iter().flatten().filter(|held| !statics::is_own(&held.source));
        route_sources.map(|held| held.source.stale_time).max().unwrap_or_default()
    }
}

impl Runner {
    /// Whether stale routes may be removed. Queries the forwarder's route counts if that is undecided.
    pub(super) fn may_sweep(
        &mut self,
        connection: &Arc<ForwarderConnection>,
        events: &mpsc::Sender<StreamEvent>,
    ) -> bool {
        let is_presumed_complete = self
            .route_sources
            .as_ref()
            .is_some_and(|route_sources| self.table.is_presumed_complete(route_sources));
        let now = Instant::now();
        let deadline = *self.restart.deadline.get_or_insert(now + self.table.longest_stale_time());
        if self.restart.sweep_allowed || !is_presumed_complete || now >= deadline {
            self.restart.sweep_allowed = true;
            return true;
        }
        if self.restart.last_query.is_none_or(|last_query| now >= last_query + INTERVAL) {
            self.restart.last_query = Some(now);
            let (mut client, events) = (connection.client(), events.clone());
            tokio::spawn(async move {
                if let Ok(counts) = client.count_routes(v1::CountRoutesRequest {}).await {
                    // The table lives as long as the controller.
                    let _ = events.send(StreamEvent::Counts(counts.into_inner().counts)).await;
                }
            });
        }
        false
    }

    /// Handles the forwarder's route counts.
    pub(super) fn handle_counts(&mut self, held: &[v1::RouteCount]) {
        self.restart.sweep_allowed |= covers_most_of(&self.table.route_counts(), held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::{Event, NextHopPath, Source, Target, Update};

    #[test]
    fn nine_tenths_of_each_protocol_must_be_announced() {
        let count = |vrf: &str, family, protocol: v1::Protocol, routes| v1::RouteCount {
            vrf: vrf.to_owned(),
            family,
            protocol: protocol.into(),
            routes,
        };
        let held = [
            count("", 4, v1::Protocol::Bgp, 60),
            count("", 6, v1::Protocol::Bgp, 40),
            count("", 4, v1::Protocol::Direct, 1_000),
            count("red", 4, v1::Protocol::Ospf, 1),
        ];
        let received = |bgp: u64, ospf: u64| {
            let (bgp_is, ospf_is) = (v1::Protocol::Bgp.into(), v1::Protocol::Ospf.into());
            Counts::from([
                ((String::new(), 4, bgp_is), bgp),
                ((String::new(), 6, bgp_is), 36),
                (("red".to_owned(), 4, ospf_is), ospf),
            ])
        };
        assert!(covers_most_of(&received(54, 1), &held) && covers_most_of(&received(0, 0), &[]));
        assert!(!covers_most_of(&received(53, 1), &held), "some of BGP is missing");
        assert!(!covers_most_of(&received(100, 0), &held), "a VRF is missing");
        let more = [count("", 6, v1::Protocol::Bgp, 1)];
        assert!(
            !covers_most_of(&received(1_000, 1), &[&held[..], &more].concat()),
            "IPv4 routes do not compensate for missing IPv6 routes"
        );
    }

    #[test]
    fn announced_routes_are_counted_by_family_and_protocol() {
        let mut table = Table::default();
        let stale_time = Duration::from_secs(60);
        let source = Source { name: "x".into(), vrf: "red".into(), preference: None, stale_time };
        let path = NextHopPath { interface: Some("a".into()), gateway: None, weight: 1 };
        let update = |protocol, ip4: u32, ip6: u128| {
            let ip4 = (0..ip4).map(|it| (0x1400_0000 + (it << 8), 24)).collect();
            let ip6 = (0..ip6).map(|it| ((0x2001 << 112) + (it << 64), 64)).collect();
            let target = Some(Target::Paths([path.clone()].into(), [].into()));
            Event::Update(Update { protocol, target, ip4, ip6 })
        };
        let events = vec![update(v1::Protocol::Bgp, 3, 2), update(v1::Protocol::Ospf, 1, 0)];
        table.process(&Arc::new(source), events, Instant::now());
        let received = table.route_counts();
        let of = |family, protocol: v1::Protocol| {
            received.get(&("red".to_owned(), family, protocol.into())).copied()
        };
        let bgp = (of(4, v1::Protocol::Bgp), of(6, v1::Protocol::Bgp));
        // The OSPF route replaced the first BGP route.
        assert_eq!((bgp, of(4, v1::Protocol::Ospf)), ((Some(2), Some(2)), Some(1)));
        assert_eq!(received.len(), 3);
    }
}
