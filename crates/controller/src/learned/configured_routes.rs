//! The routes of the configuration, which resolve gateways of learned routes.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use stoa_api::v1;

use crate::config::routes::VrfName;
use crate::configuration::Configuration;

/// Direct and static routes.
#[derive(Debug, Default)]
pub struct ConfiguredRoutes {
    configuration: Option<Arc<Configuration>>,
}

impl ConfiguredRoutes {
    /// The routes of a configuration.
    pub fn new(configuration: Arc<Configuration>) -> Self {
        Self { configuration: Some(configuration) }
    }

    /// Whether these are the routes of this configuration, which may share them with an earlier one.
    pub fn is_of(&self, configuration: &Configuration) -> bool {
        self.configuration.as_ref().is_some_and(|own| {
            own.routes.is_same(&configuration.routes)
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
        routes.get(vrf, &IpNet::new(address, length).ok()?)?.action.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn routes_are_found_by_vrf_and_prefix() {
        let route = |vrf: &str, address: &str, length| {
            let address = stoa_api::text::ip_bytes(address.parse().unwrap());
            v1::Route {
                prefix: Some(v1::Prefix { address, length }),
                vrf: vrf.to_owned(),
                action: Some(v1::route::Action::Special(length as i32)),
                ..v1::Route::default()
            }
        };
        let routes = vec![
            route("red", "10.0.0.0", 9),
            route("", "10.0.0.0", 16),
            route("", "fd00::", 8),
            route("", "10.0.0.0", 8),
        ];
        let mut configuration = Configuration::parse(Path::new("t"), "{}".to_owned()).unwrap();
        configuration.routes = routes.into();
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
    }
}
