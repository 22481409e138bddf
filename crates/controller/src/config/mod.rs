//! From a valid configuration to the desired state: ports, interfaces, addresses, routes and management, on which the
//! capabilities of the list (`capability`) stand.
//!
//! `model` has the values as they are in the YANG modules; the other modules check what YANG cannot express and
//! translate to the contract. They know nothing of routes of other origins, of the forwarder's state, nor of who asks:
//! nothing here imports a module of the controller outside this folder, but `prefix` (`tests/guards`).

pub mod addresses;
pub mod blocks;
pub(crate) mod data_path;
pub mod host_addresses;
pub mod host_bits;
mod interfaces;
mod mac;
#[allow(missing_docs)] // named and described in the YANG modules
pub(crate) mod model;
pub(crate) mod others;
pub(crate) mod ports;
pub mod routes;
pub mod settings;
pub mod shared_map;
pub mod vrf_name;

use std::collections::HashMap;

use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use addresses::Addressing;
pub use data_path::interface_path;
pub use interfaces::{Interfaces, has_address};
use management::Management;
use model::Vrf;
pub use model::{login, management, route_sources};
use route_sources::RouteSourceConfig;
use routes::{FloatingStaticRoutes, StaticRoutes};
use settings::Settings;

/// What a configuration says, capability by capability.
#[derive(Debug)]
pub struct Translated {
    /// The desired state of the forwarder, without its routes.
    pub desired: v1::Desired,
    /// Addresses and subnets of the interfaces.
    pub addressing: Addressing,
    /// Static routes that win over learned ones.
    pub statics: StaticRoutes,
    /// Static routes that compete with learned ones.
    pub floating: FloatingStaticRoutes,
    /// The route sources.
    pub route_sources: Vec<RouteSourceConfig>,
    /// The numbers of the kernel tables of VRFs.
    pub kernel_tables: Vec<(String, u32)>,
    /// Users, access rules and servers of the management.
    pub management: Management,
    /// The portal where hosts log in, and their users.
    pub login: model::Login,
}

impl Translated {
    /// The desired interfaces of some configured ones, with those.
    pub(crate) fn interfaces_of<'a>(
        &mut self,
        given: impl Iterator<Item = &'a model::Interface>,
    ) -> impl Iterator<Item = (&'a model::Interface, &mut v1::Interface)> {
        let given: HashMap<&str, &model::Interface> =
            given.map(|interface| (interface.name.as_str(), interface)).collect();
        // Most capabilities have settings on few interfaces, or on none.
        let number = if given.is_empty() { 0 } else { self.desired.interfaces.len() };
        let all = self.desired.interfaces[..number].iter_mut();
        all.filter_map(move |desired| Some((*given.get(desired.name.as_str())?, desired)))
    }
}

/// Translates settings, of which `given` are explicit, and adds what is wrong with them to `errors`. `addressing` has
/// the addresses of interfaces that are not in the settings.
pub(crate) fn translate(
    settings: &Settings<'_>,
    given: &[(String, String)],
    addressing: Addressing,
    errors: &mut ValidationErrors,
) -> Translated {
    let Settings { model, others, .. } = settings;
    stoa_yang::unsupported::check(given, errors);
    let interfaces::Desired { ports, interfaces, mut addressing } =
        interfaces::desired(&model.interfaces.interface, (others, addressing), errors);
    let (statics, floating) = routes::desired(&model.routing, &addressing, errors);
    let vrf = |vrf: &Vrf| vrf.of.clone();
    let desired = v1::Desired {
        workers: None,
        ports,
        interfaces,
        routes: Vec::new(),
        neighbors: std::mem::take(&mut addressing.neighbors),
        reassembly: Some(model.system.reassembly),
        multipath: model.system.multipath.hash_seed.map(|hash_seed| v1::Multipath { hash_seed }),
        vrfs: model.vrfs.vrf.iter().map(vrf).collect(),
        punts: Vec::new(),
        limits: Some(model.system.limits),
        logging: None,
        rules: Vec::new(),
        acl_rules: Vec::new(),
        zone_pairs: Vec::new(),
        nat: None,
        nptv6: None,
        siit: None,
        ipfix: None,
        flow_limits: None,
        existing_flows: v1::ExistingFlows::Rematch.into(),
        flow_sync: None,
        ipsec: None,
    };
    let (route_sources, kernel_tables) = (Vec::new(), Vec::new());
    let (management, login) = Default::default();
    Translated {
        desired,
        addressing,
        statics,
        floating,
        route_sources,
        kernel_tables,
        management,
        login,
    }
}
