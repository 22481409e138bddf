//! From a valid configuration to the desired state: one file for each capability that is not in the list of
//! `capability` yet.
//!
//! `model` has the values as they are in the YANG modules; the other modules check what YANG cannot express and
//! translate to the contract. They know nothing of routes of other origins, of the forwarder's state, nor of who asks:
//! nothing here imports a module of the controller outside this folder, but `prefix` (`tests/guards`).

pub mod addresses;
mod bfd;
mod cross_connects;
mod data_path;
pub mod host_addresses;
pub mod host_bits;
mod host_interfaces;
mod interfaces;
mod mac;
#[allow(missing_docs)] // named and described in the YANG modules
pub mod management;
#[allow(missing_docs)] // named and described in the YANG modules
pub(crate) mod model;
mod policy;
mod ports;
pub mod route_sources;
mod router_advertisement;
pub mod routes;
pub mod settings;
mod tunnels;
pub mod vrf_name;
mod vrrp;
pub mod workers;

use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use addresses::Addressing;
pub use data_path::interface_path;
use management::Management;
use model::Vrf;
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
}

/// Translates settings, of which `given` are explicit, and adds what is wrong with them to `errors`.
pub(crate) fn translate(
    settings: &mut Settings<'_>,
    given: &[(String, String)],
    errors: &mut ValidationErrors,
) -> Translated {
    let model = &mut settings.model;
    stoa_yang::unsupported::check(given, errors);
    let interfaces::Desired { ports, interfaces, mut addressing } =
        interfaces::desired(&model.interfaces.interface, errors);
    let (statics, floating) = routes::desired(&model.routing, &addressing, errors);
    let vrf = |vrf: &Vrf| vrf.of.clone();
    let desired = v1::Desired {
        workers: Some(workers::desired(&model.system.workers, errors)),
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
        rules: policy::desired(&model.routing.policy, errors),
    };
    let route_sources = route_sources::desired(&model.routing, &model.interfaces.interface, errors);
    let kernel_tables = policy::kernel_tables(&model.vrfs, errors);
    let (management, access) = (&mut model.management, &mut model.access);
    let (management, access) = (std::mem::take(management), std::mem::take(access));
    let management = management::desired(management, access, errors);
    Translated { desired, addressing, statics, floating, route_sources, kernel_tables, management }
}
