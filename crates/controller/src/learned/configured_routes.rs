//! The routes of the configuration, which resolve gateways of learned routes.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use stoa_api::v1;

use crate::config::routes::VrfName;
use crate::configuration::Configuration;

/// Direct and static routes, indexed by prefix.
#[derive(Debug, Default)]
pub struct ConfiguredRoutes {
    configuration: Option<Arc<Configuration>>,
    /// Indices of the routes in search order; empty if the routes are in that order.
    order: Vec<u32>,
}

/// Search key of a route.
type Key<'a> = (&'a str, usize, &'a [u8], u32);

fn key(route: &v1::Route) -> Key<'_> {
    let (address, length) =
        route.prefix.as_ref().map_or((&[][..], 0), |it| (it.address.as_slice(), it.length));
    (&route.vrf, address.len(), address, length)
}

impl ConfiguredRoutes {
    /// The routes of a configuration.
    pub fn new(configuration: Arc<Configuration>) -> Self {
        let routes = &configuration.routes;
        let mut order = Vec::new();
        if !routes.is_sorted_by_key(key) {
            order = (0..routes.len() as u32).collect();
            order.sort_by_key(|at| key(&routes[*at as usize]));
        }
        Self { order, configuration: Some(configuration) }
    }

    /// Whether these are the routes of this configuration, which may share them with an earlier one.
    pub fn is_of(&self, configuration: &Configuration) -> bool {
        self.configuration.as_ref().is_some_and(|own| {
            Arc::ptr_eq(&own.routes, &configuration.routes)
                && Arc::ptr_eq(&own.annotations, &configuration.annotations)
                && Arc::ptr_eq(&own.floating, &configuration.floating)
        })
    }

    /// The prefixes of a VRF.
    pub fn prefixes(&self, vrf: &VrfName) -> impl Iterator<Item = IpNet> {
        let configuration = self.configuration.iter();
        let routes = configuration.flat_map(|it| it.routes.iter());
        let here = routes.filter(move |route| *route.vrf == **vrf);
        here.filter_map(|route| crate::prefix::prefix_from_proto(route.prefix.as_ref()?))
    }

    /// The action of the route to exactly this prefix.
    pub fn get(&self, vrf: &str, address: IpAddr, length: u8) -> Option<&v1::route::Action> {
        let routes = &self.configuration.as_ref()?.routes;
        let bytes = stoa_api::text::ip_bytes(address);
        let sought: Key<'_> = (vrf, bytes.len(), &bytes, length.into());
        let compare = |route: &v1::Route| -> Ordering { key(route).cmp(&sought) };
        let at = match self.order.as_slice() {
            [] => routes.binary_search_by(compare).ok()?,
            order => {
                let found = order.binary_search_by(|at| compare(&routes[*at as usize]));
                order[found.ok()?] as usize
            }
        };
        routes[at].action.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn routes_are_found_in_any_order() {
        let route = |vrf: &str, address: &str, length| {
            let address = stoa_api::text::ip_bytes(address.parse().unwrap());
            v1::Route {
                prefix: Some(v1::Prefix { address, length }),
                vrf: vrf.to_owned(),
                action: Some(v1::route::Action::Special(length as i32)),
                ..v1::Route::default()
            }
        };
        let mut routes = vec![
            route("", "10.0.0.0", 8),
            route("", "10.0.0.0", 16),
            route("", "fd00::", 8),
            route("red", "10.0.0.0", 9),
        ];
        for _ in 0..routes.len() {
            let mut configuration = Configuration::parse(Path::new("t"), "{}".to_owned()).unwrap();
            configuration.routes = Arc::new(routes.clone());
            let desired = ConfiguredRoutes::new(Arc::new(configuration));
            let find = |vrf, address: &str, length| {
                let found = desired.get(vrf, address.parse().unwrap(), length);
                found.map(|action| action == &v1::route::Action::Special(length.into()))
            };
            assert_eq!(find("", "10.0.0.0", 8), Some(true));
            assert_eq!(find("", "10.0.0.0", 16), Some(true));
            assert_eq!(find("", "fd00::", 8), Some(true));
            assert_eq!(find("red", "10.0.0.0", 9), Some(true));
            assert_eq!((find("", "10.0.0.0", 9), find("blue", "10.0.0.0", 9)), (None, None));
            routes.rotate_left(1);
        }
    }
}
