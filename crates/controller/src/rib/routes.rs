//! The routes of a configuration, in order: later configurations share those that are the same.

use std::cmp::Ordering;

use ipnet::IpNet;
use stoa_api::text::ip_bytes;
use stoa_api::v1;

use crate::config::blocks::{Blocks, Keyed};

/// Routes, sorted by VRF, family, address and length of their prefixes, of which each occurs once.
pub type Routes = Blocks<v1::Route>;

/// VRF, family, address and length of the prefix.
type Key<'a> = (&'a str, usize, &'a [u8], u32);

impl Keyed for v1::Route {
    type Key<'a> = Key<'a>;

    fn key(&self) -> Key<'_> {
        let (address, length) =
            self.prefix.as_ref().map_or((&[][..], 0), |it| (it.address.as_slice(), it.length));
        (&self.vrf, address.len(), address, length)
    }
}

/// Compares routes with a prefix of a VRF.
fn order<'a>(vrf: &'a str, prefix: &IpNet) -> impl Fn(&v1::Route) -> Ordering + use<'a> {
    let (address, length) = (ip_bytes(prefix.network()), u32::from(prefix.prefix_len()));
    move |route| route.key().cmp(&(vrf, address.len(), &address, length))
}

impl Blocks<v1::Route> {
    /// The route to exactly this prefix.
    pub fn get(&self, vrf: &str, prefix: &IpNet) -> Option<&v1::Route> {
        self.find(order(vrf, prefix))
    }

    /// Removes the route to a prefix, if there is one.
    pub fn withdraw(&mut self, vrf: &str, prefix: &IpNet) {
        self.remove(order(vrf, prefix));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(vrf: &str, prefix: &str) -> v1::Route {
        let prefix = Some(crate::prefix::prefix_to_proto(&prefix.parse().unwrap()));
        v1::Route { vrf: vrf.into(), prefix, ..v1::Route::default() }
    }

    #[test]
    fn routes_are_found_by_vrf_and_prefix() {
        let all = [
            ("", "0.0.0.0/0"),
            ("", "10.0.0.0/8"),
            ("", "10.0.0.0/24"),
            ("", "::/0"),
            ("", "2001:db8::/32"),
            ("red", "10.0.0.0/8"),
        ];
        let routes: Vec<v1::Route> = all.iter().rev().map(|(vrf, net)| route(vrf, net)).collect();
        let mut routes = Routes::from(routes);
        let sorted: Vec<_> = all.iter().map(|(vrf, net)| route(vrf, net)).collect();
        assert_eq!(routes.to_vec(), sorted);
        for (vrf, prefix) in all {
            let net: IpNet = prefix.parse().unwrap();
            assert_eq!(routes.get(vrf, &net), Some(&route(vrf, prefix)));
            assert_eq!(routes.get("blue", &net), None);
            routes.withdraw("blue", &net);
            routes.withdraw(vrf, &net);
            assert_eq!(routes.get(vrf, &net), None);
        }
        assert!(routes.is_empty());
    }
}
