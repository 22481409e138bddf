//! Merges the stream of the forwarder's routes with the inactive static routes, in order.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ipnet::{IpNet, Ipv4Net};
use stoa_api::v1::{self, RouteState};
use tokio_stream::Stream;
use tonic::Status;

use crate::config::routes::{Key, VrfName};
use crate::rib::{self, RouteAnnotation};

/// Both, in the forwarder's order of VRFs, each VRF by prefix.
pub struct MergedRoutes<S> {
    held: S,
    inactive: BTreeMap<Key, RouteState>,
    annotations: Arc<BTreeMap<Key, RouteAnnotation>>,
    /// A received route that waits for the inactive ones before it.
    next: Option<RouteState>,
    /// The current VRF; the default one is the first.
    vrf: VrfName,
    has_ended: bool,
}

impl<S> MergedRoutes<S> {
    /// Merges the forwarder's routes, `held`, with `inactive`, and adds `annotations` to them.
    pub fn new(
        held: S,
        annotations: Arc<BTreeMap<Key, RouteAnnotation>>,
        inactive: BTreeMap<Key, RouteState>,
    ) -> Self {
        Self { held, inactive, annotations, next: None, vrf: VrfName::default(), has_ended: false }
    }

    /// The first inactive route of the current VRF, before `end` if that is in the same VRF.
    fn inactive_before(&mut self, end: &Key) -> Option<RouteState> {
        // The smallest prefix.
        let start = IpNet::V4(Ipv4Net::default());
        let first = self.inactive.range((self.vrf.clone(), start)..).next();
        let key = first
            .map(|(key, _)| key.clone())
            .filter(|key| key.0 == self.vrf && (end.0 != self.vrf || *key < *end))?;
        self.inactive.remove(&key)
    }
}

fn is_static(state: &RouteState) -> bool {
    state.route.as_ref().is_some_and(|route| route.protocol() == v1::Protocol::Static)
}

impl<S: Stream<Item = Result<RouteState, Status>> + Unpin> Stream for MergedRoutes<S> {
    type Item = Result<RouteState, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(mut next) = self.next.take() {
                if let Some(end) = rib::key_of(&next) {
                    if let Some(inactive) = self.inactive_before(&end) {
                        self.next = Some(next);
                        return Poll::Ready(Some(Ok(inactive)));
                    }
                    if is_static(&next) {
                        // Learned routes resolve its gateway, so it is active.
                        self.inactive.remove(&end);
                    }
                    if self.vrf != end.0 {
                        self.vrf = end.0;
                        self.next = Some(next);
                        continue;
                    }
                }
                rib::annotate(&self.annotations, &mut next);
                return Poll::Ready(Some(Ok(next)));
            }
            if self.has_ended {
                let last = self.vrf.clone();
                // The rest of this VRF, then VRFs without routes in the forwarder.
                let of_last = self.inactive.keys().find(|key| key.0 == last).cloned();
                let left = match of_last {
                    Some(key) => self.inactive.remove(&key),
                    None => self.inactive.pop_first().map(|(_, state)| state),
                };
                return Poll::Ready(left.map(Ok));
            }
            match Pin::new(&mut self.held).poll_next(context) {
                Poll::Ready(Some(Ok(state))) => self.next = Some(state),
                Poll::Ready(Some(Err(status))) => return Poll::Ready(Some(Err(status))),
                Poll::Ready(None) => self.has_ended = true,
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt;

    use super::*;

    fn state(vrf: &str, prefix: &str) -> (Key, RouteState) {
        let net: IpNet = prefix.parse().unwrap();
        let address = stoa_api::text::ip_bytes(net.addr());
        let prefix = Some(v1::Prefix { address, length: net.prefix_len().into() });
        let protocol = v1::Protocol::Static.into();
        let route = v1::Route { prefix, vrf: vrf.into(), protocol, ..Default::default() };
        ((vrf.into(), net), RouteState { route: Some(route), ..Default::default() })
    }

    #[tokio::test]
    async fn inactive_routes_are_in_order() {
        // The third one is static, and active because learned routes resolve its gateway.
        let held =
            [("", "10.0.0.0/8"), ("", "fd00::/64"), ("", "fd02::/64"), ("red", "10.2.0.0/16")];
        let inactive = [
            ("", "0.0.0.0/0"),
            ("", "10.0.0.0/24"),
            ("", "fd01::/64"),
            ("", "fd02::/64"),
            ("blue", "10.3.0.0/16"),
            ("red", "10.1.0.0/16"),
            ("red", "10.9.0.0/16"),
        ];
        let held = tokio_stream::iter(held.map(|(vrf, prefix)| Ok(state(vrf, prefix).1)));
        let inactive = inactive.map(|(vrf, prefix)| state(vrf, prefix)).into_iter().collect();
        let all = MergedRoutes::new(held, Arc::default(), inactive);
        let listed: Vec<String> = all
            .map(|state| {
                let (vrf, prefix) = rib::key_of(&state.unwrap()).unwrap();
                format!("{vrf} {prefix}")
            })
            .collect()
            .await;
        let expected = [
            " 0.0.0.0/0",
            " 10.0.0.0/8",
            " 10.0.0.0/24",
            " fd00::/64",
            " fd01::/64",
            " fd02::/64",
            "red 10.1.0.0/16",
            "red 10.2.0.0/16",
            "red 10.9.0.0/16",
            "blue 10.3.0.0/16",
        ];
        assert_eq!(listed, expected);
    }
}
